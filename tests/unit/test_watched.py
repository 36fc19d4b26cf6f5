"""What a mechanism sees of a table under watch: the table's own counts, and someone is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nabladp.errors import DataError, MechanismError, SourceError
from nabladp.release.attempt import Watched
from nabladp.tables import Counts


class Source(Counts):
    n = 7  # type: ignore[assignment]
    schema = "the schema"  # type: ignore[assignment]

    def marginals(self, sets: Any, progress: Any) -> list[Any]:
        if progress is not None:
            progress(3, 7)
        return [np.array([len(chosen)]) for chosen in sets]

    def fold(self, kernel: Any, progress: Any) -> Any:
        if progress is not None:
            progress(7, 7)
        return np.array([kernel])


def test_counts_pass_through_unchanged_and_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    watched = Watched(Source(), "first", lambda *stage: told.append(stage))  # type: ignore[arg-type]
    assert (watched.n, watched.schema) == (7, "the schema")
    assert [int(counts[0]) for counts in watched.marginals([["a"], ["a", "b"]])] == [1, 2]
    assert watched.fold(5).tolist() == [5]  # type: ignore[arg-type]
    assert told == [("first: counting rows", row, 7) for row in (1, 2, 3)] + [("first: adding noise", 0, 0)]


def test_later_passes_are_silent() -> None:
    """How many there are may depend on the rows."""
    told: list[tuple[str, int, int]] = []
    watched = Watched(Source(), "first", lambda *stage: told.append(stage))  # type: ignore[arg-type]
    watched.fold(5)  # type: ignore[arg-type]
    before = list(told)
    for _ in range(3):
        watched.fold(5)  # type: ignore[arg-type]
        watched.marginals([["a"]])
    assert told == before


def test_a_failed_read_is_told_from_an_error_of_the_mechanism() -> None:
    class Failing(Source):
        def fold(self, kernel: Any, progress: Any) -> Any:
            raise kernel

    faults: list[BaseException] = []
    watched = Watched(Failing(), "first", lambda *_: None, faults)  # type: ignore[arg-type]
    for error in (DataError("no"), SourceError("no"), ZeroDivisionError(), MechanismError("no")):
        with pytest.raises(type(error)):
            watched.fold(error)  # type: ignore[arg-type]
    assert [type(fault) for fault in faults] == [DataError, SourceError]


def test_a_progress_of_ones_own_is_used_instead() -> None:
    seen: list[tuple[int, int]] = []
    watched = Watched(Source(), "first", lambda *_: None)  # type: ignore[arg-type]
    watched.marginals([["a"]], lambda *rows: seen.append(rows))
    watched.fold(5, lambda *rows: seen.append(rows))  # type: ignore[arg-type]
    assert seen == [(3, 7), (7, 7)]


def test_a_mechanism_tells_of_its_own_work() -> None:
    told: list[tuple[str, int, int]] = []
    watched = Watched(Source(), "first", lambda *stage: told.append(stage))  # type: ignore[arg-type]
    watched.working("round", 3, 40)
    Source().working("round", 4, 40)  # nobody waits
    assert told == [("first: round", 3, 40)]
