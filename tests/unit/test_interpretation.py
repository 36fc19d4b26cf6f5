"""Statements for people, and the counterexample that the mended proposition survives."""

from __future__ import annotations

import math

import pytest

from nabladp.errors import GuaranteeError
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.interpretation import mutual_information, posterior, several_rows, total_variation
from nabladp.privacy.values import Pure, Rho

PURE = Guarantee.touch(["a", "b", "c"], [*"ab"], Pure(1))
MIXED = PURE + Guarantee.touch(["a", "b", "c"], "c", Rho(0.1))


def test_even_odds_and_epsilon_one_give_seventy_three_percent() -> None:
    said = posterior(PURE, "a")
    assert said.value == pytest.approx(math.e / (1 + math.e))
    assert "73.2%" in said.sentence and said.assumes


def test_posterior_under_cdp_uses_the_papers_tail_bound() -> None:
    said = posterior(MIXED, "c", delta=1e-6)
    epsilon = MIXED.epsilon("c", 1e-6, "paper")
    assert epsilon > MIXED.epsilon("c", 1e-6, "tight")
    assert said.value == pytest.approx(1 / (1 + math.exp(-epsilon)))
    assert "except with probability 1e-06" in said.sentence
    assert posterior(MIXED, "c").value == 1.0  # no pure bound: nothing can be said


def test_total_variation_needs_a_pure_bound() -> None:
    small = Guarantee.touch(["a", "b"], "a", Pure(0.05))
    assert total_variation(small, "a").value == pytest.approx(math.expm1(0.1))
    assert total_variation(MIXED, "c").value == 1.0


def test_printed_proposition_fails_on_correlated_rows_and_ours_holds() -> None:
    """ERRATUM `prop:semantic`. All people share one bit s; person i's other attributes open or close the door to it.

    The answer is 1 with log-odds ε·clip(c, −h, h), where c sums ±½ over the people's bits and h counts person i's other
    attributes that are not blank. Any one attribute moves the log-odds by at most ε. Blanking the whole record of
    person i closes the door; blanking only s of person i moves c by one half.
    """
    eps, people, others = 0.05, 200, 100

    def answer(c: float, h: int) -> float:
        return 1 / (1 + math.exp(-eps * max(-h, min(h, c))))

    def belief(c: float, h: int) -> float:
        return answer(c, h) / (answer(c, h) + answer(-c, h))

    bound = math.expm1(2 * eps)
    moved = belief(people / 2, others) - belief(people / 2, 0)
    assert moved == pytest.approx(0.493, abs=5e-4) and bound == pytest.approx(0.105, abs=5e-4)
    assert moved > bound
    ours = total_variation(Guarantee.touch(["s"], "s", Pure(eps)), "s").value
    assert abs(belief(people / 2, others) - belief((people - 1) / 2, others)) <= ours == pytest.approx(bound)


def test_mutual_information_adds_over_independent_groups() -> None:
    g = Guarantee.touch(["a", "b", "c"], [*"ab"], Rho(0.5)) + Guarantee.touch(["a", "b", "c"], "c", Rho(0.25))
    assert mutual_information(g, [[*"ab"], "c"]).value == pytest.approx(0.75)
    with pytest.raises(GuaranteeError, match="overlap"):
        mutual_information(g, [[*"ab"], [*"bc"]])


def test_several_rows() -> None:
    assert several_rows(PURE, "a", 4, 1e-6).value <= 4.0 * (1 + 1e-9)


def test_bad_prior() -> None:
    with pytest.raises(GuaranteeError):
        posterior(PURE, "a", prior=1.0)


@pytest.mark.parametrize("bound", [0.04125, 1 / 3, 1.2345, 17.14266, 1e-7, 123456.7, 1.0])
def test_bounds_are_never_shown_smaller_than_they_are(bound: float) -> None:
    from nabladp.privacy.interpretation import _up

    assert bound <= float(_up(bound)) <= bound * 1.01


def test_bounds_that_are_zero_or_missing() -> None:
    from nabladp.privacy.interpretation import _up

    assert (_up(0.0), _up(math.inf)) == ("0", "inf")
