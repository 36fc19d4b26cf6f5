"""Numbering a table's rows by what they hold: codes, listed strings, combinations of those.

Whatever is counted is a cell of a product: of columns, or of lists of strings. A list numbers its strings 1, 2, …, and
0 stands for every string that is not on it, so a row's cell comes from multiplying, adding and looking up alone: no
branch, no loop over rows in Python, and memory that depends on lists and batches only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop

# ---- the loops over rows, compiled -----------------------------------------------------------------------------------

Numbers = NDArray[np.unsignedinteger]

SPREAD = 1 << 12  # windows up to this size are counted in several copies, for rows that are all alike


def append(cells: Numbers, numbers: Numbers, axis: np.unsignedinteger) -> None:
    for i in range(len(cells)):
        cells[i] = cells[i] * axis + numbers[i]


def append_four(cells: Numbers, a: Numbers, b: Numbers, c: Numbers, d: Numbers, axes: Numbers) -> None:
    """Append four mixed-radix digits to every row's cell number, in one pass over the cells."""
    p, q, r, s = axes[0], axes[1], axes[2], axes[3]
    for i in range(len(cells)):
        cells[i] = (((cells[i] * p + a[i]) * q + b[i]) * r + c[i]) * s + d[i]


def look_up(cells: Numbers, table: Numbers, out: Numbers) -> None:
    for i in range(len(cells)):
        out[i] = table[cells[i]]


