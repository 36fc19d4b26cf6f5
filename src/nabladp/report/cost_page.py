"""The page before anything is spent: what a plan would tell about people, how exactly, and at other budgets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nabladp.errors import ReleaseError
from nabladp.privacy.units import to_float
from nabladp.release import Plan
from nabladp.release.cost import Cost, format_cost
from nabladp.release.names import refuse_published
from nabladp.release.other_budgets import outlook
from nabladp.report.chapter import explorer
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble
from nabladp.report.sentences import PRIOR, Sentences

Tell = Callable[[str, int, int], None]


def cost_page(plan: Plan, title: str, tell: Tell | None = None) -> str:
    """Sentences, limits, figures and the explorer for the plan's own budgets; sliders and curves for others."""
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
        "words": Sentences(cost.guarantee, plan.delta, rows, plan.rows_per_person, plan.adversaries),
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
    """Kind, label and attributes of every set that the page speaks of: the person, attributes, adversaries, limits."""
    sets = [("person", "the whole person", tuple(cost.guarantee.per_person().attributes))]
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
    """For the sliders: which set a limit is about, and exactly how much is allowed and spent."""
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
