"""The rules of the ledger: an entry that breaks one stops every use and is reported, even if its hash is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from illegal_entries import (
    COST,
    FORGERIES,
    LARGE,
    PEOPLE,
    Entries,
    Forged,
    append_to_file,
    fill,
    is_reported,
    uses_that_go_on,
)

from nabladp.errors import LedgerError
from nabladp.privacy import Ledger


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "ledger.db"
    with Ledger.create(path, PEOPLE, LARGE) as ledger:
        fill(ledger)
        assert ledger.verify() == []
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "ledger.db"))


@pytest.mark.parametrize("name", FORGERIES)
def test_an_illegal_entry_stops_every_use_and_is_reported(path: Path, name: str) -> None:
    with Ledger.open(path) as opened:
        opened.spent()
        append_to_file(path, FORGERIES[name])
        assert uses_that_go_on(path, opened) == []
    assert is_reported(path)
    with pytest.raises(LedgerError):
        Ledger.migrate(path)
        Ledger.open(path)


def test_a_legal_entry_appended_by_hand_is_accepted(path: Path) -> None:
    """Otherwise the forgeries above would prove nothing."""

    def unfinished(entries: Entries) -> Forged:
        number = entries.first("reserve", "unfinished")["seq"]
        return Forged("bind", "unfinished", number, {"digest": "d" * 64, "details": {}, "seeded": False})

    assert not append_to_file(path, unfinished)
    with Ledger.open(path) as ledger:
        assert ledger.verify() == [] and ledger.bound("unfinished") == "d" * 64


def test_the_reason_is_told(path: Path) -> None:
    append_to_file(path, FORGERIES["a void of a bound release"])
    with Ledger.read(path) as ledger, pytest.raises(LedgerError) as caught:
        ledger.spent()
    assert "Entry 11 is not allowed: 'bound' is already bound to a release (entry 4)" in caught.value.message
    assert "ledger verify" in caught.value.fix and caught.value.fields == {"seq": 11, "what": "illegal"}


def test_a_failure_still_counts_until_it_is_voided(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(path) as ledger:
        spent = ledger.spent()
        entry = ledger.reserve(COST, "bad value")
        with monkeypatch.context() as patch:  # as for a curator on a server
            patch.setattr("nabladp.privacy.ledger.store.Database.may_void", lambda *_: False)
            (failed,) = ledger.fail_all([entry], "column 'age' holds a value outside its domain")
            with pytest.raises(LedgerError, match="recorded as failed"):
                ledger.fail_all([entry], "again")
        assert failed.kind == "failed" and failed.ref == entry.seq and ledger.spent() != spent
        assert [found.name for found in ledger.failed()] == ["bad value"]
        with pytest.raises(LedgerError, match="recorded as failed"):
            ledger.bind(entry, "d" * 64)
        void = ledger.void("bad value", "the file was corrected")
        assert void.ref == failed.seq and ledger.spent() == spent and ledger.failed() == []
        with pytest.raises(LedgerError, match="already voided"):
            ledger.void("bad value", "again")
        assert ledger.verify() == [] and ledger.guarantee() == Ledger.read(path).guarantee()


def test_a_failed_read_is_voided_at_once_where_that_is_allowed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        spent = ledger.spent()
        entries = ledger.reserve_all([(COST, "one", {}), (COST, "two", {})])
        assert [entry.kind for entry in ledger.fail_all(entries, "a wrong number of rows")] == ["void", "void"]
        assert ledger.spent() == spent and ledger.verify() == []
