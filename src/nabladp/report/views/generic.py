"""For mechanisms that have no view of their own: the table of values."""

from __future__ import annotations

from typing import Any

from nabladp.release import Release
from nabladp.report.views.view import Column, View, brief, several

MOST_ROWS = 2000
_FORMATS = {"int": "count", "float": "number"}


def generic_views(release: Release) -> list[View]:
    return [table_view("values", release.output.to_arrow(release.schema), "values.parquet")]


def table_view(title: str, table: Any, file: str) -> View:
    """The first rows of an Arrow table."""
    shown = table.slice(0, MOST_ROWS)
    columns = [Column(field.name, _format(field.type), {"place": i}) for i, field in enumerate(table.schema)]
    listed = [column.to_pylist() for column in shown.columns]
    more = table.num_rows > MOST_ROWS
    return View(
        title=title,
        kind="table",
        columns=columns,
        rows=[[_plain(value) for value in row] for row in zip(*listed, strict=True)],
        summary=several(table.num_rows, "row"),
        notes=[f"The first {MOST_ROWS:,} of {table.num_rows:,} rows; all are in {file}."] if more else [],
    )


def _format(kind: Any) -> str:
    text = str(kind)
    return next((word for start, word in _FORMATS.items() if text.startswith((start, "u" + start))), "text")


def _plain(value: Any) -> Any:
    """Numbers and texts stay, everything else becomes text."""
    if isinstance(value, float):
        return brief(value)
    if value is None or isinstance(value, int | str):
        return value if not isinstance(value, bool) else str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
