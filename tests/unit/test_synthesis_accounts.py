"""Accounts of Synthesis: limits that hold for every set, savings, and what happens when someone runs out."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp import CDP, NoiseSource, Rho, Schema, Synthesis
from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.synthesis.accounts import Accounts, Limits
from nabladp.mechanisms.synthesis.rounds import Truth
from nabladp.privacy import Budget
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute
from nabladp.tables import CodedTable


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(d)))


def table(d: int = 5, n: int = 400) -> CodedTable:
    draws = NoiseSource.seeded(3)
    first = draws.uniform_integers(2, n)
    codes = {f"b{i}": first ^ (draws.uniform_integers(4, n) == 0) for i in range(d)}
    return CodedTable(bits(d), codes)


MANY = [s for size in (2, 3) for s in itertools.combinations(["b0", "b1", "b2", "b3"], size)]

# ---- limits --------------------------------------------------------------------------------------------------------

amounts = st.floats(0.003, 3).map(lambda value: round(value, 4))
named = st.dictionaries(
    st.sets(st.sampled_from([f"b{i}" for i in range(5)]), min_size=2, max_size=4).map(
        lambda names: "+".join(sorted(names))
    ),
    amounts.map(Rho),
    max_size=3,
)


@settings(max_examples=60)
@given(
    st.sampled_from(["packed", "single", "all", "auto"]),
    amounts,
    st.dictionaries(st.sampled_from(["b0", "b3"]), amounts.map(Rho)),
    named,
    st.none() | amounts.map(lambda value: Rho(4 * value)),
    st.sampled_from([1, 2, 5, 19]),
)
def test_every_limit_holds_for_the_claim(
    strategy: str, each: float, budgets: Any, sets: Any, person: Any, rounds: int
) -> None:
    schema = bits(5)
    mechanism = Synthesis(
        Rho(each), strategy=strategy, rounds=rounds, budgets=budgets, sets=sets, person=person, selection=0.2
    )
    claim = mechanism.guarantee(schema, 1000)
    for limit in Budget(Rho(each), budgets, sets, person).limits(schema):
        assert (claim.rho_units(limit.attributes) or 0) <= limit.units
    assert claim.rho_units("b1") or 0 > 0


def test_what_a_budget_buys_is_spent_but_for_roundings() -> None:
    schema = bits(5)
    for strategy in ("packed", "single", "all"):
        claim = Synthesis(Rho(0.5), strategy=strategy).guarantee(schema, 1000)
        assert claim.rho("b0") == pytest.approx(0.5, rel=1e-9) and claim.rho("b0") <= 0.5
    person = Synthesis(person=Rho(2)).guarantee(schema, 1000)
    assert person.per_person().rho == pytest.approx(2, rel=1e-9)


def test_all_measurements_together_cost_half_the_sum_where_each_touches_two() -> None:
    schema = bits(6)
    design = Synthesis(Rho(1), strategy="single", rounds=8, one_way=0.1, selection=0.1).design(schema, 100)
    assert design.accounts is not None
    measured = design.accounts.guarantee(design.least)
    assert design.least == 2
    assert measured.rho(schema.names[:3]) == pytest.approx(3 * 0.8, rel=1e-6)
    assert measured.per_person().rho == pytest.approx(6 * 0.8 / 2, rel=1e-6)


@pytest.mark.parametrize("eps0", [0.02, 0.5, 7.0])
def test_no_number_of_rows_costs_more_than_is_booked_before_it_is_known(eps0: float) -> None:
    schema = bits(4)
    for more in ({}, {"sets": {"b0+b1": CDP(1.2 * eps0)}}, {"person": CDP(1.5 * eps0)}):
        unknown = Synthesis(CDP(eps0), budgets={"b2": CDP(eps0 / 3)}, **more).guarantee(schema, 0)
        assert (unknown.rho_units("b0") or 0) <= limit_units(CDP(eps0))
        for n, strategy in itertools.product((1, 50, 10**6), ("auto", "packed", "single", "refined", "all")):
            claim = Synthesis(CDP(eps0), budgets={"b2": CDP(eps0 / 3)}, strategy=strategy, **more).guarantee(schema, n)
            for size in range(1, 5):
                for chosen in itertools.combinations(schema.names, size):
                    assert (claim.rho_units(chosen) or 0) <= (unknown.rho_units(chosen) or 0)


@pytest.mark.parametrize("strategy", ["packed", "single", "refined", "all"])
@pytest.mark.parametrize("limit", [{"budget": Rho(0.1)}, {"person": Rho(0.01)}], ids=["budget", "person"])
@pytest.mark.parametrize("workload", [2, 3])
def test_given_shares_do_not_hide_what_depends_on_the_number_of_rows(
    strategy: str, limit: dict[str, Any], workload: int
) -> None:
    """The share of pairs, and groups of values."""
    schema = Schema((*bits(3).attributes, *(Attribute(f"n{i}", "integer", low=0, high=40) for i in range(2))))
    mechanism = Synthesis(**limit, workload=workload, strategy=strategy, rounds=3, one_way=0.2, selection=0.08)
    unknown = mechanism.guarantee(schema, 0)
    for n in (1, 300, 10**6):
        claim = mechanism.guarantee(schema, n)
        for size in range(1, 6):
            for chosen in itertools.combinations(schema.names, size):
                assert (claim.rho_units(chosen) or 0) <= (unknown.rho_units(chosen) or 0)


def test_large_shares_leave_something_to_measure_with() -> None:
    for more in ({"strategy": "packed", "selection": 0.35}, {"strategy": "single", "one_way": 0.4}, {"one_way": 0.3}):
        for n in (0, 100, 10**6):
            assert Synthesis(Rho(1), 3, **more).guarantee(bits(4), n).rho("b0") <= 1
    with pytest.raises(MechanismError, match="'pairs' and 'selection' leave nothing"):
        Synthesis(person=Rho(1e-5), workload=3, strategy="refined", pairs=0.8).guarantee(bits(4), 100)


@pytest.mark.parametrize("strategy", ["all", "refined"])
def test_weights_count_by_their_ratio_however_small(strategy: str) -> None:
    claims = [
        Synthesis(CDP(1), strategy=strategy, weights=tuple(scale * w for w in (1, 2, 3, 1, 2, 3))).guarantee(
            bits(4), 50
        )
        for scale in (1.0, 2.0**-40)
    ]
    assert claims[0] == claims[1]
    tiny = Synthesis(CDP(1), strategy=strategy, weights=(1e-12, 1, 1, 1, 1, 1)).guarantee(bits(4), 50)
    assert tiny.rho("b0") <= 0.5


def test_where_nothing_depends_on_the_number_of_rows_the_claim_is_the_same() -> None:
    mechanism = Synthesis(CDP(1), strategy="packed", rounds=5, one_way=0.1, selection=0.1)
    assert mechanism.guarantee(bits(4), 0) == mechanism.guarantee(bits(4), 77)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"sets": {"b0+b1": Rho(1)}}, "'b2' has no budget"),
        ({"budgets": {"b0": CDP(1)}}, "'b1' has no budget"),
        ({"budget": CDP(1), "sets": dict.fromkeys(MANY, Rho(1))}, "too many"),
        ({"budget": Rho(1e-14), "strategy": "all"}, "too small"),
        ({"budget": Rho(1e-13), "strategy": "packed", "one_way": 0}, "'b0' is too small for"),
        ({"budget": Rho(1), "sets": {"b0+b1": Rho(1e-14)}}, "too small"),
    ],
)
def test_budgets_that_cannot_be_used_are_refused(budget: dict[str, Any], words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        Synthesis(**budget).guarantee(bits(4), 100)


# ---- accounts ------------------------------------------------------------------------------------------------------


def limits(person: Any = None) -> Limits:
    return Limits.of(Universe.of(bits(3)), ["b0", "b1", "b2"], Budget(Rho(1), person=person))


def test_what_is_not_spent_is_there_in_the_next_round() -> None:
    held = limits()
    accounts = Accounts(held, (100, 100, 100), (0, 0, 0), (0, 0, 0)).grow(Fraction(1, 4))
    first = accounts.affordable((0, 1), {})
    accounts = accounts.pay((0, 1), first).grow(Fraction(2, 4))
    assert (first, accounts.affordable((0, 1), {}), accounts.affordable((2,), {})) == (25, 25, 50)
    assert accounts.affordable((1, 2), {}) == 25  # the poorer of the two decides
    assert accounts.left().units == (75, 75, 100)


def test_an_account_is_never_overdrawn() -> None:
    accounts = Accounts(limits(), (100, 100, 100), (0, 0, 0), (0, 0, 0)).grow(Fraction(1, 2))
    with pytest.raises(MechanismError, match="'b1' is overdrawn"):
        accounts.pay((1,), 51)


def test_who_shares_an_account_takes_a_part_of_it() -> None:
    accounts = Accounts(limits(Rho(2)), (100, 100, 100, 90), (0,) * 4, (0,) * 4).grow(Fraction(1))
    assert accounts.limits.charged(["b0"]) == (0, 3)
    assert accounts.affordable((0, 3), {3: 3}) == 30 and accounts.affordable((0, 3), {3: 1}) == 90


def test_a_later_measurement_of_a_saver_is_less_noisy() -> None:
    """A ring of three pairs: each round measures one and leaves one attribute out, which has more to spend next."""
    schema = bits(3)
    sets = (("b0", "b1"), ("b2",))
    mechanism = Synthesis(CDP(1), sets, strategy="single", rounds=2, one_way=0, selection=0.1)
    course = mechanism._course(schema, 100)
    state = course.start([])
    grown, _, _ = course.next_round(state)
    (units,) = course.units(grown, (0,))
    spent = course.paid(grown, (0,), [units]).grow(Fraction(1))
    assert course.units(spent, (1,))[0] == pytest.approx(2 * units, rel=1e-6)


def test_who_runs_out_is_left_alone_and_the_rest_goes_on() -> None:
    rows = table(5)
    mechanism = Synthesis(CDP(2), strategy="packed", rounds=6, sets={"b0+b1": Rho(1e-9)}, budgets={"b2": Rho(1e-8)})
    output = mechanism.run(rows, NoiseSource.seeded(1))
    later = [m for m in output.measured if m.round]
    assert any({"b3", "b4"} == set(m.attributes) for m in later)
    poor = [m.scale for m in later if {"b0", "b1"} & set(m.attributes)]
    rich = [m.scale for m in later if not {"b0", "b1", "b2"} & set(m.attributes)]
    assert not poor or min(poor) > 100 * max(rich)
    claim = mechanism.guarantee(rows.schema, rows.n)
    assert claim.rho(["b0", "b1"]) <= 1e-9


def test_realised_spending_stays_within_the_claim() -> None:
    """For every set, what a run really measured costs no more than was claimed for all runs."""
    rows = table(5)
    universe = Universe.of(rows.schema)
    nested = (("b0",), ("b0", "b1"), ("b3", "b2"), ("b4",))  # what is measured first is asked for again
    for strategy, person, workload in itertools.product(("packed", "single", "all"), (None, Rho(3)), (1, 2, nested)):
        mechanism = Synthesis(
            CDP(1), workload, strategy=strategy, rounds=7, person=person, sets={"b1+b2": Rho(0.6)}, one_way=0.3
        )
        output = mechanism.run(rows, NoiseSource.seeded(4))
        claim = mechanism.guarantee(rows.schema, rows.n)
        for size in range(1, 6):
            for chosen in itertools.combinations(rows.schema.names, size):
                met = [m for m in output.measured if universe.sources(m.attributes) & set(chosen)]
                assert sum(Fraction(1) / Fraction(m.scale) ** 2 for m in met) <= Fraction(claim.rho(chosen))


def test_counting_in_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(5)
    mechanism = Synthesis(CDP(1), strategy="packed", rounds=4)
    whole = mechanism.run(rows, NoiseSource.seeded(9))
    kept: list[int] = []
    keep = Truth.keep

    def counted(self: Truth, sets: Any) -> None:
        keep(self, sets)
        kept.append(len(self._kept))

    monkeypatch.setattr(Truth, "keep", counted)
    monkeypatch.setattr("nabladp.mechanisms.synthesis.rounds.MOST_BYTES", 10)
    monkeypatch.setattr("nabladp.mechanisms.synthesis.rounds.AT_ONCE", 8)
    pieces = mechanism.run(rows, NoiseSource.seeded(9))
    assert kept == [0]
    assert pieces.to_json() == whole.to_json()
