"""What a small change of a value costs: for a column that is summed, or counted by value, in no other disguise.

PROOF.md, step 11. A change by at most δ moves a number by few steps of its grid, or by few bins; a part then
costs less than ``Part.change``. Costs are listed for round distances: between two of them the larger holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

import numpy as np

from nabladp.arrays import Integers
from nabladp.mechanisms.statistics.blocks import Block, Part
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.schema import Attribute
from nabladp.sql.domains import value_range
from nabladp.sql.expressions import Column
from nabladp.tables.encode import GRID_STEPS

_ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
_DECADES = 5
_GRID_ROUNDING = 13  # steps of a real attribute's grid by which rounding may part two numbers further


def numeric_value(block: Block) -> Attribute | None:
    """The attribute whose numbers are the block's values as they are; None for expressions and for texts.

    Where numbers outside the domain become a category, a small change may leave the domain: that is no small change.
    """
    if not isinstance(block.value, Column) or block.by_person:
        return None
    attribute = block.value.attribute
    numeric = attribute.kind in ("integer", "real") and attribute.unknown != "other"
    return attribute if numeric and not attribute.derived_from else None


def distances(attribute: Attribute) -> list[Fraction]:
    """Round numbers below the width of the attribute's range, some decades of them; but not so far that a number and
    one that stands for a missing value are within."""
    low, high = _range(attribute)
    width = Fraction(high) - Fraction(low)
    top = math.floor(math.log10(width)) if width > 0 else 0
    tens = [Fraction(10) ** power for power in range(top - _DECADES, top + 1)]
    rounded = [Fraction(str(digit)) * ten for ten in tens for digit in _ROUND]
    whole = attribute.kind == "integer"
    width = min([width, *_to_markers(attribute)])
    return [far for far in rounded if far < width and (not whole or far.denominator == 1)]


def _to_markers(attribute: Attribute) -> Iterator[Fraction]:
    """The distance from the attribute's numbers to each one that stands for a missing value, such as 999."""
    low, high = map(Fraction, _range(attribute))
    for marker in attribute.null_values:
        with suppress(ValueError, OverflowError):  # "?" and "nan" are no numbers
            number = Fraction(float(marker))
            inside = low <= number <= high or attribute.unknown == "clamp"  # clamping takes numbers from anywhere
            yield Fraction(0) if inside else min(abs(number - low), abs(number - high))


def _range(attribute: Attribute) -> tuple[float, float]:
    if attribute.low is not None and attribute.high is not None:
        return attribute.low, attribute.high
    return value_range(attribute)


def change_on_grid(attribute: Attribute, part: Part, grid: Grid, far: Fraction, pure: bool) -> Fraction:
    """What a change of the value by at most ``far`` costs in a part that adds steps up, over the part's cost."""
    steps = _steps_within(attribute, grid, far)
    if part.kind == "total":
        power = 1 if pure else 2
        most = max(2 * int(grid.reach) ** power, int(grid.high - grid.low) ** power, 1)
        return min(part.change, Fraction(steps**power, most))
    moved = min(Fraction(2), Fraction(steps, max(1, grid.reach)))  # t = d/K
    if part.kind == "squares":
        return moved - moved**2 / 4 if pure else moved**2 * (9 - 8 * moved + 2 * moved**2) / 4
    return moved / 2 if pure else moved**2 / 4


def change_of_bins(attribute: Attribute, part: Part, bins: Bins, far: Fraction, pure: bool) -> Fraction:
    """The same where values are counted by bins: the largest difference of two columns of the matrix whose bins hold
    numbers at most ``far`` apart."""
    if pure:
        return part.change  # sums over blocks of bins: two neighbours may differ on every level
    chosen = strategy(bins.count, pure)
    beyond = Fraction(0) if attribute.kind == "integer" else _rounding(attribute)
    last = _last_bin_within(bins, float(far + beyond))
    largest = _widest(bins.count)[np.arange(bins.count), last].max()
    return min(part.change, Fraction(int(largest), max(chosen.change, 2 * chosen.member)))


def _steps_within(attribute: Attribute, grid: Grid, far: Fraction) -> int:
    """Steps of the grid between two numbers that differ by at most ``far``."""
    step = Fraction(grid.step)
    if attribute.kind == "integer":
        return math.floor(far) * round(1 / step)
    return math.ceil((far + _rounding(attribute)) / step) + 1


def _rounding(attribute: Attribute) -> Fraction:
    """By how much two numbers of a real attribute may be further apart once they went over its grid."""
    low, high = value_range(attribute)
    step = (Fraction(high) - Fraction(low)) / GRID_STEPS
    return _GRID_ROUNDING * step + 8 * Fraction(math.ulp(max(abs(low), abs(high))))


def _last_bin_within(bins: Bins, far: float) -> Integers:
    """For each bin the last one that holds a number at most ``far`` above one of its own."""
    ends = bins.edges if bins.values is not None else bins.edges[1:]
    reached = np.nextafter(np.nextafter(ends + far, np.inf), np.inf)
    return bins.index(reached)


@lru_cache(maxsize=8)
def _widest(bins: int) -> Integers:
    """At (i, j), j ≥ i: the largest squared difference of column i and one of the columns i … j."""
    matrix = strategy(bins, False).matrix
    gram = (matrix.astype(np.float64).T @ matrix).astype(np.int64)  # below 2^53, hence exact
    norms = np.diag(gram)
    apart = np.triu(norms[:, None] + norms[None, :] - 2 * gram)
    return np.asarray(np.maximum.accumulate(apart, axis=1))
