"""Reserving: exact limits, all or nothing, one schema, one budget, unique names."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Pure, Rho

PEOPLE = Universe(("region", "age", "income", "race", "ethnicity"))
SMALL = Rho(0.02)
BUDGET = Budget(per_attribute=CDP(0.5), sets={"race+ethnicity": Rho(0.05)}, person=Rho(4.0))


def touch(*names: str, cost: Rho | Pure | CDP = SMALL, universe: Universe = PEOPLE) -> Guarantee:
    return Guarantee.touch(universe, names, cost)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, PEOPLE, BUDGET)


def spent(ledger: Ledger) -> dict[str, int | None]:
    return {line.limit.name: line.spent_units for line in ledger.spent()}


def test_sqlalchemy_loads_only_when_a_ledger_is_opened() -> None:
    code = "import sys, nabladp.privacy.ledger, nabladp.privacy.budget; print('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_a_reservation_is_on_record(ledger: Ledger, path: Path) -> None:
    entry = ledger.reserve(touch("region", "income"), "first", {"mechanism": "NoisyMarginals"})
    with Ledger.read(path) as seen:
        (found,) = seen.entries(after=1)
        assert found == entry == seen.entry("first")
        assert (found.seq, found.kind, found.name, found.details) == (2, "reserve", "first", entry.details)
        assert found.guarantee == touch("region", "income")
        assert seen.head == (2, entry.hash)
        assert [e.name for e in seen.unfinished()] == ["first"]
        assert seen.verify() == []
    cost = touch("region").rho_units(["region"])
    assert spent(ledger) == {
        "region": cost, "income": cost, "person": cost, "age": 0, "race": 0, "ethnicity": 0, "race+ethnicity": 0,
    }  # fmt: skip


def test_a_limit_is_met_to_the_unit(path: Path) -> None:
    ledger = Ledger.create(path, PEOPLE, Budget(person=Rho(Fraction(10, UNIT))))
    ledger.reserve(touch("age", cost=Rho(Fraction(7, UNIT))), "seven")
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve(touch("age", cost=Rho(Fraction(4, UNIT))), "four")
    assert caught.value.fields["limit"] == "person"
    assert caught.value.fields["left"] == 3 / UNIT
    ledger.reserve(touch("race", cost=Rho(Fraction(3, UNIT))), "three")
    assert spent(ledger) == {"person": 10}
    assert [e.name for e in ledger.entries()] == ["ledger", "seven", "three"]


def test_the_refusal_names_limit_requested_spent_left(ledger: Ledger) -> None:
    ledger.reserve(touch("race", cost=Rho(0.03)), "one")
    before = ledger.head
    with pytest.raises(
        BudgetExceeded, match=r"'two'.*'race\+ethnicity'.*requested ρ = 0.03.*spent 0.03.*left 0.02"
    ) as e:
        ledger.reserve(touch("ethnicity", cost=Rho(0.03)), "two")
    facts = e.value.fields
    assert facts["limit"] == "race+ethnicity" and facts["limits"] == ["race+ethnicity"]
    assert (facts["requested"], facts["spent"]) == pytest.approx((0.03, 0.03))
    assert facts["left"] == pytest.approx(0.02) and facts["left"] <= 0.02
    assert ledger.head == before


def test_a_shortage_below_display_precision_is_shown_in_full(path: Path) -> None:
    ledger = Ledger.create(path, PEOPLE, Budget(person=Rho(1)))
    with pytest.raises(BudgetExceeded, match=r"requested ρ = 1\.0000000000000002 .*left 1\.0 of 1\.0"):
        ledger.reserve(touch("age", cost=Rho(1 + Fraction(1, UNIT))), "a unit too many")


def test_a_plan_is_reserved_whole_or_not_at_all(ledger: Ledger) -> None:
    plan: list[tuple[Guarantee, str, dict[str, object]]] = [
        (touch("age", cost=Rho(0.05)), f"part-{i}", {}) for i in range(3)
    ]
    with pytest.raises(BudgetExceeded, match="The plan of 3 releases") as caught:
        ledger.reserve_all(plan)
    assert caught.value.fields["requested"] == pytest.approx(0.15)
    assert caught.value.fields["spent"] == 0
    assert ledger.head.seq == 1 and ledger.unfinished() == []
    entries = ledger.reserve_all(plan[:2])
    assert [e.seq for e in entries] == [2, 3]
    assert ledger.reserve_all([]) == []


def test_a_pure_limit_refuses_what_has_no_pure_bound(path: Path) -> None:
    ledger = Ledger.create(path, PEOPLE, Budget(attributes={"age": Pure(1)}, person=Rho(1)))
    with pytest.raises(BudgetExceeded, match="no bound in pure ε on the attributes of the limit 'age'") as caught:
        ledger.reserve(touch("age"), "gaussian")
    assert caught.value.fields["requested"] is None and "Laplace" in caught.value.fix
    ledger.reserve(touch("income"), "elsewhere")  # not this limit's attribute
    ledger.reserve(touch("age", cost=Pure(0.6)), "laplace")
    with pytest.raises(BudgetExceeded, match=r"pure ε = 0.6 .*left 0.4 of 1"):
        ledger.reserve(touch("age", cost=Pure(0.6)), "again")


def test_two_limits_on_one_set_are_both_enforced(path: Path) -> None:
    ledger = Ledger.create(path, PEOPLE, Budget(attributes={"age": Rho(1)}, sets={"age": Rho(0.1), "age+age": Pure(9)}))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve(touch("age", cost=Rho(0.5)), "x")
    assert sorted(caught.value.fields["limits"]) == ["age", "age+age"]
    ledger.reserve(touch("age", cost=Pure(0.1)), "y")
    ledger.change_budget(Budget(sets={"age": Pure(0.25)}), "a pure limit")
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve(touch("age", cost=Pure(0.2)), "z")
    assert caught.value.fields["measure"] == "pure ε" and ledger.verify() == []


def test_names_are_unique_and_a_free_one_is_suggested(ledger: Ledger) -> None:
    free = touch("age", cost=Rho(0.001))
    ledger.reserve(free, "census")
    ledger.record_external(free, "census-2", who="another office")
    for name in ("census", "census-2"):
        with pytest.raises(LedgerError, match="'census-3'") as caught:
            ledger.reserve(free, name)
        assert caught.value.fields["suggestion"] == "census-3"
    with pytest.raises(LedgerError, match="'twin'"):
        ledger.reserve_all([(free, "twin", {}), (free, "twin", {})])
    ledger.void("census", "typing error")
    with pytest.raises(LedgerError, match="already"):
        ledger.reserve(free, "census")
    assert ledger.head.seq == 4


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 300, "nul\0", None, 7])
def test_odd_names_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="printable"):
        ledger.reserve(touch("age"), name)


@pytest.mark.parametrize("details", [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}])
def test_details_must_be_json(ledger: Ledger, details: dict[str, object]) -> None:
    with pytest.raises(LedgerError, match="JSON"):
        ledger.reserve(touch("age"), "odd", details)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Universe((*PEOPLE.roots, "height")), "has no attribute 'height'"),
        (Universe(PEOPLE.roots[:-1]), "also has the attribute 'ethnicity'"),
        (Universe(PEOPLE.roots, {}, frozenset({"region"})), "protects the attribute 'region'"),
    ],
)
def test_another_schema_is_refused(ledger: Ledger, path: Path, other: Universe, text: str) -> None:
    with pytest.raises(LedgerError, match=f"another schema: it {text}"):
        Ledger.open(path, other, Budget(person=Rho(1)))
    with pytest.raises(LedgerError, match=text):
        ledger.reserve(touch("age", universe=other), "x")
    assert ledger.head.seq == 1


def test_the_order_of_the_schema_does_not_matter(ledger: Ledger, path: Path) -> None:
    turned = Universe(PEOPLE.roots[::-1])
    with Ledger.open(path, turned, BUDGET) as again:
        again.reserve(touch("region", universe=turned), "turned")
    assert spent(ledger)["region"] == touch("region").rho_units("region")
    assert ledger.guarantee() == touch("region")


def test_derived_columns_may_come_later_but_not_change(ledger: Ledger, path: Path) -> None:
    wider = Universe(PEOPLE.roots, {"age_band": ("age",)})
    Ledger.open(path, wider, BUDGET).reserve(touch("age_band", universe=wider), "bands")
    assert [e.kind for e in ledger.entries()] == ["open", "schema", "reserve"]
    assert ledger.universe.derived == {"age_band": ("age",)}
    assert spent(ledger)["age"] == ledger.spent_on("age_band").guarantee.rho_units("age") != 0
    ledger.reserve(touch("age"), "from the narrower schema")
    other = Universe(PEOPLE.roots, {"age_band": ("income",)})
    with pytest.raises(LedgerError, match="derives from other sources the column 'age_band'"):
        ledger.reserve(touch("age_band", universe=other), "x")
    assert ledger.guarantee().rho_units("age") == spent(ledger)["age"]
    assert ledger.verify() == []


def test_the_ledger_owns_its_budget(ledger: Ledger, path: Path) -> None:
    Ledger.open(path, PEOPLE, Budget.from_json(BUDGET.to_json()))
    same = Budget(
        attributes={name: Rho(0.125) for name in PEOPLE.roots},
        sets={"ethnicity+race": Rho(0.05)},
        person=Rho(4),
    )
    Ledger.open(path, PEOPLE, same)  # the same limits, spelled otherwise
    Ledger.open(path)  # whatever it has
    other = Budget(per_attribute=CDP(0.5), sets={"race+ethnicity": Rho(0.06)}, person=Rho(4))
    with pytest.raises(LedgerError, match=r"'race\+ethnicity' is Rho\(rho=0.05\).*change_budget") as caught:
        Ledger.open(path, PEOPLE, other)
    assert caught.value.fields["limit"] == "race+ethnicity"
    with pytest.raises(LedgerError, match=r"'person' is Rho\(rho=4.0\) in the ledger and absent"):
        Ledger.open(path, PEOPLE, Budget(per_attribute=CDP(0.5), sets={"race+ethnicity": Rho(0.05)}))
    assert ledger.budget == BUDGET


def test_a_fraction_as_a_limit_reopens(path: Path) -> None:
    third = Budget(person=Rho(Fraction(1, 3)))
    Ledger.create(path, PEOPLE, third)
    (line,) = Ledger.open(path, PEOPLE, third).spent()
    assert line.limit.units == UNIT // 3


def test_seeded_releases_need_a_test_ledger(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="seeded release is not private"):
        ledger.reserve(touch("age"), "seeded", seeded=True)
    with pytest.raises(LedgerError, match="private ledger"):
        Ledger.open(path, PEOPLE, BUDGET, test=True)
    trial = Ledger.create(tmp_path / "test.db", PEOPLE, BUDGET, test=True)
    entry = trial.reserve(touch("age"), "seeded", seeded=True)
    trial.bind(entry, "digest", seeded=True)
    trial.void(trial.reserve(touch("age"), "unseeded"), "no need")
    assert all(e.test and "TEST" in str(e.payload) for e in trial.entries())
    assert not any(e.test for e in ledger.entries())
    with pytest.raises(LedgerError, match="test ledger"):
        Ledger.open(tmp_path / "test.db", PEOPLE, BUDGET)


def test_a_reservation_reads_only_the_last_entry(ledger: Ledger) -> None:
    """The statements of a reservation do not depend on how many entries there are, and none scans the table."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    seen: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        counts = []
        for i in range(3):
            seen.clear()
            ledger.reserve(touch("age", cost=Rho(0.001)), f"r{i}")
            counts.append(len(seen))
            ledger.reserve_all([(touch("age", cost=Rho(0.0001)), f"r{i}-{k}", {}) for k in range(20)])
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    assert len(set(counts[1:])) == 1 and counts[1] < 10


