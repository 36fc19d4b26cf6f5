"""Frequent combinations, as views and beside the truth: what a list of combinations of values needs to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.schema import Schema
from nabladp.tables import Counts, Kernel
from nabladp.views.view import Column, Series, View, count_of, format_figure, format_percent, label_column, value_column

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COLUMNS = 8  # of attributes in one table; with more, a combination is named by how it differs from the first
REST = "everything else"
_AT_ONCE = 1 << 22  # codes that are looked at together
Codes = Sequence[Sequence[int]]


# ---- lists of combinations ------------------------------------------------------------------------------------------


def combination_columns(schema: Schema, names: Sequence[str], codes: Codes) -> tuple[list[Column], list[list[Any]]]:
    """View columns for frequent combinations, one per attribute, and the rows; of very many attributes, one column of
    text."""
    if len(names) > MOST_COLUMNS:
        return [value_column("combination")], [[_difference(schema, names, row, codes[0])] for row in codes]
    columns, codebooks = [], []
    for number, name in enumerate(names):
        seen = sorted({row[number] for row in codes})  # domains may be far larger than the list
        rest = "" if number else REST  # its name stands in the first column
        columns.append(label_column(schema[name].heading, [*(schema[name].label(code) for code in seen), rest], number))
        codebooks.append({code: i for i, code in enumerate(seen)})
    return columns, [[known[code] for known, code in zip(codebooks, row, strict=True)] for row in codes]


def _difference(schema: Schema, names: Sequence[str], row: Sequence[int], first: Sequence[int]) -> str:
    if row is first:
        return "the first one, listed below"
    changed = [
        f"{schema.titles[name]} = {schema[name].label(code)}"
        for name, code, own in zip(names, row, first, strict=True)
        if code != own
    ]
    return f"the first one, but {', '.join(changed)}"


def rest_row(columns: Sequence[Column]) -> list[Any]:
    """The view's row for "everything else", in the columns of :func:`combination_columns`."""
    return [len(column.source["labels"]) - 1 if "labels" in column.source else REST for column in columns]


def first_combination(schema: Schema, names: Sequence[str], codes: Codes) -> list[View]:
    """The most frequent combination, from which the others are described where there are very many attributes."""
    if len(names) <= MOST_COLUMNS or not codes:
        return []
    return [
        View(
            title="the first combination, value by value",
            kind="table",
            columns=[value_column("attribute"), value_column("value", index=1)],
            rows=[[schema.titles[name], schema[name].label(code)] for name, code in zip(names, codes[0], strict=True)],
            summary=count_of(len(names), "attribute"),
        )
    ]


def names_title(schema: Schema, names: Sequence[str]) -> str:
    return schema.title(names) if len(names) <= MOST_COLUMNS else count_of(len(names), "attribute")


def combination_labels(schema: Schema, names: Sequence[str], codes: Integers) -> tuple[str, ...]:
    """Each frequent combination as one text."""
    return tuple(
        ", ".join(f"{schema.titles[name]} = {schema[name].label(code)}" for name, code in zip(names, row, strict=True))
        for row in codes.tolist()
    )


# ---- HeavyHitters ---------------------------------------------------------------------------------------------------


def heavy_views(values: Mapping[str, Any], schema: Schema) -> list[View]:
    """The report views of a HeavyHitters release, from the JSON form of its output."""
    names, n = values["attributes"], values["n"]
    columns, rows = combination_columns(schema, names, values["codes"])
    width = len(columns)
    counts = zip(values["counts"], values["low"], values["high"], strict=True)
    unlisted, level = values["unlisted_below"], format_percent(values["level"])
    promised = f"with probability {format_percent(1 - values['failure'])}"
    facts = [
        ("noise of a count", _noise(values["settings"])),
        ("interval", f"{level} each, given that the combination is listed"),
        ("what is not listed", f"has fewer than {unlisted:,} rows, {promised}" if unlisted <= n else "is not bounded"),
    ]
    if values["certified"] is not None:
        every = f"every one shared by at least {values['certified']:,} rows, its count within ± "
        facts.insert(1, ("predicted: found", f"{every}{values['count_error']:,}, {promised}"))
    listed = View(
        title=f"frequent combinations of {names_title(schema, names)}",
        kind="bars",
        columns=[
            *columns,
            *(value_column(word, "count", width + i) for i, word in enumerate(("count", "low", "high"))),
        ],
        rows=[[*row, *own] for row, own in zip(rows, counts, strict=True)],
        summary=f"{count_of(len(rows), 'combination')}; others have fewer than {min(unlisted, n + 1):,} rows",
        facts=facts,
        names=range(width),
        series=[Series("noisy count", width, width + 1, width + 2)],
        caption=f"Noisy counts with {level} intervals",
        line=(unlisted, f"not listed: below {unlisted:,}") if unlisted <= n else None,
    )
    return [listed, *first_combination(schema, names, values["codes"]), *_node_lists(values.get("lists", []))]


def _noise(settings: Mapping[str, Any]) -> str:
    if settings["count_scale"] is not None:
        return f"discrete Laplace, scale {format_figure(settings['count_scale'])}"
    return f"discrete Gaussian, scale {format_figure(settings['scales'][-1])}"


def _node_lists(lists: Sequence[Mapping[str, Any]]) -> list[View]:
    """The view of the strings that the nodes of the tree listed, where these were asked for."""
    if not lists:
        return []
    return [
        View(
            title="lists of the tree's nodes",
            kind="table",
            columns=[value_column("attributes"), value_column("strings listed", "count", 1)],
            rows=[[", ".join(node["attributes"]), len(node["codes"])] for node in lists],
            summary=count_of(len(lists), "node"),
            notes=["The strings themselves are in lists.parquet."],
        )
    ]


# ---- the truth ------------------------------------------------------------------------------------------------------


def count_combinations(counts: Counts, names: Sequence[str], codes: Integers) -> Integers:
    """The exact number of rows that hold each frequent combination: for the owner of the table only."""
    return counts.fold(Occurrences(names, codes)) if len(codes) else np.zeros(0, dtype=np.int64)


class Occurrences(Kernel):
    """In how many rows each of some combinations occurs."""

    def __init__(self, names: Sequence[str], codes: Integers) -> None:
        self.attributes: tuple[str, ...] = tuple(names)
        self.order = np.lexsort(codes.T[::-1])
        self.keys = _keys(codes[self.order])

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        hits = np.zeros(len(self.keys), dtype=np.int64)
        step = max(1, _AT_ONCE // len(self.attributes))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            columns = [part.column(name).to_numpy().astype(np.int64) for name in self.attributes]
            keys = _keys(np.stack(columns, axis=1))
            nearest = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            hits += np.bincount(nearest[self.keys[nearest] == keys], minlength=len(self.keys))
        counted = np.zeros_like(hits)
        counted[self.order] = hits
        return counted


def _keys(codes: Integers) -> NDArray[np.void]:
    """Each row of codes as one big-endian value, which sorts as the codes do."""
    rows = np.ascontiguousarray(codes, dtype=">i8")
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
