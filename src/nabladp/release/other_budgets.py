"""What a plan would cost and how exact it would be at other budgets than its own. Reads no table, spends nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.errors import NablaDPError
from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.release.cost import as_toml, error_json, is_budget, scale_budgets
from nabladp.release.plan import Plan

FACTORS = tuple(2 ** (step / 2) for step in range(-6, 7))  # of every ε: from an eighth of the plan's to eight times it
PLANNED = FACTORS.index(1.0)
MOST_FIGURES = 200  # of one release
TOGETHER = "all marginals, on average"
Tell = Callable[[str, int, int], None]
Totals = tuple[str | None, str | None, str | None]  # exact units of ρ, of pure ε, and of ρ of what is not pure


@dataclass(frozen=True)
class Step:
    """One release at one budget: its options, what it costs every set, and its expected errors by label."""

    options: Mapping[str, Any]
    totals: tuple[Totals, ...]
    epsilon: float | None  # of the costliest attribute, for this release alone
    errors: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        budget = [f"{name} = {as_toml(value)}" for name, value in self.options.items() if is_budget(self.options, name)]
        return {"budget": budget, "totals": [list(own) for own in self.totals], "epsilon": self.epsilon}


@dataclass(frozen=True)
class Part:
    """One release at every factor; None where the mechanism refuses such a budget."""

    name: str
    mechanism: str
    steps: tuple[Step | None, ...]

    def to_json(self) -> dict[str, Any]:
        labels = list(dict.fromkeys(label for step in self.steps if step is not None for label in step.errors))
        errors = [[None if step is None else step.errors.get(label) for step in self.steps] for label in labels]
        return {
            "name": self.name,
            "mechanism": self.mechanism,
            "steps": [None if step is None else step.to_json() for step in self.steps],
            "figures": [{"label": label, "values": own} for label, own in zip(labels, errors, strict=True)],
        }


@dataclass(frozen=True)
class Outlook:
    """Every release of a plan at every factor. ``sets`` are those whose costs were worked out."""

    plan: Plan
    sets: tuple[tuple[str, ...], ...]
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "factors": list(FACTORS),
            "planned": PLANNED,
            "delta": self.plan.delta,
            "parts": [part.to_json() for part in self.parts],
        }


def outlook(plan: Plan, sets: Sequence[Sequence[str]], tell: Tell | None = None) -> Outlook:
    """``sets`` are the sets of attributes whose costs are wanted."""
    wanted = tuple(tuple(chosen) for chosen in sets)
    parts = []
    for number, (name, mechanism) in enumerate(plan.releases):
        steps = []
        for index, factor in enumerate(FACTORS):
            if tell is not None:
                tell("pricing, budget", number * len(FACTORS) + index + 1, len(plan.releases) * len(FACTORS))
            steps.append(_step(plan, mechanism, factor, wanted))
        parts.append(Part(name, type(mechanism).__name__, tuple(steps)))
    return Outlook(plan, wanted, tuple(parts))


def _step(plan: Plan, mechanism: Mechanism, factor: float, sets: Sequence[tuple[str, ...]]) -> Step | None:
    options = mechanism.to_json()
    if factor != 1:
        if "settings" in options:  # they fix the noise, whatever the budget
            return None
        options = scale_budgets(options, factor)
    try:
        chosen = mechanism if factor == 1 else type(mechanism).from_plan(options)
        rows = plan.rows or 0
        guarantee = chosen.guarantee(plan.schema, rows).for_rows(plan.rows_per_person)
        errors = dict(_errors(error_json(chosen.expected_error(plan.schema, rows))))
    except NablaDPError:
        if factor == 1:
            raise
        return None
    each = [guarantee.epsilon(name, plan.delta) for name in guarantee.universe.protected]
    worst = max(each, default=math.inf)
    return Step(options, tuple(_totals(guarantee, own) for own in sets), _finite(worst), errors)


def _totals(guarantee: Guarantee, attributes: tuple[str, ...]) -> Totals:
    total = guarantee.total(attributes)
    if total is None:
        return None, None, None
    rho, pure, rest = (None if units is None else str(units) for units in (total.rho, total.pure, total.rho_of_rest))
    return rho, pure, rest


def _errors(error: Any) -> Iterator[tuple[str, float | None]]:
    """Numbers that say how large an error is, by label."""
    if isinstance(error, Mapping):
        for label, value in list(error.get("summary", {}).items())[:MOST_FIGURES]:
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(label), _finite(float(value))
        return
    mean = math.fsum(part["mean_absolute"] for part in error) / max(len(error), 1)
    if len(error) > 1:
        yield TOGETHER, _finite(mean)
    for part in error[: MOST_FIGURES - 1]:
        yield " + ".join(part["attributes"]), _finite(part["mean_absolute"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
