"""Randomized response on the label of every row, as a table whose label anyone may see.

The randomized label becomes a column of its own, public, beside the true one; a mechanism that reads it instead of the
label works as if labels were public, whatever features follow from the true label. A row's answer goes by its place: a
part of the table that is read again gives the same answers. In a second pass rows might come in another order, so only
one pass is allowed [one-answer].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from nabladp.arrays import Integers
from nabladp.errors import AuditError, BudgetError, MechanismError
from nabladp.mechanisms.learners.halfspaces.label_response import GRID
from nabladp.mechanisms.learners.halfspaces.task import Task, costs
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.noise import NoiseSource, response_epsilon
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts, Kernel, Progress


def response_cost(keep: Fraction) -> Fraction:
    """ρ of a response of pure ε: ε·tanh(ε/2), which is below ε²/2; tanh(ε/2) is 2·keep − 1."""
    return (2 * keep - 1) * Fraction(response_epsilon(2, keep))  # [tanh-epsilon]


@dataclass(frozen=True, eq=False)
class Response:
    """Every label is kept with probability ``keep``, else turned: what it costs, and the task that is left."""

    task: Task

    @cached_property
    def keep(self) -> Fraction:
        """As likely as the label's budget allows; of what it shares with features, half is for the label."""
        shared = self.task.feature_sources
        units = [self.task.units[s] // (1 + (s in shared)) for s in self.task.label_sources]
        if not units:
            raise MechanismError("The label is public: there is nothing to randomize.", fix="Leave the treatment out.")
        low, high = GRID // 2, GRID
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if response_cost(Fraction(middle, GRID)) * UNIT <= min(units) else (low, middle)
        if low == GRID // 2:
            raise BudgetError("The label's budget is too small: a response would say nothing.", fix="Raise it.")
        return Fraction(low, GRID)

    @property
    def signal(self) -> float:
        """How much of the label is left: the mean of the answer, for a label of +1."""
        return float(2 * self.keep - 1)

    def spread(self, n: int) -> float:
        """The deviation that answers give to a sum of n labels times ±1."""
        return math.sqrt(n * (1 - self.signal**2))

    def guarantee(self) -> Guarantee:
        cost = Rho(response_cost(self.keep))
        return Guarantee.touch(self.task.universe, sorted(self.task.label_sources), cost)  # [response]

    @cached_property
    def rest(self) -> Task:
        return self.task.features_after(costs(self.guarantee(), self.task.label_sources))

    @cached_property
    def answer(self) -> str:
        """The name of the new column."""
        name = f"{self.task.label} (answered)"
        while name in self.task.schema:
            name += "'"
        return name

    @cached_property
    def schema(self) -> Schema:
        answered = Attribute(self.answer, "boolean", public=True)
        return Schema((*self.task.schema.attributes, answered))

    def rows(self, counts: Counts, noise: NoiseSource) -> AnsweredRows:
        return AnsweredRows(counts, self, noise.row_response(self.keep))

    def law(self, counts: Counts, then: Callable[[Counts], Law]) -> Law:
        """Of a table of one row: its answer, and what follows from it."""
        if counts.n != 1:
            raise AuditError("With answers, the exact law is that of one row.", fix="Audit tables of one row.")
        (label,) = np.flatnonzero(counts.marginals([(self.task.label,)])[0]).tolist()
        likely = [float(self.keep if label == answer else 1 - self.keep) for answer in (0, 1)]
        laws = tuple(then(AnsweredRows(counts, self, Fixed(answer))) for answer in (0, 1))
        return Law((Branch(np.log(likely), np.arange(2), laws),))

    def tables(self, table: Integers) -> Iterator[tuple[float, Integers]]:
        """Every table of answers (label on the last axis) that may come of this one, with its log-probability."""
        cells = [(cell, label) for cell in np.ndindex(table.shape[:-1]) for label in (0, 1)]
        for turned in itertools.product(*(range(int(table[(*c, y)]) + 1) for c, y in cells)):
            found, chance = np.zeros_like(table), 0.0
            for (cell, label), moved in zip(cells, turned, strict=True):
                count = int(table[(*cell, label)])
                found[(*cell, label)] += count - moved
                found[(*cell, 1 - label)] += moved
                odds = math.comb(count, moved) * (1 - self.keep) ** moved * self.keep ** (count - moved)
                chance += math.log(odds)
            yield chance, found


def respond(task: Task) -> Response | None:
    """The response, if the budget buys one at all."""
    try:
        response = Response(task)
        response.rest  # noqa: B018  (refuses what is too little)
    except BudgetError:
        return None
    return response


@dataclass(frozen=True)
class Fixed:
    """The same answer in every row."""

    answer: int

    def __call__(self, labels: Integers, first: int) -> Integers:
        return np.full_like(labels, self.answer)


Draw = Callable[[Integers, int], Integers]  # of labels, and the place of the first


class AnsweredRows(Counts):
    """A table with the answers beside the labels; one pass only."""

    def __init__(self, counts: Counts, response: Response, draw: Draw) -> None:
        self.schema = response.schema
        self._counts, self._response, self._draw = counts, response, draw
        self._fresh = True

    @property
    def n(self) -> int:
        return self._counts.n

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        if not self._fresh:  # [one-answer]
            raise MechanismError("Answers are drawn once.", fix="Take everything in one pass.")
        self._fresh = False
        label = self._response.task.label
        return self._counts.fold(_WithAnswers(kernel, label, self._response.answer, self._draw), progress)


class _WithAnswers(Kernel):
    by_row_index = True

    def __init__(self, kernel: Kernel, label: str, answer: str, draw: Draw) -> None:
        self.kernel, self.label, self.answer, self.draw = kernel, label, answer, draw
        wanted = kernel.attributes or ()
        self.attributes = tuple(dict.fromkeys((*(name for name in wanted if name != answer), label)))

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self.at(batch, 0)

    def at(self, batch: pa.RecordBatch, first: int) -> Integers:
        labels = batch.column(self.label).to_numpy().astype(np.int64)
        return self.kernel(batch.append_column(self.answer, pa.array(self.draw(labels, first).astype(np.uint8))))
