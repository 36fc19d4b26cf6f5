"""Statements for people at their edges: never smaller than the bound, never from a belief that makes no sense."""

from __future__ import annotations

import math

import pytest

from nabladp.errors import GuaranteeError, NablaDPError
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.interpretation import mutual_information, posterior, several_rows, total_variation

G = Guarantee.touch(["a", "b"], "a", Pure(1))


@pytest.mark.parametrize("prior", [0, 1, -0.5, 1.5, math.nan])
def test_a_belief_lies_between_nothing_and_certainty(prior: float) -> None:
    with pytest.raises(GuaranteeError, match="prior"):
        posterior(G, "a", prior)


@pytest.mark.parametrize("prior", [0.001, 0.2, 0.9])
@pytest.mark.parametrize("epsilon", [0.01, 1, 20])
def test_odds_move_by_e_to_the_epsilon(prior: float, epsilon: float) -> None:
    said = posterior(Guarantee.touch(["a"], "a", Pure(epsilon)), "a", prior)
    assert said.value / (1 - said.value) == pytest.approx(prior / (1 - prior) * math.exp(epsilon), rel=1e-6)
    shown = float(said.sentence.split("at most ")[1].split("%")[0]) / 100
    assert said.value <= shown * (1 + 1e-12) <= said.value + 0.001 + 1e-12


@pytest.mark.parametrize(("epsilon", "value"), [(0.3, math.expm1(0.6)), (0.4, 1.0), (1.0, 1.0), (500.0, 1.0)])
def test_total_variation_is_at_most_one(epsilon: float, value: float) -> None:
    assert total_variation(Guarantee.touch(["a"], "a", Pure(epsilon)), "a").value == pytest.approx(value)


def test_groups_that_share_a_source_overlap_and_gaps_do_not_matter() -> None:
    g = Guarantee.touch(["a", "b", "c"], "a", Rho(0.5)) + Guarantee.touch(["a", "b", "c"], "b", Rho(0.25))
    assert mutual_information(g, ["b"]).value == 0.25
    with pytest.raises(GuaranteeError, match="overlap"):
        mutual_information(g, ["a", [*"ab"]])


def test_several_rows_are_group_privacy_at_a_delta() -> None:
    g = Guarantee.touch(["a"], "a", Rho(0.1))
    assert several_rows(g, "a", 3, 1e-6).value == g.for_rows(3).epsilon("a", 1e-6) > g.epsilon("a", 1e-6)
    for delta in (None, 0, 1):
        with pytest.raises(NablaDPError):
            several_rows(g, "a", 3, delta)  # type: ignore[arg-type]
