"""Queries on distributions over all records: one fast transform holds the answers to every marginal at once.

Along each axis the first slot is replaced by the sum of all slots (for bits this is the zeta transform of subsets). The
slot with values v on some attributes and 0 elsewhere then holds the mass of all records that have these values there.
Every query is a combination of a few slots, so all answers cost one transform, O(d·|X|), and one small sparse product;
and the reverse, a score for every record from a coefficient for every query, costs the same.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.workloads.queries import Queries

_SHORT = 64  # axes with fewer records behind them are summed in a turned copy, where memory lies better


class Cube:
    """All records over the columns of some queries, in a fixed order: the last column runs fastest."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.names = queries.names
        self.sizes = queries.schema.sizes(queries.names)
        self.cells = math.prod(self.sizes)
        self.slots, self._mix = self._combinations()
        self._mix_back = self._mix.T.tocsr()
        split = len(self.sizes)
        while split and math.prod(self.sizes[split - 1 :]) <= _SHORT:
            split -= 1
        self._shape = (math.prod(self.sizes[:split]), math.prod(self.sizes[split:]))
        self._head = _axes(self.sizes[:split], self._shape[1])
        self._tail = _axes(self.sizes[split:], self._shape[0])
        row, column = np.divmod(self.slots, self._shape[1])
        self._turned_slots = column * self._shape[0] + row

    def answers(self, mass: Floats) -> Floats:
        """Every query's answer under a mass for each record of the cube."""
        sums = _sum_up(mass.copy(), self._head)
        sums = _sum_up(sums.reshape(self._shape).T.ravel(), self._tail)
        return np.asarray(self._mix @ sums[self._turned_slots])

    def scores(self, coefficients: Floats) -> Floats:
        """For each record of the cube, Σ over queries of coefficient times value: the transpose of :meth:`answers`."""
        scores = np.zeros(self.cells)
        scores[self._turned_slots] = self._mix_back @ coefficients
        scores = _spread_out(scores, self._tail)
        return _spread_out(scores.reshape(self._shape[::-1]).T.ravel(), self._head)

    def records(self, cells: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """The codes of some records of the cube, by column."""
        return dict(zip(self.names, unravel(cells, self.sizes), strict=True))

    def uniform(self) -> Floats:
        return np.full(self.cells, 1 / self.cells)

    def _combinations(self) -> tuple[NDArray[np.int64], Any]:
        """The slots of the transformed cube that matter, and the matrix from them to the queries."""
        from scipy.sparse import block_diag, coo_array, csr_array

        stride = dict(zip(self.names, np.cumprod([1, *self.sizes[:0:-1]])[::-1].tolist(), strict=True))
        cells, blocks = [], []
        for chosen in self.queries.sets:
            sizes = self.queries.schema.sizes(chosen)
            codes = np.indices(sizes).reshape(len(sizes), -1)
            cells.append(sum(code * stride[name] for code, name in zip(codes, chosen, strict=True)))
            blocks.append(_undo(sizes))
        slots, column = np.unique(np.concatenate(cells), return_inverse=True)
        merge = coo_array((np.ones(len(column)), (np.arange(len(column)), column)), shape=(len(column), len(slots)))
        scaled = csr_array(self.queries.matrix / self.queries.grids[:, None])
        mix = csr_array(scaled @ (block_diag(blocks, format="csr") @ merge.tocsr()))
        mix.eliminate_zeros()
        return slots, mix


def unravel(cells: NDArray[np.int64], sizes: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """The codes of each column from cell numbers; as numpy's own, for any number of columns."""
    codes, rest = [], np.asarray(cells, dtype=np.int64)
    for size in reversed(sizes):
        rest, code = np.divmod(rest, size)
        codes.append(code)
    return codes[::-1]


def _axes(sizes: tuple[int, ...], inner: int) -> list[tuple[int, int, int]]:
    """Each axis of the cube as (records before it, its size, records behind it), where ``inner`` more lie behind the
    last."""
    return [(math.prod(sizes[:axis]), size, math.prod(sizes[axis + 1 :]) * inner) for axis, size in enumerate(sizes)]


def _sum_up(table: Floats, axes: list[tuple[int, int, int]]) -> Floats:
    """The cube's transform, in place: along each axis, slot 0 becomes the sum of all slots."""
    for before, size, behind in axes:
        view = table.reshape(before, size, behind)
        for slot in range(1, size):
            view[:, 0] += view[:, slot]
    return table


def _spread_out(table: Floats, axes: list[tuple[int, int, int]]) -> Floats:
    """The transpose of the cube's transform, in place: along each axis, slot 0 is added to all others."""
    for before, size, behind in axes:
        view = table.reshape(before, size, behind)
        view[:, 1:] += view[:, :1]
    return table


@lru_cache(maxsize=256)
def _undo(sizes: tuple[int, ...]) -> Any:
    """The matrix from a set's transformed slots back to the cells of its marginal: slot 0 loses all others, along each
    axis."""
    from scipy.sparse import csr_array, eye_array, kron

    matrix: Any = csr_array(np.ones((1, 1)))
    for size in sizes:
        others = np.arange(1, size)
        lost = csr_array((np.full(size - 1, -1.0), (np.zeros(size - 1, np.int64), others)), shape=(size, size))
        matrix = kron(matrix, eye_array(size, format="csr") + lost, format="csr")
    return matrix
