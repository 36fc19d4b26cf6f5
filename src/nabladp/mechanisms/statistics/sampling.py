"""Sampling error on top of the noise: intervals for the population of which the rows are a simple random sample.

The n rows are independent draws from a much larger population. Counts and sums are then those to expect among n rows;
means, variances and quantiles are the population's own. Where a variance is not known for sure, its largest value that
the noise leaves possible is used, so that intervals are rather too wide than too narrow. Post-processing only.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from nabladp.arrays import Floats
from nabladp.mechanisms.intervals import Interval
from nabladp.mechanisms.statistics.estimates import Measured
from nabladp.mechanisms.statistics.grids import Grid


def count(counts: Measured, noise: Interval, z: float, n: float) -> Interval:
    """All expected numbers μ of rows for which the noisy one is within z deviations of noise and sampling together, a
    variance of σ² + μ(1 − μ/n)."""
    lead = 1 + z**2 / n
    ends = []
    for shift, sign in ((-0.5, -1.0), (0.5, 1.0)):  # half a row, as rows are whole
        middle = counts.values + shift + z**2 / 2
        root = np.maximum(middle**2 - lead * ((counts.values + shift) ** 2 - (z * counts.deviation) ** 2), 0)
        ends.append(np.clip((middle + sign * np.sqrt(root)) / lead, 0, n))
    return Interval(noise.value, *ends)


def mean(noise: Interval, spread: Interval, counts: Measured, level: float, low: float, high: float) -> Interval:
    """``spread`` is the variance of the values; of few values it is known badly, hence Student's quantiles."""
    rows = np.maximum(counts.values, 1.0)
    quantile = student.ppf((1 + level) / 2, np.maximum(rows - 1, 1))
    return _widen(noise, quantile * np.sqrt(spread.high / rows), low, high)


def total(noise: Interval, average: Interval, spread: Interval, counts: Measured, z: float, n: float) -> Interval:
    """A row adds its value, or 0 if it is not in the group: E[x²] − E[x]² of that, n times."""
    rows = np.maximum(counts.values, 0.0) + z**2 / 2  # few rows may be few by chance: the middle of their interval
    middle = np.maximum(np.abs(average.low), np.abs(average.high))
    squares = rows * (spread.high + middle**2)
    return _widen(noise, z * np.sqrt(np.maximum(squares - noise.value**2 / n, 0)), -np.inf, np.inf)


def variance(noise: Interval, average: Interval, counts: Measured, grid: Grid, z: float) -> Interval:
    """Squared distances from the mean lie between 0 and B, with the variance s as their mean: their own variance is at
    most s(B − s)."""
    low, high = grid.origin + grid.step * grid.low, grid.origin + grid.step * grid.high
    most = np.maximum(high - average.low, average.high - low) ** 2
    worst = np.clip(most / 2, noise.low, noise.high)
    reach = z * np.sqrt(np.maximum(worst * (most - worst), 0) / np.maximum(counts.values, 1.0))
    return _widen(noise, reach, 0.0, (high - low) ** 2)


def rank_variance(counts: Measured, q: float) -> Floats:
    """Of the number of rows below the population's quantile."""
    return np.asarray(np.maximum(counts.values, 0.0) * q * (1 - q))


def _widen(noise: Interval, reach: Floats, low: float, high: float) -> Interval:
    """Two independent errors: each end is as far from the value as the root of their squares."""
    value = np.where(np.isnan(noise.value), (noise.low + noise.high) / 2, noise.value)
    lowest = value - np.hypot(value - noise.low, reach)
    highest = value + np.hypot(noise.high - value, reach)
    return Interval(noise.value, np.clip(lowest, low, high), np.clip(highest, low, high))
