"""The parameters that only Synthesis has: the values that they take, and how a plan writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from nabladp.checks import is_number, is_whole, name_or_names
from nabladp.errors import BudgetError, MechanismError, MissingPart
from nabladp.mechanisms.kinds import listing, typed_budget
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.privacy.values import BudgetValue

BACK_ENDS = ("own", "mbi")
MOST_ROUNDS = 10_000


def check_back_end(back_end: str, zeros: Sequence[Any]) -> None:
    """Refuses, before anything is booked, a last fit that could not be made."""
    if back_end != "mbi":
        return
    if zeros:
        raise MechanismError("mbi knows no declared zeros.", fix='Leave back_end = "mbi" out, or declare no zeros.')
    if any(find_spec(package) is None for package in ("mbi", "jax")):
        raise MissingPart('back_end = "mbi" needs mbi.', fix="Install nabladp[synthesis].")


class SetBudgets(Kind):
    """Budgets by attribute, or by several: "age+sex", or a tuple of names."""

    takes = "a table of budgets by attribute or set of attributes"
    example = "{ age = { cdp = 0.1 } }"

    def checked(self, value: Any, declared: Parameter) -> dict[Any, BudgetValue]:
        if not isinstance(value, Mapping):
            more = " The marginals that are wanted are listed in 'workload'." if declared.name == "sets" else ""
            raise BudgetError(f"{declared.name!r} must be {self.takes}.", fix=declared.fix + more)
        return {_named(name, declared): _limit(name, budget) for name, budget in value.items()}

    def stored(self, value: Mapping[Any, BudgetValue]) -> dict[str, Any]:
        return {_key(name): budget.to_json() for name, budget in value.items()}


class WantedMarginals(Kind):
    takes = "a number of columns or a list of sets"
    example = '[["age", "sex"], ["income"]]'

    def checked(self, value: Any, declared: Parameter) -> int | tuple[tuple[str, ...], ...]:
        if is_whole(value, -MOST_ROUNDS, MOST_ROUNDS):
            return int(value)
        listed = listing(value, declared)
        return tuple(name_or_names(names, f"A set of {declared.name!r}", MechanismError) for names in listed)

    def stored(self, value: int | tuple[tuple[str, ...], ...]) -> int | list[list[str]]:
        return value if isinstance(value, int) else [list(names) for names in value]


class WantedWeights(Kind):
    """By attribute or set of attributes, or a list with one for each set of the workload."""

    takes = "a table of numbers by attribute or set of attributes, or a list of numbers"
    example = "{ income = 3 }"

    def checked(self, value: Any, declared: Parameter) -> dict[Any, Any] | tuple[Any, ...]:
        if isinstance(value, Mapping):
            return {_named(key, declared): weight for key, weight in value.items()}
        return listing(value, declared)

    def stored(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {_key(key): float(weight) for key, weight in value.items()}
        return list(value)


class DeclaredZeros(Kind):
    takes = "a list of declarations, each with a condition for two columns or more"
    example = '[{ age = { below = 15 }, income = { not = "(null)" } }]'

    def checked(self, value: Any, declared: Parameter) -> tuple[dict[str, Any], ...]:
        zeros = (value,) if isinstance(value, Mapping) else listing(value, declared)
        if not all(isinstance(zero, Mapping) for zero in zeros):
            raise declared.wrong()
        return tuple(dict(zero) for zero in zeros)

    def stored(self, value: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return list(value)


def _limit(name: Any, value: Any) -> BudgetValue:
    what = f"The budget of {_key(name)!r}"
    if isinstance(value, Mapping) and any(is_number(amount) and amount == 0 for amount in value.values()):
        raise BudgetError(f"{what} is zero.", fix="Leave its columns out of the workload instead.")
    return typed_budget(value, what, "gaussian")


def _named(key: Any, declared: Parameter) -> Any:
    if isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key)):
        return key
    raise MechanismError(
        f"{declared.name!r} has a key that names no attributes.", fix='Write "age", or "age+sex" for a set.'
    )


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "+".join(key)
