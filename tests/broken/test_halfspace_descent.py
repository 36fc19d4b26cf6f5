"""Planted faults in a step of method="descent": each a small realistic slip. The exact audit must refute every one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from one_step import OneStep, scaled

from nabladp.arrays import Integers
from nabladp.audit import exact_audit
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, descent
from nabladp.mechanisms.learners.halfspaces.descent import WEIGHT_GRID, Vectors, hinge_sums
from nabladp.mechanisms.learners.halfspaces.gram import Whitening
from nabladp.privacy import CDP, Guarantee
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts

ABY = Schema(tuple(Attribute(name, "boolean") for name in "aby"))
SAME = (8, 8, 8)
START = (0.0, 0.0, 0.0)


class LabelLikeAFeature(OneStep):
    """The label turns a whole row around, a feature does not."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.curve(schema, dict.fromkeys("aby", 1), [self.cost(c) for c in range(4)])


class FeaturesLikeOne(OneStep):
    """However many features change, what one costs."""

    def cost(self, held: int) -> Fraction:
        return super().cost(min(held, 1))

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        table = [self.cost(c) for c in range(3)]
        return Guarantee.curve(schema, dict.fromkeys("ab", 1), table) + Guarantee.curve(
            schema, {"y": 1}, [Fraction(0), super().cost(2)]
        )


class NotCut(OneStep):
    """Rows keep their own length; noise is for the radius."""

    def sums(self, counts: Counts) -> Integers:
        long = Whitening(self.whitening.matrix, 1 << 14, 0.0)
        vectors = Vectors(self.method.task.columns, "y", long)
        weights = np.rint(np.array(self.weights) * WEIGHT_GRID).astype(np.int64)
        return hinge_sums(np.concatenate([vectors.of(b) for b in counts._batches(ABY.names)], axis=1), weights, 1 << 14)  # type: ignore[attr-defined]


class SmallerNoise(OneStep):
    def scale(self) -> float:
        return 0.7 * super().scale()


class NoiseForOneFeature(OneStep):
    """Noise for a sum that moves by the radius, where a label moves it by two."""

    def scale(self) -> float:
        return super().scale() / 2


FAULTS: list[tuple[type[OneStep], tuple[int, ...], tuple[float, ...], float]] = [
    (LabelLikeAFeature, SAME, START, 1.0),
    (FeaturesLikeOne, (1, 8, 8), START, 1.0),
    (NotCut, (40, 8, 8), START, 1.0),
    (SmallerNoise, (40, 8, 8), START, 1.0),
    (NoiseForOneFeature, SAME, START, 1.0),
    (OneStep, (1, 30, 30), START, 0.6),  # a radius shorter than the way that one attribute can move a row
]


@pytest.mark.parametrize(("fault", "sizes", "weights", "shrink"), FAULTS, ids=lambda v: getattr(v, "__name__", ""))
def test_planted_fault_is_refuted(fault: Any, sizes: Any, weights: Any, shrink: float, monkeypatch: Any) -> None:
    for module in (descent,):
        monkeypatch.setattr(module, "LEVELS", 2)
    learner = HalfspaceLearner(CDP(4), "y", method="descent", steps=1)
    broken = fault(learner, ABY, scaled(learner, ABY, sizes, shrink), weights)
    assert not exact_audit(broken, ABY, 1).passed
    right = OneStep(learner, ABY, scaled(learner, ABY, sizes), weights)
    assert exact_audit(right, ABY, 1).passed  # type: ignore[arg-type]
