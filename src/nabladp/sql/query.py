"""A query as the schema understands it: keys of groups, a filter, aggregates, and what is made of released values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from nabladp.checks import expect
from nabladp.schema import Schema
from nabladp.sql.aggregates import Aggregate, AggregateParser, conjunction, conjunction_text
from nabladp.sql.expressions import Expression
from nabladp.sql.keys import Groups, Key, KeyParser, check_cells
from nabladp.sql.released import KeyMeaning, Released, SortKey
from nabladp.sql.released_parser import PostParser
from nabladp.sql.row_parser import RowParser
from nabladp.sql.sources import check_clauses, common_tables, read_source
from nabladp.sql.syntax import LEFT_OUT_NAME, name_of, number, refuse, syntax_tree, unalias, unwrap

MOST_COLUMNS = 500


@dataclass(frozen=True)
class Query:
    """``where`` and the filters of aggregates select rows; ``grouping`` are the sets of keys to group by."""

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
        """The columns that its rows are read from, and those that decide on rows which are not used."""
        used = [key.expression for key in self.keys]
        for aggregate in self.aggregates:
            used += [part for part in (aggregate.value, aggregate.filter) if part is not None]
        used += [] if self.where is None else [self.where]
        deciding = {name for aggregate in self.aggregates for name in aggregate.decided_by}
        return tuple(sorted({name for expression in used for name in expression.columns} | deciding))


def parse_query(text: str, schema: Schema, groups: Groups | None = None, person: str = "") -> Query:
    """The query, or an error that says where and why it cannot be answered. Looks at no row.

    ``groups`` are public lists of groups by key: all other values are counted together. ``person`` is the column that
    names people, for COUNT(DISTINCT …) of them.
    """
    expect(text, str, "A query", 'Write "SELECT region, COUNT(*) FROM people GROUP BY region".')
    return _QueryParser(schema, text, groups or {}, person).query()


# ---- the whole query -------------------------------------------------------------------------------------------------


class _QueryParser:
    def __init__(self, schema: Schema, text: str, groups: Groups, person: str) -> None:
        self.schema, self.text, self.groups, self.person = schema, text, groups, person
        self.tree = syntax_tree(text)
        self.aliases = {item.alias.lower(): item.this for item in self.tree.expressions if isinstance(item, exp.Alias)}

    def query(self) -> Query:
        tree = self.tree
        check_clauses(tree)
        source = read_source(tree, common_tables(tree), self.schema)
        rows = RowParser(replace(source.scope, aliases=self.aliases, person=self.person))
        among = replace(rows.scope, assumed=source.assumed)  # aggregates look at rows that pass all conditions
        conditions, texts = list(source.conditions), list(source.texts)
        if tree.args.get("where") is not None:
            texts.append(rows.scope.text(tree.args["where"].this))
            conditions.append(rows.condition(tree.args["where"].this, "WHERE"))
            among = among.among([tree.args["where"].this])
        keys = KeyParser(tree, rows, RowParser(among), self.aliases, self.groups)
        check_cells(tree, keys)
        aggregates = AggregateParser(RowParser(among), self.person)
        post = PostParser(aggregates.positions, keys, self.aliases)
        columns = self._columns(post)
        having = tree.args.get("having")
        condition = None if having is None else post.parse(having.this)
        order = tuple(self._order(post, keys))
        if not aggregates.listed:
            refuse(tree, "The query has no aggregate", "Select an aggregate, such as COUNT(*) or AVG(x).")
        where = conjunction(conditions, self.schema)
        if (keys.keys or where is not None) and any(aggregate.left_out for aggregate in aggregates.listed):
            refuse(tree, f"{LEFT_OUT_NAME} is about all rows of the table", "Leave out WHERE and GROUP BY.")
        return Query(
            self.text,
            keys.keys,
            keys.grouping,
            where,
            conjunction_text(texts),
            tuple(aggregates.listed),
            columns,
            condition,
            order,
            self._limit(),
        )

    def _columns(self, post: PostParser) -> tuple[tuple[str, Released], ...]:
        """Names are unique, also beside those of the intervals."""
        columns: dict[str, Released] = {}
        taken: set[str] = set()
        for item in self.tree.expressions:
            node = unalias(item)
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                refuse(node, "Rows themselves are never released", "Select aggregates, such as COUNT(*).")
            released = post.parse_many(node)
            for i, one in enumerate(released):
                name = (item.alias or name_of(node)) + (f"_{i + 1}" if len(released) > 1 else "")
                name = _fresh(name, taken)
                taken |= {name, f"{name}_low", f"{name}_high"}
                columns[name] = one
            if len(columns) > MOST_COLUMNS:
                refuse(node, "The SELECT has too many columns", f"Ask for at most {MOST_COLUMNS}.")
        return tuple(columns.items())

    def _order(self, post: PostParser, keys: KeyParser) -> Iterator[tuple[Released, bool, bool]]:
        clause = self.tree.args.get("order")
        for item in clause.expressions if clause is not None else ():
            node = unwrap(item.this)
            if isinstance(node, exp.Literal) and not node.is_string:
                index = number(node)
                if not isinstance(index, int) or not 1 <= index <= len(self.tree.expressions):
                    refuse(node, f"There is no column {index} in the SELECT", "Count from 1.")
                node = unwrap(unalias(self.tree.expressions[index - 1]))
            elif isinstance(node, exp.Column) and not node.table and node.name.lower() in self.aliases:
                node = unwrap(self.aliases[node.name.lower()])  # in ORDER BY aliases come before columns
            key = keys.find(node)
            ranks = None if key is None else keys.keys[key].ranks
            released = post.parse(node) if key is None or ranks is None else KeyMeaning(key, ranks)
            yield SortKey(released), bool(item.args.get("desc")), bool(item.args.get("nulls_first"))

    def _limit(self) -> int | None:
        clause = self.tree.args.get("limit")
        if clause is None:
            return None
        count = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
        options = clause.args.get("limit_options")
        plain = options is None or not (options.args.get("percent") or options.args.get("with_ties"))
        if isinstance(count, exp.Var) and count.name.upper() == "ALL":
            return None
        value = number(count) if isinstance(count, exp.Literal) and not count.is_string else -1
        if not isinstance(value, int) or value < 0 or not plain or clause.args.get("offset"):
            refuse(clause, "LIMIT takes a whole number", "Write LIMIT 10.")
        return value


def _fresh(name: str, taken: set[str]) -> str:
    tried: Callable[[int], str] = lambda i: name if i == 1 else f"{name}_{i}"  # noqa: E731
    return next(
        tried(i) for i in range(1, len(taken) + 2) if not {tried(i), f"{tried(i)}_low", f"{tried(i)}_high"} & taken
    )


__all__ = ["Aggregate", "Groups", "Key", "Query", "parse_query"]
