"""Answers to queries: whole marginals each on their own, all other queries in one list; before and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.release import Release
from nabladp.report.views.generic import table_view
from nabladp.report.views.marginals import shape_of
from nabladp.report.views.view import LEVEL, Series, View, brief, cell_axes, percent, several, stored, worded
from nabladp.schema import Schema

MOST_DOTS = 40  # so small a marginal is drawn as dots, which show before and after; a heat map shows one of them
PREVIEW = 50  # rows of a synthetic table
Shares = list[float | None]
_CHANCE = percent(LEVEL)


def projection_views(release: Release) -> list[View]:
    table = release.output.to_arrow(release.schema)
    scales = table["scale"].to_numpy()
    bound = math.sqrt(release.output.to_json()["error_bound"])

    def facts(places: Integers) -> list[tuple[str, str]]:
        at_most = f"at most {percent(bound)} with probability {_CHANCE}"
        return [
            ("noise of an answer", f"discrete Gaussian, scale {spread(scales[places])} of the rows"),
            ("error of all projected answers", f"{at_most}, as a root mean square"),
            ("interval", f"of the noisy answer, {_CHANCE} each"),
        ]

    answers = Answers(
        schema=release.schema,
        groups=asked_groups(table, release.schema),
        columns={name: listed(table, name) for name in ("noisy", "low", "high", "projected")},
        series=(("noisy, with its interval", "noisy"), ("projected", "projected")),
        squares="projected",
        facts=facts,
        caption="Shares of the rows, before and after projection",
        note="Projected answers lie where some table's answers do; their interval is that of the noisy ones, cut to "
        "0 … 100%, and widened where it does not hold them.",
    )
    return list(answers.views())


def mwem_views(release: Release) -> list[View]:
    table, values = release.output.to_arrow(release.schema), release.output.to_json()
    groups = asked_groups(table, release.schema)
    columns = {"model": listed(table, "answer")} | {name: listed(table, name) for name in ("measured", "low", "high")}
    series = [("measured, with its interval", "measured"), ("model", "model")]
    drawn = values.get("synthetic")
    if drawn and drawn["times"]:
        columns["synthetic rows"] = [brief(share) for share in _drawn_shares(release, drawn, groups)]
        series.append(("synthetic rows", "synthetic rows"))
    scale = spread(np.array(values["measured"]["scale"]))
    measured = f"{len(set(values['measured']['query'])):,} of {several(table.num_rows, 'query', 'queries')}"
    bounded = values["bound"] is not None and values["bound"] < 1
    bound = f"{percent(values['bound'])} at most (the paper's)" if bounded else "the paper's bound says nothing here"

    def facts(places: Integers) -> list[tuple[str, str]]:
        return [
            ("noise of a measured count", f"discrete Gaussian, scale {scale}"),
            ("measured", f"{measured}, chosen in rounds"),
            ("interval", f"of the measured answer, {_CHANCE} each, however often it was measured"),
            ("predicted mean error", bound),
        ]

    answers = Answers(
        schema=release.schema,
        groups=groups,
        columns=columns,
        series=series,
        squares="model",
        facts=facts,
        caption="Shares of the rows: the model beside what was measured with noise",
        note="Queries that were not measured have an answer from the model only.",
    )
    preview = [synthetic_preview(release.output.synthetic)] if len(series) == 3 else []  # type: ignore[attr-defined]
    return [*answers.views(), *preview]


def synthetic_preview(table: Any) -> View:
    """The first rows of a synthetic table."""
    rows = several(table.num_rows, "row")
    told = f"The first {PREVIEW} of {rows}; all are in synthetic.parquet. " if table.num_rows > PREVIEW else ""
    view = table_view("synthetic rows", table.slice(0, PREVIEW), "synthetic.parquet")
    return replace(view, summary=f"{rows} drawn from the model", notes=[f"{told}None of them is a person."])


# ---- whole marginals, and the rest --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Neighbouring queries on the same attributes; ``whole`` where they are all cells of the marginal, in order."""

    attributes: tuple[str, ...]
    texts: Sequence[str]
    start: int
    whole: bool

    @property
    def places(self) -> Integers:
        return np.arange(self.start, self.start + len(self.texts))


