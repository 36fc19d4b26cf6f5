"""Statements for people, and the counterexample that the mended proposition survives."""

from __future__ import annotations

import math

import pytest

from nabladp.errors import GuaranteeError
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.interpretation import mutual_information, posterior, several_rows, total_variation
from nabladp.privacy.values import Pure, Rho

PURE = Guarantee.touch("abc", [*"ab"], Pure(1))
MIXED = PURE + Guarantee.touch("abc", "c", Rho(0.1))


def test_even_odds_and_epsilon_one_give_seventy_three_percent() -> None:
    said = posterior(PURE, "a")
    assert said.value == pytest.approx(math.e / (1 + math.e))
    assert "73.1%" in said.sentence and said.assumes


def test_posterior_under_cdp_uses_the_papers_tail_bound() -> None:
    said = posterior(MIXED, "c", delta=1e-6)
    epsilon = MIXED.epsilon("c", 1e-6, "paper")
    assert epsilon > MIXED.epsilon("c", 1e-6, "tight")
    assert said.value == pytest.approx(1 / (1 + math.exp(-epsilon)))
    assert "except with probability 1e-06" in said.sentence
    assert posterior(MIXED, "c").value == 1.0  # no pure bound: nothing can be said


def test_total_variation_needs_a_pure_bound() -> None:
    small = Guarantee.touch("ab", "a", Pure(0.05))
    assert total_variation(small, "a").value == pytest.approx(math.expm1(0.1))
    assert total_variation(MIXED, "c").value == 1.0


def test_printed_proposition_fails_on_correlated_rows_and_ours_holds() -> None:
    """ERRATUM `prop:semantic`. All n rows hold the same bit; every count is released by ε-private randomized response.

    The printed statement compares with person i's row removed *in a world where the others are blanked by the product
    assumption*; with correlated rows the other rows reveal the bit, so the posterior moves by almost one half.
    """
    n, eps = 60, 0.05
    keep = 1 / (1 + math.exp(-eps))
    one, zero = (0.5 * keep**n, 0.5 * (1 - keep) ** n)  # every response reads 1
    after = one / (one + zero)
    printed_bound = math.expm1(2 * eps)
    assert after - 0.5 > printed_bound  # the release moved beliefs about s far more than the printed bound
    blank_one, blank_zero = (0.5 * keep ** (n - 1), 0.5 * (1 - keep) ** (n - 1))
    with_blank = blank_one / (blank_one + blank_zero)
    assert abs(after - with_blank) <= printed_bound  # compared with person i's attribute blanked, it holds


def test_mutual_information_adds_over_independent_groups() -> None:
    g = Guarantee.touch("abc", [*"ab"], Rho(0.5)) + Guarantee.touch("abc", "c", Rho(0.25))
    assert mutual_information(g, [[*"ab"], "c"]).value == pytest.approx(0.75)
    with pytest.raises(GuaranteeError, match="overlap"):
        mutual_information(g, [[*"ab"], [*"bc"]])


def test_several_rows() -> None:
    assert several_rows(PURE, "a", 4, 1e-6).value <= 4.0 * (1 + 1e-9)


def test_bad_prior() -> None:
    with pytest.raises(GuaranteeError):
        posterior(PURE, "a", prior=1.0)
