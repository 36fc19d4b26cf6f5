"""DistributionEstimate: probabilities, their error, and what is kept."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nabladp.errors import BudgetError, DataError, MechanismError, PlanError
from nabladp.mechanisms.distribution_estimate import Distribution, DistributionEstimate
from nabladp.mechanisms.distribution_estimate.squared_error import SquaredError
from nabladp.mechanisms.heavy_hitters.mechanism import HeavyHitters
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.tables.decode import decode

SCHEMA = Schema(
    (
        Attribute("colour", "categorical", values=("red", "green", "blue")),
        Attribute("size", "integer", low=0, high=4),
        Attribute("probability", "boolean"),
    )
)
EITHER = [DistributionEstimate(CDP(1)), DistributionEstimate(Pure(1), notion="pure")]
either = pytest.mark.parametrize("mechanism", EITHER, ids=["cdp", "pure"])


def people(n: int = 4000) -> CodedTable:
    draws = np.random.default_rng(3)
    return CodedTable(SCHEMA, {a.name: np.minimum(draws.geometric(0.5, n) - 1, a.size - 1) for a in SCHEMA})


def made(counts: Any, n: int = 100) -> Distribution:
    codes = np.array([[i // 10, i // 2 % 5, i % 2] for i in range(len(counts))], np.int64).reshape(-1, 3)
    error = SquaredError(5, 0.1, 0.2, 0.1, 0.3, 8)
    return Distribution(SCHEMA.names, n, codes, np.array(counts, np.int64), 2.0, error, 0.05, SCHEMA)


@pytest.mark.parametrize("counts", [[], [40, 30], [60, 50, 3], [300, 1], [100], [90, 90, 90, 2], [50, -3]])
def test_probabilities_are_the_nearest_ones(counts: list[int]) -> None:
    """Towards no other probabilities does the distance to the counts fall."""
    found = made(counts)
    p, target = found.probabilities, np.array(counts) / 100
    assert np.all(p >= 0) and p.sum() <= 1 and found.rest == pytest.approx(1 - p.sum())
    assert found.rest >= 0
    corners = np.vstack([np.zeros((1, len(counts))), np.eye(len(counts))])
    assert np.all((corners - p) @ (target - p) <= 1e-11)


@either
def test_the_estimate_is_close_and_says_how_close(mechanism: DistributionEstimate) -> None:
    table = people()
    truth = table.marginals([SCHEMA.names])[0] / table.n
    found = mechanism.run(table, NoiseSource.seeded(5))
    estimate = np.zeros_like(truth)
    estimate[tuple(found.codes.T)] = found.probabilities
    error = float(((estimate - truth) ** 2).sum())
    assert found.error is not None and found.error_estimate is not None
    assert error <= found.error.bound and found.error.mean <= found.error.bound
    assert found.error.mean < found.error.population_mean <= 2 * found.error.mean + 2 / table.n  # the paper's way
    assert found.error.bound < found.error.population_bound
    assert error < 3 * found.error_estimate
    assert np.all(found.counts >= found.error.cut) and np.all(np.diff(found.counts) <= 0)


@either
def test_it_is_the_histograms_own_counts(mechanism: DistributionEstimate) -> None:
    """One release: the same draws give the same counts, and the guarantee is the histogram's."""
    found = mechanism.run(people(), NoiseSource.seeded(8))
    plain = mechanism.histogram.run(people(), NoiseSource.seeded(8)).at_least(found.error.cut if found.error else 0)
    assert np.array_equal(found.codes, plain.codes) and np.array_equal(found.counts, plain.counts)
    again = HeavyHitters(mechanism.budget, notion=mechanism.notion)
    assert mechanism.guarantee(SCHEMA, 4000) == again.guarantee(SCHEMA, 4000)
    assert mechanism.guarantee(SCHEMA, 0) == again.guarantee(SCHEMA, 0)


def test_probability_of_rows() -> None:
    found = EITHER[0].run(people(), NoiseSource.seeded(1))
    values = found.to_arrow(SCHEMA)
    assert values.column_names == [
        "colour",
        "size",
        "probability",
        "value",
        "low",
        "high",
        "noise_scale",
        "noisy_count",
    ]
    assert found.probability(decode(SCHEMA, dict(zip(found.names, found.codes.T, strict=True)))) == pytest.approx(
        found.probabilities
    )
    assert values["value"].to_pylist()[-1] == found.rest and values["colour"].to_pylist()[-1] is None
    rows = pd.DataFrame({"colour": ["red", "blue"], "size": [0, 4], "probability": [False, True]})
    assert found.probability(rows)[0] == found.probabilities[0] and found.probability(rows)[1] < 0.02
    with pytest.raises(DataError, match="'size'"):
        found.probability({"colour": ["red"], "probability": [True]})


@either
def test_output_round_trips(mechanism: DistributionEstimate) -> None:
    found = mechanism.run(people(), NoiseSource.seeded(1))
    again = mechanism.read_output(json.loads(json.dumps(found.to_json())), SCHEMA)
    assert again.to_json() == found.to_json() and "Distribution" in repr(again)
    with pytest.raises(MechanismError):
        Distribution.from_json(found.to_json() | {"counts": [1]}, SCHEMA)


@either
def test_more_rows_and_more_budget_mean_less_error(mechanism: DistributionEstimate) -> None:
    wide = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(40)))

    def error(n: int) -> SquaredError:
        found = mechanism.expected_error(wide, n).error
        assert found is not None
        return found

    few, many = error(1000), error(100_000)
    for name in ("mean", "bound", "population_mean", "population_bound"):
        assert getattr(many, name) < getattr(few, name) / 20
    body = mechanism.expected_error(wide, 1000).to_json()
    assert body["mean"] == few.mean and json.dumps(body) and len(body["summary"]) == 6
    assert "known" in mechanism.expected_error(wide, 0).to_json()["summary"]["promised"]


def test_error_grows_with_the_logarithm_of_the_number_of_attributes() -> None:
    def mean(d: int) -> float:
        schema = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(d)))
        found = DistributionEstimate(CDP(1)).expected_error(schema, 10_000).error
        assert found is not None
        return found.mean

    assert mean(1024) < 3 * mean(64)  # 16 times as many


def test_plan_form_and_refusals() -> None:
    mechanism = DistributionEstimate(CDP(1), over=("size",), budgets={"size": CDP(0.5)}, failure=0.2, memory_mb=500)
    assert mechanism.histogram.memory_mb == 500
    assert DistributionEstimate.from_plan(json.loads(json.dumps(mechanism.to_json()))) == mechanism
    with pytest.raises(PlanError):
        DistributionEstimate.from_plan({"over": ["size"]})
    with pytest.raises(PlanError):
        DistributionEstimate.from_plan({"budget": {"cdp": 1}, "ovr": ["size"]})
    with pytest.raises(BudgetError):
        DistributionEstimate(Pure(1))
    with pytest.raises(MechanismError):
        DistributionEstimate(CDP(1), failure=0)
