"""method="descent": a few noisy steps of a clipped hinge loss, in coordinates whitened by a noisy Gram matrix.

In every step the rows that are not safely on their side are added up. Whatever changes in a row, the sum moves by at
most 2 (rows have length 1); if only one feature changes, by at most 1, so that it pays a quarter of what the label
pays. The rest of the features' budgets buys the Gram matrix, of which the label is no part.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError, BudgetError
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.gram_matrix.calibration import Calibration
from nabladp.mechanisms.learners.halfspaces.gram import GramFit
from nabladp.mechanisms.learners.halfspaces.hinge import LEVELS, WEIGHT_GRID, Rows, Vectors
from nabladp.mechanisms.learners.halfspaces.task import FEWEST_UNITS, Fitted, Task, curve
from nabladp.mechanisms.learners.halfspaces.whitening import Whitening
from nabladp.mechanisms.mechanism import Law
from nabladp.mechanisms.scales import least_scale
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import Rho
from nabladp.tables import Counts

STEPS = 12
RATE = 2.0  # for each column: the most that a step goes
NOISE_RATE = 0.3  # all steps together go so far that noise moves a row by about this share of the margin
_LARGEST = 1 << 27  # of a weight on its grid: inner products stay below 2⁵³
_NOISIER = 1.25  # than a Gram matrix, where that is still preferred


@dataclass(frozen=True, eq=False)
class Descent:
    task: Task
    steps: int = STEPS
    memory: int = 1 << 30

    @property
    def randomizes(self) -> bool:
        return False

    # ---- what it costs --------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> Counter[str]:
        """In features that change; the label counts as two, which is as much as all together."""
        return self.task.reach + Counter(dict.fromkeys(self.task.label_sources, 2))  # [one-feature]

    def _cost(self, held: int) -> int:
        """Of one step, in units."""
        return (0, self.quarter, 4 * self.quarter)[min(held, 2)]  # [quarter]

    @cached_property
    def quarter(self) -> int:
        """What one feature pays for a step: a label pays all it has in all, a feature at most half of it."""
        most = []
        for source, count in self.held.items():
            own = self.task.units[source] // (2 if source in self.task.feature_sources else 1)
            most.append(own // (self.steps * (1 if count == 1 else 4)))
        if most and min(most) < FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many steps.", fix="Raise it or take fewer steps.")
        return min(most, default=0)

    def _all_steps(self) -> Guarantee:
        def cost(count: int) -> Fraction:
            return Fraction(self.steps * self._cost(count), UNIT)

        return curve(self.task.universe, self.held, cost)  # [hinge-steps]

    @cached_property
    def mechanism(self) -> GramMatrix:
        """Of the features alone, for what they have left."""
        spent = {source: self.steps * self._cost(self.held[source]) for source in self.task.feature_sources}
        rest = self.task.features_after(spent)
        return GramMatrix(Rho(1), rest.columns.attributes, self._encode(), None, rest.budgets())

    def _encode(self) -> dict[str, Any]:
        columns = self.task.columns
        return {name: how for name, how in columns.to_json().items() if name in columns.attributes}

    @cached_property
    def calibration(self) -> Calibration:
        return self.mechanism.calibration(self.task.schema)

    def guarantee(self) -> Guarantee:
        return self.calibration.guarantee() + self._all_steps()  # [features-first]

    def scale(self, radius: int) -> float:
        """Of the noise in a step, for rows of this length; 0 where nothing protected moves them."""
        return least_scale("gaussian", 4 * self.quarter, (2 * LEVELS * radius) ** 2) if self.held else 0.0  # [two]

    # ---- how well it will do --------------------------------------------------------------------------------------

    @property
    def _noise(self) -> float:
        """In an entry of a step's sum, for rows of length 1."""
        return 2 / math.sqrt(8 * self.quarter / UNIT) if self.held else 0.0

    def suits(self) -> bool:
        """Whether the steps together have about as little noise as a Gram matrix leaves in products with the label.

        Where both have the same budget, so it is; not where labels are public, or nearly.
        """
        if not self.task.label_sources:
            return False
        mean = self._noise * math.sqrt(self.task.width / self.steps)
        label = min(self.task.units[source] for source in self.task.label_sources)
        least = 2 * math.sqrt(self.task.width * UNIT / (2 * label))  # what a label pays for in a Gram matrix at best
        return mean <= _NOISIER * least or mean <= _NOISIER * GramFit(self.task).label_noise()

    def rate(self, n: int) -> float:
        most = RATE * self.task.width
        return min(most, 2 * NOISE_RATE * n / (self._noise * math.sqrt(self.steps))) if self._noise else most

    def figures(self) -> dict[str, Any]:
        how = "paid for in every step" if self.task.label_sources else "public"
        told: dict[str, Any] = {"columns of ±1, with the intercept": self.task.width, "the label is": how}
        expected = self.mechanism.expected_error(self.task.schema, self.task.n)
        told |= {"noise scale of a product of two columns": expected.largest_scale, "noisy steps": self.steps}
        if self.task.n:
            told["noise in an entry of a step's sum, as a share of the rows"] = self._noise / self.task.n
        return told

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        whitening = Whitening.of(self.mechanism.run(counts, noise))
        rows = Rows(counts, Vectors(self.task.columns, self.task.label, whitening), self.memory)
        scale = self.scale(whitening.radius)
        drawn = self._drawn(scale, noise)
        weights, total, taken = np.zeros(self.task.width), np.zeros(self.task.width), 0
        rate = self.rate(counts.n) / (LEVELS * whitening.radius * counts.n)
        for step in range(self.steps):
            on_grid = np.rint(weights * WEIGHT_GRID).clip(-_LARGEST, _LARGEST).astype(np.int64)
            weights = weights + rate * (rows.sums(on_grid) + drawn[step])  # [step-noise]
            counts.working("learning, step", step + 1, self.steps)
            if 2 * (step + 1) > self.steps:  # the mean of the later half
                total, taken = total + weights, taken + 1
        return Fitted(whitening.weights(_mean(total, taken)), self._facts(whitening, scale))

    def _drawn(self, scale: float, noise: NoiseSource) -> Integers:
        """For every step a row of its own, drawn at once."""
        shape = (self.steps, self.task.width)
        return noise.discrete_gaussian(scale, shape) if scale else np.zeros(shape, dtype=np.int64)

    def _facts(self, whitening: Whitening, scale: float) -> dict[str, Any]:
        each = scale / (LEVELS * whitening.radius)
        return {"steps": self.steps, "ridge": whitening.ridge, "noise_scale": each}

    def law(self, counts: Counts) -> Law:
        raise AuditError("The law of noisy steps is not worked out.", fix="Audit 'gram', or a step of your own.")


def _mean(total: Floats, taken: int) -> Floats:
    return np.asarray(total / taken)
