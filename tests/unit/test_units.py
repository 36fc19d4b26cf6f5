"""Exact units: every rounding goes the way its meaning asks, by the smallest possible amount."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from nabladp.privacy.units import UNIT, exact, half_square, root_double, to_float, units_down, units_up

AMOUNTS = [1, 2, 3, UNIT // 3, UNIT // 2, UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 7 * UNIT // 5, 10**6 * UNIT + 1]


@pytest.mark.parametrize("units", AMOUNTS)
def test_the_root_of_a_cost_is_the_least_that_covers_it(units: int) -> None:
    root = root_double(units)
    assert (root - 1) ** 2 < 2 * units * UNIT <= root**2


@pytest.mark.parametrize("units", AMOUNTS)
def test_half_the_square_is_the_least_that_covers_it(units: int) -> None:
    half = half_square(units)
    assert 2 * UNIT * (half - 1) < units**2 <= 2 * UNIT * half


@pytest.mark.parametrize("units", AMOUNTS)
def test_a_cost_as_a_double_is_the_nearest_one_not_below_it(units: int) -> None:
    value = to_float(units)
    assert Fraction(math.nextafter(value, 0)) < Fraction(units, UNIT) <= Fraction(value)


@pytest.mark.parametrize("number", [Fraction(1, 10), Fraction(1, 3), Fraction(5), Fraction(1, 2 * UNIT)])
def test_units_enclose_the_number(number: Fraction) -> None:
    assert units_down(number) <= number * UNIT <= units_up(number) < units_down(number) + 2


def test_a_double_is_what_was_written_or_the_larger_of_the_two() -> None:
    assert exact(0.1) == Fraction(1, 10) < exact(0.1, up=True) == Fraction(0.1)  # the double lies above a tenth
    assert exact(0.3) == exact(0.3, up=True) == Fraction(3, 10) > Fraction(0.3)  # the double lies below
