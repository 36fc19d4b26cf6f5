"""Learned rules: the rule in words, its weights where it has some, and what is promised or was counted of errors."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from nabladp.release import Release
from nabladp.report.views.view import LEVEL, Series, View, brief, percent, several, stored, worded

_REACH = NormalDist().inv_cdf((1 + LEVEL) / 2)


def point_views(release: Release) -> list[View]:
    values, schema = release.output.to_json(), release.schema
    first, second = (schema[values["label"]].label(code) for code in (0, 1))
    rows = [[name, schema[name].label(code)] for name, code in zip(values["features"], values["point"], strict=True)]
    how = "it was drawn by lot, as none was frequent enough" if values["count"] is None else "it is frequent enough"
    count = "not counted" if values["count"] is None else f"{values['count']:,} of {values['n']:,} (noisy)"
    rule = View(
        title=f"{values['label']}: the point",
        kind="table",
        columns=[stored("feature", place=0), stored("value", place=1)],
        rows=rows,
        summary=f"{values['label']} = {second} at one point of {several(len(rows), 'feature')}",
        facts=[
            ("the rule", f"{values['label']} = {second} exactly where all these values meet, otherwise {first}"),
            ("why this point", how),
            ("rows with this point and label", count),
            ("a point is accepted", f"from a noisy count of {values['cut']:,} on"),
            _promise(values, "one point carries the label"),
        ],
    )
    return [rule]


def threshold_views(release: Release) -> list[View]:
    values, schema = release.output.to_json(), release.schema
    first, second = (schema[values["label"]].label(code) for code in (0, 1))
    rows = [[name, schema[name].label(code)] for name, code in zip(values["features"], values["codes"], strict=True)]
    facts = [
        (
            "the rule",
            f"{values['label']} = {second} from these values on, {first} below; the first feature weighs most",
        ),
        _promise(values, "some threshold never errs"),
    ]
    if values["ones"] is not None:
        facts.append((f"rows with {values['label']} = {second}", f"{values['ones']:,} of {values['n']:,} (noisy)"))
    if values["prefix"] is not None:
        facts.append(("found by listing", several(values["prefix"], "feature")))
    rule = View(
        title=f"{values['label']}: the threshold",
        kind="table",
        columns=[stored("feature", place=0), stored("from", place=1)],
        rows=rows,
        summary=f"{values['label']} = {second} from one threshold of {several(len(rows), 'feature')} on",
        facts=facts,
    )
    return [rule]


def _promise(values: Mapping[str, Any], condition: str) -> tuple[str, str]:
    if values["error"] is None:
        return ("predicted error", "nothing is promised with so few rows at this budget")
    chance = percent(1 - values["failure"])
    return (
        "predicted error",
        f"at most {percent(values['error'])} of people, with probability {chance}, if {condition}",
    )


def halfspace_views(release: Release) -> list[View]:
    values, schema = release.output.to_json(), release.schema
    first, second = (schema[values["label"]].label(code) for code in (0, 1))
    known = values["deviations"]
    reach = [None] * len(values["weights"]) if known is None else [_REACH * own for own in known]
    rows = [
        [
            name,
            brief(weight),
            None if own is None else brief(weight - own),
            None if own is None else brief(weight + own),
        ]
        for name, weight, own in zip(values["columns"], values["weights"], reach, strict=True)
    ]
    facts = [
        ("the rule", f"{values['label']} = {second} where the weights add up to 0 or more, otherwise {first}"),
        ("noise in a weight", "not known for this method" if known is None else f"deviation {_span(known)}"),
        _accuracy(release, values["holdout"]),
    ]
    weights = View(
        title=f"{values['label']}: weights",
        kind="bars",
        columns=[
            stored("column", place=0),
            *(stored(w, "number", i) for i, w in enumerate(("weight", "low", "high"), 1)),
        ],
        rows=rows,
        summary=f"{several(len(rows), 'weight')}, method {values['method']}",
        facts=facts,
        notes=[] if known is None else ["Intervals hold what the same fit would give without noise."],
        series=[Series("weight", 1, *((None, None) if known is None else (2, 3)))],
        caption="Weights" + ("" if known is None else f" with {percent(LEVEL)} intervals for the noise"),
        signed=True,
    )
    return [weights, _contributions(release, facts)]


def _contributions(release: Release, facts: list[tuple[str, str]]) -> View:
    table = release.output.extra_tables(release.schema)["contributions"]
    rows = [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return View(
        title="what each value adds",
        kind="bars",
        columns=[stored("feature", place=0), stored("value", place=1), stored("adds", "count", 2)],
        rows=rows,
        summary=several(len(rows), "value"),
        facts=facts[:1],
        names=(0, 1),
        series=[Series("adds", 2)],
        caption="In steps of the integer weights that decide",
        signed=True,
    )


def _accuracy(release: Release, holdout: Mapping[str, Any] | None) -> tuple[str, str]:
    if holdout is None:
        return ("accuracy", "no rows were held out to count it")
    low, high = release.output.holdout.interval()  # type: ignore[attr-defined]
    right = percent(min(max(holdout["right"] / holdout["rows"], 0.0), 1.0))
    told = f"{right} of {holdout['rows']:,} rows held out ({percent(low)} to {percent(high)} for new people)"
    return ("accuracy", f"{told}, counted with noise of scale {worded(holdout['scale'])}")


def _span(numbers: list[float]) -> str:
    low, high = min(numbers), max(numbers)
    return worded(high) if high - low <= 1e-9 * high else f"{worded(low)} to {worded(high)}"
