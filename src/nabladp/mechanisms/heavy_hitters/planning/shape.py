"""What the certificate of a tree depends on: which kinds of nodes there are, what they join, and how many of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.heavy_hitters.tree import Tree


@dataclass(frozen=True, eq=False)
class Shape:
    """Kinds are numbered, those of leaves first, then level by level. Two nodes of a kind have equal subtrees."""

    cells: Floats  # of every kind of leaf
    thresholded: NDArray[np.bool_]  # every kind of leaf
    joins: tuple[tuple[Integers, Integers], ...]  # for every level above: all children in a row, where each kind starts
    copies: Integers  # how many nodes there are of every kind

    @classmethod
    def of(cls, tree: Tree) -> Shape:
        leaves = [tree.nodes[position] for position in tree.levels[0]]
        cells = np.array([float(tree.cells(leaf)) for leaf in leaves])
        free = [float(tree.cells(leaf)) for leaf in leaves if not leaf.thresholded]
        kinds = _Kinds(cells)
        known = dict(zip(tree.levels[0], kinds.of_leaves.tolist(), strict=True))
        for level in tree.levels[1:]:
            joined = [[known[child] for child in tree.nodes[position].children] for position in level]
            known.update(zip(level, kinds.join(_padded(joined)).tolist(), strict=True))
        return kinds.shape(max(free, default=0.0))

    @classmethod
    def build(cls, cells: Floats, fan_out: int, free_cells: int) -> Shape:
        """The shape that ``Tree.build`` gives a tree with these leaves, without the tree."""
        kinds = _Kinds(cells)
        current = kinds.of_leaves
        while len(current) > 1:
            alone = len(current) % fan_out == 1  # the last one finds no sibling and stays what it is
            joined, left = (current[:-1], current[-1:]) if alone else (current, current[:0])
            padding = np.full(-len(joined) % fan_out, -1)
            above = kinds.join(np.concatenate([joined, padding]).reshape(-1, fan_out))
            current = np.concatenate([above, left])
        return kinds.shape(free_cells)

    @cached_property
    def lowest(self) -> int:
        """The lowest level with a threshold."""
        return 0 if self.thresholded.any() else 1

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """Where the kinds of every level are."""
        ends = np.cumsum([0, len(self.cells), *(len(starts) for _, starts in self.joins)]).tolist()
        return tuple(slice(first, end) for first, end in pairwise(ends))

    @cached_property
    def nodes(self) -> Integers:
        """How many thresholded nodes there are at every thresholded level."""
        leaves = int(self.copies[self.levels[0]][self.thresholded].sum())
        above = [int(self.copies[level].sum()) for level in self.levels[1:]]
        return np.array([leaves, *above][self.lowest :], dtype=np.int64)

    @cached_property
    def widest(self) -> float:
        """The largest product of free leaves that some node joins: that many cells must be counted."""
        if not self.joins:
            return float(self.cells[0])
        children, starts = self.joins[0]
        with np.errstate(over="ignore"):
            return float(np.multiply.reduceat(np.where(self.thresholded, 1.0, self.cells)[children], starts).max())


class _Kinds:
    """Kinds as they are found, level by level."""

    def __init__(self, cells: Floats) -> None:
        self._cells, self.of_leaves, copies = np.unique(cells, return_inverse=True, return_counts=True)
        self._joins: list[tuple[Integers, Integers]] = []
        self._copies = [copies]

    def join(self, children: Integers) -> Integers:
        """The kinds of nodes with these kinds of children, a row each, filled up with −1."""
        rows, kinds, copies = np.unique(children, axis=0, return_inverse=True, return_counts=True)
        starts = np.cumsum([0, *(rows[:-1] >= 0).sum(axis=1)])
        before = sum(map(len, self._copies))
        self._joins.append((rows[rows >= 0], starts))
        self._copies.append(copies)
        return before + kinds.reshape(-1)

    def shape(self, free_cells: float) -> Shape:
        alone = not self._joins
        return Shape(self._cells, (self._cells > free_cells) | alone, tuple(self._joins), np.concatenate(self._copies))


def _padded(rows: list[list[int]]) -> Integers:
    longest = max(map(len, rows))
    return np.array([[*row, *[-1] * (longest - len(row))] for row in rows], dtype=np.int64)
