"""A view of every kind, large enough to need several pieces on paper; and a page that shows just these."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from nabladp.release.shapes import Map
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.schema import Attribute
from nabladp.views.condense import condense
from nabladp.views.view import Cells, Column, Series, View, axis_column, cell_axes, offset_column, value_column

LONG = "a rather long name of one value among many others"


def every_kind() -> list[View]:
    numbers = np.random.default_rng(1).integers(-20, 400, 20_000)
    texts = [[f"row {i}", int(numbers[i]), *(f"text {i} of column {j}" for j in range(12))] for i in range(60)]
    return [
        _bars("bars", [f"value {i}" for i in range(75)], numbers),
        _bars("bars with long names", [f"{LONG} {i}" for i in range(12)], numbers),
        _bars("columns", [str(i) for i in range(260)], numbers, ordered=True),
        condense(_bars("a long axis", [str(i) for i in range(9999)], numbers, ordered=True)),
        _dots(numbers),
        _heat("heat map", 5, 4, numbers),
        _heat("large heat map", 70, 35, numbers, signed=True),
        condense(_heat("many cells", 900, 20, numbers)),
        _half(numbers),
        _pyramid(numbers),
        _line(numbers),
        _lines(numbers),
        _density(numbers),
        *_all_panels(numbers),
        _map(numbers),
        View("wide table", "table", [value_column(f"column {j}", index=j) for j in range(14)], texts, "60 rows"),
    ]


def page_of(views: list[View]) -> str:
    part = {"number": 0, "name": "views", "mechanism": "", "rows": [dict.fromkeys(HEADS, "") | {"title": "all"}]}
    context = {"title": "every kind", "notice": "", "marks": 0, "parts": [part]}
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js")
    blocks = {"views-0": [view.to_json() for view in views], "shapes": {"region": REGION_MAP.drawn(REGION)}}
    return assemble("comparison.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE))


HEADS = ("title", "summary", "cells", "predicted", "actual", "largest", "covered")


def _bars(title: str, labels: list[str], numbers: np.ndarray, *, ordered: bool = False) -> View:
    columns = [axis_column("name", labels, 1, len(labels) * ordered), *_count_columns(1)]
    rows, series = Cells(numbers[: len(labels)]), [Series("noisy count", 1, 2, 3)]
    line = None if ordered else (300.0, "a value to compare with")
    caption = "Noisy counts with 95% intervals"
    return View(
        title, "bars", columns, rows, f"{len(labels)} rows", series=series, caption=caption, ordered=ordered, line=line
    )


def _dots(numbers: np.ndarray) -> View:
    names = ("noisy", "low", "high", "model", "drawn rows")
    columns = [value_column("name"), *(value_column(name, "share", i) for i, name in enumerate(names, 1))]
    rows = [
        [f"combination = {i}", *(float(n) / 400 for n in (v, v - 30, v + 30, v + 9, v - 9))]
        for i, v in enumerate(numbers[:45])
    ]
    series = [Series("noisy", 1, 2, 3), Series("model", 4), Series("drawn rows", 5)]
    return View("dots", "dots", columns, rows, "45 rows", series=series, caption="Shares")


def _heat(title: str, down: int, across: int, numbers: np.ndarray, *, signed: bool = False) -> View:
    labels = [[f"row {i}" for i in range(down)], [f"column {i}" for i in range(across)]]
    columns = [*cell_axes(("down", "across"), labels, (down, 0)), value_column("count", "count")]
    rows, series = Cells(numbers[: down * across]), [Series("noisy count", 2)]
    return View(title, "heat", columns, rows, "all", names=(0, 1), series=series, caption="Noisy counts", signed=signed)


def _pyramid(numbers: np.ndarray) -> View:
    labels = [[*map(str, range(100)), "(null)"], ["female", "male"]]
    counts = (np.linspace(900, 60, 202) + numbers[:202]).astype(int)
    columns = [*cell_axes(("age", "sex"), labels, (100, 0)), *_count_columns(2)]
    given = {"names": (0, 1), "series": [Series("noisy count", 2, 3, 4)], "caption": "Noisy counts with 95% intervals"}
    return View("age by sex", "heat", columns, Cells(counts), "202 cells", **given)


def _line(numbers: np.ndarray) -> View:
    labels = [*map(str, range(100)), "(null)"]
    columns = [axis_column("age", labels, 1, 100, {"at": [float(i) for i in range(100)]}), *_count_columns(1)]
    given = {"series": [Series("noisy count", 1, 2, 3)], "caption": "Noisy counts with 95% intervals", "ordered": True}
    return View("numbers in order", "bars", columns, Cells(numbers[:101]), "101 cells", **given)


def _count_columns(of: int) -> list[Column]:
    ends = [offset_column(end, "count", of, by) for end, by in (("low", -30), ("high", 30))]
    return [value_column("count", "count"), *ends]


def _lines(numbers: np.ndarray) -> View:
    labels = [f"{2001 + i // 12}-{i % 12 + 1:02d}" for i in range(60)]
    names = ("noisy", "low", "high", "model", "drawn rows")
    columns = [axis_column("month", labels, 1, 60, {"at": [365.25 / 12 * i for i in range(60)]})]
    columns += [value_column(name, "share", i) for i, name in enumerate(names)]
    values = [numbers[start : start + 60] / 400 for start in (0, 100, 200)]
    rows = Cells(values[0], values[0] - 0.1, values[0] + 0.1, *values[1:])
    series = [Series("noisy", 1, 2, 3), Series("model", 4), Series("drawn rows", 5)]
    return View("several lines", "dots", columns, rows, "60 rows", series=series, caption="Shares by month")


def _density(numbers: np.ndarray) -> View:
    edges = (0, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 1_000_000)
    labels = [f"[{a}, {b})" for a, b in pairwise(edges)] + ["(null)"]
    columns = [axis_column("income (EUR)", labels, 1, 7, {"edges": edges}), *_count_columns(1)]
    given = {"series": [Series("noisy count", 1, 2, 3)], "caption": "Noisy counts with 95% intervals", "ordered": True}
    return View("bins of unequal width", "bars", columns, Cells(numbers[:8] + 100), "8 cells", **given)


def _all_panels(numbers: np.ndarray) -> list[View]:
    def panels(title: str, *labels: list[str], ordered: int = 0) -> View:
        cells = int(np.prod([len(own) for own in labels]))
        columns = [*cell_axes(("one", "two", "three"), labels, (ordered, 0, 0)), *_count_columns(3)]
        given = {"names": (0, 1, 2), "series": [Series("noisy count", 3, 4, 5)], "caption": "Noisy counts"}
        return View(title, "panels", columns, Cells(numbers[:cells]), f"{cells} cells", **given)

    return [
        panels("small multiples", [f"place {i}" for i in range(5)], [*"abcdef"], [f"year {i}" for i in range(9)]),
        panels("high panels", ["yes", "no"], [f"row {i}" for i in range(45)], [*map(str, range(15))]),
        panels("pyramids", [*map(str, range(60))], ["north", "south", "west"], ["female", "male"], ordered=60),
    ]


def _square(name: str, x: float, y: float) -> dict[str, Any]:
    ring = [[x, y], [x + 1, y], [x + 1.3, y + 0.5], [x + 1, y + 1], [x, y + 1], [x, y]]
    return {"type": "Feature", "properties": {"name": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


REGION = Attribute("region", "categorical", values=(*(f"region {i}" for i in range(30)), "abroad"))
SQUARES = [_square(f"region {i}", 10 + 1.3 * (i % 6), 45 + i // 6) for i in range(30)]
REGION_MAP = Map.of_geojson({"type": "FeatureCollection", "features": SQUARES}, "name", REGION)


def _map(numbers: np.ndarray) -> View:
    axis = axis_column("region", REGION.code_labels, 1)
    columns = [replace(axis, source={**axis.source, "shapes": "region"}), *_count_columns(1)]
    given = {"series": [Series("noisy count", 1, 2, 3)], "caption": "Noisy counts with 95% intervals"}
    return View("map", "bars", columns, Cells(numbers[: REGION.size]), "31 cells", **given)


def _half(numbers: np.ndarray) -> View:
    names = [f"column {i}" for i in range(12)]
    rows = [[a, b, int(numbers[12 * i + j])] for i, a in enumerate(names) for j, b in enumerate(names[:i])]
    columns = [value_column("first"), value_column("second", index=1), value_column("entry", "count", 2)]
    given = {"names": (0, 1), "series": [Series("entry", 2)], "caption": "Entries", "signed": True, "symmetric": True}
    return View("half of a matrix", "heat", columns, rows, "66 entries", **given)
