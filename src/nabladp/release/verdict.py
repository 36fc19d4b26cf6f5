"""What a cost means, in plain words: whether noise drowns the counts, and whether the figure of a person is large."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.mechanisms import Mechanism
from nabladp.privacy import Budget, Guarantee, Pure
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.interpretation import posterior
from nabladp.privacy.values import BudgetValue, as_value
from nabladp.release.cost import as_python, budgets_of, default_delta, scale_budgets

WEAK_EPSILON = 5.0  # at which a belief of 50% can rise to more than 99%
_CLEAR = 0.2  # noise of this share of an average count leaves its size clear


def noise_verdicts(named: Sequence[tuple[str, Mechanism]], errors: Mapping[str, Any]) -> list[str]:
    """A sentence for each release of tables of counts: the noise of a cell beside an average count."""
    return [
        sentence
        for name, mechanism in named
        if (sentence := _verdict(name, mechanism, _shares(errors.get(name)))) is not None
    ]


def _shares(error: Any) -> list[float | None]:
    """For each table of counts, the noise's standard deviation as a share of the average count."""
    parts = error if isinstance(error, tuple) else ()
    return [part.share for part in parts if hasattr(part, "share")]


def _verdict(name: str, mechanism: Mechanism, shares: Sequence[float | None]) -> str | None:
    known = [share for share in shares if share is not None]
    if not shares:
        return None
    if not known:
        return f"{name!r}: give rows = … in [table] to see how large the noise is beside an average count."
    drowned = sum(share > 1 for share in known)
    if not drowned:
        size = "small" if max(known) <= _CLEAR else "visible"
        return f"{name!r}: the noise is {size}, at most {max(known):.0%} of an average count in any table."
    which = "all tables" if drowned == len(known) else f"{drowned:,} of {len(known):,} tables"
    where = "its table" if len(known) == 1 else which
    return (
        f"{name!r}: at this budget the noise is larger than an average count in {where}. "
        f"{_raise_to(mechanism, max(known) / _CLEAR)}ask for fewer tables, or declare coarser bins."
    )


def _raise_to(mechanism: Mechanism, factor: float) -> str:
    """The budget at which the noise of the worst table would be clear; nothing where no budget is meant for that."""
    budgets = budgets_of(scale_budgets(mechanism.to_json(), factor, _rounded_up))
    if list(budgets) != ["budget"] or not math.isfinite(factor) or factor > 1000:
        return "Raise it, "
    return f"Raise it to {as_python(budgets['budget'])} for noise of {_CLEAR:.0%} of a count, "


def _rounded_up(value: float) -> float:
    """Two digits, so that a person can remember them."""
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
    return [f"The figure for the whole person {figure}. {belief} {fix}"]


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
    rho = float(value.amount())
    return {"epsilon": epsilon_from_rho(rho, delta), "rho": rho, "cdp": math.sqrt(2 * rho), "pure": None}


def typed_budgets(budget: Budget, named: Sequence[tuple[str, Mechanism]], delta: float) -> list[dict[str, Any]]:
    """All budgets that a plan states, each in every measure: its limits, then those of its releases."""
    stated = _flat("limit", budget.to_json())
    for name, mechanism in named:
        stated += _flat(name, budgets_of(mechanism.to_json()))
    return [{"name": name, **in_every_measure(value, delta)} for name, value in stated]


def _flat(owner: str, budgets: Mapping[str, Any]) -> list[tuple[str, BudgetValue]]:
    """Budgets with their names; those of a table, such as ``budgets``, one by one."""
    flat = []
    for name, value in budgets.items():
        if not isinstance(value, Mapping):
            continue
        if any(isinstance(each, Mapping) for each in value.values()):
            flat += [(f"{owner}: {key}", as_value(each)) for key, each in value.items()]
        else:
            flat.append((f"{owner}: {name}", as_value(value)))
    return flat
