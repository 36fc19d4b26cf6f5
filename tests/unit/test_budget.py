"""Limits: which sets of attributes a budget binds, in exact units, and what it refuses."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

from nabladp.errors import BudgetError, UnknownAttribute
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Approx, Pure, Rho

PEOPLE = Universe(
    ("region", "age", "race", "ethnicity", "diagnosis"),
    {"age_band": ("age",), "household": ("age", "region")},
    frozenset({"region"}),
)


def by_name(budget: Budget) -> dict[str, Limit]:
    return {limit.name: limit for limit in budget.limits(PEOPLE)}


def test_every_kind_of_limit() -> None:
    limits = by_name(
        Budget(
            per_attribute=CDP(0.5),
            attributes={"diagnosis": Pure(0.2)},
            sets={"race+ethnicity": Rho(0.05), ("age", "race"): Rho(0.07)},
            person=Rho(4.0),
        )
    )
    assert list(limits) == ["age", "race", "ethnicity", "diagnosis", "race+ethnicity", "age+race", "person"]
    assert limits["age"].units == UNIT // 8 and not limits["age"].pure  # ρ = 0.5²/2
    assert limits["diagnosis"].pure and limits["diagnosis"].units == UNIT * 2 // 10
    assert limits["race+ethnicity"].attributes == {"race", "ethnicity"}
    assert limits["age+race"].attributes == {"age", "race"}
    assert limits["person"].attributes == {"age", "race", "ethnicity", "diagnosis"}  # region is public


def test_units_are_rounded_down() -> None:
    third = Budget(person=Rho(Fraction(1, 3))).limits(PEOPLE)[0].units
    assert third == UNIT // 3


def test_a_derived_name_limits_its_sources_and_keeps_its_own_name() -> None:
    limits = by_name(Budget(per_attribute=Rho(1), attributes={"age_band": Rho(0.5)}))
    assert limits["age_band"].attributes == limits["age"].attributes == {"age"}  # both are kept, both enforced
    assert limits["age_band"].units != limits["age"].units


def test_a_plus_may_belong_to_a_name() -> None:
    odd = Universe(("a+b", "a", "b", "c"))
    assert Budget(sets={"a+b": Rho(1)}).limits(odd)[0].attributes == {"a+b"}
    assert Budget(sets={"a + c": Rho(1)}).limits(odd)[0].attributes == {"a", "c"}
    with pytest.raises(BudgetError, match="two ways"):
        Budget(sets={("a", "b"): Rho(1)}).limits(odd)


@pytest.mark.parametrize(
    "budget",
    [
        lambda: Budget(),
        lambda: Budget(per_attribute=0.5),  # type: ignore[arg-type]
        lambda: Budget(attributes={"age": 1}),  # type: ignore[dict-item]
        lambda: Budget(sets={"a+b": None}),  # type: ignore[dict-item]
        lambda: Budget(person=Rho(-1)),
        lambda: Budget(person=Rho(float("nan"))),
        lambda: Budget(attributes=[("age", Rho(1))]),  # type: ignore[arg-type]
        lambda: Budget(sets={"": Rho(1)}),
        lambda: Budget(sets={(): Rho(1)}),
    ],
)
def test_senseless_budgets_are_refused(budget) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BudgetError) as caught:
        budget()
    assert caught.value.fix


def test_a_bare_number_is_told_what_to_say() -> None:
    with pytest.raises(BudgetError, match=r"'person' must say what it measures: it is a bare number.*CDP"):
        Budget(person=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [Budget(attributes={"rase": Rho(1)}), Budget(sets={"ethnicity+rase": Rho(1)})])
def test_unknown_names_get_a_suggestion(budget: Budget) -> None:
    with pytest.raises(UnknownAttribute, match="Did you mean 'race'") as caught:
        budget.limits(PEOPLE)
    assert caught.value.fields["limit"] in ("rase", "ethnicity+rase")


@pytest.mark.parametrize(
    "budget",
    [Budget(attributes={"region": Rho(1)}), Budget(sets={"age+region": Rho(1)}), Budget(sets={"household": Rho(1)})],
)
def test_nothing_is_promised_for_public_attributes(budget: Budget) -> None:
    with pytest.raises(BudgetError, match="'region'"):
        budget.limits(PEOPLE)


def test_a_budget_that_limits_nothing_is_refused() -> None:
    public = Universe(("a",), {}, frozenset({"a"}))
    with pytest.raises(BudgetError, match="limits nothing"):
        Budget(per_attribute=Rho(1), person=Rho(1)).limits(public)


def test_plan_form_round_trip() -> None:
    plan = {
        "per_attribute": {"cdp": 0.5},
        "attributes": {"diagnosis": {"cdp": 0.2}},
        "sets": {"race+ethnicity": {"rho": 0.05}},
        "person": {"epsilon": 4.0, "delta": 1e-6},
    }
    budget = Budget.from_json(plan)
    assert budget.to_json() == plan
    assert budget.person == Approx(4.0, 1e-6)
    assert Budget.from_json(budget.to_json()) == budget == pickle.loads(pickle.dumps(budget))
    assert hash(budget) == hash(Budget.from_json(plan))
    assert [Limit.from_json(limit.to_json()) for limit in budget.limits(PEOPLE)] == list(budget.limits(PEOPLE))
    tuples = Budget(sets={("race", "ethnicity"): Rho(0.05)})
    assert tuples.to_json() == {"sets": {"race+ethnicity": {"rho": 0.05}}}


def test_an_unknown_entry_in_a_plan_is_named() -> None:
    with pytest.raises(BudgetError, match=r"no entry 'per_atribute'.*'per_attribute'"):
        Budget.from_json({"per_atribute": {"cdp": 0.5}})
    with pytest.raises(BudgetError, match="table of limits"):
        Budget.from_json([])  # type: ignore[arg-type]


def test_a_set_that_is_spelled_in_two_ways_is_refused() -> None:
    """In the plan-file form, which the ledger keeps, one of the two limits would be lost."""
    with pytest.raises(BudgetError, match=r"'race\+ethnicity' is limited twice"):
        Budget(sets={"race+ethnicity": Rho(0.05), ("race", "ethnicity"): Pure(1)})
