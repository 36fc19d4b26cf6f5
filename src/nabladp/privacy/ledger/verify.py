"""Walking the chain: is every entry still what was written, are all there, and do the totals follow?

Whoever can rewrite the whole file can also recompute every hash after the change; only a hash kept elsewhere (each
release keeps its entry's) shows that. Everything less is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from nabladp.errors import NablaDPError
from nabladp.privacy.budget import Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import FIRST, Entry, Row
from nabladp.privacy.ledger.standing import after_budget, standing_guarantees
from nabladp.privacy.ledger.totals import Keys, Totals, cost_of, keys_of
from nabladp.privacy.universe import Universe


@dataclass(frozen=True)
class Problem:
    """``what`` is changed, missing, order, totals or head; ``seq`` is the entry it is about."""

    seq: int
    what: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"seq": self.seq, "what": self.what, "text": self.text}


def problems(ledger: str, head: tuple[int, str], highest: int, rows: Callable[[], Iterable[Row]]) -> Iterator[Problem]:
    """In order of the entries. ``head`` and ``highest`` were read together; later entries are not looked at."""
    head_seq, head_hash = head
    books = _Books(rows)
    last_seq, last_hash = 0, FIRST
    for row in rows():
        if row.seq > max(head_seq, highest):
            break
        if row.seq != last_seq + 1:
            yield _missing(last_seq + 1, row.seq - 1)
        elif row.previous != last_hash:
            yield Problem(row.seq, "order", f"Entry {row.seq} does not follow the entry before it.")
        if not row.intact():
            yield Problem(row.seq, "changed", f"Entry {row.seq} was changed after it was written.")
        if not books.follow(row):
            yield Problem(row.seq, "totals", f"The totals of entry {row.seq} do not follow from what was booked.")
        last_seq, last_hash = row.seq, row.hash
    if last_seq < head_seq:
        yield _missing(last_seq + 1, head_seq)
    elif (last_seq, last_hash) != (head_seq, head_hash):
        yield Problem(head_seq, "head", "The head does not point at the last entry.")
    if books.ledger is not None and books.ledger != ledger:
        yield Problem(1, "changed", "The ledger's identity was changed after it was written.")


def _missing(first: int, last: int) -> Problem:
    return Problem(
        first, "missing", f"Entry {first} is missing." if first == last else f"Entries {first} to {last} are missing."
    )


class _Books:
    """Recomputes each entry's totals from the recorded totals before it and from what the entry says."""

    def __init__(self, rows: Callable[[], Iterable[Row]]) -> None:
        self._rows = rows
        self._totals: Totals | None = None
        self._universe = Universe(())
        self._keys: Keys = {}
        self._open: dict[int, Guarantee] = {}  # reservations not bound or voided so far
        self.ledger: str | None = None

    def follow(self, row: Row) -> bool:
        try:
            entry = row.entry()
            recorded = Totals.from_json(entry.totals)
            expected = self._after(entry)
        except (NablaDPError, KeyError, TypeError, ValueError, AttributeError):
            self._totals = None  # unreadable: it is reported as it stands, and the next entry starts afresh
            return False
        follows = expected is None or expected == recorded
        self._totals = recorded
        return follows

    def _after(self, entry: Entry) -> Totals | None:
        """None where the entry before could not be read."""
        if entry.kind == "open":
            self.ledger = entry.payload["ledger"]
        if entry.kind in ("open", "schema"):
            self._universe = Universe.from_json(entry.payload["universe"])
        before, keys = self._totals, self._keys
        if entry.kind in ("open", "budget"):
            limits = [Limit.from_json(limit) for limit in entry.payload["limits"]]
            self._keys = keys_of(self._universe, limits)
        guarantee = entry.guarantee
        if guarantee is not None and entry.kind == "reserve":
            self._open[entry.seq] = guarantee
        ended = self._open.pop(entry.ref, None) if entry.ref is not None else None
        if entry.kind == "open":
            return Totals(entry.seq, entry.seq, {})
        if before is None:
            return None
        if entry.kind == "schema":
            return Totals(before.budget, entry.seq, before.spent)
        if entry.kind == "budget":
            return after_budget(before, entry.seq, keys, self._keys, lambda: self._standing(entry.seq))
        if entry.kind == "void":
            return before.minus(cost_of(ended, keys)) if ended is not None else before
        return before if guarantee is None else before.plus(cost_of(guarantee, keys))

    def _standing(self, seq: int) -> Iterable[Guarantee]:
        earlier = takewhile(lambda row: row.seq < seq, self._rows())
        return standing_guarantees(row.entry() for row in earlier)
