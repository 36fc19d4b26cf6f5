"""One line of the ledger, the hash that chains it to the line before, and the refusals that all modules share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nabladp.errors import LedgerError, SourceError
from nabladp.privacy.guarantee import Guarantee

FORMAT = 3  # of the tables, the triggers and the entries; another format is refused, never guessed at
FIRST = "0" * 64  # stands for the hash before the first entry
TEST = "TEST — NOT PRIVATE"
SPENDING = ("reserve", "external")  # the kinds that cost something; their names are unique
ENDING = ("bind", "failed", "void")  # the kinds that refer to a reservation
KINDS = ("open", "format", "schema", "person", "budget", *SPENDING, *ENDING)


@dataclass(frozen=True)
class Entry:
    """``kind`` is one of KINDS; ``ref`` is the number of the reservation that is bound, failed or voided (of the
    ``failed`` entry where a failed reservation is voided)."""

    seq: int
    kind: str
    name: str
    ref: int | None
    time: str
    payload: Mapping[str, Any]
    totals: Mapping[str, Any]
    previous: str
    hash: str

    @property
    def test(self) -> bool:
        return self.payload.get("stamp") == TEST

    @property
    def ticket(self) -> str | None:
        """A ledger entry's ticket, made by the client for each request, so that a repeated one is recognised."""
        return self.payload.get("ticket")

    @property
    def seeded(self) -> bool:
        return bool(self.payload.get("seeded", False))

    @property
    def details(self) -> Mapping[str, Any]:
        details: Mapping[str, Any] = self.payload.get("details", {})
        return details

    @property
    def digest(self) -> str | None:
        """The digest of the release that this ledger entry binds."""
        return self.payload.get("digest")

    @property
    def reason(self) -> str | None:
        """Why a reservation failed or was voided, or why the budget was changed."""
        return self.payload.get("reason")

    @property
    def exceeded(self) -> tuple[str, ...]:
        """The limits that an external release left exceeded."""
        return tuple(self.payload.get("exceeded", ()))

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee that a ledger entry spends, if it spends."""
        return Guarantee.from_json(self.payload["guarantee"]) if "guarantee" in self.payload else None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Row:
    """An entry as it is stored: payload and totals are the very text that was hashed."""

    seq: int
    kind: str
    name: str
    ref: int | None
    time: str
    payload: str
    totals: str
    previous: str
    hash: str

    @classmethod
    def seal(cls, draft: Draft, seq: int, time: str, totals: Mapping[str, Any], previous: str) -> Row:
        body = (seq, draft.kind, draft.name, draft.ref, time, canonical(draft.payload), canonical(totals))
        return cls(*body, previous=previous, hash=digest_of(previous, *body))

    def intact(self) -> bool:
        body = (self.seq, self.kind, self.name, self.ref, self.time, self.payload, self.totals)
        return self._has_valid_types() and self.hash == digest_of(self.previous, *body)

    def entry(self) -> Entry:
        try:
            payload, totals = json.loads(self.payload), json.loads(self.totals)
            if not isinstance(payload, dict) or not isinstance(totals, dict) or not self._has_valid_types():
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise LedgerError(
                f"Entry {self.seq} of the ledger cannot be read: it was changed.",
                fix="Restore the ledger from a backup.",
            ) from None
        return Entry(self.seq, self.kind, self.name, self.ref, self.time, payload, totals, self.previous, self.hash)

    def _has_valid_types(self) -> bool:
        """Whether a stored entry's columns have the right types: SQLite keeps any type in any column."""
        texts = (self.kind, self.name, self.time, self.payload, self.totals, self.previous, self.hash)
        numbers = (self.seq,) if self.ref is None else (self.seq, self.ref)
        return all(type(text) is str for text in texts) and all(type(number) is int for number in numbers)


@dataclass(frozen=True)
class Draft:
    """An entry before it has a number, totals and a hash."""

    kind: str
    name: str
    payload: Mapping[str, Any]
    ref: int | None = None

    def with_number(self, seq: int, time: str) -> Entry:
        return Entry(seq, self.kind, self.name, self.ref, time, self.payload, {}, "", "")


def canonical(value: Any) -> str:
    """Canonical JSON of a ledger entry: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(previous: str, *body: str | int | None) -> str:
    return hashlib.sha256(canonical([previous, *body]).encode()).hexdigest()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def check_name(name: Any, what: str = "name") -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
        raise LedgerError(f"The {what} must be a short printable text.", fix=f"Give a {what} such as 'census-2026'.")
    return name


def check_text(text: Any, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise LedgerError(f"A {what} is needed and goes on record.", fix=f"Give the {what} in a few words.")
    return text


def check_format(written: int, label: str, *, older: bool) -> None:
    """Refuse a ledger of another format; ``older`` allows those that we can read and bring up to date."""
    if written == FORMAT or (older and 0 < written < FORMAT):
        return
    age = "newer" if written > FORMAT else "older"
    if written > FORMAT:
        fix = "Update nabladp."
    elif written > 0:
        fix = "Run `nabladp ledger migrate` on it, once; nothing that is booked changes."
    else:
        fix = "Use the version that wrote it."
    raise LedgerError(f"The ledger {label!r} has the {age} format {written}, not {FORMAT}.", fix=fix, format=written)


def broken_ledger(label: str) -> LedgerError:
    return LedgerError(
        f"The chain of the ledger {label!r} is broken: an entry was changed or is missing.",
        fix="Run `nabladp ledger verify` to see which, and restore the ledger from a backup.",
    )


class NoLedger(SourceError):
    """There is no ledger where one was expected. None is ever created on the way."""


def no_ledger(label: str) -> NoLedger:
    return NoLedger(
        f"There is no ledger {label!r}.",
        fix="Check the path, and that its disk is mounted. To create one, run `nabladp ledger create plan.toml` or add "
        "--new-ledger to `nabladp release`; in Python, use Ledger.create or Session(…, new_ledger=True).",
    )
