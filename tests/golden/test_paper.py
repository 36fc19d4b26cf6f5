"""Numbers that the paper states."""

from __future__ import annotations

import itertools
import math

import pytest

from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import CDP, Pure, Rho


@pytest.mark.parametrize(("d", "k"), [(6, 1), (6, 2), (8, 3), (10, 2), (12, 4)])
def test_k_way_marginals_cost_a_person_d_over_k_times_an_attribute(d: int, k: int) -> None:
    names = [f"a{i}" for i in range(d)]
    parts = [Guarantee.touch(names, s, Rho(0.25)) for s in itertools.combinations(names, k)]
    whole = Guarantee.compose(names, parts)
    ratio = whole.per_person().eps0 / whole.figure("a0").eps0
    assert ratio == pytest.approx(math.sqrt(d / k), rel=1e-12)
    for size in range(d + 1):
        expected = 0.25 * (math.comb(d, k) - math.comb(d - size, k))
        assert whole.rho(names[:size]) == pytest.approx(expected, rel=1e-15)


def test_conversion_to_standard_dp() -> None:
    """`prop:ppdp-conversion`: ε0-∇0CDP over d attributes is d²ε0²/2-zCDP, then (ε̃, δ̃) by the tail bound."""
    d, eps0 = 7, 0.3
    group = Guarantee.linear([f"a{i}" for i in range(d)], [f"a{i}" for i in range(d)], CDP(eps0))
    rho = group.per_person().rho
    assert rho == pytest.approx(d * d * eps0 * eps0 / 2)
    tilde = 5.0
    delta = math.exp(-((tilde - rho) ** 2) / (2 * d * d * eps0 * eps0))
    assert epsilon_from_rho(rho, delta, "paper") == pytest.approx(tilde)
    assert group.per_person().epsilon(delta, "paper") == pytest.approx(tilde)


def test_pure_group_privacy_is_d_times_epsilon() -> None:
    group = Guarantee.linear(["a", "b", "c", "d", "e"], list("abcde"), Pure(0.1))
    assert group.per_person().pure == pytest.approx(0.5)


def test_parallel_composition_over_disjoint_attributes() -> None:
    """Non-coordinating entities, each ε-DP on its own attributes: every attribute still pays ε once."""
    names = ["medical", "browsing", "employment"]
    together = Guarantee.compose(names, [Guarantee.touch(names, [n], Pure(1)) for n in names])
    assert all(figure.pure == 1 for figure in together.per_attribute().values())
    assert together.per_person().pure == 3


def test_mwem_round_for_any_set() -> None:
    """One MWEM round is linear + squares: ¼(m² + m)·ε0² over T rounds (the mended per-person figure)."""
    names = list("abcdefgh")
    rounds, eps0, limit = 5, 0.8, 3
    share = eps0 / math.sqrt(2 * rounds)
    one = Guarantee.linear(names, names, CDP(share), limit=limit) + Guarantee.squares(
        names, names, CDP(share), limit=limit
    )
    run = Guarantee.compose(names, [one] * rounds)
    for size in range(9):
        m = min(size, limit)
        assert run.rho(names[:size]) == pytest.approx((m * m + m) * eps0 * eps0 / 4, rel=1e-9)
