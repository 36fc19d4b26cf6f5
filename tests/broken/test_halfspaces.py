"""Planted faults: each a small realistic slip in HalfspaceLearner. The exact audit must refute every one."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Law
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, distance_to_flip
from nabladp.mechanisms.learners.halfspaces.average import Average
from nabladp.mechanisms.learners.halfspaces.exact import Exact
from nabladp.mechanisms.learners.halfspaces.gram import GramFit
from nabladp.mechanisms.learners.halfspaces.selection import Pick
from nabladp.mechanisms.learners.halfspaces.task import Method
from nabladp.noise import gaussian_log_pmf
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts, PartOfRows


def bits(names: str) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in names))


MARGINS: dict[str, Any] = {"method": "exact", "gamma": 1.0, "gamma_prime": 0.0}
RESPONSE: dict[str, Any] = {"label_treatment": "response"}
GAUSSIAN: dict[str, Any] = {"label_treatment": "gaussian"}


class LabelLeftOut(HalfspaceLearner):
    """Only features are charged."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        claim = super().guarantee(schema, n)
        return Guarantee.linear(schema, {name: Rho(claim.rho(name)) for name in schema.names if name != self.label})


class LabelChargedLikeOneColumn(HalfspaceLearner):
    """The label is in every product, not in one."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        claim = super().guarantee(schema, n)
        return Guarantee.linear(schema, {name: Rho(claim.rho("a")) for name in schema.names})


class FeaturesFreeAfterResponse(HalfspaceLearner):
    """What is made of randomized labels is taken for post-processing of everything."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        method: Any = self.learner(schema, n)
        response = method.pick.response if isinstance(method, Exact) else method.response
        return response.guarantee()  # type: ignore[no-any-return]


class NoResponse(HalfspaceLearner):
    """The response is charged, and the true labels are used."""

    def distribution(self, counts: Counts) -> Law:
        method: Any = self.learner(counts.schema, counts.n)
        if isinstance(method, Exact):
            pick = _same_rate(method.pick)
            return dataclasses.replace(
                method, pick=pick, candidates=dataclasses.replace(method.candidates, pick=pick)
            ).law(counts)
        return dataclasses.replace(method, response=None).law(counts)  # type: ignore[no-any-return]


def _same_rate(pick: Pick) -> Pick:
    found = dataclasses.replace(pick, response=None)
    found.__dict__["rate"] = pick.rate * pick.keep.denominator
    return found


class SharperChoice(HalfspaceLearner):
    """The exponential mechanism with twice the rate: exp(−ε·score) where exp(−ε·score/2) is allowed, and then some."""

    def learner(self, schema: Schema, n: int) -> Method:
        method: Any = super().learner(schema, n)
        pick = dataclasses.replace(method.pick)
        pick.__dict__["rate"] = 3 * method.pick.rate
        return dataclasses.replace(method, pick=pick)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return super().learner(schema, n).guarantee()


class LabelMovesByOne(HalfspaceLearner):
    """Without a response, a turned label moves the score of its row by more than a feature does."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        method: Any = self.learner(schema, n)
        return Guarantee.linear(schema, schema.names, CDP(method.pick.rate * Fraction(1, 2)))


class SmallerNoise(HalfspaceLearner):
    """30% below what was claimed."""

    def distribution(self, counts: Counts) -> Law:
        method = self.learner(counts.schema, counts.n)
        if isinstance(method, Average):
            method.__dict__["scale"] = 0.7 * method.scale
        elif isinstance(method, GramFit):
            small = dataclasses.replace(method.calibration, class_scales=0.7 * method.calibration.class_scales)
            object.__setattr__(method.mechanism, "_known", (method.schema, small))
        return method.law(counts)


class SensitivityOne(HalfspaceLearner):
    """A feature that is one-hot flips two columns."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        method = self.learner(schema, n)
        assert isinstance(method, Average)
        each = Rho(1 / (2 * method.scale**2))
        return Guarantee.linear(schema, dict.fromkeys("ab", each)) + Guarantee.touch(
            schema, "y", Rho(super().guarantee(schema, n).rho("y"))
        )


