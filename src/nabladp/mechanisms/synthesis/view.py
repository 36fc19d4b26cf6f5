"""The answers of a synthesis: one marginal of the workload each, with intervals; how the output is shown and compared
with the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged
from nabladp.mechanisms.output_tables import schema_axes
from nabladp.mechanisms.synthesis.groups import Starts, group_labels, summed
from nabladp.mechanisms.synthesis.rounds import Noisy
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.mechanisms.tidy import cell_names, tidy_table, unused_name
from nabladp.schema import Schema
from nabladp.tables import CodedTable, alike
from nabladp.views.compared import Compared
from nabladp.views.condense import condense
from nabladp.views.view import (
    LEVEL,
    ONE_SERIES,
    Cells,
    Column,
    Series,
    View,
    cell_axes,
    count_of,
    format_figure,
    format_percent,
    marginal_kind,
    round_digits,
    value_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """One marginal of the workload: counts from model and measurements together.

    ``error`` is the predicted total variation distance from the truth, ``drawn`` that of the drawn table's marginal.
    """

    attributes: Names
    counts: Floats
    deviation: Floats  # of each count, what the model gets wrong included
    error: float
    drawn: float

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Approximate intervals of a marginal's true counts; ``level`` is approximate, as the model's error is
        estimated."""
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.deviation
        return np.maximum(self.counts - reach, 0.0), self.counts + reach


def answers_table(schema: Schema, answers: Sequence[Answer]) -> pa.Table:
    """The cells of answered marginals as a tidy table, with the predicted errors of their marginals."""
    lows, highs = zip(*(own.interval() for own in answers), strict=True)
    sizes = [own.counts.size for own in answers]
    numbers = {
        "value": np.concatenate([own.counts.ravel() for own in answers]),
        "low": np.concatenate([own.ravel() for own in lows]),
        "high": np.concatenate([own.ravel() for own in highs]),
        "predicted_error": np.repeat([own.error for own in answers], sizes),
        "predicted_error_drawn": np.repeat([own.drawn for own in answers], sizes),
    }
    return tidy_table(cell_names(schema, [own.attributes for own in answers]), numbers)


def read_answers(
    read: Callable[[str], NDArray[Any] | None], schema: Schema, sets: Sequence[Names]
) -> tuple[Answer, ...]:
    """Answers as they were published; ``read`` finds a column of a table that has all cells of the sets, one set after
    the other. None at all where there is no such table."""
    ends = np.cumsum([schema.cells(names) for names in sets])
    errors = []
    for name in ERROR_COLUMNS:  # the same in all cells of a set
        column = read(name)
        if column is None:
            return ()
        if len(column) != ends[-1]:
            raise damaged("values")
        errors.append(column[ends - 1].tolist())
    used = {name for names in sets for name in names}
    counts = read(unused_name("value", used))
    count = np.asarray(read("count") if counts is None else counts, dtype=np.float64)  # its name in older versions
    high = np.asarray(read(unused_name("high", used)), dtype=np.float64)
    answers = []
    for names, end, error, drawn in zip(sets, ends.tolist(), *errors, strict=True):
        own, shape = slice(end - schema.cells(names), end), schema.sizes(names)
        deviation = (high[own] - count[own]) / _DEVIATIONS
        answers.append(Answer(names, count[own].reshape(shape), deviation.reshape(shape), error, drawn))
    return tuple(answers)


# ---- views for the report and the comparison -------------------------------------------------------------------------

ERROR_COLUMNS = ("predicted_error", "predicted_error_drawn")
MOST_COMPARED = 40  # marginals of the drawn rows beside the truth: those where they are worst
_DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)
_CHANCE = format_percent(LEVEL)
_AND_ROWS = {True: ", and the synthetic rows scaled to as many people", False: ""}
Codes = Mapping[str, NDArray[Any]]


# ---- views ----------------------------------------------------------------------------------------------------------


def quality_view(
    schema: Schema, quality: Mapping[str, Any], answers: Sequence[Answer], shown: int | None = None
) -> View:
    """The view of every marginal of the workload with its predicted errors, the worst first."""
    worst = sorted(answers, key=lambda answer: -float(answer.drawn))
    answered, drawn = (format_percent(quality[key]) for key in ("predicted_error", "predicted_error_drawn"))
    return View(
        title="predicted error of every marginal",
        kind="dots",
        columns=[
            value_column("marginal"),
            value_column("answer", "share", 1),
            value_column("synthetic rows", "share", 2),
        ],
        rows=[[schema.title(own.attributes), round_digits(own.error), round_digits(own.drawn)] for own in worst],
        summary=f"{drawn} for synthetic rows, {answered} for answers",
        facts=[
            ("predicted error of synthetic rows", f"{drawn} on average (total variation)"),
            ("predicted error of answers", answered),
            *_distance_facts(quality),
            ("strategy", f"{quality['strategy']}: {quality['why']}"),
            ("rounds", format_figure(quality["rounds"])),
            ("measured", count_of(quality["measured"], "noisy marginal")),
            *_shown_facts(len(answers), shown),
        ],
        notes=_notes(schema, quality),
        series=[Series("answer", 1), Series("synthetic rows", 2)],
        caption="Predicted total variation distance from the true table",
    )


