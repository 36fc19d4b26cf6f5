"""The exponential mechanism over millions of candidates with integer scores, exactly: P(i) ∝ exp(−rate·score_i).

Candidates are put into buckets by score, so narrow that inside one weights differ by little; bucket b holds the m_b
with score − lowest ≥ b·2^shift and below the next, the last one all that are farther. With integers h_b ≥
exp(−rate·b·2^shift)·2¹²⁸, draw a bucket with weight m_b·h_b, in it a member i, all alike, and keep it with probability
exp(−rate·(score_i − lowest))·2¹²⁸/h_b ≤ 1, else start again. A kept i has weight exactly exp(−rate·score_i), whatever
the h_b: they only make that nearly all are kept. No float is involved.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.distance import ClippedLoss, Halfspace
from nabladp.mechanisms.learners.halfspaces.erm import Promise, row_scores
from nabladp.mechanisms.learners.halfspaces.response import Response, unbiased_sensitivity
from nabladp.mechanisms.learners.halfspaces.task import Task, curve
from nabladp.noise import NoiseSource
from nabladp.noise.draws import Bounds, Uniform, exp_bounds
from nabladp.noise.laws import NoiseWords
from nabladp.noise.parameters import selection_scale
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.tables import Kernel

# ---- exact selection -------------------------------------------------------------------------------------------------

_PRECISION = 128
_FAR = 96  # farther than this, in units of 1/rate, everything shares a bucket
_FLAT = Fraction(1, 8)  # how much of rate·score a bucket may span, if scores are not already wider apart


def select_low(scores: ArrayLike, rate: Fraction, noise: NoiseSource) -> int:
    """An index with P(i) ∝ exp(−rate·scores[i]), for int32 or int64 scores."""
    values = _checked(scores)
    rate = selection_scale(rate)
    lowest = int(values.min())
    shift = max(0, math.floor(_FLAT / rate).bit_length() - 1)
    last = min((int(values.max()) - lowest) >> shift, math.ceil(_FAR / (rate * (1 << shift))))
    tally = compile_loop(_tally)(values, lowest, shift, last)
    filled = np.flatnonzero(tally)
    heights = [exp_bounds(rate * (int(b) << shift))(_PRECISION)[1] for b in filled]
    weights = [int(tally[b]) * height for b, height in zip(filled, heights, strict=True)]
    bits = NoiseWords(noise)
    while True:
        chosen = noise.select(weights)
        bucket = int(filled[chosen])
        member = int(noise.uniform_integers(int(tally[bucket]), 1)[0])
        index = int(compile_loop(_member)(values, lowest, shift, last, bucket, member))
        kept = _share(exp_bounds(rate * (int(values[index]) - lowest)), heights[chosen])
        if Uniform(bits, int(bits.words(1)[0])).below(kept):
            return index


def log_law(scores: ArrayLike, rate: Fraction) -> NDArray[np.float64]:
    """The log of every candidate's probability, for audits."""
    values = _checked(scores)
    logs = -float(rate) * (values.astype(np.int64) - int(values.min()))
    return np.asarray(logs - math.log(math.fsum(np.exp(logs))))


def _checked(scores: ArrayLike) -> NDArray[Any]:
    values = np.ascontiguousarray(scores)
    if values.ndim != 1 or not values.size or values.dtype not in (np.int32, np.int64):
        raise MechanismError("Scores must be a list of at least one integer.", fix="Score every candidate.")
    if int(values.max()) - int(values.min()) >= 1 << 63:
        raise MechanismError("Scores must lie within 2⁶³ of each other.", fix="Put them on a coarser grid.")
    return values


def _share(weight: Bounds, height: int) -> Bounds:
    """Bounds of weight·2¹²⁸/height, which is at most 1."""

    def bounds(n: int) -> tuple[int, int]:
        low, high = weight(n + _PRECISION)
        return low // height, -(-high // height)

    return bounds


def _tally(scores: NDArray[Any], lowest: int, shift: int, last: int) -> Integers:
    found = np.zeros(last + 1, np.int64)
    for i in range(len(scores)):
        found[min((scores[i] - lowest) >> shift, last)] += 1
    return found


def _member(scores: NDArray[Any], lowest: int, shift: int, last: int, bucket: int, member: int) -> int:
    """The index of the bucket's member with this number."""
    for i in range(len(scores)):
        if min((scores[i] - lowest) >> shift, last) == bucket:
            if member == 0:
                return i
            member -= 1
    return -1


# ---- the private choice of a halfspace -------------------------------------------------------------------------------

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
        pick = curve(self.task.universe, self.held, lambda c: (self.rate * self.moved(c)) ** 2 / 2)  # [range]
        return pick + self.response.guarantee() if self.response else pick

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
