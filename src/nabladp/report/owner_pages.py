"""Pages for the data owner only: what a plan would cost before anything is spent, and released beside true values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.release.comparison import Comparison, comparison_path
from nabladp.release.cost import Cost
from nabladp.release.names import refuse_published
from nabladp.release.other_budgets import outlook
from nabladp.release.plan import Plan
from nabladp.report.chapter import explorer, format_costs
from nabladp.report.language import Language, language
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.report.sentences import PRIOR, Sentences
from nabladp.report.view_texts import ViewTexts
from nabladp.schema import Schema
from nabladp.views import Compared, Series, View
from nabladp.views.view import format_figure, format_percent, round_digits, value_column

Tell = Callable[[str, int, int], None]
_LIKELY = re.compile("error|within|noise|deviation|share|rows")  # in the label of a figure that is an error


def cost_page(plan: Plan, title: str, tell: Tell | None = None, *, spoken: str | None = None) -> str:
    """The owner's page before a release: sentences, limits, figures and explorer for the plan's budgets; sliders and
    curves for others. ``spoken`` is its language; default: that of the plan's ``[report]``."""
    t = language(spoken or plan.imprint.language)
    cost = plan.cost()
    facts = cost.to_json()
    sets = _sets(cost, facts, plan.schema, t)
    prospect = outlook(plan, [chosen for _, _, chosen in sets], tell)
    rows = [plan.rows] if plan.rows else []
    units = {attribute.name: attribute.unit for attribute in plan.schema if attribute.unit}
    words = Sentences(
        cost.guarantee,
        plan.delta,
        rows,
        plan.rows_per_person,
        plan.adversaries,
        titles=plan.schema.titles,
        spoken=t,
        bounded=plan.person.id is not None,
    )
    context = {
        "title": title,
        "delta": plan.delta,
        "prior": PRIOR,
        "fits": cost.fits,
        "any_rows": cost.any_rows,
        "rows": plan.rows,
        "words": words,
        "sets": [_set_row(cost, t, *row) for row in sets],
        "limits": [_limit_row(line, t) for line in facts["limits"]],
        "parts": [{"name": part.name, "mechanism": part.mechanism} for part in prospect.parts],
        "public": facts["public"],
        "derived": facts["derived"],
    }
    blocks = {
        "guarantee": cost.guarantee.to_json(),
        "explorer": explorer(cost.guarantee, plan.delta, facts["adversaries"], words.one, units, words.titles),
        "outlook": {**_outlook(prospect.to_json(), ViewTexts.of_schema(t, plan.schema)), "limits": _limits(cost, sets)},
    }
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js", "cost.js")
    return assemble("cost.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE), t)


def write_cost_page(
    plan: Plan, to: str | Path, title: str, tell: Tell | None = None, *, spoken: str | None = None
) -> Path:
    goal = Path(to)
    refuse_published(goal)
    text = cost_page(plan, title, tell, spoken=spoken)
    try:
        goal.write_text(text, encoding="utf-8", newline="\n")
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def _outlook(prospect: dict[str, Any], texts: ViewTexts) -> dict[str, Any]:
    """The curves' data, with labels in the page's language, and which of them are likely to be errors."""
    for part in prospect["parts"]:
        part["name"] = _isolate(part["name"])
        part["figures"] = [
            {
                "label": _isolate(texts(own["label"])),
                "values": own["values"],
                "likely": bool(_LIKELY.search(own["label"])),
            }
            for own in part["figures"]
        ]
    return prospect


def _isolate(text: str) -> str:
    """A text in marks that keep the direction of its writing from turning what stands around it."""
    return text if text.isascii() else f"\u2068{text}\u2069"


def _sets(cost: Cost, facts: dict[str, Any], schema: Schema, t: Language) -> list[tuple[str, str, tuple[str, ...]]]:
    """Kind, label and attributes of every set on the cost page: the person, attributes, adversaries, limits."""
    sets = [("person", t("cost.all_protected"), tuple(cost.guarantee.per_person().attributes))]
    sets += [("attribute", schema.titles[name], (name,)) for name in facts["attributes"]]
    sets += [("adversary", body["name"], tuple(body["attributes"])) for body in facts["adversaries"]]
    known = {frozenset(chosen) for _, _, chosen in sets}
    limits = [line.standing.limit for line in cost.lines]
    return [
        *sets,
        *(("limit", limit.name, tuple(sorted(limit.attributes))) for limit in limits if limit.attributes not in known),
    ]


def _set_row(cost: Cost, t: Language, kind: str, label: str, chosen: tuple[str, ...]) -> dict[str, Any]:
    figure = cost.guarantee.figure(chosen)
    values = {
        "epsilon": figure.epsilon(cost.delta),
        "epsilon_paper": figure.epsilon(cost.delta, "paper"),
        "rho": figure.rho,
    }
    return {"kind": kind, "label": label, "attributes": chosen, **format_costs(values, t)}


def _limit_row(line: dict[str, Any], t: Language) -> dict[str, Any]:
    return {
        "name": line["limit"],
        "measure": t.measure(line["measure"]),
        "allowed": t.cost(line["allowed"], up=False),
        "spent": t.cost(line["spent"]),
        "requested": t.cost(line["requested"]),
        "fits": line["fits"],
    }


def _limits(cost: Cost, sets: list[tuple[str, str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """For the cost page's sliders: which set a limit is about, and exactly how much is allowed and spent."""
    numbers = {frozenset(chosen): number for number, (_, _, chosen) in enumerate(sets)}
    return [
        {
            "set": numbers[line.standing.limit.attributes],
            "pure": line.standing.limit.pure,
            "allowed": str(line.standing.limit.units),
            "spent": None if line.standing.spent_units is None else str(line.standing.spent_units),
        }
        for line in cost.lines
    ]


MOST_ROWS = 20_000  # of one table; then those with the largest errors
MARKS = 40  # times that the notice is written across a page


def comparison_page(comparisons: Sequence[Comparison], title: str, *, spoken: str | None = None) -> str:
    """The owner's page of released and true values; ``spoken`` is its language; default: that of the release."""
    t = language(spoken or (comparisons[0].release.imprint.language if comparisons else "en"))
    parts: list[dict[str, Any]] = []
    blocks: dict[str, Any] = {}
    for number, comparison in enumerate(comparisons):
        release = comparison.release
        texts = ViewTexts.of_schema(t, release.schema)
        lines = [_line(table, texts) for table in comparison.tables]
        name = release.name.rpartition("/")[2]
        parts.append({"number": number, "name": name, "mechanism": release.mechanism, "rows": lines})
        blocks[f"views-{number}"] = [_view(table, release.schema, texts).to_json() for table in comparison.tables]
    context = {"title": title, "notice": t("comparison.notice"), "marks": MARKS, "parts": parts}
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js")
    return assemble("comparison.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE), t)


def write_comparison(
    comparisons: Sequence[Comparison], folder: str | Path, out: str | Path, *, spoken: str | None = None
) -> Path:
    """Write the owner's comparison of released and true values into a new private file, never into a published
    folder."""
    goal = comparison_path(folder, out)
    return write_private(goal, comparison_page(comparisons, Path(folder).resolve().name, spoken=spoken))


def write_private(goal: Path, text: str) -> Path:
    """Write a new file that only its owner may read."""
    try:
        with open(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        raise ReleaseError(
            f"Cannot write {goal.name!r}.", fix="Check that its folder exists and is writable."
        ) from None
    return goal


def _line(table: Compared, texts: ViewTexts) -> dict[str, str]:
    """One line of the comparison's table of errors."""
    errors = table.to_json()

    def figure(value: float | None) -> str:
        if value is None:
            return "–"
        return texts(format_percent(value) if table.format == "share" else format_figure(float(value)))

    return {
        "title": texts(table.title),
        "cells": texts.t.number(errors["cells"]),
        "predicted": figure(errors["predicted"]),
        "actual": figure(errors["actual"]),
        "largest": figure(errors["largest"]),
        "covered": "–" if errors["covered"] is None else texts(format_percent(errors["covered"])),
        "summary": texts(table.summary),
    }


_COLUMNS = ("released", "low", "high", "true", "error", "error_low", "error_high", "outside")


def _view(table: Compared, schema: Schema, texts: ViewTexts) -> View:
    t = texts.t
    chosen = np.arange(len(table.truth))
    if len(chosen) > MOST_ROWS:
        chosen = np.sort(np.argsort(-np.abs(table.released - table.truth), kind="stable")[:MOST_ROWS])
    names = _names(table, schema, chosen, texts)
    low, high = table.interval or (np.full(len(table.truth), np.nan),) * 2
    values = [[round_digits(float(column[i])) for column in (table.released, low, high, table.truth)] for i in chosen]
    rows = [[name, *own, *_errors(*own)] for name, own in zip(names, values, strict=True)]
    errors = _line(table, texts)
    note = t("comparison.worst_only", most=MOST_ROWS) if len(rows) < len(table.truth) else ""
    missed = any(row[8] is not None for row in rows)
    bounds = (6, 7) if table.interval else (None, None)
    heads = [t(f"comparison.{name}") for name in _COLUMNS]
    return View(
        title=errors["title"],
        kind="dots",
        columns=[
            value_column(t("comparison.what")),
            *(value_column(head, table.format, i) for i, head in enumerate(heads, 1)),
        ],
        rows=rows,
        summary=errors["summary"] or t("comparison.summary", count=len(table.truth), error=errors["actual"]),
        facts=[
            (
                t("comparison.mean"),
                t("comparison.with_prediction", actual=errors["actual"], predicted=errors["predicted"]),
            ),
            (t("comparison.largest_error"), errors["largest"]),
            (t("comparison.contains"), errors["covered"]),
        ],
        notes=[note] if note else [],
        series=[
            Series(t("comparison.difference"), 5, *bounds),
            *([Series(t("comparison.missed"), 8)] if missed else []),
        ],
        caption=t(
            "comparison.caption_interval" if table.interval else "comparison.caption", notice=t("comparison.notice")
        ),
        line=(0.0, t("comparison.no_error")),
    )


def _names(table: Compared, schema: Schema, chosen: Any, texts: ViewTexts) -> list[str]:
    if not table.attributes:
        return [texts(table.labels[i]) for i in chosen]
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
