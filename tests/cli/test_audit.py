"""``nabladp audit``: a table per release, an exit code, and neither a table nor a ledger in sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nabladp.cli import main
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import Guarantee, Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("region", "categorical", values=("north", "south", "east")), Attribute("health", "boolean")))
PLAN = """
[table]
source = "there_is_no_such_table.csv"
schema = "schema.toml"
[budget]
ledger = "ledger.db"
per_attribute = { rho = 1.0 }
[[release]]
name = "both"
mechanism = "NoisyMarginals"
sets = [["region", "health"]]
budget = { rho = 0.5 }
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    SCHEMA.save(tmp_path / "schema.toml")
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "plan.toml"


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    try:
        code = main(arguments)
    except SystemExit as done:
        code = int(done.code or 0)
    return int(code or 0), capsys.readouterr().out


def test_audit_prints_a_table_and_leaves_nothing_behind(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(plan.parent.iterdir())
    code, said = run(["audit", "plan.toml", "--seconds", "2"], capsys)
    assert code == 0 and "both (NoisyMarginals)" in said and "consistent" in said
    assert "region + health" in said and "No claim is refuted" in said
    assert sorted(plan.parent.iterdir()) == before


def test_json_sets_and_picture(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    options = ["--set", "health", "--set", "region+health", "--seconds", "1", "--beta", "0.05"]
    code, said = run(["audit", "plan.toml", "--json", *options, "--picture", "found.html"], capsys)
    body = json.loads(said)
    assert code == 0 and body["passed"]
    rows = body["releases"]["both"]["statistical"]["sets"]
    assert [row["attributes"] for row in rows] == [["health"], ["region", "health"]]
    page = (plan.parent / "found.html").read_text()
    assert "<html" in page.lower() and 'src="http' not in page  # nothing is loaded from elsewhere


def test_refuted_plan_exits_with_one(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(self: NoisyMarginals, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["region", "health"], Rho(0.25))

    monkeypatch.setattr(NoisyMarginals, "guarantee", half)
    code, said = run(["audit", "plan.toml", "--seconds", "1"], capsys)
    assert code == 1 and "refuted" in said and "do not release" in said


@pytest.mark.parametrize("wrong", [["--set", "helth"], ["--beta", "2"]])
def test_wrong_options_are_refused_with_a_fix(wrong: list[str], plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(["audit", "plan.toml", "--json", *wrong], capsys)
    assert code == 1 and json.loads(said)["fix"]
