"""Exact divergences between output laws: D_∞, and D_* = sup over orders a > 1 of D_a / a (`defn:pdp`).

Both add up over independent parts order by order, so each pair of parts is worked out once, for a fine grid of orders
with the limits a → 1 (Kullback–Leibler) and a → ∞ (D_∞), and kept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms import Law

Floats = NDArray[np.float64]
_CLOSEST, _FARTHEST, _PER_DOUBLING = -13, 24, 24  # orders 1 + 2^-13 … 1 + 2^24


class Divergences:
    """Compares laws of one mechanism; remembers parts it has met."""

    def __init__(self) -> None:
        self._parts: dict[bytes, int] = {}
        self._arrays: list[Floats] = []
        self._curves: dict[tuple[int, int, float], Floats] = {}

    def learn(self, law: Law) -> tuple[int, ...]:
        """Numbers for the law's parts; equal parts get equal numbers."""
        found = []
        for part in law.parts:
            key = part.tobytes()
            if key not in self._parts:
                self._parts[key] = len(self._arrays)
                self._arrays.append(part)
            found.append(self._parts[key])
        return tuple(found)

    def between(self, one: tuple[int, ...], other: tuple[int, ...], largest_order: float) -> tuple[float, float]:
        """(D_*, D_∞) of two laws, given as numbers of their parts."""
        pairs = [(p, q) for p, q in zip(one, other, strict=True) if p != q]
        if not pairs:
            return 0.0, 0.0
        total = np.sum([self._curve(p, q, largest_order) for p, q in pairs], axis=0)
        orders = _orders(largest_order)
        return float(np.max(total[:-1] / orders)), float(total[-1])

    def _curve(self, p: int, q: int, largest_order: float) -> Floats:
        key = (p, q, largest_order)
        if key not in self._curves:
            self._curves[key] = divergence_curve(self._arrays[p], self._arrays[q], _orders(largest_order))
        return self._curves[key]


def _orders(largest: float) -> Floats:
    steps = np.arange(_CLOSEST * _PER_DOUBLING, _FARTHEST * _PER_DOUBLING + 1) / _PER_DOUBLING
    orders = np.concatenate([[1.0], 1 + 2.0**steps])
    return orders[orders <= largest]


def divergence_curve(p: Floats, q: Floats, orders: Floats) -> Floats:
    """D_a for each order (1 means Kullback–Leibler), then D_∞, from log-probabilities over the same outcomes."""
    possible = ~np.isneginf(p)
    p, q = p[possible], q[possible]
    if np.any(np.isneginf(q)):  # an outcome possible on one side only
        return np.full(len(orders) + 1, math.inf)
    loss = p - q
    shift = orders[orders > 1, None] - 1
    exponent = p + shift * loss
    peak = exponent.max(axis=1, keepdims=True)
    renyi = (peak[:, 0] + np.log(np.exp(exponent - peak).sum(axis=1))) / shift[:, 0]
    return np.concatenate([[float(np.exp(p) @ loss)], renyi, [float(loss.max())]])
