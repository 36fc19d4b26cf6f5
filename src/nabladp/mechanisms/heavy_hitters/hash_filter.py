"""The frequent strings of one product, which asks for cells to be counted until it knows them.

A product of too many cells is filtered by a hash. Its strings are thrown into buckets by a hash, and a string is at
most as frequent as its bucket, so whatever lies in no frequent bucket is out: a few times, with other hashes. For the
buckets that are left, the parts of their strings are counted, and combinations of frequent parts last, each on its own.
So every count is exact and nothing frequent is missed, whatever the hashes and the number of passes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.mechanisms.heavy_hitters.numbering import Buckets, Digit, Listed, Part, Product, listed_strings

Counted = tuple[Integers, Integers]
"""Cells in increasing order, and how many rows lie in each."""

Frequent = tuple[Integers, Integers]
"""Strings in lexicographic order, as rows of their parts' numbers, and how many rows of the table hold each."""

Asking = Generator[list[Product], list[Counted], Frequent]
"""Asks for the cells of some products that are frequent, until it knows the frequent strings of its own."""


_WIDEST_DIGIT = 8  # bits


def count_each_cell(product: Product) -> Asking:
    (result,) = yield [product]
    return _as_strings(product, result)


def _as_strings(product: Product, counted: Counted) -> Frequent:
    """The counted cells as strings, without cells in which a part's number is 0 and stands for unlisted strings."""
    if not len(counted[0]):  # also of a product with more cells than numpy could number
        return np.empty((0, len(product.parts)), np.int64), np.empty(0, np.int64)
    rows = np.stack(np.unravel_index(counted[0], product.shape), axis=1).astype(np.int64)
    listed = (rows >= [part.first for part in product.parts]).all(axis=1)
    return rows[listed], counted[1][listed]


def filter_by_hash(product: Product, bits: int, each: int) -> Asking:
    parts = product.parts
    bucket, sizes = yield from _frequent_buckets(product, bits, each)
    digits = _digits(parts, bucket.axis, each)
    pairs = [Product((bucket, digit)) for digit in digits]
    counted = yield pairs
    groups = [_Group.of(pair, result) for pair, result in zip(pairs, counted, strict=True)]
    alike = np.logical_and.reduce([group.fill(sizes) for group in groups])
    sure = np.stack([group.inside(alike).rows[:, 1] for group in groups], axis=1)
    groups = [group.inside(~alike) for group in groups]
    while len(groups := _join_neighbours(groups, bucket.axis, each)) > 1:
        counted = yield [Product((listed_strings((bucket, *group.digits), group.rows),)) for group in groups]
        groups = [group.take(*result) for group, result in zip(groups, counted, strict=True)]
    rows = _keep_listed(parts, np.unique(_compose_digits(parts, digits, groups[0].rows[:, 1:]), axis=0))
    ((numbers, counts),) = yield [Product((listed_strings(parts, rows),))]
    rows = np.concatenate([_compose_digits(parts, digits, sure), rows[numbers[numbers > 0] - 1]])
    counts = np.concatenate([sizes[alike], counts[numbers > 0]])
    rows, first = np.unique(rows, axis=0, return_index=True)
    return rows, counts[first]


def _frequent_buckets(
    product: Product, bits: int, each: int
) -> Generator[list[Product], list[Counted], tuple[Listed, Integers]]:
    """Frequent buckets of several hashes in turn, until few are left or hashing no longer helps; and their counts."""
    buckets, last = Buckets.of(product.parts, bits), 1 << bits + 1
    while True:
        thrown = Product((buckets,))
        ((result, sizes),) = yield [thrown]
        inside = result > 0
        result, sizes = result[inside], sizes[inside]
        if len(result) << _WIDEST_DIGIT <= each // 8 or 8 * len(result) > 7 * last:
            return Listed(thrown, result), np.concatenate([[0], sizes])
        buckets, last = buckets.again(result), len(result)


def _digits(parts: Sequence[Part], buckets: int, each: int) -> list[Part]:
    """The product's parts, long ones cut into binary digits: as many at a time as can be counted for every hash
    bucket."""
    width = max(1, min(_WIDEST_DIGIT, (each // buckets).bit_length() - 1))
    digits: list[Part] = []
    for part in parts:
        length = (part.axis - 1).bit_length()
        if length <= width:
            digits.append(part)
        else:
            shifts = range(0, length, width)
            digits += [Digit(part, shift, 1 << min(width, length - shift)) for shift in reversed(shifts)]
    return digits


@dataclass(frozen=True, eq=False)
class _Group:
    """Strings over some neighbouring digits, in order: rows of a bucket's number, then the digits'; and counts."""

    digits: tuple[Part, ...]
    rows: Integers
    counts: Integers

    @classmethod
    def of(cls, product: Product, counted: Counted) -> _Group:
        return cls(product.parts[1:], *_as_strings(product, counted))

    def inside(self, chosen: NDArray[np.bool_]) -> _Group:
        """The group's strings that lie in some of the hash buckets."""
        here = chosen[self.rows[:, 0]]
        return _Group(self.digits, self.rows[here], self.counts[here])

    def fill(self, sizes: Integers) -> NDArray[np.bool_]:
        """The hash buckets of these sizes in which all strings agree on this group's digits."""
        filled = np.zeros(len(sizes), np.bool_)
        filled[self.rows[self.counts == sizes[self.rows[:, 0]], 0]] = True
        return filled

    def take(self, numbers: Integers, counts: Integers) -> _Group:
        """The group's strings with these numbers, which start with 1."""
        return _Group(self.digits, self.rows[numbers[numbers > 0] - 1], counts[numbers > 0])

    def per_bucket(self, buckets: int) -> Integers:
        return np.bincount(self.rows[:, 0], minlength=buckets)

    def join(self, other: _Group, buckets: int) -> _Group:
        """All combinations of two groups' strings within a hash bucket, not counted; rows stay in order."""
        many = other.per_bucket(buckets)
        repeats = many[self.rows[:, 0]]
        starts = (np.cumsum(many) - many)[self.rows[:, 0]]
        within = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        right = other.rows[np.repeat(starts, repeats) + within, 1:]
        rows = np.hstack([np.repeat(self.rows, repeats, axis=0), right])
        return _Group(self.digits + other.digits, rows, np.zeros(len(rows), np.int64))


def _join_neighbours(groups: Sequence[_Group], buckets: int, most: int) -> list[_Group]:
    """Neighbouring digit groups joined: two by two at least, and more while that makes at most ``most``
    combinations."""
    results: list[_Group] = []
    alone = False
    for group in groups:
        if alone or (results and int(results[-1].per_bucket(buckets) @ group.per_bucket(buckets)) <= most):
            results[-1], alone = results[-1].join(group, buckets), False
        else:
            results.append(group)
            alone = True
    return results


def _compose_digits(parts: Sequence[Part], digits: Sequence[Part], rows: Integers) -> Integers:
    """Digits put together to numbers of the product's parts."""
    numbers = {id(part): np.zeros(len(rows), np.int64) for part in parts}
    for digit, column in zip(digits, rows.T, strict=True):
        if id(digit) in numbers:
            numbers[id(digit)] += column
        elif isinstance(digit, Digit):
            numbers[id(digit.part)] += column << digit.shift
    return np.stack([numbers[id(part)] for part in parts], axis=1)


def _keep_listed(parts: Sequence[Part], rows: Integers) -> Integers:
    """Only the rows whose digits make up listed strings: digits of several strings may make up one that is not
    listed."""
    return rows[((rows >= [part.first for part in parts]) & (rows < [part.axis for part in parts])).all(axis=1)]
