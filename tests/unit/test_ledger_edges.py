"""What a ledger meets only at its edges: each of these ways was open to a change that nobody would notice."""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy import Budget, Guarantee, Rho
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.ledger.entry import FIRST, Draft, Row
from nabladp.privacy.ledger.rules import float_below, widened
from nabladp.privacy.ledger.standing import after_budget
from nabladp.privacy.ledger.store import Store
from nabladp.privacy.ledger.totals import Tally, Totals, cost_of, keys_of, total_of
from nabladp.privacy.ledger.verify import problems
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one reservation, "a"."""
    path = tmp_path / "ledger.db"
    with Ledger.open(path, ("age",), Budget(person=Rho(1))) as ledger:
        ledger.reserve(AGE, "a")
    return path


def behind_its_back(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
    raw.close()


def test_totals_never_fall_below_what_one_entry_added() -> None:
    for booked in (Tally(rho=1), Tally(pure=1), Tally(unbounded_rho=1), Tally(unbounded_pure=1)):
        assert booked - booked == Tally()
        with pytest.raises(LedgerError, match="totals"):
            Tally() - booked


def test_an_entry_that_is_no_table_cannot_be_read() -> None:
    row = Row.seal(Draft("reserve", "a", {}), 2, "now", {}, FIRST)
    assert row.intact() and row.entry().name == "a"
    for payload, totals in (("[]", "{}"), ("{}", "7"), ("{", "{}")):
        changed = Row(**{**vars(row), "payload": payload, "totals": totals})
        assert not changed.intact()
        with pytest.raises(LedgerError, match="cannot be read"):
            changed.entry()


def test_a_free_name_is_suggested_that_the_plan_does_not_ask_for_either(path: Path) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="already") as error:
        ledger.reserve_all([(AGE, "a-2", {}), (AGE, "a", {}), (AGE, "a-3", {})])
    assert error.value.fields["suggestion"] == "a-4"


def test_a_store_opened_for_reading_never_writes(path: Path) -> None:
    store = Store.at(path, read_only=True, create=False, patience=1.0)
    with pytest.raises(LedgerError, match="for reading"):
        store.write(lambda transaction: transaction.append([]))
    store.close()


def test_there_is_a_ledger_or_there_is_none(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    assert Ledger.exists(path) and not Ledger.exists(empty)
    empty.touch()
    assert not Ledger.exists(empty)
    with pytest.raises(LedgerError, match="holds no ledger"):
        Ledger.migrate(empty)


def test_nothing_is_booked_where_the_head_no_longer_follows(path: Path) -> None:
    behind_its_back(path)
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerError, match="broken"):
            ledger.reserve(AGE, "b")
        assert ledger.head.seq == 2 and ledger.verify() == []


def test_limits_are_not_read_from_an_entry_that_was_changed(path: Path) -> None:
    behind_its_back(path, "UPDATE entries SET payload = replace(payload, '\"rho\"', '\"pure\"') WHERE seq = 1")
    with Ledger.read(path) as ledger, pytest.raises(LedgerError, match="broken"):
        ledger.spent()


def test_verification_looks_no_further_than_where_the_ledger_stood(path: Path) -> None:
    """Another client may go on while the chain is walked."""
    with Ledger.open(path) as ledger:
        before = ledger.head
        ledger.reserve(AGE, "b")
        store = Store.at(path, read_only=True, create=False, patience=1.0)
        rows = store.read(lambda transaction: list(transaction.walk()))
        identity = store.identity()
        store.close()
    assert [row.seq for row in rows] == [1, 2, 3]
    assert list(problems(identity, (before.seq, before.hash), before.seq, lambda: rows)) == []
    assert [p.what for p in problems(identity, (before.seq, before.hash), 3, lambda: rows)] == ["head"]


def test_sets_keep_the_short_names_under_which_ledgers_have_them() -> None:
    people = Universe(("a", "b", "c", "d"), {}, frozenset("b"))
    limits = Budget(per_attribute=Rho(1), sets={"a+d": Rho(1)}, person=Rho(1)).limits(people)
    assert list(keys_of(people, limits).values()) == ["0", "2", "3", "0+3", "*"]


def test_a_limit_tells_how_it_stands(path: Path) -> None:
    with Ledger.open(path) as ledger:
        (line,) = ledger.spent()
        with pytest.raises(BudgetExceeded) as error:
            ledger.reserve(Guarantee.touch(("age",), "age", Rho(2)), "b")
    facts = {"limit": "person", "measure": "ρ", "spent": line.spent, "left": line.left, "allowed": 1.0}
    assert line.to_json() == facts | {"attributes": ["age"], "value": {"rho": 1}, "exceeded": False}
    assert error.value.fields == facts | {"limits": ["person"], "requested": 2.0}
    assert line.spent >= 0.01 and line.left <= 0.99


@pytest.mark.parametrize("units", [0, 1, 2**53 + 1, 2**53 + 3, 2**60, 2**70 - 1, 2**70 + 1, 10**30])
def test_what_is_left_is_the_largest_double_that_does_not_exceed_it(units: int) -> None:
    left = float_below(units)
    assert Fraction(left) * UNIT <= units < Fraction(math.nextafter(left, math.inf)) * UNIT


def test_a_ledger_learns_derived_columns_and_forgets_nothing() -> None:
    ours = Universe(("age", "sex"), {"band": ("age",)}, frozenset({"sex"}))
    theirs = Universe(("sex", "age"), {"old": ("age",)}, frozenset({"sex"}))
    assert widened(ours, theirs) == Universe(ours.roots, {"band": ("age",), "old": ("age",)}, frozenset({"sex"}))
    for other, told in (
        (Universe(("age", "sex")), "holds for public the attribute 'sex'"),
        (Universe(ours.roots, {}, frozenset(ours.roots)), "protects the attribute 'age'"),
        (Universe(("age", "sex", "x", "y"), {}, ours.public), r"has no attribute 'x' \(and 1 more\)"),
        (Universe(("sex",), {}, ours.public), "also has the attribute 'age'"),
        (Universe(ours.roots, {"band": ("sex",)}, ours.public), "derives from other sources the column 'band'"),
    ):
        with pytest.raises(LedgerError, match=f"it {told}"):
            widened(ours, other)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET totals = '{}' WHERE seq = 2",
        "UPDATE entries SET name = 'z' WHERE seq = 2",
        f"UPDATE head SET hash = '{FIRST}'",
        "UPDATE head SET seq = 3",
    ],
)
def test_nothing_is_read_or_booked_where_the_last_entry_is_not_what_was_written(path: Path, change: str) -> None:
    """Its totals are what every limit is held against: lowered by hand, they would make room that is not there."""
    behind_its_back(path, change)
    with pytest.raises(LedgerError, match="broken"), Ledger.open(path) as ledger:
        ledger.reserve(AGE, "b")
    with pytest.raises(LedgerError, match="broken"), Ledger.read(path) as reader:
        reader.spent()


def test_a_new_budget_forgets_nothing_that_was_spent() -> None:
    """Sets that stay keep their totals, sets that are new are counted from the beginning, others are dropped."""
    a, b, both = frozenset("a"), frozenset("b"), frozenset("ab")
    before = Totals(1, 1, {"0": Tally(rho=5), "*": Tally(rho=7)})
    spent = [Guarantee.touch("ab", "b", Rho(Fraction(units, UNIT))) for units in (2, 3)]
    after = after_budget(before, 9, {a: "0", both: "*"}, {a: "0", b: "1"}, lambda: spent)
    assert after == Totals(9, 1, {"0": Tally(rho=5), "1": total_of(cost_of(g, {b: "1"}) for g in spent)["1"]})
    assert after.on("1").units(pure=False) == 5
