"""Intervals of Statistics hold the truth as often as they say, for small and large groups, with both kinds of noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sql_tables import NoNoise

from nabladp.mechanisms.intervals import quantile_of_noise
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.estimates import Measured, count, mean, quantile, variance
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.noise import NoiseSource
from nabladp.noise import variance as noise_variance
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.sql.domains import Domain
from nabladp.tables import CodedTable

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
            found = variance(sums, squares, counts, grid, half, sample=False)
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


@pytest.mark.parametrize("budget", [CDP(0.3), Pure(0.6)], ids=["cdp", "pure"])
def test_pooled_groups(budget: Any) -> None:
    """Groups of three levels, each measured and pooled: intervals hold the truth as often as they say, at each."""
    schema = Schema(
        tuple(Attribute(name, "integer", low=0, high=high) for name, high in (("a", 2), ("b", 11), ("v", 9)))
    )
    rng = np.random.default_rng(1)
    codes = {name: rng.integers(0, 3 if name == "a" else 12 if name == "b" else 10, 6000) for name in "abv"}
    table = CodedTable(schema, codes)
    query = "SELECT a, b, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m FROM t WHERE v > 0 GROUP BY ROLLUP(a, b)"
    mechanism, source = Statistics(budget, query), NoiseSource.seeded(7)
    truth = mechanism.run(table, NoNoise()).answer.rows
    held: dict[tuple[int, str], list[bool]] = {}
    for _ in range(60):
        for row, true in zip(mechanism.run(table, source).answer.rows, truth, strict=True):
            level = (row["a"] is not None) + (row["b"] is not None)
            for name in "nsm":
                inside = row[f"{name}_low"] - 1e-9 <= true[name] <= row[f"{name}_high"] + 1e-9
                held.setdefault((level, name), []).append(inside)
    for (level, name), found in held.items():
        least = LEAST if level == 2 else LEAST - 3 * math.sqrt(0.05 * 0.95 / len(found))
        assert np.mean(found) >= least, (level, name)
        assert np.mean(found) <= 0.995 or len(found) < 100, (level, name)


# ---- the population --------------------------------------------------------------------------------------------------

PEOPLE = Schema((Attribute("g", "integer", low=0, high=2), Attribute("v", "integer", low=0, high=50)))
SHARES, MEANS, SPREADS = (0.9, 0.08, 0.02), (10, 20, 30), (5, 8, 10)
POPULATION = """SELECT g, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m, VAR_SAMP(v) AS w, MEDIAN(v) AS q FROM t GROUP BY g"""


def sample(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    group = rng.choice(3, rows, p=SHARES)
    values = np.rint(rng.normal(np.array(MEANS)[group], np.array(SPREADS)[group]))
    return {"g": group, "v": np.clip(values, 0, 50).astype(np.int64)}


def covered(budget: Any, sampling_error: bool, rows: int = 1500, runs: int = 120) -> dict[str, float]:
    """How often intervals hold what is true of the population, over samples and noise, by column; in the group where
    that is least."""
    rng, source = np.random.default_rng(8), NoiseSource.seeded(9)
    large = sample(rng, 1_000_000)
    mechanism = Statistics(budget, POPULATION, sampling_error=sampling_error)
    held: dict[tuple[int, str], list[bool]] = {}
    for _ in range(runs):
        for row in mechanism.run(CodedTable(PEOPLE, sample(rng, rows)), source).answer.rows:
            values, count = large["v"][large["g"] == row["g"]], rows * SHARES[row["g"]]
            true = {
                "n": count,
                "s": count * values.mean(),
                "m": values.mean(),
                "w": values.var(),
                "q": np.median(values),
            }
            for name, value in true.items():
                held.setdefault((row["g"], name), []).append(row[f"{name}_low"] <= value <= row[f"{name}_high"])
    return {name: min(float(np.mean(held[group, name])) for group in range(3)) for name in "nsmwq"}


@pytest.mark.parametrize("budget", [CDP(20), CDP(0.5), Pure(1)], ids=["much", "cdp", "pure"])
def test_intervals_with_sampling_error_hold_the_population(budget: Any) -> None:
    found = covered(budget, sampling_error=True)
    assert min(found.values()) >= LEAST - 3 * math.sqrt(0.05 * 0.95 / 120), found


def test_intervals_without_it_do_not() -> None:
    found = covered(CDP(20), sampling_error=False)
    assert found["n"] < 0.7 and found["m"] < 0.7 and found["s"] < 0.7, found
