"""A synthetic table: answers with their predicted errors, what was measured beside the model, and the first rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.release import Release
from nabladp.report.views.marginals import shape_of
from nabladp.report.views.queries import MOST_DOTS, synthetic_preview
from nabladp.report.views.view import LEVEL, Series, View, brief, cell_axes, percent, several, stored, worded
from nabladp.schema import Schema

_REACH = NormalDist().inv_cdf((1 + LEVEL) / 2)
_CHANCE = percent(LEVEL)


def synthesis_views(release: Release) -> list[View]:
    output: Any = release.output
    values = output.to_json()
    found = [_quality(values["quality"], output.answers), *_answers(release, output), *_measured(release, values)]
    return [*found, *([] if output.codes is None else [synthetic_preview(output.synthetic)])]


def _quality(quality: Mapping[str, Any], answers: Sequence[Any]) -> View:
    """Every marginal of the workload with its predicted errors, the worst first."""
    worst = sorted(answers, key=lambda answer: -float(answer.drawn))
    rows = [[" + ".join(answer.attributes), brief(answer.error), brief(answer.drawn)] for answer in worst]
    return View(
        title="predicted error of every marginal",
        kind="dots",
        columns=[stored("marginal", place=0), stored("answer", "share", 1), stored("drawn table", "share", 2)],
        rows=rows,
        summary=f"{percent(quality['predicted_error'])} for answers, {percent(quality['predicted_error_drawn'])} drawn",
        facts=[
            ("predicted error of answers", f"{percent(quality['predicted_error'])} on average (total variation)"),
            ("… of the drawn table", percent(quality["predicted_error_drawn"])),
            ("how it was made", f"{quality['strategy']}, {several(quality['rounds'], 'round')}: {quality['why']}"),
            ("measured", several(quality["measured"], "noisy marginal")),
        ],
        notes=[] if quality["converged"] else ["The model's fit was stopped before it converged."],
        series=[Series("answer", 1), Series("drawn table", 2)],
        caption="Predicted total variation distance from the truth",
    )


def _answers(release: Release, output: Any) -> Iterator[View]:
    """The marginals of the workload, beside those of the model that the drawn table follows."""
    models = output.model.marginals([answer.attributes for answer in output.answers])
    for answer, model in zip(output.answers, models, strict=True):
        low, high = answer.interval()
        yield _table(
            release.schema,
            answer.attributes,
            {"answer": answer.counts, "low": low, "high": high, "model": model},
            title=" + ".join(answer.attributes),
            summary=f"{several(answer.counts.size, 'cell')}, predicted error {percent(answer.error)}",
            facts=[
                ("predicted error", f"{percent(answer.error)} (total variation)"),
                ("… of the drawn table", percent(answer.drawn)),
                ("deviation of a count", f"{worded(float(np.sqrt((answer.deviation**2).mean())))}, root mean square"),
                ("interval", f"about {_CHANCE} each"),
            ],
            caption="Counts from model and measurements together, beside the model alone",
        )


def _measured(release: Release, values: Mapping[str, Any]) -> Iterator[View]:
    """What was measured with noise, and what the model makes of it."""
    output: Any = release.output
    sets = [tuple(own["attributes"]) for own in values["measured"]]
    for own, names, model in zip(values["measured"], sets, output.model.marginals(sets), strict=True):
        counts, width = np.array(own["counts"], dtype=np.float64), math.ceil(_REACH * own["scale"])
        columns = {"noisy": counts, "low": counts - width, "high": counts + width, "model": model}
        drawn = _drawn(release.schema, output.codes, names, release.n)
        yield _table(
            release.schema,
            names,
            columns | ({} if drawn is None else {"synthetic rows": drawn}),
            title=f"measured: {' + '.join(names)}",
            summary=f"{several(len(counts), 'cell')}, noise scale {worded(own['scale'])}, round {own['round']}",
            facts=[
                ("noise of a count", f"discrete Gaussian, scale {worded(own['scale'])}"),
                ("interval of each count", f"± {width:,} with probability of about {_CHANCE}"),
                ("measured in", f"round {own['round']}"),
            ],
            caption="Noisy counts beside the model"
            + ("" if drawn is None else ", and beside the drawn rows scaled to as many people"),
        )


def _drawn(schema: Schema, codes: Any, names: tuple[str, ...], n: int) -> Floats | None:
    """The drawn rows in each cell, scaled to n; None where the table is not at hand."""
    if codes is None:
        return None
    cells = np.ravel_multi_index([np.asarray(codes[name], dtype=np.int64) for name in names], schema.sizes(names))
    found: Floats = np.bincount(cells, minlength=schema.cells(names)).astype(np.float64)
    return found * (n / max(len(cells), 1))


def _table(
    schema: Schema,
    names: Sequence[str],
    columns: Mapping[str, Floats],
    *,
    title: str,
    summary: str,
    facts: list[tuple[str, str]],
    caption: str,
) -> View:
    """All cells of some attributes: the first column with its interval, and those after "low" and "high" beside it."""
    flat = [np.asarray(column, dtype=np.float64).ravel().tolist() for column in columns.values()]
    size = len(flat[0])
    kind = "dots" if len(names) == 1 or size <= MOST_DOTS else shape_of(schema.sizes(names))
    first, *others = (word for word in columns if word not in ("low", "high"))
    at = {word: len(names) + place for place, word in enumerate(columns)}
    beside = [] if kind == "heat" else [Series(word, at[word]) for word in others]
    return View(
        title=title,
        kind=kind,
        columns=[
            *cell_axes(names, [schema[name].labels for name in names]),
            *(stored(word, "count", place) for place, word in enumerate(columns)),
        ],
        rows=[[brief(value) for value in row] for row in zip(*flat, strict=True)],
        summary=summary,
        facts=facts,
        names=range(len(names)),
        series=[Series(f"{first}, with its interval", at[first], at["low"], at["high"]), *beside],
        caption=caption,
        ordered=len(names) == 1 and schema[names[0]].is_ordered,
    )
