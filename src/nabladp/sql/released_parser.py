"""Expressions of a query over its aggregates and keys: the SELECT list, HAVING and ORDER BY."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from nabladp.sql.arithmetic import round_half_away
from nabladp.sql.dates import cast_digits, cast_type
from nabladp.sql.released import (
    AggregateValue,
    Computed,
    ConstantValue,
    Ends,
    GroupingValue,
    KeyValue,
    Range,
    Released,
    Value,
)
from nabladp.sql.syntax import (
    Node,
    check_options,
    children,
    constant_number,
    is_aggregate,
    number,
    operands,
    refuse,
    sql_name,
    unwrap,
)
from nabladp.sql.texts import as_text, like

MOST_STEPS = 5_000  # parts of the expressions of one query

# ---- functions and their intervals -----------------------------------------------------------------------------------


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


def _numbers(compute: Callable[..., Value]) -> Callable[..., Value]:
    """Of numbers alone; text has no arithmetic."""

    def guarded(*values: Value) -> Value:
        return None if any(isinstance(value, str) for value in values) else compute(*values)

    return _strict(guarded)


def _products(a: Range, b: Range) -> Range:
    ends = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotients(a: Range, b: Range) -> Range:
    if b[0] <= 0 <= b[1]:
        return -math.inf, math.inf
    ends = [x / y for x in a for y in b]
    return min(ends), max(ends)


def _none(*ranges: Range) -> None:
    return None


def _increasing(function: Callable[[float], float], least: float = -math.inf) -> Ends:
    def ends(a: Range) -> Range:
        low, high = (function(max(end, least)) if math.isfinite(end) else end for end in a)
        return max(low, function(least)) if math.isfinite(least) else low, high

    return ends


def _absolute(a: Range) -> Range:
    low = 0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return low, max(abs(a[0]), abs(a[1]))


def _and(*values: Value) -> Value:
    return False if any(value is False for value in values) else None if any(v is None for v in values) else True


def _or(*values: Value) -> Value:
    return True if any(value is True for value in values) else None if any(v is None for v in values) else False


def _member(value: Value, *others: Value) -> Value:
    if value is None:
        return None
    return True if value in others else None if any(other is None for other in others) else False


def _choose(*values: Value) -> Value:
    """Condition, value, condition, value, …, and the value where no condition holds."""
    for condition, value in zip(values[:-1:2], values[1:-1:2], strict=True):
        if condition is True:
            return value
    return values[-1]


def _extreme(pick: Callable[[list[Value]], Value]) -> Callable[..., Value]:
    def guarded(*values: Value) -> Value:
        present = [value for value in values if value is not None]
        return _strict(lambda: pick(present))() if present else None

    return guarded


def _round(digits: int) -> tuple[Callable[..., Value], Ends]:
    def compute(value: float) -> float:
        rounded = float(round_half_away(float(value), digits))
        return int(rounded) if isinstance(value, int) and rounded.is_integer() else rounded

    return _numbers(compute), _increasing(compute)


def _whole(function: Callable[[float], int]) -> tuple[Callable[..., Value], Ends]:
    return _numbers(function), _increasing(lambda x: float(function(x)))


_BINARY: dict[type[Node], tuple[Callable[..., Value], Ends]] = {
    exp.Add: (_numbers(lambda a, b: a + b), lambda a, b: (a[0] + b[0], a[1] + b[1])),
    exp.Sub: (_numbers(lambda a, b: a - b), lambda a, b: (a[0] - b[1], a[1] - b[0])),
    exp.Mul: (_numbers(lambda a, b: a * b), _products),
    exp.Div: (_numbers(lambda a, b: a / b), _quotients),
    exp.SafeDivide: (_numbers(lambda a, b: a / b), _quotients),
    exp.EQ: (_strict(lambda a, b: a == b), _none),
    exp.NEQ: (_strict(lambda a, b: a != b), _none),
    exp.LT: (_strict(lambda a, b: a < b), _none),
    exp.LTE: (_strict(lambda a, b: a <= b), _none),
    exp.GT: (_strict(lambda a, b: a > b), _none),
    exp.GTE: (_strict(lambda a, b: a >= b), _none),
    exp.Mod: (_numbers(math.fmod), _none),
    exp.IntDiv: (_numbers(lambda a, b: math.trunc(a / b)), _none),
    exp.Pow: (_numbers(lambda a, b: float(a) ** float(b) if abs(b) <= 64 else None), _none),
    exp.NullSafeEQ: (lambda a, b: a == b, _none),
    exp.NullSafeNEQ: (lambda a, b: a != b, _none),
    exp.Nullif: (lambda a, b: None if a == b else a, lambda a, b: a),
    exp.DPipe: (_strict(lambda a, b: as_text(a) + as_text(b)), _none),
}
_UNARY: dict[type[Node], tuple[Callable[..., Value], Ends]] = {
    exp.Neg: (_numbers(lambda a: -a), lambda a: (-a[1], -a[0])),
    exp.Abs: (_numbers(abs), _absolute),
    exp.Sqrt: (_numbers(math.sqrt), _increasing(math.sqrt, 0.0)),
    exp.Ln: (_numbers(math.log), _none),
    exp.Exp: (_numbers(math.exp), _none),
    exp.Floor: _whole(math.floor),
    exp.Ceil: _whole(math.ceil),
    exp.Trunc: _whole(math.trunc),
    exp.Not: (_strict(lambda a: not a), _none),
}
_MANY: dict[type[Node], tuple[Callable[..., Value], Ends]] = {
    exp.Coalesce: (lambda *values: next((value for value in values if value is not None), None), _none),
    exp.Least: (_extreme(min), lambda *ranges: (min(a for a, _ in ranges), min(b for _, b in ranges))),
    exp.Greatest: (_extreme(max), lambda *ranges: (max(a for a, _ in ranges), max(b for _, b in ranges))),
    exp.Concat: (lambda *values: "".join(as_text(value) for value in values if value is not None), _none),
}
_LEAVES = (exp.Literal, exp.Boolean, exp.Null)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nullif)


# ---- how a query writes them -----------------------------------------------------------------------------------------


class KeyReader(ABC):
    """What expressions over released values know of the keys of groups."""

    @abstractmethod
    def find(self, node: Node) -> int | None:
        """The position of the key that is written like this."""

    @abstractmethod
    def count(self) -> int:
        """How many keys there are."""

    @abstractmethod
    def operand(self, node: Node, index: int) -> Released:
        """A key inside an expression."""

    @abstractmethod
    def function(self, node: Node) -> Released | None:
        """A row-wise function of a single key, by its labels; None where this is none."""

    @abstractmethod
    def constant(self, node: Node, index: int, text: str) -> Any:
        """The value of a text that is compared with a key: a label stands for its value."""

    @abstractmethod
    def refuse(self, node: Node) -> Any:
        """A column that is no key."""


class PostParser:
    """Reads expressions of the SELECT list, of HAVING and of ORDER BY."""

    def __init__(self, aggregate: Callable[[Node], list[int]], keys: KeyReader, aliases: Mapping[str, Node]) -> None:
        self._aggregate, self._keys, self._aliases = aggregate, keys, aliases
        self._steps = 0

    def parse(self, node: Node) -> Released:
        results = self.parse_many(node)
        if len(results) > 1:
            refuse(node, "Several quantiles at once make several columns", "Ask for one quantile here.")
        return results[0]

    def parse_many(self, node: Node) -> list[Released]:
        """A key as it is shown, or any expression; several where a node asks for several quantiles."""
        index = self._keys.find(node)
        if index is not None:
            return [KeyValue(index)]
        if is_aggregate(node):
            return [AggregateValue(own) for own in self._aggregate(node)]
        if isinstance(node, exp.Paren):
            return self.parse_many(node.this)
        return [self._operand(node, ())]

    def _operand(self, node: Node, seen: tuple[str, ...]) -> Released:
        self._steps += 1
        if self._steps > MOST_STEPS:
            refuse(node, "The expressions of the query are too long", "Compute them from the answer.")
        index = self._keys.find(node)
        if index is not None:
            return self._keys.operand(node, index)
        if is_aggregate(node):
            found = self._aggregate(node)
            if len(found) > 1:
                refuse(node, "Several quantiles at once make several columns", "Ask for one quantile here.")
            return AggregateValue(found[0])
        if isinstance(node, exp.Column):
            name = node.name.lower()
            if node.table or name in seen or name not in self._aliases:
                self._keys.refuse(node)
            return self._operand(self._aliases[name], (*seen, name))
        check_options(node)
        return self._convert(node, lambda child: self._operand(child, seen))

    def _convert(self, node: Node, inner: Callable[[Node], Released]) -> Released:
        if isinstance(node, exp.Paren):
            return inner(node.this)
        if isinstance(node, _LEAVES):
            return ConstantValue(_constant(node))
        for table in (_BINARY, _UNARY, _MANY):
            if type(node) in table:
                compute, ends = table[type(node)]
                labels = isinstance(node, _COMPARISONS)
                given = children(node)
                return Computed(
                    self._comparison_arguments(given, inner) if labels else tuple(map(inner, given)), compute, ends
                )
        if isinstance(node, (exp.And, exp.Or)):
            parts = tuple(inner(one) for one in operands(node))
            return Computed(parts, _and if isinstance(node, exp.And) else _or, _none)
        special = self._special(node, inner) or self._keys.function(node)
        if special is None:
            refuse(
                node,
                f"{sql_name(node)} cannot be computed from released values",
                "Use + - * /, comparisons, CASE, ROUND, ABS, SQRT or COALESCE, or compute it from the answer.",
            )
        return special

    def _comparison_arguments(self, nodes: Sequence[Node], inner: Callable[[Node], Released]) -> tuple[Released, ...]:
        """Arguments of a comparison; beside a key, a text that is one of its labels is the value of that label."""
        written = [self._aliases.get(node.name.lower(), node) if _is_name(node) else node for node in nodes]
        keys = [index for node in written if (index := self._keys.find(unwrap(node))) is not None]
        if len(keys) != 1:
            return tuple(inner(node) for node in nodes)
        return tuple(
            ConstantValue(self._keys.constant(node, keys[0], str(node.this)))
            if isinstance(node, exp.Literal) and node.is_string
            else inner(node)
            for node in nodes
        )

    def _grouping(self, node: Node) -> Released:
        """GROUPING of keys; GROUPING_ID() without any is about all of them."""
        found = [self._keys.find(unwrap(key)) for key in node.expressions]
        if None in found or not (found or isinstance(node, exp.GroupingId)):
            refuse(node, f"{sql_name(node)} takes keys of GROUP BY", "Write GROUPING(x) with GROUP BY ROLLUP (x).")
        return GroupingValue(tuple(i for i in found if i is not None) or tuple(range(self._keys.count())))

    def _special(self, node: Node, inner: Callable[[Node], Released]) -> Released | None:
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping(node)
        if isinstance(node, exp.Round):
            digits = constant_number(node.args.get("decimals")) if node.args.get("decimals") is not None else 0
            if not isinstance(digits, int) or abs(digits) > 15:
                refuse(node, "ROUND takes a constant number of digits", "Write ROUND(x, 2).")
            return Computed((inner(node.this),), *_round(digits))
        if isinstance(node, exp.Cast):
            return self._cast(node, inner)
        if isinstance(node, exp.Between):
            parts = self._comparison_arguments([node.args[key] for key in ("this", "low", "high")], inner)
            return Computed(parts, _strict(lambda a, b, c: b <= a <= c), _none)
        if isinstance(node, exp.In) and node.expressions:
            return Computed(self._comparison_arguments((node.this, *node.expressions), inner), _member, _none)
        if isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean)):
            wanted, negated = _constant(node.expression), bool(node.args.get("negate"))
            return Computed((inner(node.this),), lambda a: (a is wanted) is not negated, _none)
        if isinstance(node, exp.Case):
            return self._case(node, inner)
        if isinstance(node, exp.If):
            default = node.args.get("false")
            last = ConstantValue(None) if default is None else inner(default)
            return Computed((inner(node.this), inner(node.args["true"]), last), _choose, _none)
        if isinstance(node, (exp.Like, exp.ILike)) and isinstance(node.expression, exp.Literal):
            matches = like(str(node.expression.this), None, isinstance(node, exp.ILike))
            negated = bool(node.args.get("negate"))
            return Computed((inner(node.this),), _strict(lambda a: matches(as_text(a)) is not negated), _none)
        return None

    def _cast(self, node: exp.Cast, inner: Callable[[Node], Released]) -> Released:
        target, digits = cast_type(node), cast_digits(node)
        if "INT" in target:
            return Computed((inner(node.this),), *_whole(round))
        if target in ("DOUBLE", "FLOAT") or (target in ("DECIMAL", "BIGDECIMAL") and digits is None):
            return Computed((inner(node.this),), _numbers(float), lambda a: a)
        if target in ("DECIMAL", "BIGDECIMAL"):
            return Computed((inner(node.this),), *_round(digits or 0))
        if target in ("TEXT", "VARCHAR"):
            return Computed((inner(node.this),), _strict(as_text), _none)
        refuse(node, f"Released values cannot be cast to {target}", "Cast to INTEGER, DOUBLE, DECIMAL or VARCHAR.")

    def _case(self, node: exp.Case, inner: Callable[[Node], Released]) -> Released:
        parts: list[Released] = []
        for case in node.args["ifs"]:
            if node.this is None:
                condition = inner(case.this)
            else:
                condition = Computed(self._comparison_arguments((node.this, case.this), inner), *_BINARY[exp.EQ])
            parts += [condition, inner(case.args["true"])]
        default = node.args.get("default")
        parts.append(ConstantValue(None) if default is None else inner(default))
        return Computed(tuple(parts), _choose, _none)


def _is_name(node: Node) -> bool:
    return isinstance(node, exp.Column) and not node.table


def _constant(node: Node) -> Value:
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else number(node)
    return bool(node.this) if isinstance(node, exp.Boolean) else None
