"""The same sums measured for several groupings: pooled by variance, and made consistent with each other.

Sums over finer groups estimate those over coarser ones. Where several tables tell the same sums, these are averaged,
weighted by variance, and every table is shifted to agree. Done from the coarsest sums in common to the finest, this is
the best linear unbiased estimate: what a set of keys I adds to the sums of coarser sets is estimated by each table T
that holds I, independently of all others, with a variance in proportion to σ_T² · cells(T).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nabladp.arrays import Floats

MOST_SHARED = 4096  # sets of keys that tables have in common; beyond, tables are left as they are


@dataclass(frozen=True, eq=False)
class Table:
    """Noisy sums for each group, and the variance of each of its columns; 0: exact."""

    keys: tuple[str, ...]
    values: Floats  # one axis for each key, and one for the columns
    variances: Floats

    @property
    def cells(self) -> int:
        return math.prod(self.values.shape[:-1])

    @cached_property
    def precision(self) -> Floats:
        """Of what it says about coarser sums, for each column."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.variances * self.cells))

    def sums(self, keys: Sequence[str]) -> Floats:
        """Over all keys but these, with the axes in their order."""
        axes = [self.keys.index(key) for key in keys]
        rest = tuple(axis for axis in range(len(self.keys)) if axis not in axes)
        left = sorted(axes)
        order = [left.index(axis) for axis in axes]
        return np.asarray(self.values.sum(axis=rest).transpose((*order, len(axes))))


class Pool:
    """Tables of the same sums by different keys."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tuple(tables)
        self.sizes: Mapping[str, int] = {
            key: size for own in tables for key, size in zip(own.keys, own.values.shape, strict=False)
        }

    @cached_property
    def consistent(self) -> tuple[Floats, ...]:
        """The tables, shifted so that all sums that they have in common agree."""
        values = [own.values.astype(np.float64) for own in self.tables]
        for shared in sorted(self._shared(), key=len):
            holding = [i for i, own in enumerate(self.tables) if shared <= set(own.keys)]
            if len(holding) < 2:
                continue
            keys = sorted(shared)
            told = [replace(self.tables[i], values=values[i]).sums(keys) for i in holding]
            best = _average(told, [self.tables[i].precision for i in holding])
            for i, own in zip(holding, told, strict=True):
                values[i] = values[i] + self._spread(best - own, keys, self.tables[i])
        return tuple(values)

    def _shared(self, keys: frozenset[str] | None = None) -> set[frozenset[str]]:
        """All intersections of the keys of tables, and of these keys; none where there are too many."""
        found: set[frozenset[str]] = set()
        for own in (*(frozenset(table.keys) for table in self.tables), *(() if keys is None else (keys,))):
            found |= {own} | {own & other for other in found}
            if len(found) > MOST_SHARED:
                return set()
        return found

    def _spread(self, difference: Floats, keys: Sequence[str], table: Table) -> Floats:
        """Evenly over all cells that make up each sum."""
        shape = [self.sizes[key] if key in keys else 1 for key in table.keys]
        order = [keys.index(key) for key in table.keys if key in keys]
        turned = difference.transpose((*order, len(keys))).reshape((*shape, difference.shape[-1]))
        return np.asarray(turned / math.prod(self.sizes[key] for key in table.keys if key not in keys))

    def estimate(self, keys: Sequence[str]) -> tuple[Floats, Floats]:
        """Sums for every combination of these keys, one row each, and the variance of every column."""
        holding = [i for i, own in enumerate(self.tables) if set(keys) <= set(own.keys)]
        position = min(holding, key=lambda i: self.tables[i].cells)  # they agree; the smallest is the fastest
        own = self.tables[position]
        values = replace(own, values=self.consistent[position]).sums(keys)
        return values.reshape(-1, values.shape[-1]), self._variances(frozenset(keys), own)

    def _variances(self, keys: frozenset[str], table: Table) -> Floats:
        """Over all sets of keys in common: the variance of the best estimate of the sums that such a set adds to those
        of smaller ones, times the number of these sums."""
        cells = math.prod(self.sizes[key] for key in keys)
        shared = sorted((own for own in self._shared(keys) if own <= keys), key=len)
        if not shared:
            return np.asarray(table.variances * (table.cells // cells))
        added: dict[frozenset[str], int] = {}
        total = np.zeros(len(table.variances))
        for own in shared:
            added[own] = math.prod(self.sizes[key] for key in own) - sum(
                count for less, count in added.items() if less < own
            )
            precisions = [other.precision for other in self.tables if own <= set(other.keys)]
            total += added[own] / np.sum(precisions, axis=0)
        return np.asarray(total / cells**2)


def _average(told: Sequence[Floats], precisions: Sequence[Floats]) -> Floats:
    """By variance; what is exact decides alone."""
    weights = np.array(precisions)
    exact = np.isinf(weights)
    weights = np.where(exact.any(axis=0), exact, np.where(exact, 0, weights))
    return np.asarray(sum(own * weight for own, weight in zip(told, weights / weights.sum(axis=0), strict=True)))
