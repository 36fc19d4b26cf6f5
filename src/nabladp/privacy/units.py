"""Exact costs: integers in units of 2⁻⁶⁰, so that sums never drift and every rounding has a known direction.

A *cost* is rounded up when it becomes units, a *limit* or a *request* down; ten requests of a tenth therefore always
fit into a limit of one.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from numbers import Rational

from nabladp.errors import BudgetError

UNIT = 1 << 60
_DOUBLE = Decimal("1e-12")
_LONGEST = 1000  # digits before or after the point: a Decimal may claim to have billions
Number = int | float | Fraction | Decimal


def exact(number: Number, what: str = "a number", *, up: bool = False) -> Fraction:
    """A cost as the exact number that a person wrote: 0.1 is one tenth, not the nearest double.

    A cost that was computed as a double may lie above its shortest decimal; ``up`` takes the larger of the two.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float, Rational, Decimal)):
        given = "text" if isinstance(number, str) else type(number).__name__
        fix = "Write the number without quotes." if isinstance(number, str) else "Give a number, such as 0.2."
        raise BudgetError(f"{what} must be a number, not {given}.", fix=fix)
    if (isinstance(number, float) and not math.isfinite(number)) or (
        isinstance(number, Decimal) and not number.is_finite()
    ):
        raise BudgetError(f"{what} must be finite.", fix="Give a finite number, such as 0.2.")
    if isinstance(number, Decimal) and not -_LONGEST <= number.adjusted() <= _LONGEST:
        raise BudgetError(f"{what} is too small or too large to be exact.", fix="Give a number, such as 0.2.")
    if isinstance(number, Rational):  # NumPy's integers stay of 64 bits inside a fraction, and products wrap around
        return Fraction(int(number.numerator), int(number.denominator))
    if not isinstance(number, float):
        return Fraction(number)
    written = Fraction(str(float(number)))
    return max(written, Fraction(number)) if up else written


def units_up(number: Fraction) -> int:
    return -((-number.numerator * UNIT) // number.denominator)


def units_down(number: Fraction) -> int:
    return (number.numerator * UNIT) // number.denominator


def half_square(eps_units: int) -> int:
    """The ρ-units of a pure or concentrated ε: ε²/2, rounded up."""
    return -((-eps_units * eps_units) // (2 * UNIT))


def root_double(rho_units: int) -> int:
    """The ε-units of a ρ: √(2ρ), rounded up (the paper's eps0 of a concentrated guarantee)."""
    square = 2 * rho_units * UNIT
    root = math.isqrt(square)
    return root if root * root == square else root + 1


def to_float(units: int) -> float:
    """Units as a double that is never below the true value."""
    try:
        value = units / UNIT
    except OverflowError:
        return math.inf
    return math.nextafter(value, math.inf) if int(value * UNIT) < units else value  # scaling by 2⁶⁰ is exact


def format_rounded(value: float, digits: int, *, up: bool) -> str:
    """Units for people, with so many digits. A cost or bound is never shown smaller than it is, what is left never
    larger.

    (A double's own rounding, a part in 10¹², is let pass: 0.005 stays 0.005.)
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(value))
    nudged = Decimal(value) * (1 - _DOUBLE if up else 1 + _DOUBLE)
    return f"{float(nudged.quantize(Decimal(1).scaleb(-decimals), ROUND_CEILING if up else ROUND_FLOOR)):g}"
