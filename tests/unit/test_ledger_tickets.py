"""A ticket makes a reservation safe to ask for again: the same request is booked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nabladp.errors import LedgerError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho

NAMES = ("age", "income")
COST = Guarantee.touch(NAMES, ["age"], Rho(0.25))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger.db", NAMES, Budget(per_attribute=Rho(1)))


def test_asked_again_it_is_booked_once(ledger: Ledger, tmp_path: Path) -> None:
    first = ledger.reserve(COST, "job", {"folder": "x"}, ticket="t")
    with Ledger.open(tmp_path / "ledger.db") as another:
        assert another.reserve(COST, "job", ticket="t") == first
    assert first.ticket == "t" and ledger.head.seq == 2 and ledger.spent_on(["age"]).rho == 0.25


def test_also_where_the_budget_is_gone_by_now(ledger: Ledger) -> None:
    first = ledger.reserve(COST, "job", ticket="t")
    ledger.reserve_all([(COST, name, {}) for name in "abc"])
    assert ledger.reserve(COST, "job", ticket="t") == first


def test_a_whole_plan(ledger: Ledger) -> None:
    plan = [(COST, "one", {}), (COST, "two", {})]
    entries = ledger.reserve_all(plan, ticket="t")
    assert ledger.reserve_all(plan, ticket="t") == entries and ledger.head.seq == 3
    with pytest.raises(LedgerError, match="already in the ledger"):
        ledger.reserve_all([*plan, (COST, "three", {})], ticket="t")  # not the plan that was booked
    assert ledger.head.seq == 3


def test_a_name_that_someone_else_has_taken(ledger: Ledger) -> None:
    ledger.reserve(COST, "job", ticket="theirs")
    for ticket in (None, "mine"):
        with pytest.raises(LedgerError, match="already in the ledger"):
            ledger.reserve(COST, "job", ticket=ticket)


def test_a_ticket_stands_for_one_request(ledger: Ledger) -> None:
    ledger.reserve(COST, "job", ticket="t")
    with pytest.raises(LedgerError, match="for another release"):
        ledger.reserve(Guarantee.touch(NAMES, ["income"], Rho(0.25)), "job", ticket="t")
    ledger.reserve(COST, "next", ticket="t")  # another name is another request
    assert ledger.spent_on(["age"]).rho == 0.5


def test_it_pays_once(ledger: Ledger) -> None:
    """What was bound got out, and what was voided was given back: neither pays for another run."""
    for name, end in (
        ("bound", lambda: ledger.bind("bound", "digest")),
        ("voided", lambda: ledger.void("voided", "x")),
    ):
        ledger.reserve(COST, name, ticket="t")
        end()
        with pytest.raises(LedgerError, match=f"already {name}"):
            ledger.reserve(COST, name, ticket="t")


@pytest.mark.parametrize("ticket", ["", " ", "two\nlines", "x" * 201])
def test_what_is_no_ticket(ledger: Ledger, ticket: str) -> None:
    with pytest.raises(LedgerError, match="The ticket"):
        ledger.reserve(COST, "job", ticket=ticket)


def test_every_entry_has_one_of_its_own(ledger: Ledger) -> None:
    ledger.reserve(COST, "job")
    ledger.void("job", "x")
    assert len({entry.ticket for entry in ledger.entries()}) == 3
