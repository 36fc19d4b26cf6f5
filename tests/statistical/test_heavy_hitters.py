"""Whole runs have the law they should: accepted as it is, rejected with 30% less or more noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, kstest

from nabladp.mechanisms.heavy_hitters import HeavyHitters, Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.privacy import Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

VALUES, EACH = 32768, 3
SCHEMA = Schema((Attribute("a", "integer", low=0, high=VALUES - 1),))
PEOPLE = CodedTable(SCHEMA, {"a": np.repeat(np.arange(VALUES), EACH)})
TREE = Tree.build((VALUES,), 2, 2, free_cells=2)  # one node: every value is a test of its own
THRESHOLD, SCALE, BETA, MU = 6, 4.0, 3.0, 2


def mechanism(notion: Notion) -> HeavyHitters:
    pure = notion == "pure"
    levels = (Level(THRESHOLD, SCALE),)
    chosen = Settings(notion, TREE, MU if pure else 0, levels, BETA if pure else None, 1, 0, 1, 0.05, 1.0, 1)
    return HeavyHitters(Pure(40) if pure else Rho(40), notion=notion, settings=chosen)


def tail(notion: str, scale: float, start: int) -> float:
    log_pmf = laplace_log_pmf if notion == "pure" else gaussian_log_pmf
    return float(np.exp(log_pmf(scale, start, start + math.ceil(50 * scale))).sum())


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_as_many_pass_as_should(notion: Notion) -> None:
    found = mechanism(notion).run(PEOPLE, NoiseSource.seeded(11))
    start = THRESHOLD + 1 - (max(EACH, THRESHOLD - MU) if notion == "pure" else EACH)

    def surprise(scale: float) -> float:
        p = tail(notion, scale, start)
        return 2 * min(binom.cdf(len(found), VALUES, p), binom.sf(len(found) - 1, VALUES, p))

    assert surprise(SCALE) > 1e-4
    assert surprise(0.7 * SCALE) < 1e-6 and surprise(1.3 * SCALE) < 1e-6


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_counts_of_what_passed_have_their_noise(notion: Notion) -> None:
    found = mechanism(notion).run(PEOPLE, NoiseSource.seeded(12))
    shaken = found.counts - EACH + NoiseSource.seeded(1).uniform_integers(1 << 30, len(found)) / (1 << 30)

    def surprise(factor: float) -> float:
        """Kolmogorov–Smirnov, on values spread evenly over their units."""
        pure = notion == "pure"
        scale = factor * (BETA if pure else SCALE)
        low, high = (-200, 200) if pure else (THRESHOLD + 1 - EACH, 200)
        chances = np.exp((laplace_log_pmf if pure else gaussian_log_pmf)(scale, low, high))
        known = np.concatenate([[0], np.cumsum(chances / chances.sum())])
        return float(kstest(shaken, lambda x: np.interp(x, np.arange(low, high + 2), known)).pvalue)

    assert surprise(1) > 1e-4
    assert surprise(0.7) < 1e-6 and surprise(1.3) < 1e-6


def test_intervals_hold_given_that_a_value_is_listed() -> None:
    for notion in ("pure", "cdp"):
        found = mechanism(notion).run(PEOPLE, NoiseSource.seeded(13))  # type: ignore[arg-type]
        low, high = found.interval(0.9)
        right = int(np.count_nonzero((low <= EACH) & (high >= EACH)))
        assert binom.cdf(right, len(found), 0.9) > 1e-4
        plain = np.abs(found.counts - EACH) <= 1.645 * SCALE
        if notion == "cdp":  # what a plain interval would do for counts that passed by their noise
            assert np.count_nonzero(plain) < 0.75 * len(found)


def test_the_certificate_holds() -> None:
    """Strings exactly at the certified count: all found, and counted within the error, in nearly every run."""
    schema = Schema(tuple(Attribute(f"a{i}", "boolean") for i in range(24)))
    draws = np.random.default_rng(5)
    n = 4000
    for planned in (HeavyHitters(Rho(0.5)), HeavyHitters(Pure(1), notion="pure")):
        promise = planned.plan(schema, n)
        rows = draws.integers(0, 2, (n, 24))
        planted = draws.integers(0, 2, (5, 24))
        rows[: 5 * promise.certified] = np.repeat(planted, promise.certified, axis=0)
        people = CodedTable(schema, {f"a{i}": rows[:, i] for i in range(24)})
        kept = 0
        for seed in range(40):
            found = planned.run(people, NoiseSource.seeded(seed))
            counts = {tuple(row): count for row, count in zip(found.codes.tolist(), found.counts.tolist(), strict=True)}
            off = [abs(counts.get(tuple(row), -n) - promise.certified) for row in planted.tolist()]
            kept += max(off) <= promise.count_error
        assert binom.cdf(kept, 40, 1 - promise.failure) > 1e-4
