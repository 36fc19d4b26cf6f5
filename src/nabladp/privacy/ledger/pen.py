"""Writing: every entry gets its number, its totals and its place in the chain inside one transaction."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nabladp.errors import LedgerError
from nabladp.privacy.ledger.entry import FIRST, TEST, Draft, Entry, Row, canonical, now
from nabladp.privacy.ledger.rules import widened
from nabladp.privacy.ledger.standing import Standing
from nabladp.privacy.ledger.totals import Totals
from nabladp.privacy.universe import Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.transaction import Transaction


class Pen:
    """Holds the write lock. Collects rows on top of the standing entry; ``write_down`` puts them into the tables."""

    def __init__(
        self, transaction: Transaction, standing: Standing | None, *, test: bool, ticket: str | None = None
    ) -> None:
        self.transaction = transaction
        self._marks = {"ticket": ticket or uuid.uuid4().hex} | ({"stamp": TEST} if test else {})
        self._time = now()
        self._rows: list[Row] = []
        self._seq, self._hash = (standing.last.seq, standing.last.hash) if standing else (0, FIRST)
        self.totals = standing.totals if standing else Totals(1, 1, {})
        self.universe = standing.universe if standing else Universe(())

    @property
    def next(self) -> int:
        return self._seq + 1

    def add(self, draft: Draft, totals: Totals | None = None) -> int:
        """Returns its number. Totals stay as they are unless given."""
        self.totals = totals or self.totals
        stamped = Draft(draft.kind, draft.name, {**draft.payload, **self._marks}, draft.ref)
        row = Row.seal(stamped, self.next, self._time, self.totals.to_json(), self._hash)
        self._rows.append(row)
        self._seq, self._hash = row.seq, row.hash
        return row.seq

    def learn(self, universe: Universe) -> None:
        """Refuse another schema; record derived columns that are new."""
        wider = widened(self.universe, universe)
        if wider.derived.keys() != self.universe.derived.keys():
            totals = Totals(self.totals.budget, self.next, self.totals.spent)
            self.add(Draft("schema", "schema", {"universe": wider.to_json()}), totals)
            self.universe = wider

    def write_down(self) -> dict[int, Entry]:
        self.transaction.append(self._rows)
        return {row.seq: row.entry() for row in self._rows}

    def stands(self, transaction: Transaction) -> bool:
        """Whether what was written down is in the ledger. The ticket makes the hash unlike any other."""
        row = transaction.at(self._rows[-1].seq) if self._rows else None
        return row is not None and row.hash == self._rows[-1].hash

    def end_of(self, seq: int) -> Row | None:
        """What bound or voided this reservation, be it in this very transaction."""
        fresh = (row for row in self._rows if row.ref == seq)
        return next(fresh, None) or self.transaction.end_of(seq)

    def check_names(self, names: Sequence[str]) -> None:
        """Names are unique among all that was ever spent, so that a release is found by its name for good."""
        seen: set[str] = set()
        used = self.transaction.taken(names)
        for name in names:
            if name in used or name in seen:
                free = self._free(name, {*names})
                raise LedgerError(
                    f"The name {name!r} is already in the ledger.",
                    fix=f"Choose another, e.g. {free!r}.",
                    suggestion=free,
                )
            seen.add(name)

    def _free(self, name: str, asked: set[str]) -> str:
        stem = re.sub(r"-\d+$", "", name)
        number = 2 + self.transaction.beginning_with(f"{stem}-")
        while (free := f"{stem}-{number}") in asked or self.transaction.taken([free]):
            number += 1
        return free


def checked_name(name: Any, what: str = "name") -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
        raise LedgerError(f"The {what} must be a short printable text.", fix=f"Give a {what} such as 'census-2026'.")
    return name


def checked_text(text: Any, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise LedgerError(f"A {what} is needed and goes on record.", fix=f"Give the {what} in a few words.")
    return text


def checked_details(details: Mapping[str, Any]) -> dict[str, Any]:
    try:
        canonical(dict(details))
    except (TypeError, ValueError):
        raise LedgerError(
            "The details cannot be written as JSON.", fix="Use texts, finite numbers and lists."
        ) from None
    return dict(details)
