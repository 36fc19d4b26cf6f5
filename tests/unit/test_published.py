"""One function publishes, for Python and the command: bind, rename, announce, then the report."""

from __future__ import annotations

import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nabladp import CDP, Attribute, Budget, NoisyMarginals, Plan, Release, Schema, Session
from nabladp.errors import NablaDPError, ReleaseError, ReportWarning
from nabladp.release import recover
from nabladp.release.publish import recover_releases

SCHEMA = Schema((Attribute("a", "categorical", values=("x", "y")), Attribute("b", "boolean")))
IT = NoisyMarginals(CDP(0.1), k=1)
PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 100
[budget]
ledger = "ledger.db"
per_attribute = { cdp = 2 }
[[release]]
name = "ages"
mechanism = "NoisyMarginals"
k = 1
budget = { cdp = 0.1 }
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    people = pa.table({"a": ["x", "y"] * 50, "b": [True, False] * 50})
    made = Session(people, SCHEMA, Budget(per_attribute=CDP(2)), tmp_path / "ledger.db", new_ledger=True)
    yield made
    made.ledger.close()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    SCHEMA.save(tmp_path / "schema.toml")
    (tmp_path / "people.csv").write_text("a,b\n" + "x,true\ny,false\n" * 50)
    (tmp_path / "plan.toml").write_text(PLAN)
    return Plan.load(tmp_path / "plan.toml")


@pytest.fixture
def broken_report(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def fail(*_: object) -> str:
        raise ReleaseError("The template is missing.", fix="Install nabladp again.")

    monkeypatch.setattr("nabladp.report.page.page", fail)
    return monkeypatch


def test_a_session_writes_the_report_of_one_release_and_of_several(session: Session, tmp_path: Path) -> None:
    one = session.release(IT, "one", tmp_path / "one")
    assert one.digest in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    several = session.release_all([("first", IT), ("second", IT)], tmp_path / "several")
    page = (tmp_path / "several" / "report.html").read_text(encoding="utf-8")
    assert all(release.digest in page for release in several) and "<title>several" in page


def test_a_release_that_is_not_written_has_no_report(session: Session, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    session.release(IT)
    assert sorted(tmp_path.iterdir()) == before


def test_a_plan_writes_the_same_page_as_the_command(plan: Plan, tmp_path: Path) -> None:
    from nabladp.report import report

    plan.run(new_ledger=True)
    folder = tmp_path / "plan-release"
    assert (folder / "report.html").read_text(encoding="utf-8") == report(folder)


def test_releases_are_public_before_the_report_is_begun(plan: Plan) -> None:
    told: list[Any] = []

    def announce(releases: Sequence[Release], folder: Path) -> None:
        assert Release.load(folder / "ages") == releases[0] and not (folder / "report.html").exists()
        told.append("announced")

    def stage(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    published = plan.publish(stage=stage, announce=announce, new_ledger=True)
    after = told[told.index("announced") + 1 :]
    assert after == [("writing the report", 0, 0), ("writing the report: release", 0, 1)]
    assert not [step for step in told[: told.index("announced")] if "report" in step[0]]
    assert published.problem is None and published.report == published.folder / "report.html"


def test_a_report_that_fails_says_why_and_how_to_repeat_it(
    session: Session, tmp_path: Path, broken_report: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "it's here"
    with pytest.warns(ReportWarning, match="could not be written: The template is missing") as caught:
        release = session.release(IT, "one", folder)
    assert caught[0].filename == __file__  # the caller's line
    assert Release.load(folder) == release and session.ledger.bound("one") == release.digest
    command = str(caught[0].message).split("`")[1]
    assert shlex.split(command) == ["nabladp", "report", str(folder)]
    broken_report.undo()
    subprocess.run([sys.executable, "-m", *shlex.split(command)], check=True)
    assert release.digest in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError("CANARY"), "RuntimeError"),
        (OSError(28, "CANARY"), "No space left on device"),
        (ReleaseError("Cannot write."), "Cannot write."),
    ],
)
def test_a_foreign_error_shows_no_value(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr("nabladp.report.page.page", fail)
    published = session.publish([("a", IT)], tmp_path / "out")
    assert published.report is None and published.problem is not None
    assert why in str(published.problem) and "CANARY" not in str(published.problem)


def test_a_report_that_is_stopped_leaves_the_release(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("nabladp.report.page.page", stop)
    with pytest.raises(KeyboardInterrupt):
        session.release_all([("a", IT)], tmp_path / "new" / "out")
    release = Release.load(tmp_path / "new" / "out" / "a")
    assert session.ledger.bound(release.name) == release.digest and session.ledger.unfinished() == []


def test_what_is_recovered_has_its_report(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("nabladp.release.publish.rename_new", full)
    for name in ("one", "two"):
        with pytest.raises(NablaDPError, match="recover"):
            session.release(IT, name, tmp_path / name)
    monkeypatch.undo()
    first, second = (next(tmp_path.glob(f".{name}.pending-*")) for name in ("one", "two"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (recover(first, session.ledger) / "report.html").exists()
    told: list[Path] = []
    published = recover_releases(second, session.ledger, announce=lambda _, folder: told.append(folder))
    assert told == [tmp_path / "two"] and published.report == tmp_path / "two" / "report.html"
    assert [release.name for release in published.releases] == ["two"]
