"""Ledgers rewritten by someone who knows the format and recomputes every hash: what does not add up gives them away."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nabladp.errors import LedgerError
from nabladp.privacy import Budget, Guarantee, Rho
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.entry import FIRST, Draft, Row
from nabladp.privacy.ledger.sqlite import SQLite
from nabladp.privacy.ledger.state import standing_guarantees
from nabladp.privacy.ledger.store import Store

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with Ledger.create(path, ("age",), Budget(person=Rho(1))) as ledger:
        ledger.reserve(AGE, "a")
        ledger.reserve(AGE, "b")
        ledger.void("a", "not needed")
        ledger.record_external(AGE, "c", "they")
    return path


@pytest.fixture
def rows(path: Path) -> list[Row]:
    store = Store(SQLite(path), read_only=True, patience=1.0)
    found = store.read(lambda transaction: list(transaction.walk()))
    store.close()
    return found


def found_in(path: Path, rows: list[Row], **changes: Any) -> list[tuple[int, str]]:
    """What verification reports of these rows, sealed anew with other payloads or totals. If it reports anything,
    the ledger must not be of any use either."""
    sealed: list[Row] = []
    for row in rows:
        payload = changes.get(f"payload{row.seq}", json.loads(row.payload))
        totals = changes.get(f"totals{row.seq}", json.loads(row.totals))
        draft = Draft(row.kind, row.name, payload, row.ref)
        sealed.append(Row.seal(draft, row.seq, row.time, totals, sealed[-1].hash if sealed else FIRST))
    with sqlite3.connect(path) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("DROP INDEX IF EXISTS entry_ends")  # it would refuse a second end
        raw.execute("DELETE FROM entries")
        raw.executemany(f"INSERT INTO entries VALUES ({', '.join('?' * 9)})", [[*vars(row).values()] for row in sealed])
        raw.execute("UPDATE head SET seq = ?, hash = ?", [sealed[-1].seq, sealed[-1].hash])
    raw.close()
    with Ledger.read(path) as ledger:
        found = [(problem.seq, problem.what) for problem in ledger.verify()]
        uses: list[Callable[[], object]] = [
            ledger.spent,
            ledger.unfinished,
            ledger.guarantee,
            lambda: list(ledger.entries()),
            lambda: Ledger.open(path),
            lambda: Ledger.open(path, ("age",), Budget(person=Rho(1))),
        ]
        for use in uses if found else ():
            with pytest.raises(LedgerError, match=r"is broken: .*ntry"):
                use()
    return found


def test_as_it_was_written_it_holds(path: Path, rows: list[Row]) -> None:
    assert found_in(path, rows) == []


@pytest.mark.parametrize("payload", [[], {}, {"guarantee": {}}, {"guarantee": "x"}])
def test_an_entry_that_cannot_be_read_is_reported(path: Path, rows: list[Row], payload: Any) -> None:
    """Otherwise a reservation could be replaced by nonsense, and its cost be gone."""
    assert (3, "illegal") in found_in(path, rows, payload3=payload)


@pytest.mark.parametrize("spent", [{"*": {"rho": "-1000"}}, {"*": {"rho": "1000"}}, {"0": {"pure": "-1"}}])
def test_a_ledger_begins_with_nothing_spent(path: Path, rows: list[Row], spent: dict[str, Any]) -> None:
    """Less than nothing would be room for more than the limit."""
    assert (1, "totals") in found_in(path, rows, totals1={"budget": 1, "schema": 1, "spent": spent})


@pytest.mark.parametrize("wrong", [{"budget": 2, "schema": 1}, {"budget": 1, "schema": 2}])
@pytest.mark.parametrize("seq", [1, 3, 4, 5])
def test_no_entry_but_a_budget_or_a_schema_puts_another_in_force(
    path: Path, rows: list[Row], seq: int, wrong: dict[str, int]
) -> None:
    totals = json.loads(rows[seq - 1].totals)
    assert (seq, "totals") in found_in(path, rows, **{f"totals{seq}": totals | wrong})


def test_what_is_voided_was_reserved(path: Path, rows: list[Row]) -> None:
    """Voided twice, voided where nothing was, or where it happened elsewhere: the totals must not follow it down."""
    spent = [json.loads(row.totals)["spent"].get("*", {"rho": "0"})["rho"] for row in rows]
    assert int(spent[2]) == 2 * int(spent[1]) == 2 * int(spent[3]) == int(spent[4]) > 0
    payload, totals = json.loads(rows[3].payload), json.loads(rows[3].totals)
    for name, ref in (("a", 2), ("x", 99), ("c", 5)):
        void = Row.seal(Draft("void", name, payload, ref), 6, rows[3].time, totals, "")
        assert found_in(path, [*rows, void]) == [(6, "illegal")]


def test_what_stands_is_what_was_spent_and_not_voided(rows: list[Row]) -> None:
    entries = [row.entry() for row in rows]
    assert standing_guarantees(entries) == [AGE, AGE] and standing_guarantees(entries[:3]) == [AGE, AGE]
    assert standing_guarantees(entries[2:]) == [AGE, AGE]  # a void of what came before is none of these
