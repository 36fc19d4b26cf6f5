"""Intervals of Statistics hold the truth as often as they say, for small and large groups, with both kinds of noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nabladp.mechanisms.statistics.estimates import Measured, count, mean, quantile, quantile_of_noise, variance
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.noise import NoiseSource
from nabladp.noise import variance as noise_variance
from nabladp.sql.domains import Domain

RUNS = 2000
LEAST = 0.93  # of intervals at 95 %, over so many runs
COUNTS = (5, 50, 1000, 100_000)
SCALES = (2.0, 12.0, 80.0)


def noisy(source: NoiseSource, laplace: bool, scale: float, value: float) -> Measured:
    """The same number measured many times."""
    draw = source.discrete_laplace if laplace else source.discrete_gaussian
    deviation = noise_variance("laplace" if laplace else "gaussian", scale) ** 0.5
    return Measured(np.round(value) + draw(scale, RUNS), deviation)


def coverage(interval: Any, truth: float) -> float:
    slack = 1e-9 * (1 + abs(truth))
    return float(((interval.low <= truth + slack) & (truth - slack <= interval.high)).mean())


@pytest.mark.parametrize("laplace", [False, True], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("rows", COUNTS)
def test_counts_means_and_variances(rows: int, scale: float, laplace: bool) -> None:
    source, grid = NoiseSource.seeded(rows), Grid(50.0, 0.5, -100, 100)
    z = quantile_of_noise(0.95, laplace)
    counts = noisy(source, laplace, scale, rows)
    assert coverage(count(counts, z, 1e9), rows) >= LEAST
    for centre in (0, 50, 90):
        total = rows * centre
        sums = noisy(source, laplace, scale * grid.reach, total)
        assert coverage(mean(sums, counts, grid, z), grid.origin + grid.step * total / rows) >= LEAST
        if rows >= 20:
            spread = rows * (2 * (centre**2 + 200) - grid.reach**2)  # values of variance 200 in steps
            squares = noisy(source, laplace, scale * grid.reach**2, spread)
            half = quantile_of_noise(0.975, laplace)
            found = variance(sums, squares, counts, grid, half, sample=False, roots=False)
            assert coverage(found, 200 * grid.step**2) >= LEAST


@pytest.mark.parametrize("known", [True, False], ids=["N known", "N noisy"])
@pytest.mark.parametrize("rows", COUNTS)
def test_quantiles(rows: int, known: bool) -> None:
    source, bins = NoiseSource.seeded(rows), Bins.of(Domain.of_values("number", range(64)))
    chosen, z = strategy(bins.count, False), quantile_of_noise(0.95, False)
    histogram = np.zeros(bins.count, np.int64)
    histogram[[3, 20, 21, 60]] = np.diff([0, rows // 4, rows // 2, rows // 2 + rows // 8, rows])
    exact, deviation = chosen.matrix @ histogram, 256 * 5.0
    answers = exact + source.discrete_gaussian(deviation, (RUNS, chosen.rows))
    counts = Measured(np.full(RUNS, float(rows)), 0.0) if known else noisy(source, False, 5.0, rows)
    for q in (0.1, 0.5, 0.9):
        truth = int(np.searchsorted(np.cumsum(histogram), q * rows))
        found = quantile(answers @ chosen.prefix.T, chosen.deviations * deviation, counts, bins, q, z)
        assert coverage(found, truth) >= LEAST
