"""The aggregates of a query: what each computes of which rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from nabladp.checks import is_whole
from nabladp.person import MOST_ROWS
from nabladp.schema import Schema
from nabladp.sql.arithmetic import to_number
from nabladp.sql.conditions import Connective
from nabladp.sql.domains import LARGEST
from nabladp.sql.expressions import Call, Expression, simplify
from nabladp.sql.row_parser import RowParser
from nabladp.sql.syntax import (
    LEFT_OUT_NAME,
    MEAN_NAMES,
    QUANTILE_NAMES,
    TOTAL_NAME,
    Node,
    check_options,
    constant_number,
    has_aggregate,
    refuse,
    sql_name,
    text_of,
    unwrap,
)
from nabladp.sql.texts import by_value


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query. ``value`` is None for COUNT(*); ``q`` is the level of a quantile.

    The texts say what value and filter mean: aggregates with equal texts are about the same values of the same rows.
    """

    function: str  # count, count_distinct, sum, avg, var_pop, var_samp, stddev_pop, stddev_samp, quantile;
    # of people, each once in a group: count_people, sum_per_person; rows_left_out
    value: Expression | None
    filter: Expression | None
    value_text: str = ""
    filter_text: str = ""
    q: Fraction | None = None
    bounds: tuple[float, float] | None = None  # of a person's total
    left_out: int = 0  # how many rows that are not used are counted of each person
    decided_by: tuple[str, ...] = ()  # columns that any such row has, though none is read

    @property
    def identity(self) -> tuple[str, str, str, Fraction | None]:
        return (self.function, self.value_text, self.filter_text, self.q)


def conjunction(parts: Sequence[Expression], schema: Schema) -> Expression | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return simplify(Call(Connective("AND"), tuple(parts)), schema)


def conjunction_text(parts: Sequence[str]) -> str:
    return " AND ".join(f"({part})" for part in parts)