def _distance_facts(quality: Mapping[str, Any]) -> list[tuple[str, str]]:
    if quality["rows_from_answers"] is None:  # a release of an older version
        return []
    now, before = (format_percent(quality[key]) for key in ("rows_from_answers", "sampled_from_answers"))
    return [("distance of the rows from the answers", f"{now} on average, {before} as sampled")]


def _shown_facts(answers: int, shown: int | None) -> list[tuple[str, str]]:
    if shown in (None, answers):
        return []
    return [("shown cell by cell", f"{shown:,} of {answers:,} marginals, those with the largest predicted errors")]


def _notes(schema: Schema, quality: Mapping[str, Any]) -> list[str]:
    notes = [] if quality["converged"] else ["The model's fit was stopped before it converged."]
    for each in quality["contradicted_zeros"]:
        rows, width = format_figure(max(each["rows"], 0.0)), format_figure(_DEVIATIONS * each["deviation"])
        notes.append(
            f"What is declared impossible for {schema.title(each['attributes'])} contradicts the noisy counts, in "
            f"which about {rows} rows (± {width}) are of this kind. Synthetic rows leave these people out: check the "
            "zeros, rules and formulas declared."
        )
    return notes


def answer_view(schema: Schema, answer: Answer, codes: Codes | None, n: int) -> View:
    """The view of a marginal of the workload, beside that of the synthetic rows where they are at hand."""
    low, high = answer.interval()
    deviation = float(np.sqrt((answer.deviation**2).mean()))
    return _cells_view(
        schema,
        answer.attributes,
        {"answer": answer.counts, "low": low, "high": high, **_synthetic_rows(schema, codes, answer.attributes, n)},
        title=schema.title(answer.attributes),
        summary=f"{count_of(answer.counts.size, 'cell')}, predicted error {format_percent(answer.error)}",
        facts=[
            ("predicted error", f"{format_percent(answer.error)} (total variation)"),
            ("predicted error of synthetic rows", format_percent(answer.drawn)),
            ("deviation of a count", f"{format_figure(deviation)}, root mean square"),
            ("interval", f"about {_CHANCE} each"),
        ],
        caption="Counts from model and measurements together" + _AND_ROWS[codes is not None],
    )


def measured_view(schema: Schema, measured: Noisy, answer: Answer | None, codes: Codes | None, n: int) -> View:
    """The view of a measured marginal, beside the answer where it is part of the workload, and the synthetic rows where
    they are at hand."""
    names, scale = measured.attributes, format_figure(measured.scale)
    starts = measured.starts
    counts, width = measured.counts.astype(np.float64), math.ceil(_DEVIATIONS * measured.scale)
    columns = {"noisy": counts, "low": counts - width, "high": counts + width}
    if answer is not None:
        columns["answer"] = summed(answer.counts, starts)
    columns |= {word: summed(rows, starts) for word, rows in _synthetic_rows(schema, codes, names, n).items()}
    return _cells_view(
        schema,
        names,
        columns,
        title=f"measured: {schema.title(names)}",
        summary=f"{count_of(counts.size, 'cell')}, noise scale {scale}, round {measured.round}",
        facts=[
            ("noise of a count", f"discrete Gaussian, scale {scale}"),
            ("interval of each count", f"± {width:,} with probability of about {_CHANCE}"),
            ("measured in", f"round {measured.round}"),
            *_group_facts(schema, names, starts),
        ],
        caption="Noisy counts" + (", and the answer" if answer is not None else "") + _AND_ROWS[codes is not None],
        starts=starts,
    )


def _group_axes(schema: Schema, names: Sequence[str], starts: Starts) -> list[Column]:
    """The view columns of groups of values; others as they are."""
    chosen = [schema[name] for name in names]
    labels = [group_labels(a, own or tuple(range(a.size))) for a, own in zip(chosen, starts, strict=True)]
    ordered = [
        sum(first < a.ordered_size for first in own or range(a.ordered_size)) if a.is_ordered else 0
        for a, own in zip(chosen, starts, strict=True)
    ]
    return cell_axes([a.heading for a in chosen], labels, ordered)


def _group_facts(schema: Schema, names: Names, starts: Starts) -> list[tuple[str, str]]:
    return [
        (f"groups of {schema[name].heading}", f"{len(own):,} of {schema[name].size:,} values")
        for name, own in zip(names, starts, strict=False)
        if own
    ]


