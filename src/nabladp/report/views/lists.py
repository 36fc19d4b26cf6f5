"""Frequent combinations: counts with intervals, or probabilities, and what is known about all that is not listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nabladp.release import Release
from nabladp.report.views.view import Column, Series, View, brief, coded, percent, several, stored, worded
from nabladp.schema import Schema

MOST_COLUMNS = 8  # of attributes in one table; more are told by how they differ from the first
REST = "everything else"


def heavy_views(release: Release) -> list[View]:
    values = release.output.to_json()
    names, n = values["attributes"], values["n"]
    columns, rows = _combinations(release.schema, names, values["codes"])
    width = len(columns)
    counts = zip(values["counts"], values["low"], values["high"], strict=True)
    unlisted = values["unlisted_below"]
    promised = f"with probability {percent(1 - values['failure'])}"
    facts = [
        ("noise of a count", _noise(values["settings"])),
        ("interval", f"{percent(values['level'])} each, given that the combination is listed"),
        ("what is not listed", f"has fewer than {unlisted:,} rows, {promised}" if unlisted <= n else "is not bounded"),
    ]
    if values["certified"] is not None:
        found = f"every one shared by at least {values['certified']:,} rows, its count within ± "
        facts.insert(1, ("predicted: found", f"{found}{values['count_error']:,}, {promised}"))
    listed = View(
        title=f"frequent combinations of {_several_names(names)}",
        kind="bars",
        columns=[*columns, *(stored(word, "count", width + i) for i, word in enumerate(("count", "low", "high")))],
        rows=[[*row, *own] for row, own in zip(rows, counts, strict=True)],
        summary=f"{several(len(rows), 'combination')}; others have fewer than {min(unlisted, n + 1):,} rows",
        facts=facts,
        names=range(width),
        series=[Series("noisy count", width, width + 1, width + 2)],
        caption=f"Noisy counts with {percent(values['level'])} intervals",
        line=(unlisted, f"not listed: below {unlisted:,}") if unlisted <= n else None,
    )
    return [listed, *_first(release.schema, names, values["codes"]), *_nodes(values)]


def distribution_views(release: Release) -> list[View]:
    values = release.output.to_json()
    names, error = values["attributes"], values["error"]
    columns, rows = _combinations(release.schema, names, values["codes"])
    width = len(columns)
    shares = [brief(share) for share in values["probabilities"]]
    rest = round(max(0.0, 1.0 - sum(values["probabilities"])), 6)
    facts = [("noise of a count", f"deviation {worded(values['count_variance'] ** 0.5)} of {values['n']:,} rows")]
    if error is not None:
        chance = percent(1 - values["failure"])
        facts += [
            ("predicted squared error, all together", f"{worded(error['mean'])} on average at most"),
            (f"… with probability {chance}", f"{worded(error['bound'])} at most"),
            ("what is not listed", f"has fewer than {error['hidden_below']:,} rows with probability {chance}"),
        ]
    listed = View(
        title=f"probabilities of {_several_names(names)}",
        kind="bars",
        columns=[*columns, stored("probability", "share", width)],
        rows=[*([*row, share] for row, share in zip(rows, shares, strict=True)), [*_rest(columns), rest]],
        summary=f"{several(len(rows), 'combination')}; everything else {percent(rest)}",
        facts=facts,
        names=range(width),
        series=[Series("probability", width)],
        caption="Estimated probabilities, made from noisy counts",
    )
    return [listed, *_first(release.schema, names, values["codes"])]


def _noise(settings: Any) -> str:
    if settings["count_scale"] is not None:
        return f"discrete Laplace, scale {worded(settings['count_scale'])}"
    return f"discrete Gaussian, scale {worded(settings['scales'][-1])}"


def _combinations(schema: Schema, names: Sequence[str], codes: Sequence[Sequence[int]]) -> tuple[list[Column], Any]:
    """A column for each attribute; where there are very many, one text: how the combination differs from the first."""
    if len(names) > MOST_COLUMNS:
        return [stored("combination")], [[_told(schema, names, row, codes[0])] for row in codes]
    columns, places = [], []
    for place, name in enumerate(names):
        seen = sorted({row[place] for row in codes})  # domains may be far larger than the list
        rest = "" if place else REST  # its name stands in the first column
        columns.append(coded(name, [*(schema[name].label(code) for code in seen), rest], place))
        places.append({code: i for i, code in enumerate(seen)})
    return columns, [[known[code] for known, code in zip(places, row, strict=True)] for row in codes]


def _told(schema: Schema, names: Sequence[str], row: Sequence[int], first: Sequence[int]) -> str:
    if row is first:
        return "the first one, listed below"
    changed = [
        f"{name} = {schema[name].label(code)}" for name, code, own in zip(names, row, first, strict=True) if code != own
    ]
    return f"the first one, but {', '.join(changed)}"


def _rest(columns: Sequence[Column]) -> list[Any]:
    """The place of "everything else" in each column."""
    return [len(column.found["labels"]) - 1 if "labels" in column.found else REST for column in columns]


def _first(schema: Schema, names: Sequence[str], codes: Sequence[Sequence[int]]) -> list[View]:
    if len(names) <= MOST_COLUMNS or not codes:
        return []
    return [
        View(
            title="the first combination, value by value",
            kind="table",
            columns=[stored("attribute", place=0), stored("value", place=1)],
            rows=[[name, schema[name].label(code)] for name, code in zip(names, codes[0], strict=True)],
            summary=several(len(names), "attribute"),
        )
    ]


def _nodes(values: Any) -> list[View]:
    """Where they were asked for: what the nodes of the tree listed."""
    lists = values.get("lists", [])
    if not lists:
        return []
    rows = [[", ".join(found["attributes"]), len(found["codes"])] for found in lists]
    return [
        View(
            title="lists of the tree's nodes",
            kind="table",
            columns=[stored("attributes", place=0), stored("strings listed", "count", 1)],
            rows=rows,
            summary=several(len(rows), "node"),
            notes=["The strings themselves are in lists.parquet."],
        )
    ]


def _several_names(names: Sequence[str]) -> str:
    return " + ".join(names) if len(names) <= MOST_COLUMNS else several(len(names), "attribute")
