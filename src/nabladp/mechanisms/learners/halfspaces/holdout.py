"""Rows that a model did not learn from: how often it is right on them, counted with noise and paid for.

Which rows is drawn at random. Were it every tenth, then in a table sorted by age a change of one age would shift whole
stretches of rows from one side to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.learners.halfspaces.distance import Halfspace
from nabladp.mechanisms.learners.halfspaces.task import FEWEST_UNITS
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import confidence
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho
from nabladp.tables import Counts, Kernel, PartOfRows


@dataclass(frozen=True, eq=False)
class HoldoutPlan:
    """``share`` of the rows; ``units`` of ρ for every protected source in ``touched``."""

    universe: Universe
    touched: frozenset[str]
    share: float
    units: int

    def rows(self, n: int) -> int:
        return min(max(1, math.floor(self.share * n)), n - 1) if n else 0

    @cached_property
    def scale(self) -> float:
        """The count of right predictions moves by at most one, whatever changes in a row."""
        if not self.touched:
            return 0.0
        if self.units < FEWEST_UNITS:
            raise MechanismError("The budget of the holdout is too small.", fix="Raise 'holdout_budget'.")
        return least_scale("gaussian", self.units, 1)  # [holdout]

    def guarantee(self) -> Guarantee:
        held = sorted(self.touched)
        if not held:
            return Guarantee.none(self.universe)
        return Guarantee.touch(self.universe, held, Rho(1 / (2 * Fraction(self.scale) ** 2)))

    def split(self, counts: Counts, noise: NoiseSource) -> tuple[Counts, Counts]:
        """Rows to learn from, and rows held out."""
        places = noise.uniform_subset(counts.n, self.rows(counts.n))  # [places]
        return PartOfRows(counts, places, inside=False), PartOfRows(counts, places)

    def count(self, rows: Counts, kernel: RightAnswers, noise: NoiseSource) -> Holdout:
        right = int(rows.fold(kernel)[0])
        drawn = int(noise.discrete_gaussian(self.scale, 1)[0]) if self.scale else 0
        return Holdout(rows.n, right + drawn, self.scale)


class RightAnswers(Kernel):
    """A kernel: on how many rows a halfspace gives the label."""

    def __init__(self, halfspace: Halfspace, features: tuple[str, ...], label: str) -> None:
        self.halfspace, self.features, self.label = halfspace, features, label
        self.attributes = (*features, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        codes = np.stack([batch.column(name).to_numpy().astype(np.int64) for name in self.features], axis=1)
        said = self.halfspace.predict(codes) > 0
        return np.array([np.count_nonzero(said == (batch.column(self.label).to_numpy() == 1))], dtype=np.int64)


@dataclass(frozen=True)
class Holdout:
    """Of ``rows`` rows held out, about ``right`` were predicted right; the count has noise of this scale."""

    rows: int
    right: int
    scale: float

    @property
    def accuracy(self) -> float:
        return min(max(self.right / self.rows, 0.0), 1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """For the accuracy on new people: noise and the luck of which rows were held out, by a normal approximation."""
        confidence(level)
        share = (self.accuracy * self.rows + 2) / (self.rows + 4)  # keeps some spread where all or none are right
        spread = math.sqrt(share * (1 - share) / self.rows + (self.scale / self.rows) ** 2)
        width = NormalDist().inv_cdf((1 + level) / 2) * spread
        return max(self.accuracy - width, 0.0), min(self.accuracy + width, 1.0)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "right": self.right, "scale": self.scale}
