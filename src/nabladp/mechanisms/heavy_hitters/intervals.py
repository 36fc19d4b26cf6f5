"""Intervals for counts that are shown only because they passed a threshold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.heavy_hitters.planning.certificate import gaussian_tails
from nabladp.noise.parameters import confidence

_SEEN = 30  # scales below a threshold from which on tails are computed


def after_passing(shown: Integers, threshold: int, scale: float, n: int, level: float) -> tuple[Integers, Integers]:
    """Bounds of f, 0 ≤ f ≤ n, from shown = f + Z > threshold, Z discrete Gaussian: right with probability ≥ ``level``
    given that it passed.

    Given that, the chance of a value as large as the one shown grows with f: f is too small where that chance is below
    half of what is allowed, and too large where that of a value as small is.
    """
    confidence(level)
    values, places = np.unique(shown, return_inverse=True)
    allowed = (1 - level) / 2

    def chance(f: Integers, start: Integers) -> Floats:
        """Pr[f + Z ≥ start | f + Z > threshold]."""
        scales = np.array([scale])
        among = gaussian_tails((threshold + 1 - f)[None, :].astype(np.float64), scales)[0]
        return np.asarray(gaussian_tails((start - f)[None, :].astype(np.float64), scales)[0] / among)

    least = min(n, max(0, threshold + 1 - int(_SEEN * scale)))
    low = _first(lambda f: chance(f, values) > allowed, len(values), least, n)
    low[low == least] = 0  # and all below: their tails are too thin to tell apart
    high = _first(lambda f: 1 - chance(f, values + 1) < allowed, len(values), least, n) - 1
    return low[places], np.maximum(high, low)[places]


def _first(holds: Callable[[Integers], NDArray[np.bool_]], many: int, least: int, n: int) -> Integers:
    """For each, the first f in least … n from which on it holds, n + 1 if none does, by bisection."""
    low, high = np.full(many, least, np.int64), np.full(many, n + 1, np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        here = holds(middle)
        open_ = low < high
        high = np.where(open_ & here, middle, high)
        low = np.where(open_ & ~here, middle + 1, low)
    return low
