"""What NoisyMarginals hands out: parts by name, pooled counts, estimates, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nabladp.errors import BudgetError, MechanismError, PlanError, UnknownAttribute
from nabladp.mechanisms.noisy_marginals import MarginalTables, NoisyMarginal, NoisyMarginals
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=0, high=3),
        Attribute("sex", "boolean"),
        Attribute("size", "ordered", values=("small", "middle", "large")),
        Attribute("pay", "real", edges=(0, 10, 30), null="category"),
        Attribute("job", "categorical", values=("a", "b")),
    )
)


def tables(*parts: NoisyMarginal, n: int = 1000) -> MarginalTables:
    return MarginalTables(parts, n, SCHEMA)


def exactly(*names: str, counts: list[int] | np.ndarray, scale: float = 1e-3) -> NoisyMarginal:
    """A table with next to no noise, so that estimates can be checked by hand."""
    cells = np.array(counts, dtype=np.int64).reshape(SCHEMA.sizes(names))
    return NoisyMarginal(names, cells, "gaussian", scale, SCHEMA)


def test_parts_are_found_in_any_order_and_others_are_named() -> None:
    made = tables(exactly("age", "sex", counts=np.arange(8)))
    assert made["sex", "age"].counts.tolist() == np.arange(8).reshape(4, 2).T.tolist()
    assert len(made) == 1 and [t.attributes for t in made] == [("age", "sex")]
    with pytest.raises(MechanismError, match=r"age\+pay was not released.*Released tables: age\+sex"):
        made["age", "pay"]
    with pytest.raises(UnknownAttribute):
        made["agee"]


def test_counts_are_signed_and_clamping_is_a_choice() -> None:
    part = exactly("sex", counts=[-3, 5])
    assert part.counts.tolist() == [-3, 5] and part.clamped().tolist() == [0, 5]
    assert tables(part, n=2)["sex"].values.tolist() == [-3, 5]


def test_pooling_weighs_by_variance() -> None:
    precise, rough = exactly("sex", counts=[400, 600], scale=1.0), exactly("sex", "age", counts=[100] * 8, scale=3.0)
    made = tables(precise, rough)  # the second one's 800 rows become 1,000: 500 of each
    one, other = 1 / precise.variance, 1 / (4 * rough.variance)
    pooled = (400 * one + 500 * other) / (one + other)
    assert made["sex"].values.tolist() == pytest.approx([pooled, 1000 - pooled], abs=1e-6)
    assert made["sex"].deviation == pytest.approx(math.sqrt(0.5 / (one + other)))
    assert made["sex", "age"].values.sum(axis=1).tolist() == pytest.approx(made["sex"].values.tolist(), abs=1e-5)
    assert made.raw["sex", "age"].values.tolist() == rough.counts.tolist()
    with pytest.raises(MechanismError, match="No released table of counts holds 'pay'"):
        made.count(by="pay")


def test_mean_of_everyone_and_of_those_known() -> None:
    made = tables(exactly("age", counts=[100, 200, 300, 400]), exactly("pay", counts=[300, 100, 600]))
    assert made.mean("age").value == pytest.approx(2.0)
    pay = made.mean("pay")  # midpoints 5 and 20, nulls left out
    assert pay.value == pytest.approx((300 * 5 + 100 * 20) / 400)
    assert pay.low == pytest.approx((300 * 0 + 100 * 10) / 400, abs=0.01)
    assert pay.high == pytest.approx((300 * 10 + 100 * 30) / 400, abs=0.01)
    with pytest.raises(MechanismError, match="not numeric"):
        made.mean("sex")
    hidden = tables(exactly("pay", counts=[3, 1, 996], scale=50.0)).mean("pay")
    assert (hidden.value, hidden.low, hidden.high) == (None, 0, 30)


def test_quantiles_of_numbers_and_of_words() -> None:
    made = tables(exactly("age", counts=[100, 200, 300, 400]), exactly("size", counts=[100, 500, 400]))
    assert [made.quantile("age", q).value for q in (0.05, 0.2, 0.5, 0.9)] == [0, 1, 2, 3]
    assert made.quantile("size", 0.5).value == "middle"
    with pytest.raises(MechanismError, match="no order"):
        made.quantile("job", 0.5)
    with pytest.raises(MechanismError, match="strictly between"):
        made.quantile("age", 1.0)


def test_noise_widens_quantiles() -> None:
    noisy = tables(exactly("age", counts=[250, 250, 250, 250], scale=40.0)).quantile("age", 0.5)
    assert noisy.low < noisy.value < noisy.high or noisy.high - noisy.low >= 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"noise": "uniform", "k": 1}, MechanismError),
        ({"over": ("age",), "sets": (("age",),)}, MechanismError),
        ({"k": 1, "weights": (1, 2)}, MechanismError),
        ({"k": 1, "weights": (0, 1, 1, 1, 1)}, MechanismError),
        ({"k": 1, "weights": "12345"}, MechanismError),
        ({"sets": "age"}, MechanismError),
        ({"k": 1, "budgets": 3}, BudgetError),
        ({"k": 1, "budgets": {"agee": CDP(1)}}, UnknownAttribute),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        NoisyMarginals(CDP(1), **options).guarantee(SCHEMA, 10)  # type: ignore[arg-type]


def test_plans_name_their_mistakes() -> None:
    with pytest.raises(PlanError, match="Did you mean 'weights'"):
        NoisyMarginals.from_plan({"budget": {"cdp": 1}, "k": 1, "weight": [1]})
    with pytest.raises(PlanError, match="needs a budget"):
        NoisyMarginals.from_plan({"k": 1})
    with pytest.raises(BudgetError, match="too small"):
        NoisyMarginals(CDP(1e-9), k=1).guarantee(SCHEMA, 10)