class AggregateParser:
    """Reads aggregates; equal ones are listed once."""

    def __init__(self, rows: RowParser, person: str = "") -> None:
        """``person`` is the column that names people, which is no attribute."""
        self.rows, self.person = rows, person
        self.listed: list[Aggregate] = []

    def positions(self, node: Node) -> list[int]:
        """Of the aggregates that a node asks for: several where it names several quantiles."""
        return [self._position(aggregate) for aggregate in self._read(node)]

    def _position(self, aggregate: Aggregate) -> int:
        for position, known in enumerate(self.listed):
            if known.identity == aggregate.identity:
                return position
        self.listed.append(aggregate)
        return len(self.listed) - 1

    def _read(self, node: Node) -> list[Aggregate]:
        conditions: list[Node] = []
        if isinstance(node, exp.Filter):
            conditions, node = [node.expression.this], node.this
        if isinstance(node, exp.WithinGroup):
            return self._within_group(node, conditions)
        if isinstance(node, exp.Bracket):
            return self._one_of_quantiles(node, conditions)
        if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
            node = node.this
        refusal = _REFUSED.get(type(node)) or _REFUSED_NAMES.get(sql_name(node))
        if refusal is not None:
            refuse(node, *refusal)
        check_options(node)
        if isinstance(node, exp.Median):
            return self._quantiles(node, node.this, [Fraction(1, 2)], conditions)
        if isinstance(node, exp.CountIf):
            if isinstance(node.this, exp.Distinct):
                refuse(node, "COUNT_IF takes a condition", "Write COUNT(DISTINCT CASE WHEN condition THEN x END).")
            return [self._count([node.this, *conditions], "COUNT_IF")]
        if _is_quantile(node):
            argument, level = _quantile_arguments(node)
            return self._quantiles(node, argument, self._levels(node, level), conditions)
        if isinstance(node, exp.Anonymous) and sql_name(node) == TOTAL_NAME:
            return [self._total_of_people(node, conditions)]
        if isinstance(node, exp.Anonymous) and sql_name(node) == LEFT_OUT_NAME:
            return [self._left_out(node, conditions)]
        if self._counts_people(node):
            holds, text = self._filter(conditions)
            return [Aggregate("count_people", None, holds, "", text)]
        if isinstance(node, exp.Anonymous) and sql_name(node) in MEAN_NAMES and len(node.expressions) == 1:
            node = exp.Avg(this=node.expressions[0])
        name = _NAMES.get(type(node))
        if name is None:
            refuse(node, f"{sql_name(node)} is not available", _AGGREGATES_FIX)
        return [self._simple(name, node, conditions)]

    # ---- counts, sums, means ----------------------------------------------------------------------------------------

    def _filter(self, conditions: Sequence[Node], what: str = "FILTER") -> tuple[Expression | None, str]:
        scope = self.rows.scope
        texts = [scope.text(condition) for condition in conditions]
        holds = [self.rows.condition(condition, what) for condition in conditions]
        return conjunction(holds, scope.schema), conjunction_text(texts)

    def _count(self, conditions: Sequence[Node], what: str = "FILTER") -> Aggregate:
        holds, text = self._filter(conditions, what)
        return Aggregate("count", None, holds, "", text)

    def _simple(self, name: str, node: Node, conditions: Sequence[Node]) -> Aggregate:
        argument = node.this
        if node.args.get("expressions"):
            refuse(node, f"{sql_name(node)} takes one expression", f"Write {sql_name(node)}(x).")
        if isinstance(argument, exp.Distinct):
            name, argument = self._distinct(name, node, argument)
        if name == "count" and (argument is None or isinstance(argument, (exp.Star, exp.Literal, exp.Boolean))):
            if isinstance(argument, exp.Star):
                check_options(argument)
            return self._count(conditions)
        text = self.rows.scope.text(argument)
        value = self._value(node, argument, conditions, text_too=name in ("count", "count_distinct"))
        if name == "count" and not value.domain.nullable:
            return self._count(conditions)
        if name == "count_distinct":
            value = self._codes(node, argument, value)
        holds, filter_text = self._filter(conditions)
        return Aggregate(name, value, holds, text, filter_text)

    def _distinct(self, name: str, node: Node, argument: exp.Distinct) -> tuple[str, Node]:
        parts = [text_of(part) for part in argument.expressions]
        if name != "count":
            fix = f"Write COUNT(DISTINCT {parts[0]})." if parts else "Write COUNT(DISTINCT x)."
            refuse(node, "DISTINCT is available in COUNT alone", fix)
        if len(parts) != 1:
            joined = ", '/', ".join(parts)
            refuse(node, "COUNT(DISTINCT x) takes one expression", f"Write COUNT(DISTINCT CONCAT({joined})).")
        return "count_distinct", argument.expressions[0]

    def _value(self, node: Node, argument: Node, conditions: Sequence[Node], *, text_too: bool = False) -> Expression:
        """Its range is that of rows which pass the conditions of the query and of the aggregate."""
        if argument is None:
            refuse(node, f"{sql_name(node)} takes an expression", f"Write {sql_name(node)}(x).")
        if has_aggregate(argument):
            refuse(node, "An aggregate cannot contain another one", "Use one of them: write {0}.")
        scope = self.rows.scope.among(conditions)
        value = RowParser(scope).parse(argument)
        if value.domain.kind == "null" or value.domain.values == ():
            refuse(argument, "This is always NULL", "Aggregate a column, for example AVG(x).")
        if value.domain.is_text and not text_too:
            refuse(argument, f"{sql_name(node)} takes numbers, not text", f"Write COUNT({text_of(argument)}).")
        return simplify(to_number(value), scope.schema, scope.assumed)

    def _codes(self, node: Node, argument: Node, value: Expression) -> Expression:
        """Distinct texts are counted by their position in the list."""
        if value.domain.values is None:
            refuse(
                node,
                "COUNT(DISTINCT x) takes values that can be listed",
                f"Group the values first: write COUNT(DISTINCT FLOOR({text_of(argument)} / 1000)).",
            )
        if not value.domain.is_text:
            return value
        index = {text: position for position, text in enumerate(value.domain.values)}
        return simplify(by_value("COUNT", index.__getitem__, value), self.rows.scope.schema)

    # ---- people -----------------------------------------------------------------------------------------------------

    def _counts_people(self, node: Node) -> bool:
        """COUNT(DISTINCT patient), where that column names people."""
        if not isinstance(node, (exp.Count, exp.ApproxDistinct)) or not self.person:
            return False
        distinct = node.this if isinstance(node.this, exp.Distinct) else None
        parts = distinct.expressions if distinct is not None else [node.this]
        column = (
            unwrap(parts[0]) if len(parts) == 1 and (distinct is not None or not isinstance(node, exp.Count)) else None
        )
        if not isinstance(column, exp.Column) or column.name.lower() != self.person.lower():
            return False
        self.rows.scope.check_table(column)
        return True

    def _total_of_people(self, node: Node, conditions: Sequence[Node]) -> Aggregate:
        """SUM_PER_PERSON(x, low, high): every person's own sum, clamped, and then added up."""
        parts = list(node.expressions)
        bounds = [constant_number(unwrap(part)) for part in parts[1:]]
        if len(parts) != 3 or any(bound is None or abs(bound) > LARGEST for bound in bounds):
            refuse(node, f"{TOTAL_NAME} takes an expression, and the bounds of one person's total", _TOTAL_FIX)
        low, high = (float(bound) for bound in bounds if bound is not None)
        if not low < high:
            refuse(node, "The lower bound of a person's total is below the upper one", _TOTAL_FIX)
        value = self._value(node, parts[0], conditions)
        holds, filter_text = self._filter(conditions)
        text = f"{TOTAL_NAME}({self.rows.scope.text(parts[0])}, {low!r}, {high!r})"
        return Aggregate("sum_per_person", value, holds, text, filter_text, bounds=(low, high))

    def _left_out(self, node: Node, conditions: Sequence[Node]) -> Aggregate:
        """ROWS_LEFT_OUT(10): the rows that are not used, at most ten of each person."""
        most = constant_number(unwrap(node.expressions[0])) if len(node.expressions) == 1 else None
        if not is_whole(most, 1, MOST_ROWS):
            refuse(node, f"{LEFT_OUT_NAME} takes how many rows of each person are counted at most", _LEFT_OUT_FIX)
        if conditions:
            refuse(node, f"{LEFT_OUT_NAME} is about all rows of the table", "Leave FILTER out.")
        text, everything = f"{LEFT_OUT_NAME}({most})", self.rows.scope.schema.names
        return Aggregate("rows_left_out", None, None, text, "", None, None, int(most or 0), everything)

    # ---- quantiles --------------------------------------------------------------------------------------------------

    def _quantiles(
        self, node: Node, argument: Node, levels: Sequence[Fraction], conditions: Sequence[Node]
    ) -> list[Aggregate]:
        text = self.rows.scope.text(argument) if argument is not None else ""
        value = self._value(node, argument, conditions)
        holds, filter_text = self._filter(conditions)
        return [Aggregate("quantile", value, holds, text, filter_text, q) for q in levels]

    def _within_group(self, node: exp.WithinGroup, conditions: Sequence[Node]) -> list[Aggregate]:
        """PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
        function, order = node.this, node.expression
        if not isinstance(function, (exp.PercentileCont, exp.PercentileDisc)) or len(order.expressions) != 1:
            refuse(node, f"WITHIN GROUP takes PERCENTILE_CONT, not {sql_name(function)}", _QUANTILE_FIX)
        (ordered,) = order.expressions
        levels = self._levels(node, function.this)
        if ordered.args.get("desc"):
            levels = [1 - q for q in levels]
        return self._quantiles(node, ordered.this, levels, conditions)

    def _one_of_quantiles(self, node: exp.Bracket, conditions: Sequence[Node]) -> list[Aggregate]:
        """APPROX_QUANTILES(x, 4)[OFFSET(3)], as BigQuery writes the upper quartile."""
        parts = constant_number(node.this.args.get("expression"))
        index = node.expressions[0] if len(node.expressions) == 1 else None
        name, offset = "", None
        if isinstance(index, exp.Anonymous) and len(index.expressions) == 1:
            name, offset = sql_name(index), constant_number(index.expressions[0])
        if (
            name not in ("OFFSET", "SAFE_OFFSET", "ORDINAL")
            or not isinstance(parts, int)
            or not isinstance(offset, int)
        ):
            refuse(node, *_REFUSED[exp.ApproxQuantiles])
        q = Fraction(offset - (name == "ORDINAL"), parts) if parts > 0 else Fraction(0)
        return self._quantiles(node, node.this.this, [self._level(node, q)], conditions)

    def _levels(self, node: Node, level: Node | None) -> list[Fraction]:
        level = unwrap(level) if level is not None else None
        listed = level.expressions if isinstance(level, (exp.Array, exp.Tuple)) else [level]
        if not listed:
            refuse(node, "There is no level of a quantile", _QUANTILE_FIX)
        return [self._level(node, _decimal(one)) for one in listed]

    def _level(self, node: Node, q: Fraction | None) -> Fraction:
        if q is None:
            refuse(node, "The level of a quantile is a number between 0 and 1", _QUANTILE_FIX)
        if not 0 < q < 1 or q.denominator > 10_000:
            refuse(
                node,
                "The level of a quantile lies between 0 and 1, with at most four decimals",
                "For the ends write 0.01 or 0.99.",
            )
        return q


def _decimal(node: Node | None) -> Fraction | None:
    """As the decimal that was written."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Fraction(node.this) if len(node.this) < 30 and "e" not in node.this.lower() else None
    except ValueError:
        return None


