"""One step of method="descent" as a mechanism, with a given map of rows and given weights, for exact audits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from nabladp.arrays import Integers
from nabladp.mechanisms import Auditable, Law
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, descent
from nabladp.mechanisms.learners.halfspaces.descent import WEIGHT_GRID, Descent, HingeSums, Vectors
from nabladp.mechanisms.learners.halfspaces.gram import Whitening, longest_step
from nabladp.mechanisms.learners.halfspaces.task import curve
from nabladp.noise import gaussian_log_pmf
from nabladp.privacy import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.schema import Schema
from nabladp.tables import Counts

ORDER = 24.0


def scaled(learner: HalfspaceLearner, schema: Schema, sizes: Sequence[int], shrink: float = 1.0) -> Whitening:
    """A map that only scales columns, with the radius that is due to it, or with a smaller one."""
    matrix = np.diag(np.array(sizes, dtype=np.int64))
    far = math.isqrt(int(longest_step(matrix, learner.task(schema, 9).columns))) + 1
    return Whitening(matrix, round(shrink * (far + math.isqrt(len(sizes)) + 2)), 0.0)


@dataclass
class OneStep(Auditable):
    learner: HalfspaceLearner
    schema: Schema
    whitening: Whitening
    weights: Sequence[float]

    @property
    def method(self) -> Descent:
        found = self.learner.learner(self.schema, 9)
        assert isinstance(found, Descent)
        return found

    def cost(self, held: int) -> Fraction:
        return Fraction(self.method._cost(held), UNIT)

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return curve(self.method.task.universe, self.method.held, self.cost)

    def scale(self) -> float:
        return self.method.scale(self.whitening.radius)

    def sums(self, counts: Counts) -> Integers:
        weights = np.rint(np.array(self.weights) * WEIGHT_GRID).astype(np.int64)
        vectors = Vectors(self.method.task.columns, self.learner.label, self.whitening)
        return counts.fold(HingeSums(vectors, weights))

    def distribution(self, counts: Counts) -> Law:
        scale, farthest = self.scale(), 2 * counts.n * descent.LEVELS * int(np.abs(self.whitening.matrix).sum())
        window = farthest + math.ceil(ORDER + 14 * scale)
        return Law(tuple(gaussian_log_pmf(scale, -window - s, window - s) for s in self.sums(counts).tolist()), ORDER)
