"""Some of a table's rows, told by their places, as a table of its own: for holding rows out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from nabladp.arrays import Integers
from nabladp.errors import DataError
from nabladp.schema import Schema
from nabladp.tables.counts import Counts, Kernel, Progress
from nabladp.tables.marginals import Marginals


class PartOfRows:
    """The rows at ``places`` (sorted, counted from 0), or all the others with ``inside=False``. Offers counts only.

    Who chooses places at random makes the choice independent of the rows' order: then it does not matter that a table
    is sorted by what its rows say.
    """

    def __init__(self, counts: Counts, places: Integers, inside: bool = True) -> None:
        sorted_once = bool((np.diff(places) > 0).all())
        if places.ndim != 1 or not sorted_once or (len(places) and not 0 <= places[0] <= places[-1] < counts.n):
            raise DataError("Places are numbers of rows, sorted.", fix="Give each once, counted from 0.")
        self._counts = counts
        self._places = places
        self._inside = inside

    @property
    def n(self) -> int:
        return len(self._places) if self._inside else self._counts.n - len(self._places)

    @property
    def schema(self) -> Schema:
        return self._counts.schema

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        kernel = Marginals(self.schema, sets)
        return kernel.split(self.fold(kernel, progress)) if kernel.sets else []

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        return self._counts.fold(_Chosen(kernel, self._places, self._inside), progress)


class _Chosen:
    by_position = True

    def __init__(self, kernel: Kernel, places: Integers, inside: bool) -> None:
        self.kernel = kernel
        self.places = places
        self.inside = inside
        if hasattr(kernel, "attributes"):
            self.attributes = kernel.attributes

    def __call__(self, batch: pa.RecordBatch, first: int) -> Integers:
        before, after = np.searchsorted(self.places, (first, first + batch.num_rows)).tolist()
        chosen = np.full(batch.num_rows, not self.inside)
        chosen[self.places[before:after] - first] = self.inside
        part = batch.filter(pa.array(chosen))
        if getattr(self.kernel, "by_position", False):  # it counts its own rows
            return self.kernel(part, before if self.inside else first - before)
        return self.kernel(part)