def _synthetic_rows(schema: Schema, codes: Codes | None, names: Sequence[str], n: int) -> dict[str, Floats]:
    """A view's column of the synthetic rows in each cell, scaled to n."""
    if codes is None:
        return {}
    cells = np.ravel_multi_index([np.asarray(codes[name], dtype=np.int64) for name in names], schema.sizes(names))
    counts: Floats = np.bincount(cells, minlength=schema.cells(names)).astype(np.float64)
    return {"synthetic rows": counts.reshape(schema.sizes(names)) * (n / max(len(cells), 1))}


def _cells_view(
    schema: Schema,
    names: Sequence[str],
    columns: Mapping[str, Floats],
    *,
    title: str,
    summary: str,
    facts: list[tuple[str, str]],
    caption: str,
    starts: Starts = (),
) -> View:
    """The view of all cells of some attributes: the first column with its interval, and those after "low" and "high"
    beside it."""
    axes = _group_axes(schema, names, starts) if starts else schema_axes(schema, names)
    kind = marginal_kind([len(axis.source["axis"]) for axis in axes], dots=True)
    first, *others = (word for word in columns if word not in ("low", "high"))
    at = {word: len(names) + i for i, word in enumerate(columns)}
    beside = [] if kind in ONE_SERIES else [Series(word, at[word]) for word in others]
    view = View(
        title=title,
        kind=kind,
        columns=[
            *axes,
            *(value_column(word, "count", i) for i, word in enumerate(columns)),
        ],
        rows=Cells(*(np.asarray(column, dtype=np.float64) for column in columns.values())),
        summary=summary,
        facts=facts,
        names=range(len(names)),
        series=[Series(f"{first}, with its interval", at[first], at["low"], at["high"]), *beside],
        caption=caption,
        ordered=len(names) == 1 and schema[names[0]].is_ordered,
    )
    return condense(view)  # at once: what it is made of may be large


# ---- beside the truth -----------------------------------------------------------------------------------------------


def compare_answers(answers: Sequence[Answer], truths: Sequence[Integers], n: int) -> Iterator[Compared]:
    """Synthesis's answers compared with the true counts. Total variation is half the sum of the errors of all cells, as
    shares."""
    for answer, truth in zip(answers, truths, strict=True):
        yield Compared.of(
            " + ".join(answer.attributes),
            "count",
            answer.counts,
            truth,
            answer.interval(),
            attributes=tuple(answer.attributes),
            predicted=2 * n * answer.error / max(truth.size, 1),
        )


def compare_drawn(
    schema: Schema,
    codes: Codes,
    answers: Sequence[Answer],
    weights: Sequence[float],
    truths: Sequence[Integers],
    n: int,
) -> Iterator[Compared]:
    """The synthetic rows compared with the true counts, on every marginal of the workload, scaled to the table's
    rows."""
    rows = len(next(iter(codes.values())))
    own = Schema(tuple(replace(schema[name], derived_from=(), formula="") for name in schema.names if name in codes))
    counts = CodedTable(own, codes).marginals([answer.attributes for answer in answers])
    drawn = [_merge_alike(schema, a.attributes, c) * (n / rows) for a, c in zip(answers, counts, strict=True)]
    true = [_merge_alike(schema, a.attributes, t) for a, t in zip(answers, truths, strict=True)]
    distances = np.array([_distance(a, b, n) for a, b in zip(drawn, true, strict=True)])
    answered = np.array([_distance(a.counts, t, n) for a, t in zip(answers, truths, strict=True)])
    average = (
        f"; averages over {len(answers):,} marginals: {np.average(distances, weights=weights):.3g} and "
        f"{np.average(answered, weights=weights):.3g}"
    )
    for i in np.sort(np.argsort(-distances, kind="stable")[:MOST_COMPARED]).tolist():
        variation = f"drawn rows {distances[i]:.3g}, answers {answered[i]:.3g}"
        yield Compared.of(
            f"{' + '.join(answers[i].attributes)}, drawn rows",
            "count",
            drawn[i],
            true[i],
            attributes=tuple(answers[i].attributes),
            predicted=2 * n * answers[i].drawn / max(true[i].size, 1),
            summary=f"total variation distance from the true table: {variation}{average}",
        )
        average = ""  # stated once


def _merge_alike(schema: Schema, names: Sequence[str], counts: Integers) -> Floats:
    """Counts with values merged that a synthetic table does not distinguish (a number's "other" and null)."""
    merged = counts.astype(np.float64)
    for axis, name in enumerate(names):
        same = alike(schema[name])
        if (same != np.arange(len(same))).any():
            turned = np.moveaxis(merged, axis, 0)
            merged = np.zeros_like(turned)
            np.add.at(merged, same, turned)
            merged = np.moveaxis(merged, 0, axis)
    return merged


def _distance(counts: NDArray[Any], true: NDArray[Any], n: int) -> float:
    return float(np.abs(counts - true).sum()) / (2 * max(n, 1))
