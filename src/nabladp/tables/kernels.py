"""Kernels: what is added up over all rows, a batch of codes at a time. The most used one counts many marginals at once.

Joint histograms of several attributes are counted, and the marginals inside are summed out. Counting a joint histogram
costs little more than counting one marginal, and five attributes hold ten pairs. So the wanted sets are covered,
greedily, by joint histograms that stay small enough for a processor's cache.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, combinations, permutations
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp import checks
from nabladp.arrays import Floats, Integers
from nabladp.errors import DomainTooLarge, MechanismError, many
from nabladp.schema import Schema

MOST_CELLS = 1 << 27  # of one marginal: a gigabyte
MOST_CELLS_IN_ALL = 1 << 28
MOST_AXES = 60  # of a joint histogram; arrays have at most 64
PERSON = "\0person"  # the column of batches that says whose a row is, by a number that means nothing beyond the batch
CACHED_CELLS = 1 << 15  # a joint histogram this small stays in cache while it is counted


class Kernel(ABC):
    """Maps a batch of codes to an int64 array of one fixed shape; the results of all batches are added.

    A kernel is picklable, because other machines may run it, and draws nothing. ``attributes`` are the columns it needs
    (None: all of them). With ``by_row_index``, rows come in their own order and ``at`` is given the index of a batch's
    first row. With ``by_person``, a batch holds all rows of some people, those of each in their own order, and a column
    PERSON. ``add_to`` may be overridden to add in place, which spares an array for every batch.
    """

    attributes: tuple[str, ...] | None = None
    by_row_index: bool = False
    by_person: bool = False

    @abstractmethod
    def __call__(self, batch: pa.RecordBatch) -> Integers:
        """The result for these rows."""

    def at(self, batch: pa.RecordBatch, first: int) -> Integers:
        """The kernel's result for these rows, the first of which has this row index in the table."""
        return self(batch)

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        add(total, self(batch))

    @staticmethod
    def of(function: Kernel | Callable[[pa.RecordBatch], Integers]) -> Kernel:
        """A kernel as it is; a plain function of a batch as a kernel that needs all columns."""
        if isinstance(function, Kernel):
            return function
        if isinstance(function, FunctionType):
            return _Function(function)
        raise MechanismError("A kernel inherits Kernel, or is a plain function.", fix="Inherit nabladp.tables.Kernel.")


class _Function(Kernel):
    def __init__(self, function: Callable[[pa.RecordBatch], Integers]) -> None:
        self._function = function

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self._function(batch)


def integer_result(part: Any) -> Integers:
    if not isinstance(part, np.ndarray) or part.dtype != np.int64:
        raise MechanismError("A kernel must return an int64 array.", fix="Convert its result with astype(np.int64).")
    return part


def add(total: Integers, part: Any) -> None:
    result = integer_result(part)
    if result.shape != total.shape:
        raise MechanismError("A kernel must return arrays of one shape.", fix="Let its shape depend on nothing.")
    total += result


class Total:
    """The sum of a kernel over batches, in order from row ``first`` on."""

    def __init__(self, kernel: Kernel, first: int = 0) -> None:
        self.kernel, self.first, self.rows = kernel, first, 0
        self.sum: Integers | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self.sum is None:
            self.sum = integer_result(self._of(batch)).copy()
        elif self.kernel.by_row_index:
            add(self.sum, self._of(batch))
        else:
            self.kernel.add_to(self.sum, batch)
        self.rows += batch.num_rows

    def _of(self, batch: pa.RecordBatch) -> Integers:
        return self.kernel.at(batch, self.first + self.rows) if self.kernel.by_row_index else self.kernel(batch)


