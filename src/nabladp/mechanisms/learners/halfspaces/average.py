"""method="average": the noisy sum of label times columns, Σ y·x, is the weight vector.

Counted are disagreements D_j, the rows where label and column j differ; Σ y·x_j = n − 2·D_j. A change of T moves D_j by
at most 1, and only where exactly one of label and column j flips: in as many products as columns flip, or in all if the
label does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel, name_whole
from nabladp.mechanisms.learners.halfspaces.randomized_labels import Response, answered, respond
from nabladp.mechanisms.learners.halfspaces.task import AUDIT_ORDER, Fitted, NoisySums, Task, curve
from nabladp.mechanisms.mechanism import Law, Scenario, ValueLaw
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.tables import Counts


@dataclass(frozen=True, eq=False)
class Average:
    """``response``: the label is randomized first; otherwise it pays for all its products."""

    task: Task
    response: Response | None = None

    @classmethod
    def choose(cls, task: Task, treatment: str | None) -> Average:
        """The method "average" with the treatment of labels asked for, or else the one that leaves less noise."""
        own = cls(task)
        if treatment == "response":
            return cls(task, Response(task))
        response = respond(task) if treatment is None and task.label_sources else None
        other = cls(task, response)
        return other if response is not None and other.noise() < own.noise() else own

    @property
    def randomizes(self) -> bool:
        return self.response is not None

    @cached_property
    def held(self) -> Counter[str]:
        """The products Σ y·x that each source can move: one per column that it can flip, all of them for the label."""
        pays = frozenset() if self.response else self.task.label_sources
        return self.task.flips + Counter(dict.fromkeys(pays, self.task.width))  # [products]

    @cached_property
    def scale(self) -> float:
        """The noise scale of a count of disagreements between label and column; 0 where nothing protected can move
        it."""
        units = (self.response.rest if self.response else self.task).units
        return max((least_scale("gaussian", units[s], self._moved(c)) for s, c in self.held.items()), default=0.0)

    def _moved(self, held: int) -> int:
        return min(held, self.task.width)

    def guarantee(self) -> Guarantee:
        return self._sums_cost() + self.response.guarantee() if self.response else self._sums_cost()

    def _sums_cost(self) -> Guarantee:
        each = 1 / (2 * Fraction(self.scale) ** 2) if self.held else Fraction(0)
        return curve(self.task.universe, self.held, lambda count: each * self._moved(count))  # [sums]

    def noise_uses(self) -> list[NoiseUse]:
        moved = {frozenset({source}): self._moved(count) for source, count in self.held.items()}
        numbers, charge = self.task.width if self.held else 0, Charge(self._sums_cost(), moved)
        law = NoisySums(charge.cost, self.scale, self.disagreements, 1)
        steps = (law,) if numbers and not self.response else ()
        sums = NoiseUse.exactly("the sums of label times column", "discrete_gaussian", numbers, charge, steps=steps)
        return [sums, self.response.noise_use()] if self.response else [sums]

    def noise(self) -> float:
        """The standard deviation of an averaged weight's noise, in rows."""
        if self.response is None:
            return 2 * self.scale
        return math.hypot(2 * self.scale, self.response.spread(self.task.n)) / self.response.signal

    def figures(self) -> dict[str, Any]:
        how = "randomized first" if self.response else "charged in every sum" if self.task.label_sources else "public"
        figures: dict[str, Any] = {"columns of ±1, with the intercept": self.task.width, "the label": how}
        if self.task.n or not self.response:
            figures["deviation of the noise in a weight, in rows"] = self.noise()
        if self.task.n:
            figures["deviation of the noise in a weight, as a share of the rows"] = self.noise() / self.task.n
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def disagreements(self, counts: Counts) -> Integers:
        """For every column, the number of rows where it disagrees with the label, from the tables of each feature with
        the label.

        The intercept is always +1.
        """
        target = self.response.answer if self.response else self.task.label
        blocks = [block for block in self.task.columns.blocks if block.names]
        tables = counts.marginals([(block.attribute, target) for block in blocks])
        results = [tables[0][:, 0].sum(keepdims=True)]
        for block, table in zip(blocks, tables, strict=True):
            results.append(np.where(block.positive, table[:, 0], table[:, 1]).sum(axis=1))
        return np.concatenate(results)

    def sums(self, counts: Counts, noise: NoiseSource) -> Floats:
        """The halfspace's weights Σ y·x with noise, unbiased."""
        rows: Counts = self.response.rows(counts, noise) if self.response else counts
        noisy = self.disagreements(rows)
        if self.scale:
            noisy = noisy + noise.discrete_gaussian(self.scale, len(noisy))  # [noise]
        result: Floats = (counts.n - 2 * noisy) / (self.response.signal if self.response else 1.0)
        return result

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        sums = self.sums(counts, noise)
        deviation = self.noise() / counts.n
        return Fitted(sums / counts.n, {"noise_scale": 2 * self.scale}, np.full(len(sums), deviation))

    def law(self, counts: Counts) -> Law:
        return self.response.law(counts, self._sums_law) if self.response else self._sums_law(counts)

    @property
    def _lowest(self) -> int:
        """The lowest count of disagreements that the exact law lists; without noise it is 0."""
        return -math.ceil(AUDIT_ORDER + 14 * self.scale) if self.scale else 0

    def scenarios(self, law: Law) -> Iterator[Scenario]:
        """The scenarios of the method "average": every sum is published, as a weight; the randomized label of the row
        is not."""
        for chance, then in answered(self.response, law):
            columns = enumerate(then.arrays())
            yield Scenario(chance, {column: ValueLaw(self._lowest, part) for column, part in columns})

    def values(self, model: HalfspaceModel) -> dict[Hashable, int]:
        """The noisy count of disagreements behind every published weight: :meth:`sums` inverted."""
        signal = self.response.signal if self.response else 1.0
        counts = (model.n - model.weights * (model.n * signal)) / 2
        return {name_whole(column, count): round(count) for column, count in enumerate(counts.tolist())}

    def _sums_law(self, counts: Counts) -> Law:
        low, parts = self._lowest, []
        for count in self.disagreements(counts).tolist():
            if self.scale:
                parts.append(gaussian_log_pmf(self.scale, low - count, counts.n - low - count))
            else:
                parts.append(np.where(np.arange(counts.n + 1) == count, 0.0, -np.inf))
        return Law(tuple(parts), AUDIT_ORDER)
