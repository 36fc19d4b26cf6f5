"""Comparison, logic with three truth values, and choosing between values; and how a query writes them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from nabladp.errors import suggestion
from nabladp.sql.domains import BOOLEAN, Domain, Refused, Value, union, value_of
from nabladp.sql.expressions import Call, Cells, Column, Constant, Expression, Function, union_of_nulls
from nabladp.sql.syntax import Node, Parse, Reader, children, operands, refuse, unwrap

# ---- comparison ------------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Compare(Function):
    sign: str

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = comparable(cells, arguments)
        return Cells(np.asarray(_COMPARE[self.sign](first, second), np.bool_))


def check_comparable(arguments: Sequence[Expression]) -> None:
    kinds = {argument.domain.kind for argument in arguments} - {"null"}
    if "boolean" in kinds and "number" in kinds:
        kinds.discard("boolean")
    if len(kinds) > 1:
        raise Refused(
            f"This compares a {' with a '.join(sorted(kinds))}", "Compare values of one kind, or CAST one of them."
        )


def comparable(cells: Sequence[Cells], arguments: Sequence[Expression]) -> list[NDArray[Any]]:
    """Numbers in the order of the values: text by its declared order, or else by its characters."""
    if not any(argument.domain.is_text for argument in arguments):
        return [cell.data for cell in cells]
    order = _text_order([argument.domain for argument in arguments])
    ranks = [np.asarray([order[value] for value in argument.domain.values or ("",)]) for argument in arguments]
    return [rank[cell.data.astype(np.int64)] for rank, cell in zip(ranks, cells, strict=True)]


def _text_order(domains: Sequence[Domain]) -> dict[Value, int]:
    texts = {value for domain in domains for value in domain.values or ("",)}
    for domain in domains:
        if domain.ordered and texts <= {*(domain.values or ()), ""}:
            return {value: i for i, value in enumerate(dict.fromkeys(("", *(domain.values or ()))))}
    return {value: i for i, value in enumerate(sorted(texts, key=str))}


@dataclass(frozen=True)
class Member(Function):
    """IN a list: NULL where nothing is equal and something in the list is NULL."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        return BOOLEAN.with_null(any(argument.domain.nullable for argument in arguments))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, *others = comparable(cells, arguments)
        equal = np.zeros(len(first), np.bool_)
        unsure = cells[0].is_null().copy()
        for other, cell in zip(others, cells[1:], strict=True):
            null = cell.is_null()
            equal |= (first == other) & ~null & ~cells[0].is_null()
            unsure |= null
        return Cells(equal, unsure & ~equal)


@dataclass(frozen=True)
class IsNull(Function):
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(cells[0].is_null())


# ---- logic -----------------------------------------------------------------------------------------------------------


def check_truths(arguments: Sequence[Expression], what: str) -> None:
    for argument in arguments:
        if argument.domain.kind not in ("boolean", "null"):
            raise Refused(f"{what} takes conditions", "Write a comparison, such as x = 1 or x IS NOT NULL.")


@dataclass(frozen=True)
class Connective(Function):
    """AND or OR, with three truth values."""

    name: str
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_truths(arguments, self.name)
        return BOOLEAN.with_null(any(argument.domain.nullable for argument in arguments))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        decisive = self.name == "OR"  # one true decides an OR, one false an AND
        decided = np.zeros(len(cells[0].data), np.bool_)
        unsure = decided.copy()
        for cell in cells:
            null = cell.is_null()
            decided |= (cell.data.astype(np.bool_) == decisive) & ~null
            unsure |= null
        return Cells(decided if decisive else ~decided, unsure & ~decided)


@dataclass(frozen=True)
class Not(Function):
    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_truths(arguments, "NOT")
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(~cells[0].data.astype(np.bool_))


# ---- choosing --------------------------------------------------------------------------------------------------------


