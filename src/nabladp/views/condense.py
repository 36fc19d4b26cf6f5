"""Views of large tables, condensed to what a page can show: values of long axes added up in groups, or the first rows.

All of it stays in the published table; a view says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.views.tables import VALUES_FILE
from nabladp.views.view import MOST_SQUARES, ONE_SERIES, Cells, Column, Series, View, cell_axes, marginal_kind

MOST_GROUPS = {1: 200}  # of an axis that stands alone
MOST_BESIDE = 50  # groups of an axis beside others
SCALES = ("at", "dates", "edges")


def condense(view: View, most: int = MOST_SQUARES) -> View:
    """The view with at most so many rows. Where its rows are all combinations of some axes, neighbouring values of long
    ordered axes are added up; otherwise the first rows are shown."""
    if len(view.rows) <= most:
        return view
    return _grouped(view, most) or _first(view, most)


def _first(view: View, most: int) -> View:
    note = f"The first {most:,} of {len(view.rows):,} rows; all are in {VALUES_FILE}."
    columns = [replace(column, source=_shortened(column.source, most)) for column in view.columns]
    return replace(view, kind="table", columns=columns, rows=view.rows[:most], series=[], notes=[*view.notes, note])


def _shortened(source: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """An axis without the labels that the first rows do not use."""
    if "axis" not in source:
        return source
    used = math.ceil(rows / source["every"])
    kept = {key: value for key, value in source.items() if key not in SCALES}
    return {**kept, "axis": source["axis"][:used], "ordered": min(source.get("ordered", 0), used)}


def _grouped(view: View, most: int) -> View | None:
    """The view with groups of neighbouring values; None where its rows are not all combinations, or too few of its axes
    are ordered."""
    axes = [view.columns[i] for i in view.names]
    if not axes or any("axis" not in column.source for column in axes):
        return None
    kept = _added_up(view)
    sizes = [len(column.source["axis"]) for column in axes]
    if not kept or math.prod(sizes) != len(view.rows):
        return None
    tables = [table.reshape(sizes) for table in _tables(view, kept)]
    labels, ordered = [list(c.source["axis"]) for c in axes], [c.source.get("ordered", 0) for c in axes]
    scales = [{key: c.source[key] for key in SCALES if key in c.source} for c in axes]
    notes = list(view.notes)
    for axis in sorted(range(len(axes)), key=lambda i: -ordered[i]):
        others = math.prod(_least(own, ordered[i]) for i, own in enumerate(labels) if i != axis)
        groups = min(MOST_GROUPS.get(len(axes), MOST_BESIDE), max(2, most // others))
        if math.prod(map(len, labels)) <= most or ordered[axis] <= groups:
            continue
        starts = np.arange(0, ordered[axis], math.ceil(ordered[axis] / groups))
        notes.append(
            f"The {ordered[axis]:,} values of {axes[axis].name} are added up in {len(starts):,} groups; every cell, "
            f"with its interval, is in {VALUES_FILE}."
        )
        ends = [*starts[1:].tolist(), ordered[axis]]
        rest = labels[axis][ordered[axis] :]
        bounds = np.concatenate([starts, np.arange(ordered[axis], len(labels[axis]))])
        tables = [np.add.reduceat(table, bounds, axis=axis) for table in tables]
        named = [_span(labels[axis], a, b - 1) for a, b in zip(starts.tolist(), ends, strict=True)]
        edges = scales[axis].get("edges")
        scales[axis] = {"edges": [edges[place] for place in [*starts.tolist(), ordered[axis]]]} if edges else {}
        labels[axis], ordered[axis] = named + rest, len(named)
    if math.prod(map(len, labels)) > most:
        return None
    named_axes = cell_axes([column.name for column in axes], labels, ordered, scales)
    return _view_of_tables(view, named_axes, kept, tables, notes)


def _least(labels: Sequence[str], ordered: int) -> int:
    """How many groups an axis will have at most, once it is its turn."""
    return len(labels) - ordered + min(ordered, MOST_BESIDE)


def _span(labels: Sequence[str], first: int, last: int) -> str:
    return labels[first] if first == last else f"{labels[first]} … {labels[last]}"


def _added_up(view: View) -> list[int]:
    """The columns of a view that may be added up: counts and shares that stand in its rows and are no interval."""
    ends = {end for series in view.series for end in (series.low, series.high)}
    return [
        number
        for number, column in enumerate(view.columns)
        if number not in ends and column.format in ("count", "share") and set(column.source) == {"place"}
    ]


def _tables(view: View, kept: Sequence[int]) -> list[NDArray[Any]]:
    """The columns of numbers of a view, one number for each row; what is missing counts as not a number."""
    places = [view.columns[number].source["place"] for number in kept]
    if isinstance(view.rows, Cells):
        return [view.rows.columns[place] for place in places]
    rows = view.rows if isinstance(view.rows[0], list) else [[value] for value in view.rows]
    return [np.array([row[place] for row in rows], dtype=np.float64) for place in places]


def _view_of_tables(
    view: View, axes: list[Column], kept: Sequence[int], tables: Sequence[NDArray[Any]], notes: Sequence[str]
) -> View:
    sizes = [len(column.source["axis"]) for column in axes]
    columns = list(axes)
    columns += [replace(view.columns[number], source={"place": place}) for place, number in enumerate(kept)]
    at = {number: len(axes) + place for place, number in enumerate(kept)}
    series = [Series(own.name, at[own.value]) for own in view.series if own.value in at]
    kind = marginal_kind(sizes, dots=len(series) > 1 and len(sizes) > 1)
    return replace(
        view,
        kind=kind,
        columns=columns,
        rows=Cells(*tables),
        series=series[:1] if kind in ("bars", *ONE_SERIES) else series,
        names=range(len(axes)),
        notes=notes,
        ordered=len(axes) == 1,
    )
