"""A Gram matrix: the matrix as a heat map, its entries as a table, and regressions made from it at no cost."""

from __future__ import annotations

from typing import Any

from nabladp.errors import NablaDPError
from nabladp.release import Release
from nabladp.report.views.view import LEVEL, Column, Series, View, brief, coded, percent, several, stored, worded

MOST_DRAWN = 50  # columns of the heat map
MOST_TARGETS = 6


def gram_views(release: Release) -> list[View]:
    table = release.output.to_arrow(release.schema)
    names = release.output.to_json()["columns"]
    rows = list(zip(*(table[name].to_pylist() for name in ("entry", "low", "high")), strict=True))
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    entries = [[i, j, *row] for (i, j), row in zip(pairs, rows, strict=True)]
    facts = _facts(release, table)
    drawn = [row for row in entries if row[1] < MOST_DRAWN]
    shown = View(
        title="agreement of columns",
        kind="heat",
        columns=_columns(names),
        rows=drawn,
        summary=f"{several(len(names), 'column')} of ±1, {several(len(entries), 'entry', 'entries')}",
        facts=facts,
        notes=["An entry is the number of rows on which two columns agree, less those on which they do not."],
        names=(0, 1),
        series=[Series("entry", 2, 3, 4)],
        caption=f"Rows that agree less rows that do not, of {release.n:,}",
        signed=True,
        symmetric=True,
    )
    found = [shown]
    if len(drawn) < len(entries):
        found.append(_all_entries(names, entries, facts))
    return [*found, *_regressions(release)]


def _columns(names: list[str]) -> list[Column]:
    numbers = [stored(word, "count", i) for i, word in enumerate(("entry", "low", "high"), 2)]
    return [coded("first", names, 0), coded("second", names, 1), *numbers]


def _facts(release: Release, table: Any) -> list[tuple[str, str]]:
    scales = table["scale"].to_numpy()
    least, most = float(scales.min()), float(scales.max())
    scale = worded(most) if least == most else f"{worded(least)} to {worded(most)}"
    norm = release.expected_error["noise_norm"]
    return [
        ("noise of an entry", f"discrete Gaussian, scale {scale}"),
        ("predicted: spectral norm of the noise", f"about {worded(norm)} at most, of {release.n:,} rows"),
        ("interval", f"of each entry, {percent(LEVEL)}"),
    ]


def _all_entries(names: list[str], entries: list[list[Any]], facts: list[tuple[str, str]]) -> View:
    return View(
        title="all entries",
        kind="table",
        columns=_columns(names),
        rows=entries,
        summary=several(len(entries), "entry", "entries"),
        facts=facts,
    )


def _regressions(release: Release) -> list[View]:
    """Of the label, where one was named; otherwise of the attributes that have two values."""
    label, output = release.parameters.get("label"), release.output
    held = [str(name) for name, _ in output.to_json()["encode"]]
    two_valued = [name for name in held if name in release.schema and release.schema[name].size == 2]
    found = []
    for target in [label] if label is not None else two_valued[:MOST_TARGETS]:
        try:
            fitted = output.regress(target).to_json()  # type: ignore[attr-defined]
        except NablaDPError:  # a name that stands for several columns, or for none
            continue
        found.append(_weights(target, fitted))
    return found


def _weights(target: str, fitted: dict[str, Any]) -> View:
    rows = [[name, *map(brief, numbers)] for name, numbers in fitted["coefficients"].items()]
    numbers = [stored(word, "number", i) for i, word in enumerate(("weight", "low", "high"), 1)]
    return View(
        title=f"regression of {target}",
        kind="bars",
        columns=[stored("column", place=0), *numbers],
        rows=rows,
        summary=f"{several(len(rows), 'weight')}, ridge {worded(fitted['ridge'])}",
        facts=[
            ("made from", "the released matrix, at no further cost"),
            ("ridge", worded(fitted["ridge"])),
            ("interval", f"{percent(fitted['level'])} each, for the noise alone"),
        ],
        series=[Series("weight", 1, 2, 3)],
        caption=f"Weights with {percent(fitted['level'])} intervals for the noise",
        signed=True,
    )
