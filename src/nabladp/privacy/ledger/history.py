"""Following a ledger entry by entry: for every use, up to its last entry; for ``verify``, past every problem.

Each entry is checked by the rules of state.py when it is first met. How far a user has come in a long ledger is noted
in a small file of that user's own, outside the ledger, so that the next process starts from there. ``verify`` never
looks at that note.

Whoever can rewrite the whole file can also recompute every hash after the change; only a hash kept elsewhere (each
release keeps its entry's) shows that.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import LedgerError, NablaDPError
from nabladp.privacy.ledger.entry import ENDING, SPENDING, Entry, Row, broken_ledger, check_format
from nabladp.privacy.ledger.limits import Totals
from nabladp.privacy.ledger.state import IllegalEntry, Past, State, judge, link_problems, next_state, wrong_totals

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Transaction

_LONG = 1_000  # entries after which a note is worth its file


class Follower:
    """The books of one ledger as this process has checked them. Asked again, it looks at the new entries only."""

    def __init__(self, label: str, ledger: str) -> None:
        self._label = label
        self._checked = State(ledger)
        self._noted = 0

    def state(self, transaction: Transaction, *, lock: bool = False) -> State:
        """The ledger's books at the last entry. ``lock`` keeps other writers out until the transaction ends."""
        seq, hash_ = transaction.head(lock=lock)
        written, ledger = transaction.identity()
        if lock:
            check_format(written, self._label, older=False)  # another client may have brought it up to date meanwhile
        state = self._checked
        if ledger != state.ledger:
            raise LedgerError(
                f"The ledger {self._label!r} was replaced by another one while in use.", fix="Open it again."
            )
        if not state.seq and seq >= _LONG:
            state = _noted_state(transaction, ledger) or state
            self._noted = state.seq
        last = transaction.at(seq)
        if last is None or last.hash != hash_ or not last.intact() or transaction.highest() != seq or seq < state.seq:
            raise broken_ledger(self._label)
        try:
            for rows in _pages(transaction, state.seq):
                state = _follow(state, rows, transaction)
        except IllegalEntry as error:
            raise _illegal_entry(error, self._label) from None
        if (state.seq, state.hash) != (seq, hash_) or state.format != written:
            raise broken_ledger(self._label)
        self.mark_checked(state)
        return state

    def mark_checked(self, state: State) -> None:
        """Mark ledger entries up to here as checked, also where this process has just written them."""
        if state.seq > self._checked.seq:
            self._checked = state
        if state.seq >= self._noted + _LONG:
            self._noted = state.seq
            _note(state)


# ---- how far this user has come --------------------------------------------------------------------------------------


def _note(state: State) -> None:
    """Note the checked books beside the ledger, best effort: without the note, the next process checks every entry
    again."""
    path = _note_path(state.ledger)
    with suppress(OSError, RuntimeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        draft.write_text(json.dumps(state.to_json()), encoding="utf-8")
        os.replace(draft, path)


def _noted_state(transaction: Transaction, ledger: str) -> State | None:
    """The books at the noted entry of the ledger, if that entry is still what it was."""
    try:
        state = State.from_json(json.loads(_note_path(ledger).read_text(encoding="utf-8")))
        row = transaction.at(state.seq)
        same = row is not None and row.intact() and row.hash == state.hash and state.ledger == ledger
        return state if same and row is not None and Totals.from_json(row.entry().totals) == state.totals else None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, AttributeError, NablaDPError):
        return None


