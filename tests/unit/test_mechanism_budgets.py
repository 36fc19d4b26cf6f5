"""Budgets of single attributes: where two hold for one source, the smaller one does; what is wrong is named."""

from __future__ import annotations

import pytest
from every_mechanism import INSTANCES

from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=0, high=3),
        Attribute("sex", "boolean"),
        Attribute("band", "boolean", derived_from=("age",)),
    )
)


@pytest.mark.parametrize(
    "budgets", [{"age": Rho(0.1), "band": Rho(0.5)}, {"band": Rho(0.1), "age": Rho(0.5)}, {"age": Rho(0.1)}], ids=str
)
@pytest.mark.parametrize("column", ["age", "band"])
def test_the_smallest_budget_of_a_source_holds(budgets: dict[str, Rho], column: str) -> None:
    mechanism = NoisyMarginals(Rho(1), sets=((column,), ("sex",)), budgets=budgets)
    g = mechanism.guarantee(SCHEMA, 10)
    assert 0.0999 < g.rho("age") <= 0.1 and 0.999 < g.rho("sex") <= 1


@pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda mechanism: type(mechanism).__name__)
@pytest.mark.parametrize("wrong", [{"cdp": 0}, {"rho": -1}, {"pure": "much"}, {"cdp": True}, 0.5], ids=str)
def test_a_wrong_budget_in_a_plan_is_named_with_its_attribute(mechanism: Mechanism, wrong: object) -> None:
    plan = mechanism.to_json() | {"budgets": {"age": wrong}}
    with pytest.raises(BudgetError, match="budget of 'age'"):
        type(mechanism).from_plan(plan)


def test_the_fix_speaks_of_the_option_that_is_wrong() -> None:
    for wrong in ({"weights": {"age": 2}, "k": 1}, {"over": "age", "k": 1}, {"sets": "age"}):
        with pytest.raises(MechanismError) as caught:
            NoisyMarginals.from_plan({"budget": {"rho": 1}} | wrong)
        assert f"{next(iter(wrong))} = [" in caught.value.fix
