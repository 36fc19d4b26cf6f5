"""The same sums measured for several groupings: pooled by variance, and made consistent with each other.

Sums over finer groups estimate those over coarser ones. Where several tables tell the same sums, these are averaged,
weighted by variance, and every table is shifted to agree. Done from the coarsest sums in common to the finest, this is
the best linear unbiased estimate: what a set of keys I adds to the sums of coarser sets is estimated by each table T
that holds I, independently of all others, with a variance in proportion to σ_T² · cells(T). The proof is in
noisy_marginals/PROOF.md.

A set of keys is a number with a bit for each key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats

MOST_SHARED = 4096  # sets of keys that tables of many keys have in common; beyond, tables are left as they are
MOST_SUMS = 1 << 19  # coarser sums of all tables; beyond, likewise
_MOST_SUBSETS = 1 << 21  # of the keys of all tables, to be listed one by one


@dataclass(frozen=True, eq=False)
class Table:
    """Noisy sums for each group, and the variance of each of its columns; 0: exact."""

    keys: tuple[str, ...]
    values: NDArray[np.float64] | NDArray[np.int64]  # one axis for each key, and one for the columns
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
        return _sums(self.values, self.keys, keys)


class Pool:
    """Tables of the same sums by different keys."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tuple(tables)
        self.sizes: Mapping[str, int] = {
            key: size for own in tables for key, size in zip(own.keys, own.values.shape, strict=False)
        }
        self._bits = {key: 1 << position for position, key in enumerate(self.sizes)}
        self._sets = [self._set(own.keys) for own in tables]

    # ---- which sums tables have in common ----------------------------------------------------------------------------

    @cached_property
    def _holders(self) -> dict[int, list[int]]:
        """Every set of keys that is the intersection of some tables' keys, the smallest first, and the tables that hold
        it; none where there are too many."""
        if sum(1 << own.bit_count() for own in self._sets) <= _MOST_SUBSETS:
            holding: dict[int, list[int]] = {}
            for position, own in enumerate(self._sets):
                for part in _subsets(own):
                    holding.setdefault(part, []).append(position)
            found = {part for part, those in holding.items() if reduce(and_, (self._sets[i] for i in those)) == part}
        else:
            found, holding = self._intersections(), {}
            for part in found:
                holding[part] = [i for i, own in enumerate(self._sets) if own & part == part]
        if sum(len(holding[part]) for part in found) > MOST_SUMS:
            return {}
        return {part: holding[part] for part in sorted(found, key=lambda own: (own.bit_count(), own))}

    def _intersections(self) -> set[int]:
        found: set[int] = set()
        for own in dict.fromkeys(self._sets):
            found |= {own} | {own & other for other in found}
            if len(found) > MOST_SHARED:
                return set()
        return found

    # ---- best estimates ----------------------------------------------------------------------------------------------

    @cached_property
    def _shifts(self) -> list[dict[int, Floats]]:
        """For each table, by how much its sums over each set in common are to move once those over smaller sets
        agree."""
        shifts: list[dict[int, Floats]] = [{} for _ in self.tables]
        for shared, holding in self._holders.items():
            if len(holding) < 2:
                continue
            keys = self._keys(shared)
            told = [self._shifted(i, keys, shifts[i]) for i in holding]
            best = _average(told, [self.tables[i].precision for i in holding])
            for i, own in zip(holding, told, strict=True):
                shifts[i][shared] = best - own
        return shifts

    def _shifted(self, position: int, keys: Sequence[str], shifts: Mapping[int, Floats]) -> Floats:
        """The sums of one table over these of its keys, moved by these shifts."""
        values = self.tables[position].sums(keys).astype(np.float64)
        wanted = self._set(keys)
        for shared, shift in shifts.items():
            if shared & ~wanted and wanted in self._holders:
                continue  # what the smaller set adds has moved already, and what the larger one adds sums to zero
            common = [key for key in keys if self._bits[key] & shared]
            part = _sums(shift, self._keys(shared), common)
            shape = [self.sizes[key] if self._bits[key] & shared else 1 for key in keys]
            values += part.reshape((*shape, part.shape[-1])) / self._cells(wanted & ~shared)
        return values

    @property
    def consistent(self) -> Iterator[Floats]:
        """The tables, shifted so that all sums that they have in common agree."""
        return (self.shifted(position) for position in range(len(self.tables)))

    def shifted(self, position: int) -> Floats:
        """One table, consistent with all others."""
        return self._shifted(position, self.tables[position].keys, self._shifts[position])

    def estimate(self, keys: Sequence[str]) -> tuple[Floats, Floats]:
        """Sums for every combination of these keys, one row each, and the variance of every column."""
        wanted = self._set(keys)
        holding = [i for i, own in enumerate(self._sets) if own & wanted == wanted]
        position = min(holding, key=lambda i: self.tables[i].cells)  # they agree; the smallest is the fastest
        values = self._shifted(position, keys, self._shifts[position])
        return values.reshape(-1, values.shape[-1]), self.variances(keys)

    def variances(self, keys: Sequence[str]) -> Floats:
        """Of the estimate of each sum by these keys."""
        return self.covariance({key: one_group(self.sizes[key]) for key in keys})

    def covariance(self, weights: Mapping[str, Overlap]) -> Floats:
        """Of the estimates of two weighted sums over all combinations of some keys, for each column. The weight of a
        combination is the product of one for each key, of which their overlap is given.

        What a set of keys adds to smaller ones has independent estimates, so that their covariances add up.
        """
        added: dict[int, Floats] = {}
        total = np.zeros(1)
        for own, precision in self._components(self._set(weights)).items():
            product = np.ones(()) / self._cells(own)
            for key, (together, apart) in weights.items():
                product = product * (together if self._bits[key] & own else apart)
            added[own] = product - sum(part for less, part in added.items() if less & own == less)
            total = total + added[own][..., None] / precision
        return np.asarray(total)

    def _components(self, wanted: int) -> dict[int, Floats]:
        """The sets of keys that add something to sums by these keys, the smallest first, and the precision of it in all
        tables together."""
        if wanted not in self._holders:
            found = {own & wanted for own in self._holders} | {wanted}
        elif 1 << wanted.bit_count() < len(self._holders):
            found = {part for part in _subsets(wanted) if part in self._holders}
        else:
            found = {own for own in self._holders if own & wanted == own}
        return {own: self._precision(own) for own in sorted(found, key=lambda part: (part.bit_count(), part))}

    def _precision(self, shared: int) -> Floats:
        if shared not in self._precisions:
            known = self._holders.get(shared)
            if known is None:
                known = [i for i, own in enumerate(self._sets) if own & shared == shared]
            if not self._holders:  # tables are left as they are
                known = [min(known, key=lambda i: self.tables[i].cells)]
            self._precisions[shared] = np.asarray(sum(self.tables[i].precision for i in known))
        return self._precisions[shared]

    @cached_property
    def _precisions(self) -> dict[int, Floats]:
        return {}

    # ---- sets of keys ------------------------------------------------------------------------------------------------

    def _set(self, keys: Sequence[str] | Mapping[str, object]) -> int:
        return sum(self._bits[key] for key in keys)

    def _keys(self, own: int) -> list[str]:
        return [key for key, bit in self._bits.items() if bit & own]

    def _cells(self, own: int) -> int:
        return math.prod(self.sizes[key] for key in self._keys(own))


