"""For mechanisms that have no view of their own: their table of values, drawn where it holds numbers to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nabladp.release import Release
from nabladp.release.layout import Layout, format_of, mean_error, plain
from nabladp.report.views.view import Series, View, brief, several, stored, worded

MOST_ROWS = 2000
FILE = "values.parquet"


def generic_views(release: Release) -> list[View]:
    """Bars with intervals where the values have names and numbers; beside them what was predicted of their error."""
    table = release.output.to_arrow(release.schema)
    view = replace(table_view("values", table, FILE), facts=predicted(release.expected_error))
    layout = Layout.of(table)
    if layout.value is None or not layout.names:
        return [view]
    drawn = table.column_names[layout.value]
    series = Series(drawn, layout.value, *(layout.interval or (None, None)))
    caption = f"{drawn} of every row" + (", with its interval" if layout.interval else "")
    return [replace(view, kind="bars", names=layout.names, series=[series], caption=caption, signed=True)]


def predicted(error: Any) -> list[tuple[str, str]]:
    """What a mechanism said of its error before anything was read, in its own words."""
    if isinstance(error, Mapping):
        return [(f"predicted error: {label}", worded(value)) for label, value in error.get("summary", {}).items()]
    if not error:
        return []
    scales = [part["scale"] for part in error]
    ends = dict.fromkeys(worded(float(scale)) for scale in (min(scales), max(scales)))
    return [
        ("noise of a count", f"scale {' to '.join(ends)}"),
        ("predicted error of a count", f"{worded(mean_error(error))} on average"),
    ]


def table_view(title: str, table: Any, file: str) -> View:
    """The first rows of an Arrow table."""
    shown = table.slice(0, MOST_ROWS)
    listed = [column.to_pylist() for column in shown.columns]
    more = table.num_rows > MOST_ROWS
    return View(
        title=title,
        kind="table",
        columns=[stored(field.name, format_of(field.type), place) for place, field in enumerate(table.schema)],
        rows=[[_shown(value) for value in row] for row in zip(*listed, strict=True)],
        summary=several(table.num_rows, "row"),
        notes=[f"The first {MOST_ROWS:,} of {table.num_rows:,} rows; all are in {file}."] if more else [],
    )


def _shown(value: Any) -> Any:
    return brief(value) if isinstance(value, float) else plain(value)
