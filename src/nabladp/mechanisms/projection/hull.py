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

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.projection.mixture import Mixture
from nabladp.workloads import Queries
from nabladp.workloads.cube import Cube, unravelled

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
            for place, name in enumerate(chosen):
                self._strides[row, at[name]] = math.prod(sizes[place + 1 :])
        self._starts = np.array([queries.offsets[chosen] for chosen in queries.sets])
        self._values: Any = (queries.matrix * (metric / queries.grids)[:, None]).tocsc()
        self._numbers = self._values.nnz / self._values.shape[1] * len(queries.sets)  # in a corner, about
        few = queries.cells * len(queries.sets) <= _LISTED_NUMBERS
        self._listed: Any = self._made(np.arange(queries.cells)) if few else None
        self._cube = None if few else Cube(queries)

    def scores(self, direction: Floats) -> Floats:
        """How far every record's corner lies in some direction."""
        if self._cube is None:
            return np.asarray(self._listed.T @ direction)
        return self._cube.scores(self.metric * direction)

    def middle(self) -> Floats:
        """The mean of all corners."""
        if self._cube is None:
            return np.asarray(self._listed.mean(axis=1)).ravel()
        return self.metric * self._cube.answers(self._cube.uniform())

    def corners(self, records: Integers) -> Any:
        """The coordinates of some records' answers: a sparse column each."""
        return self._made(records) if self._listed is None else self._listed[:, records]

    def _made(self, records: Integers) -> Any:
        from scipy.sparse import csc_array

        codes = np.array(unravelled(records, self.sizes)).reshape(len(self.sizes), -1)
        cells = (self._strides @ codes + self._starts[:, None]).T  # one cell of every set for each record
        ends = np.arange(0, cells.size + 1, cells.shape[1])
        inside = csc_array((np.ones(cells.size), cells.ravel(), ends), shape=(self._values.shape[1], len(cells)))
        return csc_array(self._values @ inside)

    def promising(self, scores: Floats, above: float) -> Integers:
        """The best records that no change of one attribute betters: far beyond the point, and unlike each other."""
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
        """The point of the hull nearest to the target, to within a gap of ``tolerance`` (squared, in the metric).

        Where the target turns out to lie no further than ``enough`` from the hull, the search ends as well.
        """
        goal = self.metric * target
        held = Mixture(goal, self.middle())
        first = np.array([np.argmax(self.scores(goal))])
        held.admit(first, self.corners(first))
        tolerance = max(tolerance, _DOUBLES * float(self.metric @ self.metric))
        most_held = min(most_held, int(_HELD_NUMBERS / max(1.0, self._numbers)))
        found, since = Nearest(target, 0.0, math.inf, False), 0
        for _ in range(_ROUNDS):
            held.settle()
            point = held.point()
            beyond = goal - point
            scores = self.scores(beyond)
            moved = float(beyond @ beyond)
            unsure = rounding(self.metric, moved)
            gap = max(0.0, 2 * float(scores.max() - point @ beyond)) + unsure  # [gap]
            since = since + 1 if gap >= found.gap else 0
            done = gap <= max(tolerance, 2 * unsure) or moved <= enough
            if done or moved - gap > found.moved - found.gap:  # what is certain to be gained
                found = Nearest(point / self.metric, moved, gap, done)
            if done or since > _PATIENCE:
                break
            new = np.setdiff1d(self.promising(scores, float(point @ beyond)), held.records)
            if len(held.records) + len(new) > most_held or not len(new) or not held.admit(new, self.corners(new)):
                break
        return found


def rounding(metric: Floats, moved: float) -> float:
    """More than the rounding of shares, as doubles, can matter in a gap."""
    return _ROUNDING * math.sqrt(len(metric) * float(metric @ metric)) * (1 + math.sqrt(moved))