Overlap = tuple[Any, Any]


def overlap(one: Floats, other: Floats) -> Overlap:
    """Of two weights of the groups of a key: the sum of their products, and the product of their averages. Axes before
    the last are those of several weights."""
    return np.einsum("...i,...i->...", one, other), one.mean(axis=-1) * other.mean(axis=-1)


def one_group(size: int, same: bool = True) -> Overlap:
    """Of the weights that pick a single group of a key each: the same one, or two."""
    return float(same), 1 / size**2


def _subsets(own: int) -> Iterator[int]:
    part = own
    while part:
        yield part
        part = (part - 1) & own
    yield 0


def _sums(values: NDArray[np.float64] | NDArray[np.int64], held: Sequence[str], keys: Sequence[str]) -> Floats:
    """Over all keys but these, with the axes in their order; the last axis is that of the columns."""
    axes = [held.index(key) for key in keys]
    rest = tuple(axis for axis in range(len(held)) if axis not in axes)
    left = sorted(axes)
    order = [left.index(axis) for axis in axes]
    return np.asarray(values.sum(axis=rest).transpose((*order, len(axes))))


def _average(told: Sequence[Floats], precisions: Sequence[Floats]) -> Floats:
    """By variance; what is exact decides alone."""
    weights = np.array(precisions)
    exact = np.isinf(weights)
    weights = np.where(exact.any(axis=0), exact, np.where(exact, 0, weights))
    return np.asarray(sum(own * weight for own, weight in zip(told, weights / weights.sum(axis=0), strict=True)))
