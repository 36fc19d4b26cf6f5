"""A reservation under way: for which of its entries noise was drawn, and what becomes of them when it fails."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.displayed import Stage
from nabladp.errors import DataError, DomainTooLarge, MissingPart, NablaDPError, SourceError, attach_facts
from nabladp.noise import NoiseSource
from nabladp.privacy import Ledger
from nabladp.privacy.ledger import Entry
from nabladp.release.publish import Pending
from nabladp.tables import Counts, Kernel, Progress

# ---- the counts of a table, as a mechanism sees them -----------------------------------------------------------------

_UNREADABLE = (DataError, SourceError, MissingPart, DomainTooLarge)
_MARKS = 50


class RowMarks:
    """Progress through the rows of one pass, reported at fixed marks.

    Where batches end depends on how long values are, so it is not reported.
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
        with self._reading(progress) as marks:
            return self.table.marginals(sets, marks)

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]:
        with self._reading(progress) as marks:
            return self.table.fold(kernel, marks)

    def dropped(self, most: int) -> int:
        with noting(self.faults):
            return self.table.dropped(most)

    @contextmanager
    def _reading(self, progress: Progress | None) -> Iterator[Progress | None]:
        self._passes += 1
        first = self._passes == 1
        with noting(self.faults):
            yield RowMarks(self.tell, f"{self.name}: counting rows") if first and progress is None else progress
        if first:
            self.tell(f"{self.name}: adding noise", 0, 0)

    def working(self, what: str, done: int, total: int) -> None:
        """Report how far a mechanism is with work of its own; ``what`` names the unit, e.g. "round".

        Only from public parameters and from what will be released.
        """
        self.tell(f"{self.name}: {what}", done, total)


@contextmanager
def noting(faults: list[BaseException]) -> Iterator[None]:
    """Note the error with which reading failed, to distinguish it from an error of the mechanism."""
    try:
        yield
    except _UNREADABLE as error:
        faults.append(error)
        raise


# ---- a reservation under way -----------------------------------------------------------------------------------------

_FAILED_READ = "reading failed before any noise was drawn"
_UNSEEN = "stopped before any output was seen"


@dataclass(frozen=True)
class Standing:
    """How entries stand after a failure: voided ones cost nothing, the others still count."""

    voided: tuple[str, ...]
    failed: tuple[str, ...]  # no noise was drawn for these, but this user may not void them
    reserved: tuple[str, ...]
    commands: tuple[str, ...]  # what voids those that still count
    folder: str | None = None  # where a finished release waits instead

    @property
    def note(self) -> str:
        if self.folder is not None:
            return f"The release is complete in {self.folder}; `nabladp ledger recover` publishes it."
        if not self.failed and not self.reserved:
            subject = "the reservation was" if len(self.voided) == 1 else "the reservations were"
            return f"Nothing was spent: reading failed before any noise was drawn, and {subject} voided."
        sentences = []
        if self.voided:
            sentences.append(f"Nothing was spent on {_listing(self.voided)}: no noise was drawn, and it was voided.")
        if self.failed:
            sentences.append(
                f"No noise was drawn for {_listing(self.failed)}, but only a grantor can void: it is recorded as "
                "failed and counts towards the budget until a grantor voids it."
            )
        if self.reserved:
            one = len(self.reserved) == 1
            it = "it" if one else "them"
            sentences.append(
                f"{_listing(self.reserved)} {'stays' if one else 'stay'} reserved and {'counts' if one else 'count'} "
                f"towards the budget. If nobody has seen any output of {it}, the ledger's owner can void {it}."
            )
        return " ".join(sentences)

    def to_json(self) -> dict[str, Any]:
        counting = [*self.failed, *self.reserved]
        body: dict[str, Any] = {"spent": bool(counting), "reserved": counting, "voided": list(self.voided)}
        body |= {"note": self.note, "commands": list(self.commands)}
        return body if self.folder is None else body | {"folder": self.folder}


class Attempt:
    """The entries of one reservation, from reserving to binding.

    Use :meth:`explain_failures` around all that happens in between, :meth:`running` around each mechanism's run, and
    :meth:`reading` around what reads rows outside of one.
    """

    def __init__(self, ledger: Ledger, entries: Sequence[Entry], noise: NoiseSource, pending: Pending | None) -> None:
        self._ledger, self._entries, self._noise, self._pending = ledger, entries, noise, pending
        self._touched: set[int] = set()  # noise was drawn for these, or may have been
        self.faults: list[BaseException] = []

    @contextmanager
    def running(self, entry: Entry) -> Iterator[None]:
        before = self._noise.draws
        try:
            yield
        except BaseException:
            if self._noise.draws != before:
                self._touched.add(entry.seq)
            raise
        self._touched.add(entry.seq)  # there is an output, with noise or without

    @contextmanager
    def reading(self) -> Iterator[None]:
        with noting(self.faults):
            yield

    @contextmanager
    def explain_failures(self) -> Iterator[None]:
        """Make an error of this attempt say which ledger entries still count, and how their owner can void them."""
        try:
            yield
        except BaseException as error:
            standing = self._standing(error)
            attach_facts(error, standing.to_json())
            if not isinstance(error, NablaDPError):
                error.add_note(" ".join((standing.note, *standing.commands)))
            raise

    def _standing(self, error: BaseException) -> Standing:
        names = {entry.seq: entry.name for entry in self._entries}
        if self._pending is not None and self._pending.is_complete:
            return Standing((), (), tuple(names.values()), (), self._pending.folder.name)
        ended = self._void_untouched(error)
        voided, failed = (tuple(e.name for e in ended if e.kind == kind) for kind in ("void", "failed"))
        over = {*voided, *failed}
        reserved = tuple(name for name in names.values() if name not in over)
        commands = [self._command(name, _FAILED_READ) for name in failed]
        commands += [self._command(name, _UNSEEN) for name in reserved]
        return Standing(voided, failed, reserved, tuple(commands))

    def _void_untouched(self, error: BaseException) -> list[Entry]:
        """Void the entries of a failed attempt where only reading failed, so that nothing was published; leave all
        others."""
        untouched = [entry for entry in self._entries if entry.seq not in self._touched]
        if not untouched or not isinstance(error, NablaDPError) or not any(error is fault for fault in self.faults):
            return []
        try:
            return self._ledger.fail_all([entry.seq for entry in untouched], f"{_FAILED_READ}: {_rule(error)}")
        except BaseException:  # the ledger may be out of reach: then they stay reserved, and the first error matters
            return []

    def _command(self, name: str, reason: str) -> str:
        return shlex.join(("nabladp", "ledger", "void", self._ledger.label, name, "--reason", reason))


def _rule(error: NablaDPError) -> str:
    """The rule that a table broke, for the ledger's record of a failure: the column and the rule, never a value or a
    path."""
    rule, column = error.fields.get("rule"), error.fields.get("column")
    if rule is None:
        return type(error).__name__
    return f"{rule}" if column is None else f"column {column!r} {rule}"


def _listing(names: Sequence[str], most: int = 3) -> str:
    quoted = ", ".join(repr(name) for name in names[:most])
    return quoted + (f" and {len(names) - most} more" if len(names) > most else "")
