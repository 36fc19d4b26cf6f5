"""Checks of parameters that mechanisms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from nabladp import checks
from nabladp.errors import BudgetError, MechanismError, PlanError, shown, suggestion
from nabladp.privacy.values import BudgetValue, as_value
from nabladp.schema import Schema

MOST_ROWS = 1 << 53
MOST_MEGABYTES = 1 << 24  # 16 TiB
BUYS = {  # by whether a guarantee is pure
    True: "Pure(eps), in a plan { pure = 1.0 }",
    False: "CDP(eps0), Rho(rho) or Approx(eps, delta), in a plan { cdp = 1.0 }",
}
EXAMPLES = {"budget": "{ cdp = 0.2 }", "workload": '{ queries = "conjunctions", k = 2 }', "label": '"sick"'}


def plan_options(kind: type[Any], options: Mapping[str, Any], *needed: str) -> Mapping[str, Any]:
    """The options of a ``[[release]]``, where the mechanism knows them all and has those it needs."""
    known = [field.name for field in fields(kind)]
    for name in checks.expect(options, Mapping, f"The options of {kind.__name__}", "Give them as a table.", PlanError):
        if name not in known:
            fix = suggestion(name, known, f"Options: {', '.join(known)}.")
            raise PlanError(f"{kind.__name__} has no option {shown(name)}.", fix=fix)
    for name in needed:
        if name not in options:
            raise PlanError(f"{kind.__name__} needs a {name}.", fix=f"Add, for instance, {name} = {EXAMPLES[name]}.")
    return options


def check_asked(schema: Any, n: Any = 0) -> None:
    """What a mechanism is asked about: a schema, and a number of rows (0: any number)."""
    checks.expect(schema, Schema, "The schema", 'Load it with Schema.load("schema.toml").')
    if not checks.is_whole(n, 0, MOST_ROWS):
        raise MechanismError(
            f"The number of rows is a whole number from 0 to {MOST_ROWS:,}.", fix="0 stands for any number of rows."
        )


def choice(value: Any, known: Sequence[str], what: str, fix: str) -> str:
    """One of some words; ``what`` is what the word names, as in "There is no method 'x'."."""
    if not isinstance(value, str) or value not in known:
        raise MechanismError(f"There is no {what} {shown(value)}.", fix=fix)
    return value


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
    checks.names(budgets, "'budgets'", "Name each attribute by a text.", BudgetError)
    return budgets
