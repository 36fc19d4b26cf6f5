"""Columns computed from others: how the value of a column follows from those of its sources, by formula or level.

A formula is an expression of numbers (``"floor(age / 10)"``), a condition for truth values (``"age >= 18"``), or a
table with a condition for each value (``{ child = "age < 18", adult = "age >= 18" }``; the first that holds counts),
or with the values of a single source (``{ north = ["ME", "VT"] }``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.errors import quote
from nabladp.schema.attribute import Attribute
from nabladp.schema.expressions import FORMULA_EXAMPLE, Expression, Numbers, formula_columns
from nabladp.schema.levels import coarser_periods, level_of, period_number
from nabladp.schema.rules import refusal

UNKNOWN = -1  # the code where a formula says nothing


@dataclass(frozen=True, eq=False)
class Formula:
    """The formula of one attribute, checked against its sources."""

    attribute: Attribute
    expression: Expression | None
    cases: tuple[tuple[int, Expression | Integers], ...]
    sources: tuple[str, ...]

    @classmethod
    def of(cls, attribute: Attribute, sources: Mapping[str, Attribute]) -> Formula:
        """Refuses a formula that its sources or its own values contradict."""
        name, given, what = attribute.name, attribute.formula, f"The formula of {quote(attribute.name)}"
        for column in formula_columns(attribute):
            if not sources[column].is_numeric and sources[column].kind != "boolean":
                fix = 'List the source\'s values in the formula: { north = ["ME", "VT"] }.'
                raise refusal(name, f"its formula computes with {column!r}, which holds no numbers", fix)
        if isinstance(given, str):
            expression = Expression(given, what)
            if attribute.kind == "boolean" and not expression.is_condition:
                raise refusal(name, "its formula is not a condition", 'Write one, such as formula = "age >= 18".')
            if attribute.kind != "boolean" and (expression.is_condition or not attribute.is_numeric):
                raise refusal(name, "its formula must give a condition for each of its values", FORMULA_EXAMPLE)
            return cls(attribute, expression, (), expression.names)
        lists = any(not isinstance(case, str) for case in given.values())
        if lists and len(attribute.derived_from) != 1:
            raise refusal(
                name, "its formula lists values, so it needs exactly one source", "Write derived_from = [one column]."
            )
        read = dict.fromkeys([*formula_columns(attribute), *(attribute.derived_from if lists else ())])
        source = sources[attribute.derived_from[0]]
        cases = tuple(
            (
                _own_code(attribute, value),
                Expression(case, what) if isinstance(case, str) else _codes(name, source, case),
            )
            for value, case in given.items()
        )
        return cls(attribute, None, cases, tuple(read))

    def codes(self, numbers: Numbers, codes: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
        """The code of each row where values have conditions or lists, UNKNOWN where none holds; None for an expression
        of numbers, whose values have to be encoded."""
        if self.expression is not None:
            if self.attribute.kind != "boolean":
                return None
            values = self.expression.values(numbers)
            return np.where(np.isnan(values), UNKNOWN, np.nan_to_num(values)).astype(np.int64)
        rows = len(next(iter(codes.values())))
        result = np.full(rows, UNKNOWN, np.int64)
        for code, case in reversed(self.cases):
            if isinstance(case, Expression):
                result[case.holds(numbers)] = code
            else:
                result[np.isin(codes[self.attribute.derived_from[0]], case)] = code
        return result


def _own_code(attribute: Attribute, value: Any) -> int:
    code = attribute.code(value)
    if code is None:
        raise refusal(
            attribute.name, f"its formula names {quote(value)}, which is not one of its values", FORMULA_EXAMPLE
        )
    return code


def _codes(name: str, source: Attribute, values: Sequence[Any]) -> Integers:
    found = [source.code(value) for value in values]
    for value, code in zip(values, found, strict=True):
        if code is None:
            fix = f"List values of {source.name!r} as the schema declares them."
            raise refusal(name, f"its formula lists {quote(value)}, which {source.name!r} does not have", fix)
    return np.array(found, np.int64)


# ---- levels ----------------------------------------------------------------------------------------------------------


def level_codes(source: Attribute, level: Attribute) -> NDArray[np.int64]:
    """For each code of the source the code of its level. Refuses a level that does not fit its source."""
    expected = level_of(source, level.name, level.level or level.prefix or 0)
    made = type(level)(**expected)
    for key, shown in (("values", "domain"), ("null", "'null'"), ("other_code", "'unknown'")):
        if getattr(made, key) != getattr(level, key):
            rule = f"its {shown} is not what follows from its source {quote(source.name)}"
            raise refusal(
                level.name, rule, "Remove what follows from the source: keep name, derived_from, and level or prefix."
            )
    if level.kind == "date":
        finer = source.level or "day"
        first = period_number(source.values[0], finer) or 0
        periods = coarser_periods(np.arange(first, first + len(source.values)), finer, level.level)
        codes = periods - periods[0]
    else:
        known = {value: code for code, value in enumerate(level.values)}
        codes = np.array([known[str(value)[: level.prefix]] for value in source.values])
    extra = [own for own in (level.other_code, level.null_code) if own is not None]
    return np.append(codes, np.array(extra, np.int64)).astype(np.int64)