def _is_quantile(node: Node) -> bool:
    return isinstance(node, _QUANTILES) or (isinstance(node, exp.Anonymous) and sql_name(node) in QUANTILE_NAMES)


def _quantile_arguments(node: Node) -> tuple[Node, Node | None]:
    if isinstance(node, exp.Anonymous):
        if len(node.expressions) not in (2, 3):  # Spark's third argument is an accuracy
            refuse(node, f"{sql_name(node)} takes a value and a level", _QUANTILE_FIX)
        return node.expressions[0], node.expressions[1]
    level = node.args.get("quantile") or node.args.get("expression")
    if level is None:
        refuse(node, f"{sql_name(node)} takes a value and a level", _QUANTILE_FIX)
    return node.this, level


_QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)
_NAMES: dict[type[Node], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.ApproxDistinct: "count_distinct",
}
_QUANTILE_FIX = "Write QUANTILE_CONT(x, 0.5)."
_TOTAL_FIX = "Write SUM_PER_PERSON(x, 0, 100)."
_LEFT_OUT_FIX = "Write ROWS_LEFT_OUT(10)."
_AGGREGATES_FIX = (
    "Aggregates: COUNT, COUNT(DISTINCT x), SUM, AVG, VAR_POP, VAR_SAMP, STDDEV, MEDIAN, QUANTILE_CONT(x, q)."
)
_WINDOW = (
    "Window functions depend on other rows, so that noise cannot protect a person",
    "Use GROUP BY, and work with the released groups.",
)


