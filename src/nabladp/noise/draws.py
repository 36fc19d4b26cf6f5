"""Exact vectorised building blocks over a source of words: fair coins, uniform integers, biased coins."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers

# ---- random bits -----------------------------------------------------------------------------------------------------

Words = NDArray[np.uint64]


class BitSource(Protocol):
    def words(self, count: int) -> Words:
        """The next ``count`` random words; read-only."""
        ...


class SystemBits:
    """Words from the operating system's cryptographic generator.

    Nothing is kept between calls, so neither a forked child nor a second thread can ever be handed words that somebody
    else has used. Draws are vectorised, so a buffer would save next to nothing.
    """

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype="<u8")


class SeededBits:
    """A reproducible stream for tests and examples: SHAKE-256 of (seed, block number). Never private.

    The stream does not depend on how it is asked for: ``words(a)`` then ``words(b)`` is ``words(a + b)``.
    """

    BLOCK, FIRST = 8192, 64

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._block = 0
        self._hashed = 0  # words of this block so far
        self._left: Words = np.empty(0, dtype="<u8")

    def words(self, count: int) -> Words:
        parts, missing = [self._left], count - len(self._left)
        while missing > 0:
            parts.append(self._more(missing))
            missing -= len(parts[-1])
        words = np.concatenate(parts) if len(parts) > 1 else self._left
        taken, self._left = words[:count], words[count:]
        return taken

    def _more(self, wanted: int) -> Words:
        """Words of the block, most of which many a stream never needs: a part of a hash is quicker than the whole, and
        begins as the whole does."""
        if self._hashed == self.BLOCK:
            self._block, self._hashed = self._block + 1, 0
        start = self._hashed
        self._hashed = min(max(start + wanted, 4 * start, self.FIRST), self.BLOCK)
        name = f"nabladp noise, seed {self._seed}, block {self._block}"
        words = np.frombuffer(hashlib.shake_256(name.encode()).digest(8 * self._hashed), dtype="<u8")
        return words[start:]


class HalfWords:
    """Words put together from halves of others, as when 32-bit numbers are drawn: for draws inside larger draws."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def words(self, count: int) -> Words:
        return self._draws.integers(1 << 32, 2 * count).astype("<u4").view("<u8")


# ---- exact comparisons -----------------------------------------------------------------------------------------------
# A uniform real is known by its first bits; a threshold by integer bounds at any precision asked for. When the bounds
# do not decide, both get longer. The answer therefore has exactly the right probability, even for irrational
# thresholds.

Bounds = Callable[[int], tuple[int, int]]
"""Of a real p in [0, 1]: maps n to integers (low, high) with low ≤ p·2ⁿ ≤ high, closing in on p as n grows."""


class Uniform:
    """A uniform real in [0, 1) whose bits beyond the first word are drawn only when a comparison needs them."""

    def __init__(self, bits: BitSource, word: int) -> None:
        self._bits = bits
        self._known = int(word)
        self._length = 64

    def below(self, bounds: Bounds) -> bool:
        while True:
            low, high = bounds(self._length)
            if self._known + 1 <= low:
                return True
            if self._known >= high:
                return False
            self._known = (self._known << 64) | int(self._bits.words(1)[0])
            self._length += 64


def rational_bounds(p: Fraction) -> Bounds:
    def bounds(n: int) -> tuple[int, int]:
        scaled = p.numerator << n
        return scaled // p.denominator, -(-scaled // p.denominator)

    return bounds


def exp_bounds(gamma: Fraction) -> Bounds:
    """Bounds of exp(−γ) at any precision, for a rational γ ≥ 0."""
    if gamma == 0:
        return rational_bounds(Fraction(1))
    halvings = max(0, gamma.numerator.bit_length() - gamma.denominator.bit_length() + 2)  # makes γ/2ʰ < 1/2

    def bounds(n: int) -> tuple[int, int]:
        spare = halvings + 32  # each squaring may double the error: a bit for each, and 32 to keep the bounds tight
        low, high = exp_interval(gamma, halvings, n + spare)
        return low >> spare, -(-high >> spare)

    return bounds


def exp_interval(gamma: Fraction, halvings: int, precision: int) -> tuple[int, int]:
    """Integers around exp(−γ)·2^precision: Taylor series of exp(−γ/2^halvings), then squarings, all in integers."""
    x = (gamma.numerator << precision) // (gamma.denominator << halvings)
    total = term = 1 << precision
    order = 0
    while term:
        order += 1
        term = term * x // (order << precision)
        total += -term if order % 2 else term
    # In units of 2^-precision: rounding x down costs at most 1; a term inherits at most half of its predecessor's error
    # and adds at most 1, so each of the `order` terms is off by at most 2; the alternating rest is at most the first
    # term left out, which is at most 1.
    error = 2 * order + 2
    low, high = total - error, total + error
    for _ in range(halvings):
        low = low * low >> precision
        high = -(-high * high >> precision)
    return low, high


