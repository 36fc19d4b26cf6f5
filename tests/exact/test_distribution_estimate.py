"""DistributionEstimate: what its probabilities are made from, and its error bounds against exact enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.mechanisms.distribution_estimate.squared_error import Chances, Errors
from nabladp.mechanisms.heavy_hitters.settings import Level, Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.noise import gaussian_log_pmf, laplace_log_pmf
from nabladp.privacy import CDP, Pure, Rho
from nabladp.schema import Attribute, Schema


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in "abc"[:d]))


MIXED = Schema((Attribute("a", "boolean"), Attribute("b", "categorical", values=("x", "y", "z"))))


def tiny(sizes: tuple[int, ...], notion: Notion, levels: list[tuple[int, float]], free: int = 2) -> Settings:
    tree = Tree.build(sizes, 2, 2, free_cells=free)
    mu, beta = (1, 1.3) if notion == "pure" else (0, None)
    return Settings(notion, tree, mu, tuple(Level(*level) for level in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


RUNS: dict[str, tuple[DistributionEstimate, Schema, int]] = {
    "cdp": (DistributionEstimate(Rho(9), settings=tiny((2, 2), "cdp", [(1, 1.2)])), bits(2), 3),
    "cdp, thresholds at leaves": (
        DistributionEstimate(Rho(9), settings=tiny((2, 3), "cdp", [(0, 1.5), (1, 1.2)])),
        MIXED,
        2,
    ),
    "pure": (DistributionEstimate(Pure(9), notion="pure", settings=tiny((2, 2), "pure", [(1, 1.5)])), bits(2), 3),
    "pure, two levels": (
        DistributionEstimate(Pure(9), notion="pure", settings=tiny((2, 2, 2), "pure", [(1, 1.5), (2, 1.5)])),
        bits(3),
        2,
    ),
    "planned": (DistributionEstimate(CDP(4)), bits(3), 2),
    "planned, pure": (DistributionEstimate(Pure(16), notion="pure"), bits(2), 2),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_set_of_attributes_loses_more_than_claimed(name: str) -> None:
    audit = exact_audit(*RUNS[name])
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.3


# ---- the error bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notion", ["cdp", "pure"])
@pytest.mark.parametrize("scale", [0.8, 3.0, 400.0])
def test_moments_of_the_noise_are_never_too_small(notion: Notion, scale: float) -> None:
    settings = tiny((2, 2), notion, [(1, scale)])
    errors = Errors(Chances(replace(settings, count_scale=scale if notion == "pure" else None), 50), 0.05)
    reach = math.ceil(90 * errors.chances.scale)
    log_pmf = (laplace_log_pmf if notion == "pure" else gaussian_log_pmf)(errors.chances.scale, -reach, reach)
    z = np.arange(-reach, reach + 1)
    for k in {-5, 0, 1, 2, round(scale), round(3 * scale), round(7 * scale)}:
        for power in (2, 4):
            weights = np.exp(log_pmf) * z.astype(np.float64) ** power
            truth, total = float(weights[z >= k].sum()), float(weights.sum())
            bound = float(errors.moment_above(np.array([float(k)]), power)[0])
            assert truth * (1 - 1e-9) <= bound <= (total if k <= 0 else truth) * 1.1


def mean_error(counts: tuple[int, ...], settings: Settings, cut: int) -> float:
    """E Σ (kept? noise² : count²) with one threshold, every cell a candidate; no bound anywhere."""
    (level,) = settings.levels
    reach, total = 200, 0.0
    z = np.arange(-reach, reach + 1)
    pass_log = (laplace_log_pmf if settings.notion == "pure" else gaussian_log_pmf)(level.scale, -reach, reach)
    for f in counts:
        if settings.notion == "pure":
            passing = float(np.exp(pass_log)[max(f - level.threshold, -settings.mu) + z > 0].sum())
            weights = passing * np.exp(laplace_log_pmf(settings.count_scale or 1.0, -reach, reach))
            kept = f + z >= cut
        else:
            weights, kept = np.exp(pass_log), (f + z >= cut) & (f + z > level.threshold)
        total += float((weights * z**2)[kept].sum()) + f**2 * (1 - float(weights[kept].sum()))
    return total


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_the_mean_error_is_within_its_bound_for_every_table(notion: Notion) -> None:
    settings = tiny((2, 2), notion, [(2, 1.4)])
    n, worst = 12, 0.0
    errors = Errors(Chances(settings, n), 0.05)
    for cut in (3, 4, 6, 9):
        bound = errors._mean(cut)
        for counts in itertools.product(range(n + 1), repeat=4):
            if sum(counts) == n:
                truth = mean_error(counts, settings, cut)
                assert truth <= bound * (1 + 1e-9)
                worst = max(worst, truth / bound)
    assert worst > 0.5  # and the bound is no triviality


def test_the_best_cut_has_the_smallest_bound() -> None:
    errors = Errors(Chances(DistributionEstimate(CDP(1)).histogram.plan(bits(3), 10_000), 10_000), 0.05)
    best = errors.best()
    assert best.mean == min(errors._mean(cut) for cut in range(1, 30)) / 10_000**2
