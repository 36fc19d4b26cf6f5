"""Random choices from finite sets: randomized response, subsets, weighted selection, all exact."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.noise.draws import BLOCK, Bounds, Draws, HalfWords, Uniform, exp_bounds
from nabladp.noise.samplers import binomial


def randomized_response(draws: Draws, codes: Integers, size: int, keep: Fraction) -> Integers:
    """Randomized response: each code stays with probability ``keep``, otherwise becomes one of the size−1 others, all
    alike."""
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
    """Throw ``balls[i]`` balls for row i, each uniformly into one of the cells.

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
    """A uniformly random sorted subset of k of the numbers 0 … n−1.

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
    """Independent indices chosen with probability proportional to integer weights."""
    if isinstance(weights, np.ndarray) and int(weights.max()) * len(weights) < 1 << 63:
        ends = np.cumsum(weights)
    else:
        totals = list(accumulate(int(w) for w in weights))
        if totals[-1] >= 1 << 63:
            return np.array([bisect_right(totals, draws.integer(totals[-1])) for _ in range(count)], np.int64)
        ends = np.array(totals, np.int64)
    return np.searchsorted(ends, draws.integers(int(ends[-1]), count), side="right").astype(np.int64)


def select_exponential(draws: Draws, scores: Integers, scale: Fraction) -> int:
    """The exponential mechanism: an index with P(i) ∝ exp(scores[i]/scale), by exact rejection sampling.

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


# ---- selection among millions ----------------------------------------------------------------------------------------
# P(i) ∝ exp(−rate·score_i), exactly. Candidates are put into buckets by score, so narrow that inside one weights differ
# by little; bucket b holds the m_b with score − lowest ≥ b·2^shift and below the next, the last one all that are
# farther. With integers h_b ≥ exp(−rate·b·2^shift)·2¹²⁸, draw a bucket with weight m_b·h_b, in it a member i, all
# alike, and keep it with probability exp(−rate·(score_i − lowest))·2¹²⁸/h_b ≤ 1, else start again. A kept i has weight
# exactly exp(−rate·score_i), whatever the h_b: they only make that nearly all are kept. No float is involved.

_PRECISION = 128
_FAR = 96  # farther than this, in units of 1/rate, everything shares a bucket
_FLAT = Fraction(1, 8)  # how much of rate·score a bucket may span, if scores are not already wider apart


def select_lowest(draws: Draws, values: NDArray[Any], rate: Fraction) -> int:
    """The exponential mechanism for many scores: an index with P(i) ∝ exp(−rate·values[i]), int32 or int64 within 2⁶³
    of each other."""
    lowest = int(values.min())
    shift = max(0, math.floor(_FLAT / rate).bit_length() - 1)
    last = min((int(values.max()) - lowest) >> shift, math.ceil(_FAR / (rate * (1 << shift))))
    tally = compile_loop(_tally)(values, lowest, shift, last)
    filled = np.flatnonzero(tally)
    heights = [exp_bounds(rate * (int(b) << shift))(_PRECISION)[1] for b in filled]
    weights = [int(tally[b]) * height for b, height in zip(filled, heights, strict=True)]
    bits = HalfWords(draws)
    while True:
        chosen = int(select(draws, weights, 1)[0])
        bucket = int(filled[chosen])
        member = int(draws.integers(int(tally[bucket]), 1)[0])
        index = int(compile_loop(_member)(values, lowest, shift, last, bucket, member))
        kept = _share(exp_bounds(rate * (int(values[index]) - lowest)), heights[chosen])
        if Uniform(bits, int(bits.words(1)[0])).below(kept):
            return index


def _share(weight: Bounds, height: int) -> Bounds:
    """Integer bounds of weight·2¹²⁸/height, which is at most 1."""

    def bounds(n: int) -> tuple[int, int]:
        low, high = weight(n + _PRECISION)
        return low // height, -(-high // height)

    return bounds


def _tally(scores: NDArray[Any], lowest: int, shift: int, last: int) -> Integers:
    result = np.zeros(last + 1, np.int64)
    for i in range(len(scores)):
        result[min((scores[i] - lowest) >> shift, last)] += 1
    return result


def _member(scores: NDArray[Any], lowest: int, shift: int, last: int, bucket: int, member: int) -> int:
    """The index of the score bucket's member with this number."""
    for i in range(len(scores)):
        if min((scores[i] - lowest) >> shift, last) == bucket:
            if member == 0:
                return i
            member -= 1
    return -1
