"""The noise a cost buys: the smallest double that is large enough, never a hair less."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from nabladp.mechanisms.allocation import least_scale
from nabladp.privacy.units import UNIT

UNITS = [
    1 << 12,
    12345,
    10**9 + 7,
    UNIT // 10,
    UNIT // 3,
    UNIT - 1,
    UNIT,
    UNIT + 1,
    2 * UNIT,
    5 * UNIT + 3,
    10**5 * UNIT,
]


@pytest.mark.parametrize("units", UNITS)
def test_laplace_noise_costs_at_most_what_was_paid(units: int) -> None:
    """ε = 2/scale, as one row moves two cells."""
    scale = least_scale("laplace", units)
    assert Fraction(math.nextafter(scale, 0)) * units < 2 * UNIT <= Fraction(scale) * units


@pytest.mark.parametrize("units", UNITS)
def test_gaussian_noise_costs_at_most_what_was_paid(units: int) -> None:
    """ρ = 2/(2·scale²)."""
    scale = least_scale("gaussian", units)
    assert Fraction(math.nextafter(scale, 0)) ** 2 * units < UNIT <= Fraction(scale) ** 2 * units


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("moved", [1, Fraction(1, 3), 78, 2**40, Fraction(5, 2**40)], ids=str)
def test_any_squared_distance(units: int, moved: int | Fraction) -> None:
    """ρ = moved/(2·scale²), exactly, and a hair less noise would cost more."""
    scale = least_scale("gaussian", units, moved)

    def cost(s: float) -> Fraction:
        return Fraction(moved) * UNIT / (2 * Fraction(s) ** 2)

    assert cost(scale) <= units < cost(math.nextafter(scale, 0))
