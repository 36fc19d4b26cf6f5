"""A query as the schema understands it: keys of groups, a filter, aggregates, and what is made of released values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from sqlglot import exp

from nabladp.checks import expect
from nabladp.schema import Schema
from nabladp.sql import functions as fn
from nabladp.sql.domains import Refused
from nabladp.sql.expressions import Call, Column, Expression, Lookup, simplify
from nabladp.sql.released import PostParser, Released
from nabladp.sql.row_parser import RowParser, Scope
from nabladp.sql.syntax import Node, has_aggregate, name_of, number, refuse, syntax_tree, text_of, unalias

MOST_CELLS = 1 << 24  # groups that are answered


@dataclass(frozen=True)
class Key:
    """A key of groups: an expression whose values can be listed. Codes count its values; NULL, where it may be, last."""

    name: str
    expression: Expression
    text: str

    @property
    def labels(self) -> tuple[Any, ...]:
        """The value behind each code; None is NULL."""
        column = self.column
        if column is not None:
            attribute = column.attribute
            values = [_label(attribute, code) for code in range(attribute.size)]
            return tuple(values)
        listed = self.expression.domain.values or ()
        return (*listed, None) if self.expression.domain.nullable else tuple(listed)

    @property
    def column(self) -> Column | None:
        """The column itself, where the key is nothing else: then its codes are those of the column."""
        return self.expression if isinstance(self.expression, Column) else None

    @property
    def size(self) -> int:
        return len(self.labels)


def _label(attribute: Any, code: int) -> Any:
    """A declared value as it is; bins and the others by their label."""
    if code == attribute.null_code:
        return None
    if code == attribute.other_code or attribute.kind == "real":
        return attribute.label(code)
    if attribute.kind == "boolean":
        return bool(code)
    return attribute.low + code if attribute.low is not None else attribute.values[code]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query. ``value`` is None for COUNT(*); ``q`` is the level of a quantile."""

    function: str  # count, count_distinct, sum, avg, var_pop, var_samp, stddev_pop, stddev_samp, quantile
    value: Expression | None
    filter: Expression | None
    value_text: str = ""
    filter_text: str = ""
    q: Fraction | None = None

    @property
    def identity(self) -> tuple[str, str, str, Fraction | None]:
        return (self.function, self.value_text, self.filter_text, self.q)


