"""How far the answers to some queries can move, in squared L2, when one row changes on a set T of attributes only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

MOST_COMPARED = 1 << 10  # cells of a set whose pairs are all compared


@dataclass(frozen=True)
class Shift:
    """The queries on one set of attributes, each attribute with a squared distance.

    ``touch``: the largest squared distance among T's attributes (all of T moves at most this far).
    ``linear``: distances add up over T's attributes (the triangle inequality), then are squared.
    """

    shape: str
    amounts: tuple[tuple[str, Fraction], ...]  # attributes that move nothing are left out

    def squared_distance(self, attributes: Iterable[str]) -> float:
        chosen = frozenset(attributes)
        amounts = [amount for name, amount in self.amounts if name in chosen]
        if not amounts:
            return 0.0
        if self.shape == "touch":
            return float(max(amounts))
        return math.fsum(math.sqrt(amount) for amount in amounts) ** 2

    @property
    def most(self) -> Fraction:
        """The largest squared sensitivity to a single attribute."""
        return max((amount for _, amount in self.amounts), default=Fraction(0))


@dataclass(frozen=True)
class Curve:
    """All queries of a workload that treats its attributes alike: ``table[t]`` for any t of ``attributes``."""

    attributes: tuple[str, ...]
    table: tuple[Fraction, ...]

    def squared_distance(self, attributes: Iterable[str]) -> float:
        return float(self.table[len(frozenset(attributes).intersection(self.attributes))])

    def __add__(self, other: Curve) -> Curve:
        """Both workloads together, over the same attributes: no row moves them further than this."""
        return Curve(self.attributes, tuple(a + b for a, b in zip(self.table, other.table, strict=True)))


def touch(attributes: Sequence[str], squared: Mapping[str, Fraction]) -> Shift:
    """The sensitivity of queries on one set that all move as soon as one attribute changes; ``squared`` leaves out
    attributes that move nothing."""
    return Shift("touch", tuple((name, squared[name]) for name in attributes if name in squared))


def coverage(attributes: Sequence[str], k: int, squared: int, fixed: int = 0) -> Curve:
    """The sensitivity of all k-sets of the attributes, where each moves by the same amount as soon as one attribute in
    it changes.

    ``fixed`` more attributes belong to the k-sets but never change, as they have one value only.
    """
    free = len(attributes)
    touched = [math.comb(free + fixed, k) - math.comb(free + fixed - t, k) for t in range(free + 1)]
    return Curve(tuple(attributes), tuple(Fraction(squared * count) for count in touched))


def flips(attributes: Sequence[str], k: int, fixed: int = 0) -> Curve:
    """The sensitivity of all parities of k attributes: those flip that hold an odd number of the attributes that do.

    Within T any number f ≤ t of attributes may flip, so the largest count over f is exact.
    """
    free = len(attributes)
    odd = [
        sum(math.comb(f, i) * math.comb(free + fixed - f, k - i) for i in range(1, k + 1, 2)) for f in range(free + 1)
    ]
    return Curve(tuple(attributes), tuple(Fraction(most) for most in itertools.accumulate(odd, max)))


def shift_of_values(attributes: Sequence[str], sizes: Sequence[int], values: NDArray[np.int64], grid: int) -> Shift:
    """The sensitivity of queries given by their values: every pair of cells is compared, unless there are very many.

    Two bounds hold: the whole set's distance for each attribute that matters, or the single attributes' distances,
    added up. The second is taken where the costliest attribute saves no less than all together lose, as for averages,
    where it is exact. Where there are too many cells to compare, the first, with a distance that is at least as large.
    """
    cells = values.shape[1]
    if cells > MOST_COMPARED:
        spans = [int(span) for span in values.max(axis=1) - values.min(axis=1)]
        joint_change = sum(span * span for span in spans)
        free = [name for name, size in zip(attributes, sizes, strict=True) if size > 1 and joint_change]
        return Shift("touch", tuple((name, Fraction(joint_change, grid * grid)) for name in free))
    shaped = values.reshape(len(values), *sizes)
    single = [_largest_change(np.moveaxis(shaped, axis + 1, -1)) for axis in range(len(sizes))]
    joint_change = _largest_change(values)
    amounts = [(name, change) for name, change in zip(attributes, single, strict=True) if change]
    added_up = math.fsum(math.sqrt(change) for _, change in amounts) ** 2
    costliest = max(single)
    if costliest < joint_change and costliest * added_up <= joint_change * joint_change * (1 + 1e-9):
        return Shift("linear", tuple((name, Fraction(change, grid * grid)) for name, change in amounts))
    return Shift("touch", tuple((name, Fraction(joint_change, grid * grid)) for name, _ in amounts))


def _largest_change(values: NDArray[np.int64]) -> int:
    """The largest squared distance between two positions of the last axis, all middle axes held fixed."""
    vectors = np.moveaxis(values, 0, -2).reshape(-1, values.shape[0], values.shape[-1])
    worst = 0
    for table in vectors:
        for column in range(1, table.shape[1]):
            apart = table[:, :column] - table[:, column : column + 1]
            worst = max(worst, int((apart * apart).sum(axis=0).max()))
    return worst
