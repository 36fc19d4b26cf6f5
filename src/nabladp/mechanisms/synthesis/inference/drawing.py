"""Rows drawn from a junction tree, with far less noise than independent draws would have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.noise import NoiseSource

_GOLDEN = (5**0.5 - 1) / 2


def draw_rows(tree: JunctionTree, beliefs: Sequence[Floats], rows: int, noise: NoiseSource) -> dict[str, NDArray[Any]]:
    """Codes of each attribute. Every cell of a cluster gets its expected count, given the rows of its parent's cells,
    rounded up or down."""
    codes: dict[str, NDArray[Any]] = {}
    for cluster, belief in zip(tree.clusters, beliefs, strict=True):
        shape = tree.cells(cluster.shared), tree.cells(cluster.rest)
        chances = belief.reshape(shape) if cluster.shared_first else belief.reshape(shape[::-1]).T
        group = np.zeros(rows, np.int64)
        for name in cluster.shared:
            group = group * tree.sizes[name] + codes[name]
        counts = np.bincount(group, minlength=shape[0])
        occurring = np.flatnonzero(counts)
        times = _rounded(chances[occurring], counts[occurring], noise).ravel()
        cells = np.repeat(np.tile(np.arange(shape[1]), len(occurring)), times)
        key = (group << 32) | noise.uniform_integers(1 << 32, rows)  # any order within a group
        drawn = np.empty(rows, np.int64)
        drawn[np.argsort(key)] = cells
        sizes = [tree.sizes[name] for name in cluster.rest]
        for name, part in zip(cluster.rest, np.unravel_index(drawn, sizes), strict=True):
            codes[name] = part.astype(_smallest(tree.sizes[name]))
    return {name: codes[name] for name in tree.sizes}


def _rounded(chances: Floats, counts: Integers, noise: NoiseSource) -> Integers:
    """Row i shares out counts[i] among its cells in proportion, each rounded up or down, right on average.

    A cell gets the whole numbers between the running sums before and after it, shifted by a uniform number; the shifts
    of neighbouring rows are spread evenly, so that what many rows round up in one place is balanced.
    """
    ends = np.cumsum(chances, axis=1)
    last = ends[:, -1:]
    shift = (noise.uniform_integers(1 << 53, 1)[0] * 2.0**-53 + _GOLDEN * np.arange(len(counts))) % 1.0
    share = np.divide(ends, last, out=np.zeros_like(ends), where=last > 0)
    marks = np.floor(share * counts[:, None] + shift[:, None]).astype(np.int64)
    marks[:, -1] = counts  # shift < 1: the last mark is the count itself
    return np.asarray(np.diff(marks, axis=1, prepend=0))


def _smallest(size: int) -> type[np.unsignedinteger]:
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32
