"""What the 2020 Census redistricting release says about every set of attributes.

    python examples/census2020/certificate.py [folder]

prints the certificate and, where a folder is named, writes certificate.json there. ``allocation.csv`` holds the
published privacy-loss allocation: for every noisy query of the production run, the attributes it reads and its exact ρ.
A query below the top level of the geography also reads where a person lives, so "geography" is an attribute like any
other. Records are replaced, not added; what was published without noise (invariants) is outside this accounting.
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
from nabladp.privacy.conversion import epsilon_from_rho

ALLOCATION = Path(__file__).with_name("allocation.csv")
DELTAS = (1e-10, 1e-6)  # the Bureau's certificates, the paper
CONVERSIONS = ("tight", "paper")
RACE_AND_ETHNICITY = ("cenrace", "hispanic")


def load(run: str) -> Guarantee:
    """Every query is one noisy marginal: it costs whoever differs on an attribute that it reads, once."""
    with ALLOCATION.open(newline="", encoding="utf-8") as file:
        queries = [row for row in csv.DictReader(file) if row["run"] == run]
    read = [row["attributes"].split("+") if row["attributes"] else [] for row in queries]
    attributes = tuple(dict.fromkeys(name for names in read for name in names))
    costs = [Rho(Fraction(row["rho"])) for row in queries]
    parts = [Guarantee.touch(attributes, names, cost) for names, cost in zip(read, costs, strict=True)]
    return Guarantee.compose(attributes, parts)


def figure(guarantee: Guarantee, attributes: tuple[str, ...]) -> dict[str, Any]:
    epsilons = {
        f"{delta:g}": {kind: guarantee.epsilon(attributes, delta, kind) for kind in CONVERSIONS} for delta in DELTAS
    }
    return {"attributes": attributes, "rho": guarantee.rho(attributes), "epsilon": epsilons}


def figures(guarantee: Guarantee, largest: int = 3) -> Iterator[dict[str, Any]]:
    """Every attribute, pair and triple, and the whole record."""
    names = guarantee.universe.roots
    for size in range(1, min(largest, len(names) - 1) + 1):
        for chosen in combinations(names, size):
            yield figure(guarantee, chosen)
    yield figure(guarantee, names)


def certificate() -> dict[str, Any]:
    persons, units = load("US persons"), load("US units")
    both = persons.per_person().rho + units.per_person().rho
    return {
        "persons": list(figures(persons)),
        "units": list(figures(units)),
        "race and ethnicity": figure(persons, RACE_AND_ETHNICITY),
        "persons and units": {
            "rho": both,
            "epsilon": {f"{delta:g}": epsilon_from_rho(both, delta) for delta in DELTAS},
            "note": "Two neighbour relations added up: a person's record and a housing unit's.",
        },
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'attributes':<44}{'ρ':>8}   ε at δ = 1e-10 (tight, paper)   ε at δ = 1e-06 (tight, paper)"
    for shown in [*found["persons"], *found["units"]]:
        epsilons = "".join(f"{e['tight']:>18.2f}{e['paper']:>14.2f}" for e in shown["epsilon"].values())
        yield f"{' + '.join(shown['attributes']):<44}{shown['rho']:>8.4f}{epsilons}"
    told, whole = found["race and ethnicity"], found["persons and units"]
    yield (
        f"Race and ethnicity of a person whose other attributes stay as they are: {told['rho']:.2f}-zCDP, "
        f"ε = {told['epsilon']['1e-06']['tight']:.2f} at δ = 1e-6."
    )
    yield (
        f"Persons and housing units together: ρ = {whole['rho']:.2f}, ε = {whole['epsilon']['1e-06']:.2f} at δ = 1e-6."
    )


def main(folder: str | None = None) -> None:
    found = certificate()
    print("\n".join(lines(found)))
    if folder is not None:
        goal = Path(folder)
        goal.mkdir(parents=True, exist_ok=True)
        (goal / "certificate.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