class Marginals(Kernel):
    """Batches of codes to one vector of counts, which :meth:`split` cuts into marginals."""

    def __init__(self, schema: Schema, sets: Iterable[Sequence[str]]) -> None:
        listed = checks.members(sets, "The marginals", 'Write [["age", "sex"], ["income"]].', error=MechanismError)
        self.sets = [_check_names(schema, names) for names in listed]
        self.attributes: tuple[str, ...] = tuple(dict.fromkeys(name for names in self.sets for name in names))
        self.sizes = {name: schema[name].size for name in self.attributes}
        self.joints, self.home = cover(self.sets, self.sizes)
        cells = (math.prod(self.sizes[name] for name in joint) for joint in self.joints)
        self.bounds = list(accumulate(cells, initial=0))
        if self.bounds[-1] > MOST_CELLS_IN_ALL:
            raise too_large("The marginals asked for", self.attributes, self.bounds[-1], MOST_CELLS_IN_ALL)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(self.bounds[-1], dtype=np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        """Add a batch's marginal counts in place, which spares a vector for every batch."""
        columns = {name: batch.column(name).to_numpy() for name in self.attributes}
        for i, joint in enumerate(self.joints):
            part = self._part(total, i)
            cells = np.zeros(batch.num_rows, dtype=np.uint16 if len(part) < 1 << 16 else np.uint32)
            for name in joint:
                cells *= self.sizes[name]
                cells += columns[name]
            if len(part) <= max(CACHED_CELLS, 4 * batch.num_rows):
                part += np.bincount(cells, minlength=len(part))
            else:  # far more cells than rows: touch only those that occur
                np.add.at(part, cells, 1)

    def split(self, total: Integers) -> list[Integers]:
        """The counted marginals in the order they were asked for, each with its axes in the order of its attributes."""
        return [self._marginal(total, names) for names in self.sets]

    def _marginal(self, total: Integers, names: tuple[str, ...]) -> Integers:
        i = self.home[frozenset(names)]
        joint = self.joints[i]
        table = self._part(total, i).reshape([self.sizes[name] for name in joint])
        table = table.sum(axis=tuple(axis for axis, name in enumerate(joint) if name not in names))
        kept = [name for name in joint if name in names]
        return np.array(table.transpose([kept.index(name) for name in names]), dtype=np.int64, order="C")

    def _part(self, total: Integers, i: int) -> Integers:
        return total[self.bounds[i] : self.bounds[i + 1]]


def cover(
    sets: Iterable[Sequence[str]], sizes: Mapping[str, int]
) -> tuple[list[tuple[str, ...]], dict[frozenset[str], int]]:
    """Joint histograms that together hold every marginal asked for, and which one holds which.

    Each starts from a set not yet held and takes in, while it fits, the attribute it shares most waiting sets with.
    """
    waiting = {frozenset(names): tuple(names) for names in sets}
    most = min(CACHED_CELLS, (1 << 27) // max(1, len(waiting)))  # keeps the sum of all histograms small, too
    lengths = sorted({len(wanted) for wanted in waiting})
    names = tuple(sizes)
    position = {name: i for i, name in enumerate(names)}
    size = np.array([sizes[name] for name in names], dtype=np.float64)
    shared = np.zeros((len(names), len(names)))

    def book(wanted: frozenset[str], by: int) -> None:
        for a, b in permutations(wanted, 2):
            shared[position[a], position[b]] += by

    for wanted in waiting:
        book(wanted, +1)
    joints: list[tuple[str, ...]] = []
    home: dict[frozenset[str], int] = {}
    while waiting:
        seed = next(iter(waiting.values()))
        joint = [names[i] for i in _grow([position[name] for name in seed], size, shared, most)]
        covered = [w for w in _subsets(joint, lengths, waiting) if w in waiting]
        for wanted in covered:
            home[wanted] = len(joints)
            del waiting[wanted]
            book(wanted, -1)
        union = frozenset().union(*covered)
        joints.append(tuple(name for name in joint if name in union))
    return joints, home


def _grow(joint: list[int], size: Floats, shared: Floats, most: int) -> list[int]:
    cells = float(np.prod(size[joint]))
    gain = shared[joint].sum(axis=0)
    while len(gain) and len(joint) < MOST_AXES:
        possible = np.where(size * cells <= most, gain, 0.0)
        possible[joint] = 0.0
        best = int(possible.argmax())
        if possible[best] <= 0:
            break
        joint.append(best)
        cells *= size[best]
        gain = gain + shared[best]
    return joint


def _subsets(
    joint: Sequence[str], lengths: Sequence[int], waiting: Mapping[frozenset[str], tuple[str, ...]]
) -> Iterable[frozenset[str]]:
    if sum(math.comb(len(joint), length) for length in lengths) > len(waiting):
        inside = frozenset(joint)
        return [wanted for wanted in waiting if wanted <= inside]
    return [frozenset(subset) for length in lengths for subset in combinations(joint, length)]


def _check_names(schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise MechanismError("A marginal is a list of names, not a text.", fix=f"Write ({names!r},).")
    names = checks.names(names, "A marginal", error=MechanismError)
    if len(set(names)) != len(names):
        raise MechanismError("A marginal names an attribute twice.", fix="Name every attribute once.")
    cells = schema.cells(names)
    if cells > MOST_CELLS:
        raise too_large("The marginal of " + ", ".join(map(repr, names)), names, cells, MOST_CELLS)
    return names


def too_large(what: str, names: Sequence[str], cells: int, most: int) -> DomainTooLarge:
    widest = f"at most {most:,} cells can be counted at once"
    return DomainTooLarge(
        f"{what} would have {many(cells)} cells, {many(8 * cells)} bytes.",
        fix=f"Leave out attributes or declare coarser domains; {widest}.",
        attributes=list(names),
        cells=cells,
        bytes=8 * cells,
    )
