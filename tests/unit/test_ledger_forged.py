"""Ledgers rewritten by someone who knows the format and recomputes every hash: what does not add up gives them away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nabladp.privacy import Budget, Guarantee, Rho
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.entry import FIRST, Draft, Row
from nabladp.privacy.ledger.standing import standing_guarantees
from nabladp.privacy.ledger.store import Store
from nabladp.privacy.ledger.verify import problems

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    path = tmp_path / "ledger.db"
    with Ledger.open(path, ("age",), Budget(person=Rho(1))) as ledger:
        ledger.reserve(AGE, "a")
        ledger.reserve(AGE, "b")
        ledger.void("a", "not needed")
        ledger.record_external(AGE, "c", "they")
    store = Store.at(path, read_only=True, create=False, patience=1.0)
    found = store.read(lambda transaction: list(transaction.walk()))
    store.close()
    return found


def found_in(rows: list[Row], **changes: Any) -> list[tuple[int, str]]:
    """What verification reports of these rows, sealed anew with other payloads or totals."""
    sealed: list[Row] = []
    for row in rows:
        payload = changes.get(f"payload{row.seq}", json.loads(row.payload))
        totals = changes.get(f"totals{row.seq}", json.loads(row.totals))
        draft = Draft(row.kind, row.name, payload, row.ref)
        sealed.append(Row.seal(draft, row.seq, row.time, totals, sealed[-1].hash if sealed else FIRST))
    ledger, last = json.loads(rows[0].payload)["ledger"], sealed[-1]
    return [(p.seq, p.what) for p in problems(ledger, (last.seq, last.hash), last.seq, lambda: sealed)]


def test_as_it_was_written_it_holds(rows: list[Row]) -> None:
    assert found_in(rows) == []


@pytest.mark.parametrize("payload", [[], {}, {"guarantee": {}}, {"guarantee": "x"}])
def test_an_entry_that_cannot_be_read_is_reported(rows: list[Row], payload: Any) -> None:
    """Otherwise a reservation could be replaced by nonsense, and its cost be gone."""
    assert (3, "totals") in found_in(rows, payload3=payload)


@pytest.mark.parametrize("spent", [{"*": {"rho": "-1000"}}, {"*": {"rho": "1000"}}, {"0": {"pure": "-1"}}])
def test_a_ledger_begins_with_nothing_spent(rows: list[Row], spent: dict[str, Any]) -> None:
    """Less than nothing would be room for more than the limit."""
    assert (1, "totals") in found_in(rows, totals1={"budget": 1, "schema": 1, "spent": spent})


@pytest.mark.parametrize("wrong", [{"budget": 2, "schema": 1}, {"budget": 1, "schema": 2}])
@pytest.mark.parametrize("seq", [1, 3, 4, 5])
def test_no_entry_but_a_budget_or_a_schema_puts_another_in_force(
    rows: list[Row], seq: int, wrong: dict[str, int]
) -> None:
    totals = json.loads(rows[seq - 1].totals)
    assert (seq, "totals") in found_in(rows, **{f"totals{seq}": totals | wrong})


def test_what_is_given_back_was_reserved(rows: list[Row]) -> None:
    """Voided twice, or voided where nothing was: the totals must not follow it down."""
    spent = [json.loads(row.totals)["spent"].get("*", {"rho": "0"})["rho"] for row in rows]
    assert int(spent[2]) == 2 * int(spent[1]) == 2 * int(spent[3]) == int(spent[4]) > 0
    again = Row.seal(Draft("void", "a", json.loads(rows[3].payload), 2), 6, "now", json.loads(rows[3].totals), "")
    assert found_in([*rows, again]) == [(6, "totals")]
    nobody = Row.seal(Draft("void", "x", json.loads(rows[3].payload), 99), 6, "now", json.loads(rows[3].totals), "")
    assert found_in([*rows, nobody]) == [(6, "totals")]


def test_what_stands_is_what_was_spent_and_not_given_back(rows: list[Row]) -> None:
    entries = [row.entry() for row in rows]
    assert standing_guarantees(entries) == [AGE, AGE] and standing_guarantees(entries[:3]) == [AGE, AGE]
    assert standing_guarantees(entries[2:]) == [AGE, AGE]  # a void of what came before is none of these
