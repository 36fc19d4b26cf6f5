"""Conversions against an independent library and against the exact discrete law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import dp_accounting as dp_event
import numpy as np
import pytest

from nabladp.errors import BudgetError, GuaranteeError
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import CDP, Pure, Rho


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.02, 0.5, 1.016057, 2.556, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_tight_is_the_minimum_over_orders(rho: float, delta: float) -> None:
    shift = np.exp(np.linspace(-14, 14, 400_001))
    order = 1 + shift
    bound = rho * order + np.log(shift / order) + (math.log(1 / delta) - np.log(order)) / shift
    assert epsilon_from_rho(rho, delta) == pytest.approx(max(float(bound.min()), 0.0), rel=1e-6, abs=1e-9)
    assert epsilon_from_rho(rho, delta) <= epsilon_from_rho(rho, delta, "paper")


def test_agrees_with_dp_accounting() -> None:
    from dp_accounting.rdp import RdpAccountant

    for rho in (0.01, 0.3, 2.0):
        accountant = RdpAccountant(orders=np.concatenate([np.linspace(1.01, 10, 900), np.linspace(10, 400, 4000)]))
        accountant.compose(dp_event.ZCDpEvent(rho))
        assert epsilon_from_rho(rho, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def brute_force_delta(scale: float, cells: int, epsilon: float) -> float:
    """δ of ``cells`` integer shifts by one under discrete Gaussian noise, by full enumeration."""
    points = np.arange(-12, 13)
    weights = np.exp(-(points**2) / (2 * scale**2))
    weights /= weights.sum()
    delta = 0.0
    for chosen in itertools.product(range(len(points)), repeat=cells):
        mass = float(np.prod(weights[list(chosen)]))
        loss = sum((1 + 2 * points[i]) / (2 * scale**2) for i in chosen)
        delta += mass * max(0.0, 1 - math.exp(epsilon - loss))
    return delta


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.7])
def test_discrete_gaussian_figure_is_exact_for_one_marginal(scale: float) -> None:
    g = Guarantee.touch(["a", "b"], "a", Rho(1 / Fraction(scale) ** 2), gaussian_scale=scale)
    delta = 1e-3
    epsilon = g.epsilon("a", delta, "discrete_gaussian")
    assert brute_force_delta(scale, 2, epsilon) <= delta * (1 + 1e-6)
    assert brute_force_delta(scale, 2, epsilon * 0.999) > delta * 0.999
    assert epsilon < g.epsilon("a", delta)
    assert g.epsilon("b", delta, "discrete_gaussian") == 0


def test_discrete_gaussian_figure_of_a_composition_lies_between_peers() -> None:
    """Never below dp_accounting's optimistic estimate nor above its pessimistic one by more than the grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    scales = {3.0: 2, 5.0: 3}
    parts = [
        Guarantee.touch(["a", "b"], "a", Rho(1 / Fraction(s) ** 2), gaussian_scale=s)
        for s, count in scales.items()
        for _ in range(count)
    ]
    ours = Guarantee.compose(["a", "b"], parts).epsilon("a", 1e-6, "discrete_gaussian")

    def peer(pessimistic: bool) -> float:
        whole = None
        for scale, count in scales.items():
            one = pld.from_discrete_gaussian_mechanism(
                scale, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
            ).self_compose(2 * count)
            whole = one if whole is None else whole.compose(one)
        return whole.get_epsilon_for_delta(1e-6)

    assert peer(False) * 0.999 <= ours <= peer(True) * 1.01


def continuous_gaussian_delta(mu: float, epsilon: float) -> float:
    from scipy.stats import norm

    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("scale", "marginals"), [(4000.0, 1), (900.0, 40)])
def test_discrete_gaussian_figure_on_a_coarse_lattice_meets_the_continuous_one(scale: float, marginals: int) -> None:
    """At large scales the discrete and the continuous law agree, so the rounding up is all that separates them."""
    one = Guarantee.touch(["a"], "a", Rho(1 / Fraction(scale) ** 2), gaussian_scale=scale)
    epsilon = Guarantee.compose(["a"], [one] * marginals).epsilon("a", 1e-6, "discrete_gaussian")
    mu = math.sqrt(2 * marginals) / scale
    assert continuous_gaussian_delta(mu, epsilon) <= 1e-6
    assert continuous_gaussian_delta(mu, epsilon / 1.02) > 1e-6


