"""Tails of the integer noises as doubles: Pr[Z ≥ k], never too small. One row of ``k`` for every scale."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from nabladp.arrays import Floats

_SLACK = 1e-11  # relative: the sums below are right to about 1e-13
_TINY = 1e-290  # stands for all that is smaller
_REACH = 37  # standard deviations summed: beyond, a tail is smaller still
_LARGEST_SUMMED = 4096.0


def laplace_tails(k: Floats, scales: Floats) -> Floats:
    """Discrete Laplace, Pr[Z = z] ∝ e^(−|z|/scale): Pr[Z ≥ k] = q^k/(1+q) for k > 0, q = e^(−1/scale)."""
    columns = scales[:, None]
    far = np.exp(-np.maximum(k, 1 - k) / columns) / (1 + np.exp(-1 / columns))
    return _upward(np.where(k > 0, far, 1 - far))


def gaussian_tails(k: Floats, scales: Floats) -> Floats:
    """Discrete Gaussian, Pr[Z = z] ∝ e^(−z²/(2·scale²))."""
    rows = [_gaussian_row(row, float(scale)) for row, scale in zip(k, scales, strict=True)]
    return _upward(np.array(rows))


def _upward(tails: Floats) -> Floats:
    return np.clip(tails * (1 + _SLACK), _TINY, 1.0)


def _gaussian_row(k: Floats, scale: float) -> Floats:
    if scale > _LARGEST_SUMMED:
        from scipy.special import ndtr

        # The weights fall from 0 on: for k > 0, the sum from k on is at most the integral from k − 1; for k ≤ 0, that
        # of the other side, from 1 − k on, is at least the integral from there. Both give the same figure.
        return np.asarray(ndtr((1 - k) / scale), dtype=np.float64)
    table = _gaussian_table(scale)
    far = table[np.minimum(np.maximum(k, 1 - k), len(table) - 1).astype(np.int64)]
    return np.where(k > 0, far, 1 - far)


@lru_cache(maxsize=1024)
def _gaussian_table(scale: float) -> Floats:
    """Pr[Z ≥ k] for k = 0, 1, …, summed from the far end."""
    points = np.arange(math.ceil(_REACH * scale) + 2, dtype=np.float64)
    weights = np.exp(-((points / scale) ** 2) / 2)
    sums = np.cumsum(weights[::-1])[::-1]
    return np.asarray(sums / (2 * sums[0] - 1))
