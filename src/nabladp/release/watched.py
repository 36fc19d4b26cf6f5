"""The counts of a table, as a mechanism sees them: someone who waits is told, and a failed read is known as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from nabladp.displayed import Stage
from nabladp.errors import DataError, DomainTooLarge, MissingPart, SourceError
from nabladp.tables import Counts, Kernel, Progress

_UNREADABLE = (DataError, SourceError, MissingPart, DomainTooLarge)
_MARKS = 50


class RowMarks:
    """Progress through the rows of one pass, told at fixed marks.

    Where batches end depends on how long values are, so it is not told.
    """

    def __init__(self, tell: Stage, what: str) -> None:
        self._tell, self._what, self._passed = tell, what, 0

    def __call__(self, done: int, rows: int) -> None:
        marks = min(_MARKS, rows)
        while self._passed < marks * done // rows:
            self._passed += 1
            self._tell(self._what, rows * self._passed // marks, rows)


class Watched(Counts):
    """Counts that tell of the first pass over the rows, and of what the mechanism says about its own work.

    How many passes a mechanism makes may depend on the rows, and no budget pays for that: later passes are silent.
    ``faults`` collects the errors with which reading failed.
    """

    def __init__(self, table: Counts, name: str, tell: Stage, faults: list[BaseException] | None = None) -> None:
        self.table, self.name, self.tell = table, name, tell
        self.schema, self.one_process = table.schema, table.one_process
        self.faults: list[BaseException] = [] if faults is None else faults
        self._passes = 0

    @property
    def n(self) -> int:
        return self.table.n

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[NDArray[np.int64]]:
        with self._reading(progress) as told:
            return self.table.marginals(sets, told)

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]:
        with self._reading(progress) as told:
            return self.table.fold(kernel, told)

    @contextmanager
    def _reading(self, progress: Progress | None) -> Iterator[Progress | None]:
        self._passes += 1
        first = self._passes == 1
        with noting(self.faults):
            yield RowMarks(self.tell, f"{self.name}: counting rows") if first and progress is None else progress
        if first:
            self.tell(f"{self.name}: adding noise", 0, 0)

    def working(self, what: str, done: int, total: int) -> None:
        """How far a mechanism is with work of its own; ``what`` names the unit, e.g. "round".

        Only from public parameters and from what will be released.
        """
        self.tell(f"{self.name}: {what}", done, total)


@contextmanager
def noting(faults: list[BaseException]) -> Iterator[None]:
    """Keeps the error with which reading failed, by which it is told from an error of the mechanism."""
    try:
        yield
    except _UNREADABLE as error:
        faults.append(error)
        raise