def test_discrete_gaussian_figure_adds_pure_terms_and_refuses_the_rest() -> None:
    base = Guarantee.touch(["a", "b"], "a", Rho(1), gaussian_scale=1.0)
    with_pure = base + Guarantee.touch(["a", "b"], "a", Pure(0.5))
    alone = base.epsilon("a", 1e-4, "discrete_gaussian")
    assert with_pure.epsilon("a", 1e-4, "discrete_gaussian") == pytest.approx(alone + 0.5)
    with pytest.raises(GuaranteeError, match="tight"):
        (base + Guarantee.linear(["a", "b"], "a", CDP(1))).epsilon("a", 1e-4, "discrete_gaussian")


def exact_delta(draws: dict[float, int], epsilon: float) -> float:
    """δ of several groups of shifted cells, by full enumeration of the sums per scale."""
    laws = []
    for scale, cells in draws.items():
        reach = 12 if scale < 1.5 else 30
        points = np.arange(-reach, reach + 1)
        weights = np.exp(-(points**2) / (2 * scale**2))
        single, masses = weights / weights.sum(), np.ones(1)
        for _ in range(cells):
            masses = np.convolve(masses, single)
        sums = np.arange(len(masses)) - reach * cells
        laws.append(((cells + 2 * sums) / (2 * scale**2), masses))
    (one, p), (two, q) = laws
    loss = one[:, None] + two[None, :]
    return float(np.sum(p[:, None] * q[None, :] * np.clip(-np.expm1(np.minimum(epsilon - loss, 0)), 0, 1)))


@pytest.mark.parametrize(
    "scales", [(0.05, 0.06), (0.09, 0.1), (0.109, 0.11), (0.12, 0.13), (0.15, 0.16), (0.3, 0.4), (0.9, 2.0)]
)
def test_discrete_gaussian_figure_of_two_scales_is_never_below_the_truth(scales: tuple[float, float]) -> None:
    """Also where each law is nearly a single point, far from zero."""
    parts = [Guarantee.touch(["a"], "a", Rho(1 / Fraction(s) ** 2), gaussian_scale=s) for s in scales]
    g = Guarantee.compose(["a"], parts)
    epsilon = g.epsilon("a", 1e-4, "discrete_gaussian")
    assert exact_delta(dict.fromkeys(scales, 2), epsilon) <= 1e-4 * (1 + 1e-9)
    assert 0 < epsilon <= g.epsilon("a", 1e-4) * 1.01


def test_discrete_gaussian_figure_at_a_huge_scale_needs_little_memory() -> None:
    g = Guarantee.touch(["a"], "a", Rho(1 / Fraction(2.0**24) ** 2), gaussian_scale=2.0**24)
    assert 0 <= g.epsilon("a", 1e-9, "discrete_gaussian") <= g.epsilon("a", 1e-9)


@pytest.mark.parametrize(
    ("rho", "delta"), [(1e-30, 1e-20), (1e-18, 1e-20), (1e-12, 1e-9), (0.3, 0.999999), (1e6, 1e-300)]
)
def test_conversions_never_round_below_the_truth(rho: float, delta: float) -> None:
    from mpmath import mp, mpf

    with mp.workdps(60):
        r, inverse = mpf(rho), -mp.log(mpf(delta))
        shift = mp.findroot(
            lambda t: r * mp.exp(2 * t) + mp.log1p(mp.exp(t)) - inverse, float(mp.log(mp.sqrt(inverse / r)))
        )
        a = mp.exp(shift)
        tight = r * (1 + a) - mp.log1p(1 / a) + (inverse - mp.log1p(a)) / a
        paper = r + 2 * mp.sqrt(r * inverse)
        assert (
            mpf(epsilon_from_rho(rho, delta)) >= max(tight, 0) and mpf(epsilon_from_rho(rho, delta, "paper")) >= paper
        )
        assert epsilon_from_rho(rho, delta) <= float(max(tight, 0)) * (1 + 1e-9) + 1e-12


def test_bad_arguments() -> None:
    for delta in (0, 1, -1, float("nan"), 2):
        with pytest.raises(BudgetError):
            epsilon_from_rho(1.0, delta)
    with pytest.raises(BudgetError, match="conversion"):
        epsilon_from_rho(1.0, 1e-6, "loose")