THREE = Schema(
    (Attribute("a", "boolean"), Attribute("b", "categorical", values=("x", "y", "z")), Attribute("y", "boolean"))
)
FAULTS: list[tuple[type[HalfspaceLearner], dict[str, Any], Schema]] = [
    (LabelLeftOut, GAUSSIAN | {"method": "gram"}, bits("aby")),
    (LabelLeftOut, RESPONSE, bits("aby")),
    (LabelLeftOut, MARGINS, bits("aby")),
    (LabelChargedLikeOneColumn, {"method": "average", **GAUSSIAN}, bits("aby")),
    (FeaturesFreeAfterResponse, RESPONSE, bits("aby")),
    (FeaturesFreeAfterResponse, {"method": "average", **RESPONSE}, bits("aby")),
    (FeaturesFreeAfterResponse, MARGINS, bits("aby")),
    (NoResponse, RESPONSE, bits("aby")),
    (NoResponse, {"method": "average", **RESPONSE}, bits("aby")),
    (NoResponse, MARGINS | {"budgets": {"y": CDP(0.2)}}, bits("aby")),
    (SharperChoice, MARGINS | {"label_treatment": "direct"}, bits("aby")),
    (LabelMovesByOne, MARGINS | {"label_treatment": "direct"}, bits("aby")),
    (SmallerNoise, GAUSSIAN | {"method": "gram"}, bits("aby")),
    (SmallerNoise, {"method": "average", **GAUSSIAN}, bits("aby")),
    (SmallerNoise, {"method": "average", **RESPONSE}, bits("aby")),
    (SensitivityOne, {"method": "average", **GAUSSIAN}, THREE),
]


@pytest.mark.parametrize(("fault", "options", "schema"), FAULTS, ids=lambda v: getattr(v, "__name__", str(v)[:30]))
def test_planted_fault_is_refuted(fault: type[HalfspaceLearner], options: dict[str, Any], schema: Schema) -> None:
    learner = fault(CDP(1), "y", **options)
    assert not exact_audit(learner, schema, 1, guarantee=learner.guarantee(schema, 2)).passed
    right = HalfspaceLearner(CDP(1), "y", **options)
    assert exact_audit(right, schema, 1, guarantee=right.guarantee(schema, 2)).passed


# ---- rows held out -------------------------------------------------------------------------------------------------


class HeldOutByPlace(HalfspaceLearner):
    """Every so many-th row is held out. In a table that is sorted, one changed value shifts all rows behind it."""

    def distribution(self, counts: Counts) -> Law:
        method, plan = self.learner(counts.schema, counts.n), self._holdout(counts.schema)
        assert isinstance(method, Exact) and plan is not None
        places = np.arange(1, counts.n, 2)
        (law,) = method.law(PartOfRows(counts, places, inside=False)).parts
        right = method._right_answers(PartOfRows(counts, places))
        window = math.ceil(24 + 14 * plan.scale)
        held = len(places)
        noise = [gaussian_log_pmf(plan.scale, -window - r, held + window - r) for r in right]
        return Law((np.add(np.asarray(law)[:, None], noise).ravel(),), 24.0)


class HoldoutNotCharged(HalfspaceLearner):
    """The rows held out are other rows, so they are taken for free (parallel composition)."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.learner(schema, n).guarantee()


HELD: dict[str, Any] = {"holdout": 0.5, "holdout_budget": Rho(1.9), "label_treatment": "direct", **MARGINS}


def test_holdouts_that_are_wrong_are_refuted() -> None:
    schema = bits("ay")
    assert not exact_audit(HoldoutNotCharged(CDP(2), "y", **HELD), schema, 2).passed
    small = HELD | {"holdout_budget": Rho(0.01), "gamma": 0.5}
    assert exact_audit(HalfspaceLearner(CDP(1), "y", **small), bits("aby"), 2).passed
    assert not exact_audit(HeldOutByPlace(CDP(1), "y", **small), bits("aby"), 4).passed


# ---- distances -----------------------------------------------------------------------------------------------------


def test_distances_of_float_weights_are_no_distances() -> None:
    """The reason for integer weights: where a sum of floats should be 0, neighbours may differ by 2."""

    def distance(x: tuple[int, ...], w: Any) -> int:
        total, flips = 0.0, 0
        for term in (w * np.array(x)).tolist():
            total += term
        for gain in sorted((g for g in (w * np.array(x)).tolist() if g > 0), reverse=True):
            if total >= 0:
                total, flips = total - 2 * gain, flips + 1
        return flips

    w, one, other = np.array([0.4, 0.8, 0.5, 0.1]), (1, -1, 1, -1), (1, 1, 1, -1)
    assert (distance(one, w), distance(other, w)) == (0, 2)
    assert distance_to_flip(np.array([one, other]), [1, 1], np.array([4, 8, 5, 1])).tolist() == [1, 2]
