"""The 2020 Census allocation: the numbers of the paper and of the Bureau's own certificates."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho

PERSON = Universe(("geography", "hhgq", "votingage", "hispanic", "cenrace"))


def read_run(data: Path, run: str, universe: Universe, top_level: str) -> Guarantee:
    """One touch term per query; every query below the top level also reads geography."""
    parts = []
    with (data / "census2020_pl94" / "allocation.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["run"] != run:
                continue
            on = [] if row["attributes"] == "-" else row["attributes"].split("+")
            if row["geolevel"] != top_level:
                on = [*on, "geography"]
            parts.append(Guarantee.touch(universe, on, Rho(Fraction(row["rho_exact"]))))
    return Guarantee.compose(universe, parts)


@pytest.fixture(scope="module")
def persons(data: Path) -> Guarantee:
    return read_run(data, "US_persons", PERSON, "US")


def test_race_and_ethnicity_as_in_the_paper(persons: Guarantee) -> None:
    both = ["cenrace", "hispanic"]
    assert persons.rho(both) == pytest.approx(1.016057, abs=5e-7)
    assert persons.epsilon(both, 1e-6) == pytest.approx(7.8384, abs=5e-5)


@pytest.mark.parametrize(
    ("attribute", "printed"), [("hhgq", 7.24), ("votingage", 7.57), ("hispanic", 10.04), ("cenrace", 10.08)]
)
def test_certificate_per_attribute(persons: Guarantee, attribute: str, printed: float) -> None:
    assert round(persons.epsilon([attribute], 1e-10), 2) == printed


def test_certificate_total(persons: Guarantee) -> None:
    person = persons.per_person()
    assert person.rho == pytest.approx(2.5560, abs=1e-3)
    assert round(person.epsilon(1e-10), 2) == 17.14


def test_the_four_person_attributes_alone_miss_what_geography_reveals(persons: Guarantee) -> None:
    assert persons.rho(["hhgq", "votingage", "hispanic", "cenrace"]) == pytest.approx(1.0269, abs=1e-4)


def test_persons_and_units_together(persons: Guarantee, data: Path) -> None:
    units = read_run(data, "US_units", Universe(("geography", "h1")), "US")
    total = persons.per_person().rho + units.per_person().rho
    assert total == pytest.approx(2.631169, abs=5e-7)
    assert epsilon_from_rho(total, 1e-6) == pytest.approx(13.80, abs=5e-3)
