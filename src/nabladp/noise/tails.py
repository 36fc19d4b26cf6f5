"""Noise beyond a threshold, drawn exactly: how many of very many candidates pass, which ones, and their noise.

Every one of N candidates passes with the same probability p, the chance that its noise reaches a threshold. How many
do is binomial, but p is irrational and N may have hundreds of digits, so no coin can be tossed for each. Instead:

1. Candidates are put into blocks of M = 2ᵐ with M·p ≤ 1, the last one filled up with candidates that do not exist.
2. How many of a block pass, C ~ Binomial(M, p), is drawn by inversion: C is the number of j with U ≥ F(j), for a
   uniform real U and the law's distribution function F. U is known by its first bits, F by integer bounds at any
   precision; when they do not decide, both get longer (:class:`nabladp.noise.draws.Uniform`). Hence P(C = j) is exactly
   F(j) − F(j−1).
3. Blocks are independent. Within the last one the C that pass are a uniform subset; only those that exist are counted.

The result is the number of successes among N independent trials of probability exactly p: binomial. Given that
number, by symmetry, those that pass are a uniform subset of all candidates.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.noise.choices import uniform_subset
from nabladp.noise.draws import BLOCK, Bounds, Draws, Uniform, collect, exp_bounds
from nabladp.noise.samplers import discrete_gaussian, geometric

WORD = 64
_TOP = (1 << WORD) - 1
WIDEST = 1 << 20  # the largest Gaussian scale: tails are summed term by term, here within a minute


def laplace_tail(scale: Fraction, start: int) -> Bounds:
    """Bounds of the discrete Laplace tail P(Z ≥ start), start ≥ 1: exp(−start/scale)/(1 + exp(−1/scale))."""
    far, near = exp_bounds(start / scale), exp_bounds(1 / scale)

    def bounds(n: int) -> tuple[int, int]:
        one = 1 << n + 2
        (far_low, far_high), (near_low, near_high) = far(n + 2), near(n + 2)
        return (far_low << n) // (one + near_high), -(-(far_high << n) // (one + near_low))

    return bounds


def gaussian_tail(scale: Fraction, start: int) -> Bounds:
    """Bounds of the discrete Gaussian tail P(Z ≥ start), start ≥ 1, for P(Z = x) ∝ g(x) = exp(−x²/(2·scale²)).

    It is Σ g(x) over x ≥ start, divided by 1 + 2·Σ g(x) over x ≥ 1. A product leads from one term to the next: g(x+1) =
    g(x)·r(x) and r(x+1) = r(x)·s, with r(x) = exp(−(2x+1)/(2·scale²)) and s = exp(−1/scale²). Lower bounds are rounded
    down, upper ones up. Once the lower bound of a term is zero, the terms left are at most a geometric series, as r
    falls. About twenty terms for each unit of scale.
    """
    step = 1 / (scale * scale)
    first, second, shrink = exp_bounds(step / 2), exp_bounds(step * 3 / 2), exp_bounds(step)

    @cache
    def bounds(n: int) -> tuple[int, int]:
        width = n + 96 + 3 * int(scale).bit_length()  # spare bits: they only keep the bounds tight
        one = 1 << width
        (low, high), (ratio_low, ratio_high), (s_low, s_high) = first(width), second(width), shrink(width)
        near_low = near_high = tail_low = tail_high = 0
        x = 1
        while low:
            if x < start:
                near_low, near_high = near_low + low, near_high + high
            else:
                tail_low, tail_high = tail_low + low, tail_high + high
            low, high = low * ratio_low >> width, -(-high * ratio_high >> width)
            ratio_low, ratio_high = ratio_low * s_low >> width, -(-ratio_high * s_high >> width)
            x += 1
        tail_high += -(-high * one // (one - ratio_high))  # the terms from x on, wherever they belong
        all_low, all_high = one + 2 * (near_low + tail_low), one + 2 * (near_high + tail_high)
        return (tail_low << n) // all_high, min(1 << n, -(-(tail_high << n) // all_low))

    return bounds


class Trials:
    """How many of N independent trials of probability p succeed, for any N up to ``most``; p < 1 is given by bounds."""

    def __init__(self, p: Bounds, most: int) -> None:
        self.p = p
        self.bits = self._block_bits(most)
        self._tables = cache(self._table)
        lows, highs = self._tables(WORD)
        self._lows = np.array([min(low, _TOP) for low in lows], np.uint64)
        self._highs = np.array([high for high in highs if high <= _TOP], np.uint64)

    def successes(self, draws: Draws, trials: int) -> int:
        """The number of candidates that pass (steps 1 and 3): full blocks, and the existing candidates of the last
        one."""
        blocks, rest = trials >> self.bits, trials & ((1 << self.bits) - 1)
        full = sum(int(self._block(draws, min(BLOCK, blocks - i)).sum()) for i in range(0, blocks, BLOCK))
        if rest == 0:
            return full
        last = subset(draws, 1 << self.bits, int(self._block(draws, 1)[0]))
        return full + int(np.count_nonzero(last < rest))

    def _block(self, draws: Draws, count: int) -> Integers:
        """The number of candidates that pass in each of so many blocks (step 2).

        A word w says w/2⁶⁴ ≤ U < (w+1)/2⁶⁴. So U ≥ F(j) for certain if the upper bound of F(j)·2⁶⁴ is at most w, and
        U < F(j) for certain if the lower one is at least w + 1. What lies beyond the table is never certain.
        """
        words = draws.words(count)
        least = np.searchsorted(self._highs, words, side="right").astype(np.int64)
        most = np.searchsorted(self._lows, words, side="right")
        for i in np.flatnonzero((least != most) | (most == len(self._lows))).tolist():
            uniform, passed = Uniform(draws.bits, int(words[i])), int(least[i])
            while not uniform.below(self._below(passed)):
                passed += 1
            least[i] = passed
        return least

    def _below(self, j: int) -> Bounds:
        """Bounds of the binomial distribution function F(j); where the table ends before j, F(j) is at least its last
        entry."""

        def bounds(n: int) -> tuple[int, int]:
            lows, highs = self._tables(n)
            return (lows[j], highs[j]) if j < len(lows) else (lows[-1], 1 << n)

        return bounds

    def _table(self, n: int) -> tuple[list[int], list[int]]:
        """Bounds of the binomial F(0)·2ⁿ, F(1)·2ⁿ, … until the terms vanish; lower ones rounded down, upper ones up."""
        width = n + self.bits + 64  # each of the squarings may double the error
        one, size = 1 << width, 1 << self.bits
        p_low, p_high = self.p(width)
        q_low, q_high = one - p_high, one - p_low
        low, high = q_low, q_high
        for _ in range(self.bits):
            low, high = low * low >> width, -(-high * high >> width)
        lows, highs = [], []
        sum_low = sum_high = j = 0
        while j <= size and (j == 0 or high >> (width - n)):
            sum_low, sum_high = sum_low + low, sum_high + high
            lows.append(sum_low >> (width - n))
            highs.append(min(1 << n, -(-sum_high >> (width - n))))
            low = low * (size - j) * p_low // ((j + 1) * q_high)
            high = -(-high * (size - j) * p_high // ((j + 1) * q_low))
            j += 1
        return lows, highs

    def _block_bits(self, most: int) -> int:
        """The block size's exponent m with 2ᵐ·p ≤ 1; no larger than it takes for ``most`` trials to fit in one
        block."""
        wanted, n = most.bit_length(), WORD
        while True:
            high = max(1, self.p(n)[1])
            bits = n - (high - 1).bit_length()  # high ≤ 2^(n − bits)
            if bits >= wanted or high > 1 << 8:
                return min(bits, wanted)
            n *= 2


def subset(draws: Draws, n: int, k: int) -> NDArray[Any]:
    """A sorted uniform k-subset of 0 … n−1 for n of any size: int64, or Python integers where those are too short.

    Values are drawn until k distinct ones are there: no step tells one value from another.
    """
    if n <= 1 << 62:
        return uniform_subset(draws, n, k)
    chosen: set[int] = set()
    mask = (1 << (n - 1).bit_length()) - 1
    size = -(-mask.bit_length() // 64) * 8
    while len(chosen) < k:  # random bits, as many as n has, until they show a number below n
        raw = draws.words((k - len(chosen)) * size // 8).tobytes()
        drawn = (int.from_bytes(raw[i : i + size], "little") & mask for i in range(0, len(raw), size))
        chosen.update(value for value in drawn if value < n)
    return np.array(sorted(chosen), dtype=object)


def laplace_beyond(draws: Draws, scale: Fraction, start: int, count: int) -> Integers:
    """Discrete Laplace noise given that it is at least start ≥ 1: from there on the law is geometric."""
    return start + geometric(draws, scale, count)


def gaussian_beyond(draws: Draws, scale: Fraction, start: int, count: int) -> Integers:
    """Discrete Gaussian noise given that it is at least start ≥ 1.

    With x = start + y: x² = start² + 2·start·y + y². So y is geometric, P(y) ∝ exp(−y·start/scale²), kept with
    probability exp(−y²/(2·scale²)). Near the middle that would keep too few, so plain draws are kept if large enough.
    """
    if start <= scale:

        def attempt(size: int) -> Integers:
            drawn = discrete_gaussian(draws, scale, size)
            return drawn[drawn >= start]
    else:
        twice = 2 * scale * scale

        def attempt(size: int) -> Integers:
            y = geometric(draws, scale * scale / start, size)
            # y²/(2·scale²) has a relative error below 2⁻⁵⁰ and γ·exp(−γ) ≤ 1/e: far inside SLACK/8.
            gamma = y.astype(np.float64) ** 2 / float(twice)
            return start + y[draws.bernoulli_exp(gamma, lambda i: int(y[i]) ** 2 / twice)]

    return collect(count, attempt)
