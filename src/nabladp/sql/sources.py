"""FROM: the table itself, or row-wise subqueries and WITH over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from nabladp.schema import Schema
from nabladp.sql.expressions import Column, Expression
from nabladp.sql.row_parser import Named, RowParser, Scope
from nabladp.sql.syntax import Node, check_options, has_aggregate, refuse, unalias

MOST_SUBQUERIES = 8  # within each other


@dataclass(frozen=True)
class Source:
    """Names that rows offer, and the conditions that subqueries put on them."""

    scope: Scope
    conditions: tuple[Expression, ...] = ()
    texts: tuple[str, ...] = ()
    assumed: Mapping[str, Column] = field(default_factory=dict)  # what the conditions say of columns


@dataclass(frozen=True)
class CommonTable:
    """A table that WITH defines, and the tables that it may use."""

    select: exp.Select
    columns: tuple[str, ...]
    tables: Mapping[str, CommonTable]


_ROWS_ONLY = (
    "A subquery computes columns of each row, no aggregates",
    "Ask for the aggregates of the subquery, and go on from the answer.",
)
_KNOWN = {"expressions", "from_", "where", "group", "having", "order", "limit", "with_", "kind", "hint"}
_CLAUSES = {
    "joins": ("JOIN cannot be answered: one table is protected", "Join first, and declare the joined table's schema."),
    "laterals": ("LATERAL cannot be answered", "Write the expression itself."),
    "distinct": ("SELECT DISTINCT would release rows", "Use GROUP BY with COUNT(*)."),
    "qualify": ("QUALIFY filters by window functions, which depend on other rows", "Use HAVING."),
    "windows": ("Window functions depend on other rows", "Use GROUP BY."),
    "offset": ("OFFSET is not available", "Use LIMIT, or skip rows of the answer."),
    "sample": ("A random sample changes the guarantee", "Ask about all rows; the noise does not grow with them."),
    "into": ("A query cannot write a table", "Leave INTO out."),
    "pivots": ("PIVOT is not available", "Use GROUP BY, and pivot the answer."),
    "locks": ("A query cannot lock rows", "Leave FOR UPDATE out."),
}


def check_clauses(tree: exp.Select) -> None:
    for name, value in tree.args.items():
        if not value or name in _KNOWN:
            continue
        word = name.strip("_").replace("_", " ").upper()
        reason, fix = _CLAUSES.get(name, (f"{word} is not available in a query", "Leave it out."))
        refuse(value if isinstance(value, Node) else value[0] if isinstance(value, list) else tree, reason, fix)
    if tree.args.get("kind"):
        refuse(tree, "SELECT AS STRUCT and AS VALUE are not available", "Write SELECT alone.")


def common_tables(tree: exp.Select, outer: Mapping[str, CommonTable] | None = None) -> dict[str, CommonTable]:
    """Each may use those before it."""
    clause, tables = tree.args.get("with_"), dict(outer or {})
    if clause is None:
        return tables
    if clause.args.get("recursive"):
        refuse(clause, "A recursive query cannot be answered", "Compute columns of each row only.")
    for table in clause.expressions:
        if not isinstance(table.this, exp.Select):
            refuse(table, "WITH takes a SELECT", "Write WITH t AS (SELECT … FROM people).")
        tables[table.alias.lower()] = CommonTable(table.this, _column_names(table), dict(tables))
    return tables


def _column_names(node: Node) -> tuple[str, ...]:
    """Those after the alias: t(a, b)."""
    alias = node.args.get("alias")
    return tuple(column.name for column in (alias.args.get("columns") or ())) if isinstance(alias, Node) else ()


def read_source(tree: exp.Select, tables: Mapping[str, CommonTable], schema: Schema, depth: int = 0) -> Source:
    clause = tree.args.get("from_")
    if clause is None:
        refuse(tree, "The query has no FROM", "Write FROM people, or any other name for the table.")
    source = clause.this
    if depth > MOST_SUBQUERIES:
        refuse(source, "Subqueries are nested too deeply", "Write the columns in one SELECT.")
    for part in ("joins", "sample", "pivots", "laterals"):
        if source.args.get(part):
            refuse(source, *_CLAUSES[part])
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
        inner = CommonTable(source.this, (), tables)
        return _renamed(source, _subquery(inner, source.alias.lower(), schema, depth), _column_names(source))
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        refuse(source, "FROM takes the name of the table", "Write FROM people.")
    extra = [part for part in ("when", "version", "ordinality", "only", "partition") if source.args.get(part)]
    if extra:
        refuse(source, f"FROM with {extra[0].upper()} is not available", "Write FROM people.")
    name, alias = source.name.lower(), source.alias.lower()
    common = tables.get(name) if not source.args.get("db") else None
    if common is not None:
        found = _renamed(source, _subquery(common, alias or name, schema, depth), common.columns)
        return _renamed(source, found, _column_names(source))
    base = Source(Scope(schema, alias or name))
    return _renamed(source, base, _column_names(source))


def _subquery(table: CommonTable, name: str, schema: Schema, depth: int) -> Source:
    tree = table.select
    check_clauses(tree)
    if tree.args.get("limit"):
        refuse(tree.args["limit"], "LIMIT in a subquery depends on the order of the rows", "Leave LIMIT out.")
    for clause in ("group", "having"):
        if tree.args.get(clause):
            refuse(tree.args[clause], *_ROWS_ONLY)
    source = read_source(tree, common_tables(tree, table.tables), schema, depth + 1)
    rows = RowParser(source.scope)
    conditions, texts, among = source.conditions, source.texts, replace(source.scope, assumed=source.assumed)
    if tree.args.get("where") is not None:
        texts = (*texts, source.scope.text(tree.args["where"].this))
        conditions = (*conditions, rows.condition(tree.args["where"].this, "WHERE"))
        among = among.among([tree.args["where"].this])
    offered = _offered(tree, RowParser(among), name)
    return Source(replace(offered, assumed={}), conditions, texts, among.assumed)


def _offered(tree: exp.Select, rows: RowParser, name: str) -> Scope:
    """The columns of a subquery: those it lists, or with a star all of the source's."""
    inner, named, star = rows.scope, dict[str, Named](), None
    written: set[str] = set()
    for item in tree.expressions:
        node = unalias(item)
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            if star is not None:
                refuse(node, "A subquery takes one *", "Leave the second out.")
            star = node if isinstance(node, exp.Star) else node.this
            continue
        _name(item.alias or node.name, node, rows, named, written)
    if star is None:
        return replace(inner, table=name, named=named, listed=True, hidden=frozenset())
    check_options(star)
    hidden = {column.name.lower() for column in star.args.get("except_") or ()}
    replaced: dict[str, Named] = {}
    for item in star.args.get("replace") or ():
        _name(item.alias, unalias(item), rows, replaced, set())
    for added in named:
        if added not in hidden and (added in inner.named or any(added == own.lower() for own in _columns(inner))):
            refuse(tree, f"The subquery has two columns {added!r}", f"Write SELECT * REPLACE (… AS {added}).")
    kept = {own: value for own, value in inner.named.items() if own not in hidden}
    return replace(inner, table=name, named={**kept, **replaced, **named}, hidden=inner.hidden | hidden)


