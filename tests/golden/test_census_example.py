"""The Census example prints the certificates' figures, from our own list of the published allocation."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path

import pytest

from nabladp.privacy.units import UNIT

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "census2020" / "certificate.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("census_certificate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_attribute_as_certified(example) -> None:
    """Printed by the Bureau at δ = 1e-10, tight conversion."""
    printed = {"hhgq": 7.24, "votingage": 7.57, "hispanic": 10.04, "cenrace": 10.08}
    persons = {shown["attributes"]: shown for shown in example.certificate()["persons"]}
    for name, epsilon in printed.items():
        assert round(persons[(name,)]["epsilon"]["1e-10"]["tight"], 2) == epsilon
    everyone = max(persons, key=len)
    assert round(persons[everyone]["epsilon"]["1e-10"]["tight"], 2) == 17.14
    assert len(persons) == 5 + 10 + 10 + 1


def test_units_race_and_ethnicity_and_the_whole(example) -> None:
    found = example.certificate()
    assert round(found["units"][-1]["epsilon"]["1e-10"]["tight"], 2) == 2.47
    assert found["race and ethnicity"]["rho"] == pytest.approx(1.016057, abs=5e-7)
    assert found["race and ethnicity"]["epsilon"]["1e-06"]["tight"] == pytest.approx(7.8384, abs=5e-5)
    assert found["persons and units"]["rho"] == pytest.approx(2.631169, abs=5e-7)


@pytest.mark.parametrize(("run", "total"), [("US persons", Fraction(2556, 1000)), ("PR persons", Fraction(2556, 1000))])
def test_shares_add_up_to_the_published_total(example, run, total) -> None:
    guarantee = example.load(run)
    assert guarantee.rho_units(guarantee.universe.roots) == pytest.approx(total * UNIT, rel=1e-3)


def test_it_prints_and_writes(example, tmp_path, capsys) -> None:
    example.main(str(tmp_path))
    assert "1.02-zCDP" in capsys.readouterr().out
    assert (tmp_path / "certificate.json").exists()
