"""What a query makes of released values: arithmetic and conditions over aggregates and keys. Free, as the noise is in.

Every value comes with an interval; those of an expression follow from those of the aggregates in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from nabladp.sql.functions import like_pattern
from nabladp.sql.syntax import Node, is_aggregate, number, refuse, text_of

Value = Any  # a number, a text, a truth value, or None for NULL


@dataclass(frozen=True)
class Estimate:
    """A released number with an interval; ``value`` is None where the noise hides it. Keys and constants are exact."""

    value: Value
    low: float | None = None
    high: float | None = None

    @classmethod
    def exact(cls, value: Value) -> Estimate:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls(value, float(value), float(value))
        return cls(value)


class Cell(ABC):
    """One group of an answer."""

    @abstractmethod
    def key(self, index: int) -> Value: ...

    @abstractmethod
    def aggregate(self, index: int) -> Estimate: ...


class Released(ABC):
    """An expression over released values."""

    @abstractmethod
    def estimate(self, cell: Cell) -> Estimate: ...

    @abstractmethod
    def aggregates(self) -> frozenset[int]:
        """The aggregates that it depends on."""

    def value(self, cell: Cell) -> Value:
        return self.estimate(cell).value


@dataclass(frozen=True)
class KeyValue(Released):
    index: int

    def estimate(self, cell: Cell) -> Estimate:
        return Estimate.exact(cell.key(self.index))

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class AggregateValue(Released):
    index: int

    def estimate(self, cell: Cell) -> Estimate:
        return cell.aggregate(self.index)

    def aggregates(self) -> frozenset[int]:
        return frozenset((self.index,))


@dataclass(frozen=True)
class ConstantValue(Released):
    constant: Value

    def estimate(self, cell: Cell) -> Estimate:
        return Estimate.exact(self.constant)

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class Computed(Released):
    """A function of others. ``ends``: its interval from theirs, None where it has none."""

    arguments: tuple[Released, ...]
    compute: Callable[..., Value]
    ends: Callable[..., tuple[float, float] | None]

    def estimate(self, cell: Cell) -> Estimate:
        estimates = [argument.estimate(cell) for argument in self.arguments]
        value = self.compute(*(estimate.value for estimate in estimates))
        ranges = [(estimate.low, estimate.high) for estimate in estimates]
        if any(low is None or high is None for low, high in ranges):
            return Estimate(value)
        interval = self.ends(*ranges)
        return Estimate(value) if interval is None else Estimate(value, *interval)

    def aggregates(self) -> frozenset[int]:
        return frozenset().union(*(argument.aggregates() for argument in self.arguments))


Range = tuple[float, float]


def _strict(compute: Callable[..., Value]) -> Callable[..., Value]:
    """NULL where an argument is, and where there is no result."""

    def guarded(*values: Value) -> Value:
        if any(value is None for value in values):
            return None
        try:
            result = compute(*values)
        except (ArithmeticError, ValueError, TypeError):
            return None
        return None if isinstance(result, float) and not math.isfinite(result) else result

    return guarded


def _products(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotients(a: Range, b: Range) -> Range:
    if b[0] <= 0 <= b[1]:
        return -math.inf, math.inf
    ends = [x / y for x in a for y in b]
    return min(ends), max(ends)


def _none(*ranges: Range) -> None:
    return None


def _increasing(function: Callable[[float], float], least: float = -math.inf) -> Callable[[Range], Range]:
    return lambda a: (function(max(a[0], least)), function(max(a[1], least)))


def _absolute(a: Range) -> Range:
    low = 0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return low, max(abs(a[0]), abs(a[1]))


def _and(*values: Value) -> Value:
    return False if any(value is False for value in values) else None if None in values else True


def _or(*values: Value) -> Value:
    return True if any(value is True for value in values) else None if None in values else False


_BINARY: dict[type[Node], tuple[Callable[..., Value], Callable[..., Any]]] = {
    exp.Add: (lambda a, b: a + b, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    exp.Sub: (lambda a, b: a - b, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    exp.Mul: (lambda a, b: a * b, _products),
    exp.Div: (lambda a, b: a / b, _quotients),
    exp.EQ: (lambda a, b: a == b, _none),
    exp.NEQ: (lambda a, b: a != b, _none),
    exp.LT: (lambda a, b: a < b, _none),
    exp.LTE: (lambda a, b: a <= b, _none),
    exp.GT: (lambda a, b: a > b, _none),
    exp.GTE: (lambda a, b: a >= b, _none),
    exp.Mod: (math.fmod, _none),
    exp.IntDiv: (lambda a, b: math.trunc(a / b), _none),
}
_UNARY: dict[type[Node], tuple[Callable[..., Value], Callable[..., Any]]] = {
    exp.Neg: (lambda a: -a, lambda a: (-a[1], -a[0])),
    exp.Abs: (abs, _absolute),
    exp.Sqrt: (math.sqrt, _increasing(math.sqrt, 0.0)),
    exp.Ln: (math.log, _none),
    exp.Exp: (math.exp, _none),
    exp.Floor: (math.floor, _increasing(lambda x: float(math.floor(x)) if math.isfinite(x) else x)),
    exp.Ceil: (math.ceil, _increasing(lambda x: float(math.ceil(x)) if math.isfinite(x) else x)),
    exp.Not: (lambda a: not a, _none),
}


class PostParser:
    """Reads expressions of the SELECT list, of HAVING and of ORDER BY."""

    def __init__(
        self,
        aggregate: Callable[[Node], list[int]],
        keys: Mapping[str, int],
        aliases: Mapping[str, Node],
        no_key: Callable[[Node], Any],
    ) -> None:
        self._aggregate, self._keys, self._aliases, self._no_key = aggregate, keys, aliases, no_key

    def parse(self, node: Node, depth: int = 0) -> Released:
        results = self.parse_many(node, depth)
        if len(results) > 1:
            refuse(node, "Several quantiles at once make several columns", "Ask for one quantile here.")
        return results[0]

    def parse_many(self, node: Node, depth: int = 0) -> list[Released]:
        if depth > 50:
            refuse(node, "The expression is nested too deeply", "Compute it from the answer.")
        if is_aggregate(node):
            return [AggregateValue(index) for index in self._aggregate(node)]
        text = text_of(node)
        if text in self._keys:
            return [KeyValue(self._keys[text])]
        return [self._convert(node, depth)]

    def _convert(self, node: Node, depth: int) -> Released:
        def inner(child: Node) -> Released:
            return self.parse(child, depth + 1)

        if isinstance(node, exp.Paren):
            return inner(node.this)
        if isinstance(node, exp.Literal):
            return ConstantValue(node.this if node.is_string else number(node))
        if isinstance(node, exp.Boolean):
            return ConstantValue(bool(node.this))
        if isinstance(node, exp.Null):
            return ConstantValue(None)
        if isinstance(node, exp.Column):
            alias = self._aliases.get(node.name.lower())
            if alias is None or node.table or alias is node:
                self._no_key(node)
            return inner(alias)
        if type(node) in _BINARY:
            compute, ends = _BINARY[type(node)]
            return Computed((inner(node.this), inner(node.expression)), _strict(compute), ends)
        if type(node) in _UNARY:
            compute, ends = _UNARY[type(node)]
            return Computed((inner(node.this),), _strict(compute), ends)
        return self._special(node, inner)

    def _special(self, node: Node, inner: Callable[[Node], Released]) -> Released:
        if isinstance(node, (exp.And, exp.Or)):
            return Computed((inner(node.this), inner(node.expression)), _and if isinstance(node, exp.And) else _or, _none)
        if isinstance(node, exp.Round):
            digits = node.args.get("decimals")
            places = 0 if digits is None else number(digits)
            return Computed((inner(node.this),), _strict(lambda a: round(a, int(places))), lambda a: a)
        if isinstance(node, exp.Coalesce):
            parts = (inner(node.this), *(inner(part) for part in node.expressions))
            return Computed(parts, lambda *values: next((v for v in values if v is not None), None), _none)
        if isinstance(node, exp.Nullif):
            return Computed((inner(node.this), inner(node.expression)), lambda a, b: None if a == b else a, lambda a, b: a)
        if isinstance(node, exp.Between):
            parts = tuple(inner(node.args[key]) for key in ("this", "low", "high"))
            return Computed(parts, _strict(lambda a, b, c: b <= a <= c), _none)
        if isinstance(node, exp.In) and not node.args.get("query"):
            parts = (inner(node.this), *(inner(part) for part in node.expressions))
            return Computed(parts, _strict(lambda a, *others: a in others), _none)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Computed((inner(node.this),), lambda a: a is None, _none)
        if isinstance(node, exp.Case) and node.this is None:
            return self._case(node, inner)
        if isinstance(node, exp.Cast):
            return inner(node.this)
        if isinstance(node, (exp.Like, exp.ILike)) and isinstance(node.expression, exp.Literal):
            pattern = like_pattern(str(node.expression.this), None, isinstance(node, exp.ILike))
            return Computed((inner(node.this),), _strict(lambda a: pattern.fullmatch(str(a)) is not None), _none)
        refuse(
            node,
            f"{type(node).__name__.upper()} cannot be computed from released values here",
            "Use + - * /, comparisons, CASE, ROUND, ABS, SQRT, COALESCE, or compute it from the answer.",
        )

    def _case(self, node: exp.Case, inner: Callable[[Node], Released]) -> Released:
        parts: list[Released] = []
        for case in node.args["ifs"]:
            parts += [inner(case.this), inner(case.args["true"])]
        default = node.args.get("default")
        parts.append(ConstantValue(None) if default is None else inner(default))

        def choose(*values: Value) -> Value:
            for condition, value in zip(values[:-1:2], values[1:-1:2], strict=True):
                if condition is True:
                    return value
            return values[-1]

        return Computed(tuple(parts), choose, _none)
