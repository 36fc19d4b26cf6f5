"""Pages for the data owner only: what a plan would cost before anything is spent, and released beside true values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.privacy.units import to_float
from nabladp.release.comparison import NOTICE, Comparison, comparison_path
from nabladp.release.cost import Cost, format_cost
from nabladp.release.names import refuse_published
from nabladp.release.other_budgets import outlook
from nabladp.release.plan import Plan
from nabladp.report.chapter import explorer
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.report.sentences import PRIOR, Sentences
from nabladp.schema import Schema
from nabladp.views import Compared, Series, View
from nabladp.views.view import count_of, format_figure, format_percent, round_digits, value_column

Tell = Callable[[str, int, int], None]


def cost_page(plan: Plan, title: str, tell: Tell | None = None) -> str:
    """The owner's page before a release: sentences, limits, figures and explorer for the plan's budgets; sliders and
    curves for others."""
    cost = plan.cost()
    facts = cost.to_json()
    sets = _sets(cost, facts)
    prospect = outlook(plan, [chosen for _, _, chosen in sets], tell)
    rows = [plan.rows] if plan.rows else []
    context = {
        "title": title,
        "delta": plan.delta,
        "prior": PRIOR,
        "fits": cost.fits,
        "any_rows": cost.any_rows,
        "rows": plan.rows,
        "words": Sentences(
            cost.guarantee, plan.delta, rows, plan.rows_per_person, plan.adversaries, bounded=plan.person.id is not None
        ),
        "sets": [_set_row(cost, *row) for row in sets],
        "limits": [_limit_row(line) for line in facts["limits"]],
        "parts": [{"name": part.name, "mechanism": part.mechanism} for part in prospect.parts],
        "public": facts["public"],
        "derived": facts["derived"],
    }
    blocks = {
        "guarantee": cost.guarantee.to_json(),
        "explorer": explorer(cost.guarantee, plan.delta, facts["adversaries"]),
        "outlook": {**prospect.to_json(), "limits": _limits(cost, sets)},
    }
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js", "cost.js")
    return assemble("cost.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE))


def write_cost_page(plan: Plan, to: str | Path, title: str, tell: Tell | None = None) -> Path:
    goal = Path(to)
    refuse_published(goal)
    text = cost_page(plan, title, tell)
    try:
        goal.write_text(text, encoding="utf-8", newline="\n")
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def _sets(cost: Cost, facts: dict[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Kind, label and attributes of every set on the cost page: the person, attributes, adversaries, limits."""
    sets = [("person", "all protected attributes", tuple(cost.guarantee.per_person().attributes))]
    sets += [("attribute", name, (name,)) for name in facts["attributes"]]
    sets += [("adversary", body["name"], tuple(body["attributes"])) for body in facts["adversaries"]]
    known = {frozenset(chosen) for _, _, chosen in sets}
    limits = [line.standing.limit for line in cost.lines]
    return [
        *sets,
        *(("limit", limit.name, tuple(sorted(limit.attributes))) for limit in limits if limit.attributes not in known),
    ]


def _set_row(cost: Cost, kind: str, label: str, chosen: tuple[str, ...]) -> dict[str, Any]:
    figure = cost.guarantee.figure(chosen)
    values = {
        "epsilon": figure.epsilon(cost.delta),
        "epsilon_paper": figure.epsilon(cost.delta, "paper"),
        "rho": figure.rho,
    }
    texts = {key: format_cost(value if value < float("inf") else None) for key, value in values.items()}
    return {"kind": kind, "label": label, "attributes": chosen, **texts}


def _limit_row(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": line["limit"],
        "measure": line["measure"],
        "allowed": format_cost(line["allowed"], up=False),
        "spent": format_cost(line["spent"]),
        "requested": format_cost(line["requested"]),
        "fits": line["fits"],
    }


def _limits(cost: Cost, sets: list[tuple[str, str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """For the cost page's sliders: which set a limit is about, and exactly how much is allowed and spent."""
    numbers = {frozenset(chosen): number for number, (_, _, chosen) in enumerate(sets)}
    return [
        {
            "set": numbers[line.standing.limit.attributes],
            "pure": line.standing.limit.pure,
            "measure": line.standing.limit.measure,
            "allowed": str(line.standing.limit.units),
            "shown": format_cost(to_float(line.standing.limit.units), up=False),
            "spent": None if line.standing.spent_units is None else str(line.standing.spent_units),
        }
        for line in cost.lines
    ]


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
    """Write the owner's comparison of released and true values into a new private file, never into a published
    folder."""
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
    """One line of the comparison's table of errors."""
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
    rows = [[text, *own, *_errors(*own)] for text, own in zip(texts, values, strict=True)]
    names = ("released", "low", "high", "true", "error", "error_low", "error_high", "outside")
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
        series=[
            Series("released − true", 5, *((6, 7) if table.interval else (None, None))),
            *(
                [Series("the true value is outside of the interval", 8)]
                if any(row[8] is not None for row in rows)
                else []
            ),
        ],
        caption=f"Released value minus true value{', with its interval' if table.interval else ''}: {NOTICE}",
        line=(0.0, "no error"),
    )


def _names(table: Compared, schema: Schema, chosen: Any) -> list[str]:
    if not table.attributes:
        return [table.labels[i] for i in chosen]
    codes = np.unravel_index(chosen, schema.sizes(table.attributes))
    parts = [[schema[name].label(int(code)) for code in own] for name, own in zip(table.attributes, codes, strict=True)]
    return [" · ".join(row) for row in zip(*parts, strict=True)]


def _errors(
    released: float | None, low: float | None, high: float | None, truth: float | None
) -> tuple[float | None, ...]:
    """Released minus true value, the same of the ends of its interval, and again where the truth is outside of it."""
    if truth is None:
        return (None,) * 4
    apart = [None if value is None else round_digits(value - truth) for value in (released, low, high)]
    outside = low is not None and high is not None and not low <= truth <= high
    return (*apart, apart[0] if outside else None)
