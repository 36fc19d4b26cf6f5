"""Estimates and intervals from noisy sums: what the noise allows, at a stated level. Post-processing only.

Each function takes arrays with an entry for every group, and gives value, low and high; NaN stands for "no value".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from nabladp.arrays import Floats
from nabladp.mechanisms.intervals import Interval, ratio_interval
from nabladp.mechanisms.statistics.grids import Bins, Grid, Strategy


@dataclass(frozen=True)
class Measured:
    """Noisy numbers, one for each group, and the standard deviation of their noise; 0: exact."""

    values: Floats
    deviation: float


def _reach(z: float, deviation: float) -> float:
    """With half a step for numbers that are whole."""
    return z * deviation + 0.5 if deviation else 0.0


def count(measured: Measured, z: float, most: float) -> Interval:
    reach = _reach(z, measured.deviation)
    low, high = measured.values - reach, measured.values + reach
    return Interval(measured.values, np.clip(np.ceil(low), 0, most), np.clip(np.floor(high), 0, most))


def total(measured: Measured, grid: Grid, z: float) -> Interval:
    reach = _reach(z, measured.deviation)
    return Interval(*(grid.step * (measured.values + shift) for shift in (0.0, -reach, reach)))


def sum_from_mean(sums: Measured, counts: Measured, grid: Grid, z: float) -> Interval:
    """From a centred sum and the number of values."""
    value = grid.step * sums.values + grid.origin * counts.values
    deviation = math.hypot(grid.step * sums.deviation, grid.origin * counts.deviation)
    reach = z * deviation + (grid.step / 2 if sums.deviation else 0.0)
    return Interval(value, value - reach, value + reach)


def ratio(sums: Measured, counts: Measured, z: float, most: float) -> Interval:
    """S/C within ±most by Fieller's theorem, with half a step for sums that are whole. [fieller]

    There is no value where the count cannot be told from zero; the interval is then all that is possible.
    """
    s, c = sums.values.astype(np.float64), counts.values.astype(np.float64)
    wide = z + (1 / (2 * sums.deviation) if sums.deviation else 0.0)
    found = ratio_interval(s, c, (sums.deviation**2, 0.0, counts.deviation**2), wide, -most, most)
    return found._replace(value=np.where(c > z * counts.deviation, found.value, np.nan))


def mean(sums: Measured, counts: Measured, grid: Grid, z: float) -> Interval:
    return Interval(*(grid.origin + grid.step * part for part in ratio(sums, counts, z, grid.reach)))


def variance(sums: Measured, squares: Measured, counts: Measured, grid: Grid, z: float, sample: bool) -> Interval:
    """Of the population, or of a sample; ``z`` is for both ratios together (half of the doubt each)."""
    half = grid.reach**2 / 2
    centre = ratio(sums, counts, z, grid.reach)
    spread = ratio(Measured(squares.values / 2, squares.deviation / 2), counts, z, half)
    smallest = np.where((centre.low <= 0) & (centre.high >= 0), 0.0, np.minimum(centre.low**2, centre.high**2))
    largest = np.maximum(centre.low**2, centre.high**2)
    value = np.clip(spread.value + half - centre.value**2, 0, np.maximum(grid.reach**2 - centre.value**2, 0))
    low = np.clip(spread.low + half - largest, 0, None)
    high = np.clip(spread.high + half - smallest, 0, grid.reach**2 - smallest)
    found = [value * grid.step**2, low * grid.step**2, np.maximum(high, low) * grid.step**2]
    return Interval(*(_of_a_sample(found, counts, z) if sample else found))


def _of_a_sample(found: list[Floats], counts: Measured, z: float) -> list[Floats]:
    """Times C/(C − 1); there is no variance of a single row."""
    reach = _reach(z, counts.deviation)
    fewest, most = np.maximum(counts.values - reach, 2), np.maximum(counts.values + reach, 2)
    value = np.where(counts.values > 1.5, found[0] * counts.values / np.maximum(counts.values - 1, 0.5), np.nan)
    return [value, found[1] * most / (most - 1), found[2] * fewest / (fewest - 1)]


def quantile(prefix: Floats, deviations: Floats, counts: Measured, bins: Bins, q: float, z: float) -> Interval:
    """By inverting tests: bins whose prefix sums are compatible with the quantile. Only the two tests of the true bin
    matter, so that no union over bins is needed. [inversion]"""
    rank = q * counts.values[:, None]
    doubt = z * np.sqrt(deviations**2 + (q * counts.deviation) ** 2)
    last = bins.count - 1
    may_reach = prefix + doubt >= rank
    may_reach[:, last] = True
    first_bin = may_reach.argmax(axis=1)
    below = np.zeros_like(may_reach)
    below[:, 0] = True
    below[:, 1:] = (prefix - doubt)[:, :-1] < rank
    last_bin = last - below[:, ::-1].argmax(axis=1)
    value = np.array([_crossing(bins, own, float(at)) for own, at in zip(prefix, rank[:, 0], strict=True)])
    value = np.where(counts.values > z * counts.deviation, value, np.nan)
    low = np.array([bins.bounds(int(k))[0] for k in np.minimum(first_bin, last_bin)])
    high = np.array([bins.bounds(int(k))[1] for k in np.maximum(first_bin, last_bin)])
    return Interval(np.clip(value, low, high), low, high)


def _crossing(bins: Bins, prefix: Floats, rank: float) -> float:
    """Where the prefix sums, made to rise by least squares, reach the rank: a listed value as it is; within a bin of
    real numbers, by where the rank falls between its two prefix sums."""
    rising = isotonic_regression(prefix).x
    k = min(int(np.searchsorted(rising, rank)), bins.count - 1)
    low, high = bins.bounds(k)
    if low == high:
        return low
    before = max(float(rising[k - 1]), 0.0) if k else 0.0
    share = (rank - before) / (rising[k] - before) if rising[k] > before else 0.5
    return low + (high - low) * min(max(share, 0.0), 1.0)


def prefix_sums(answers: Floats, chosen: Strategy) -> Floats:
    return np.asarray(answers @ chosen.prefix.T)
