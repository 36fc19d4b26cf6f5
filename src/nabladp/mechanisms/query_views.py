"""Answers to queries, as views and beside the truth: each whole marginal by itself, all other queries in one list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.output_tables import schema_axes
from nabladp.mechanisms.tidy import named_codes
from nabladp.schema import Schema
from nabladp.views.compared import Compared
from nabladp.views.view import ONE_SERIES, Series, View, count_of, marginal_kind, round_digits, value_column
from nabladp.workloads import Queries
from nabladp.workloads.queries import Group

if TYPE_CHECKING:
    import pyarrow as pa

Shares = list[float | None]


@dataclass(frozen=True)
class QueryRun:
    """Neighbouring queries on the same attributes; ``whole`` where they are all cells of the marginal, in order."""

    attributes: tuple[str, ...]
    texts: Sequence[str]
    start: int
    whole: bool

    @property
    def numbers(self) -> Integers:
        return np.arange(self.start, self.start + len(self.texts))


@dataclass(frozen=True)
class QueryViews:
    """Columns of shares, one share for each query; ``series`` are (label, column), and the columns "low" and "high"
    are the interval of the first. In a heat map only the column ``squares`` is drawn. ``facts`` takes the numbers of
    queries."""

    schema: Schema
    runs: Sequence[QueryRun]
    columns: dict[str, Shares]
    series: Sequence[tuple[str, str]]
    squares: str
    facts: Callable[[Integers], list[tuple[str, str]]]
    caption: str
    note: str

    def views(self) -> list[View]:
        rest = [run for run in self.runs if not run.whole]
        return [*(self._marginal(run) for run in self.runs if run.whole), *([self._queries(rest)] if rest else [])]

    def _marginal(self, run: QueryRun) -> View:
        names = run.attributes
        kind = marginal_kind(self.schema.sizes(names), dots=True)
        axes = schema_axes(self.schema, names)
        return View(
            title=self.schema.title(names),
            kind=kind,
            columns=[*axes, *(value_column(name, "share", i) for i, name in enumerate(self.columns))],
            rows=self._rows(run.numbers),
            summary=count_of(len(run.texts), "cell"),
            facts=self.facts(run.numbers),
            notes=[self.note],
            names=range(len(names)),
            series=self._series(len(names), only=self.squares if kind in ONE_SERIES else None),
            caption=self.caption,
            ordered=len(names) == 1 and self.schema[names[0]].is_ordered,
        )

    def _queries(self, runs: Sequence[QueryRun]) -> View:
        texts = [text for run in runs for text in run.texts]
        numbers = np.concatenate([run.numbers for run in runs])
        return View(
            title="queries",
            kind="dots",
            columns=[
                value_column("query"),
                *(value_column(name, "share", i) for i, name in enumerate(self.columns, 1)),
            ],
            rows=[[text, *row] for text, row in zip(texts, self._rows(numbers), strict=True)],
            summary=count_of(len(texts), "query", "queries"),
            facts=self.facts(numbers),
            notes=[self.note],
            series=self._series(1),
            caption=self.caption,
        )

    def _rows(self, numbers: Integers) -> list[Shares]:
        return [[column[number] for column in self.columns.values()] for number in numbers.tolist()]

    def _series(self, before: int, only: str | None = None) -> list[Series]:
        at = {name: before + i for i, name in enumerate(self.columns)}
        series = [Series(label, at[name]) for label, name in self.series if only in (None, name)]
        if only is None:
            series[0] = replace(series[0], low=at["low"], high=at["high"])
        return series


def group_texts(schema: Schema, group: Group) -> Sequence[str]:
    """The text of each query of a group, as :meth:`Queries.text` says it."""
    if group.texts is not None:
        return group.texts
    parts = []
    for name, codes in group_codes(schema, group).items():
        labels = [f"{name} = {label}" for label in schema[name].code_labels]
        parts.append([labels[code] for code in codes.tolist()])
    return [", ".join(cell) for cell in zip(*parts, strict=True)]


def group_codes(schema: Schema, group: Group) -> dict[str, Integers]:
    """The codes of the cell that each query of a group asks for; none where queries ask for something else."""
    if group.texts is not None:
        return {}
    sizes = schema.sizes(group.attributes)
    cells = np.arange(math.prod(sizes)) if group.cells is None else np.asarray(group.cells)
    return dict(zip(group.attributes, np.unravel_index(cells, sizes), strict=True))


def query_names(queries: Queries) -> dict[str, pa.Array]:
    """The name columns of a tidy table of answers: the attributes asked about and, where a query asks for one cell of
    their table, its values; and the query in words."""
    import pyarrow as pa

    schema, groups = queries.schema, queries.groups
    titles, sizes = ["+".join(group.attributes) for group in groups], [group.count for group in groups]
    names = named_codes(schema, titles, sizes, [group_codes(schema, group) for group in groups])
    texts = [text for group in groups for text in group_texts(schema, group)]
    return names | {"query" if "query" not in names else "query_": pa.array(texts, pa.string())}


def query_runs(queries: Queries) -> list[QueryRun]:
    """Runs of neighbouring queries on the same attributes."""
    runs, start = [], 0
    for names, neighbours in groupby(queries.groups, key=lambda group: group.attributes):
        texts = [text for group in neighbours for text in group_texts(queries.schema, group)]
        runs.append(QueryRun(names, texts, start, _is_whole(names, texts, queries.schema)))
        start += len(texts)
    return runs


def _is_whole(names: tuple[str, ...], texts: Sequence[str], schema: Schema) -> bool:
    if len(texts) != schema.cells(names):
        return False
    codes = np.unravel_index(np.arange(len(texts)), schema.sizes(names))
    parts = [
        [f"{name} = {schema[name].code_labels[code]}" for code in own] for name, own in zip(names, codes, strict=True)
    ]
    return all(text == ", ".join(cell) for text, cell in zip(texts, zip(*parts, strict=True), strict=True))


def as_shares(values: Floats) -> Shares:
    """Shares for a view; NaN is none."""
    return [None if value != value else round_digits(value) for value in values.tolist()]


def compare_queries(
    queries: Queries, answers: Floats, truth: Floats, interval: tuple[Floats, Floats] | None = None
) -> Iterator[Compared]:
    """Query answers of MWEM or Projection beside the true shares, for the owner of the table."""
    rest: list[int] = []
    for start, group in zip(queries.starts.tolist(), queries.groups, strict=False):
        numbers = range(start, start + group.count)
        if not group.is_identity:
            rest.extend(numbers)
            continue
        yield Compared(
            title=" + ".join(group.attributes),
            format="share",
            released=answers[numbers],
            truth=truth[numbers],
            interval=interval and (interval[0][numbers], interval[1][numbers]),
            attributes=group.attributes,
        )
    if rest:
        texts = tuple(queries.text(number) for number in rest)
        known = interval and (interval[0][rest], interval[1][rest])
        yield Compared("queries", "share", answers[rest], truth[rest], known, labels=texts)
