"""Sums over rows for method="descent": a row's label times its whitened vector, if it is not safely on its side yet.

Everything is a whole number. Rows stay in memory between steps where they may, as 16-bit numbers; otherwise the table
is read again in every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.kernels import compiled
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.learners.halfspaces.whitening import Whitening
from nabladp.tables import Counts, Kernel

LEVELS = 1 << 8  # a row counts this many times, up to half the margin; then less and less
WEIGHT_GRID = 1 << 20  # weights are multiples of 1/this: inner products are exact in doubles
_BLOCK = 256  # rows at a time
_CAREFUL = 1 - 2.0**-40  # more than doubles may add to a length


class Vectors:
    """Rows as they count: label times whitened features, cut to the radius; a column for each row."""

    def __init__(self, columns: SignedColumns, label: str, whitening: Whitening) -> None:
        self.columns, self.label, self.whitening = columns, label, whitening
        self.attributes = (*columns.attributes, label)
        largest = int(np.abs(whitening.matrix).sum(axis=1).max())  # of any partial sum of an inner product
        self.real: Any = np.float32 if largest < 1 << 24 else np.float64
        self.whole: Any = np.int16 if whitening.radius < 1 << 15 else np.int32

    def of(self, batch: pa.RecordBatch) -> NDArray[Any]:
        signs = np.ones((self.columns.width, batch.num_rows), dtype=self.real)
        for block in self.columns.blocks:
            if block.names:
                place = self.columns.places[block.attribute]
                values = np.where(block.positive, 1, -1).astype(self.real)
                codes = batch.column(block.attribute).to_numpy()  # all within the domain: "clip" only saves a copy
                values.take(codes, axis=1, out=signs[place.start : place.stop], mode="clip")
        vectors = self.whitening.matrix.astype(self.real) @ signs  # whole numbers, exact in any order
        labels = 2.0 * batch.column(self.label).to_numpy() - 1
        found = np.empty(vectors.shape, dtype=self.whole)
        compiled(_cut)(vectors, labels, float(self.whitening.radius), found)
        return found


class HingeSums(Kernel):
    """A kernel: one step's sums, from rows as they are read."""

    def __init__(self, vectors: Vectors, weights: Integers) -> None:
        self.vectors, self.weights, self.attributes = vectors, weights, vectors.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return hinge_sums(self.vectors.of(batch), self.weights, self.vectors.whitening.radius)


class Kept(Kernel):
    """For ``fold`` where batches come one after the other: all rows' vectors, as they come, in one array."""

    def __init__(self, vectors: Vectors, rows: int) -> None:
        self.vectors, self.rows, self.filled, self.attributes = vectors, rows, 0, vectors.attributes

    @property
    def bytes(self) -> int:
        return int(self.rows * self.vectors.columns.width * np.dtype(self.vectors.whole).itemsize)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(-(-self.bytes // 8), dtype=np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        start = min(self.filled, self.rows)
        self.filled += batch.num_rows
        room = min(self.filled, self.rows) - start  # of more rows than were declared ``fold`` will tell
        self.seen(total)[:, start : start + room] = self.vectors.of(batch)[:, :room]

    def seen(self, total: Integers) -> NDArray[Any]:
        width = self.vectors.columns.width
        found: NDArray[Any] = total.view(self.vectors.whole)[: width * self.rows]
        return found.reshape(width, self.rows)


class Rows:
    """The sums of one step after another, from rows kept in memory if they take at most so many bytes."""

    def __init__(self, counts: Counts, vectors: Vectors, most: int) -> None:
        self.counts, self.vectors = counts, vectors
        self.kept: NDArray[Any] | None = None
        kept = Kept(vectors, counts.n)
        if counts.one_process and kept.bytes <= most:  # rows never leave the machines they are on
            self.kept = kept.seen(counts.fold(kept))

    def sums(self, weights: Integers) -> Integers:
        if self.kept is None:
            return self.counts.fold(HingeSums(self.vectors, weights))
        return hinge_sums(self.kept, weights, self.vectors.whitening.radius)


def hinge_sums(vectors: NDArray[Any], weights: Integers, radius: int) -> Integers:
    """Σ r·v over rows v, 0 ≤ r ≤ LEVELS whole and smaller the farther ⟨w, v⟩ is above half of the margin."""
    total = np.zeros(len(vectors), dtype=np.int64)
    compiled(_add)(vectors, weights.astype(np.float64), 1 / (radius * WEIGHT_GRID), LEVELS, total)
    return total


# ---- kernels -------------------------------------------------------------------------------------------------------


def _cut(vectors: NDArray[Any], labels: NDArray[np.float64], radius: float, found: NDArray[Any]) -> None:
    squares, factors = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, vectors.shape[1], _BLOCK):
        size = min(_BLOCK, vectors.shape[1] - start)
        squares[:] = 0
        for j in range(len(vectors)):
            row = vectors[j, start : start + size]
            for i in range(size):
                squares[i] += np.float64(row[i]) * np.float64(row[i])
        for i in range(size):
            long = squares[i] > radius * radius
            factors[i] = labels[start + i] * (_CAREFUL * radius / np.sqrt(squares[i]) if long else 1.0)
        for j in range(len(vectors)):
            row, target = vectors[j, start : start + size], found[j, start : start + size]
            for i in range(size):
                target[i] = np.int32(row[i] * factors[i])  # towards 0: never longer [cut]


def _add(vectors: NDArray[Any], weights: NDArray[np.float64], unit: float, levels: int, total: Integers) -> None:
    inner, parts = np.empty(_BLOCK), np.empty(_BLOCK, np.int32)
    for start in range(0, vectors.shape[1], _BLOCK):
        size = min(_BLOCK, vectors.shape[1] - start)
        inner[:] = 0
        for j in range(len(vectors)):
            row, weight = vectors[j, start : start + size], weights[j]
            for i in range(size):
                inner[i] += weight * row[i]
        for i in range(size):
            lacking = 2 * (1 - inner[i] * unit)
            parts[i] = np.int32(np.rint(levels * min(max(lacking, 0.0), 1.0)))  # [levels]
        for j in range(len(vectors)):
            row, sums = vectors[j, start : start + size], np.int64(0)
            for i in range(size):
                sums += np.int64(row[i]) * np.int64(parts[i])
            total[j] += sums
