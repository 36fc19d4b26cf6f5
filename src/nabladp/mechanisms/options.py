"""Checks of parameters that mechanisms share."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nabladp.errors import BudgetError, PlanError
from nabladp.privacy.values import BudgetValue, as_value

BUYS = {  # by whether a guarantee is pure
    True: "Pure(eps), in a plan { pure = 1.0 }",
    False: "CDP(eps0), Rho(rho) or Approx(eps, delta), in a plan { cdp = 1.0 }",
}
EXAMPLES = {"budget": "{ cdp = 0.2 }", "workload": '{ queries = "conjunctions", k = 2 }', "label": '"sick"'}


def plan_options(kind: type[Any], options: Mapping[str, Any], *needed: str) -> Mapping[str, Any]:
    """The options of a ``[[release]]``, where the mechanism knows them all and has those it needs."""
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else f"Options: {', '.join(known)}."
            raise PlanError(f"{kind.__name__} has no option {name!r}.", fix=fix)
    for name in needed:
        if name not in options:
            raise PlanError(f"{kind.__name__} needs a {name}.", fix=f"Add, for instance, {name} = {EXAMPLES[name]}.")
    return options


def typed(value: Any, what: str) -> BudgetValue:
    """A budget, from a plan or not; whatever is wrong with it, the error says which it is."""
    try:
        return as_value(value, what)
    except BudgetError as error:
        if what in error.message:
            raise
        raise BudgetError(f"The {what}: {error.message}", fix=error.fix, **error.fields) from None


def concentrated(value: Any, what: str) -> BudgetValue:
    """A budget that buys Gaussian noise."""
    found = typed(value, what)
    if found.pure:
        raise BudgetError(f"Gaussian noise cannot be bought with this {what}.", fix=f"Use {BUYS[False]}.")
    return found


def concentrated_each(budgets: Any) -> dict[str, BudgetValue]:
    """Exceptions by attribute, each of which buys Gaussian noise."""
    return {name: concentrated(value, f"budget of {name!r}") for name, value in by_attribute(budgets).items()}


def by_attribute(budgets: Any) -> Mapping[str, Any]:
    """Exceptions by attribute, before their values are looked at."""
    if not isinstance(budgets, Mapping):
        raise BudgetError("'budgets' maps attributes to budgets.", fix="Write budgets = {'age': CDP(0.1)}.")
    return budgets
