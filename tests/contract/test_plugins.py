"""A package adds a mechanism by an entry point; it can neither replace one of ours nor stop it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from every_mechanism import SCHEMA
from installed import Desk, pip_install, run_python

import nabladp
from nabladp.errors import PlanError
from nabladp.mechanisms import MECHANISMS, mechanism_class, registry
from nabladp.tables import CodedTable

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "plugin"
Offer = Callable[..., None]


# ---- the example, installed for real ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_example_is_planned_released_reported_compared_and_audited(tmp_path: Path) -> None:
    desk = Desk(pip_install(PLUGIN, tmp_path / "site"), tmp_path, "YesTotal")
    priced = desk.ask("cost", "plan.toml", "--json")
    assert priced["fits"] and priced["attributes"]["sick"]["pure_epsilon"] == 0.5
    desk.ask("release", "plan.toml", "--new-ledger", "--json")
    (record,) = (tmp_path / "plan-release").rglob("release.json")
    body = json.loads(record.read_bytes())
    assert body["mechanism"] == "YesTotal" and body["parameters"] == {"budget": {"pure": 0.5}, "column": "sick"}
    desk.ask("report", "plan-release")
    report = (tmp_path / "plan-release/report.html").read_text(encoding="utf-8")
    assert "YesTotal" in report and "<table" in report
    compared = desk.ask("compare", "plan-release", "people.parquet", "--to", "mine.html", "--json")
    true = int(CodedTable(SCHEMA, desk.people).marginals([("sick",)])[0][1])
    assert compared["releases"][0]["tables"][0]["actual"] == abs(body["values"]["count"] - true)
    audited = desk.ask("audit", "plan.toml", "--seconds", "2", "--set", "sick", "--json")
    assert audited["passed"] and "YesTotal" in json.dumps(audited)
    assert "YesTotal" in json.dumps(desk.ask("ledger", "show", "ledger.db", "--json"))


@pytest.mark.slow
def test_without_the_package_a_plan_says_what_is_missing(tmp_path: Path) -> None:
    answer = Desk(tmp_path, tmp_path, "YesTotal").ask("cost", "plan.toml", "--json", code=1)
    assert answer["error"] == "PlanError" and "'YesTotal'" in answer["message"] and "package" in answer["fix"]


def test_the_example_cites_the_same_steps_in_code_and_proof() -> None:
    code = (PLUGIN / "src/nabladp_yes_total/mechanism.py").read_text(encoding="utf-8")
    proof = (PLUGIN / "src/nabladp_yes_total/PROOF.md").read_text(encoding="utf-8")
    for anchor in ("[touch]", "[scale]", "[noise]"):
        assert f"# {anchor}" in code and f"`{anchor}`" in proof


# ---- packages with faults --------------------------------------------------------------------------------------------


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Puts a package on the path that offers a mechanism."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(package: str, name: str, code: str) -> None:
        module = package.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[nabladp.mechanisms]\n{name} = {module}:{name}\n")
        registry._clashes.cache_clear()

    return put


@pytest.fixture(autouse=True)
def forget() -> None:
    registry._clashes.cache_clear()


UNDECLARED = """\
from dataclasses import dataclass
from nabladp import NoisyMarginals

@dataclass(frozen=True)
class Loud(NoisyMarginals):
    volume: int = 3
"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("class Loud: pass", "does not inherit"),
        ("Loud = 3", "does not inherit"),
        ("import nothing_of_the_kind", "cannot be loaded (ModuleNotFoundError)"),
        ("raise SystemError", "cannot be loaded (SystemError)"),
        ("Silent = 3", "cannot be loaded (AttributeError)"),
        ("from nabladp import NoisyMarginals as Loud", "another name, 'NoisyMarginals'"),
        ("from nabladp.mechanisms import Mechanism\nclass Loud(Mechanism): pass", "lacks expected_error, guarantee"),
        (UNDECLARED, "does not declare its parameters"),
    ],
)
def test_a_broken_package_is_named_and_stops_nothing_else(offer: Offer, code: str, why: str) -> None:
    offer("loud-things", "Loud", code)
    with pytest.raises(PlanError) as caught:
        mechanism_class("Loud")
    assert "'loud-things'" in caught.value.message and why in caught.value.message and "uninstall" in caught.value.fix
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [mechanism_class(name).__name__ for name in MECHANISMS] == list(MECHANISMS)


def test_a_name_of_ours_cannot_be_taken(offer: Offer) -> None:
    offer("other-mwem", "MWEM", "raise SystemError")
    with pytest.warns(UserWarning, match=r"The package 'other-mwem' offers a mechanism 'MWEM'.*nabladp's own is used"):
        assert mechanism_class("MWEM") is nabladp.MWEM
    assert "MWEM" not in registry.plugins()


def test_of_two_packages_with_one_name_neither_is_taken(offer: Offer) -> None:
    for package in ("one-loud", "two-loud"):
        offer(package, "Loud", "class Loud: pass")
    with pytest.raises(PlanError, match=r"Several packages offer a mechanism 'Loud': one-loud, two-loud\."):
        mechanism_class("Loud")


def test_unknown_names_get_the_nearest_of_all(offer: Offer) -> None:
    offer("loud-things", "VeryLoud", "class VeryLoud: pass")
    with pytest.raises(PlanError, match="Did you mean 'VeryLoud'"):
        mechanism_class("VryLoud")
    with pytest.raises(PlanError, match="Did you mean 'MWEM'"):
        mechanism_class("MWM")


def test_broken_metadata_stops_nothing(tmp_path: Path) -> None:
    info = tmp_path / "bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(b"\xff\xfe")
    (info / "entry_points.txt").write_bytes(b"[nabladp.mechanisms\n= \xff\n")
    code = "from nabladp.mechanisms import mechanism_class as c; print(c('MWEM').__name__)"
    assert run_python(tmp_path, "-c", code, cwd=tmp_path).strip() == "MWEM"
