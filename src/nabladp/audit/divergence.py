"""Exact divergences between output laws: D_∞, and D_* = sup over orders a > 1 of D_a / a (`defn:pdp`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms import Law

Floats = NDArray[np.float64]
_FINEST, _PER_DOUBLING = 1e-4, 24


def max_divergence(one: Law, other: Law) -> float:
    """D_∞; adds up over independent parts."""
    return math.fsum(_largest_ratio(p, q) for p, q in _differing(one, other))


def concentrated_divergence(one: Law, other: Law) -> float:
    """D_*, over a fine grid of orders, the limit a → 1 (Kullback–Leibler) and the limit a → ∞ (D_∞ / a)."""
    parts = list(_differing(one, other))
    if any(np.any(np.isinf(q) & ~np.isinf(p)) for p, q in parts):
        return math.inf
    found = math.fsum(_kullback_leibler(p, q) for p, q in parts)
    largest = min(one.largest_order, other.largest_order)
    order = 1 + _FINEST
    ceiling = math.fsum(_largest_ratio(p, q) for p, q in parts)
    while order <= largest:
        found = max(found, math.fsum(_renyi(p, q, order) for p, q in parts) / order)
        if ceiling <= found * order:  # D_a ≤ D_∞: no larger order can do better
            break
        order = 1 + (order - 1) * 2 ** (1 / _PER_DOUBLING)
    return found


def _differing(one: Law, other: Law) -> Sequence[tuple[Floats, Floats]]:
    return [(p, q) for p, q in zip(one.parts, other.parts, strict=True) if p is not q and not np.array_equal(p, q)]


def _largest_ratio(p: Floats, q: Floats) -> float:
    possible = ~np.isneginf(p)
    with np.errstate(invalid="ignore"):
        return float(np.max(p[possible] - q[possible]))


def _kullback_leibler(p: Floats, q: Floats) -> float:
    possible = ~np.isneginf(p)
    return float(np.sum(np.exp(p[possible]) * (p[possible] - q[possible])))


def _renyi(p: Floats, q: Floats, order: float) -> float:
    possible = ~np.isneginf(p)
    exponent = order * p[possible] + (1 - order) * q[possible]
    peak = float(exponent.max())
    return (peak + math.log(float(np.sum(np.exp(exponent - peak))))) / (order - 1)
