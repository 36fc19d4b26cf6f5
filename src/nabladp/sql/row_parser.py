"""From a syntax tree to a row-wise expression: an allow-list of nodes, each refused or given a meaning by the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from nabladp.errors import suggestion
from nabladp.schema import Attribute, Schema
from nabladp.sql import functions as fn
from nabladp.sql.domains import Domain, Refused, Value, attribute_domain
from nabladp.sql.expressions import AllCodes, Call, Column, Constant, Expression, Function, simplify
from nabladp.sql.syntax import Node, number, refuse

@dataclass(frozen=True)
class Scope:
    """Names that an expression may use: columns, and expressions that a subquery gave a name."""

    schema: Schema
    tables: frozenset[str]  # names that may stand before a column, in lower case
    named: Mapping[str, Expression]  # by lower-case name
    assumed: Mapping[str, Column] | None = None  # columns whose values a condition around them narrows

    def column(self, node: exp.Column) -> Expression:
        name, table = node.name, node.table
        if node.args.get("db") or (table and table.lower() not in self.tables):
            refuse(node, f"There is no table {table!r} here", f"Use {', '.join(sorted(self.tables))} or leave it out.")
        if name.lower() in self.named:
            return self.named[name.lower()]
        attribute = self._attribute(node, name)
        return (self.assumed or {}).get(attribute.name) or Column(attribute)

    def _attribute(self, node: Node, name: str) -> Attribute:
        if name in self.schema:
            return self.schema[name]
        alike = [own for own in self.schema.names if own.lower() == name.lower()]
        if len(alike) == 1:
            return self.schema[alike[0]]
        if len(alike) > 1:
            refuse(node, f"{name!r} could be several columns", f"Write {' or '.join(repr(own) for own in alike)}.")
        known = (*self.schema.names, *self.named)
        fix = suggestion(name, known, f"Columns: {', '.join(known[:20])}.")
        refuse(node, f"There is no column {name!r}", fix, column_name=name)

    def where(self, condition: Expression, holds: bool) -> Scope:
        """Inside a branch that is taken only where the condition holds, or only where it does not."""
        narrowed = narrow(condition, holds, self.schema)
        return self if not narrowed else replace(self, assumed={**(self.assumed or {}), **narrowed})


def narrow(condition: Expression, holds: bool, schema: Schema) -> dict[str, Column]:
    """What a condition on one enumerable column says of its codes."""
    if len(condition.columns) != 1:
        return {}
    attribute = schema[condition.columns[0]]
    if attribute.kind == "real" or attribute.size > 1 << 16:
        return {}
    rows = AllCodes((attribute.name,), (attribute.size,))
    cells = condition.evaluate(rows)
    truth = cells.data.astype(np.bool_) & ~cells.is_null()
    allowed = truth if holds else ~truth
    column = Column(attribute, tuple(bool(code) for code in allowed))
    values = column.evaluate(rows)
    null = values.is_null() if values.null is not None else np.zeros(attribute.size, np.bool_)
    domain = _narrowed_domain(attribute, values.data, null, allowed)
    return {attribute.name: replace(column, refined=domain)} if domain is not None else {}


def _narrowed_domain(attribute: Attribute, data: Any, null: Any, allowed: Any) -> Domain | None:
    whole = attribute_domain(attribute)
    if whole.kind != "number":
        return whole
    kept = np.unique(data[allowed & ~null])
    if not len(kept):
        return None
    nullable = bool((null & allowed).any())
    if len(kept) <= 1 << 12:
        return Domain.of_values("number", kept.tolist(), nullable)
    return Domain("number", nullable, None, kept[0].item(), kept[-1].item(), whole.whole, not (kept == 0).any())


# ---- the parser ------------------------------------------------------------------------------------------------------


class RowParser:
    """Turns syntax trees into expressions over the rows of one table."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def parse(self, node: Node) -> Expression:
        try:
            return simplify(self._convert(node), self.scope.schema)
        except Refused as refusal:
            refuse(node, refusal.reason, refusal.fix)

    def condition(self, node: Node, what: str) -> Expression:
        expression = self.parse(node)
        if expression.domain.kind not in ("boolean", "null"):
            refuse(node, f"{what} takes a condition", "Write a comparison, such as age >= 18.")
        return expression

    def _convert(self, node: Node) -> Expression:
        for kind, convert in _SPECIAL.items():
            if isinstance(node, kind):
                return convert(self, node)
        build = _PLAIN.get(type(node))
        if build is not None:
            return self._call(build, [self.parse(child) for child in _children(node)])
        if isinstance(node, exp.Anonymous):
            return self._anonymous(node)
        refuse(node, _why_not(node), _instead(node))

    def _call(self, function: Function, arguments: Sequence[Expression]) -> Expression:
        return Call(function, tuple(arguments))

    # ---- leaves -----------------------------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal) -> Expression:
        if node.is_string:
            return Constant(node.this)
        return Constant(number(node))

    def _cast(self, node: exp.Cast) -> Expression:
        argument = self.parse(node.this)
        target = node.to.this.value.upper() if node.to else ""
        if target in _WHOLE_TYPES:
            if argument.domain.is_text:
                argument = simplify(self._call(fn.ByValue("CAST", fn.parse_number), [argument]), self.scope.schema)
            return self._call(fn.ToInteger(), [argument])
        if target in _REAL_TYPES:
            if argument.domain.is_text:
                return self._call(fn.ByValue("CAST", fn.parse_number), [argument])
            return self._call(fn.ToReal(), [argument])
        if target in _TEXT_TYPES:
            return self._call(fn.ByValue("CAST", fn.as_text), [argument])
        if target == "BOOLEAN" and argument.domain.kind in ("boolean", "number"):
            zero = Constant(0 if argument.domain.kind == "number" else False)
            return self._call(fn.Compare("<>"), [argument, zero])
        if target in _DATE_TYPES and argument.domain.is_text:
            return self._call(fn.truncate_date("day") if target == "DATE" else fn.ByValue("CAST", _moment), [argument])
        refuse(node, f"A cast to {target or 'this type'} may fail", "Cast to INTEGER, DOUBLE, VARCHAR, BOOLEAN or DATE.")

    # ---- conditions -------------------------------------------------------------------------------------------------

    def _compare(self, node: exp.Binary) -> Expression:
        sign = _SIGNS[type(node)]
        arguments = [self.parse(node.this), self.parse(node.expression)]
        self._check_values(node, arguments)
        return self._call(fn.Compare(sign), arguments)

    def _check_values(self, node: Node, arguments: Sequence[Expression]) -> None:
        """A constant that a text column never equals is most likely misspelt."""
        for one in arguments:
            if isinstance(one, Column) and one.domain.is_text:
                for other in arguments:
                    text = other.constant
                    if isinstance(text, str) and text not in (one.domain.values or ()):
                        values = tuple(map(str, one.domain.values or ()))
                        fix = suggestion(text, values, f"Values: {', '.join(values[:12])}.")
                        refuse(node, f"Column {one.attribute.name!r} has no value {text!r}", fix)

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            refuse(node, "IN takes a list of values here", "Write the values: x IN (1, 2, 3).")
        arguments = [self.parse(child) for child in (node.this, *node.expressions)]
        self._check_values(node, arguments)
        return self._call(fn.Member(), arguments)

    def _between(self, node: exp.Between) -> Expression:
        value, low, high = (self.parse(node.args[key]) for key in ("this", "low", "high"))
        ends = [self._call(fn.Compare(">="), [value, low]), self._call(fn.Compare("<="), [value, high])]
        return self._call(fn.Connective("AND"), [simplify(end, self.scope.schema) for end in ends])

    def _is(self, node: exp.Is) -> Expression:
        argument = self.parse(node.this)
        if isinstance(node.expression, exp.Null):
            return self._call(fn.IsNull(), [argument])
        if isinstance(node.expression, exp.Boolean):
            equal = self._call(fn.Compare("="), [argument, Constant(bool(node.expression.this))])
            return self._call(fn.Coalesce(), [simplify(equal, self.scope.schema), Constant(False)])
        refuse(node, "IS takes NULL, TRUE or FALSE", "Write x IS NULL or x = value.")

    def _distinct_from(self, node: exp.Binary) -> Expression:
        one, other = self.parse(node.this), self.parse(node.expression)
        schema = self.scope.schema
        equal = simplify(self._call(fn.Compare("="), [one, other]), schema)
        both = simplify(
            self._call(
                fn.Connective("AND"),
                [simplify(self._call(fn.IsNull(), [side]), schema) for side in (one, other)],
            ),
            schema,
        )
        same = simplify(self._call(fn.Coalesce(), [equal, both]), schema)
        return self._call(fn.Not(), [same]) if isinstance(node, exp.NullSafeNEQ) else same

    def _like(self, node: Node, escape: str | None = None) -> Expression:
        pattern = self.parse(node.args["expression"]).constant
        if not isinstance(pattern, str):
            refuse(node, "LIKE takes a constant pattern", "Write x LIKE 'a%'.")
        compiled = fn.like_pattern(pattern, escape, isinstance(node, exp.ILike))
        argument = self.parse(node.this)
        if not argument.domain.is_text:
            refuse(node, "LIKE takes text", "Compare numbers with =, < or BETWEEN.")
        return self._call(fn.ByValue("LIKE", lambda value: compiled.fullmatch(str(value)) is not None), [argument])

    def _escape(self, node: exp.Escape) -> Expression:
        escape = self.parse(node.expression).constant
        if not isinstance(node.this, (exp.Like, exp.ILike)) or not isinstance(escape, str) or len(escape) != 1:
            refuse(node, "ESCAPE takes one character after LIKE", "Write x LIKE 'a!%' ESCAPE '!'.")
        return self._like(node.this, escape)

    # ---- choosing ---------------------------------------------------------------------------------------------------

    def _case(self, node: exp.Case) -> Expression:
        branches = [(case.this, case.args.get("true")) for case in node.args["ifs"]]
        if node.this is not None:
            branches = [(exp.EQ(this=node.this.copy(), expression=value.copy()), then) for value, then in branches]
        return self._branches(branches, node.args.get("default"))

    def _if(self, node: exp.If) -> Expression:
        return self._branches([(node.this, node.args["true"])], node.args.get("false"))

    def _branches(self, branches: Sequence[tuple[Node, Node]], default: Node | None) -> Expression:
        """Each value is read knowing that its condition holds and that those before it do not."""
        arguments: list[Expression] = []
        scope = self.scope
        for condition, value in branches:
            holds = RowParser(scope).condition(condition, "CASE WHEN")
            arguments += [holds, RowParser(scope.where(holds, True)).parse(value)]
            scope = scope.where(holds, False)
        arguments.append(Constant(None) if default is None else RowParser(scope).parse(default))
        return self._call(fn.Case(), arguments)

    def _safe_divide(self, node: exp.SafeDivide) -> Expression:
        zero = simplify(self._call(fn.NullIf(), [self.parse(node.expression), Constant(0)]), self.scope.schema)
        return self._call(fn.Divide("/"), [self.parse(node.this), zero])

    # ---- text and dates ---------------------------------------------------------------------------------------------

    def _text(self, name: str, compute: Callable[[str], Value], node: Node) -> Expression:
        argument = self.parse(node.this)
        if not argument.domain.is_text:
            refuse(node, f"{name} takes text", "CAST a number to VARCHAR first.")
        return self._call(fn.ByValue(name, compute), [argument])

    def _length(self, node: Node) -> Expression:
        return self._text("LENGTH", len, node)

    def _upper(self, node: Node) -> Expression:
        return self._text("UPPER", str.upper, node)

    def _lower(self, node: Node) -> Expression:
        return self._text("LOWER", str.lower, node)

    def _trim(self, node: exp.Trim) -> Expression:
        if node.args.get("expression") or node.args.get("position"):
            refuse(node, "TRIM takes one argument here", "Write TRIM(x).")
        return self._text("TRIM", str.strip, node)

    def _substring(self, node: exp.Substring) -> Expression:
        start = self._constant(node, node.args.get("start"), 1)
        length = self._constant(node, node.args.get("length"), None)
        return self._text("SUBSTRING", lambda text: substring(text, start or 1, length), node)

    def _left(self, node: exp.Left) -> Expression:
        count = self._constant(node, node.expression, 0) or 0
        return self._text("LEFT", lambda text: text[:count], node)

    def _right(self, node: exp.Right) -> Expression:
        count = self._constant(node, node.expression, 0) or 0
        return self._text("RIGHT", lambda text: text[-count:] if count else "", node)

    def _starts_with(self, node: exp.StartsWith) -> Expression:
        start = self.parse(node.expression).constant
        return self._text("STARTS_WITH", lambda text: text.startswith(str(start)), node)

    def _contains(self, node: exp.Contains) -> Expression:
        part = self.parse(node.expression).constant
        return self._text("CONTAINS", lambda text: str(part) in text, node)

    def _constant(self, node: Node, argument: Node | None, default: int | None) -> int | None:
        if argument is None:
            return default
        value = self.parse(argument).constant
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10_000:
            refuse(node, "This takes a constant whole number", "Write SUBSTRING(x, 1, 3).")
        return value

    def _concat(self, node: exp.Concat) -> Expression:
        return self._call(fn.Concat(strict=False), [self.parse(part) for part in node.expressions])

    def _date_part(self, node: Node) -> Expression:
        part = type(node).__name__.lower()
        if isinstance(node, exp.Extract):
            return self._part_of(node, str(node.this.name).lower(), node.expression)
        return self._part_of(node, {"weekofyear": "week"}.get(part, part), node.this)

    def _part_of(self, node: Node, part: str, date: Node) -> Expression:
        argument = self.parse(_without_cast(date))
        if part not in fn.DATE_PARTS:
            refuse(node, f"There is no part {part!r} of a date", f"Parts: {', '.join(fn.DATE_PARTS)}.")
        if not argument.domain.is_text:
            refuse(node, "This takes a column whose declared values are dates", "Declare them as 2026-01-31.")
        return self._call(fn.date_part(part), [argument])

    def _date_trunc(self, node: Node) -> Expression:
        unit = str(node.args["unit"].name).lower()
        argument = self.parse(_without_cast(node.this))
        if unit not in ("year", "quarter", "month", "week", "day") or not argument.domain.is_text:
            refuse(node, "DATE_TRUNC takes a unit and a date", "Write DATE_TRUNC('month', day).")
        return self._call(fn.truncate_date(unit), [argument])

    def _log(self, node: exp.Log) -> Expression:
        if node.args.get("expression") is None:
            return self._call(fn.MONOTONE["LOG10"], [self.parse(node.this)])
        base = self.parse(node.this).constant
        name = "LOG10" if base == 10 else "LOG2" if base == 2 else None
        if name is None:
            refuse(node, "LOG takes the base 2 or 10", "Use LN(x) / LN(base).")
        return self._call(fn.MONOTONE[name], [self.parse(node.expression)])

    def _negative(self, node: exp.Neg) -> Expression:
        return self._call(fn.Arithmetic("-"), [Constant(0), self.parse(node.this)])

    def _round(self, node: exp.Round) -> Expression:
        digits = node.args.get("decimals")
        arguments = [self.parse(node.this), *([] if digits is None else [self.parse(digits)])]
        return self._call(fn.Round(), arguments)

    def _floor(self, node: Node) -> Expression:
        name = {"floor": "FLOOR", "ceil": "CEIL", "trunc": "TRUNC"}[type(node).__name__.lower()]
        if node.args.get("decimals") is not None:
            refuse(node, f"{name} takes one argument here", "Use ROUND(x, digits).")
        return self._call(fn.MONOTONE[name], [self.parse(node.this)])

    def _anonymous(self, node: exp.Anonymous) -> Expression:
        name = str(node.this).upper()
        if name in ("DATE_PART", "DATEPART") and len(node.expressions) == 2:
            part, date = node.expressions
            return self._part_of(node, str(part.name).lower(), date)
        if name == "DIV" and len(node.expressions) == 2:
            return self._call(fn.Divide("//"), [self.parse(child) for child in node.expressions])
        refuse(node, f"There is no function {name} here", _FUNCTIONS_FIX)


