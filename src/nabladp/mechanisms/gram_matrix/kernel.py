"""Counting in how many rows two columns disagree, for every pair at once: a bit a value, 64 rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.mechanisms.gram_matrix.columns import SignedColumns
from nabladp.tables import Kernel

if TYPE_CHECKING:
    import pyarrow as pa

_CACHED_WORDS = 1 << 16  # of all columns together: what is compared at a time stays in a processor's cache


class Disagreements(Kernel):
    """A kernel for ``fold``. Pairs stand in the order of ``np.triu_indices(P, 1)``; the counts are exact integers."""

    def __init__(self, columns: SignedColumns) -> None:
        self.columns = columns
        self.attributes = columns.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        width = self.columns.width
        total = np.zeros(width * (width - 1) // 2, dtype=np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        words, width = self._packed(batch), self.columns.width
        step = max(16, _CACHED_WORDS // width)
        for start in range(0, words.shape[1], step):
            part, place = words[:, start : start + step], 0
            for column in range(width - 1):
                differing = np.bitwise_count(part[column + 1 :] ^ part[column])
                total[place : place + width - 1 - column] += differing.sum(axis=1, dtype=np.int64)  # [disagreements]
                place += width - 1 - column

    def _packed(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """A row of bits for each column, 1 for +1; what fills up the last word is 0 in every column."""
        rows = batch.num_rows
        used = -(-rows // 8)
        packed = np.zeros((self.columns.width, -(-rows // 64) * 8), dtype=np.uint8)
        packed[0, :used] = np.packbits(np.ones(rows, dtype=bool))
        for block in self.columns.blocks:
            if block.names:
                place = self.columns.places[block.attribute]
                values = block.positive.take(batch.column(block.attribute).to_numpy(), axis=1)
                packed[place.start : place.stop, :used] = np.packbits(values, axis=1)
        return packed.view(np.uint64)
