"""After the reservation: bind, void, releases made elsewhere, a changed budget; and that totals always agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Pure, Rho

PEOPLE = Universe(("region", "age", "race", "income"), {}, frozenset({"region"}))
SMALL = Rho(0.02)
BUDGET = Budget(per_attribute=Rho(0.1), person=Rho(0.15))


def touch(*names: str, cost: Rho | Pure = SMALL) -> Guarantee:
    return Guarantee.touch(PEOPLE, names, cost)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger.db", PEOPLE, BUDGET)


def spent(ledger: Ledger) -> dict[str, int | None]:
    return {line.limit.name: line.spent_units for line in ledger.spent()}


def test_bind_finishes_a_reservation_once(ledger: Ledger) -> None:
    entry = ledger.reserve(touch("age"), "first")
    bound = ledger.bind(entry, "sha256:abc", {"files": 2})
    assert (bound.kind, bound.ref, bound.digest, bound.name) == ("bind", entry.seq, "sha256:abc", "first")
    assert ledger.unfinished() == []
    assert ledger.bind("first", "sha256:abc") == bound == ledger.bind(entry.seq, "sha256:abc")
    assert ledger.head.seq == bound.seq
    with pytest.raises(LedgerError, match="already bound"):
        ledger.bind(entry, "sha256:other")
    with pytest.raises(LedgerError, match="already bound"):
        ledger.void("first", "changed my mind")
    with pytest.raises(LedgerError, match="not a reservation"):
        ledger.bind(bound, "sha256:abc")
    with pytest.raises(LedgerError, match="digest"):
        ledger.bind(entry, "")


def test_bind_all_is_one_step(ledger: Ledger) -> None:
    one, two = ledger.reserve_all([(touch("age"), "one", {}), (touch("race"), "two", {})])
    with pytest.raises(LedgerError, match="has no"):
        ledger.bind_all([(one, "d1", {}), ("three", "d3", {})])
    assert [e.name for e in ledger.unfinished()] == ["one", "two"]
    ends = ledger.bind_all([(one, "d1", {}), (two, "d2", {}), (one, "d1", {})])
    assert [e.ref for e in ends] == [one.seq, two.seq, one.seq] and ends[0] == ends[2]
    assert ledger.bind_all([]) == []


def test_the_seeded_flag_must_agree(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "test.db", PEOPLE, BUDGET, test=True)
    seeded, plain = ledger.reserve(touch("age"), "s", seeded=True), ledger.reserve(touch("age"), "p")
    for entry, flag in ((seeded, False), (plain, True)):
        with pytest.raises(LedgerError, match="was reserved as"):
            ledger.bind(entry, "d", seeded=flag)
        ledger.bind(entry, "d", seeded=not flag)


def test_an_entry_of_another_ledger_is_noticed(ledger: Ledger, tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other.db", PEOPLE, BUDGET)
    foreign = other.reserve(touch("age"), "first")
    ledger.reserve(touch("age"), "first")
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.bind(foreign, "d")


def test_a_void_gives_back_exactly_and_stays_on_record(ledger: Ledger) -> None:
    ledger.reserve(touch("race", cost=Rho(0.03)), "stays")
    before = spent(ledger)
    entry = ledger.reserve(touch("age", "race", cost=Pure(0.1)), "crashed")
    assert spent(ledger) != before
    void = ledger.void("crashed", "power failure before any row was read")
    assert (void.kind, void.ref, void.payload["reason"][:5]) == ("void", entry.seq, "power")
    assert spent(ledger) == before
    assert [e.kind for e in ledger.entries()] == ["open", "reserve", "reserve", "void"]
    with pytest.raises(LedgerError, match="already voided"):
        ledger.void("crashed", "again")
    with pytest.raises(LedgerError, match="already voided"):
        ledger.bind(entry, "late")


@pytest.mark.parametrize("reason", ["", "   ", None])
def test_a_void_needs_a_reason(ledger: Ledger, reason: str) -> None:
    ledger.reserve(touch("age"), "x")
    with pytest.raises(LedgerError, match="reason"):
        ledger.void("x", reason)
    assert ledger.head.seq == 2


def test_voiding_takes_back_the_missing_pure_bound(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PEOPLE, Budget(person=Rho(1)))
    ledger.reserve(touch("age"), "gaussian")
    ledger.reserve(touch("age", cost=Pure(0.5)), "laplace")
    ledger.void("gaussian", "not run")
    ledger.change_budget(Budget(person=Pure(1)), "pure from now on")
    assert spent(ledger) == {"person": touch("age", cost=Pure(0.5)).pure_units("age")}
    ledger.reserve(touch("age", cost=Pure(0.5)), "the rest")
    assert ledger.verify() == []


def test_external_releases_are_always_booked(ledger: Ledger) -> None:
    entry = ledger.record_external(touch("age", cost=Rho(0.12)), "elsewhere", who="the tax office", note="2025 table")
    assert entry.exceeded == ("age",) and entry.payload["who"] == "the tax office"
    line = next(line for line in ledger.spent() if line.limit.name == "age")
    assert line.exceeded and line.left == 0
    assert ledger.unfinished() == []
    with pytest.raises(BudgetExceeded, match="'age'"):
        ledger.reserve(touch("age"), "more")
    ledger.reserve(touch("race", cost=Rho(0.01)), "on something else")
    with pytest.raises(LedgerError, match="not a reservation"):
        ledger.void("elsewhere", "I wish")
    with pytest.raises(LedgerError, match="who"):
        ledger.record_external(touch("age"), "nobody", who=" ")


def test_an_external_release_without_any_bound(ledger: Ledger) -> None:
    unbounded = Guarantee.from_graph(PEOPLE, [], on="age", values={"age": ["young", "old"]})
    with pytest.raises(BudgetExceeded, match="no bound in ρ"):
        ledger.reserve(unbounded, "own")
    assert set(ledger.record_external(unbounded, "leak", who="someone").exceeded) == {"age", "person"}
    assert spent(ledger) == {"age": None, "race": 0, "income": 0, "person": None}
    with pytest.raises(BudgetExceeded, match="spent without bound") as caught:
        ledger.reserve(touch("race"), "r")
    assert caught.value.fields["spent"] is None
    assert ledger.verify() == []


def test_a_changed_budget_is_an_entry_and_rules_every_process(ledger: Ledger, tmp_path: Path) -> None:
    ledger.reserve(touch("age", "race"), "one")
    other = Ledger.open(tmp_path / "ledger.db", PEOPLE, BUDGET)
    new = Budget(per_attribute=Rho(0.1), sets={"age+race": Rho(0.03)})
    entry = ledger.change_budget(new, "the board asked for a limit on the pair")
    assert entry.kind == "budget" and entry.payload["reason"].startswith("the board")
    assert spent(ledger)["age+race"] == touch("age").rho_units("age")  # replayed for the new set
    with pytest.raises(BudgetExceeded, match=r"age\+race"):
        other.reserve(touch("race"), "two")  # opened before the change, bound by it all the same
    assert ledger.change_budget(new, "once more") == entry and ledger.head.seq == entry.seq
    with pytest.raises(LedgerError, match="another budget"):
        Ledger.open(tmp_path / "ledger.db", PEOPLE, BUDGET)
    Ledger.open(tmp_path / "ledger.db", PEOPLE, new)
    with pytest.raises(LedgerError, match="reason"):
        ledger.change_budget(BUDGET, "")
    assert ledger.verify() == []


def test_lowering_a_budget_below_what_is_spent_only_refuses(ledger: Ledger) -> None:
    ledger.reserve(touch("age", cost=Rho(0.05)), "one")
    ledger.change_budget(Budget(per_attribute=Rho(0.01)), "stricter")
    assert [line.exceeded for line in ledger.spent()] == [True, False, False]
    with pytest.raises(BudgetExceeded):
        ledger.reserve(touch("age", cost=Rho(0.000001)), "two")
    ledger.reserve(touch("race", cost=Rho(0.009)), "three")


def test_a_budget_may_name_a_new_derived_column(ledger: Ledger, tmp_path: Path) -> None:
    wider = Universe(PEOPLE.roots, {"age_band": ("age",)}, PEOPLE.public)
    again = Ledger.open(tmp_path / "ledger.db", wider, BUDGET)
    again.change_budget(Budget(attributes={"age_band": Rho(0.01)}), "bands")
    assert [e.kind for e in ledger.entries()] == ["open", "schema", "budget"]
    assert spent(ledger) == {"age_band": 0} and ledger.verify() == []


def test_public_attributes_cost_nothing(ledger: Ledger) -> None:
    ledger.reserve(touch("region", cost=Rho(3)), "only public")
    assert set(spent(ledger).values()) == {0}


def test_what_was_spent_on_any_set(ledger: Ledger) -> None:
    ledger.reserve(touch("age", cost=Rho(0.02)), "one")
    ledger.bind(ledger.reserve(touch("race", cost=Rho(0.03)), "two"), "d")
    ledger.record_external(touch("age", "race", cost=Rho(0.01)), "three", who="x")
    ledger.void("one", "not run")
    assert ledger.guarantee() == touch("race", cost=Rho(0.03)) + touch("age", "race", cost=Rho(0.01))
    assert ledger.spent_on("age").rho == pytest.approx(0.01)
    assert ledger.spent_on(["age", "race"]).rho == pytest.approx(0.04)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "reserve", "reserve", "external", "void", "bind", "budget"]),
        st.sets(st.sampled_from(PEOPLE.roots), min_size=1),
        st.integers(1, 40),
        st.booleans(),
    ),
    max_size=14,
)
BUDGETS = [
    BUDGET,
    Budget(attributes={"age": Pure(0.4)}),
    Budget(sets={"age+race": Rho(0.2)}),
    Budget(per_attribute=Rho(0.05), person=Pure(3)),
]


@settings(
    max_examples=20, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_totals_always_equal_the_composed_guarantee(tmp_path_factory: pytest.TempPathFactory, steps) -> None:  # type: ignore[no-untyped-def]
    """Whatever happens, each limit's running total is the composed guarantee's exact figure on that set."""
    ledger = Ledger.create(tmp_path_factory.mktemp("walk") / "l.db", PEOPLE, BUDGET)
    for number, (kind, names, size, pure) in enumerate(steps):
        guarantee = touch(*names, cost=(Pure if pure else Rho)(size / 1000))
        waiting = ledger.unfinished()
        try:
            if kind == "reserve":
                ledger.reserve(guarantee, f"r{number}")
            elif kind == "external":
                ledger.record_external(guarantee, f"r{number}", who="someone")
            elif kind == "budget":
                ledger.change_budget(BUDGETS[size % len(BUDGETS)], "for a test")
            elif waiting:
                chosen = waiting[size % len(waiting)]
                _ = ledger.void(chosen, "for a test") if kind == "void" else ledger.bind(chosen, f"d{number}")
        except BudgetExceeded:
            pass
    whole = ledger.guarantee()
    for line in ledger.spent():
        figure = whole.pure_units if line.limit.pure else whole.rho_units
        assert line.spent_units == figure(line.limit.attributes)
    assert ledger.verify() == []
