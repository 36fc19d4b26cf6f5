"""A view of every kind, large enough to need several pieces on paper; and a page that shows just these."""

from __future__ import annotations

import numpy as np

from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.views.condense import condense
from nabladp.views.view import Cells, Series, View, axis_column, cell_axes, offset_column, value_column

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
        View("wide table", "table", [value_column(f"column {j}", index=j) for j in range(14)], texts, "60 rows"),
    ]


def page_of(views: list[View]) -> str:
    part = {"number": 0, "name": "views", "mechanism": "", "rows": [dict.fromkeys(HEADS, "") | {"title": "all"}]}
    context = {"title": "every kind", "notice": "", "marks": 0, "parts": [part]}
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js")
    blocks = {"views-0": [view.to_json() for view in views]}
    return assemble("comparison.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE))


HEADS = ("title", "summary", "cells", "predicted", "actual", "largest", "covered")


def _bars(title: str, labels: list[str], numbers: np.ndarray, *, ordered: bool = False) -> View:
    columns = [axis_column("name", labels, 1, len(labels) * ordered), value_column("count", "count")]
    columns += [offset_column(end, "count", 1, by) for end, by in (("low", -30), ("high", 30))]
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
    columns = [*cell_axes(("age", "sex"), labels, (100, 0)), value_column("count", "count")]
    columns += [offset_column(end, "count", 2, by) for end, by in (("low", -30), ("high", 30))]
    given = {"names": (0, 1), "series": [Series("noisy count", 2, 3, 4)], "caption": "Noisy counts with 95% intervals"}
    return View("age by sex", "heat", columns, Cells(counts), "202 cells", **given)


def _half(numbers: np.ndarray) -> View:
    names = [f"column {i}" for i in range(12)]
    rows = [[a, b, int(numbers[12 * i + j])] for i, a in enumerate(names) for j, b in enumerate(names[:i])]
    columns = [value_column("first"), value_column("second", index=1), value_column("entry", "count", 2)]
    given = {"names": (0, 1), "series": [Series("entry", 2)], "caption": "Entries", "signed": True, "symmetric": True}
    return View("half of a matrix", "heat", columns, rows, "66 entries", **given)
