"""Names of releases become folders: none leads out of the published folder, into a file of ours, or over a release."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import nabladp.report
from nabladp.errors import NablaDPError, ReleaseError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Guarantee, Ledger
from nabladp.release import Session, publish, recover
from nabladp.release.names import OWN_FILES, is_folder_name
from nabladp.report.claims import Certificate, Claim
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "integer", low=0, high=3),))
IT = NoisyMarginals(CDP(0.1), sets=(("a",),))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "room").mkdir()
    budget = Budget(per_attribute=CDP(9.0))
    rows = pd.DataFrame({"a": [0, 1, 2, 3]})
    return Session(rows, SCHEMA, budget, tmp_path / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


BAD = [
    "../evil",
    "../../evil",
    "/evil",
    "a/b",
    "a\\b",
    "..",
    ".",
    ".hidden",
    "",
    " a",
    "a ",
    "a.",
    "a\nb",
    "x" * 101,
]
BAD += ["a:b", "nul\0", 7, None, ("a",), *sorted(OWN_FILES), "DIGESTS.txt", "Report.HTML"]


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_a_name_that_is_no_folder_of_its_own_is_refused_before_anything_happens(
    session: Session, tmp_path: Path, name: Any
) -> None:
    before = everything(tmp_path)
    with pytest.raises(ReleaseError) as told:
        session.release_all([("fine", IT), (name, IT)], to=tmp_path / "room" / "out")
    assert told.value.fix and len(str(told.value)) < 400
    assert everything(tmp_path) == before and session.ledger.head.seq == 1


@pytest.mark.parametrize("pair", [("same", "same"), ("Same", "same"), ("straße", "STRASSE"), ("é", "e\u0301")])
def test_names_that_some_file_system_takes_for_one_are_refused(
    session: Session, tmp_path: Path, pair: tuple[str, str]
) -> None:
    with pytest.raises(ReleaseError, match=r"Two releases|one folder"):
        session.release_all([(name, IT) for name in pair], to=tmp_path / "out")
    assert session.ledger.head.seq == 1 and not (tmp_path / "out").exists()


def test_nothing_to_release_is_refused(session: Session, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="nothing to release"):
        session.release_all([], to=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_in_any_script_are_fine(session: Session, tmp_path: Path) -> None:
    names = ["Einkommen nach Alter", "年齢", "v1.2", "a-b_c (2)"]
    assert all(map(is_folder_name, names))
    session.release_all([(name, IT) for name in names], to=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == set(names)


# Nothing is written over


@pytest.mark.parametrize("by_linux", [True, False])
def test_an_empty_folder_in_the_way_is_not_replaced(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_linux: bool
) -> None:
    """It may be where another process is about to publish."""
    goal = tmp_path / "out"
    if not by_linux:
        monkeypatch.setattr(publish, "_rename_by_linux", lambda *_: False)

    def stage(what: str, *_: int) -> None:
        if what == "writing":
            goal.mkdir()

    with pytest.raises(ReleaseError, match="cannot be moved to its path"):
        session.release_all([("a", IT)], to=goal, stage=stage)
    assert list(goal.iterdir()) == []
    (hidden,) = tmp_path.glob(".out.pending-*")
    with pytest.raises(ReleaseError, match="exists already"):
        recover(hidden, session.ledger)
    goal.rmdir()
    assert recover(hidden, session.ledger) == goal and everything(goal) >= {"a", "a/release.json"}


@pytest.mark.parametrize("by_linux", [True, False])
@pytest.mark.parametrize("kind", ["folder", "full", "file", "link"])
def test_renaming_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by_linux: bool) -> None:
    if not by_linux:
        monkeypatch.setattr(publish, "_rename_by_linux", lambda *_: False)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "mine").touch()
    if kind in ("folder", "full"):
        new.mkdir()
    if kind == "full":
        (new / "theirs").touch()
    if kind == "file":
        new.touch()
    if kind == "link":
        new.symlink_to("nowhere")
    before = everything(tmp_path)
    with pytest.raises(OSError):
        publish.rename_new(old, new)
    assert everything(tmp_path) == before
    os.remove(new) if kind in ("file", "link") else None
    if kind in ("file", "link"):
        publish.rename_new(old, new)
        assert everything(tmp_path) == {"new", "new/mine"}


@pytest.mark.parametrize("by_linux", [True, False])
def test_of_two_that_race_for_a_name_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_linux: bool) -> None:
    if not by_linux:
        monkeypatch.setattr(publish, "_rename_by_linux", lambda *_: False)
    for turn in range(20):
        results: list[str] = []
        start = threading.Barrier(2)

        def race(who: str, turn: int = turn, results: list[str] = results, start: threading.Barrier = start) -> None:
            hidden = tmp_path / f".{who}{turn}"
            hidden.mkdir()
            (hidden / who).touch()
            start.wait()
            try:
                publish.rename_new(hidden, tmp_path / f"out{turn}")
                results.append(who)
            except OSError:
                pass

        threads = [threading.Thread(target=race, args=(who,)) for who in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [path.name for path in (tmp_path / f"out{turn}").iterdir()] == results and len(results) == 1


def test_pages_and_certificates_never_replace_a_release(session: Session, tmp_path: Path) -> None:
    session.release_all([("a", IT)], to=tmp_path / "out")
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in written if path.name != "report.html"}
    assert len(before) == len(written) - 1
    certificate = Certificate((Claim(Guarantee.touch(SCHEMA, ("a",), CDP(0.1))),))
    for path in before:
        with pytest.raises(NablaDPError, match="file of a release"):
            nabladp.report.write(tmp_path / "out", to=path)
        with pytest.raises(NablaDPError, match="file of a release"):
            certificate.save(path)
    assert before == {path: path.read_bytes() for path in before}
    assert sorted(written) == sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert nabladp.report.write(tmp_path / "out").name == "report.html"
    with Ledger.read(tmp_path / "ledger.db") as ledger:
        assert publish.check_published(tmp_path / "out", ledger)
