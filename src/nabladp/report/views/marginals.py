"""Noisy marginals: bars for one attribute, a heat map for two, a table for more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nabladp.release import Release
from nabladp.report.views.view import Series, View, cell_axes, percent, several, shifted, stored, worded
from nabladp.schema import Schema

MOST_ACROSS, MOST_DOWN = 60, 150  # categories along the sides of a heat map; the longer one goes down
MOST_SQUARES = 2500


def marginal_views(release: Release) -> list[View]:
    tables = release.output.to_json()["tables"]
    return [_view(table, error, release.schema) for table, error in zip(tables, release.expected_error, strict=True)]


def shape_of(sizes: tuple[int, ...]) -> str:
    """How a table of all combinations is drawn."""
    if len(sizes) == 1:
        return "bars"
    drawable = len(sizes) == 2 and min(sizes) <= MOST_ACROSS and max(sizes) <= MOST_DOWN
    drawable &= math.prod(sizes) <= MOST_SQUARES
    return "heat" if drawable else "table"


def _view(table: Mapping[str, Any], error: Mapping[str, Any], schema: Schema) -> View:
    names, width, counts = table["attributes"], table["half_width"], table["counts"]
    sizes, many = schema.sizes(names), len(names)
    level = percent(table["level"])
    negative = any(count < 0 for count in counts)
    return View(
        title=" + ".join(names),
        kind=shape_of(sizes),
        columns=[
            *cell_axes(names, [schema[name].labels for name in names]),
            stored("count", "count"),
            shifted("low", "count", many, -width),
            shifted("high", "count", many, width),
        ],
        rows=counts,
        summary=f"{several(len(counts), 'cell')}, noise scale {worded(table['scale'])}, ±{width:,} with {level}",
        facts=[
            ("noise", f"discrete {table['noise'].capitalize()}, scale {worded(table['scale'])}"),
            ("predicted error of a count", f"{worded(error['mean_absolute'])} on average"),
            ("interval of each count", f"± {width:,} with probability {level}"),
        ],
        notes=["Noise takes small counts below zero; they are shown as released."] if negative else [],
        names=range(many),
        series=[Series("noisy count", many, many + 1, many + 2)],
        caption=f"Noisy counts with {level} intervals",
        ordered=many == 1 and schema[names[0]].is_ordered,
    )
