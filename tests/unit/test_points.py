"""PointLearner: what comes out, what it promises, and what it refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nabladp.errors import BudgetError, DataError, MechanismError, PlanError, UnknownAttribute
from nabladp.mechanisms.heavy_hitters.mechanism import HeavyHitters
from nabladp.mechanisms.heavy_hitters.output import HeavyList
from nabladp.mechanisms.learners.points import PointLearner, PointModel
from nabladp.mechanisms.learners.points.mechanism import _choose
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        Attribute("colour", "categorical", values=("red", "green", "blue")),
        Attribute("size", "integer", low=0, high=4),
        Attribute("ill", "boolean"),
        Attribute("other", "boolean"),
    )
)
LEARNER = PointLearner(CDP(1), "ill", over=("colour", "size"))


def wide(d: int) -> Schema:
    return Schema((*(Attribute(f"b{i}", "boolean") for i in range(d)), Attribute("y", "boolean")))


def rows_of(point: tuple[int, ...], share: float, n: int, seed: int = 1) -> dict[str, Any]:
    draws = np.random.default_rng(seed)
    x = draws.integers(0, [3, 5], (n, 2))
    x[draws.random(n) < share] = point
    y = (x == point).all(axis=1).astype(np.int64)
    return {"colour": x[:, 0], "size": x[:, 1], "ill": y, "other": draws.integers(0, 2, n)}


def listed(codes: Any, counts: Any) -> HeavyList:
    given = np.array(codes, np.int64).reshape(-1, 3)
    return HeavyList(("colour", "size", "ill"), 100, given, np.array(counts, np.int64), None)


# ---- choosing ------------------------------------------------------------------------------------------------------


def test_the_heaviest_positive_point_above_the_cut_is_chosen() -> None:
    found = listed([[0, 0, 0], [1, 2, 1], [2, 2, 1]], [50, 30, 20])
    assert _choose(found, 20, (3, 5), NoiseSource.seeded(1)) == ((1, 2), 30)
    point, count = _choose(found, 31, (3, 5), NoiseSource.seeded(1))
    assert count is None and point != (0, 0)


def test_without_one_the_lot_falls_on_points_not_known_to_be_negative() -> None:
    negative = [[i, j, 0] for i in range(3) for j in range(5)]
    found = listed(negative[:12], [30] * 12)
    drawn = {_choose(found, 10, (3, 5), NoiseSource.seeded(i))[0] for i in range(40)}
    assert drawn == {(2, 2), (2, 3), (2, 4)}
    assert _choose(listed(negative, range(40, 25, -1)), 10, (3, 5), NoiseSource.seeded(1)) == ((2, 4), None)
    assert _choose(listed([], []), 10, (3, 5), NoiseSource.seeded(1))[1] is None


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_a_planted_point_is_learned(notion: str) -> None:
    learner = PointLearner(CDP(1) if notion == "cdp" else Pure(1), "ill", over=("colour", "size"), notion=notion)
    data = rows_of((1, 3), 0.2, 2000)
    model = learner.run(CodedTable(SCHEMA, data), NoiseSource.seeded(2))
    assert model.values == {"colour": "green", "size": "3"} and "PointModel" in repr(model)
    assert model.count is not None and abs(model.count - data["ill"].sum()) < 60
    seen = pd.DataFrame({"size": [3, 3, 2], "colour": ["green", "red", "green"]})
    assert model.predict(seen).tolist() == [True, False, False]
    assert model.predict(seen.iloc[:0]).tolist() == []
    again = learner.read_output(json.loads(json.dumps(model.to_json())), SCHEMA)
    assert isinstance(again, PointModel) and again.to_json() == model.to_json()
    assert model.to_arrow(SCHEMA).to_pydict() == {"feature": ["colour", "size"], "value": ["green", "3"]}


def test_a_hypothesis_comes_out_whatever_the_data() -> None:
    for data in (rows_of((0, 0), 0.0, 400), {name: np.zeros(400, np.int64) for name in SCHEMA.names}):
        model = LEARNER.run(CodedTable(SCHEMA, data), NoiseSource.seeded(3))
        assert len(model.predict({"colour": ["red"], "size": [0]})) == 1


def test_few_rows_promise_nothing() -> None:
    small = PointLearner(CDP(3), "ill", over=("colour", "size"))
    model = small.run(CodedTable(SCHEMA, rows_of((1, 1), 0.5, 4)), NoiseSource.seeded(1))
    assert model.promise.error is None
    assert "nothing" in small.expected_error(SCHEMA, 4).to_json()["summary"]["promised"]
    assert LEARNER.promise(SCHEMA, 0).error is None
    assert "known" in LEARNER.expected_error(SCHEMA, 0).to_json()["summary"]["promised"]


# ---- before data ---------------------------------------------------------------------------------------------------


def test_the_guarantee_is_that_of_the_histogram_over_features_and_label() -> None:
    claim = LEARNER.guarantee(SCHEMA, 1000)
    assert claim == HeavyHitters(CDP(1), ("colour", "size", "ill"), failure=0.1).guarantee(SCHEMA, 1000)
    assert claim.rho("other") == 0 and 0.4 < claim.rho("ill") <= 0.5
    assert PointLearner(CDP(1), "ill").features(SCHEMA) == ("colour", "size", "other")


def test_more_rows_or_budget_promise_less_error_and_more_certainty_more() -> None:
    def error(n: int = 1000, eps: float = 1.0, failure: float = 0.1) -> float:
        found = PointLearner(CDP(eps), "y", failure=failure).promise(wide(40), n).error
        assert found is not None
        return found

    assert error(2000) < error() < error(500)
    assert error(eps=2) < error() < error(eps=0.5)
    assert error(failure=0.01) > error()


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_needed_rows_is_the_least_that_keeps_the_promise(notion: str) -> None:
    learner = PointLearner(CDP(1) if notion == "cdp" else Pure(1), "y", notion=notion)
    needed = learner.needed_rows(wide(32), 0.1)
    promised = learner.promise(wide(32), needed).error
    assert promised is not None and promised <= 0.1
    fewer = learner.promise(wide(32), round(0.9 * needed)).error
    assert fewer is None or fewer > 0.1
    if notion == "cdp":
        assert learner.needed_rows(wide(32), 0.1, failure=0.01) > needed


def test_what_is_expected_is_told() -> None:
    body = LEARNER.expected_error(SCHEMA, 2000).to_json()
    assert body["error"] == LEARNER.promise(SCHEMA, 2000).error
    assert body["summary"]["probability that this bound holds, at least"] == 0.9
    assert json.dumps(body)
    (told,) = [value for label, value in body["summary"].items() if "budget per person" in label]
    rules = SCHEMA.cells(LEARNER.features(SCHEMA))
    assert told == body["per_person_rows"] == math.ceil(math.sqrt(math.log(rules) / 0.5) / body["error"])


# ---- refusals and plan files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"label": "colour"}, MechanismError),
        ({"label": "il"}, UnknownAttribute),
        ({"label": "ill", "over": ("ill", "size")}, MechanismError),
        ({"label": "ill", "over": ("sizes",)}, UnknownAttribute),
    ],
)
def test_labels_and_features_that_make_no_sense(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        PointLearner(CDP(1), **options).guarantee(SCHEMA, 100)


def test_options_that_make_no_sense() -> None:
    for options in ({"failure": 0}, {"failure": 1}, {"over": ()}, {"over": "size"}, {"notion": "approx"}):
        with pytest.raises(MechanismError):
            PointLearner(CDP(1), "ill", **options)  # type: ignore[arg-type]
    with pytest.raises(MechanismError):
        PointLearner(CDP(1), 3)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        PointLearner(Pure(1), "ill")
    with pytest.raises(MechanismError):
        LEARNER.needed_rows(SCHEMA, 0)


def test_plan_form_round_trips() -> None:
    learner = PointLearner(CDP(1), "ill", over=("size",), budgets={"ill": CDP(0.5)}, failure=0.2, memory_mb=500)
    assert learner.histogram(SCHEMA).memory_mb == 500
    assert PointLearner.from_plan(json.loads(json.dumps(learner.to_json()))) == learner
    for options in ({"budget": {"cdp": 1}}, {"budget": {"cdp": 1}, "label": "ill", "lable": 1}, {"label": "ill"}):
        with pytest.raises(PlanError):
            PointLearner.from_plan(options)


def test_a_point_of_another_schema_is_refused() -> None:
    body = LEARNER.run(CodedTable(SCHEMA, rows_of((1, 3), 0.3, 500)), NoiseSource.seeded(2)).to_json()
    with pytest.raises(MechanismError):
        PointModel.from_json(body | {"point": [7, 3]}, SCHEMA)
    with pytest.raises(MechanismError):
        PointModel.from_json(body | {"point": [1]}, SCHEMA)


def test_predicting_needs_every_feature_and_only_declared_values() -> None:
    model = LEARNER.run(CodedTable(SCHEMA, rows_of((1, 3), 0.3, 500)), NoiseSource.seeded(2))
    with pytest.raises(DataError, match="'size'"):
        model.predict({"colour": ["red"]})
    with pytest.raises(DataError, match="'size'"):
        model.predict({"colour": ["red"], "size": [99]})
    with pytest.raises(DataError, match="'colour' and 'size' are not equally long"):
        model.predict({"colour": ["red", "red"], "size": [3]})
    with pytest.raises(DataError):
        model.predict(pd.DataFrame([["red", 1, 2]], columns=["colour", "size", "size"]))
    with pytest.raises(OSError, match="column"):
        model.predict({"colour": "red", "size": 3})
