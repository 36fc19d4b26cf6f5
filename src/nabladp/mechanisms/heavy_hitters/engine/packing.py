"""The rows of a table that is not too long, packed in one pass over it: a number for every group of attributes.

They stay in memory while frequent combinations are found, so that counting level by level reads the table once in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from nabladp.arrays import Integers
from nabladp.mechanisms.heavy_hitters.engine.counting import Tally, columns_of
from nabladp.mechanisms.heavy_hitters.engine.kernels import Numbers
from nabladp.mechanisms.heavy_hitters.engine.numbering import Batch, Part
from nabladp.tables import Counts, Kernel

_ROWS = 1 << 16  # counted at a time


class Packing(Kernel):
    """For ``fold``, where batches come one after the other: the rows' numbers by some parts, as they come."""

    def __init__(self, parts: Sequence[Part], rows: int) -> None:
        self.parts, self.rows, self.filled = tuple(parts), rows, 0
        self.attributes = tuple(name for part in parts for name in part.names)
        self.kinds = [np.min_scalar_type(part.axis - 1) for part in parts]
        self.bounds = list(accumulate((-(-rows * kind.itemsize // 8) for kind in self.kinds), initial=0))

    @property
    def bytes(self) -> int:
        return 8 * self.bounds[-1]

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(self.bounds[-1], np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        rows, start = Batch(columns_of(batch)), min(self.filled, self.rows)
        self.filled += batch.num_rows
        room = min(self.filled, self.rows) - start  # of more rows than were declared ``fold`` will tell
        for part, column in zip(self.parts, self.columns(total), strict=True):
            column[start : start + room] = rows.numbers(part)[:room]

    def columns(self, total: Integers) -> list[Numbers]:
        words = [total[i:j] for i, j in pairwise(self.bounds)]
        return [word.view(kind)[: self.rows] for word, kind in zip(words, self.kinds, strict=True)]


class Packed:
    """Rows in memory, to be counted by a :class:`Tally`."""

    def __init__(self, n: int, columns: Mapping[str, Numbers]) -> None:
        self.n, self.columns = n, columns

    @classmethod
    def of(cls, counts: Counts, parts: Mapping[str, Part], most: float) -> Packed | None:
        """A column for every part, if all of them take at most so many bytes."""
        if not counts.one_process or not counts.n:  # rows never leave the machines they are on
            return None
        packing = Packing(list(parts.values()), counts.n)
        if packing.bytes > most:
            return None
        return cls(counts.n, dict(zip(parts, packing.columns(counts.fold(packing)), strict=True)))

    def fold(self, kernel: Tally) -> Integers:
        total = kernel.nothing()
        for start in range(0, self.n, _ROWS):
            kernel.add(total, {name: self.columns[name][start : start + _ROWS] for name in kernel.attributes})
        return total
