"""What one person is, as a ledger records it: all its releases must bound the change of the same person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nabladp.errors import LedgerError
from nabladp.person import Person
from nabladp.privacy.ledger.entry import SPENDING, Entry


def has_spent(entries: Iterable[Entry]) -> bool:
    """Whether anything was ever booked in the ledger, voided or not."""
    return any(entry.kind in SPENDING for entry in entries)


def stated_person(payload: Mapping[str, Any]) -> Person:
    person = Person.from_json(payload["person"])
    if person.row_id is not None:
        raise LedgerError("A ledger records the id and the rows of a person.", fix="Restore it from a backup.")
    return person


def other_person(known: Person | None, given: Person) -> LedgerError:
    """The refusal of a ledger on which something was spent on people of another kind."""
    booked = "what one person is was not on record when it was written" if known is None else f"it is for {known}"
    return LedgerError(
        f"This ledger is not for {given}: {booked}.",
        fix="Release with the same 'id' and 'rows'; or use another ledger, and book there what was spent here with "
        "`nabladp ledger record-external`.",
    )
