"""Intervals for sums of noise, and for ratios of two noisy numbers. Post-processing only."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from nabladp.arrays import Floats


class Interval(NamedTuple):
    value: Floats
    low: Floats
    high: Floats


def quantile_of_noise(level: float, laplace: bool) -> float:
    """How many standard deviations the noise stays within; for sums of Laplace noise, that of a single one or of very
    many, whichever is more."""
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return max(normal, -math.log(1 - level) / math.sqrt(2)) if laplace else normal


def ratio_interval(s: Floats, c: Floats, spread: tuple[Any, Any, Any], z: Any, low: float, high: float) -> Interval:
    """S/C, known to be from low to high, by Fieller's theorem: all t for which S − t·C is within z deviations of zero.

    ``spread`` is the variance of S, the covariance, the variance of C. Where C may be zero, the interval is all that is
    possible; there is no value where C is not above zero.
    """
    vs, covariance, vc = spread
    lead = c**2 - z**2 * vc
    both = c**2 * vs + s**2 * vc - 2 * s * c * covariance - z**2 * (vs * vc - covariance**2)
    root = z * np.sqrt(np.maximum(both, 0.0))  # of (S·C − z²·cov)² − lead·(S² − z²·var S), without their difference
    with np.errstate(all="ignore"):
        middle = s * c - z**2 * covariance
        least, most = (middle - root) / lead, (middle + root) / lead
        value = np.where(c > 0, np.clip(s / c, low, high), np.nan)
    unknown = ~((lead > 0) & (c > 0)) | (least > high) | (most < low)
    return Interval(
        value, np.where(unknown, low, np.clip(least, low, high)), np.where(unknown, high, np.clip(most, low, high))
    )
