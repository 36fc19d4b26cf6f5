"""Exact divergences between output laws: D_∞, and D_* = sup over orders a > 1 of D_a / a (`defn:pdp`).

Both add up over independent parts order by order, so each pair of parts is worked out once, for a fine grid of orders
with the limits a → 1 (Kullback–Leibler) and a → ∞ (D_∞), and kept. Where an outcome decides what comes next, the curves
of what follows come first, and each outcome weighs in with its own.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms import Branch, Law

Numbers = tuple[int, ...]  # the parts of a law, equal parts by equal numbers
_CLOSEST, _FARTHEST, _PER_DOUBLING = -13, 24, 24  # orders 1 + 2^-13 … 1 + 2^24
_AT_ONCE = 1 << 20  # so many numbers, outcomes times orders, are held at a time


@dataclass(frozen=True, eq=False)
class _Part:
    outcomes: Floats
    which: Integers | None = None  # None: nothing follows
    then: tuple[Numbers, ...] = ()


class Divergences:
    """Compares laws of one mechanism; remembers parts it has met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, bytes, tuple[Numbers, ...]], int] = {}
        self._parts: list[_Part] = []
        self._which: dict[bytes, Integers] = {}
        self._curves: dict[tuple[int, int, float], Floats] = {}

    def learn(self, law: Law) -> Numbers:
        """Numbers for the law's parts; equal parts get equal numbers."""
        return tuple(self._number(part) for part in law.parts)

    def _number(self, given: Floats | Branch) -> int:
        if isinstance(given, Branch):
            label = _digest(given.which)
            which = self._which.setdefault(label, given.which)  # the same for all tables, so kept once
            part = _Part(given.outcomes, which, tuple(self.learn(law) for law in given.then))
        else:
            label, part = b"", _Part(given)
        key = (_digest(part.outcomes), label, part.then)
        if key not in self._numbers:
            self._numbers[key] = len(self._parts)
            self._parts.append(part)
        return self._numbers[key]

    def between(self, one: Numbers, other: Numbers, largest_order: float) -> tuple[float, float]:
        """(D_*, D_∞) of two laws, given as numbers of their parts."""
        total = self._total(one, other, largest_order)
        return float(np.max(total[:-1] / _orders(largest_order))), float(total[-1])

    def _total(self, one: Numbers, other: Numbers, largest_order: float) -> Floats:
        if len(one) != len(other):
            raise _unlike("parts")
        total = np.zeros(len(_orders(largest_order)) + 1)
        for p, q in zip(one, other, strict=True):
            if p != q:
                total += self._curve(p, q, largest_order)
        return total

    def _curve(self, p: int, q: int, largest_order: float) -> Floats:
        key = (p, q, largest_order)
        if key not in self._curves:
            self._curves[key] = self._worked_out(self._parts[p], self._parts[q], largest_order)
        return self._curves[key]

    def _worked_out(self, one: _Part, other: _Part, largest_order: float) -> Floats:
        if one.outcomes.shape != other.outcomes.shape:
            raise _unlike("outcomes")
        if one.which is not other.which or len(one.then) != len(other.then):
            raise _unlike("branches")
        orders = _orders(largest_order)
        if one.which is None:
            return divergence_curve(one.outcomes, other.outcomes, orders)
        after = np.zeros((len(one.then), len(orders) + 1))
        met = one.which[~np.isneginf(one.outcomes) & ~np.isneginf(other.outcomes)]
        for law in np.unique(met).tolist():
            after[law] = self._total(one.then[law], other.then[law], largest_order)
        return divergence_curve(one.outcomes, other.outcomes, orders, one.which, after)


def _digest(array: NDArray[np.float64] | NDArray[np.int64]) -> bytes:
    return hashlib.sha256(array.tobytes()).digest()


def _unlike(what: str) -> AuditError:
    return AuditError(f"Two laws differ in their {what}.", fix=f"List the same {what} whatever the table holds.")


def _orders(largest: float) -> Floats:
    steps = np.arange(_CLOSEST * _PER_DOUBLING, _FARTHEST * _PER_DOUBLING + 1) / _PER_DOUBLING
    orders = np.concatenate([[1.0], 1 + 2.0**steps])
    return orders[orders <= largest]


def divergence_curve(
    p: Floats, q: Floats, orders: Floats, which: Integers | None = None, after: Floats | None = None
) -> Floats:
    """D_a for each order (1 means Kullback–Leibler), then D_∞, from log-probabilities over the same outcomes.

    Where more follows, ``after`` holds a curve for each law that may (zeros for one that cannot), and ``which`` says
    for each outcome which it is. Then D_a = log Σ p^a q^(1−a) exp((a−1)·after) / (a−1), which is the divergence of the
    two steps together: the second step's sum at a fixed outcome is exp((a−1)·after).
    """
    possible = ~np.isneginf(p)
    p, q = p[possible], q[possible]
    if np.any(np.isneginf(q)) or (after is not None and np.any(np.isinf(after))):  # possible on one side only
        return np.full(len(orders) + 1, math.inf)
    loss = p - q
    which = None if which is None else which[possible]

    def losses(start: int, end: int) -> Floats:
        """The loss of every outcome with what comes after it, a row for each of these columns of the curve."""
        if which is None or after is None:
            return loss[None]
        return np.take(after.T[start:end], which, axis=1) + loss

    curve = np.empty(len(orders) + 1)
    curve[0] = np.exp(p) @ losses(0, 1)[0]
    curve[-1] = losses(len(orders), len(orders) + 1)[0].max()
    rows = max(1, _AT_ONCE // len(p))
    for start in range(1, len(orders), rows):
        end = min(start + rows, len(orders))
        shift = orders[start:end] - 1
        curve[start:end] = _log_means(p, shift[:, None] * losses(start, end)) / shift
    return curve


def _log_means(p: Floats, exponents: Floats) -> Floats:
    """log Σ exp(p + exponent) for each row of exponents, of which the first are the smallest. Overwrites them.

    Near order 1 the sum is nearly 1 and what matters is by how much it is not. There it is measured from 1, to which
    probabilities add up but for rounding.
    """
    near = int(np.count_nonzero(exponents.max(axis=1) < 1))
    small, large = exponents[:near], exponents[near:]
    found = np.empty(len(exponents))
    found[:near] = np.log1p(np.expm1(small, out=small) @ np.exp(p))
    large += p
    peak = large.max(axis=1, keepdims=True)
    large -= peak
    found[near:] = peak[:, 0] + np.log(np.exp(large, out=large).sum(axis=1))
    return found