def translate(cell: Cells, argument: Expression, domain: Domain) -> NDArray[Any]:
    """Values of one branch in the form of the whole expression: texts as positions in its own list."""
    if domain.is_text:
        if not argument.domain.is_text:  # NULL everywhere
            return np.zeros(len(cell.data), np.int64)
        index = {value: i for i, value in enumerate(domain.values or ())}
        table = np.asarray([index.get(value, 0) for value in argument.domain.values or ("",)])
        return np.asarray(table[cell.data.astype(np.int64)])
    if domain.kind == "number":
        return cell.data.astype(np.int64 if domain.whole else np.float64)
    return cell.data.astype(np.bool_)


@dataclass(frozen=True)
class Case(Function):
    """Arguments: condition, value, condition, value, …, and the value where no condition holds."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        conditions, values = arguments[:-1:2], [*arguments[1:-1:2], arguments[-1]]
        check_truths(conditions, "CASE WHEN")
        return union([value.domain for value in values], any(value.domain.nullable for value in values))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data, null = translate(cells[-1], arguments[-1], domain), cells[-1].is_null()
        pairs = list(zip(cells[:-1:2], cells[1:-1:2], arguments[1:-1:2], strict=True))
        for condition, value, argument in reversed(pairs):
            holds = condition.data.astype(np.bool_) & ~condition.is_null()
            data = np.where(holds, translate(value, argument, domain), data)
            null = np.where(holds, value.is_null(), null)
        return Cells(data, null)


@dataclass(frozen=True)
class Coalesce(Function):
    """The first that is not NULL."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        reached = []
        for argument in arguments:
            reached.append(argument.domain)
            if not argument.domain.nullable:
                break
        return union(reached, all(domain.nullable for domain in reached))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data, null = translate(cells[-1], arguments[-1], domain), cells[-1].is_null()
        for cell, argument in reversed(list(zip(cells[:-1], arguments[:-1], strict=True))):
            data = np.where(cell.is_null(), data, translate(cell, argument, domain))
            null = cell.is_null() & null
        return Cells(data, null)


