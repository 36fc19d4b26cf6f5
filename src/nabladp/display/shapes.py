"""Plots of released tables by the shape of their data, by altair: bars, lines, densities, heat maps, panels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from nabladp.display.plots import altair_module
from nabladp.errors import ReleaseError, quote
from nabladp.release.record import Release
from nabladp.views import Column, View
from nabladp.views.condense import condense
from nabladp.views.exports import short_text

LINES_FROM, DATES_FROM = 16, 4  # numbers and dates from which a line is drawn
_BLUE, _INK, _SOFT = "#0072B2", "#1a1a1a", "#cfe4f2"
_MOST_LISTED = 8


def plot_view(release: Release, title: str | None = None) -> Any:
    """The plot of the first view of a release that is drawn, or of the one with this title."""
    drawn = [view for view in release.views() if view.kind != "table" and view.series and view.rows]
    found = next((view for view in drawn if title in (None, view.title)), None)
    if found is None:
        titles = ", ".join(view.title for view in drawn[:_MOST_LISTED]) or "none; to_pandas() has the values"
        wrong = "Nothing of this release is drawn." if title is None else f"No plot has the title {quote(title)}."
        raise ReleaseError(wrong, fix=f"Drawn are: {titles}.")
    view = condense(found)
    chart, rest = _chart(view, _rows(view))
    sentences = [f"{row['name']}: {short_text(row['value'])}" for row in rest]  # which have no place on the scale
    return chart.properties(title=altair_module().TitleParams(view.title, subtitle=[view.caption, *sentences]))


def _rows(view: View) -> list[dict[str, Any]]:
    """A row for each number of the first series: its names, value, interval, and where it lies on a scale."""
    series = view.series[0]
    found = []
    for cells in view.read():
        names = {f"name{i}": str(cells[at]) for i, at in enumerate(view.names)}
        ends = {"low": series.low, "high": series.high}
        found.append(
            names
            | {"name": " · ".join(names.values()), "value": cells[series.value]}
            | {end: None if at is None else cells[at] for end, at in ends.items()}
        )
    return found


def _chart(view: View, rows: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """The chart of a view, and the rows that are not in it."""
    axes = [view.columns[number] for number in view.names]
    if view.kind == "heat":
        return _heat(rows, axes), []
    if view.kind == "panels":
        sizes = [len(axis.source["axis"]) for axis in axes]
        panel = sizes.index(min(sizes))
        sides = [i for i in range(3) if i != panel]
        alone = _heat(rows, [axes[i] for i in sides], sides)
        return alone.facet(
            facet=altair_module().Facet(f"name{panel}:N", sort=None, title=axes[panel].name), columns=3
        ), []
    scale = axes[0].source if len(axes) == 1 else {}
    placed, rest = rows[: scale.get("ordered", 0)], rows[scale.get("ordered", 0) :]
    if len(placed) >= DATES_FROM and "dates" in scale:
        return _line(placed, axes[0], "name:O"), rest
    if len(placed) >= LINES_FROM and "at" in scale:
        return _line([row | {"at": at} for row, at in zip(placed, scale["at"], strict=False)], axes[0]), rest
    if "edges" in scale and len(placed) > 1 and len({round(b - a, 9) for a, b in pairwise(scale["edges"])}) > 1:
        ends = pairwise(scale["edges"])
        return _density([row | {"from": a, "to": b} for row, (a, b) in zip(placed, ends, strict=False)], axes[0]), rest
    return _bars(rows, view), []


def _base(rows: list[dict[str, Any]]) -> Any:
    altair = altair_module()
    tips = [altair.Tooltip("name:N"), *(altair.Tooltip(f"{word}:Q") for word in ("value", "low", "high"))]
    return altair.Chart(altair.InlineData(values=rows)).encode(tooltip=tips)


def _bars(rows: list[dict[str, Any]], view: View) -> Any:
    altair = altair_module()
    base = _base(rows).encode(y=altair.Y("name:N", sort=None, title=None))
    axis = altair.X("value:Q", title=view.series[0].name)
    return base.mark_bar(color=_BLUE).encode(x=axis) + base.mark_rule(color=_INK).encode(x="low:Q", x2="high:Q")


def _line(rows: list[dict[str, Any]], axis: Column, by: str = "at:Q") -> Any:
    altair = altair_module()
    scale = altair.Scale(zero=False) if by == "at:Q" else altair.Undefined
    base = _base(rows).encode(x=altair.X(by, title=axis.name, scale=scale, sort=None))
    band = base.mark_area(color=_SOFT).encode(y=altair.Y("low:Q", title="value"), y2="high:Q")
    return band + base.mark_line(color=_BLUE).encode(y="value:Q")


def _density(rows: list[dict[str, Any]], axis: Column) -> Any:
    """Areas are in proportion to values: heights are values per unit of the scale."""
    altair = altair_module()
    heights = [
        row
        | {
            f"{word} per unit": None if row[word] is None else row[word] / (row["to"] - row["from"])
            for word in ("value", "low", "high")
        }
        | {"middle": (row["from"] + row["to"]) / 2, "zero": 0}
        for row in rows
    ]
    base = _base(heights)
    height = altair.Y("value per unit:Q")
    areas = base.mark_rect(color=_BLUE, stroke="white").encode(
        x=altair.X("from:Q", title=axis.name), x2="to:Q", y=height, y2="zero:Q"
    )
    return areas + base.mark_rule(color=_INK).encode(x="middle:Q", y="low per unit:Q", y2="high per unit:Q")


def _heat(rows: list[dict[str, Any]], axes: list[Column], at: list[int] | None = None) -> Any:
    altair = altair_module()
    down, across = at or [0, 1]
    return (
        _base(rows)
        .mark_rect()
        .encode(
            y=altair.Y(f"name{down}:N", sort=None, title=axes[0].name),
            x=altair.X(f"name{across}:N", sort=None, title=axes[1].name),
            color=altair.Color("value:Q", scale=altair.Scale(scheme="blues")),
        )
    )
