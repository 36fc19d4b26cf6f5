"""The Census example: our own list of the published allocation, the printed certificates' figures, and the paper's."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nabladp.privacy import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.report import Certificate, report

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "census2020" / "certificate.py"
SCALES = {"persons": Fraction(542, 339), "units": Fraction(3379, 12343)}  # one over the published global scales
PRINTED = {"hhgq": 7.24, "votingage": 7.57, "hispanic": 10.04, "cenrace": 10.08}  # at δ = 1e-10, by the Bureau
RUNS = ["US persons", "US units", "PR persons", "PR units"]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("census_certificate", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def queries(example: Any, run: str) -> list[tuple[frozenset[str], Fraction]]:
    with example.ALLOCATION.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == run]
    return [(frozenset(row["attributes"].split("+")), Fraction(row["rho"])) for row in rows]


def tight(rho: float, delta: float) -> float:
    """The least of the bounds over a fine grid of orders: the conversion as its authors print it."""
    order = 1 + np.geomspace(0.5, 500, 20_000)
    return float((rho * order + np.log1p(-1 / order) + (-math.log(delta) - np.log(order)) / (order - 1)).min())


# ---- the allocation -------------------------------------------------------------------------------------------------


def test_our_list_is_the_published_one(example: Any, data: Path) -> None:
    """Fraction for fraction; every query below the top level of the geography also reads where someone is."""
    top = {"US": "US", "PR": "State"}
    found: Counter[tuple[Any, ...]] = Counter()
    with (data / "census2020_pl94" / "allocation.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            read = set() if row["attributes"] == "-" else set(row["attributes"].split("+"))
            read |= set() if row["geolevel"] == top[row["run"][:2]] else {"geography"}
            found[row["run"].replace("_", " "), frozenset(read), Fraction(row["rho_exact"])] += 1
    assert found == Counter((run, *query) for run in RUNS for query in queries(example, run))
    assert found.total() == 130


@pytest.mark.parametrize("run", RUNS)
def test_shares_add_up_exactly_to_the_published_total(example: Any, run: str) -> None:
    total = SCALES[run.split()[1]] ** 2
    assert sum(rho for _, rho in queries(example, run)) == total
    guarantee = example.load(run)
    booked = guarantee.rho_units(guarantee.universe.roots)
    assert 0 <= booked - total * UNIT < 2 * len(queries(example, run)), "each rounded up by less than a unit"


@pytest.mark.parametrize("run", RUNS)
def test_every_figure_of_every_set_by_hand(example: Any, run: str) -> None:
    """ρ: the shares of all queries that read one of the attributes; ε: the two formulas."""
    asked = queries(example, run)
    area, what = run.split()
    for shown in example.certificate(area)[what]:
        rho = float(sum(share for read, share in asked if read & set(shown["attributes"])))
        assert shown["rho"] == pytest.approx(rho, rel=1e-12)
        for name, told in shown["epsilon"].items():
            assert told["tight"] == pytest.approx(tight(rho, float(name)), rel=1e-6)
            assert told["paper"] == pytest.approx(rho + 2 * math.sqrt(rho * -math.log(float(name))), rel=1e-9)


def test_every_attribute_pair_and_triple_is_there(example: Any) -> None:
    for area in ("US", "PR"):
        found = example.certificate(area)
        sizes = Counter(len(set(shown["attributes"])) for shown in found["persons"])
        assert sizes == {1: 5, 2: 10, 3: 10, 5: 1} and len({frozenset(s["attributes"]) for s in found["persons"]}) == 26
        assert [len(shown["attributes"]) for shown in found["units"]] == [1, 1, 2]


# ---- what was printed -----------------------------------------------------------------------------------------------


def told(example: Any, *attributes: str, what: str = "persons", delta: str = "1e-10") -> float:
    (shown,) = [one for one in example.certificate()[what] if set(one["attributes"]) == set(attributes)]
    epsilon: float = shown["epsilon"][delta]["tight"]
    return epsilon


@pytest.mark.parametrize("attribute", PRINTED)
def test_every_attribute_as_certified(example: Any, attribute: str) -> None:
    assert round(told(example, attribute), 2) == PRINTED[attribute]


def test_persons_and_housing_units_as_certified(example: Any) -> None:
    persons = round(told(example, *example.load("US persons").universe.roots), 2)
    units = round(told(example, "geography", "h1", what="units"), 2)
    assert (persons, units) == (17.14, 2.47)
    assert round(persons + units, 2) == 19.61, "the paper adds them up so"


def test_what_the_paper_says(example: Any) -> None:
    found = example.certificate()
    race = found["race and ethnicity"]
    assert race["rho"] == pytest.approx(1.016057, abs=5e-7) and round(race["rho"], 2) == 1.02
    assert race["epsilon"]["1e-06"]["tight"] == pytest.approx(7.8384, abs=5e-5)
    assert math.floor(100 * tight(1.02, 1e-6)) / 100 == 7.85, "the paper's figure, from ρ as it is printed"
    assert race["epsilon"]["1e-06"]["paper"] == pytest.approx(8.51, abs=5e-3)
    whole = found["persons and units"]
    assert whole["rho"] == pytest.approx(2.631169, abs=5e-7) and round(whole["rho"], 2) == 2.63
    assert round(whole["epsilon"]["1e-06"]["tight"], 1) == 13.8
    parts = [found[what][-1]["rho"] for what in ("persons", "units")]
    assert [round(rho, 2) for rho in parts] == [2.56, 0.07]


def test_without_geography_the_record_would_look_cheap(example: Any) -> None:
    persons: Guarantee = example.load("US persons")
    others = [name for name in persons.universe.roots if name != "geography"]
    assert persons.rho(others) == pytest.approx(1.0269, abs=1e-4)
    assert persons.per_person().rho > 2 * persons.rho(others)


# ---- what is printed and written ------------------------------------------------------------------------------------


def test_it_prints_every_figure(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    printed = capsys.readouterr().out.splitlines()
    for shown in [*example.certificate()["persons"], *example.certificate()["units"]]:
        values = [f"{shown['rho']:.4f}"]
        values += [f"{e[kind]:.2f}" for e in shown["epsilon"].values() for kind in ("tight", "paper")]
        assert [*" + ".join(shown["attributes"]).split(), *values] in [line.split() for line in printed]
    assert "1.02-zCDP, ε = 7.84 at δ = 1e-6 (paper's conversion: 8.51)." in printed[-2]
    assert "ρ = 2.63, ε = 13.80 at δ = 1e-6" in printed[-1]


@pytest.mark.parametrize("page", ["docs/examples.md", "examples/census2020/README.md"])
def test_pages_quote_what_it_prints(example: Any, page: str) -> None:
    printed = list(example.lines(example.certificate()))
    text = (SCRIPT.parents[2] / page).read_text(encoding="utf-8").split("# The 2020 Census")[1]
    quoted = [block.splitlines() for block in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)]
    (told,) = [lines for lines in quoted if any(line.startswith("cenrace") for line in lines)]
    assert [line for line in printed if line in told] == told


def test_it_writes_certificates_and_reports(example: Any, tmp_path: Path) -> None:
    example.main(str(tmp_path / "new"))
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == ["certificate.json", "puerto-rico.html", "puerto-rico.json", "report.html"]
    for area, (_, file, page) in example.AREAS.items():
        place = tmp_path / "new" / file
        kept = Certificate.load(place)
        assert [claim.guarantee for claim in kept.claims] == [example.load(f"{area} {w}") for w in ("persons", "units")]
        assert json.loads(place.read_bytes())["figures"] == json.loads(json.dumps(example.certificate(area)))
        assert report(place) == (tmp_path / "new" / page).read_text(encoding="utf-8"), "nabladp report makes it again"
