"""How a ledger is opened, brought up to date, looked at and written in: the words and numbers it keeps to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from earlier_formats import EARLIER, LENGTH, write_file

from nabladp.errors import LedgerError, SourceError
from nabladp.privacy import Budget, Guarantee, Rho
from nabladp.privacy.ledger import Ledger, NoLedger
from nabladp.privacy.ledger.entry import FORMAT, canonical, check_format, check_name, now
from nabladp.privacy.ledger.sqlite import SQLite
from nabladp.privacy.ledger.state import State
from nabladp.privacy.ledger.writing import Pen
from nabladp.privacy.universe import Universe

AGE, BUDGET = Guarantee.touch(("age",), "age", Rho(0.01)), Budget(person=Rho(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with Ledger.create(path, ("age",), BUDGET) as ledger:
        ledger.reserve(AGE, "a")
    return path


def test_a_ledger_is_made_by_creating_it_only(tmp_path: Path) -> None:
    where = tmp_path / "none.db"
    for call in (
        lambda: Ledger.open(where, ("age",)),
        lambda: Ledger.open(where, ("age",), BUDGET),
        lambda: Ledger.open(where, ("age",), BUDGET, test=True),
        lambda: Ledger.open(where, budget=BUDGET),
        lambda: Ledger.migrate(where),
        lambda: Ledger.read(where),
    ):
        with pytest.raises(NoLedger, match="There is no ledger") as caught:
            call()
        assert isinstance(caught.value, SourceError) and "nabladp ledger create plan.toml" in caught.value.fix
    assert not Ledger.exists(where) and list(tmp_path.iterdir()) == []


def test_only_a_test_ledger_may_lie_where_commits_can_be_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Ledger.create(path.with_name("test.db"), ("age",), BUDGET, test=True)
    made.close()
    monkeypatch.setattr(SQLite, "shared", True)
    monkeypatch.setattr(SQLite, "unsafe_settings", lambda *_: ["fsync"])
    with pytest.raises(LedgerError, match="fsync off"):
        Ledger.open(path)
    Ledger.open(path.with_name("test.db"), test=True).close()


def test_what_may_only_be_read_is_looked_at_and_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: mode == os.R_OK)
    assert Ledger.exists(path)
    with Ledger.read(path) as ledger:
        assert ledger.head.seq == 2
    for call in (Ledger.open, Ledger.migrate):
        with pytest.raises(SourceError, match="read-only"):
            call(path)


def test_private_and_test_ledgers_are_told_apart(path: Path) -> None:
    with pytest.raises(LedgerError, match="is a private ledger and cannot serve as a test one"):
        Ledger.open(path, test=True)
    other = path.with_name("test.db")
    Ledger.create(other, ("age",), BUDGET, test=True).close()
    with pytest.raises(LedgerError, match="is a test ledger and cannot serve as a private one"):
        Ledger.open(other)


def test_another_budget_is_refused_on_opening(path: Path) -> None:
    with pytest.raises(LedgerError, match="budget"):
        Ledger.open(path, ("age",), Budget(person=Rho(2)))
    Ledger.open(path, ("age",), BUDGET).close()


@pytest.mark.parametrize("earlier", EARLIER)
def test_bringing_it_up_to_date_is_on_record(tmp_path: Path, earlier: int) -> None:
    old = tmp_path / "old.db"
    write_file(old, earlier)
    assert (Ledger.migrate(old), Ledger.migrate(old)) == (earlier, FORMAT)
    with Ledger.read(old) as ledger:
        *_, last = ledger.entries()
        assert (last.seq, last.kind, last.name, last.ref) == (LENGTH[earlier] + 1, "format", "format", None)
        payload = {name: last.payload[name] for name in last.payload if name != "ticket"}
        assert payload == {"from": earlier, "format": FORMAT}


def test_a_format_is_ours_or_refused() -> None:
    check_format(FORMAT, "books", older=False)
    for older in range(1, FORMAT):
        check_format(older, "books", older=True)
    for written, older, age, fix in (
        (1, False, "older", "Run `nabladp ledger migrate` on it, once; nothing that is booked changes."),
        (0, True, "older", "Use the version that wrote it."),
        (0, False, "older", "Use the version that wrote it."),
        (FORMAT + 1, True, "newer", "Update nabladp."),
        (FORMAT + 1, False, "newer", "Update nabladp."),
    ):
        told = f"^The ledger 'books' has the {age} format {written}, not {FORMAT}"
        with pytest.raises(LedgerError, match=told) as error:
            check_format(written, "books", older=older)
        assert error.value.fix == fix and error.value.fields == {"format": written}


def test_roles_are_given_in_the_schema_that_servers_begin_with() -> None:
    assert Ledger.role_statements(["ada"]) == Ledger.role_statements(["ada"], schema="public")


def test_what_is_hashed_has_one_form_and_one_clock() -> None:
    assert canonical({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"\\u00e9"]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
    assert now().endswith("+00:00") and len(now()) == len("2026-01-01T00:00:00.000000+00:00")


def test_entries_are_shown_whole_and_as_many_as_asked_for(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.reserve(AGE, "b")
        every = list(ledger.entries())
        assert [entry.seq for entry in every] == [1, 2, 3]
        for last, after, told in (
            (0, None, []),
            (-1, None, []),
            (1, None, [3]),
            (2, None, [2, 3]),
            (9, None, [1, 2, 3]),
            (None, 1, [2, 3]),
            (2, 2, [3]),
            (1, 1, [3]),
        ):
            assert [entry.seq for entry in ledger.entries(last, after)] == told
        shown = every[1].to_json()
        assert json.loads(json.dumps(shown)) == shown and (shown["name"], shown["hash"]) == ("a", every[1].hash)
        for ask in (lambda: ledger.entry("c"), lambda: ledger.bind(7, "digest")):
            with pytest.raises(LedgerError, match=r"^The ledger has no") as error:
                ask()
            assert error.value.fix == "Run `nabladp ledger` to see what it has."


def test_columns_that_are_learned_stand_in_an_entry_of_their_own(path: Path) -> None:
    wider = Universe(("age",), {"decade": ("age",)})
    with Ledger.open(path, wider) as ledger:
        ledger.reserve(Guarantee.touch(wider, "decade", Rho(0.01)), "b")
        told = [(entry.seq, entry.kind, entry.name) for entry in ledger.entries(after=1)]
        assert told == [(2, "reserve", "a"), (3, "schema", "schema"), (4, "reserve", "b")]
        assert next(ledger.entries(after=2)).payload["universe"] == wider.to_json()
        assert ledger.universe == wider and ledger.verify() == []


@pytest.mark.parametrize("name", ["x", "x" * 200])
def test_a_name_may_be_short_or_long(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", 7])
def test_a_name_that_cannot_be_shown_is_refused(name: Any) -> None:
    with pytest.raises(LedgerError, match=r"^The name must be a short printable text") as error:
        check_name(name)
    assert error.value.fix == "Give a name such as 'census-2026'."


def test_the_next_free_name_is_suggested_and_none_is_left_out(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.reserve(AGE, "a-3")
        for names in (["a"], ["b", "a"], ["b", "b"]):
            with pytest.raises(LedgerError, match=f"^The name '{names[-1]}' is already in the ledger") as error:
                ledger.reserve_all([(AGE, name, {}) for name in names])
            free = "a-4" if "a" in names else "b-2"
            assert error.value.fields == {"suggestion": free}
            assert error.value.fix == f"Choose another, e.g. '{free}'."


def test_nothing_that_was_not_written_stands(path: Path) -> None:
    with Ledger.open(path) as ledger:
        assert not ledger._store.read(lambda transaction: Pen(transaction, State("x"), test=False).stands(transaction))