def test_lookups_use_an_index(ledger: Ledger, path: Path) -> None:
    import sqlite3

    queries = {
        "SELECT * FROM entries WHERE kind IN ('reserve', 'external') AND entries.name = 'x'": "entry_names",
        "SELECT * FROM entries WHERE ref = 3": "entry_ends",
        "SELECT e.* FROM entries e LEFT OUTER JOIN entries f ON f.ref = e.seq WHERE e.kind = 'reserve' "
        "AND f.seq IS NULL ORDER BY e.seq": "entry_kinds",
    }
    with sqlite3.connect(path) as raw:
        for query, index in queries.items():
            plan = " ".join(row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {query}"))
            assert index in plan and "SCAN e" not in plan


def test_entries_stream_in_order_and_block_no_writer(ledger: Ledger) -> None:
    ledger.reserve_all([(touch("age", cost=Rho(0.0001)), f"r{i}", {}) for i in range(700)])
    assert [e.seq for e in ledger.entries()] == list(range(1, 702))
    assert [e.seq for e in ledger.entries(last=3)] == [699, 700, 701]
    assert [e.seq for e in ledger.entries(after=699)] == [700, 701]
    assert list(ledger.entries(last=0)) == []
    for _ in ledger.entries(last=2):
        ledger.void(ledger.unfinished()[0], "while reading")


def test_unknown_entries(ledger: Ledger) -> None:
    for call in (lambda: ledger.entry("nope"), lambda: ledger.bind(99, "d"), lambda: ledger.void("nope", "why")):
        with pytest.raises(LedgerError, match="The ledger has no"):
            call()
