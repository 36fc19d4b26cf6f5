"""What a ledger meets only at its edges: each of these ways was open to a change that nobody would notice."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from nabladp.errors import BudgetExceeded, LedgerError, SourceError
from nabladp.privacy import Budget, Guarantee, Rho
from nabladp.privacy.ledger import Ledger, NoLedger, store
from nabladp.privacy.ledger.entry import FIRST, FORMAT, Draft, Row
from nabladp.privacy.ledger.history import problems
from nabladp.privacy.ledger.limits import (
    Tally,
    Totals,
    after_budget,
    cost_of,
    extend_universe,
    float_below,
    keys_of,
    total_of,
)
from nabladp.privacy.ledger.sqlite import SQLite
from nabladp.privacy.ledger.store import Store, Transaction
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe

AGE = Guarantee.touch(("age",), "age", Rho(0.01))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one reservation, "a"."""
    path = tmp_path / "ledger.db"
    with Ledger.create(path, ("age",), Budget(person=Rho(1))) as ledger:
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
    books = Store(SQLite(path), read_only=True, patience=1.0)
    with pytest.raises(LedgerError, match="for reading"):
        books.write(lambda transaction: transaction.append([]))
    books.close()


def test_there_is_a_ledger_or_there_is_none(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    assert Ledger.exists(path) and not Ledger.exists(empty)
    empty.touch()
    assert not Ledger.exists(empty)
    with pytest.raises(NoLedger, match="There is no ledger"):
        Ledger.migrate(empty)
    assert empty.stat().st_size == 0


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


def test_verification_sees_one_moment(path: Path) -> None:
    """Another client may want to go on while the chain is walked."""
    with Ledger.open(path, patience=0.05) as ledger, Ledger.read(path) as reader:

        def walk(transaction: Transaction) -> list[Any]:
            assert transaction.head() == ledger.head
            with pytest.raises(LedgerError, match="stayed locked"):
                ledger.reserve(AGE, "b")
            return list(problems(transaction))

        assert reader._store.read(walk) == []
        assert ledger.reserve(AGE, "b").seq == 3 and reader.verify() == []


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
    assert extend_universe(ours, theirs) == Universe(
        ours.roots, {"band": ("age",), "old": ("age",)}, frozenset({"sex"})
    )
    for other, told in (
        (Universe(("age", "sex")), "holds for public the attribute 'sex'"),
        (Universe(ours.roots, {}, frozenset(ours.roots)), "protects the attribute 'age'"),
        (Universe(("age", "sex", "x", "y"), {}, ours.public), r"has no attribute 'x' \(and 1 more\)"),
        (Universe(("sex",), {}, ours.public), "also has the attribute 'age'"),
        (Universe(ours.roots, {"band": ("sex",)}, ours.public), "derives from other sources the column 'band'"),
    ):
        with pytest.raises(LedgerError, match=rf"it {told}\."):
            extend_universe(ours, other)


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
    spent = [Guarantee.touch(["a", "b"], "b", Rho(Fraction(units, UNIT))) for units in (2, 3)]
    after = after_budget(before, 9, {a: "0", both: "*"}, {a: "0", b: "1"}, lambda: spent)
    assert after == Totals(9, 1, {"0": Tally(rho=5), "1": total_of(cost_of(g, {b: "1"}) for g in spent)["1"]})
    assert after.on("1").units(pure=False) == 5


# What goes on record


def test_an_entry_keeps_everything_it_was_told(tmp_path: Path) -> None:
    """Whoever reads the ledger in ten years finds it under these names; a hash over the wrong ones holds as well."""
    budget, more = Budget(person=Rho(1)), Budget(person=Rho(2))
    with Ledger.create(tmp_path / "ledger.db", ("age",), budget, test=True) as ledger:
        ledger.reserve(AGE, "a", {"x": 1}, seeded=True)
        ledger.bind("a", "digest", {"y": 2}, seeded=True)
        ledger.reserve(AGE, "b")
        ledger.void("b", "why")
        ledger.record_external(AGE, "c", "they")
        ledger.record_external(Guarantee.touch(("age",), "age", Rho(3)), "d", "they", "note")
        ledger.change_budget(more, "more")
        entries = list(ledger.entries())
        assert ledger.verify() == []
    told = [(e.seq, e.kind, e.name, e.ref, {**e.payload}) for e in entries]
    for *_, payload in told:
        assert payload.pop("ticket") and payload.pop("stamp") == "TEST — NOT PRIVATE"
    assert told[0][-1].pop("ledger") == ledger.id

    def limits(budget: Budget) -> dict[str, object]:
        return {"budget": budget.to_json(), "limits": [limit.to_json() for limit in budget.limits(("age",))]}

    person = {"id": None, "rows": 1}
    first = {
        "format": FORMAT,
        "test": True,
        "universe": Universe(("age",)).to_json(),
        "person": person,
        **limits(budget),
    }
    cost, large = AGE.to_json(), Guarantee.touch(("age",), "age", Rho(3)).to_json()
    assert told == [
        (1, "open", "ledger", None, first),
        (2, "reserve", "a", None, {"guarantee": cost, "details": {"x": 1}, "seeded": True}),
        (3, "bind", "a", 2, {"digest": "digest", "details": {"y": 2}, "seeded": True}),
        (4, "reserve", "b", None, {"guarantee": cost, "details": {}, "seeded": False}),
        (5, "void", "b", 4, {"reason": "why"}),
        (6, "external", "c", None, {"guarantee": cost, "who": "they", "note": "", "exceeded": []}),
        (7, "external", "d", None, {"guarantee": large, "who": "they", "note": "note", "exceeded": ["person"]}),
        (8, "budget", "budget", None, {"reason": "more", **limits(more)}),
    ]


def test_what_was_booked_before_the_answer_was_lost_is_booked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that dies between a commit and its answer: the work is done again, and must see that it stands."""
    with Ledger.open(path) as ledger:
        write = ledger._store.write

        def answered_late(work: Callable[[Transaction], Any]) -> Any:
            first = write(work)
            assert write(work) == first
            return first

        monkeypatch.setattr(ledger._store, "write", answered_late)
        entry = ledger.reserve(AGE, "b")
        assert [e.name for e in ledger.entries()] == ["ledger", "a", "b"] and ledger.entry("b") == entry


def test_where_it_is_not_known_whether_it_was_booked_the_ticket_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(path) as ledger:
        write = ledger._store.write
        for name, fields, told in (("b", {"outcome": "unknown"}, True), ("c", {"outcome": "none"}, False)):

            def lost(work: Callable[[Transaction], Any], fields: dict[str, str] = fields) -> None:
                write(work)
                raise SourceError("The server was lost.", **fields)

            monkeypatch.setattr(ledger._store, "write", lost)
            with pytest.raises(SourceError) as error:
                ledger.reserve(AGE, name)
            assert error.value.fields == fields | ({"ticket": ledger.entry(name).ticket} if told else {})


def test_what_is_missing_from_a_record_is_named(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for write, told in (
            (lambda: ledger.bind("a", ""), "A digest is needed"),
            (lambda: ledger.void("a", " "), "A reason is needed"),
            (lambda: ledger.record_external(AGE, "x", ""), "A who is needed"),
            (lambda: ledger.change_budget(Budget(person=Rho(2)), ""), "A reason is needed"),
        ):
            with pytest.raises(LedgerError, match=f"^{told}"):
                write()
        assert ledger.head.seq == 2


def test_a_ledger_without_its_head_or_its_name_is_no_ledger(path: Path) -> None:
    behind_its_back(path, "DELETE FROM head")
    with pytest.raises(LedgerError, match="broken"), Ledger.open(path) as ledger:
        ledger.spent()
    with Ledger.read(path) as reader:
        assert reader.head == (0, "") and [(p.seq, p.what) for p in reader.verify()] == [(0, "head")]
    behind_its_back(path, "DELETE FROM meta")
    for look in (Ledger.open, Ledger.read):
        with pytest.raises(LedgerError, match=f"older format 0, not {FORMAT}") as error:
            look(path)
        assert error.value.fields == {"format": 0}


def test_a_ledger_of_many_pages_is_read_in_order_and_to_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 3)
    names = [f"b{i}" for i in range(10)]
    with Ledger.open(path) as ledger:
        ledger.reserve_all([(AGE, name, {}) for name in names])
        assert [e.seq for e in ledger.entries()] == [*range(1, 13)]
        assert [e.seq for e in ledger.unfinished()] == [*range(2, 13)]
        assert [row.seq for row in ledger._store.read(lambda t: list(t.walk()))] == [*range(1, 13)]
        assert [len(ledger._store.read(lambda t, after=after: t.page(after))) for after in (0, 10, 12)] == [3, 2, 0]
        assert ledger._store.read(lambda t: t.names_in_use([*names, "c"])) == {*names}
        with pytest.raises(LedgerError, match="'b9' is already"):
            ledger.reserve_all([(AGE, name, {}) for name in ("c", "d", "e", "b9")])
        ledger.change_budget(Budget(per_attribute=Rho(1)), "by attribute")  # replays all of them
        assert ledger.spent()[0].spent_units == ledger.guarantee().rho_units("age") and ledger.verify() == []


def test_only_what_was_spent_has_a_name_of_its_own(path: Path) -> None:
    """Entries are called "ledger" or "budget" too, and what ends a reservation is called like it."""
    with Ledger.open(path) as ledger:
        for name in ("ledger", "budget"):
            with pytest.raises(LedgerError, match="has no release"):
                ledger.entry(name)
            assert ledger.entry(ledger.reserve(AGE, name).name).kind == "reserve"
        ledger.bind("a", "digest")
        assert ledger.entry("a").kind == "reserve" and ledger.bound("a") == "digest"


@pytest.mark.parametrize(
    ("taken", "asked", "free"),
    [
        (["x", "x-2"], "x", "x-3"),
        (["x", "x-2"], "x-2", "x-3"),
        (["a_", "ab-2"], "a_", "a_-2"),
        (["a%", "ab-2"], "a%", "a%-2"),
        (["x", "x-5"], "x", "x-3"),
        (["x", "x-3"], "x", "x-4"),
    ],
)
def test_the_free_name_is_the_next_of_those_in_use(path: Path, taken: list[str], asked: str, free: str) -> None:
    with Ledger.open(path) as ledger:
        for name in taken:
            ledger.reserve(AGE, name)
            ledger.void(name, "not needed")
        with pytest.raises(LedgerError) as error:
            ledger.reserve(AGE, asked)
    assert error.value.fields["suggestion"] == free and repr(free) in error.value.fix


HEAD = "The head does not point at the last entry."


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["DELETE FROM entries"], [(1, "missing", "Entries 1 to 6 are missing.")]),
        (["DELETE FROM entries WHERE seq = 6"], [(6, "missing", "Entry 6 is missing.")]),
        (["DELETE FROM entries WHERE seq > 4"], [(5, "missing", "Entries 5 to 6 are missing.")]),
        (
            ["DELETE FROM entries WHERE seq = 3"],
            [
                (3, "missing", "Entry 3 is missing."),
                (4, "totals", "The totals of entry 4 do not follow from what was booked."),
            ],
        ),
        (
            ["DELETE FROM entries WHERE seq IN (3, 4)"],
            [
                (3, "missing", "Entries 3 to 4 are missing."),
                (5, "totals", "The totals of entry 5 do not follow from what was booked."),
            ],
        ),
        (
            ["UPDATE entries SET name = 'z' WHERE seq = 4"],
            [(4, "changed", "Entry 4 was changed after it was written.")],
        ),
        (
            [f"UPDATE entries SET previous = '{FIRST}' WHERE seq = 4"],
            [
                (4, "order", "Entry 4 does not follow the entry before it."),
                (4, "changed", "Entry 4 was changed after it was written."),
            ],
        ),
        (["UPDATE head SET seq = 5"], [(5, "head", HEAD)]),
        ([f"UPDATE head SET hash = '{FIRST}'"], [(6, "head", HEAD)]),
        (
            ["UPDATE meta SET ledger = 'x'"],
            [(1, "changed", "The ledger's identity was changed after it was written.")],
        ),
    ],
)
def test_every_change_is_found_where_it_was_made(path: Path, changes: list[str], told: list[Any]) -> None:
    with Ledger.open(path) as ledger:
        for name in "bcde":
            ledger.reserve(AGE, name)
        assert ledger.verify() == []
    behind_its_back(path, *changes)
    with Ledger.read(path) as reader:
        found = reader.verify()
    assert [(p.seq, p.what, p.text) for p in found] == told
    assert [p.to_json() for p in found] == [dict(zip(("seq", "what", "text"), p, strict=True)) for p in told]
