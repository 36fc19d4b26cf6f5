"""The noise that a cost buys."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from nabladp.errors import BudgetError
from nabladp.privacy.units import UNIT


@lru_cache(maxsize=4096)
def least_scale(noise: str, units: int, moved: int | Fraction = 2) -> float:
    """The smallest double whose noise costs at most so many units of 2⁻⁶⁰ (ρ for Gaussian, ε for Laplace noise).

    ``moved`` is how far one row can move what gets the noise: squared and in L2 for Gaussian noise (ρ = moved/(2s²)),
    in L1 for Laplace noise (ε = moved/s). It is 2 for a table of counts, as one row leaves a cell and enters another.
    """
    if units < 1:
        raise BudgetError("The budget is too small: noise would have no bound.", fix="Raise it.")
    if noise == "gaussian":
        guess = math.sqrt(moved * UNIT / (2 * units))
        return _round_up(guess, lambda s: 2 * s * s * units >= moved * UNIT)
    return _round_up(float(moved * UNIT / Fraction(units)), lambda s: s * units >= moved * UNIT)


def _round_up(guess: float, enough: Callable[[Fraction], bool]) -> float:
    """The guess, moved up until the exact inequality holds: rounding never makes noise too small."""
    scale = guess
    while enough(Fraction(scale)):  # a guess is right to a few units in the last place
        scale = math.nextafter(scale, 0.0)
    while not enough(Fraction(scale)):
        scale = math.nextafter(scale, math.inf)
    return scale
