"""Measurements cut into independent parts, and what all of them together say about each part.

A table on S is a sum of residuals, one for each A ⊆ S: what its sums over S∖A say about A beyond all subsets of A. They
are orthogonal, so under equal independent noise on every cell the residuals' noises are independent. The residuals on A
of all measured sets that hold A estimate the same thing; weighted by precision nothing is lost or counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Names, summed


@dataclass(frozen=True, eq=False)
class Residual:
    """What is known about A beyond its subsets: sums over everything else, centred along every axis."""

    names: Names  # sorted
    values: Floats
    variance: float  # of each sum before centring


def subsets(names: Sequence[str]) -> Iterable[Names]:
    """All but the empty one, in the order given."""
    return (part for k in range(1, len(names) + 1) for part in combinations(names, k))


def residuals(measurements: Iterable[Measurement]) -> dict[Names, Residual]:
    """By sorted names; a part with an attribute of one value holds nothing and is left out."""
    precision: dict[Names, float] = {}
    sums: dict[Names, Floats] = {}
    for m in measurements:
        names = tuple(sorted(m.attributes))
        table = summed(m.values, m.attributes, names)
        for part, values in _cut(table, names).items():
            weight = values.size / (m.variance * table.size)  # its sums have |S∖A| cells each
            precision[part] = precision.get(part, 0.0) + weight
            sums[part] = sums.get(part, 0.0) + weight * values
    return {part: Residual(part, sums[part] / precision[part], 1 / precision[part]) for part in sums}


def centred(table: Floats) -> Floats:
    """The mean along every axis taken away."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _cut(table: Floats, names: Names) -> dict[Names, Floats]:
    """The residuals of one table: each axis is either summed out or centred."""
    parts: dict[Names, Floats] = {(): table}
    for name in names:  # the first axis of each part is the one to treat; kept ones move to the end
        after: dict[Names, Floats] = {}
        for done, values in parts.items():
            gone = values.sum(axis=0)
            after[done] = gone
            if values.shape[0] > 1:
                after[(*done, name)] = np.moveaxis(values - gone / values.shape[0], 0, -1)
        parts = after
    del parts[()]
    return {done: np.ascontiguousarray(values) for done, values in parts.items()}


def cells(sizes: Mapping[str, int], names: Iterable[str]) -> int:
    return math.prod(sizes[name] for name in names)


class Parts:
    """The linear maps between tables on some sets (one flat vector) and residuals on their subsets (another).

    Each set's axes are in the order given; residuals' are sorted by name.
    """

    def __init__(self, sizes: Mapping[str, int], sets: Sequence[Names], known: Iterable[Names]) -> None:
        self.sizes, self.sets = sizes, sets
        inside = {tuple(sorted(part)) for names in sets for part in subsets(names)}
        self.parts = sorted(part for part in known if part in inside)
        self.at = np.cumsum([0, *(cells(sizes, names) for names in sets)])
        self.bounds = np.cumsum([0, *(cells(sizes, part) for part in self.parts)])
        self.dimensions = np.array([math.prod(sizes[name] - 1 for name in part) for part in self.parts], float)

    @cached_property
    def _axes(self) -> list[tuple[Integers, Floats]]:
        """For the first, second, … axis of every residual: each cell's line along it, and 1/length of each line."""
        deepest = max(map(len, self.parts), default=0)
        found = []
        for axis in range(deepest):
            lines, inverse, start = [], [np.zeros(1)], 1  # line 0 is for residuals without such an axis
            for part in self.parts:
                shape = [self.sizes[name] for name in part]
                if axis >= len(shape):
                    lines.append(np.zeros(math.prod(shape), np.int64))
                    continue
                across = [1 if k == axis else size for k, size in enumerate(shape)]
                count = math.prod(across)
                numbers = np.arange(start, start + count).reshape(across)
                lines.append(np.broadcast_to(numbers, shape).ravel())
                inverse.append(np.full(count, 1 / shape[axis]))
                start += count
            found.append((np.concatenate(lines), np.concatenate(inverse)))
        return found

    def centred(self, vector: Floats) -> Floats:
        """Residuals from sums: the mean along every axis taken away."""
        for lines, inverse in self._axes:
            vector = vector - (np.bincount(lines, vector, len(inverse)) * inverse)[lines]
        return vector

    @cached_property
    def _mean(self) -> Any:
        """Row for row a residual's cell, with the mean of every set's cells above it; also its transpose."""
        from scipy.sparse import csr_array

        rows, columns, weights = [], [], []
        number = {part: i for i, part in enumerate(self.parts)}
        for s, names in enumerate(self.sets):
            here = np.arange(self.at[s], self.at[s + 1])
            for part in subsets(names):
                i = number.get(tuple(sorted(part)))
                if i is not None:
                    rows.append(self.bounds[i] + self._slots(names, self.parts[i]))
                    columns.append(here)
                    count = cells(self.sizes, part) / len(here)
                    weights.append(np.full(len(here), count))
        shape = (int(self.bounds[-1]), int(self.at[-1]))
        if not rows:
            return csr_array(shape), csr_array(shape[::-1])
        entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))
        mean = csr_array(entries, shape=shape)
        return mean, mean.T.tocsr()

    def _slots(self, names: Names, part: Names) -> Integers:
        """For every cell of a table on ``names``, the cell of the part it falls into."""
        shape = [self.sizes[name] for name in names]
        slot = np.zeros(shape, np.int64)
        for name in part:
            axis = names.index(name)
            code = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(names))])
            slot = slot * self.sizes[name] + code
        return slot.ravel()

    def means(self, vector: Floats) -> Floats:
        """Σ over the sets above a part of their tables' means: the part's share in the sum of all tables."""
        return np.asarray(self._mean[0] @ vector)

    def spread(self, vector: Floats) -> Floats:
        """The transpose of :meth:`means`: residuals, given as sums, back to tables."""
        return np.asarray(self._mean[1] @ vector)

    @cached_property
    def _holders(self) -> Floats:
        """Σ over the sets above a part of its share of their cells, for every cell of the part."""
        found = dict.fromkeys(self.parts, 0.0)
        for names in self.sets:
            for part in subsets(names):
                key = tuple(sorted(part))
                if key in found:
                    found[key] += cells(self.sizes, part) / cells(self.sizes, names)
        return np.repeat(list(found.values()), np.diff(self.bounds))

    def of(self, vector: Floats) -> Floats:
        """The residuals of tables that agree with each other wherever they overlap."""
        return self.centred(self.means(vector) / self._holders)
