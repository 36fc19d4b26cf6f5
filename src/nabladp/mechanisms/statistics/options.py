"""The parameters of Statistics: queries in SQL, or by their parts, each as a plan file has it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from nabladp.checks import is_number
from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.privacy.budget import Budget
from nabladp.privacy.values import BudgetValue


class Queries(Kind):
    """One query, or several that share what they measure."""

    takes = "a query, or a list of queries"
    example = '"SELECT region, COUNT(*) FROM people GROUP BY region"'

    def checked(self, value: Any, declared: Parameter) -> tuple[str, ...]:
        listed = (value,) if isinstance(value, str) else value
        if isinstance(listed, tuple) and not listed:  # the query is given by its parts
            return listed
        if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(text, str) for text in listed):
            raise declared.wrong()
        return tuple(listed)

    def stored(self, value: Any) -> Any:
        return value[0] if len(value) == 1 else list(value)


class SetLimits(Kind):
    """Limits on several attributes together: "age+sex", or a tuple of names."""

    takes = "a table of budgets by set of attributes"
    example = '{ "age+sex" = { cdp = 0.1 } }'

    def checked(self, value: Any, declared: Parameter) -> dict[Any, BudgetValue]:
        if not isinstance(value, Mapping):
            raise declared.wrong()
        return dict(Budget(sets=value).sets) if value else {}

    def stored(self, value: Any) -> dict[str, Any]:
        return {name if isinstance(name, str) else "+".join(name): own.to_json() for name, own in value.items()}


class Expressions(Kind):
    """Columns, or expressions in SQL; one alone may stand without brackets."""

    takes = "a column or an expression in SQL, or a list of these"
    example = '["income"]'

    def checked(self, value: Any, declared: Parameter) -> tuple[str, ...]:
        listed = (value,) if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(part, str) and part.strip() for part in listed):
            raise declared.wrong()
        return tuple(dict.fromkeys(listed))

    def stored(self, value: Any) -> list[str]:
        return list(value)


class Counted(Expressions):
    """True for all rows; columns for rows in which they are not NULL."""

    takes = "true, or a list of columns whose values are counted"
    example = "true"

    def checked(self, value: Any, declared: Parameter) -> tuple[str, ...]:
        if isinstance(value, bool):
            return ("*",) if value else ()
        return super().checked(value, declared)


class Condition(Kind):
    takes = "a condition in SQL"
    example = '"age >= 18"'

    def checked(self, value: Any, declared: Parameter) -> str:
        if not isinstance(value, str) or not value.strip():
            raise declared.wrong()
        return value


class Levels(Kind):
    """Levels of quantiles, by column or expression."""

    takes = "a table of levels between 0 and 1 by column"
    example = "{ income = [0.25, 0.75] }"

    def checked(self, value: Any, declared: Parameter) -> dict[str, tuple[float, ...]]:
        if not isinstance(value, Mapping) or not all(isinstance(part, str) and part.strip() for part in value):
            raise declared.wrong()
        return {part: self._levels(part, levels, declared) for part, levels in value.items()}

    def _levels(self, part: str, levels: Any, declared: Parameter) -> tuple[float, ...]:
        listed = levels if isinstance(levels, (list, tuple)) else (levels,)
        if not listed or not all(is_number(level) and 0 < level < 1 for level in listed):
            text = f"The levels of {quote(part)} in {declared.name!r} must be numbers between 0 and 1."
            raise MechanismError(text, fix=declared.fix, parameter=declared.name)
        return tuple(dict.fromkeys(map(float, listed)))

    def stored(self, value: Any) -> dict[str, list[float]]:
        return {part: list(levels) for part, levels in value.items()}


class Bounds(Kind):
    """Bounds of one person's total, by column or expression."""

    takes = "a table of a lower and an upper bound by column"
    example = "{ income = [0, 5000] }"

    def checked(self, value: Any, declared: Parameter) -> dict[str, tuple[float, float]]:
        if not isinstance(value, Mapping) or not all(isinstance(part, str) and part.strip() for part in value):
            raise declared.wrong()
        return {part: self._bounds(part, bounds, declared) for part, bounds in value.items()}

    def _bounds(self, part: str, bounds: Any, declared: Parameter) -> tuple[float, float]:
        listed = tuple(bounds) if isinstance(bounds, (list, tuple)) else ()
        if len(listed) != 2 or not all(map(is_number, listed)) or not listed[0] < listed[1]:
            text = f"The bounds of {quote(part)} in {declared.name!r} must be two numbers, the lower one first."
            raise MechanismError(text, fix=declared.fix, parameter=declared.name)
        return float(listed[0]), float(listed[1])

    def stored(self, value: Any) -> dict[str, list[float]]:
        return {part: list(bounds) for part, bounds in value.items()}


class GroupLists(Kind):
    """Public lists of groups, by key; NULL counts among the others."""

    takes = "a table of lists of groups by key"
    example = '{ region = ["north", "south"] }'

    def checked(self, value: Any, declared: Parameter) -> dict[str, tuple[Any, ...]]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
            raise declared.wrong()
        return {name: self._list(name, listed, declared) for name, listed in value.items()}

    def _list(self, name: str, listed: Any, declared: Parameter) -> tuple[Any, ...]:
        if not isinstance(listed, (list, tuple)) or not listed or not all(map(_is_label, listed)):
            text = f"The groups of {quote(name)} in {declared.name!r} must be a list of its values."
            raise MechanismError(text, fix=declared.fix, parameter=declared.name)
        return tuple(dict.fromkeys(map(_plain, listed)))

    def stored(self, value: Any) -> dict[str, list[Any]]:
        return {name: list(listed) for name, listed in value.items()}


def _is_label(value: Any) -> bool:
    return isinstance(value, (str, bool)) or is_number(value)


def _plain(value: Any) -> str | int | float:
    """As Python's own numbers."""
    if isinstance(value, (str, bool)):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
