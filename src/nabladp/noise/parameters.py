"""What the samplers accept; anything else is refused with a sentence that says what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.checks import holds_more, is_share, members
from nabladp.errors import MechanismError

Real = int | float | Fraction
Size = int | tuple[int, ...]

SMALLEST_SCALE, LARGEST_SCALE = Fraction(1e-6), Fraction(1e15)
_WIDEST = Fraction(10**100)
MOST_AXES = 32
MOST_DRAWN = 1 << 28  # values of one draw: 2 GiB
MOST_TRIALS = 1 << 31  # coins of one draw: they are tossed, 64 at a time, which takes seconds


def exact_number(value: Any, what: str) -> Fraction:
    """A sampler's parameter as an exact number: a float means that very double."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, Fraction, np.integer, np.floating)):
        raise MechanismError(f"{what} must be a number, not {type(value).__name__}.", fix="Give a float or a Fraction.")
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        raise MechanismError(f"{what} must be finite.", fix="Give a plain finite number.")
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # NumPy's integers would wrap around
    return Fraction(int(value) if isinstance(value, (int, np.integer)) else float(value))


def noise_scale(value: Any) -> Fraction:
    scale = exact_number(value, "A noise scale")
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise MechanismError(
            "A noise scale must lie between 1e-6 and 1e15, so that noise fits into 64 bits.",
            fix="Choose a scale within that range.",
            smallest=float(SMALLEST_SCALE),
            largest=float(LARGEST_SCALE),
        )
    return scale


def selection_scale(value: Any) -> Fraction:
    scale = exact_number(value, "A selection scale")
    if not 1 / _WIDEST <= scale <= _WIDEST:
        raise MechanismError("A selection scale must lie between 1e-100 and 1e100.", fix="Rescale the scores.")
    return scale


def probability(value: Any, what: str) -> Fraction:
    p = exact_number(value, what)
    if not 0 <= p <= 1:
        raise MechanismError(f"{what} must lie between 0 and 1.", fix="Give a probability.")
    return p


def keep_probability(value: Any, size: int) -> Fraction:
    keep = probability(value, "The probability to keep a code")
    if keep * size < 1:
        raise MechanismError(
            "The probability to keep a code must be at least 1/size.",
            fix="Raise it: at 1/size the answer is independent of the true code.",
            size=size,
        )
    return keep


def whole_number(value: Any, what: str, lowest: int, highest: int | None = None) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise MechanismError(f"{what} must be a whole number, not {type(value).__name__}.", fix="Give an int.")
    if int(value) < lowest or (highest is not None and int(value) > highest):
        upper = "" if highest is None else f" and at most {highest}"
        raise MechanismError(f"{what} must be at least {lowest}{upper}.", fix="Give an int within these bounds.")
    return int(value)


def shape(size: Any) -> tuple[int, ...]:
    sizes = tuple(whole_number(s, "A size", 0, MOST_DRAWN) for s in (size if isinstance(size, tuple) else (size,)))
    if len(sizes) > MOST_AXES or math.prod(sizes) > MOST_DRAWN:
        raise MechanismError(
            f"At most {MOST_DRAWN:,} values are drawn at once, on at most {MOST_AXES} axes.",
            fix="Draw in several parts.",
        )
    return sizes


def trials(counts: Integers, what: str) -> Integers:
    """Checked numbers of coins. What is refused depends on their sum alone, which for the rows of a table is public."""
    if counts.size and float(counts.sum(dtype=np.float64)) > MOST_TRIALS:
        raise MechanismError(f"{what} are at most {MOST_TRIALS:,} together.", fix="Draw in several parts.")
    return counts


def refuse_long(values: Any, what: str) -> None:
    """Refuse ranges and lists that hold one list many times, which take no memory until they become an array."""
    if holds_more(values, MOST_DRAWN):
        raise MechanismError(f"{what} are at most {MOST_DRAWN:,} at once.", fix="Give them in several parts.")


def integer_array(values: ArrayLike, what: str) -> Integers:
    """A sampler's argument as int64; errors say nothing about the values, which may be data."""
    refuse_long(values, what)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise MechanismError(f"{what} must form an array of integers.", fix="Give a rectangular int64 array.") from None
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    too_wide = array.dtype == np.uint64 and array.size > 0 and int(array.max()) >= 1 << 63
    if array.dtype.kind not in "iu" or too_wide:
        raise MechanismError(f"{what} must be integers of at most 64 bits.", fix="Convert them to int64 first.")
    return np.ascontiguousarray(array, dtype=np.int64).reshape(array.shape)


def non_negative(array: Integers, what: str) -> Integers:
    if array.size and int(array.min()) < 0:
        raise MechanismError(f"{what} must not be negative.", fix="Give counts.")
    return array


def selection_weights(weights: Iterable[int] | NDArray[Any]) -> list[int] | Integers:
    """Checked selection weights: an int64 array where they came as one, otherwise Python integers of any length."""
    checked: list[int] | Integers
    if isinstance(weights, np.ndarray) and weights.dtype.kind in "iu" and weights.dtype != np.uint64:
        checked = integer_array(weights, "Weights")
        valid = checked.ndim == 1 and checked.size > 0 and int(checked.min()) >= 0 and bool(checked.any())
    else:
        checked = list(members(weights, "Weights", "Give a list of whole numbers.", error=MechanismError))
        whole = (isinstance(w, (int, np.integer)) and not isinstance(w, bool) for w in checked)
        valid = all(whole) and any(checked) and min(checked) >= 0
    if not valid:
        raise MechanismError(
            "Weights must be a list of whole numbers, none negative and not all zero.", fix="Scale them to integers."
        )
    return checked


def selection_scores(scores: ArrayLike) -> NDArray[Any]:
    """Checked selection scores: flat, of 32 or 64 bits, and so near to each other that differences fit into 64."""
    values = np.ascontiguousarray(scores)
    if values.ndim != 1 or not values.size or values.dtype not in (np.int32, np.int64):
        raise MechanismError("Scores must be a list of at least one integer.", fix="Score every candidate.")
    if int(values.max()) - int(values.min()) >= 1 << 63:
        raise MechanismError("Scores must lie within 2⁶³ of each other.", fix="Put them on a coarser grid.")
    return values


def confidence(level: float) -> float:
    """A checked confidence level, strictly between 0 and 1."""
    if not is_share(level):
        raise MechanismError("A confidence level must lie strictly between 0 and 1.", fix="Try level = 0.95.")
    return level
