"""``nabladp audit``: a table per release, an exit code, and neither a table nor a ledger in sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nabladp.audit import Audit
from nabladp.audit.deadline import Deadline
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
    code, said = run(["audit", "plan.toml", "--seconds", "4"], capsys)
    assert code == 0 and "both (NoisyMarginals)" in said and "consistent" in said
    assert "region + health" in said and "No claim is refuted" in said
    assert sorted(plan.parent.iterdir()) == before


def test_json_sets_and_picture(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    options = ["--set", "health", "--set", "region+health", "--seconds", "5", "--beta", "0.05"]
    code, said = run(["audit", "plan.toml", "--json", *options, "--picture", "found.html"], capsys)
    body = json.loads(said)
    assert code == 0 and body["passed"]
    found = body["releases"]["both"]["statistical"]
    looked_at = [row["attributes"] for row in found["sets"]]
    assert looked_at and looked_at + found["left_out"] == [["health"], ["region", "health"]]
    page = (plan.parent / "found.html").read_text()
    assert "<html" in page.lower() and 'src="http' not in page  # nothing is loaded from elsewhere


def test_refuted_plan_exits_with_one(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(self: NoisyMarginals, schema: Schema, n: int) -> Guarantee:
        return Guarantee.touch(schema, ["region", "health"], Rho(0.25))

    monkeypatch.setattr(NoisyMarginals, "guarantee", half)
    code, said = run(["audit", "plan.toml", "--seconds", "3"], capsys)
    assert code == 1 and "refuted" in said and "do not release" in said


@pytest.mark.parametrize("wrong", [["--set", "helth"], ["--beta", "2"]])
def test_wrong_options_are_refused_with_a_fix(wrong: list[str], plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(["audit", "plan.toml", "--json", *wrong], capsys)
    assert code == 1 and json.loads(said)["fix"]


def test_the_time_is_for_the_whole_plan_and_what_is_left_out_is_named(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three releases share twelve seconds of a clock that only the audits turn on; what one leaves, others get."""
    more = "".join(PLAN[PLAN.index("[[release]]") :].replace("both", name) for name in ("second", "third"))
    plan.write_text(PLAN + more)
    now, given = [100.0], []

    def after(cls: type[Deadline], seconds: float) -> Deadline:
        return cls(now[0] + seconds, lambda: now[0])

    def audited(mechanism: object, schema: Schema, *, seconds: float, **_: object) -> Audit:
        given.append(seconds)
        now[0] += 1 if len(given) == 1 else 30
        late = () if len(given) == 1 else ("the exact audit", "runs for health")
        return Audit("NoisyMarginals", None, "not asked for", None, left_out=late)

    monkeypatch.setattr(Deadline, "after", classmethod(after))
    monkeypatch.setattr("nabladp.audit.audit", audited)
    code, said = run(["audit", "plan.toml", "--seconds", "12"], capsys)
    assert code == 0 and given == pytest.approx([4, 5.5, 0], abs=0.01)
    assert "Left out, for want of time: the exact audit; runs for health." in " ".join(said.split())
    assert "There was no time for all of: second, third." in " ".join(said.split())
    assert "both (NoisyMarginals): the loss of no set was compared" in " ".join(said.split())


def test_a_real_plan_says_what_a_moment_was_too_short_for(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(["audit", "plan.toml", "--json", "--seconds", "0.001"], capsys)
    body = json.loads(said)
    assert code == 0 and "the exact audit" in body["releases"]["both"]["left_out"]


@pytest.mark.parametrize("seconds", ["0", "-3"])
def test_no_time_at_all_is_refused(seconds: str, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(["audit", "plan.toml", "--json", "--seconds", seconds], capsys)
    assert code == 1 and "seconds" in json.loads(said)["message"]
