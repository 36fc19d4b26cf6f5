"""The nearest point of a hull: all answers that some table, or some mixture of tables, could give.

The hull's corners are the answers of single records. They are mostly far too many to keep, but one transform scores
them all (:class:`Cube`), which finds the corners that lie farthest beyond the present point. So the point is held as a
mixture of few corners: each round adds several of the best, then moves to the nearest mixture of the corners held,
exactly, and lets go of those that it does not need (Wolfe's nearest point, several corners at a time). It stops when
the gap says that no point of the hull can be noticeably nearer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.workloads import Queries
from nabladp.workloads.cube import Cube, unravel

# ---- the nearest mixture of a few corners ----------------------------------------------------------------------------

_INDEPENDENT = 1e-8  # a corner nearer than this (relative, squared) to the plane of those held adds nothing
_SMALL_VECTOR, _SMALL_MATRIX, _LARGE = 1 << 13, 1 << 17, 1 << 26  # multiplications
_MANY = 256  # vectors
_WRONG = 1e-8  # the relative residual from which the inverse is worked out afresh


class Mixture:
    """Corners with weights that add up to 1, and the inverse of their Gram matrix B about some origin.

    B = (V − o)ᵀ(V − o) + c·11ᵀ is positive definite where no corner lies in the plane of the others. On Σw = 1 the
    squared distance from Vw to the goal is wᵀBw − 2bᵀw and a constant, with b = (V − o)ᵀ(goal − o): it is least at
    B⁻¹(b + λ1). Taking corners in or out changes the inverse by a small product; a look at the residual tells when
    rounding has piled up, and then it is worked out afresh.
    """

    def __init__(self, goal: Floats, origin: Floats) -> None:
        from scipy.sparse import csc_array

        self.records: Integers = np.zeros(0, dtype=np.int64)
        self.weights: Floats = np.zeros(0)
        self._goal, self._origin = goal - origin, origin
        self._origin_squared = float(origin @ origin)
        self._shift = 0.0
        self._corners: Any = csc_array((len(goal), 0))
        self._from_origin: Floats = np.zeros(0)  # ⟨v, o⟩ of each corner
        self._pull: Floats = np.zeros(0)  # b
        self._gram: Floats = np.zeros((0, 0))
        self._inverse: Floats = np.zeros((0, 0))

    def point(self) -> Floats:
        return np.asarray(self._corners @ self.weights)

    def admit(self, records: Integers, corners: Any) -> int:
        """Take corners of the hull into the mixture, with weight 0 (the first with 1); returns how many lie outside the
        plane of the others."""
        from scipy.sparse import hstack

        from_origin = corners.T @ self._origin
        if not len(self.records):
            self._shift = float(corners.power(2).sum()) + self._origin_squared or 1.0
        own = self._products(corners, from_origin, corners, from_origin)
        cross = self._products(self._corners, self._from_origin, corners, from_origin)
        through = _product(self._inverse, cross)
        through += _product(self._inverse, cross - _product(self._gram, through))  # refined: what is left may be tiny
        apart = own - _product(cross.T, through)
        kept, inner = _invert(apart, np.diag(own))
        if not len(kept):
            return 0
        cross, through = cross[:, kept], through[:, kept]
        outer = _product(through, inner)
        self._inverse = np.block([[self._inverse + _product(outer, through.T), -outer], [-outer.T, inner]])
        self._gram = np.block([[self._gram, cross], [cross.T, own[np.ix_(kept, kept)]]])
        self._corners = hstack([self._corners, corners[:, kept]], format="csc")
        pull = corners[:, kept].T @ self._goal - self._origin @ self._goal
        self._pull = np.concatenate([self._pull, pull])
        self._from_origin = np.concatenate([self._from_origin, from_origin[kept]])
        fresh = np.zeros(len(kept)) if len(self.records) else np.eye(len(kept))[0]
        self.weights = np.concatenate([self.weights, fresh])
        self.records = np.concatenate([self.records, records[kept]])
        return len(kept)

    def _products(self, one: Any, from_one: Floats, other: Any, from_other: Floats) -> Floats:
        """(v − o)·(v' − o) + c for all pairs of the mixture's corners v, v' and origin o."""
        shift = self._origin_squared + self._shift
        return np.asarray((one.T @ other).toarray() - from_one[:, None] - from_other[None, :] + shift)

    def settle(self) -> None:
        """Move to the point of the mixture's corners nearest to the goal, and drop corners with no weight in it."""
        alive = np.ones(len(self.weights), dtype=bool)
        while True:
            aim = self._least(alive)
            falling = np.flatnonzero(aim < 0)
            if not len(falling):
                self.weights = aim
                break
            # Towards the least point of the plane, as far as all weights allow; who gets to zero first, leaves.
            reach = self.weights[falling] / (self.weights[falling] - aim[falling])
            leaving = falling[reach <= reach.min()]
            moved = np.maximum(self.weights + reach.min() * (aim - self.weights), 0)
            moved[leaving] = 0
            self.weights = moved / moved.sum()
            alive[leaving] = False
            self._forget(leaving)
        if not alive.all():
            self._compact(alive)

    def _least(self, alive: NDArray[np.bool_]) -> Floats:
        """Weights (of any sign) of the point nearest to the goal in the plane of the corners ``alive``."""
        towards, plane = self._solve(self._pull, alive), self._solve(np.ones(len(alive)), alive)
        if towards is None or plane is None:
            self._afresh(alive)
            towards, plane = self._solve(self._pull, alive), self._solve(np.ones(len(alive)), alive)
        if towards is None or plane is None:
            return self.weights
        weights = towards + (1 - towards.sum()) / plane.sum() * plane
        return np.asarray(weights / weights.sum())

    def _solve(self, wanted: Floats, alive: NDArray[np.bool_]) -> Floats | None:
        """B⁻¹ times a column, B the corners' Gram matrix, refined a few times; None where the inverse is too far
        off."""
        wanted = np.where(alive, wanted, 0)
        size = float(np.abs(wanted).max()) + 1e-300
        solved = _product(self._inverse, wanted)
        for _ in range(4):
            residual = np.where(alive, wanted - _product(self._gram, solved), 0)
            wrong = float(np.abs(residual).max()) / size
            if not wrong > 1e-12:
                break
            solved = solved + _product(self._inverse, residual)
        return solved if wrong <= _WRONG else None

    def _afresh(self, alive: NDArray[np.bool_]) -> None:
        """The inverse computed anew from the corners' Gram matrix; a corner that now lies in the plane of others
        goes."""
        here = np.flatnonzero(alive)
        gram = self._gram[np.ix_(here, here)]
        kept, inner = _invert(gram, np.diag(gram))
        alive[:] = False
        alive[here[kept]] = True
        self._inverse[:] = 0
        self._inverse[np.ix_(alive, alive)] = inner
        self.weights = np.where(alive, self.weights, 0)
        self.weights = self.weights / self.weights.sum() if self.weights.any() else alive / alive.sum()

    def _forget(self, leaving: Integers) -> None:
        """Update the inverse Gram matrix for corners that leave, whose rows become zero."""
        columns = self._inverse[:, leaving]
        if len(leaving) == 1:
            pivot = max(float(columns[leaving[0], 0]), 1e-300)
            self._inverse -= columns * (columns[:, 0] / pivot)
        else:
            pivots = self._inverse[np.ix_(leaving, leaving)]
            kept, inner = _invert(pivots, np.diag(pivots), 0.0)
            self._inverse -= _product(_product(columns[:, kept], inner), columns[:, kept].T)
        self._inverse[leaving] = 0
        self._inverse[:, leaving] = 0

    def _compact(self, alive: NDArray[np.bool_]) -> None:
        both = np.ix_(alive, alive)
        self._inverse, self._gram = self._inverse[both], self._gram[both]
        self.records, self.weights = self.records[alive], self.weights[alive]
        self._from_origin, self._pull = self._from_origin[alive], self._pull[alive]
        self._corners = self._corners[:, alive]


def _product(one: Floats, other: Floats) -> Floats:
    """A matrix product in slices so small that no library starts threads for it.

    For so many small products threads would wait longer than they work, above all where the processor's cores are busy.
    """
    small = _SMALL_VECTOR if other.ndim == 1 else _SMALL_MATRIX
    work = one.shape[1] * math.prod(other.shape[1:])
    if not small < len(one) * work <= _LARGE:
        return np.asarray(one @ other)
    rows = max(1, small // work)
    return np.concatenate([one[start : start + rows] @ other for start in range(0, len(one), rows)])


def _invert(gram: Floats, size: Floats, tolerance: float = _INDEPENDENT) -> tuple[Integers, Floats]:
    """Corners of which none lies in the plane of the others, chosen by their Gram matrix, and the inverse of theirs.

    Gauss and Jordan's way, the vector farthest from those taken before coming next; in blocks where there are many.
    """
    if len(gram) > _MANY:
        return _invert_in_bulk(gram, size, tolerance)
    work = gram.copy()
    size = np.maximum(size, 1e-300)
    taken: list[int] = []
    apart = np.diag(work) / size
    while len(taken) < len(work):
        apart[taken] = -np.inf
        pivot = int(np.argmax(apart))
        if not apart[pivot] > tolerance:
            break
        row, column = work[pivot] / work[pivot, pivot], work[:, pivot].copy()
        column[pivot] = 0
        divisor = work[pivot, pivot]
        work -= column[:, None] * row
        work[:, pivot] = -column / divisor
        work[pivot] = row
        work[pivot, pivot] = 1 / divisor
        taken.append(pivot)
        apart = np.diag(work) / size
    kept = np.sort(np.array(taken, dtype=np.int64))
    inner = work[np.ix_(kept, kept)]
    return kept, (inner + inner.T) / 2


def _invert_in_bulk(gram: Floats, size: Floats, tolerance: float) -> tuple[Integers, Floats]:
    from scipy.linalg import lapack

    root = np.sqrt(np.maximum(size, 1e-300))
    scaled = gram / np.outer(root, root)
    _, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=tolerance)
    kept = np.asarray(np.sort(order[:rank] - 1), dtype=np.int64)
    factor, failed = lapack.dpotrf(scaled[np.ix_(kept, kept)], lower=1)
    if failed:  # rounding has the last word: the part before it is sound
        kept = kept[: failed - 1]
        factor = factor[: failed - 1, : failed - 1]
    half = np.tril(lapack.dpotri(factor, lower=1)[0])
    return kept, np.asarray((half + np.tril(half, -1).T) / np.outer(root[kept], root[kept]))


# ---- the hull --------------------------------------------------------------------------------------------------------

ADDED = 60  # corners taken in at a time
_POOL = 4096  # the best corners, among which those without a better neighbour are picked
_ROUNDS, _PATIENCE = 500, 40
_LISTED_NUMBERS = 1 << 19  # where all corners together have no more numbers than this, they are listed
_HELD = 4096  # corners held at most
_HELD_NUMBERS = 1 << 25  # numbers in them, at most
_DOUBLES = 1e-13  # of the squared size of the hull: a gap that doubles cannot tell from none
_ROUNDING = 2.0**-48  # relative, of a coordinate that is a share


@dataclass(frozen=True)
class Nearest:
    """A point near the target. Distances are squared, in the metric asked for.

    For every t in the hull ‖point − t‖² ≤ ‖target − t‖² − moved + gap, whether or not the search was finished.
    """

    point: Floats
    moved: float
    gap: float
    finished: bool = True


class Hull:
    """The hull of all records over the columns of some queries; ``metric`` multiplies the coordinates."""

    def __init__(self, queries: Queries, metric: Floats) -> None:
        self.metric = metric
        self.sizes = queries.schema.sizes(queries.names)
        at = {name: axis for axis, name in enumerate(queries.names)}
        self._strides = np.zeros((len(queries.sets), len(at)), dtype=np.int64)
        for row, chosen in enumerate(queries.sets):
            sizes = queries.schema.sizes(chosen)
            for axis, name in enumerate(chosen):
                self._strides[row, at[name]] = math.prod(sizes[axis + 1 :])
        self._starts = np.array([queries.offsets[chosen] for chosen in queries.sets])
        self._values: Any = (queries.matrix * (metric / queries.grids)[:, None]).tocsc()
        self._numbers = self._values.nnz / self._values.shape[1] * len(queries.sets)  # in a corner, about
        few = queries.cells * len(queries.sets) <= _LISTED_NUMBERS
        self._listed: Any = self._made(np.arange(queries.cells)) if few else None
        self._cube = None if few else Cube(queries)

    def scores(self, direction: Floats) -> Floats:
        """How far every record's corner of the hull lies in some direction."""
        if self._cube is None:
            return np.asarray(self._listed.T @ direction)
        return self._cube.scores(self.metric * direction)

    def middle(self) -> Floats:
        """The mean of all corners of the hull."""
        if self._cube is None:
            return np.asarray(self._listed.mean(axis=1)).ravel()
        return self.metric * self._cube.answers(self._cube.uniform())

    def corners(self, records: Integers) -> Any:
        """The query answers of some records as corners of the hull: a sparse column each."""
        return self._made(records) if self._listed is None else self._listed[:, records]

    def _made(self, records: Integers) -> Any:
        from scipy.sparse import csc_array

        codes = np.array(unravel(records, self.sizes)).reshape(len(self.sizes), -1)
        cells = (self._strides @ codes + self._starts[:, None]).T  # one cell of every set for each record
        ends = np.arange(0, cells.size + 1, cells.shape[1])
        inside = csc_array((np.ones(cells.size), cells.ravel(), ends), shape=(self._values.shape[1], len(cells)))
        return csc_array(self._values @ inside)

    def promising(self, scores: Floats, above: float) -> Integers:
        """The best records to add as corners: far beyond the point, unlike each other, and not improved by changing one
        attribute."""
        pool = np.argpartition(scores, -_POOL)[-_POOL:] if len(scores) > _POOL else np.arange(len(scores))
        pool = pool[scores[pool] > above]
        best = np.ones(len(pool), dtype=bool)
        right = 1
        for size in reversed(self.sizes):
            first = pool - (pool // right % size) * right
            for slot in range(size):
                best &= scores[pool] >= scores[first + slot * right]
            right *= size
        pool = np.sort(pool[best])
        return pool[np.argsort(-scores[pool], kind="stable")[:ADDED]]

    def nearest(self, target: Floats, tolerance: float, most_held: int = _HELD, enough: float = 0.0) -> Nearest:
        """Project: the point of the hull nearest to the target, to within a gap of ``tolerance`` (squared, in the
        metric).

        Where the target turns out to lie no further than ``enough`` from the hull, the search ends as well.
        """
        goal = self.metric * target
        held = Mixture(goal, self.middle())
        first = np.array([np.argmax(self.scores(goal))])
        held.admit(first, self.corners(first))
        tolerance = max(tolerance, _DOUBLES * float(self.metric @ self.metric))
        most_held = min(most_held, int(_HELD_NUMBERS / max(1.0, self._numbers)))
        result, since = Nearest(target, 0.0, math.inf, False), 0
        for _ in range(_ROUNDS):
            held.settle()
            point = held.point()
            beyond = goal - point
            scores = self.scores(beyond)
            moved = float(beyond @ beyond)
            unsure = rounding(self.metric, moved)
            gap = max(0.0, 2 * float(scores.max() - point @ beyond)) + unsure  # [gap]
            since = since + 1 if gap >= result.gap else 0
            done = gap <= max(tolerance, 2 * unsure) or moved <= enough
            if done or moved - gap > result.moved - result.gap:  # what is certain to be gained
                result = Nearest(point / self.metric, moved, gap, done)
            if done or since > _PATIENCE:
                break
            new = np.setdiff1d(self.promising(scores, float(point @ beyond)), held.records)
            if len(held.records) + len(new) > most_held or not len(new) or not held.admit(new, self.corners(new)):
                break
        return result


def rounding(metric: Floats, moved: float) -> float:
    """An upper bound on the effect of rounding in the gap of a projection onto the hull."""
    return _ROUNDING * math.sqrt(len(metric) * float(metric @ metric)) * (1 + math.sqrt(moved))
