"""NoisyMarginals on real draws: noise of the stated size, intervals that cover, and an attack that finds no more
than the claim. Each check accepts the truth and rejects noise ×0.7 and ×1.3."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spreads import check_unit_spread

from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource, variance
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=0, high=99),
        Attribute("income", "real", edges=tuple(range(0, 101, 5)), null="category"),
        Attribute("sick", "boolean"),
    )
)
REQUESTS = [NoisyMarginals(CDP(0.3), k=2), NoisyMarginals(Pure(0.6), k=2, noise="laplace")]
both = pytest.mark.parametrize("mechanism", REQUESTS, ids=["gaussian", "laplace"])


def people(rows: int = 4000) -> CodedTable:
    draws = NoiseSource.seeded(8)
    age = draws.binomial(np.full(rows, 99), 0.4)
    income = np.minimum(age // 6 + draws.uniform_integers(5, rows), 19)
    income[draws.uniform_integers(10, rows) == 0] = 20  # null
    return CodedTable(SCHEMA, {"age": age, "income": income, "sick": draws.uniform_integers(2, rows)})


def residuals(mechanism: NoisyMarginals, table: CodedTable, shrink: float = 1.0) -> np.ndarray[Any, Any]:
    """Standardised noise of every cell, as if the true scale were ``shrink`` times the stated one."""
    output = mechanism.run(table, NoiseSource())
    truth = table.marginals([t.attributes for t in output])
    return np.concatenate(
        [(t.counts - x).ravel() * shrink / math.sqrt(t.variance) for t, x in zip(output, truth, strict=True)]
    )


@both
def test_noise_is_as_large_as_stated(mechanism: NoisyMarginals) -> None:
    table = people()
    check_unit_spread(np.concatenate([residuals(mechanism, table) for _ in range(4)]), errors=6)


@both
def test_intervals_cover_as_often_as_stated(mechanism: NoisyMarginals) -> None:
    table = people()
    for level in (0.5, 0.95):
        inside = total = 0
        for _ in range(3):
            output = mechanism.run(table, NoiseSource())
            for released, true in zip(output, table.marginals([t.attributes for t in output]), strict=True):
                low, high = released.raw.interval(level)
                inside += int(((low <= true) & (true <= high)).sum())
                total += true.size
        lowest, highest = stats.binom.ppf([1e-9, 1 - 1e-9], total, level)
        assert lowest <= inside <= highest + 0.06 * total  # whole numbers can only cover a little more


@both
def test_means_and_quantiles_cover(mechanism: NoisyMarginals) -> None:
    table = people()
    (age,), (income,) = table.marginals([("age",)]), table.marginals([("income",)])
    true_mean = float(age @ np.arange(100)) / table.n
    middles = np.arange(0, 100, 5) + 2.5
    known_mean = float(income[:20] @ middles) / income[:20].sum()
    true_median = int(np.searchsorted(np.cumsum(age), table.n / 2))
    runs, hits = 60, np.zeros(4)
    for _ in range(runs):
        output = mechanism.run(table, NoiseSource())
        one, two, three = output.mean("age"), output.mean("income"), output.quantile("age", 0.5)
        hits += [
            one.low <= true_mean <= one.high,
            two.low <= known_mean <= two.high,
            three.low <= true_median <= three.high,
            1,
        ]
        assert abs(one.value - true_mean) < 10 and abs(three.value - true_median) < 60
    assert np.all(hits[:3] >= stats.binom.ppf(1e-6, runs, 0.95))


def test_mean_interval_is_not_needlessly_wide() -> None:
    table = people()
    output = NoisyMarginals(CDP(0.3), k=1).run(table, NoiseSource())
    estimate = output.mean("age")
    deviation = math.sqrt(variance("gaussian", output.tables[0].scale) * np.var(np.arange(100)) * 100) / table.n
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * deviation, rel=0.02)


def attack(mechanism: NoisyMarginals, runs: int, shrink: float) -> float:
    """A lower bound (confidence 1 − 1e-6) on the pure ε between two tables, from the likelihood ratio's best threshold.

    The noise is scaled by ``shrink`` after the fact, as a mechanism with that much noise would have drawn it.
    """
    schema = Schema((Attribute("x", "boolean"),))
    tables = [CodedTable(schema, {"x": np.array([0] * 5 + [bit])}) for bit in (0, 1)]
    truths = [table.marginals([("x",)])[0] for table in tables]
    scores = []
    for table, truth in zip(tables, truths, strict=True):
        repeated = np.array([mechanism.run(table, NoiseSource())["x"].counts for _ in range(runs)])
        noisy = truth + np.round((repeated - truth) * shrink)
        scores.append((np.abs(noisy - truths[0]) - np.abs(noisy - truths[1])).sum(axis=1))
    half = runs // 2
    cut = max(np.unique(scores[1][:half]), key=lambda c: _log_ratio(scores, c, slice(None, half)))
    return _log_ratio(scores, cut, slice(half, None))


def _log_ratio(scores: list[np.ndarray[Any, Any]], cut: float, part: slice) -> float:
    one, zero = ((s[part] >= cut).sum() for s in (scores[1], scores[0]))
    size = len(scores[0][part])
    low = stats.beta.ppf(1e-6, one, size - one + 1) if one else 0.0
    high = stats.beta.ppf(1 - 1e-6, zero + 1, size - zero) if zero < size else 1.0
    return math.log(low / high) if low > 0 else -math.inf


def test_an_attack_finds_no_more_than_the_claim_and_finds_planted_faults() -> None:
    mechanism = NoisyMarginals(Pure(1.0), k=1, noise="laplace")
    assert attack(mechanism, 5_000, 1.0) <= 1.0
    assert attack(mechanism, 5_000, 0.5) > 1.0  # sensitivity 1 where 2 is right: half the noise
