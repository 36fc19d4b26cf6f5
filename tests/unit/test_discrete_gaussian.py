"""The privacy-loss distribution: every step moves mass up or keeps it, and the figure is never below the truth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from nabladp.privacy import Guarantee, Pure, Rho, conversion
from nabladp.privacy.conversion import Lattice, _noise, _trim


def above(law: Lattice, threshold: float) -> float:
    """The probability of more than this."""
    return math.fsum(law.masses[law.points > threshold]) + law.escaped


def dominates(upper: Lattice, lower: Lattice) -> bool:
    ends = {*upper.points.tolist(), *lower.points.tolist(), float(lower.points[0]) - 1}
    return all(above(upper, t) >= above(lower, t) * (1 - 1e-12) for t in ends)


def law(size: int, start: int, step: int = 1, escaped: float = 0.0) -> Lattice:
    masses = np.random.default_rng(100 * size + abs(start)).random(size)
    return Lattice(step, start, masses / masses.sum() * (1 - escaped), escaped)


@pytest.mark.parametrize("start", [-7, -6, 0, 1, 4])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_a_coarser_lattice_moves_mass_up_by_at_most_a_step(start: int, size: int) -> None:
    fine = law(size, start, 3, 0.01)
    coarse = fine.coarser()
    assert coarse.step == 6 and dominates(coarse, fine)
    assert float(coarse.masses @ coarse.points) <= float(fine.masses @ fine.points) + 3
    assert math.fsum(coarse.masses) + coarse.escaped == pytest.approx(1)


@pytest.mark.parametrize("tail", [1e-18, 0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("size", [1, 2, 6, 20])
def test_cut_tails_escape_upward_and_nothing_is_lost(size: int, tail: float) -> None:
    whole = law(size, -4)
    start, kept, lost = _trim(whole.start, whole.masses, tail)
    assert lost <= tail and math.fsum(kept) + lost == pytest.approx(1, abs=1e-12)
    assert dominates(Lattice(1, start, kept, lost), whole)


def test_a_narrow_lattice_dominates_a_wide_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_POINTS", 16)
    wide = law(100, -37, 1, 1e-3)
    narrow = wide.narrow()
    assert len(narrow.masses) <= 16 and dominates(narrow, wide)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_a_power_is_that_many_sums(count: int) -> None:
    one = law(4, -2, 2, 1e-6)
    plain = np.ones(1)
    for _ in range(count):
        plain = np.convolve(plain, one.masses)
    power = one.power(count)
    assert (power.step, power.start) == (2, -2 * count)
    assert power.masses == pytest.approx(plain) and power.escaped == pytest.approx(count * 1e-6, rel=1e-5)


def test_sums_of_unequal_steps_round_up_whichever_comes_first() -> None:
    fine, coarse = law(5, -3), law(3, -1, 4)
    full = np.zeros(64)
    for p, x in zip(fine.masses, fine.points, strict=True):
        for q, y in zip(coarse.masses, coarse.points, strict=True):
            full[int(x + y) + 32] += p * q
    for total in (fine.plus(coarse), coarse.plus(fine)):
        assert total.step == 4 and dominates(total, Lattice(1, -32, full))


@pytest.mark.parametrize("scale", [0.3, 1.0, 50.0, 5000.0, 2.0**15])
def test_the_noise_is_never_below_its_law(scale: float) -> None:
    """On a coarse lattice masses may exceed the law's; the tail above every point is never less than the truth."""
    found, reach = _noise(scale), math.ceil(12 * scale)
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(points**2) / (2 * scale * scale))
    tails = np.cumsum((weights / weights.sum())[::-1])[::-1]  # P(X ≥ point)
    ours = np.cumsum(found.masses[::-1])[::-1]
    for i in range(1, len(found.masses), max(1, len(found.masses) // 200)):
        at = int(found.points[i - 1]) + 1  # everything above the point before
        if abs(at) <= 6 * scale:
            assert ours[i] >= tails[at + reach] * (1 - 1e-9)


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_the_figure_of_one_marginal_is_never_below_the_truth(scale: float, delta: float) -> None:
    """Two cells move by one each; without any tolerance for rounding."""
    g = Guarantee.touch(["a"], "a", Rho(1 / Fraction(scale) ** 2), gaussian_scale=scale)
    epsilon = g.epsilon("a", delta, "discrete_gaussian")
    points = np.arange(-40, 41)
    weights = np.exp(-(points**2) / (2 * scale**2))
    pairs = np.outer(weights, weights) / weights.sum() ** 2
    losses = (2 + 2 * (points[:, None] + points[None, :])) / (2 * scale**2)
    over = losses > epsilon
    assert math.fsum((pairs[over] * -np.expm1(epsilon - losses[over])).tolist()) <= delta


def test_where_delta_covers_everything_only_the_pure_part_is_left() -> None:
    g = Guarantee.touch(["a"], "a", Rho(1 / Fraction(4000) ** 2), gaussian_scale=4000.0)
    assert g.epsilon("a", 0.1, "discrete_gaussian") == 0
    both = g + Guarantee.touch(["a"], "a", Pure(0.5))
    assert 0.5 <= both.epsilon("a", 0.1, "discrete_gaussian") <= 0.5 * (1 + 1e-9)


def test_a_delta_below_what_escaped_has_no_figure() -> None:
    g = Guarantee.touch(["a"], "a", Rho(1), gaussian_scale=1.0)
    assert math.isinf(g.epsilon("a", 1e-25, "discrete_gaussian"))
