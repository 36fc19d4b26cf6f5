"""Randomized response on the label: scores that undo its bias, and a table whose randomized label anyone may see.

The randomized label becomes a column of its own, public, beside the true one; a mechanism that reads it instead of the
label works as if labels were public, whatever features follow from the true label. A row's answer goes by its row
index: a part of the table that is read again gives the same answers. In a second pass rows might come in another order,
so only one pass is allowed [one-answer].
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
from numpy.typing import ArrayLike

from nabladp.arrays import Integers
from nabladp.errors import AuditError, BudgetError, MechanismError
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, whole
from nabladp.mechanisms.learners.halfspaces.task import Task, costs
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise import NoiseSource, response_epsilon
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts, Kernel, Progress

# ---- randomized response on one label, and scores that undo its bias -------------------------------------------------
# A label that is kept with probability p > ½ and else turned costs ln(p/(1−p)), pure; whatever is made of the
# randomized labels costs the label nothing more.
#
# The paper then minimises the robust loss of the randomized labels (`lem:label-rr`), saying that it is an increasing
# function of the robust error of the true ones. It is not: a row near the boundary is robustly wrong under *both*
# labels. Where one hypothesis has 0.2 of the rows near its boundary, all right, and another has 0.25 far on the wrong
# side, the first has the smaller robust error, but p = 0.6 makes the second look better (0.45 against 0.52), however
# many rows.
#
# Instead, give the row the score p·s(x, ỹ) − (1−p)·s(x, −ỹ): on average over the response, (2p−1)·s(x, y) for the true
# label y. As p is a fraction A/B, the numerators A·n(x, y) − (B−A)·n(x, −y) are whole and take the place of counts; a
# class sums scores linearly, so nothing else changes.
#
# Sensitivity [unbiased]. Of s(x, +1) and s(x, −1) one is at distance 0, that is, at its maximum. A step of one
# attribute that keeps the side moves only the other, by 1: the score by at most A. A step across the boundary goes from
# distances (1, 0) to (0, 1): if γ'd ≥ 1 both are at the maximum before and after and nothing moves; if γ'd = 0 both
# move by 1, the score by A + (B−A) = B. All in all the score has a range of B·width. A public label is the case A = B =
# 1. With e per attribute and P(h) ∝ exp(−(e/step)·score), the guarantee is ``linear(attributes, limit, e)``, and
# ln(A/(B−A)) for the label.

GRID = 1 << 12  # denominators of the probability to keep a label: small, so that scores stay whole and short


def keep_within(epsilon: float) -> Fraction:
    """The largest probability of keeping a label, on the grid, at which randomized response costs at most ``epsilon``,
    pure."""
    if not epsilon > 0:
        raise BudgetError("The label's epsilon must be positive.", fix="Give, say, 0.5, or declare the label public.")
    start = math.floor(GRID / (1 + math.exp(-epsilon)))
    for numerator in range(min(start + 1, GRID - 1), GRID // 2, -1):
        if response_epsilon(2, Fraction(numerator, GRID)) <= epsilon:
            return Fraction(numerator, GRID)
    raise BudgetError(
        "The label's epsilon is too small: a response would be pure noise.",
        fix=f"Give at least {response_epsilon(2, Fraction(GRID // 2 + 1, GRID)):.2g}.",
    )


def unbiased(table: ArrayLike, keep: Fraction) -> Integers:
    """Counts by randomized label (last axis), as counts whose halfspace scores are unbiased up to a factor.

    The factor is ``2A − B`` for ``keep`` = A/B.
    """
    counts = whole(table, "Counts")
    return keep.numerator * counts - (keep.denominator - keep.numerator) * np.flip(counts, axis=-1)


def unbiased_sensitivity(loss: ClippedLoss, keep: Fraction, attributes: int = 1) -> int:
    """The sensitivity of the sum of unbiased scores to a change of so many attributes (not the label) of one row
    [unbiased]."""
    step = keep.numerator if loss.inner else keep.denominator
    return min(attributes * step, keep.denominator * loss.width)


def unbiased_limit(loss: ClippedLoss, keep: Fraction) -> int:
    """The number of attributes beyond which a change moves unbiased scores no further: the ``limit`` of the
    guarantee."""
    return math.ceil(Fraction(keep.denominator * loss.width, unbiased_sensitivity(loss, keep)))


# ---- a table whose labels are randomized -----------------------------------------------------------------------------


def response_cost(keep: Fraction) -> Fraction:
    """The ρ of randomizing a label with pure ε: ε·tanh(ε/2), which is below ε²/2; tanh(ε/2) is 2·keep − 1."""
    return (2 * keep - 1) * Fraction(response_epsilon(2, keep))  # [tanh-epsilon]


@dataclass(frozen=True, eq=False)
class Response:
    """Every label is kept with probability ``keep``, else turned: what it costs, and the task that is left."""

    task: Task

    @cached_property
    def keep(self) -> Fraction:
        """The probability of keeping a label that its budget allows; of a budget shared with features, half is for the
        label."""
        shared = self.task.feature_sources
        units = [self.task.units[s] // (1 + (s in shared)) for s in self.task.label_sources]
        if not units:
            raise MechanismError("The label is public: there is nothing to randomize.", fix="Leave the treatment out.")
        low, high = GRID // 2, GRID
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if response_cost(Fraction(middle, GRID)) * UNIT <= min(units) else (low, middle)
        if low == GRID // 2:
            raise BudgetError("The label's budget is too small: a response would be pure noise.", fix="Raise it.")
        return Fraction(low, GRID)

    @property
    def signal(self) -> float:
        """The mean of the randomized label for a true label of +1."""
        return float(2 * self.keep - 1)

    def spread(self, n: int) -> float:
        """The standard deviation that randomized labels add to a sum of n labels times ±1."""
        return math.sqrt(n * (1 - self.signal**2))

    def guarantee(self) -> Guarantee:
        cost = Rho(response_cost(self.keep))
        return Guarantee.touch(self.task.universe, sorted(self.task.label_sources), cost)  # [response]

    def noise_use(self) -> NoiseUse:
        charge = Charge.of_each(self.guarantee(), self.task.label_sources, 1)
        return NoiseUse.exactly("the answers for the label", "randomized_response", self.task.n, charge)

    @cached_property
    def rest(self) -> Task:
        return self.task.features_after(costs(self.guarantee(), self.task.label_sources))

    @cached_property
    def answer(self) -> str:
        """The name of the column of randomized labels."""
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
        """The exact law for a table of one row: its randomized label, and what follows from it."""
        if counts.n != 1:
            raise AuditError(
                "With responses, the exact output distribution is that of one row.", fix="Audit tables of one row."
            )
        (label,) = np.flatnonzero(counts.marginals([(self.task.label,)])[0]).tolist()
        likely = [float(self.keep if label == answer else 1 - self.keep) for answer in (0, 1)]
        laws = tuple(then(AnsweredRows(counts, self, Fixed(answer))) for answer in (0, 1))
        return Law((Branch(np.log(likely), np.arange(2), laws),))

    def tables(self, table: Integers) -> Iterator[tuple[float, Integers]]:
        """Every table of randomized labels (label on the last axis) that may come of this one, with its
        log-probability."""
        cells = [(cell, label) for cell in np.ndindex(table.shape[:-1]) for label in (0, 1)]
        for turned in itertools.product(*(range(int(table[(*c, y)]) + 1) for c, y in cells)):
            result, chance = np.zeros_like(table), 0.0
            for (cell, label), moved in zip(cells, turned, strict=True):
                count = int(table[(*cell, label)])
                result[(*cell, label)] += count - moved
                result[(*cell, 1 - label)] += moved
                odds = math.comb(count, moved) * (1 - self.keep) ** moved * self.keep ** (count - moved)
                chance += math.log(odds)
            yield chance, result


def answered(response: Response | None, law: Law) -> Iterator[tuple[float, Law]]:
    """What follows each randomized label of one row, with its log-probability, in a law that may begin with that
    label."""
    if response is None:
        yield 0.0, law
    else:
        yield from ((chance, then) for _, chance, then in law.branch().possible())


def respond(task: Task) -> Response | None:
    """Randomized response on the label, if the budget buys any at all."""
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


Draw = Callable[[Integers, int], Integers]  # of labels, and the row index of the first


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