@dataclass(frozen=True)
class NullIf(Function):
    """NULL where both are equal, otherwise the first."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        domain, value = arguments[0].domain, arguments[1].constant
        if value is None or domain.kind != "number":
            return domain.with_null()
        if domain.values is not None:
            return Domain.of_values("number", [own for own in domain.values if own != value], nullable=True)
        nonzero = domain.nonzero or value == 0
        return Domain.interval(domain.low, domain.high, whole=domain.whole, nullable=True, nonzero=nonzero)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = comparable(cells, arguments)
        equal = (first == second) & ~cells[1].is_null()
        return Cells(cells[0].data, union_of_nulls([cells[0].null, equal]))


# ---- how a query writes them -----------------------------------------------------------------------------------------

SIGNS: dict[type[Node], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def _compare(parse: Parse, node: exp.Binary) -> Expression:
    other = node.expression
    if isinstance(other, exp.Any) and isinstance(node, exp.EQ):
        return _any_of(parse, node, other)
    if isinstance(other, (exp.Any, exp.All)) or isinstance(node.this, (exp.Any, exp.All)):
        refuse(node, "ANY and ALL are available in x = ANY([…]) alone", "Write x IN (1, 2, 3).")
    arguments = with_values((parse(node.this), parse(other)))
    check_spelling(node, arguments)
    return Call(Compare(SIGNS[type(node)]), arguments)


def _any_of(parse: Parse, node: exp.Binary, listed: exp.Any) -> Expression:
    values = unwrap(listed.this)
    if not isinstance(values, (exp.Array, exp.Tuple)):
        refuse(node, "ANY takes a list of values", "Write x IN (1, 2, 3).")
    return _member(node, [parse(child) for child in (node.this, *values.expressions)])


def value_of_label(column: Column, text: str) -> Value | None:
    """The value that a label of a column stands for; any other text stays as it is."""
    attribute = column.attribute
    if column.by_grid or text not in attribute.labels.values():
        return text
    code = attribute.code(text)
    value = None if code is None else value_of(attribute, code)
    if value is None:
        raise Refused(f"{text!r} is the label of missing values", f"Write {attribute.name} IS NULL.")
    return value


def with_values(arguments: Sequence[Expression]) -> tuple[Expression, ...]:
    """Arguments of a comparison, with the value in place of a label: sex = 'Male' is sex = 1."""
    columns = [one for one in arguments if isinstance(one, Column) and one.attribute.labels]
    if len(columns) != 1:
        return tuple(arguments)
    texts = [one.constant if isinstance(one.constant, str) else None for one in arguments]
    return tuple(
        one if text is None else Constant(value_of_label(columns[0], text))
        for one, text in zip(arguments, texts, strict=True)
    )


def check_spelling(node: Node, arguments: Sequence[Expression]) -> None:
    """A constant that a text column never equals is most likely misspelt. Text without a declared order is compared by
    its characters, with any text; where an order is declared, both sides must have a place in it."""
    by_equality = isinstance(node, (exp.EQ, exp.NEQ, exp.In))
    for one in arguments:
        if not isinstance(one, Column) or one.by_grid or not (by_equality or one.domain.ordered):
            continue
        labels = tuple(one.attribute.labels.values())
        if not one.domain.is_text and not labels:
            continue
        values = tuple(map(str, one.domain.values or ())) if one.domain.is_text else ()
        for other in arguments:
            text = other.constant
            if isinstance(text, str) and text not in values:
                known = (*labels, *values)
                fix = suggestion(text, known, f"Its values: {', '.join(repr(value) for value in known[:12])}.")
                refuse(node, f"Column {one.attribute.name!r} has no value {text!r}", fix)


def _member(node: Node, arguments: Sequence[Expression]) -> Expression:
    if len(arguments) < 2:
        refuse(node, "IN takes at least one value", "Write x IN (1, 2, 3).")
    arguments = with_values(arguments)
    check_spelling(node, arguments)
    return Call(Member(), arguments)


def _in(parse: Parse, node: exp.In) -> Expression:
    if node.args.get("query"):
        refuse(node, "A subquery inside an expression cannot be answered", "Write the values: {0} IN (…, …).")
    if node.args.get("unnest") or node.args.get("field"):
        refuse(node, "IN takes a list of values", "Write x IN (1, 2, 3).")
    return _member(node, [parse(child) for child in (node.this, *node.expressions)])


def _between(parse: Parse, node: exp.Between) -> Expression:
    value, low, high = with_values([parse(node.args[key]) for key in ("this", "low", "high")])
    check_spelling(node, (value, low, high))
    return Call(Connective("AND"), (Call(Compare(">="), (value, low)), Call(Compare("<="), (value, high))))


def _is(parse: Parse, node: exp.Is) -> Expression:
    argument = parse(node.this)
    if isinstance(node.expression, exp.Null):
        found = Call(IsNull(), (argument,))
    elif isinstance(node.expression, exp.Boolean):
        check_truths([argument], "IS TRUE")
        equal = Call(Compare("="), (argument, Constant(bool(node.expression.this))))
        found = Call(Coalesce(), (equal, Constant(False)))
    else:
        refuse(node, "IS takes NULL, TRUE or FALSE", "Write x IS NULL or x = value.")
    return Call(Not(), (found,)) if node.args.get("negate") else found


def _distinct_from(parse: Parse, node: exp.Binary) -> Expression:
    one, other = with_values((parse(node.this), parse(node.expression)))
    both_null = Call(Connective("AND"), (Call(IsNull(), (one,)), Call(IsNull(), (other,))))
    same = Call(Coalesce(), (Call(Compare("="), (one, other)), both_null))
    return Call(Not(), (same,)) if isinstance(node, exp.NullSafeNEQ) else same


def _connective(name: str) -> Reader:
    return lambda parse, node: Call(Connective(name), tuple(parse(one) for one in operands(node)))


def _plain(function: Function) -> Reader:
    return lambda parse, node: Call(function, tuple(parse(child) for child in children(node)))


READERS: dict[type[Node], Reader] = {
    **dict.fromkeys(SIGNS, _compare),
    exp.NullSafeEQ: _distinct_from,
    exp.NullSafeNEQ: _distinct_from,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.And: _connective("AND"),
    exp.Or: _connective("OR"),
    exp.Not: _plain(Not()),
    exp.Coalesce: _plain(Coalesce()),
    exp.Nullif: _plain(NullIf()),
}