@dataclass(frozen=True)
class Answers:
    """Columns of shares, one for each query; ``series`` are (label, column), and a column "low" and "high" belong to
    the first of them. In a heat map only the column ``squares`` is drawn."""

    schema: Schema
    groups: Sequence[Asked]
    columns: dict[str, Shares]
    series: Sequence[tuple[str, str]]
    squares: str
    facts: Callable[[Integers], list[tuple[str, str]]]
    caption: str
    note: str

    def views(self) -> Iterator[View]:
        rest = [group for group in self.groups if not group.whole]
        yield from (self._marginal(group) for group in self.groups if group.whole)
        if rest:
            yield self._queries(rest)

    def _marginal(self, group: Asked) -> View:
        names, sizes = group.attributes, self.schema.sizes(group.attributes)
        kind = "dots" if len(names) == 1 or len(group.texts) <= MOST_DOTS else shape_of(sizes)
        axes = cell_axes(names, [self.schema[name].labels for name in names])
        return View(
            title=" + ".join(names),
            kind=kind,
            columns=[*axes, *(stored(name, "share", place) for place, name in enumerate(self.columns))],
            rows=self._rows(group.places),
            summary=several(len(group.texts), "cell"),
            facts=self.facts(group.places),
            notes=[self.note],
            names=range(len(names)),
            series=self._drawn(len(names), only=self.squares if kind == "heat" else None),
            caption=self.caption,
            ordered=len(names) == 1 and self.schema[names[0]].is_ordered,
        )

    def _queries(self, groups: Sequence[Asked]) -> View:
        texts = [text for group in groups for text in group.texts]
        places = np.concatenate([group.places for group in groups])
        return View(
            title="queries",
            kind="dots",
            columns=[stored("query"), *(stored(name, "share", place) for place, name in enumerate(self.columns, 1))],
            rows=[[text, *row] for text, row in zip(texts, self._rows(places), strict=True)],
            summary=several(len(texts), "query", "queries"),
            facts=self.facts(places),
            notes=[self.note],
            series=self._drawn(1),
            caption=self.caption,
        )

    def _rows(self, places: Integers) -> list[Shares]:
        return [[column[place] for column in self.columns.values()] for place in places.tolist()]

    def _drawn(self, before: int, only: str | None = None) -> list[Series]:
        at = {name: before + place for place, name in enumerate(self.columns)}
        found = [Series(label, at[name]) for label, name in self.series if only in (None, name)]
        if only is None:
            found[0] = replace(found[0], low=at["low"], high=at["high"])
        return found


def asked_groups(table: Any, schema: Schema) -> list[Asked]:
    """Runs of queries on the same attributes."""
    attributes, texts = table["attributes"].to_pylist(), table["query"].to_pylist()
    found, start = [], 0
    for place in range(1, len(texts) + 1):
        if place == len(texts) or attributes[place] != attributes[start]:
            names = tuple(attributes[start])
            found.append(Asked(names, texts[start:place], start, _is_whole(names, texts[start:place], schema)))
            start = place
    return found


def _is_whole(names: tuple[str, ...], texts: Sequence[str], schema: Schema) -> bool:
    if len(texts) != schema.cells(names):
        return False
    codes = np.unravel_index(np.arange(len(texts)), schema.sizes(names))
    parts = [[f"{name} = {schema[name].labels[code]}" for code in own] for name, own in zip(names, codes, strict=True)]
    return all(text == ", ".join(told) for text, told in zip(texts, zip(*parts, strict=True), strict=True))


def listed(table: Any, name: str) -> Shares:
    return [brief(value) for value in table[name].to_pylist()]


def spread(numbers: NDArray[np.float64]) -> str:
    """One number, or from the least to the largest."""
    low, high = float(numbers.min()), float(numbers.max())
    return worded(high) if high - low <= 1e-9 * high else f"{worded(low)} to {worded(high)}"


def _drawn_shares(release: Release, drawn: Any, groups: Sequence[Asked]) -> Iterator[float]:
    """What share of the synthetic rows lies in each cell of the whole marginals; nothing for other queries."""
    names: tuple[str, ...] = release.output.attributes  # type: ignore[attr-defined]
    sizes, times = release.schema.sizes, np.array(drawn["times"], dtype=np.float64)
    codes = dict(zip(names, np.unravel_index(np.array(drawn["record"]), sizes(names)), strict=True))
    for group in groups:
        if group.whole:
            cells = np.ravel_multi_index([codes[name] for name in group.attributes], sizes(group.attributes))
            yield from np.bincount(cells, weights=times, minlength=len(group.texts)) / times.sum()
        else:
            yield from [math.nan] * len(group.texts)
