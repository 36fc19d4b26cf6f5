"""How released values read where nothing more is known about their mechanism: their table, their predicted error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

INTERVAL = ("low", "high")


@dataclass(frozen=True)
class Layout:
    """Columns of a table by their places: those that name a row, its value if that is a number, the value's interval.

    The value stands right before ``low`` and ``high``; a table without them has it in its last column. What stands
    before the value names the row.
    """

    names: tuple[int, ...]
    value: int | None
    interval: tuple[int, int] | None

    @classmethod
    def of(cls, table: pa.Table) -> Layout:
        words = table.column_names
        at = next((i for i in range(1, len(words) - 1) if tuple(words[i : i + 2]) == INTERVAL), None)
        value = len(words) - 1 if at is None else at - 1
        if format_of(table.schema.field(value).type) == "text":
            return cls(tuple(range(len(words))), None, None)
        return cls(tuple(range(value)), value, None if at is None else (at, at + 1))


def format_of(kind: pa.DataType) -> str:
    """How values of an Arrow type are shown: as a "count", a "number" or a "text"."""
    import pyarrow.types as types

    return "count" if types.is_integer(kind) else "number" if types.is_floating(kind) else "text"


def plain(value: Any) -> Any:
    """Numbers and texts stay, everything else becomes text."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, int | float | str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def mean_error(expected: Any) -> float | None:
    """The predicted absolute error of a value, where errors are told marginal by marginal."""
    if isinstance(expected, Mapping) or not expected:
        return None
    cells = sum(int(part["cells"]) for part in expected)
    return math.fsum(part["cells"] * part["mean_absolute"] for part in expected) / cells
