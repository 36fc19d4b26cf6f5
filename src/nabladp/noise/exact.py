"""Comparing a uniform real with a real threshold, without any rounding.

A uniform real is known by its first bits; a threshold by integer bounds at any precision asked for. When the bounds do
not decide, both get longer. The answer therefore has exactly the right probability, even for irrational thresholds.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from nabladp.noise.bits import BitSource

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
    """Bounds of exp(−γ) for a rational γ ≥ 0."""
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
