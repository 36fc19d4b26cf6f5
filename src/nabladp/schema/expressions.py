"""Declared arithmetic on columns: inequalities that every row should satisfy, and formulas of derived columns.

An expression is written as in Python or SQL: numbers, columns (a name in double quotes if it is not one word), + - * /,
parentheses, floor, min, max, abs; conditions compare with < <= > >= == != and combine with and, or, not. A value that
is missing or "other" makes the result unknown; an unknown condition does not hold.
"""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import SchemaError, quote
from nabladp.schema.rules import Declaration, refusal

Numbers = Mapping[str, Floats]  # by column; NaN where a value is missing or "other"
Bools = NDArray[np.bool_]

LONGEST = 1_000  # characters of an expression
MOST_COLUMNS = 4  # of one rule
_LARGEST = sys.float_info.max
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "floor": (np.floor, 1), "abs": (np.abs, 1), "min": (np.minimum, 2), "max": (np.maximum, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A parsed expression; ``what`` names its owner in errors, such as "The formula of 'age_band'"."""

    text: str
    what: str

    def __post_init__(self) -> None:
        self.names  # noqa: B018  (refuses what is no expression)

    @cached_property
    def _tree(self) -> ast.expr:
        if not isinstance(self.text, str) or not self.text.strip() or len(self.text) > LONGEST:
            raise self._refusal(f"must be a text of at most {LONGEST:,} characters")
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            single = "=" in self.text.replace("==", "").replace("<=", "").replace(">=", "").replace("!=", "")
            fix = "Write == for equality." if single else 'Write e.g. "age - 14", and put names of several words in "".'
            raise self._refusal("cannot be read", fix) from None

    def _refusal(self, rule: str, fix: str = "") -> SchemaError:
        shown = quote(self.text)
        example = 'Write numbers, columns, + - * /, comparisons, and, or, not, such as "age - 14".'
        return SchemaError(f"{self.what}, {shown}, {rule}.", fix=fix or example, rule=rule)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the expression reads, each once."""
        return tuple(dict.fromkeys(self._names(self._tree)))

    @property
    def is_condition(self) -> bool:
        return _is_condition(self._tree)

    def _names(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Name(id=name):
                yield name
            case ast.Constant(value=str() as name):
                yield name
            case ast.Constant(value=value) if not isinstance(value, bool) and isinstance(value, (int, float)):
                if not abs(value) <= _LARGEST:
                    raise self._refusal("holds a number that is too large")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                yield from (*self._names(left), *self._names(right))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                yield from self._names(operand)
            case ast.BoolOp(values=values):
                if not all(map(_is_condition, values)):
                    raise self._refusal("combines numbers with and, or", 'Compare them, as in "age < 18 or age > 64".')
                for part in values:
                    yield from self._names(part)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
                for part in (left, *others):
                    yield from self._names(part)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                if len(arguments) != _FUNCTIONS[name][1]:
                    raise self._refusal(f"gives {name} {len(arguments)} values; it takes {_FUNCTIONS[name][1]}")
                for part in arguments:
                    yield from self._names(part)
            case _:
                raise self._refusal("holds something other than arithmetic and comparisons")

    # ---- values ---------------------------------------------------------------------------------------------------

    def values(self, numbers: Numbers) -> Floats:
        """The expression's value for each row; NaN where it is unknown."""
        with np.errstate(all="ignore"):
            result = np.asarray(self._evaluate(self._tree, numbers), np.float64)
        rows = len(next(iter(numbers.values())))
        return np.where(np.isfinite(result), result, math.nan) if result.ndim else np.full(rows, float(result))

    def holds(self, numbers: Numbers) -> Bools:
        """For each row, whether the condition holds and is known."""
        return np.asarray(self.values(numbers) == 1.0)

    def _evaluate(self, node: ast.expr, numbers: Numbers) -> Any:
        match node:
            case ast.Name(id=name):
                return numbers[name]
            case ast.Constant(value=str() as name):
                return numbers[name]
            case ast.Constant(value=value):
                return float(value)  # type: ignore[arg-type]
            case ast.BinOp(left=left, op=op, right=right):
                return _ARITHMETIC[type(op)](
                    np.asarray(self._evaluate(left, numbers)), np.asarray(self._evaluate(right, numbers))
                )
            case ast.UnaryOp(op=op, operand=operand):
                value = self._evaluate(operand, numbers)
                return 1.0 - value if isinstance(op, ast.Not) else -value if isinstance(op, ast.USub) else value
            case ast.BoolOp(op=op, values=values):
                parts = [np.asarray(self._evaluate(value, numbers)) for value in values]
                return _combine(parts, isinstance(op, ast.And))
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [np.asarray(self._evaluate(side, numbers)) for side in (left, *others)]
                return _combine(
                    [_compare(op, *pair) for op, pair in zip(ops, pairwise(sides), strict=True)],
                    every=True,
                )
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _FUNCTIONS[name][0](*(self._evaluate(value, numbers) for value in arguments))
        raise self._refusal("holds something other than arithmetic and comparisons")

    # ---- linear forms ---------------------------------------------------------------------------------------------

    def inequalities(self) -> Iterator[tuple[dict[str, float], float, bool]]:
        """A rule's comparisons as weights, bound and strictness: Σ weight·column ≤ bound, or < bound."""
        root = self._tree
        if not isinstance(root, ast.Compare):
            raise self._refusal("is no inequality", 'Write one with <=, such as "years_of_work <= age - 14".')
        sides = [self._linear(side) for side in (root.left, *root.comparators)]
        for op, (left, right) in zip(root.ops, pairwise(sides), strict=True):
            if isinstance(op, (ast.Eq, ast.NotEq)):
                raise self._refusal("compares with == or !=", "Write <= or >=, or declare a derived column's formula.")
            low, high = (right, left) if isinstance(op, (ast.Gt, ast.GtE)) else (left, right)
            weights = {name: low[0].get(name, 0.0) - high[0].get(name, 0.0) for name in {**low[0], **high[0]}}
            weights = {name: weight for name, weight in weights.items() if weight}
            bound = high[1] - low[1]
            if len(weights) < 2 or not all(map(math.isfinite, (*weights.values(), bound))):
                fix = "Declare the range of a single column in its attribute: low, high, values or edges."
                raise self._refusal("must compare at least two columns", fix)
            yield weights, bound, isinstance(op, (ast.Lt, ast.Gt))

    def _linear(self, node: ast.expr) -> tuple[dict[str, float], float]:
        match node:
            case ast.Name(id=name):
                return {name: 1.0}, 0.0
            case ast.Constant(value=str() as name):
                return {name: 1.0}, 0.0
            case ast.Constant(value=value):
                return {}, float(value)  # type: ignore[arg-type]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                return _scale(self._linear(operand), -1.0 if isinstance(op, ast.USub) else 1.0)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                a, b = self._linear(left), _scale(self._linear(right), -1.0 if isinstance(op, ast.Sub) else 1.0)
                return {n: a[0].get(n, 0.0) + b[0].get(n, 0.0) for n in {**a[0], **b[0]}}, a[1] + b[1]
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                a, b = self._linear(left), self._linear(right)
                if not a[0] or not b[0]:
                    return _scale(b, a[1]) if not a[0] else _scale(a, b[1])
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                a, b = self._linear(left), self._linear(right)
                if not b[0] and b[1]:
                    return {name: weight / b[1] for name, weight in a[0].items()}, a[1] / b[1]
        fix = "Use columns times numbers, added up, on each side."
        raise self._refusal("is not linear in its columns", fix)


def _is_condition(node: ast.expr) -> bool:
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, (ast.Compare, ast.BoolOp))


def _scale(form: tuple[dict[str, float], float], factor: float) -> tuple[dict[str, float], float]:
    return {name: weight * factor for name, weight in form[0].items()}, form[1] * factor


def _compare(op: ast.cmpop, left: Any, right: Any) -> Any:
    return np.where(np.isnan(left) | np.isnan(right), math.nan, _COMPARISONS[type(op)](left, right))


def _combine(parts: Sequence[Any], every: bool) -> Any:
    """And, or of 0, 1 and unknown: what is decided by the known parts is known."""
    result = parts[0]
    for part in parts[1:]:
        decided = (result == (not every)) | (part == (not every))
        result = np.where(decided, float(not every), np.where(np.isnan(result) | np.isnan(part), math.nan, every))
    return result


# ---- rules between numbers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """One declared inequality between columns of numbers: Σ weight·column ≤ bound (``strict``: < bound).

    A row with a missing or "other" value in one of the columns satisfies it.
    """

    text: str
    names: tuple[str, ...]
    weights: tuple[float, ...]
    bound: float
    strict: bool

    @classmethod
    def parse(cls, text: str) -> tuple[Rule, ...]:
        """The inequalities of one declaration: "0 <= age - years <= 50" has two."""
        expression = Expression(text, "The rule")
        rules = []
        for weights, bound, strict in expression.inequalities():
            names = tuple(name for name in expression.names if name in weights)
            if len(names) > MOST_COLUMNS:
                raise expression._refusal(f"compares {len(names)} columns; the limit is {MOST_COLUMNS}")
            rules.append(cls(text, names, tuple(weights[name] for name in names), bound, strict))
        return tuple(rules)

    def broken(self, numbers: Numbers) -> Bools:
        """The rows whose numbers break the rule."""
        with np.errstate(all="ignore"):
            total: Any = 0.0
            for name, weight in zip(self.names, self.weights, strict=True):
                total = total + weight * numbers[name]
            return np.asarray(total >= self.bound if self.strict else total > self.bound)  # NaN: neither


def checked_rules(given: Any) -> tuple[str, ...]:
    """The rules of a schema as texts, each once; refuses anything else."""
    if isinstance(given, str) or not isinstance(given, (list, tuple)):
        raise SchemaError("'rules' must be a list of texts.", fix='Write rules = ["years_of_work <= age - 14"].')
    for text in given:
        Rule.parse(text)
    return tuple(dict.fromkeys(given))


# ---- formulas --------------------------------------------------------------------------------------------------------

FORMULA_EXAMPLE = (
    'Write formula = "floor(age / 10)", { child = "age < 18", adult = "age >= 18" } or { north = ["ME", "VT"] }.'
)


def formula_columns(attribute: Declaration) -> tuple[str, ...]:
    """The columns that an attribute's formula names; refuses what is no formula."""
    given = attribute.formula
    what = f"The formula of {quote(attribute.name)}"
    if isinstance(given, str):
        return Expression(given, what).names if given else ()
    if not isinstance(given, Mapping) or not given:
        raise refusal(attribute.name, "'formula' must be a text or a table", FORMULA_EXAMPLE)
    names: dict[str, None] = {}
    for case in given.values():
        if isinstance(case, str):
            names |= dict.fromkeys(Expression(case, what).names)
        elif not isinstance(case, (list, tuple)):
            raise refusal(
                attribute.name, "'formula' gives a value neither a condition nor a list of values", FORMULA_EXAMPLE
            )
    return tuple(names)