def substring(text: str, start: int, length: int | None) -> str:
    """As in SQL: positions count from 1, negative ones from the end."""
    first = start - 1 if start > 0 else max(len(text) + start, 0) if start else 0
    return text[first:] if length is None else text[first : first + max(length, 0)]


def _moment(value: Any) -> str:
    return fn.date_of(value).isoformat()


def _without_cast(node: Node) -> Node:
    """A date written as text and cast to a date is that text."""
    if isinstance(node, exp.Cast) and node.to.this.value.upper() in _DATE_TYPES:
        return node.this
    if isinstance(node, (exp.TsOrDsToDate, exp.Paren)):
        return _without_cast(node.this)
    return node


def _children(node: Node) -> list[Node]:
    first = [node.args[key] for key in ("this", "expression") if isinstance(node.args.get(key), Node)]
    return [*first, *(node.args.get("expressions") or ())]


# ---- the allow-list --------------------------------------------------------------------------------------------------

_WHOLE_TYPES = {"INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "INT128", "UINT", "UBIGINT", "USMALLINT", "UTINYINT"}
_REAL_TYPES = {"DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL"}
_TEXT_TYPES = {"TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"}
_DATE_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME"}
_SIGNS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_PLAIN: dict[type[Node], Function] = {
    exp.Add: fn.Arithmetic("+"),
    exp.Sub: fn.Arithmetic("-"),
    exp.Mul: fn.Arithmetic("*"),
    exp.Div: fn.Divide("/"),
    exp.IntDiv: fn.Divide("//"),
    exp.Mod: fn.Divide("%"),
    exp.And: fn.Connective("AND"),
    exp.Or: fn.Connective("OR"),
    exp.Not: fn.Not(),
    exp.Coalesce: fn.Coalesce(),
    exp.Nullif: fn.NullIf(),
    exp.Least: fn.Extreme("LEAST"),
    exp.Greatest: fn.Extreme("GREATEST"),
    exp.Abs: fn.Absolute(),
    exp.Pow: fn.Power(),
    exp.Sqrt: fn.MONOTONE["SQRT"],
    exp.Exp: fn.MONOTONE["EXP"],
    exp.Ln: fn.MONOTONE["LN"],
    exp.Sign: fn.MONOTONE["SIGN"],
    exp.DPipe: fn.Concat(),
}
_SPECIAL: dict[Any, Callable[[RowParser, Any], Expression]] = {
    exp.Paren: lambda parser, node: parser.parse(node.this),
    exp.Column: lambda parser, node: parser.scope.column(node),
    exp.Literal: RowParser._literal,
    exp.Boolean: lambda parser, node: Constant(bool(node.this)),
    exp.Null: lambda parser, node: Constant(None),
    exp.Neg: RowParser._negative,
    exp.Cast: RowParser._cast,
    (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE): RowParser._compare,
    (exp.NullSafeEQ, exp.NullSafeNEQ): RowParser._distinct_from,
    exp.In: RowParser._in,
    exp.Between: RowParser._between,
    exp.Is: RowParser._is,
    (exp.Like, exp.ILike): RowParser._like,
    exp.Escape: RowParser._escape,
    exp.Case: RowParser._case,
    exp.If: RowParser._if,
    exp.SafeDivide: RowParser._safe_divide,
    exp.Round: RowParser._round,
    (exp.Floor, exp.Ceil, exp.Trunc): RowParser._floor,
    exp.Log: RowParser._log,
    exp.Length: RowParser._length,
    exp.Upper: RowParser._upper,
    exp.Lower: RowParser._lower,
    exp.Trim: RowParser._trim,
    exp.Substring: RowParser._substring,
    exp.Left: RowParser._left,
    exp.Right: RowParser._right,
    exp.StartsWith: RowParser._starts_with,
    exp.Contains: RowParser._contains,
    exp.Concat: RowParser._concat,
    (exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear,
     exp.Hour, exp.Minute, exp.Second): RowParser._date_part,
    (exp.TimestampTrunc, exp.DateTrunc): RowParser._date_trunc,
}
_FUNCTIONS_FIX = (
    "Row-wise functions: + - * / // %, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, CEIL, SQRT, LN, EXP, "
    "POWER, CAST, LIKE, UPPER, LOWER, SUBSTRING, EXTRACT, DATE_TRUNC."
)


def _why_not(node: Node) -> str:
    if isinstance(node, exp.Window):
        return "Window functions look at other rows, so they cannot be answered with noise"
    if isinstance(node, (exp.Subquery, exp.Select, exp.Exists)):
        return "A subquery inside an expression cannot be answered"
    if isinstance(node, (exp.Rand, exp.CurrentDate, exp.CurrentTimestamp)):
        return "An answer must depend on the rows alone, not on chance or on the time"
    if isinstance(node, exp.AggFunc):
        return "An aggregate cannot stand inside another one, in WHERE or in GROUP BY"
    if isinstance(node, exp.Star):
        return "Rows themselves are never released"
    return f"{type(node).__name__.upper()} is not among the functions that a query may use"


def _instead(node: Node) -> str:
    if isinstance(node, exp.Window):
        return "Use GROUP BY, and work with the released groups."
    if isinstance(node, (exp.Subquery, exp.Select, exp.Exists)):
        return "Write the condition directly, or put row-wise columns into FROM (SELECT … FROM table)."
    if isinstance(node, (exp.Rand, exp.CurrentDate, exp.CurrentTimestamp)):
        return "Write a constant instead."
    if isinstance(node, exp.AggFunc):
        return "Use HAVING for conditions on aggregates."
    if isinstance(node, exp.Star):
        return "Select aggregates, such as COUNT(*)."
    return _FUNCTIONS_FIX
