"""Arrow tables as views: of values about which nothing more is known, and of synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nabladp.views.view import Series, View, count_of, format_figure, round_digits, value_column

if TYPE_CHECKING:
    import pyarrow as pa

INTERVAL = ("low", "high")
VALUE_AT = b"nabladp:value"  # in the metadata of a tidy table: the index of its value, which the interval follows
VALUES_FILE, SYNTHETIC_FILE = "values.parquet", "synthetic.parquet"
MOST_ROWS = 2000
PREVIEW = 50  # rows of a synthetic table


@dataclass(frozen=True)
class Layout:
    """Columns of a table by their numbers: those that name a row, its value if that is a number, the value's interval.

    A tidy table says where its value is. In others it stands right before ``low`` and ``high``; a table without them
    has it in its last column. The columns before the value name the row.
    """

    names: tuple[int, ...]
    value: int | None
    interval: tuple[int, int] | None

    @classmethod
    def of(cls, table: pa.Table) -> Layout:
        words, stated = table.column_names, (table.schema.metadata or {}).get(VALUE_AT)
        if stated is not None:
            value = int(stated)
            known = table.column(value + 1).null_count < table.num_rows
            return cls(tuple(range(value)), value, (value + 1, value + 2) if known else None)
        at = next((i for i in range(1, len(words) - 1) if tuple(words[i : i + 2]) == INTERVAL), None)
        value = len(words) - 1 if at is None else at - 1
        if arrow_format(table.schema.field(value).type) == "text":
            return cls(tuple(range(len(words))), None, None)
        return cls(tuple(range(value)), value, None if at is None else (at, at + 1))


def arrow_format(kind: pa.DataType) -> str:
    """The view format of an Arrow type: "count", "number" or "text"."""
    import pyarrow.types as types

    return "count" if types.is_integer(kind) else "number" if types.is_floating(kind) else "text"


def plain_value(value: Any) -> Any:
    """A value of an Arrow table for a view: numbers and texts stay, everything else becomes text."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, int | float | str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def generic_views(table: pa.Table, expected_error: Any) -> list[View]:
    """Views of any Arrow table of values: bars with intervals where values have names and numbers, otherwise the table.

    ``expected_error`` is in its JSON form.
    """
    view = replace(table_view("values", table, VALUES_FILE), facts=predicted_facts(expected_error))
    layout = Layout.of(table)
    if layout.value is None or not layout.names:
        return [view]
    column = table.column_names[layout.value]
    series = Series(column, layout.value, *(layout.interval or (None, None)))
    caption = f"{column} of every row" + (", with its interval" if layout.interval else "")
    return [replace(view, kind="bars", names=layout.names, series=[series], caption=caption, signed=True)]


def predicted_facts(error: Any) -> list[tuple[str, str]]:
    """A view's facts about the error that was predicted before anything was read, as a mechanism states it."""
    if isinstance(error, Mapping):
        return [(f"predicted error: {name}", format_figure(value)) for name, value in error.get("summary", {}).items()]
    if not error:
        return []
    scales = [part["scale"] for part in error]
    ends = dict.fromkeys(format_figure(float(scale)) for scale in (min(scales), max(scales)))
    return [
        ("noise of a count", f"scale {' to '.join(ends)}"),
        ("predicted error of a count", f"{format_figure(mean_error(error))} on average"),
    ]


def mean_error(expected: Any) -> float | None:
    """The predicted absolute error of a value, where errors are stated marginal by marginal."""
    if isinstance(expected, Mapping) or not expected:
        return None
    cells = sum(int(part["cells"]) for part in expected)
    return math.fsum(part["cells"] * part["mean_absolute"] for part in expected) / cells


def table_view(title: str, table: pa.Table, file: str) -> View:
    """The view of a table's first rows; ``file`` holds all."""
    columns = [column.to_pylist() for column in table.slice(0, MOST_ROWS).columns]
    more = table.num_rows > MOST_ROWS
    return View(
        title=title,
        kind="table",
        columns=[value_column(field.name, arrow_format(field.type), i) for i, field in enumerate(table.schema)],
        rows=[[_cell(value) for value in row] for row in zip(*columns, strict=True)],
        summary=count_of(table.num_rows, "row"),
        notes=[f"The first {MOST_ROWS:,} of {table.num_rows:,} rows; all are in {file}."] if more else [],
    )


def synthetic_preview(table: pa.Table) -> View:
    """The view of a synthetic table's first rows."""
    rows = count_of(table.num_rows, "row")
    first = f"The first {PREVIEW} of {rows}; all are in {SYNTHETIC_FILE}. " if table.num_rows > PREVIEW else ""
    view = table_view("synthetic rows", table.slice(0, PREVIEW), SYNTHETIC_FILE)
    return replace(view, summary=f"{rows} drawn from the model", notes=[f"{first}None of them is a person."])


def _cell(value: Any) -> Any:
    return round_digits(value) if isinstance(value, float) else plain_value(value)