# ---- draws -----------------------------------------------------------------------------------------------------------

Truths = NDArray[np.bool_]

BLOCK = 1 << 15
"""Values drawn at a time: temporaries stay in the processor's cache and memory stays bounded."""

SLACK = 2.0**-40
"""How near a float comparison may come to its threshold before it is decided exactly instead.

It has to exceed every error of the floats involved. Those are: a word turned into a double (2⁻⁵³), `exp` and `log`
(a few units in the last place, 2⁻⁵⁰ relative at most), and what enters them (each use says its own; none exceeds 2⁻⁴³).
"""


class Draws:
    """Exact draws from a bit source. Tests pass a huge ``slack``, which sends every decision down the exact path."""

    def __init__(self, bits: BitSource, slack: float = SLACK) -> None:
        self.bits = bits
        self.slack = slack
        self.asked = 0  # how often words were asked for; every draw begins here

    def words(self, count: int) -> Words:
        self.asked += 1  # before they are handed out: a draw that fails half-way counts
        return self.bits.words(count)

    def coins(self, count: int) -> Truths:
        """Fair coins, one random bit each."""
        packed = self.words(-(-count // 64)).view(np.uint8)
        return np.unpackbits(packed, count=count).view(np.bool_)

    def heads(self, tosses: Integers) -> Integers:
        """Per cell, the number of heads among so many fair coins: the set bits among as many random ones."""
        whole, rest = tosses >> 6, (tosses & 63).astype(np.uint64)
        result = self._ones_per_cell(whole)
        some = np.flatnonzero(rest)
        masks = (np.uint64(1) << rest[some]) - np.uint64(1)
        result[some] += np.bitwise_count(self.words(len(some)) & masks)
        return result

    def _ones_per_cell(self, lengths: Integers) -> Integers:
        """Set bits in consecutive runs of random words, one run of the given length per cell."""
        ends = np.cumsum(lengths)
        ones_up_to_end = np.zeros(len(ends), np.int64)
        total = int(ends[-1]) if len(ends) else 0
        seen = 0
        for start in range(0, total, BLOCK):
            ones = seen + np.cumsum(np.bitwise_count(self.words(min(BLOCK, total - start))), dtype=np.int64)
            first, last = np.searchsorted(ends, [start, start + len(ones)], side="right")
            ones_up_to_end[first:last] = ones[ends[first:last] - start - 1]
            seen = int(ones[-1])
        return np.diff(ones_up_to_end, prepend=0)

    def integers(self, bound: int, count: int) -> Integers:
        """Uniform integers on 0 … bound−1 for a bound up to 2⁶³: words beyond the last full multiple of it are
        redrawn."""
        last = np.uint64((1 << 64) - (1 << 64) % bound - 1)

        def attempt(size: int) -> Integers:
            words = self.words(size)
            return (words[words <= last] % np.uint64(bound)).view(np.int64)

        return collect(count, attempt)

    def integer(self, bound: int) -> int:
        """One uniform integer on 0 … bound−1 for a bound of any size."""
        length = (bound - 1).bit_length()
        while True:
            value = int.from_bytes(self.words(-(-length // 64)).tobytes(), "little") & ((1 << length) - 1)
            if value < bound:
                return value

    def bernoulli(self, p: Fraction, count: int) -> Truths:
        """Biased coins: true with probability exactly p."""
        bounds = rational_bounds(p)
        return self._below(np.full(count, float(p)), lambda _: bounds)

    def bernoulli_exp(self, gamma: Floats, exact: Callable[[int], Fraction]) -> Truths:
        """Biased coins: true with probability exp(−γᵢ), where γᵢ is exactly ``exact(i)`` and ``gamma`` approximates it.

        The caller sees to it that exp(−gamma[i]) is within SLACK/8 of the truth.
        """
        return self._below(np.exp(-gamma), lambda i: exp_bounds(exact(i)))

    def _below(self, chance: Floats, bounds: Callable[[int], Bounds]) -> Truths:
        words = self.words(len(chance))
        distance = words * 2.0**-64 - chance
        verdict = distance < 0
        for i in np.flatnonzero(np.abs(distance) <= self.slack).tolist():
            verdict[i] = Uniform(self.bits, int(words[i])).below(bounds(i))
        return verdict


def collect(count: int, attempt: Callable[[int], Integers]) -> Integers:
    """``count`` accepted values of rejection sampling: ``attempt(k)`` makes k independent attempts and returns the
    accepted ones."""
    values = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        accepted = attempt(min(BLOCK, count - filled))
        values[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return values
