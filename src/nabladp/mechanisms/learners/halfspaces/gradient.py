"""method="gradient": logistic regression in noisy steps, for tables with too many columns for a Gram matrix.

The gradient is ½(Σ tanh(⟨w, x⟩/2)·x − Σ y·x): the label is in the second sum only, which is released once. What remains
in each step is a function of features and public weights, all within ±W.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError, BudgetError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.learners.halfspaces.average import Average
from nabladp.mechanisms.learners.halfspaces.task import FEWEST_UNITS, Fitted, NoisySums, Task, costs, curve
from nabladp.mechanisms.mechanism import Law
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.tables import Counts, Kernel

WEIGHT_GRID = 1 << 20  # weights are multiples of 1/this: sums of them are exact in doubles
ROW_GRID = 1 << 16  # a row's tanh is a multiple of 1/this
MOMENTUM = 0.8
BOX = 2  # times what makes curvature free: better weights are worth somewhat more noise
_ROUNDED = 0.51  # at most, in steps of the grid: half a step, and what doubles may add
_CAREFUL = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Gradient:
    task: Task
    sums: Average
    steps: int

    @classmethod
    def choose(cls, task: Task, treatment: str | None, steps: int) -> Gradient:
        """The method "gradient" within budget: the label's whole budget is for the sums with it; of a feature's, at
        most half."""
        units = {s: u if s not in task.feature_sources else u // 2 for s, u in task.units.items()}
        return cls(task, Average.choose(replace(task, units=units), treatment), steps)

    @property
    def randomizes(self) -> bool:
        return self.sums.randomizes

    @cached_property
    def largest(self) -> int:
        """The bound W on weights, on the grid: so small that one attribute's change in tanh matters little more than
        its own columns."""
        flips = max(self.task.flips.values(), default=1)
        return max(1, math.floor(BOX * 2 * WEIGHT_GRID / math.sqrt(flips * self.task.width)))

    @cached_property
    def _moves(self) -> list[Fraction]:
        """The squared sensitivity of a gradient step's sums, on the grid, to so many flipped columns of a row."""
        width, bound = self.task.width, self.largest / WEIGHT_GRID
        result, farthest = [Fraction(0)], 0.0
        for t in range(1, sum(self.task.flips.values()) + 1):
            if t <= width:
                curved = math.sqrt(width - t) * math.tanh(t * bound / 2)
                farthest = max(farthest, 2 * ROW_GRID * max(math.sqrt(t), curved))  # [tanh]
            result.append(Fraction((farthest + 2 * _ROUNDED * math.sqrt(width)) ** 2 * _CAREFUL))  # [grid]
        return result

    @cached_property
    def scale(self) -> float:
        """The noise scale of every gradient step, on the grid."""
        spent = costs(self.sums.guarantee(), self.task.feature_sources)
        left = {s: (self.task.units[s] - spent[s]) // self.steps for s in self.task.feature_sources}
        if left and min(left.values()) < FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many steps.", fix="Raise it or take fewer steps.")
        flips = self.task.flips
        return max((least_scale("gaussian", left[s], self._moves[flips[s]]) for s in left), default=0.0)

    def guarantee(self) -> Guarantee:
        return Guarantee.compose(self.task.universe, (self.sums.guarantee(), *[self.step_cost()] * self.steps))

    def step_cost(self) -> Guarantee:
        double = 2 * Fraction(self.scale) ** 2

        def cost(count: int) -> Fraction:
            return self._moves[count] / double

        return curve(self.task.universe, self.task.flips, cost)  # [steps]

    def noise_uses(self) -> list[NoiseUse]:
        flips = self.task.flips
        moved = {frozenset({source}): self.steps * self._moves[count] for source, count in flips.items()}
        charge = Charge(Guarantee.compose(self.task.universe, [self.step_cost()] * self.steps), moved)
        numbers, laws = (self.steps * self.task.width, self._step_laws()) if flips else (0, ())
        steps = NoiseUse.exactly("the steps' sums", "discrete_gaussian", numbers, charge, steps=laws)
        return [*self.sums.noise_uses(), steps]

    def _step_laws(self) -> tuple[NoisySums, ...]:
        """Exact laws of a gradient step at the corners of the box, where one column moves tanh most or least, and
        half-way to one."""
        signs = 1 - 2 * (np.arange(self.task.width) % 2)
        states = (np.full(self.task.width, self.largest), self.largest * signs, self.largest * signs // 2)

        def law(weights: Integers) -> NoisySums:
            kernel = TanhSums(self.task.columns, weights.astype(np.int64))
            return NoisySums(self.step_cost(), self.scale, lambda counts: counts.fold(kernel), ROW_GRID)

        return tuple(map(law, states))

    def figures(self) -> dict[str, Any]:
        figures = self.sums.figures()
        figures |= {"noisy steps": self.steps, "largest weight": self.largest / WEIGHT_GRID}
        if self.task.n:
            figures["noise in an entry of a step's sum, as a share of the rows"] = self.scale / ROW_GRID / self.task.n
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        target = self.sums.sums(counts, noise) / counts.n

        def noisy(weights: Integers) -> Floats:
            sums = counts.fold(TanhSums(self.task.columns, weights))
            drawn = noise.discrete_gaussian(self.scale, len(sums)) if self.scale else np.zeros(len(sums), np.int64)
            return np.asarray((sums + drawn) / (ROW_GRID * counts.n), dtype=np.float64)

        def report_step(step: int) -> None:
            counts.working("learning, step", step, self.steps)

        weights = self.descend(target, noisy, report_step)
        return Fitted(weights / WEIGHT_GRID, {"steps": self.steps, "noise_scale": self.scale / ROW_GRID})

    def descend(self, target: Floats, sums: Callable[[Integers], Floats], report_step: Callable[[int], None]) -> Floats:
        """Logistic regression by noisy gradient steps with momentum inside the box, from 0; the later half is averaged.

        The curvature is at most ¼ of the number of columns: with this rate no step overshoots.
        """
        rate = 4 * WEIGHT_GRID / self.task.width
        weights, total, taken = np.zeros(len(target)), np.zeros(len(target)), 0
        gradient = pace = -target / 2
        for step in range(self.steps):
            weights = np.clip(np.rint(weights - rate * pace), -self.largest, self.largest)  # [box]
            gradient = (sums(weights.astype(np.int64)) - target) / 2
            pace = MOMENTUM * pace + gradient
            report_step(step + 1)
            if 2 * step >= self.steps - 1:
                total, taken = total + np.clip(weights - rate * pace, -self.largest, self.largest), taken + 1
        return np.asarray(total / taken)

    def law(self, counts: Counts) -> Law:
        raise AuditError(
            "The exact output distribution of noisy steps is not available.", fix="Audit its sums: method='average'."
        )


class TanhSums(Kernel):
    """A kernel: Σ tanh(⟨w, x⟩/2)·x over rows, tanh rounded to the grid for each row by itself."""

    def __init__(self, columns: SignedColumns, weights: Integers) -> None:
        self.columns, self.weights = columns, weights
        self.attributes: tuple[str, ...] = columns.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        signs = self.columns.matrix({name: batch.column(name).to_numpy() for name in self.attributes})
        reals = signs.astype(np.float64)
        inner = reals @ self.weights.astype(np.float64)  # whole numbers below 2⁵³: exact in any order
        rounded = np.rint(ROW_GRID * np.tanh(inner / (2 * WEIGHT_GRID)))
        return np.asarray(rounded @ reals, dtype=np.int64)  # of whole numbers again
