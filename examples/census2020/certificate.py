"""What the 2020 Census redistricting data can tell about every set of attributes.

    python examples/census2020/certificate.py [folder]

prints the certificate and, where a folder is named, writes there, for the United States and for Puerto Rico, the
certificate as JSON and the report with its explorer. README.md says where the facts come from and what they cover.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from nabladp import Guarantee, Rho
from nabladp.privacy import epsilon_from_rho
from nabladp.privacy.units import format_rounded
from nabladp.report import Certificate, Claim, write

ALLOCATION = Path(__file__).with_name("allocation.csv")
DELTAS = (1e-10, 1e-6)  # the Bureau's certificates, the paper
CONVERSIONS = ("tight", "paper")
RACE_AND_ETHNICITY = ("cenrace", "hispanic")
AREAS = {  # how runs are called, and the files: certificate, report
    "US": ("the United States", "certificate.json", "report.html"),
    "PR": ("Puerto Rico", "puerto-rico.json", "puerto-rico.html"),
}
ATTRIBUTES = {
    "cenrace": "race: 63 combinations of six",
    "hispanic": "of Hispanic or Latino origin, or not",
    "votingage": "18 or older, or not",
    "hhgq": "in a household, or in one of seven types of group quarters",
    "geography": "where: state, county, tract, block group, block",
    "h1": "occupied or vacant",
}
NOT_COVERED = {
    "Invariants": "Published without noise, and so outside of this guarantee: the population of every state, and for "
    "every block the number of housing units and of group quarters of each type.",
    "Added or missing records": "Records are replaced, never added or removed: two tables are compared that hold as "
    "many records and differ in the attributes of one.",
    "Later files of the same census": "They have budgets of their own, which come on top of this one.",
}


def load(run: str) -> Guarantee:
    """Every query is one noisy marginal: it costs whoever differs on an attribute that it reads, once."""
    with ALLOCATION.open(newline="", encoding="utf-8") as file:
        queries = [row for row in csv.DictReader(file) if row["run"] == run]
    read = [row["attributes"].split("+") for row in queries]
    attributes = tuple(dict.fromkeys(name for names in read for name in names))
    costs = [Rho(Fraction(row["rho"])) for row in queries]
    parts = [Guarantee.touch(attributes, names, cost) for names, cost in zip(read, costs, strict=True)]
    return Guarantee.compose(attributes, parts)


# ---- every figure ---------------------------------------------------------------------------------------------------


def figure(guarantee: Guarantee, attributes: tuple[str, ...]) -> dict[str, Any]:
    return {"attributes": attributes, "rho": guarantee.rho(attributes), "epsilon": epsilons(guarantee.rho(attributes))}


def epsilons(rho: float) -> dict[str, dict[str, float]]:
    """At both δ, by both conversions."""
    return {f"{delta:g}": {kind: epsilon_from_rho(rho, delta, kind) for kind in CONVERSIONS} for delta in DELTAS}


def figures(guarantee: Guarantee, largest: int = 3) -> Iterator[dict[str, Any]]:
    """Every attribute, pair and triple, and the whole record."""
    names = guarantee.universe.roots
    for size in range(1, min(largest, len(names) - 1) + 1):
        for chosen in combinations(names, size):
            yield figure(guarantee, chosen)
    yield figure(guarantee, names)


def certificate(area: str = "US") -> dict[str, Any]:
    persons, units = load(f"{area} persons"), load(f"{area} units")
    both = persons.per_person().rho + units.per_person().rho
    return {
        "persons": list(figures(persons)),
        "units": list(figures(units)),
        "race and ethnicity": figure(persons, RACE_AND_ETHNICITY),
        "persons and units": {
            "rho": both,
            "epsilon": epsilons(both),
            "note": "Two neighbour relations added up: a person's record and a housing unit's.",
        },
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'':<58}{'ε at δ = 1e-10':>18}{'ε at δ = 1e-06':>18}"
    yield f"{'attributes':<50}{'ρ':>8}{'tight':>10}{'paper':>8}{'tight':>10}{'paper':>8}"
    for shown in [*found["persons"], *found["units"]]:
        told = "".join(f"{e['tight']:>10.2f}{e['paper']:>8.2f}" for e in shown["epsilon"].values())
        yield f"{' + '.join(shown['attributes']):<50}{shown['rho']:>8.4f}{told}"
    yield statement(found)
    whole = found["persons and units"]
    told = whole["epsilon"]["1e-06"]
    yield (
        f"Persons and housing units added up: ρ = {whole['rho']:.2f}, ε = {told['tight']:.2f} at δ = 1e-6 "
        f"(paper's conversion: {told['paper']:.2f})."
    )


def statement(found: dict[str, Any]) -> str:
    """What the paper says of its example, from the exact allocation."""
    told = found["race and ethnicity"]["epsilon"]["1e-06"]
    return (
        "Race and ethnicity of a person whose other attributes stay as they are: "
        f"{found['race and ethnicity']['rho']:.2f}-zCDP, ε = {told['tight']:.2f} at δ = 1e-6 "
        f"(paper's conversion: {told['paper']:.2f})."
    )


# ---- the report -----------------------------------------------------------------------------------------------------


def certified(area: str) -> Certificate:
    """Persons and housing units side by side: two kinds of rows, so two guarantees."""
    where = AREAS[area][0]
    persons, units = load(f"{area} persons"), load(f"{area} units")
    both = persons.per_person().rho + units.per_person().rho
    added = (
        f"Persons and housing units are two kinds of records, and each guarantee holds for its own. Both added up come "
        f"to ρ = {up(both)}, ε = {up(epsilon_from_rho(both, DELTAS[1]))} at δ = 1e-6 by the tight conversion."
    )
    claims = (
        Claim(
            persons,
            "Persons",
            DELTAS[0],
            note=f"{statement(certificate(area))} The figures below are at δ = 1e-10, as in "
            "the Bureau's certificates, and rounded up.",
            attributes=described(persons),
            adversaries={
                "race and ethnicity": RACE_AND_ETHNICITY,
                "everything but where someone lives": tuple(n for n in persons.universe.roots if n != "geography"),
            },
            not_covered=NOT_COVERED | {"Persons and housing units together": added},
        ),
        Claim(
            units,
            "Housing units",
            DELTAS[0],
            ("housing unit", "housing units"),
            attributes=described(units),
            not_covered=NOT_COVERED | {"Persons and housing units together": added},
        ),
    )
    return Certificate(claims, f"2020 Census redistricting data of {where}")


def described(guarantee: Guarantee) -> dict[str, str]:
    return {name: ATTRIBUTES[name] for name in guarantee.universe.roots}


def up(value: float) -> str:
    return format_rounded(value, 4, up=True)


def keep(folder: Path) -> None:
    """The certificate, which is also what ``nabladp report certificate.json`` reads, and its page."""
    folder.mkdir(parents=True, exist_ok=True)
    for area, (_, file, page) in AREAS.items():
        whole = certified(area)
        found = {**whole.to_json(), "figures": certificate(area)}
        (folder / file).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write(whole, folder / page)


def main(folder: str | None = None) -> None:
    print("\n".join(lines(certificate())))
    if folder is not None:
        keep(Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:2])