def _releases(name: str) -> tuple[str, str]:
    return f"{name} would release values of single rows", "Write COUNT(*), and GROUP BY {0}."


_REFUSED: dict[type[Node], tuple[str, str]] = {
    exp.Min: ("MIN depends on a single row", "Use a low quantile: write QUANTILE_CONT({0}, 0.01)."),
    exp.Max: ("MAX depends on a single row", "Use a high quantile: write QUANTILE_CONT({0}, 0.99)."),
    exp.AnyValue: _releases("ANY_VALUE"),
    exp.First: _releases("FIRST"),
    exp.Last: _releases("LAST"),
    exp.ArrayAgg: _releases("ARRAY_AGG"),
    exp.GroupConcat: _releases("STRING_AGG"),
    exp.ArgMax: _releases("ARG_MAX"),
    exp.ArgMin: _releases("ARG_MIN"),
    exp.ApproxQuantiles: (
        "APPROX_QUANTILES without a position gives the smallest and the largest value",
        "Write APPROX_QUANTILES({0}, 4)[OFFSET(2)], or QUANTILE_CONT({0}, [0.25, 0.5, 0.75]).",
    ),
    exp.Mode: ("MODE is not available", "Write GROUP BY {0} ORDER BY COUNT(*) DESC LIMIT 1."),
    exp.LogicalOr: ("BOOL_OR depends on a single row", "Write COUNT(*) FILTER (WHERE {0})."),
    exp.LogicalAnd: ("BOOL_AND depends on a single row", "Write COUNT(*) FILTER (WHERE NOT {0})."),
    exp.Window: _WINDOW,
    exp.Corr: ("CORR is not available", "Use the mechanism GramMatrix, or AVG({0} * {1})."),
}
_REFUSED_NAMES: dict[str, tuple[str, str]] = {
    "HISTOGRAM": ("HISTOGRAM is not available", "Write COUNT(*), and GROUP BY {0}."),
    "MAD": ("MAD is not available", "Write QUANTILE_CONT({0}, [0.25, 0.75])."),
}