def _columns(scope: Scope) -> list[str]:
    return [] if scope.listed else [name for name in scope.schema.names if name.lower() not in scope.hidden]


def _name(name: str, node: Node, rows: RowParser, named: dict[str, Named], written: set[str]) -> None:
    if not name:
        refuse(node, "A computed column of a subquery needs a name", "Write (expression) AS name.")
    if name.lower() in written:
        refuse(node, f"The subquery has two columns {name!r}", "Give them different names.")
    if has_aggregate(node):
        refuse(node, *_ROWS_ONLY)
    written.add(name.lower())
    meaning = rows.scope.meaning(node)
    named[name.lower()] = Named(rows.parse(node), meaning)


def _renamed(node: Node, source: Source, names: Sequence[str]) -> Source:
    """t(a, b): new names for the columns, in their order."""
    if not names:
        return source
    scope = source.scope
    if not scope.listed or len(names) > len(scope.named):
        refuse(node, "Names in parentheses take a subquery that lists its columns", "Use AS for each column.")
    given = [*(name.lower() for name in names), *list(scope.named)[len(names) :]]
    if len(set(given)) < len(given):
        refuse(node, "Two columns would have one name", "Give them different names.")
    return replace(source, scope=replace(scope, named=dict(zip(given, scope.named.values(), strict=True))))
