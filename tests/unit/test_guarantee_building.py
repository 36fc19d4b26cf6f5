"""Building guarantees and asking them: each figure is the one that was put in, and bad questions are refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from nabladp.errors import BudgetError, GuaranteeError
from nabladp.privacy import Guarantee, Pure, Rho

NAMES = ("a", "b", "c")


def test_a_curve_is_charged_as_it_was_given() -> None:
    g = Guarantee.curve(NAMES, {"a": 1, "b": 2}, [0, 0.5, 0.75, 1])
    assert [g.rho([*chosen]) for chosen in ("c", "a", "b", "ab", "abc")] == [0, 0.5, 0.75, 1, 1]


def test_nothing_on_nothing_costs_nothing() -> None:
    assert Guarantee.touch(NAMES, [], Rho(1)) == Guarantee.linear(NAMES, {}) == Guarantee.none(NAMES)


@pytest.mark.parametrize("conversion", ["tight", "paper", "discrete_gaussian"])
@pytest.mark.parametrize("delta", [0, 1, 2.0, -1e-6, math.nan])
def test_no_conversion_takes_a_delta_that_means_nothing(conversion: str, delta: float) -> None:
    for g in (Guarantee.touch(NAMES, "a", Rho(1), gaussian_scale=1.0), Guarantee.none(NAMES).with_public("a")):
        with pytest.raises(BudgetError, match="delta"):
            g.epsilon("a", delta, conversion)


def test_many_rows_per_person() -> None:
    g = Guarantee.touch(NAMES, "a", Rho(1)) + Guarantee.touch(NAMES, "b", Pure(1))
    assert g.for_rows(1) is g
    assert g.for_rows(1000).rho("a") == 10**6 and g.for_rows(10**6).epsilon("b") == 10**6
    with pytest.raises(GuaranteeError):
        g.for_rows(10**6 + 1)


@pytest.mark.parametrize("rho", [0.1, 0.3, 1000.1, 1 / 3])
def test_curve_never_books_less_than_the_double_given(rho: float) -> None:
    units = Guarantee.curve(["a"], {"a": 1}, [0, rho]).rho_units("a")
    assert units is not None and Fraction(units, 2**60) >= Fraction(rho)
