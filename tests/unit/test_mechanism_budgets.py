"""Budgets of single attributes in NoisyMarginals: where two hold for one source, the smaller one does."""

from __future__ import annotations

import pytest

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