@dataclass(frozen=True)
class Query:
    """``where`` and the filters of aggregates decide which rows count; ``grouping`` are the sets of keys to group by."""

    text: str
    keys: tuple[Key, ...]
    grouping: tuple[tuple[int, ...], ...]
    where: Expression | None
    where_text: str
    aggregates: tuple[Aggregate, ...]
    columns: tuple[tuple[str, Released], ...]
    having: Released | None
    order: tuple[tuple[Released, bool, bool], ...]  # by what, descending, NULLs first
    limit: int | None

    def cells(self, grouping: Sequence[int]) -> int:
        return math.prod(self.keys[i].size for i in grouping)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that its rows are read from."""
        used = [key.expression for key in self.keys]
        for aggregate in self.aggregates:
            used += [part for part in (aggregate.value, aggregate.filter) if part is not None]
        used += [] if self.where is None else [self.where]
        return tuple(sorted({name for expression in used for name in expression.columns}))


def parse_query(text: str, schema: Schema) -> Query:
    """The query, or an error that says where and why it cannot be answered. Looks at no row."""
    expect(text, str, "A query", 'Write "SELECT region, COUNT(*) FROM people GROUP BY region".')
    return _QueryParser(schema, text).query()


# ---- from a syntax tree to a query -----------------------------------------------------------------------------------

_KNOWN_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "kind", "hint", "operation_modifiers"}
_CLAUSES = {
    "joins": ("JOIN cannot be answered: one table is protected", "Join first, and declare the joined table's schema."),
    "laterals": ("LATERAL cannot be answered", "Write the expression directly."),
    "distinct": ("SELECT DISTINCT would release rows", "Use GROUP BY with COUNT(*)."),
    "qualify": ("Window functions look at other rows", "Use HAVING on the released groups."),
    "windows": ("Window functions look at other rows", "Use GROUP BY."),
    "offset": ("OFFSET is not available", "Use LIMIT, or sort the answer yourself."),
    "sample": ("A random sample changes the guarantee", "Ask about all rows; noise is small for many."),
    "into": ("A query answers; it writes nothing", "Leave out INTO."),
    "pivots": ("PIVOT is not available", "Use GROUP BY, and pivot the answer."),
}


class _QueryParser:
    def __init__(self, schema: Schema, text: str) -> None:
        self.schema, self.text = schema, text
        self.tree = syntax_tree(text)
        self.aggregates: dict[tuple[Any, ...], int] = {}
        self.listed: list[Aggregate] = []

    def query(self) -> Query:
        tree = self.tree
        self._check_clauses(tree)
        scope, conditions = self._source(tree, self._common_tables(tree))
        self.rows = RowParser(scope)
        if tree.args.get("where") is not None:
            conditions = [*conditions, self.rows.condition(tree.args["where"].this, "WHERE")]
        where_text = " AND ".join([*self._inner_texts, *([text_of(tree.args["where"].this)] if tree.args.get("where") else [])])
        aliases = self._aliases(tree)
        keys, grouping = self._keys(tree, aliases)
        post = PostParser(self._aggregate, {key.text: i for i, key in enumerate(keys)}, aliases, self._plain_key)
        columns = self._columns(tree, post)
        having = tree.args.get("having")
        order = tree.args.get("order")
        query = Query(
            self.text,
            keys,
            grouping,
            self._conjunction(conditions),
            where_text,
            (),
            columns,
            None if having is None else post.parse(having.this),
            tuple(self._order(tree, post, columns, order)),
            self._limit(tree),
        )
        if not self.listed:
            refuse(tree, "The query has no aggregate", "Select an aggregate, such as COUNT(*) or AVG(x).")
        return _checked(_with_aggregates(query, tuple(self.listed)), tree)

    # ---- clauses ----------------------------------------------------------------------------------------------------

    def _check_clauses(self, tree: exp.Select) -> None:
        for name, value in tree.args.items():
            if not value or name in _KNOWN_CLAUSES:
                continue
            reason, fix = _CLAUSES.get(name, (f"{name.strip('_').upper()} is not available in a query", "Leave it out."))
            refuse(value if isinstance(value, Node) else tree, reason, fix)

    def _common_tables(self, tree: exp.Select) -> dict[str, exp.Select]:
        clause = tree.args.get("with_")
        if clause is None:
            return {}
        if clause.args.get("recursive"):
            refuse(clause, "A recursive query cannot be answered", "Write row-wise columns only.")
        found = {}
        for table in clause.expressions:
            if not isinstance(table.this, exp.Select):
                refuse(table, "WITH takes a SELECT", "Write WITH t AS (SELECT … FROM table).")
            found[table.alias.lower()] = table.this
        return found

    _inner_texts: tuple[str, ...] = ()

    def _source(self, tree: exp.Select, tables: Mapping[str, exp.Select], depth: int = 0) -> tuple[Scope, list[Expression]]:
        """The names that rows offer, and conditions on them, through row-wise subqueries."""
        clause = tree.args.get("from_")
        if clause is None:
            refuse(tree, "The query has no FROM", "Write FROM and any name for the table.")
        source = clause.this
        if depth > 8:
            refuse(source, "Subqueries are nested too deeply", "Write the columns in one SELECT.")
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            return self._inner(source.this, tables, source.alias.lower(), depth)
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier) or source.args.get("db"):
            refuse(source, "FROM takes the table of the session", "Write FROM people.")
        for part in ("sample", "joins", "pivots", "when", "version"):
            if source.args.get(part):
                refuse(source, *_CLAUSES.get(part, ("This part of FROM is not available", "Write FROM people.")))
        name, alias = source.name.lower(), source.alias.lower()
        if name in tables:
            others = {key: value for key, value in tables.items() if key != name}
            return self._inner(tables[name], others, alias or name, depth)
        return Scope(self.schema, frozenset({alias or name}), {}), []

    def _inner(
        self, tree: exp.Select, tables: Mapping[str, exp.Select], name: str, depth: int
    ) -> tuple[Scope, list[Expression]]:
        for clause in ("group", "having", "order", "limit"):
            if tree.args.get(clause):
                refuse(tree, "A subquery may only compute columns of each row", "Aggregate in the outer SELECT alone.")
        self._check_clauses(tree)
        scope, conditions = self._source(tree, {**tables, **self._common_tables(tree)}, depth + 1)
        rows = RowParser(scope)
        if tree.args.get("where") is not None:
            conditions = [*conditions, rows.condition(tree.args["where"].this, "WHERE")]
            self._inner_texts = (*self._inner_texts, text_of(tree.args["where"].this))
        named: dict[str, Expression] = {}
        star = False
        for item in tree.expressions:
            if isinstance(item, exp.Star):
                star = True
                named.update(scope.named)
            else:
                named[(item.alias or item.name).lower()] = rows.parse(item.this if isinstance(item, exp.Alias) else item)
        if not star:
            hidden = Schema(tuple(self.schema[column] for column in self.schema.names))
            return _OnlyNamed(hidden, frozenset({name}), named), conditions
        return Scope(self.schema, frozenset({name}), named), conditions

    def _conjunction(self, conditions: Sequence[Expression]) -> Expression | None:
        if len(conditions) < 2:
            return conditions[0] if conditions else None
        return simplify(Call(fn.Connective("AND"), tuple(conditions)), self.schema)

    def _limit(self, tree: exp.Select) -> int | None:
        clause = tree.args.get("limit")
        if clause is None:
            return None
        value = number(clause.expression) if isinstance(clause.expression, exp.Literal) else -1
        if not isinstance(value, int) or value < 0:
            refuse(clause, "LIMIT takes a whole number", "Write LIMIT 10.")
        return value

    # ---- keys -------------------------------------------------------------------------------------------------------

    def _aliases(self, tree: exp.Select) -> dict[str, Node]:
        return {item.alias.lower(): item.this for item in tree.expressions if isinstance(item, exp.Alias)}

    def _keys(self, tree: exp.Select, aliases: Mapping[str, Node]) -> tuple[tuple[Key, ...], tuple[tuple[int, ...], ...]]:
        clause = tree.args.get("group")
        if clause is None:
            return (), ((),)
        nodes: dict[str, tuple[Node, str]] = {}
        if clause.args.get("all"):
            plain = [self._key_node(unalias(item), aliases, tree, nodes) for item in tree.expressions if not has_aggregate(item)]
            sets = [tuple(plain)]
        else:
            sets = self._grouping_sets(clause, aliases, tree, nodes)
        keys = tuple(self._key(node, name, text) for text, (node, name) in nodes.items())
        return keys, tuple(dict.fromkeys(tuple(sorted(dict.fromkeys(chosen))) for chosen in sets))

    def _grouping_sets(
        self, clause: exp.Group, aliases: Mapping[str, Node], tree: exp.Select, nodes: dict[str, tuple[Node, str]]
    ) -> list[tuple[int, ...]]:
        sets: list[tuple[int, ...]] = [()]
        for item in _group_items(clause):
            options = [tuple(self._key_node(node, aliases, tree, nodes) for node in option) for option in item]
            sets = [(*chosen, *option) for chosen in sets for option in options]
            if len(sets) > 64:
                refuse(clause, "There are too many grouping sets", "Ask for at most 64.")
        return sets

    def _key_node(
        self, node: Node, aliases: Mapping[str, Node], tree: exp.Select, nodes: dict[str, tuple[Node, str]]
    ) -> int:
        """The position of a key, which may be written as a column, an alias, or a position in the SELECT."""
        name = ""
        if isinstance(node, exp.Literal) and not node.is_string:
            index = number(node)
            if not isinstance(index, int) or not 1 <= index <= len(tree.expressions):
                refuse(node, f"There is no column {index} in the SELECT", "Count from 1, or write the expression.")
            item = tree.expressions[index - 1]
            node, name = unalias(item), item.alias
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            if node.name not in self.schema or text_of(aliases[node.name.lower()]) == text_of(node):
                name, node = node.name, aliases[node.name.lower()]
        if has_aggregate(node):
            refuse(node, "GROUP BY takes columns of rows, not aggregates", "Use HAVING for conditions on aggregates.")
        text = text_of(node)
        if text not in nodes:
            alias = next((alias for alias, own in aliases.items() if text_of(own) == text), "")
            nodes[text] = (node, name or alias or (node.name if isinstance(node, exp.Column) else name_of(node)))
        return list(nodes).index(text)

    def _key(self, node: Node, name: str, text: str) -> Key:
        expression = self.rows.parse(node)
        if isinstance(expression, Column):
            if expression.attribute.size > MOST_CELLS:
                refuse(node, f"{name!r} has {expression.attribute.size:,} values", "Group it, for example FLOOR(x / 10) * 10.")
        elif expression.domain.values is None or not isinstance(expression, Lookup):
            refuse(
                node,
                "The values of this key cannot be listed",
                "Group whole numbers, for example FLOOR(age / 10) * 10, or use CASE with few values.",
            )
        return Key(name, expression, text)

    def _plain_key(self, node: Node) -> NoReturn:
        text = text_of(node)
        refuse(
            node,
            f"{text} is neither an aggregate nor in GROUP BY",
            f"Add {text} to GROUP BY, or aggregate it, for example AVG({text}).",
        )

    # ---- columns of the answer --------------------------------------------------------------------------------------

    def _columns(self, tree: exp.Select, post: PostParser) -> tuple[tuple[str, Released], ...]:
        columns: dict[str, Released] = {}
        for item in tree.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                refuse(item, "Rows themselves are never released", "Select aggregates, such as COUNT(*).")
            node = unalias(item)
            name = item.alias or (node.name if isinstance(node, exp.Column) else name_of(node))
            for released_name, released in _each_level(name, post.parse_many(node)):
                if released_name in columns:
                    released_name = _fresh(released_name, columns)
                columns[released_name] = released
        return tuple(columns.items())

    def _order(
        self, tree: exp.Select, post: PostParser, columns: Sequence[tuple[str, Released]], clause: Node | None
    ) -> Iterator[tuple[Released, bool, bool]]:
        for item in clause.expressions if clause is not None else ():
            node = item.this
            if isinstance(node, exp.Literal) and not node.is_string:
                index = number(node)
                if not isinstance(index, int) or not 1 <= index <= len(columns):
                    refuse(node, f"There is no column {index} in the SELECT", "Count from 1.")
                released = columns[index - 1][1]
            else:
                released = post.parse(node)
            yield released, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))

    # ---- aggregates -------------------------------------------------------------------------------------------------

    def _aggregate(self, node: Node) -> list[int]:
        """Positions of the aggregates that a node stands for, several where it asks for several quantiles."""
        return [self._position_of(aggregate) for aggregate in self._read_aggregate(node)]

    def _position_of(self, aggregate: Aggregate) -> int:
        if aggregate.identity not in self.aggregates:
            self.aggregates[aggregate.identity] = len(self.listed)
            self.listed.append(aggregate)
        return self.aggregates[aggregate.identity]

    def _read_aggregate(self, node: Node) -> list[Aggregate]:
        condition = None
        if isinstance(node, exp.Filter):
            condition, node = node.expression.this, node.this
        if isinstance(node, exp.WithinGroup):
            ordered = node.expression.expressions[0]
            level = node.this.this
            if ordered.args.get("desc"):
                refuse(node, "Quantiles count from the smallest value", "Write 1 − q instead of DESC.")
            return self._quantiles(node, ordered.this, level, condition)
        if isinstance(node, exp.Median):
            return self._quantiles(node, node.this, exp.Literal.number("0.5"), condition)
        if isinstance(node, exp.CountIf):
            holds = self.rows.condition(node.this, "COUNT_IF")
            text = text_of(node.this) if condition is None else f"{text_of(node.this)} AND {text_of(condition)}"
            both = self._conjunction([holds, *([] if condition is None else [self.rows.condition(condition, "FILTER")])])
            return [Aggregate("count", None, both, "", text)]
        level = _quantile_level(node)
        if level is not None:
            return self._quantiles(node, _quantile_value(node), level, condition)
        name = _NAMES.get(type(node))
        if name is None:
            refuse(node, *_REFUSED.get(type(node), (f"{type(node).__name__.upper()} is not available", _AGGREGATES_FIX)))
        return [self._simple(name, node, condition)]

    def _filter(self, condition: Node | None) -> tuple[Expression | None, str]:
        if condition is None:
            return None, ""
        return self.rows.condition(condition, "FILTER"), text_of(condition)

    def _simple(self, name: str, node: Node, condition: Node | None) -> Aggregate:
        holds, filter_text = self._filter(condition)
        argument = node.this
        if isinstance(argument, exp.Distinct):
            return self._distinct(name, node, argument, holds, filter_text)
        if name == "count" and (isinstance(argument, (exp.Star, exp.Literal)) or argument is None):
            return Aggregate("count", None, holds, "", filter_text)
        value = self._value(argument, text_too=name in ("count", "count_distinct"))
        if name == "count" and not value.domain.nullable:
            return Aggregate("count", None, holds, "", filter_text)
        return Aggregate(name, value, holds, text_of(argument), filter_text)

    def _distinct(self, name: str, node: Node, argument: exp.Distinct, holds: Expression | None, text: str) -> Aggregate:
        if name != "count" or len(argument.expressions) != 1:
            refuse(node, "DISTINCT is available in COUNT(DISTINCT x) alone", "Write COUNT(DISTINCT x).")
        value = self._value(argument.expressions[0], text_too=True)
        if not isinstance(value, (Column, Lookup)) or (isinstance(value, Column) and value.by_grid):
            refuse(node, "COUNT(DISTINCT x) takes values that can be listed", "Round or group the values first.")
        return Aggregate("count_distinct", value, holds, text_of(argument.expressions[0]), text)

    def _value(self, node: Node, *, text_too: bool = False) -> Expression:
        value = self.rows.parse(node)
        if not text_too:
            try:
                fn.numbers([value], "This aggregate")
            except Refused as refusal:
                refuse(node, refusal.reason, refusal.fix)
        return value

    def _quantiles(self, node: Node, argument: Node, level: Node, condition: Node | None) -> list[Aggregate]:
        holds, filter_text = self._filter(condition)
        value = self._value(argument)
        levels = level.expressions if isinstance(level, (exp.Array, exp.Tuple)) else [level]
        return [
            Aggregate("quantile", value, holds, text_of(argument), filter_text, self._level(node, one)) for one in levels
        ]

    def _level(self, node: Node, level: Node) -> Fraction:
        """As the decimal that was written."""
        if not isinstance(level, exp.Literal) or level.is_string:
            refuse(node, "The level of a quantile is a number between 0 and 1", "Write QUANTILE(x, 0.5).")
        q = Fraction(level.this)
        if not 0 < q < 1 or q.denominator > 10_000:
            refuse(node, "The level of a quantile lies between 0 and 1", "Write, say, 0.25; for the ends take 0.01 or 0.99.")
        return q


class _OnlyNamed(Scope):
    """A subquery that lists its columns offers no others."""

    def column(self, node: exp.Column) -> Expression:
        if node.name.lower() not in self.named:
            refuse(node, f"The subquery has no column {node.name!r}", f"It has {', '.join(self.named)}.")
        return super().column(node)


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
_AGGREGATES_FIX = "Aggregates: COUNT, COUNT(DISTINCT x), SUM, AVG, VAR_POP, VAR_SAMP, STDDEV, MEDIAN, QUANTILE(x, q)."
_REFUSED: dict[type[Node], tuple[str, str]] = {
    exp.Min: ("MIN depends on a single person", "Use a low quantile, such as QUANTILE(x, 0.01)."),
    exp.Max: ("MAX depends on a single person", "Use a high quantile, such as QUANTILE(x, 0.99)."),
    exp.AnyValue: ("ANY_VALUE would release a row", "Use MEDIAN, or GROUP BY the column."),
    exp.Mode: ("MODE is not available", "GROUP BY the column with COUNT(*) ORDER BY the count, LIMIT 1."),
    exp.Window: ("Window functions look at other rows", "Use GROUP BY, and work with the released groups."),
}


def _quantile_level(node: Node) -> Node | None:
    if isinstance(node, (exp.PercentileCont, exp.PercentileDisc)):
        return node.args.get("expression")
    if isinstance(node, (exp.Quantile, exp.ApproxQuantile)):
        return node.args.get("quantile")
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("APPROX_PERCENTILE", "PERCENTILE"):
        return node.expressions[1] if len(node.expressions) > 1 else None
    return None


def _quantile_value(node: Node) -> Node:
    return node.expressions[0] if isinstance(node, exp.Anonymous) else node.this


def _group_items(clause: exp.Group) -> Iterator[list[tuple[Node, ...]]]:
    """For each item of GROUP BY, the sets of keys that it stands for."""
    listed = [*clause.expressions]
    for name in ("rollup", "cube", "grouping_sets"):
        value = clause.args.get(name)
        listed += value if isinstance(value, list) else []
    for item in listed:
        parts = [_tuple(part) for part in item.expressions] if not isinstance(item, (exp.Column, exp.Literal)) else []
        if isinstance(item, exp.Rollup):
            yield [sum(parts[:end], ()) for end in range(len(parts), -1, -1)]
        elif isinstance(item, exp.Cube):
            yield [
                sum((part for i, part in enumerate(parts) if not mask >> i & 1), ()) for mask in range(1 << min(len(parts), 7))
            ]
        elif isinstance(item, exp.GroupingSets):
            yield parts
        else:
            yield [_tuple(item)]


def _tuple(node: Node) -> tuple[Node, ...]:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this,) if isinstance(node, exp.Paren) else (node,)


def _each_level(name: str, released: Sequence[Released]) -> list[tuple[str, Released]]:
    return [(name, released[0])] if len(released) == 1 else [(f"{name}_{i + 1}", part) for i, part in enumerate(released)]


def _fresh(name: str, taken: Mapping[str, Any]) -> str:
    return next(f"{name}_{i}" for i in range(2, len(taken) + 3) if f"{name}_{i}" not in taken)


def _with_aggregates(query: Query, aggregates: tuple[Aggregate, ...]) -> Query:
    return replace(query, aggregates=aggregates)


def _checked(query: Query, tree: Node) -> Query:
    for grouping in query.grouping:
        cells = query.cells(grouping)
        if cells > MOST_CELLS:
            names = ", ".join(query.keys[i].name for i in grouping)
            refuse(
                tree,
                f"Grouping by {names} gives {cells:,} groups, each of which is answered",
                f"Group coarser, for example FLOOR(x / 10) * 10; at most {MOST_CELLS:,} groups.",
            )
    return query
