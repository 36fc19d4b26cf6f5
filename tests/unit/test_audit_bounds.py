"""The bounds behind the statistical audit, on laws whose divergences are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from nabladp.audit.scores_and_bounds import (
    at_least,
    at_most,
    best_bet,
    beyond,
    concentrated_rho,
    divergence_terms,
    mean_at_least,
    pure_epsilon,
)
from nabladp.noise import NoiseSource
from nabladp.privacy.conversion import epsilon_from_rho


@pytest.mark.parametrize("p", [0.001, 0.03, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("trials", [1, 7, 60])
def test_clopper_pearson_covers_exactly(p: float, trials: int) -> None:
    """Summed over every outcome, the chance to be wrong is at most the one asked for."""
    k = np.arange(trials + 1)
    for failure in (0.2, 0.01):
        chances = binom.pmf(k, trials, p)
        assert chances[at_least(k, trials, failure) > p].sum() <= failure
        assert chances[at_most(k, trials, failure) < p].sum() <= failure


def test_clopper_pearson_is_not_idle() -> None:
    assert at_least([0, 500, 1000], 1000, 0.01) == pytest.approx([0, 0.46, 0.995], abs=0.01)
    assert at_most([0, 500, 1000], 1000, 0.01) == pytest.approx([0.005, 0.54, 1], abs=0.01)


def test_randomized_response_gives_its_epsilon() -> None:
    assert pure_epsilon(0.75, 0.25) == pytest.approx(math.log(3))
    assert pure_epsilon(0.2, 0.3) == 0
    assert math.isinf(pure_epsilon(0.2, 0.0))


def test_bernoulli_rho_is_a_supremum_over_orders_and_needs_no_more_than_pure() -> None:
    p, q = 0.75, 0.25
    two = math.log(p**2 / q + (1 - p) ** 2 / (1 - q)) / 2  # D_2 / 2
    assert concentrated_rho(p, q) >= two
    assert concentrated_rho(p, q) <= math.log(3) ** 2 / 2  # pure ε is ε²/2 concentrated
    assert concentrated_rho(0.2, 0.3) == 0
    assert concentrated_rho(0.5, 0.5) == 0
    grown = concentrated_rho([0.3, 0.4, 0.5], [0.2, 0.2, 0.2])
    assert np.all(np.diff(grown) > 0)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_no_event_of_gaussian_noise_exceeds_its_rho_or_its_curve(mu: float) -> None:
    thresholds = np.linspace(-8, 8, 200)
    p, q = norm.sf(thresholds - mu), norm.sf(thresholds)
    found = concentrated_rho(p, q)
    assert found.max() <= mu**2 / 2
    assert found.max() >= 0.6 * mu**2 / 2
    for delta in (1e-4, 0.05):
        epsilon = epsilon_from_rho(mu**2 / 2, delta)
        assert not any(beyond(a, b, epsilon, delta) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    assert beyond(0.5, 0.1, 1.0, 0.01)


def _normals(seed: int, count: int, mean: float) -> np.ndarray:
    drawn = NoiseSource.seeded(seed).uniform_integers(1 << 52, count)
    return norm.ppf((drawn + 0.5) / (1 << 52)) + mean


def test_mean_bound_covers_and_comes_close() -> None:
    """Bernoulli values: at failure 0.2 about a fifth at most may be wrong; far fewer than a half must be loose."""
    wrong, gaps = 0, []
    for seed in range(300):
        x = NoiseSource.seeded(seed).uniform_integers(10, 200) < 3
        bound = mean_at_least(x.astype(float), 0.0, 1.0, best_bet(math.sqrt(0.21), 200, 0.2), 0.2)
        wrong += bound > 0.3
        gaps.append(0.3 - bound)
    assert wrong <= 0.2 * 300
    assert np.mean(gaps) < 0.09


def test_mean_bound_at_its_edges() -> None:
    assert mean_at_least(np.zeros(50), 0.0, 1.0, 1.0, 0.01) == 0.0
    assert mean_at_least(np.ones(5000), 0.0, 1.0, 0.5, 0.01) > 0.99
    assert mean_at_least(np.array([]), -1.0, 1.0, 0.5, 0.01) == -1.0
    assert mean_at_least(np.ones(3), 1.0, 1.0, 0.5, 0.01) == 1.0


def test_divergence_terms_average_to_the_divergence_with_the_right_ratio_and_below_with_any_other() -> None:
    mu, count = 0.7, 60_000
    x, y = _normals(1, count, mu), _normals(2, count, 0.0)
    for factor, exact in ((1.0, True), (0.5, False), (2.0, False), (-1.0, False)):
        mean = divergence_terms(factor * (mu * x - mu**2 / 2), factor * (mu * y - mu**2 / 2)).mean()
        assert mean == pytest.approx(mu**2 / 2, abs=0.02) if exact else mean < mu**2 / 2 - 0.02
