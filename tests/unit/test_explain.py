"""What `nabladp cost --set … --worst …` says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from nabladp.errors import GuaranteeError, UnknownAttribute
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.privacy.units import format_rounded
from nabladp.release.cost import Cost, costliest, explain

NAMES = ("age", "sex", "income")
GAUSSIAN = Guarantee.touch(NAMES, ["age", "income"], Rho(1 / Fraction(8) ** 2), gaussian_scale=8.0)


def test_figures_come_in_order_of_tightness() -> None:
    told = explain(GAUSSIAN, ["age"], 1e-6)
    assert told["epsilon_exact"] < told["epsilon"] < told["epsilon_paper"] and told["pure_epsilon"] is None
    assert "except with probability" in told["statements"][0]["sentence"]


def test_pure_guarantees_allow_statements_without_exception() -> None:
    told = explain(Guarantee.touch(NAMES, "age", Pure(0.5)), ["age"], 1e-6)
    assert all("except" not in s["sentence"] for s in told["statements"]) and len(told["statements"]) == 3


def test_no_exact_figure_for_other_noise() -> None:
    assert explain(Guarantee.linear(NAMES, "age", CDP(1)), ["age"], 1e-6)["epsilon_exact"] is None


def test_sets_are_named_with_a_plus_and_misspellings_are_met() -> None:
    cost = Cost(GAUSSIAN, ())
    (told,) = cost.explain_sets(["age+income"])["sets"]
    assert told["attributes"] == ["age", "income"] and told["group_privacy"]["rho"] > told["rho"]
    with pytest.raises(UnknownAttribute, match="Did you mean 'income'"):
        cost.explain_sets(["age+incom"])
    assert cost.explain_sets([], worst=2)["worst"] == costliest(GAUSSIAN, 2)
    with pytest.raises(GuaranteeError):
        cost.explain_sets([], worst=9)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.005, "0.005", "0.005"),
        (1.00004, "1.001", "1"),
        (0.123449, "0.1235", "0.1234"),
        (12345.6, "12350", "12340"),
        (0.0, "0", "0"),
    ],
)
def test_numbers_for_people_round_the_safe_way(value: float, up: str, down: str) -> None:
    assert (format_rounded(value, 4, up=True), format_rounded(value, 4, up=False)) == (up, down)


def test_where_everything_is_public_the_person_has_no_bound() -> None:
    from nabladp.release.cost import figures

    assert figures(GAUSSIAN.with_public(NAMES), {}, 1e-6)["person"]["rho"] is None