def build_hash_table(listed: Numbers, shift: np.uint64, slots: Numbers, table: Numbers) -> None:
    """Fill the hash table of listed cells: each goes to the first free slot from its hash on; a free slot has number
    0."""
    last = np.uint64(len(slots) - 1)
    for i in range(len(listed)):
        at = (listed[i] * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[at] != 0:
            at = (at + np.uint64(1)) & last
        slots[at], table[at] = listed[i], i + 1


def search(cells: Numbers, shift: np.uint64, slots: Numbers, table: Numbers, out: Numbers) -> None:
    last = np.uint64(len(slots) - 1)
    for i in range(len(cells)):
        cell = np.uint64(cells[i])
        at = (cell * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[at] != 0 and slots[at] != cell:
            at = (at + np.uint64(1)) & last
        out[i] = table[at]


def mix(mixed: Numbers, numbers: Numbers, from_one: bool) -> None:
    """Mix one more number of every row into its hash. A hash is odd, or even for rows that are left out, and stays
    so."""
    for i in range(len(mixed)):
        number = np.uint64(numbers[i])
        mixed[i] = mixed[i] * np.uint64(0xD1342543DE82EF95) + (number << np.uint64(1))
        if from_one and number == 0:
            mixed[i] = 0


def throw(mixed: Numbers, shift: np.uint64, kept: NDArray[np.uint8], out: Numbers) -> None:
    """The hash bucket of every row, numbered among the buckets kept; each call mixes the hash once more.

    There is no branch: which way it goes could not be foreseen.
    """
    times = len(kept)
    for i in range(len(mixed)):
        spread = (mixed[i] ^ (mixed[i] >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        stays = mixed[i]
        for time in range(times):
            at = spread >> shift
            stays &= np.uint64(kept[time, at >> np.uint64(3)]) >> (at & np.uint64(7))
            spread = (spread ^ (spread >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        out[i] = ((spread >> shift) + np.uint64(1)) * (stays & np.uint64(1))


def tally(cells: Numbers, start: np.uint64, total: NDArray[Any]) -> None:
    """Count the rows per cell of a window; a small one in four copies, so that no addition waits for the one before."""
    size = np.uint64(len(total))
    first = 0
    if len(total) <= SPREAD:
        copies = np.zeros((4, len(total)), total.dtype)
        first = len(cells) - len(cells) % 4
        for i in range(0, first, 4):
            for j in range(4):
                at = cells[i + j] - start
                if at < size:
                    copies[j, at] += 1
        for j in range(4):
            for k in range(len(total)):
                total[k] += copies[j, k]
    for i in range(first, len(cells)):
        at = cells[i] - start
        if at < size:
            total[at] += 1


# ---- numbering -------------------------------------------------------------------------------------------------------

LOOKED_UP = 1 << 17  # products up to this size get a table of all cells, which stays in cache; larger ones are hashed


class Batch:
    """The columns of some rows. What several ask for (``shared``) is worked out once; nobody writes to it."""

    def __init__(self, columns: Mapping[str, Numbers], shared: Sequence[Part] = ()) -> None:
        self.columns, self.shared = columns, shared
        self._known: dict[int, Numbers | None] = {id(part): None for part in shared}
        self._inside: dict[int, Batch] = {}

    def numbers(self, part: Part) -> Numbers:
        if id(part) not in self._known:
            return part.numbers(self)
        known = self._known[id(part)]
        if known is None:
            known = self._known[id(part)] = part.numbers(self)
        return known

    def inside(self, part: Part) -> Batch:
        """The rows that a shared part does not leave out, with the columns it reads; all rows where it leaves none
        out."""
        if part.first == 0 or id(part) not in self._known:
            return self
        if id(part) not in self._inside:
            slots = np.flatnonzero(self.numbers(part))
            self._inside[id(part)] = Batch({name: self.columns[name][slots] for name in part.names}, self.shared)
        return self._inside[id(part)]


@dataclass(frozen=True)
class Column:
    """An attribute's codes."""

    name: str
    axis: int
    first = 0
    inner: tuple[Part, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def numbers(self, batch: Batch) -> Numbers:
        return batch.columns[self.name]


@dataclass(frozen=True, eq=False)
class Product:
    """All combinations of the parts' numbers, as cells in mixed radix: the last part runs fastest."""

    parts: tuple[Part, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.axis for part in self.parts)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether no cell of the product stands for a string, because a part lists nothing."""
        return any(part.axis == part.first for part in self.parts)

    @cached_property
    def _kind(self) -> np.dtype[Any]:
        return np.min_scalar_type(self.size - 1)

    @cached_property
    def _axes(self) -> NDArray[np.uint64]:
        return np.array([axis % (1 << 64) for axis in self.shape], np.uint64)

    def cells(self, batch: Batch) -> Numbers:
        """The cell number of every row in the product of its parts. Arithmetic wraps around on the way, but the result
        fits."""
        columns = batch.columns
        numbers = [columns[part.name] if isinstance(part, Column) else batch.numbers(part) for part in self.parts]
        if len(numbers) == 1:
            return numbers[0]
        widest = max(self._kind, numbers[0].dtype, key=lambda kind: kind.itemsize)
        if len(numbers) % 4:
            start, cells = 1, numbers[0].astype(widest)
        else:
            start, cells = 0, np.zeros(len(numbers[0]), widest)
        axes = self._axes.astype(widest)
        for i in range(start, len(axes), 4):
            four = numbers[i : i + 4]
            if len(four) == 4 and four[0].dtype == four[1].dtype == four[2].dtype == four[3].dtype:
                compile_loop(append_four)(cells, *four, axes[i : i + 4])
            else:
                for one, axis in zip(four, axes[i : i + 4], strict=True):
                    compile_loop(append)(cells, one, axis)
        return cells


@dataclass(frozen=True, eq=False)
class _Strings:
    """Strings that are cells of a product."""

    product: Product

    @property
    def names(self) -> tuple[str, ...]:
        return self.product.names

    @property
    def inner(self) -> tuple[Part, ...]:
        return self.product.parts


@dataclass(frozen=True, eq=False)
class Whole(_Strings):
    """All strings of a product, by their cells."""

    first = 0

    @property
    def axis(self) -> int:
        return self.product.size

    def numbers(self, batch: Batch) -> Numbers:
        return self.product.cells(batch)


@dataclass(frozen=True, eq=False)
class Listed(_Strings):
    """A list of strings: some cells of a product, in increasing order, numbered from 1."""

    listed: Integers
    table: Numbers = field(init=False, repr=False)
    slots: NDArray[np.uint64] | None = field(init=False, repr=False)
    first = 1

    def __post_init__(self) -> None:
        slots = None
        if self.product.size <= LOOKED_UP:
            table = np.zeros(self.product.size, np.uint16 if self.axis <= 1 << 16 else np.uint32)
            table[self.listed] = np.arange(1, self.axis)
        else:
            bits = max(4, (2 * self.axis).bit_length())  # at most half full
            table, slots = np.zeros(1 << bits, np.uint32), np.zeros(1 << bits, np.uint64)
            compile_loop(build_hash_table)(self.listed.astype(np.uint64), np.uint64(64 - bits), slots, table)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "slots", slots)

    @property
    def axis(self) -> int:
        return len(self.listed) + 1

    def numbers(self, batch: Batch) -> Numbers:
        cells = self.product.cells(batch)
        result = np.empty(len(cells), self.table.dtype)
        if self.slots is None:
            compile_loop(look_up)(cells, self.table, result)
        else:
            shift = np.uint64(65 - len(self.slots).bit_length())
            compile_loop(search)(cells, shift, self.slots, self.table, result)
        return result


@dataclass(frozen=True, eq=False)
class Digit:
    """Some binary digits of a part's numbers."""

    part: Part
    shift: int
    axis: int
    first = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.part.names

    @property
    def inner(self) -> tuple[Part, ...]:
        return (self.part,)

    def numbers(self, batch: Batch) -> Numbers:
        numbers = batch.numbers(self.part)
        return (numbers >> numbers.dtype.type(self.shift)) & numbers.dtype.type(self.axis - 1)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Strings over some parts, thrown into 2^bits buckets, numbered from 1; 0 stands for those that are out.

    Out are strings with a part that is not listed, and those that were in a bucket not ``kept`` when buckets were
    made in another way before, once or several times.
    """

    parts: tuple[Part, ...]
    bits: int
    kept: NDArray[np.uint8]  # a row for every time, with a bit for every bucket
    first = 1

    @classmethod
    def of(cls, parts: tuple[Part, ...], bits: int) -> Buckets:
        return cls(parts, bits, np.empty((0, (1 << bits) // 8), np.uint8))

    def again(self, kept: Integers) -> Buckets:
        """Buckets of another hash, for the strings in these ones."""
        row = np.zeros(1 << self.bits, np.bool_)
        row[kept - 1] = True
        return Buckets(self.parts, self.bits, np.vstack([self.kept, np.packbits(row, bitorder="little")]))

    @property
    def axis(self) -> int:
        return (1 << self.bits) + 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @property
    def inner(self) -> tuple[Part, ...]:
        return self.parts

    def numbers(self, batch: Batch) -> Numbers:
        numbers = batch.numbers(self.parts[0])
        mixed = np.ones(len(numbers), np.uint64)
        for i, part in enumerate(self.parts):
            compile_loop(mix)(mixed, batch.numbers(part) if i else numbers, part.first == 1)
        result = np.empty(len(mixed), np.uint32)
        compile_loop(throw)(mixed, np.uint64(64 - self.bits), self.kept, result)
        return result


Part = Column | Whole | Listed | Digit | Buckets


def listed_strings(parts: Sequence[Part], rows: Integers) -> Listed:
    """Number a list of strings over several parts, given as rows of the parts' numbers without repetition.

    Parts are joined one by one. The strings are numbered in lexicographic order.
    """
    joined, numbers = parts[0], rows[:, 0]
    if len(parts) == 1:
        return Listed(Product((joined,)), np.unique(numbers))
    for part, column in zip(parts[1:], rows.T[1:], strict=True):
        listed, index = np.unique(numbers * part.axis + column, return_inverse=True)
        joined, numbers = Listed(Product((joined, part)), listed), index.reshape(-1) + 1
    return joined  # type: ignore[return-value]
