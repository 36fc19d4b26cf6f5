"""The page that measures synthetic rows against the real table: for the owner alone, not for publication."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabladp.release.comparison import comparison_path
from nabladp.release.evaluation import Evaluation
from nabladp.report.language import Language, language
from nabladp.report.owner_pages import MARKS, write_private
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.report.view_texts import ViewTexts
from nabladp.views import Series, View
from nabladp.views.view import format_figure, format_percent, round_digits, value_column

MOST_LISTED = 200  # marginals, those that are furthest away, and correlations


def evaluation_page(found: Evaluation, title: str, *, spoken: str = "en") -> str:
    """The owner's page of an evaluation; ``spoken`` is its language."""
    t = language(spoken)
    context = {
        "title": title,
        "notice": t("comparison.notice"),
        "marks": MARKS,
        "lead": t("evaluation.lead", synthetic=t.number(found.synthetic_rows), real=t.number(found.real_rows)),
        "figures": _figures(found, t),
        "broken": [
            {
                "declaration": each.declaration,
                "real": _rows(each.real, t),
                "synthetic": _rows(each.synthetic, t),
            }
            for each in found.broken
        ],
    }
    blocks = {"views-0": [view.to_json() for view in _views(found, t)]}
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js")
    return assemble("evaluation.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE), t)


def write_evaluation(found: Evaluation, title: str, out: str | Path, *, spoken: str = "en") -> Path:
    """Write an evaluation into a new private file, never into a published folder."""
    goal = comparison_path(None, out)
    return write_private(goal, evaluation_page(found, title, spoken=spoken))


def _rows(rows: int | None, t: Language) -> str:
    return t("evaluation.uncounted") if rows is None else t.number(rows)


def _figures(found: Evaluation, t: Language) -> list[dict[str, str]]:
    texts = ViewTexts(t)

    def line(name: str, means: str, value: str, best: str) -> dict[str, str]:
        return {"name": name, "means": means, "value": texts(value), "best": texts(best)}

    single = sum(each.distance for each in found.univariate) / len(found.univariate)
    lines = [
        line(
            t("evaluation.score", k=found.width),
            t("evaluation.score_means", count=t.number(len(found.marginals))),
            f"{found.score:.1f}",
            "1000",
        ),
        line(t("evaluation.one_way"), t("evaluation.one_way_means"), format_percent(single), "0%"),
    ]
    if found.correlation_difference is not None:
        means = t("evaluation.pearson_means", count=t.number(len(found.correlations)))
        lines.append(line(t("evaluation.pearson"), means, format_figure(found.correlation_difference), "0"))
    if found.propensity is not None:
        means = t("evaluation.propensity_means")
        lines.append(line(t("evaluation.propensity"), means, format_figure(found.propensity), "0"))
    if (own := found.transfer) is not None:
        real, common = (texts(format_percent(share)) for share in (own.real, own.most_common))
        means = t("evaluation.transfer_means", real=real, common=common)
        name = t("evaluation.transfer", target=own.target)
        lines.append(line(name, means, format_percent(own.synthetic), format_percent(own.real)))
    return lines


def _views(found: Evaluation, t: Language) -> list[View]:
    alone = [[each.attributes[0], each.distance, each.ordered] for each in found.univariate]
    worst = sorted(found.marginals, key=lambda each: -each.distance)[:MOST_LISTED]
    together = [[" + ".join(each.attributes), each.distance] for each in worst]
    pairs = sorted(found.correlations, key=lambda each: -abs(each.synthetic - each.real))[:MOST_LISTED]
    apart = [[" + ".join(e.attributes), e.synthetic - e.real, e.synthetic, e.real] for e in pairs]
    distance = t("evaluation.distance")
    views = [
        _bars(t("evaluation.columns"), (t("evaluation.column"), distance, t("evaluation.ordered")), alone, "share"),
        _bars(t("evaluation.worst"), (t("evaluation.marginal"), distance), together, "share"),
    ]
    if apart:
        heads = (*(t(f"evaluation.{key}") for key in ("pair", "difference", "synthetic", "real")),)
        views.append(_bars(t("evaluation.correlations"), heads, apart, "number"))
    return views


def _bars(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], format: str) -> View:
    columns = [value_column(heads[0]), *(value_column(head, format, i) for i, head in enumerate(heads[1:], 1))]
    listed = [[row[0], *map(round_digits, row[1:])] for row in rows]
    return View(title=title, kind="bars", columns=columns, rows=listed, series=[Series(heads[1], 1)], signed=True)
