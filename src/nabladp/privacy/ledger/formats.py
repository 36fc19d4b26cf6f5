"""Formats of the tables, and how an older one becomes ours: once, in one transaction, on record in the chain.

Entries are never rewritten, so that every hash stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from nabladp.errors import LedgerError
from nabladp.privacy.ledger.entry import FORMAT

# From each format to the next: what changes in the tables. Triggers are always made anew.
CHANGES: Mapping[int, tuple[str, ...]] = {
    1: (),  # the triggers alone: in format 2 the head follows by itself, and nobody needs the right to move it
}


def statements_from(written: int) -> list[str]:
    return [statement for old in range(written, FORMAT) for statement in CHANGES[old]]


def check_format(written: int, label: str, *, older: bool) -> None:
    """Refuse another format; ``older`` allows those that we can read and bring up to date."""
    if written == FORMAT or (older and written in CHANGES):
        return
    age = "newer" if written > FORMAT else "older"
    if written > FORMAT:
        fix = "Update nabladp."
    elif written in CHANGES:
        fix = "Run `nabladp ledger migrate` on it, once; nothing that is booked changes."
    else:
        fix = "Use the version that wrote it."
    raise LedgerError(f"The ledger {label!r} has the {age} format {written}, not {FORMAT}.", fix=fix, format=written)