def _note_path(ledger: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "nabladp" / "ledgers" / hashlib.sha256(ledger.encode()).hexdigest()[:32]


def _pages(transaction: Transaction, after: int) -> Iterator[list[Row]]:
    while rows := transaction.page(after):
        yield rows
        after = rows[-1].seq


def _follow(state: State, rows: Sequence[Row], transaction: Transaction) -> State:
    past = PagePast(transaction, rows)
    for row in rows:
        state = next_state(state, row, past)
        past.add(row)
    return state


def _illegal_entry(error: IllegalEntry, label: str) -> LedgerError:
    return IllegalEntry(f"The ledger {label!r} is broken: {error.message}", seq=error.seq, what=error.what)


class PagePast(Past):
    """The past of the rows of one page, fetched in a few statements; rows are added as they are passed."""

    def __init__(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        self._transaction = transaction
        self._before = rows[0].seq
        refs = [row.ref for row in rows if row.kind in ENDING and isinstance(row.ref, int)]
        referred = transaction.by_numbers(refs)
        # A void of a failure asks for the reservation behind it
        referred += transaction.by_numbers(
            [row.ref for row in referred if row.kind == "failed" and row.ref is not None]
        )
        self._rows = {row.seq: row for row in referred if row.seq < self._before}
        self._ends = {row.ref: row for row in transaction.referring(refs, self._before)}
        self._names = transaction.names_in_use([row.name for row in rows if row.kind in SPENDING], self._before)

    def add(self, row: Row) -> None:
        self._rows[row.seq] = row
        if row.ref is not None:
            self._ends[row.ref] = row
        if row.kind in SPENDING:
            self._names.add(row.name)

    def entry(self, seq: int) -> Entry | None:
        row = self._rows.get(seq)
        return None if row is None else row.entry()

    def end_of(self, seq: int) -> Entry | None:
        row = self._ends.get(seq)
        return None if row is None else row.entry()

    def has_name(self, name: str) -> bool:
        return name in self._names

    def entries(self) -> Iterable[Entry]:
        here = sorted(seq for seq in self._rows if seq >= self._before)
        earlier = takewhile(lambda row: row.seq < self._before, self._transaction.walk())
        return (row.entry() for row in chain(earlier, (self._rows[seq] for seq in here)))


@dataclass(frozen=True)
class Problem:
    """``what`` is changed, missing, order, totals, illegal, head or rights; ``seq`` is the entry it is about."""

    seq: int
    what: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"seq": self.seq, "what": self.what, "text": self.text}


def problems(transaction: Transaction) -> Iterator[Problem]:
    """Every problem in a ledger, in order of the entries."""
    written, ledger = transaction.identity()
    head, state = transaction.head(), State(ledger)
    first = transaction.at(1)
    if first is not None and (stated := _identity(first)) not in (None, ledger):
        yield Problem(1, "changed", "The ledger's identity was changed after it was written.")
        state = State(str(stated))
    for rows in _pages(transaction, 0):
        past = PagePast(transaction, rows)
        for row in rows:
            if row.seq != state.seq + 1:
                yield _missing(state.seq + 1, row.seq - 1)
                state = replace(state, seq=row.seq - 1, hash=row.previous)
            state, faults = _check_row(state, row, past)
            yield from faults
            past.add(row)
    yield from _problems_at_the_end(state, head, written)
    for text in transaction.rights_problems():
        yield Problem(head[0], "rights", text)


def _check_row(state: State, row: Row, past: Past) -> tuple[State, list[Problem]]:
    """The books after this ledger row whatever it is, and what is wrong with it."""
    faults = link_problems(state, row)
    try:
        after, recorded = judge(replace(state, seq=row.seq - 1), row, past)
        if after.totals != recorded:
            faults.append(wrong_totals(row))
    except IllegalEntry as error:
        faults.append(error)
        after, recorded = replace(state, seq=row.seq, hash=row.hash), _recorded_totals(state, row)
    # The entries after it are judged by what it states, so that each reports its own fault
    return replace(after, totals=recorded), [Problem(error.seq, error.what, error.message) for error in faults]


def _recorded_totals(state: State, row: Row) -> Totals:
    """The totals that an illegal ledger entry states, where that can be read."""
    try:
        return Totals.from_json(row.entry().totals)
    except (LedgerError, KeyError, TypeError, ValueError, AttributeError):
        return state.totals


def _identity(opening: Row) -> str | None:
    """The ledger's identity as its opening entry states it, where that can be read."""
    try:
        stated = opening.entry().payload.get("ledger")
    except LedgerError:
        return None
    return stated if isinstance(stated, str) else None


def _problems_at_the_end(state: State, head: tuple[int, str], written: int) -> Iterator[Problem]:
    if state.seq < head[0]:
        yield _missing(state.seq + 1, head[0])
    elif (state.seq, state.hash) != head:
        yield Problem(head[0], "head", "The head does not point at the last entry.")
    if written != state.format and state.format:
        yield Problem(state.seq, "head", f"The tables state format {written}, the entries format {state.format}.")


def _missing(first: int, last: int) -> Problem:
    text = f"Entry {first} is missing." if first == last else f"Entries {first} to {last} are missing."
    return Problem(first, "missing", text)
