"""What a person is in a table: the column that names people, and how many rows of each are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nabladp.checks import expect, is_whole
from nabladp.errors import DataError, quote

MOST_ROWS = 10**6  # of one person
_KEYS = ("id", "rows", "row_id")


@dataclass(frozen=True)
class Person:
    """One person in a table of many rows each.

    ``id`` is the column that names people. At most ``rows`` rows of each are used: the first in the order of the column
    ``row_id``, or without one the first as they stand in the table. Neither column is an attribute: no mechanism reads
    them, and they need no domain. Which rows are used must not depend on what a row says about a person, so ``row_id``
    has to be given by the system that keeps the rows, such as a running number; without one, the table must not be
    sorted by what its rows say.

    Without ``id``, ``rows`` is a promise of the table's owner, which nothing checks.
    """

    id: str | None = None
    rows: int = 1
    row_id: str | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.rows, 1, MOST_ROWS):
            raise DataError(
                f"The rows of a person must be a whole number from 1 to {MOST_ROWS:,}.",
                fix='Write rows = 5 beside "id".',
            )
        for what, column in (("id", self.id), ("row_id", self.row_id)):
            if column is not None and (not isinstance(column, str) or not column.strip()):
                raise DataError(f"The {what!r} of a person is the name of a column.", fix='Write id = "patient".')
        if self.row_id is not None and (self.id is None or self.row_id == self.id):
            raise DataError(
                "'row_id' orders the rows of a person, who has an 'id' of another name.",
                fix='Write id = "patient" and row_id = "visit".',
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that bound a person's rows, and that no mechanism reads."""
        return tuple(name for name in (self.id, self.row_id) if name is not None)

    @property
    def unit(self) -> dict[str, Any]:
        """What all releases of a ledger must agree on."""
        return {"id": self.id, "rows": self.rows}

    def agrees(self, other: Person) -> bool:
        return self.unit == other.unit

    def __str__(self) -> str:
        if self.id is not None:
            return f"at most {self.rows:,} row{'s' * (self.rows > 1)} for each {quote(self.id)}"
        return "one row per person" if self.rows == 1 else f"at most {self.rows:,} rows per person, as promised"

    def to_json(self) -> dict[str, Any]:
        return self.unit | ({} if self.row_id is None else {"row_id": self.row_id})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Person:
        given = expect(data, Mapping, "A person", 'Write {"id": "patient", "rows": 5}.', DataError)
        if not {"id", "rows"} <= given.keys() <= set(_KEYS):
            raise DataError("A person has an id, rows and perhaps a row_id.", fix='Write {"id": "patient", "rows": 5}.')
        return cls(**{key: given[key] for key in given})
