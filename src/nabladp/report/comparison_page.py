"""The owner's page: released and true values. Watermarked, because it holds exact statistics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.release.comparison import NOTICE, Comparison, comparison_path
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.schema import Schema
from nabladp.views import Compared, Series, View
from nabladp.views.view import count_of, format_figure, format_percent, round_digits, value_column

MOST_ROWS = 20_000  # of one table; then those with the largest errors
MARKS = 40  # times that the notice is written across a page


def comparison_page(comparisons: Sequence[Comparison], title: str) -> str:
    parts = [
        {
            "number": number,
            "name": comparison.release.name.rpartition("/")[2],
            "mechanism": comparison.release.mechanism,
        }
        | {"rows": [_line(table) for table in comparison.tables]}
        for number, comparison in enumerate(comparisons)
    ]
    blocks = {
        f"views-{number}": [_view(table, comparison.release.schema).to_json() for table in comparison.tables]
        for number, comparison in enumerate(comparisons)
    }
    context = {"title": title, "notice": NOTICE, "marks": MARKS, "parts": parts}
    return assemble(
        "comparison.html.j2", context, blocks, ("guarantee.js", *VIEW_SCRIPTS, "released.js"), ("style.css", VIEW_STYLE)
    )


def write_comparison(comparisons: Sequence[Comparison], folder: str | Path, out: str | Path) -> Path:
    """Into a new file that only its owner can read, and never into a published folder."""
    goal = comparison_path(folder, out)
    text = comparison_page(comparisons, Path(folder).resolve().name)
    try:
        with open(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def _line(table: Compared) -> dict[str, str]:
    """One line of the table of errors."""
    errors = table.to_json()

    def figure(value: float | None) -> str:
        if value is None:
            return "–"
        return format_percent(value) if table.format == "share" else format_figure(float(value))

    return {
        "title": table.title,
        "cells": format_figure(errors["cells"]),
        "predicted": figure(errors["predicted"]),
        "actual": figure(errors["actual"]),
        "largest": figure(errors["largest"]),
        "covered": "–" if errors["covered"] is None else format_percent(errors["covered"]),
        "summary": table.summary,
    }


def _view(table: Compared, schema: Schema) -> View:
    chosen = np.arange(len(table.truth))
    if len(chosen) > MOST_ROWS:
        chosen = np.sort(np.argsort(-np.abs(table.released - table.truth), kind="stable")[:MOST_ROWS])
    texts = _names(table, schema, chosen)
    low, high = table.interval or (np.full(len(table.truth), np.nan),) * 2
    values = [[round_digits(float(column[i])) for column in (table.released, low, high, table.truth)] for i in chosen]
    rows = [[text, *own, _apart(own[0], own[3])] for text, own in zip(texts, values, strict=True)]
    names = ("released", "low", "high", "true", "error")
    errors = _line(table)
    note = f"Only the {MOST_ROWS:,} values with the largest errors are shown." if len(rows) < len(table.truth) else ""
    return View(
        title=table.title,
        kind="dots",
        columns=[value_column("what"), *(value_column(name, table.format, i) for i, name in enumerate(names, 1))],
        rows=rows,
        summary=table.summary or f"{count_of(len(table.truth), 'value')}, mean error {errors['actual']}",
        facts=[
            ("mean error", f"{errors['actual']} (predicted: {errors['predicted']})"),
            ("largest error", errors["largest"]),
            ("intervals that contain the true value", errors["covered"]),
        ],
        notes=[note] if note else [],
        series=[Series("released", 1, *((2, 3) if table.interval else (None, None))), Series("true", 4)],
        caption=f"Released and true values: {NOTICE}",
    )


def _names(table: Compared, schema: Schema, chosen: Any) -> list[str]:
    if not table.attributes:
        return [table.labels[i] for i in chosen]
    codes = np.unravel_index(chosen, schema.sizes(table.attributes))
    parts = [[schema[name].label(int(code)) for code in own] for name, own in zip(table.attributes, codes, strict=True)]
    return [" · ".join(row) for row in zip(*parts, strict=True)]


def _apart(released: float | None, truth: float | None) -> float | None:
    return None if released is None or truth is None else round_digits(released - truth)
