"""The private choice of a halfspace: what it costs, how sharp it may be, and the scores of rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.mechanisms.learners.halfspaces.erm import Promise, row_scores
from nabladp.mechanisms.learners.halfspaces.halfspace import ClippedLoss, Halfspace
from nabladp.mechanisms.learners.halfspaces.response import Response, unbiased_sensitivity
from nabladp.mechanisms.learners.halfspaces.task import Task, curve
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise.parameters import selection_scores
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.tables import Kernel

# ---- the private choice of a halfspace -------------------------------------------------------------------------------


def log_law(scores: ArrayLike, rate: Fraction) -> NDArray[np.float64]:
    """The log of every candidate's probability, for audits."""
    values = selection_scores(scores)
    logs = -float(rate) * (values.astype(np.int64) - int(values.min()))
    return np.asarray(logs - math.log(math.fsum(np.exp(logs))))


_FINE = 1 << 80
_FREE = Fraction(64)  # the rate where nothing protected moves a score


@dataclass(frozen=True, eq=False)
class Pick:
    """What the choice costs, and how sharp it may be.

    With a response, scores are unbiased ones of the answers, and only features move them. Without, a protected label
    moves the score of its row by as much as all features together.
    """

    task: Task
    loss: ClippedLoss
    response: Response | None = None

    @property
    def keep(self) -> Fraction:
        return self.response.keep if self.response else Fraction(1)

    @cached_property
    def held(self) -> Counter[str]:
        """In attributes of a row that change: a label that was not randomized counts as many as matter at all."""
        pays = frozenset() if self.response else self.task.label_sources
        return self.task.reach + Counter(dict.fromkeys(pays, self.loss.width))  # [score]

    def moved(self, held: int) -> int:
        """How far so many of them can move a score."""
        if self.response is None:
            return self.loss.sensitivity(held)
        return unbiased_sensitivity(self.loss, self.keep, held)  # [unbiased]

    @cached_property
    def rate(self) -> Fraction:
        units = (self.response.rest if self.response else self.task).units
        rates = [Fraction(math.isqrt(2 * units[s] * UNIT), UNIT * self.moved(c)) for s, c in self.held.items()]
        return Fraction(math.floor(min(rates) * _FINE), _FINE) if rates else _FREE / self.keep.denominator

    def guarantee(self) -> Guarantee:
        return self._choice_cost() + self.response.guarantee() if self.response else self._choice_cost()

    def _choice_cost(self) -> Guarantee:
        return curve(self.task.universe, self.held, lambda c: (self.rate * self.moved(c)) ** 2 / 2)  # [range]

    def noise_uses(self) -> list[NoiseUse]:
        moved = {frozenset({source}): self.moved(count) for source, count in self.held.items()}
        charge = Charge(self._choice_cost(), moved)
        choice = NoiseUse.exactly("the choice of a halfspace", "select_exponential", 1, charge)
        return [choice, self.response.noise_use()] if self.response else [choice]

    def promise(self, candidates: int) -> Promise:
        return Promise(candidates, self.loss, float(self.rate * self.moved(1)), self.keep)


class RowScores(Kernel):
    """A kernel: the scores of some halfspaces, from rows. ``keep`` below 1 makes those of answers unbiased."""

    def __init__(
        self,
        halfspaces: tuple[Halfspace, ...],
        features: tuple[str, ...],
        label: str,
        loss: ClippedLoss,
        keep: Fraction = Fraction(1),
    ) -> None:
        self.halfspaces, self.features, self.label, self.loss, self.keep = halfspaces, features, label, loss, keep
        self.attributes = (*features, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        columns = [batch.column(name).to_numpy().astype(np.int64) for name in self.features]
        codes = np.stack(columns, axis=1)
        labels = 2 * batch.column(self.label).to_numpy().astype(np.int64) - 1
        found = self.keep.numerator * row_scores(self.halfspaces, codes, labels, self.loss)
        if self.keep < 1:
            turned = self.keep.denominator - self.keep.numerator
            found -= turned * row_scores(self.halfspaces, codes, -labels, self.loss)
        return found
