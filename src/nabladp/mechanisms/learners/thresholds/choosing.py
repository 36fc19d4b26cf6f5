"""The thresholds that listed prefixes offer, and the mistakes of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.tables import Kernel

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

Codes = NDArray[np.uint32]


def offered(design: Design, place: int, prefixes: Integers) -> Codes:
    """Smallest and largest strings with a prefix, and the smallest for every way to go on up to the next cut.

    A row each, in order, none twice. The smallest and the largest string of all are always among them.
    """
    start, block = design.cuts[place], design.block(place)
    ways = np.stack(np.unravel_index(np.arange(math.prod(block)), block), axis=1)
    largest = np.array(design.sizes) - 1
    smallest = np.zeros((len(prefixes), len(ways), len(largest)), np.uint32)
    smallest[:, :, :start] = prefixes[:, None, :]
    smallest[:, :, start : start + len(block)] = ways[None, :, :]
    if not start:  # in order already: all that is left is the largest string
        whole = smallest[0]
        return whole if (whole[-1] == largest).all() else np.append(whole, largest[None].astype(np.uint32), axis=0)
    tops = np.tile(largest, (len(prefixes), 1)).astype(np.uint32)
    tops[:, :start] = prefixes  # p11…1 exists for every p, unlike what comes after it
    ends = np.stack([np.zeros(len(largest)), largest]).astype(np.uint32)
    return np.unique(np.concatenate([smallest.reshape(-1, len(largest)), tops, ends]), axis=0)


def mistakes(counts: Counts, names: Sequence[str], label: str, thresholds: Codes) -> Integers:
    """For every threshold, the rows of label 1 below it and of label 0 at or above it."""
    table = counts.fold(Ranks(tuple(names), label, thresholds))
    below = np.cumsum(table, axis=0)[:-1]  # rows with rank ≤ i lie below threshold i
    return np.asarray(below[:, 1] + table[:, 0].sum() - below[:, 0])  # [mistakes]


class Ranks(Kernel):
    """A kernel for ``fold``: rows by how many thresholds they reach, and by label."""

    def __init__(self, names: tuple[str, ...], label: str, thresholds: Codes) -> None:
        self.names, self.label, self.thresholds = names, label, thresholds
        self.attributes = (*names, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        rank = reached([batch.column(name).to_numpy() for name in self.names], self.thresholds)
        cells = 2 * rank + batch.column(self.label).to_numpy()
        return np.bincount(cells, minlength=2 * len(self.thresholds) + 2).reshape(-1, 2).astype(np.int64)


def reached(columns: Sequence[NDArray[np.integer]], thresholds: Codes) -> Integers:
    """For every row, how many of the thresholds, which are in order, it is at or above."""
    rows = np.stack(columns, axis=1).astype(np.uint32)
    rank = np.empty(len(rows), np.int64)
    compile_loop(_reached)(rows, thresholds, rank)
    return rank


def _reached(rows: Codes, thresholds: Codes, rank: Integers) -> None:
    features = rows.shape[1]
    for i in range(len(rows)):
        low, high = 0, len(thresholds)
        while low < high:
            middle, j = (low + high) // 2, 0
            while j < features and rows[i, j] == thresholds[middle, j]:
                j += 1
            if j == features or rows[i, j] > thresholds[middle, j]:
                low = middle + 1
            else:
                high = middle
        rank[i] = low
