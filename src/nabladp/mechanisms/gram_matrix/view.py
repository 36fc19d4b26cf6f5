"""A Gram matrix, as views: a heat map, a table of entries, and regressions made from it at no further cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nabladp.mechanisms.gram_matrix.regression import Regression
from nabladp.views.view import (
    LEVEL,
    Column,
    Series,
    View,
    count_of,
    format_figure,
    format_percent,
    format_range,
    label_column,
    round_digits,
    value_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DRAWN = 50  # columns of the heat map
MOST_TARGETS = 6  # attributes that are regressed where no label was named


def entry_views(table: pa.Table, names: Sequence[str], n: int, noise_norm: float) -> list[View]:
    """From the table of values, a row for each entry above the diagonal."""
    rows = zip(*(table[name].to_pylist() for name in ("entry", "low", "high")), strict=True)
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    entries = [[i, j, *row] for (i, j), row in zip(pairs, rows, strict=True)]
    facts = [
        ("noise of an entry", f"discrete Gaussian, scale {format_range(table['scale'].to_numpy())}"),
        ("predicted: spectral norm of the noise", f"about {format_figure(noise_norm)} at most, of {n:,} rows"),
        ("interval", f"of each entry, {format_percent(LEVEL)}"),
    ]
    drawn = [row for row in entries if row[1] < MOST_DRAWN]
    heat = View(
        title="agreement of columns",
        kind="heat",
        columns=_entry_columns(names),
        rows=drawn,
        summary=f"{count_of(len(names), 'column')} of ±1, {count_of(len(entries), 'entry', 'entries')}",
        facts=facts,
        notes=["An entry is the number of rows on which two columns agree, less those on which they do not."],
        names=(0, 1),
        series=[Series("entry", 2, 3, 4)],
        caption=f"Rows that agree less rows that do not, of {n:,}",
        signed=True,
        symmetric=True,
    )
    return [heat] if len(drawn) == len(entries) else [heat, _all_entries(names, entries, facts)]


def _entry_columns(names: Sequence[str]) -> list[Column]:
    numbers = [value_column(word, "count", i) for i, word in enumerate(("entry", "low", "high"), 2)]
    return [label_column("first", names, 0), label_column("second", names, 1), *numbers]


def _all_entries(names: Sequence[str], entries: list[list[Any]], facts: list[tuple[str, str]]) -> View:
    return View(
        title="all entries",
        kind="table",
        columns=_entry_columns(names),
        rows=entries,
        summary=count_of(len(entries), "entry", "entries"),
        facts=facts,
    )


def regression_view(target: str, regression: Regression) -> View:
    """Weights with their intervals."""
    fitted = regression.to_json()
    rows = [[name, *map(round_digits, numbers)] for name, numbers in fitted["coefficients"].items()]
    numbers = [value_column(word, "number", i) for i, word in enumerate(("weight", "low", "high"), 1)]
    ridge, level = format_figure(fitted["ridge"]), format_percent(fitted["level"])
    return View(
        title=f"regression of {target}",
        kind="bars",
        columns=[value_column("column"), *numbers],
        rows=rows,
        summary=f"{count_of(len(rows), 'weight')}, ridge {ridge}",
        facts=[
            ("made from", "the released matrix, at no further cost"),
            ("ridge", ridge),
            ("interval", f"{level} each, for the noise alone"),
        ],
        series=[Series("weight", 1, 2, 3)],
        caption=f"Weights with {level} intervals for the noise",
        signed=True,
    )
