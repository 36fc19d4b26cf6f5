"""From a syntax tree to a row-wise expression: an allow-list of nodes, each given a meaning or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from sqlglot import exp

from nabladp.errors import suggestion
from nabladp.schema import Attribute, Schema
from nabladp.sql import arithmetic, conditions, dates, texts
from nabladp.sql.conditions import Case
from nabladp.sql.domains import Domain, Refused, attribute_domain
from nabladp.sql.expressions import AllCodes, Bools, Call, Column, Constant, Expression, enumerated, simplify
from nabladp.sql.syntax import (
    Node,
    Reader,
    check_options,
    conjuncts,
    has_aggregate,
    number,
    refuse,
    sql_name,
    text_of,
    unwrap,
)

MOST_NODES = 5_000  # of one expression
MOST_WORK = 1 << 26  # values looked at while a query is read


@dataclass
class Work:
    """What reading one query has taken so far."""

    values: int = 0

    def add(self, node: Node, values: int) -> None:
        self.values += values
        if self.values > MOST_WORK:
            refuse(node, "The query takes too long to check", "Split it into several queries.")


# ---- names -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """An expression that a subquery gave a name, and its syntax over the columns of the table."""

    expression: Expression
    node: Node


@dataclass(frozen=True)
class Scope:
    """Names that an expression may use. ``named`` come first, then columns of the table (those not in ``hidden``, or
    none where the subquery lists its columns), then aliases of the SELECT. ``person`` names people, and is none of
    them."""

    schema: Schema
    table: str  # the name that may stand before a column, in lower case
    named: Mapping[str, Named] = field(default_factory=dict)  # by lower-case name
    listed: bool = False  # whether ``named`` are all columns there are
    hidden: frozenset[str] = frozenset()
    aliases: Mapping[str, Node] = field(default_factory=dict)
    assumed: Mapping[str, Column] = field(default_factory=dict)  # columns that a condition around them narrows
    work: Work = field(default_factory=Work)
    person: str = ""

    def column(self, node: exp.Column) -> Expression:
        self.check_table(node)
        named = self.named.get(node.name.lower())
        if named is not None:
            expression = named.expression
            return self._narrowed(expression) if isinstance(expression, Column) else expression
        attribute = self.attribute(node)
        if attribute is not None:
            return self._narrowed(Column(attribute))
        alias = self.aliases.get(node.name.lower()) if not node.table else None
        if alias is None:
            self._refuse_name(node)
        if has_aggregate(alias):
            refuse(node, f"{node.name!r} is an aggregate, which rows do not have", "Use HAVING for conditions on it.")
        others = {name: own for name, own in self.aliases.items() if own is not alias}
        return RowParser(replace(self, aliases=others)).parse(alias)

    def check_table(self, node: exp.Column) -> None:
        if node.args.get("db") or (node.table and node.table.lower() != self.table):
            known = f"Write {self.table}.{node.name}, or" if self.table else "Write"
            refuse(node, f"There is no table {node.table!r} here", f"{known} {node.name} alone.")

    def _narrowed(self, column: Column) -> Column:
        return self.assumed.get(column.attribute.name, column)

    def attribute(self, node: exp.Column) -> Attribute | None:
        """The column of the table, by its exact name or in any case."""
        if self.listed:
            return None
        names = [name for name in self.schema.names if name.lower() not in self.hidden]
        if node.name in names:
            return self.schema[node.name]
        alike = [name for name in names if name.lower() == node.name.lower()]
        if len(alike) > 1:
            refuse(node, f"{node.name!r} could be several columns", f"Write {' or '.join(map(repr, alike))}.")
        return self.schema[alike[0]] if alike else None

    def _refuse_name(self, node: exp.Column) -> NoReturn:
        own = () if self.listed else tuple(name for name in self.schema.names if name.lower() not in self.hidden)
        known = (*own, *self.named)
        fix = suggestion(node.name, known, f"Columns: {', '.join(known[:20])}.")
        if isinstance(node.this, exp.Identifier) and node.this.quoted and not suggestion(node.name, known, ""):
            fix = f"Write text between single quotes: '{node.name}'. {fix}"
        if self.person and node.name.lower() == self.person.lower():
            people = (
                f"Write COUNT(DISTINCT {self.person}) for the number of people, SUM_PER_PERSON(x, 0, 100) for totals."
            )
            refuse(node, f"{node.name!r} identifies people, so a query cannot read it", people)
        where = "The subquery has" if self.listed else "There is"
        refuse(node, f"{where} no column {node.name!r}", fix, column_name=node.name)

    def meaning(self, node: Node) -> Node:
        """The syntax of an expression over the columns of the table alone."""

        def resolve(part: Node) -> Node:
            if not isinstance(part, exp.Column) or isinstance(part.this, exp.Star):
                return part
            named = self.named.get(part.name.lower())
            if named is not None:
                return exp.Paren(this=named.node.copy())
            attribute = self.attribute(part)
            if attribute is not None:
                return exp.column(exp.to_identifier(attribute.name, quoted=True))
            alias = self.aliases.get(part.name.lower())
            return part if alias is None or alias is node or has_aggregate(alias) else exp.Paren(this=alias.copy())

        resolved = unwrap(unwrap(node).copy().transform(resolve, copy=False))
        if sum(1 for _ in resolved.walk()) > MOST_NODES:
            refuse(node, "The expression is too long once its names are written out", "Use fewer nested names.")
        return resolved

    def text(self, node: Node) -> str:
        """One text for expressions with one meaning."""
        return text_of(self.meaning(node))

    def where(self, condition: Expression, holds: bool) -> Scope:
        """Inside a branch that is taken only where the condition holds, or only where it does not."""
        return replace(self, assumed={**self.assumed, **narrow(condition, holds, self.schema, self.assumed)})

    def among(self, conditions: Sequence[Node]) -> Scope:
        """For values of rows that pass all of these conditions alone."""
        scope = self
        for part in (part for condition in conditions for part in conjuncts(condition)):
            scope = scope.where(RowParser(self).parse(part), True)
        return scope


def narrow(
    condition: Expression, holds: bool, schema: Schema, assumed: Mapping[str, Column] | None = None
) -> dict[str, Column]:
    """What a condition on one enumerable column says of its codes, beside what is assumed of them already."""
    if len(condition.columns) != 1:
        return {}
    attribute = schema[condition.columns[0]]
    if attribute.kind == "real" or attribute.size > 1 << 16:
        return {}
    rows = AllCodes((attribute.name,), (attribute.size,))
    cells = condition.evaluate(rows)
    truth = cells.data.astype(np.bool_) & ~cells.is_null()
    allowed = truth if holds else ~truth
    before = (assumed or {}).get(attribute.name)
    if before is not None and before.allowed is not None:
        allowed = allowed & np.asarray(before.allowed)
    column = Column(attribute, tuple(bool(code) for code in allowed))
    values = column.evaluate(rows)
    domain = _narrowed_domain(attribute, values.data, values.is_null(), allowed)
    return {} if domain is None else {attribute.name: replace(column, refined=domain)}


def _narrowed_domain(attribute: Attribute, data: Any, null: Bools, allowed: Bools) -> Domain | None:
    """None where the condition leaves no value."""
    whole = attribute_domain(attribute)
    nullable = bool((null & allowed).any())
    if whole.kind != "number":
        return whole.with_null(nullable)
    kept = np.unique(data[allowed & ~null])
    if not len(kept):
        return None
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
            expression = self._convert(node)
            expression.domain  # noqa: B018  a range that is too large is refused here, where its position is known
            self.scope.work.add(node, 1000 + enumerated(expression, self.scope.schema))
            return simplify(expression, self.scope.schema, self.scope.assumed)
        except Refused as refusal:
            refuse(node, refusal.reason, refusal.fix)

    def condition(self, node: Node, what: str) -> Expression:
        expression = self.parse(node)
        if expression.domain.kind not in ("boolean", "null"):
            refuse(node, f"{what} takes a condition", "Write a comparison, such as age >= 18.")
        return expression

    def _convert(self, node: Node) -> Expression:
        read = _READERS.get(type(node))
        if read is not None:
            check_options(node)
            return read(self.parse, node)
        own = _OWN_READERS.get(type(node))
        if own is not None:
            check_options(node)
            return own(self, node)
        refuse(node, *_refusal(node))

    def _literal(self, node: exp.Literal) -> Expression:
        return Constant(node.this if node.is_string else number(node))

    def _paren(self, node: exp.Paren) -> Expression:
        return self.parse(node.this)

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            refuse(node, *_refusal(node.this))
        return self.scope.column(node)

    def _case(self, node: exp.Case) -> Expression:
        branches = [(case.this, case.args["true"]) for case in node.args["ifs"]]
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
        return Call(Case(), tuple(arguments))

    def _anonymous(self, node: exp.Anonymous) -> Expression:
        name, arguments = str(node.this).upper(), node.expressions
        if name in ("DATE_PART", "DATEPART") and len(arguments) == 2:
            return dates.read_part(self.parse, node, str(arguments[0].name).lower(), arguments[1])
        if name == "IFF" and len(arguments) == 3:
            return self._branches([(arguments[0], arguments[1])], arguments[2])
        refuse(node, *_refusal(node))


# ---- the allow-list --------------------------------------------------------------------------------------------------

_READERS: dict[type[Node], Reader] = {**arithmetic.READERS, **conditions.READERS, **texts.READERS, **dates.READERS}
_OWN_READERS: dict[type[Node], Callable[[RowParser, Any], Expression]] = {
    exp.Paren: RowParser._paren,
    exp.Column: RowParser._column,
    exp.Literal: RowParser._literal,
    exp.Boolean: lambda parser, node: Constant(bool(node.this)),
    exp.Null: lambda parser, node: Constant(None),
    exp.Case: RowParser._case,
    exp.If: RowParser._if,
    exp.Anonymous: RowParser._anonymous,
}
_FUNCTIONS_FIX = (
    "Row-wise functions: + - * / // %, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, CEIL, SQRT, LN, "
    "EXP, POWER, CAST, LIKE, UPPER, LOWER, SUBSTRING, EXTRACT, DATE_TRUNC."
)
_BY_CHANCE = (exp.Rand, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.Uuid)
_REFUSALS: dict[tuple[type[Node], ...], tuple[str, str]] = {
    (exp.Window,): (
        "Window functions depend on other rows, so that noise cannot protect a person",
        "Use GROUP BY, and work with the released groups.",
    ),
    (exp.Exists,): ("A subquery inside an expression cannot be answered", "Write the condition itself."),
    (exp.Subquery, exp.Select): (
        "A subquery inside an expression cannot be answered",
        "Ask for its value first, and write it as a number.",
    ),
    _BY_CHANCE: (
        "An answer may depend on the rows alone, not on chance or on the time",
        "Write a constant instead.",
    ),
    (exp.Star,): ("Rows themselves are never released", "Select aggregates, such as COUNT(*)."),
    (exp.RegexpLike, exp.SimilarTo, exp.RegexpILike, exp.Glob): (
        "Regular expressions are not available",
        "Use LIKE: write {0} LIKE 'a%'.",
    ),
    (exp.Interval, exp.DateDiff, exp.DateAdd, exp.DateSub, exp.Datetime): (
        "Arithmetic with dates is not available",
        "Compare with a constant date, or use EXTRACT and DATE_TRUNC.",
    ),
    (exp.Grouping, exp.GroupingId): ("GROUPING is not available for values of rows", "Use HAVING GROUPING(x) = 1."),
    (exp.Placeholder, exp.Parameter): ("Parameters are not available", "Write the value into the query."),
    (exp.Order, exp.Distinct): ("This aggregate takes an expression alone", "Write {0} without ORDER BY."),
}


def _refusal(node: Node) -> tuple[str, str]:
    for kinds, message in _REFUSALS.items():
        if isinstance(node, kinds):
            return message
    if isinstance(node, exp.Anonymous) and sql_name(node) in ("NOW", "TODAY", "GETDATE", "SYSDATE"):
        return _REFUSALS[_BY_CHANCE]
    if has_aggregate(node):
        return (
            "WHERE, GROUP BY and aggregates take values of rows, not aggregates",
            "Use HAVING for conditions on them.",
        )
    if isinstance(node, exp.Func):
        return f"{sql_name(node)} is not available for values of rows", _FUNCTIONS_FIX
    return f"{sql_name(node)} is not available in an expression", _FUNCTIONS_FIX
