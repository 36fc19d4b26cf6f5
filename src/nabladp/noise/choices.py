"""Random choices from finite sets: randomized response, subsets, weighted selection, all exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np

from nabladp.arrays import Integers
from nabladp.noise.draws import BLOCK, Draws
from nabladp.noise.samplers import binomial


def randomized_response(draws: Draws, codes: Integers, size: int, keep: Fraction) -> Integers:
    """Each code stays with probability ``keep`` and otherwise becomes one of the size−1 others, all alike."""
    if size == 1:
        return codes.copy()
    answers = np.empty_like(codes)
    for start in range(0, len(codes), BLOCK):
        block = codes[start : start + BLOCK]
        other = draws.integers(size - 1, len(block))
        other += other >= block
        answers[start : start + BLOCK] = np.where(draws.bernoulli(keep, len(block)), block, other)
    return answers


def randomized_response_counts(draws: Draws, counts: Integers, keep: Fraction) -> Integers:
    """The histogram (last axis) that randomized response on every row would give, without going through rows.

    Staying with probability ``keep`` ≥ 1/size is the same as being redrawn among *all* values, the true one included,
    with probability 1 − (size·keep − 1)/(size − 1). Redrawn rows no longer remember where they came from.
    """
    size = counts.shape[-1]
    if size == 1:
        return counts.copy()
    untouched = binomial(draws, counts.ravel(), (size * keep - 1) / (size - 1)).reshape(counts.shape)
    redrawn = (counts - untouched).sum(axis=-1)
    return untouched + scatter(draws, redrawn.ravel(), size).reshape(counts.shape)


def scatter(draws: Draws, balls: Integers, cells: int) -> Integers:
    """Row i throws ``balls[i]`` balls, each uniformly into one of the cells.

    Balls fall through a binary tree, half to each side; those that land beyond the last cell are thrown again.
    """
    landed = np.zeros((len(balls), cells), np.int64)
    while balls.any():
        level = balls[:, None]
        while level.shape[1] < cells:
            left = draws.heads(level.ravel()).reshape(level.shape)
            level = np.stack([left, level - left], axis=2).reshape(len(balls), -1)
        landed += level[:, :cells]
        balls = level[:, cells:].sum(axis=1)
    return landed


def uniform_subset(draws: Draws, n: int, k: int) -> Integers:
    """A sorted subset of 0 … n−1, every k-subset alike.

    Values are drawn until k distinct ones are there: no step tells one value from another, so no subset is preferred.
    """
    if 2 * k > n:
        left_out = uniform_subset(draws, n, n - k)
        return np.delete(np.arange(n, dtype=np.int64), left_out)
    chosen = np.empty(0, np.int64)
    while len(chosen) < k:
        chosen = np.union1d(chosen, draws.integers(n, k - len(chosen)))
    return chosen


def select(draws: Draws, weights: Sequence[int] | Integers, count: int) -> Integers:
    """Independent indices with probability proportional to the weights."""
    if isinstance(weights, np.ndarray) and int(weights.max()) * len(weights) < 1 << 63:
        ends = np.cumsum(weights)
    else:
        totals = list(accumulate(int(w) for w in weights))
        if totals[-1] >= 1 << 63:
            return np.array([bisect_right(totals, draws.integer(totals[-1])) for _ in range(count)], np.int64)
        ends = np.array(totals, np.int64)
    return np.searchsorted(ends, draws.integers(int(ends[-1]), count), side="right").astype(np.int64)


def select_exponential(draws: Draws, scores: Integers, scale: Fraction) -> int:
    """An index with P(i) ∝ exp(scores[i]/scale): uniform ones, kept with probability exp((scores[i] − top)/scale).

    The expected number of tries is len(scores)·P(a best index), hence at most len(scores).
    """
    gaps = scores.max().view(np.uint64) - scores.view(np.uint64)  # exact even if the span exceeds 63 bits
    divisor = float(scale)

    def attempt(size: int) -> Integers:
        index = draws.integers(len(scores), size)
        gap = gaps[index]
        # gap/divisor has a relative error below 2⁻⁵¹ and γ·exp(−γ) ≤ 1/e: far inside SLACK/8.
        return index[draws.bernoulli_exp(gap / divisor, lambda i: int(gap[i]) / scale)]

    size = 64
    while not len(kept := attempt(size)):
        size = min(2 * size, BLOCK)
    return int(kept[0])
