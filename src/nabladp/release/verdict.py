"""What a cost means, in plain words: whether noise drowns the counts, and whether the figure of a person is large."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.mechanism import ErrorMeasure
from nabladp.privacy import Budget, Guarantee, Pure
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.interpretation import posterior
from nabladp.privacy.values import BudgetValue, as_value
from nabladp.release.cost import as_python, budgets_of, default_delta, format_cost, scale_budgets

WEAK_EPSILON = 5.0  # at which a belief of 50% can rise to more than 99%


def noise_verdicts(named: Sequence[tuple[str, Mechanism]], errors: Mapping[str, Any], rows: int | None) -> list[str]:
    """A sentence for each release: how large its noise or its promised error is, and what to do where that is much."""
    verdicts = ((name, _verdict(mechanism, errors.get(name), rows or 0)) for name, mechanism in named)
    return [f"{name!r}: {sentence}" for name, sentence in verdicts if sentence is not None]


def _verdict(mechanism: Mechanism, error: Any, rows: int) -> str | None:
    if isinstance(error, tuple):
        measures = [measure for part in error if (measure := part.measure(rows)) is not None]
        return _of_tables(mechanism, measures) if measures else None
    return None if error is None else error.sentence() or _of_one(mechanism, error.measure(rows), rows)


def _of_tables(mechanism: Mechanism, measures: Sequence[ErrorMeasure]) -> str:
    """The verdict on tables of counts, by the noise beside an average count of each."""
    known = [measure.value for measure in measures if measure.value is not None]
    if not known:
        return "give rows = … in [table] to see how large the noise is beside an average count."
    clear, drowned = measures[0].small, sum(share > measures[0].useless for share in known)
    if not drowned:
        size = "small" if max(known) <= clear else "visible"
        return f"the noise is {size}, at most {max(known):.0%} of an average count in any table."
    which = "all tables" if drowned == len(known) else f"{drowned:,} of {len(known):,} tables"
    where = "its table" if len(known) == 1 else which
    fix = _raise_to(mechanism, max(known) / clear, f"noise of {clear:.0%} of a count")
    return (
        f"at this budget the noise is larger than an average count in {where}. "
        f"{fix}{measures[0].advice}, or declare coarser bins."
    )


def _of_one(mechanism: Mechanism, measure: ErrorMeasure | None, rows: int) -> str | None:
    """The verdict on a release that one number tells of."""
    if measure is None:
        return None
    if not rows:
        return "give rows = … in [table] to see how large its error is."
    also = f", or {measure.advice}" if measure.advice else ""
    if measure.value is None:
        return f"nothing is promised with so few rows at this budget. Raise it{also}."
    most = "" if measure.scales else "at most "
    said = f"the error is {_size(measure.value, measure)}. {measure.what}: {most}{measure.value:.2g}."
    if measure.value < measure.useless:
        return said
    if measure.scales:
        raised = _raise_to(mechanism, measure.value / measure.small, f"an error of {measure.small:g}")
        return f"{said} {raised}or {measure.advice}."
    return f"{said} Raise the budget{also}."


def _size(value: float, measure: ErrorMeasure) -> str:
    if value <= measure.small:
        return "small"
    return "visible" if value < measure.useless else "too large to be useful"


def _raise_to(mechanism: Mechanism, factor: float, goal: str) -> str:
    """The budget that reaches a goal; none where no budget is meant for that."""
    budgets = budgets_of(scale_budgets(mechanism.to_json(), factor, rounded_up))
    if list(budgets) != ["budget"] or not math.isfinite(factor) or factor > 1000:
        return "Raise it, "
    return f"Raise it to {as_python(budgets['budget'])} for {goal}, "


def rounded_up(value: float) -> float:
    """A budget with two digits, rounded up, so that a person can remember it."""
    step: float = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.6g}")


def person_warnings(guarantee: Guarantee, delta: float, limited: bool) -> list[str]:
    """A warning where the figure of a person is large; ``limited`` says whether the budget limits it at all."""
    person = guarantee.per_person()
    epsilon = person.epsilon(delta)
    if epsilon <= WEAK_EPSILON or not guarantee.universe.protected:
        return []
    figure = "has no bound" if math.isinf(epsilon) else f"is large: ε = {epsilon:.3g} at δ = {delta:g}"
    belief = posterior(guarantee, guarantee.universe.protected, 0.5, delta).sentence
    fix = "Lower the budgets." if limited else "Limit it with person = { rho = … } in [budget], or lower the budgets."
    return [f"The figure for all protected attributes {figure}. {belief} {fix}"]


def delta_warnings(delta: float, rows: int | None) -> list[str]:
    """A warning where δ is so large that the bounds of somebody in the table are expected to fail."""
    if not rows or delta * rows < 1:
        return []
    return [
        f"δ = {delta:g} is not below 1/rows ({rows:,} rows): the bounds that hold except with probability δ may fail "
        f"for somebody in the table. Set delta = {default_delta(rows):g} under [report], or leave it out."
    ]


# ---- every budget in every measure -----------------------------------------------------------------------------------


def in_every_measure(value: BudgetValue, delta: float) -> dict[str, float | None]:
    """A typed budget as ε at δ, as ρ and as cdp (ε0); and as pure ε, which only a pure one has."""
    if isinstance(value, Pure):
        pure = float(value.eps)
        return {"epsilon": pure, "rho": pure**2 / 2, "cdp": pure, "pure": pure}
    return _of_rho(float(value.amount()), delta)


def _of_rho(rho: float, delta: float) -> dict[str, float | None]:
    return {"epsilon": epsilon_from_rho(rho, delta), "rho": rho, "cdp": math.sqrt(2 * rho), "pure": None}


def left_in_every_measure(lines: Sequence[Mapping[str, Any]], delta: float) -> list[dict[str, Any]]:
    """What limits of a ledger have left, each in every measure; ``lines`` are theirs as JSON."""
    named = []
    for line in lines:
        left = max(line["left"], 0.0)
        pure = {"epsilon": left, "rho": left**2 / 2, "cdp": left, "pure": left}
        named.append({"name": line["limit"], **(pure if line["measure"] != "ρ" else _of_rho(left, delta))})
    return named


def limits_in_every_measure(budget: Budget, delta: float) -> list[dict[str, Any]]:
    """The limits of a budget, each in every measure."""
    return typed_budgets(budget, (), delta)


def typed_budgets(budget: Budget, named: Sequence[tuple[str, Mechanism]], delta: float) -> list[dict[str, Any]]:
    """All budgets that a plan states, each in every measure: its limits, then those of its releases."""
    stated = _flat("limit", budget.to_json())
    for name, mechanism in named:
        stated += _flat(name, budgets_of(mechanism.to_json()))
    return [{"name": name, **in_every_measure(value, delta)} for name, value in stated]


def budget_lines(options: Mapping[str, Any], delta: float) -> list[str]:
    """Every budget among a mechanism's options in all measures, a line for each."""
    lines = []
    for name, value in _flat("", budgets_of(options)):
        own = in_every_measure(value, delta)
        epsilon = f"ε = {format_cost(own['epsilon'])}" + ("" if own["pure"] is not None else f" (δ = {delta:g})")
        lines.append(f"{name}: {epsilon}, ρ = {format_cost(own['rho'])}, cdp = {format_cost(own['cdp'])}")
    return lines


def _flat(owner: str, budgets: Mapping[str, Any]) -> list[tuple[str, BudgetValue]]:
    """Budgets with their names; those of a table, such as ``budgets``, one by one."""
    flat = []
    for name, value in budgets.items():
        if not isinstance(value, Mapping):
            continue
        if any(isinstance(each, Mapping) for each in value.values()):
            flat += [(f"{owner}: {key}" if owner else key, as_value(each)) for key, each in value.items()]
        else:
            flat.append((f"{owner}: {name}" if owner else name, as_value(value)))
    return flat
