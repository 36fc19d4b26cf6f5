"""Columns of numbers beside those of ±1: whole steps from the middle of a declared range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.schema import Attribute
from nabladp.tables.encode import GRID_STEPS, grid_column

NUMBER = "number"  # the encoding
REACH = 1 << 15  # steps from the middle of a real range to its ends
_WIDEST = 1 << 16  # values of an integer


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """One column, of the attribute's number as u whole steps from the middle of its range, −``reach`` to ``reach``.

    An integer is exact; a real is rounded to the nearest step, row by row. A missing or other value is the middle.
    """

    declared: Attribute

    encoding = NUMBER
    flips = 1

    @property
    def attribute(self) -> str:
        return self.declared.name

    @property
    def names(self) -> tuple[str, ...]:
        return (self.declared.name,)

    @property
    def is_whole(self) -> bool:
        return self.declared.kind == "integer"

    @property
    def column(self) -> str:
        """The column that a kernel reads: codes of an integer, steps on the fine grid of a real."""
        return self.attribute if self.is_whole else grid_column(self.attribute)

    @property
    def reach(self) -> int:
        return self.declared.ordered_size - 1 if self.is_whole else REACH

    @cached_property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest number of the declared range."""
        lows, highs = self.declared.bin_bounds or (np.zeros(1), np.zeros(1))
        return float(lows[0]), float(highs[-1])

    @property
    def middle(self) -> float:
        return (self.range[0] + self.range[1]) / 2

    @property
    def half(self) -> float:
        """The number that the column's 1 stands for, above the middle."""
        return (self.range[1] - self.range[0]) / 2

    def steps(self, codes: NDArray[Any]) -> Integers:
        """Whole steps from the middle for what a kernel reads of this column."""
        given = codes.astype(np.int64)
        if self.is_whole:  # [grid]
            return np.where(given <= self.reach, 2 * given - self.reach, 0)
        return np.where(given <= GRID_STEPS, (given * 2 * REACH + GRID_STEPS // 2) // GRID_STEPS - REACH, 0)


def number_block(attribute: Attribute) -> NumberBlock:
    """The column of an attribute's number; refused where it has none."""
    if attribute.kind not in ("integer", "real"):
        raise MechanismError(
            f"{attribute.name!r} is {attribute.kind}, not a number.",
            fix="Leave out its encoding, or declare it integer or real.",
            attribute=attribute.name,
        )
    if attribute.kind == "integer" and not 2 <= attribute.ordered_size <= _WIDEST:
        raise MechanismError(
            f"{attribute.name!r} has {attribute.ordered_size:,} values; as a number it takes 2 to {_WIDEST:,}.",
            fix="Declare it real, with low and high.",
            attribute=attribute.name,
        )
    return NumberBlock(attribute)
