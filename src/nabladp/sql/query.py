"""A query as the schema understands it: keys of groups, a filter, aggregates, and what is made of released values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from nabladp.checks import expect
from nabladp.schema import Attribute, Schema
from nabladp.sql.aggregates import Aggregate, AggregateParser, conjunction, conjunction_text
from nabladp.sql.expressions import Column, Expression, Lookup
from nabladp.sql.released import KeyMeaning, Released, SortKey
from nabladp.sql.released_parser import KeyReader, PostParser
from nabladp.sql.row_parser import RowParser
from nabladp.sql.sources import check_clauses, common_tables, read_source
from nabladp.sql.syntax import Node, has_aggregate, name_of, number, refuse, syntax_tree, text_of, unalias, unwrap

MOST_CELLS = 1 << 24  # groups that are answered
MOST_SETS = 64  # grouping sets
MOST_COLUMNS = 500


@dataclass(frozen=True)
class Key:
    """A key of groups: an expression whose values can be listed. Codes count its values; NULL, if possible, is last."""

    name: str
    expression: Expression
    text: str

    @property
    def labels(self) -> tuple[Any, ...]:
        """The value behind each code; None is NULL."""
        column = self.column
        if column is not None:
            return tuple(_label(column.attribute, code) for code in range(column.attribute.size))
        listed = self.expression.domain.values or ()
        return (*listed, None) if self.expression.domain.nullable else tuple(listed)

    @property
    def column(self) -> Column | None:
        """The column itself, where the key is nothing else: then its codes are those of the column."""
        return self.expression if isinstance(self.expression, Column) else None

    @property
    def size(self) -> int:
        return self.column.attribute.size if self.column is not None else len(self.labels)

    @property
    def meanings(self) -> dict[Any, Any] | None:
        """What each label means in an expression: a number outside its declared domain is NULL. None where labels are
        ranges of numbers."""
        column = self.column
        if column is not None and column.by_grid:
            return None
        numbers = self.expression.domain.kind in ("number", "boolean")
        return {label: None if numbers and isinstance(label, str) else label for label in self.labels}

    @property
    def ranks(self) -> dict[Any, int] | None:
        """Where the declared order differs from that of the labels: the rank of each."""
        plain = self.column is None or not (self.column.by_grid or self.column.attribute.unknown == "other")
        if plain and not self.expression.domain.ordered:
            return None
        return {label: code for code, label in enumerate(self.labels) if label is not None}


def _label(attribute: Attribute, code: int) -> Any:
    """A declared value as it is; bins and the others by their label."""
    if code == attribute.null_code:
        return None
    if code == attribute.other_code or attribute.kind == "real":
        return attribute.label(code)
    if attribute.kind == "boolean":
        return bool(code)
    return attribute.low + code if attribute.low is not None else attribute.values[code]


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


# ---- keys ------------------------------------------------------------------------------------------------------------


class _KeyParser(KeyReader):
    """Reads GROUP BY, and finds its keys again in the rest of the query."""

    def __init__(self, tree: exp.Select, rows: RowParser, aliases: Mapping[str, Node]) -> None:
        self.tree, self.rows, self.aliases = tree, rows, aliases
        self.nodes: dict[str, tuple[Node, str]] = {}  # by what they mean: as written, and the name
        self.grouping = self._grouping(tree.args.get("group"))
        self.keys = tuple(self._key(node, name, text) for text, (node, name) in self.nodes.items())

    def _grouping(self, clause: exp.Group | None) -> tuple[tuple[int, ...], ...]:
        if clause is None:
            return ((),)
        if clause.args.get("all"):
            items = [unalias(item) for item in self.tree.expressions if not has_aggregate(item)]
            return (tuple(dict.fromkeys(self._position(item) for item in items)),)
        sets: list[tuple[int, ...]] = [()]
        for options in _group_items(clause):
            chosen = [tuple(self._position(node) for node in option) for option in options]
            sets = [(*before, *option) for before in sets for option in chosen]
            if len(sets) > MOST_SETS:
                refuse(clause, "There are too many grouping sets", f"Ask for at most {MOST_SETS}.")
        return tuple(dict.fromkeys(tuple(sorted(dict.fromkeys(own))) for own in sets))

    def _position(self, node: Node) -> int:
        """Of a key that may be written as a column, an alias, a position in the SELECT, or an expression."""
        node, name = unwrap(node), ""
        if isinstance(node, exp.Literal) and not node.is_string:
            index = number(node)
            if not isinstance(index, int) or not 1 <= index <= len(self.tree.expressions):
                refuse(node, f"There is no column {index} in the SELECT", "Count from 1, or write the expression.")
            item = self.tree.expressions[index - 1]
            node, name = unwrap(unalias(item)), item.alias
        elif isinstance(node, exp.Column) and not node.table and self._is_alias(node):
            node, name = unwrap(self.aliases[node.name.lower()]), node.name
        if has_aggregate(node):
            refuse(node, "GROUP BY takes values of rows, not aggregates", "Use HAVING for conditions on aggregates.")
        text = self.rows.scope.text(node)
        if text not in self.nodes:
            self.nodes[text] = (node, name or self._alias_of(text) or name_of(node))
        return list(self.nodes).index(text)

    def _is_alias(self, node: exp.Column) -> bool:
        """Columns come before aliases of the same name."""
        scope, name = self.rows.scope, node.name.lower()
        return name in self.aliases and name not in scope.named and scope.attribute(node) is None

    def _alias_of(self, text: str) -> str:
        plain = (alias for alias, own in self.aliases.items() if not has_aggregate(own))
        return next((alias for alias in plain if self.rows.scope.text(self.aliases[alias]) == text), "")

    def _key(self, node: Node, name: str, text: str) -> Key:
        expression = self.rows.parse(node)
        size = expression.attribute.size if isinstance(expression, Column) else len(expression.domain.values or ())
        if size > MOST_CELLS:
            refuse(node, f"{name!r} has {size:,} values", f"Group them, for example FLOOR({name} / 100).")
        if not isinstance(expression, Column) and expression.domain.values is None:
            refuse(
                node,
                "The values of this key cannot be listed",
                f"Group them: write FLOOR({text_of(node)} / 1000), or use CASE.",
            )
        return Key(name, expression, text)

    # ---- in the rest of the query -----------------------------------------------------------------------------------

    def find(self, node: Node) -> int | None:
        if not self.nodes or isinstance(node, (exp.Literal, exp.Boolean, exp.Null)) or has_aggregate(node):
            return None
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            self.rows.scope.check_table(node)
            if self.rows.scope.attribute(node) is None and node.name.lower() in self.aliases:
                return None  # read as what the alias says
        text = self.rows.scope.text(node)
        return list(self.nodes).index(text) if text in self.nodes else None

    def operand(self, node: Node, index: int) -> Released:
        meanings = self.keys[index].meanings
        if meanings is None:
            refuse(
                node,
                f"{self.keys[index].name!r} is a range of numbers in the answer",
                f"Write the condition into WHERE, or GROUP BY FLOOR({text_of(node)} / 1000).",
            )
        return KeyMeaning(index, meanings)

    def function(self, node: Node) -> Released | None:
        if has_aggregate(node):
            return None
        expression = self.rows.parse(node)
        for index, key in enumerate(self.keys):
            if (
                key.column is not None
                and expression.columns == key.expression.columns
                and isinstance(expression, Lookup)
            ):
                return KeyMeaning(index, _by_label(expression, key.labels))
        return None

    def refuse(self, node: Node) -> Any:
        text = text_of(node)
        self.rows.parse(node)  # a name that does not exist is reported first
        refuse(
            node,
            f"{text} is neither an aggregate nor in GROUP BY",
            f"Add {text} to GROUP BY, or aggregate it, for example AVG({text}).",
        )


def _by_label(expression: Lookup, labels: Sequence[Any]) -> dict[Any, Any]:
    values = expression.domain.values or ()
    null = expression.null if expression.null is not None else [False] * len(expression.data)
    found = [values[int(own)] if expression.domain.is_text else own.item() for own in expression.data]
    return {label: None if gap else value for label, value, gap in zip(labels, found, null, strict=True)}


def _group_items(clause: exp.Group) -> Iterator[list[tuple[Node, ...]]]:
    """For each item of GROUP BY, the sets of keys that it stands for."""
    listed = [*clause.expressions]
    for name in ("rollup", "cube", "grouping_sets"):
        value = clause.args.get(name)
        listed += value if isinstance(value, list) else []
    every = [item for item in listed if isinstance(item, (exp.Rollup, exp.Cube)) and not item.expressions]
    if every:  # GROUP BY a, b WITH ROLLUP
        listed = [type(every[0])(expressions=[item for item in listed if item is not every[0]])]
    for item in listed:
        if isinstance(item, exp.Rollup):
            parts = [_tuple(part) for part in item.expressions]
            yield [_flat(parts[:end]) for end in range(len(parts), -1, -1)]
        elif isinstance(item, exp.Cube):
            parts = [_tuple(part) for part in item.expressions]
            if 1 << len(parts) > MOST_SETS:
                refuse(item, f"CUBE of {len(parts)} keys makes too many grouping sets", f"Ask for at most {MOST_SETS}.")
            yield [_flat([own for i, own in enumerate(parts) if not mask >> i & 1]) for mask in range(1 << len(parts))]
        elif isinstance(item, exp.GroupingSets):
            yield [_tuple(part) for part in item.expressions]
        else:
            yield [_tuple(item)]


def _flat(parts: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    return tuple(node for part in parts for node in part)


def _tuple(node: Node) -> tuple[Node, ...]:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (unwrap(node),)


# ---- the whole query -------------------------------------------------------------------------------------------------


class _QueryParser:
    def __init__(self, schema: Schema, text: str) -> None:
        self.schema, self.text = schema, text
        self.tree = syntax_tree(text)
        self.aliases = {item.alias.lower(): item.this for item in self.tree.expressions if isinstance(item, exp.Alias)}

    def query(self) -> Query:
        tree = self.tree
        check_clauses(tree)
        source = read_source(tree, common_tables(tree), self.schema)
        rows = RowParser(replace(source.scope, aliases=self.aliases))
        among = replace(rows.scope, assumed=source.assumed)  # aggregates look at rows that pass all conditions
        conditions, texts = list(source.conditions), list(source.texts)
        if tree.args.get("where") is not None:
            texts.append(rows.scope.text(tree.args["where"].this))
            conditions.append(rows.condition(tree.args["where"].this, "WHERE"))
            among = among.among([tree.args["where"].this])
        keys = _KeyParser(tree, rows, self.aliases)
        _check_cells(tree, keys)
        aggregates = AggregateParser(RowParser(among))
        post = PostParser(aggregates.positions, keys, self.aliases)
        columns = self._columns(post)
        having = tree.args.get("having")
        condition = None if having is None else post.parse(having.this)
        order = tuple(self._order(post, keys))
        if not aggregates.listed:
            refuse(tree, "The query has no aggregate", "Select an aggregate, such as COUNT(*) or AVG(x).")
        where = conjunction(conditions, self.schema)
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

    def _order(self, post: PostParser, keys: _KeyParser) -> Iterator[tuple[Released, bool, bool]]:
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


def _check_cells(tree: exp.Select, keys: _KeyParser) -> None:
    for grouping in keys.grouping:
        cells = math.prod(keys.keys[i].size for i in grouping)
        if cells > MOST_CELLS:
            names = ", ".join(keys.keys[i].name for i in grouping)
            largest = max((keys.keys[i] for i in grouping), key=lambda key: key.size)
            refuse(
                tree.args["group"],
                f"Grouping by {names} gives {cells:,} groups, each of which is answered",
                f"Group coarser, for example by FLOOR({largest.name} / 100); at most {MOST_CELLS:,} groups.",
            )


__all__ = ["Aggregate", "Key", "Query", "parse_query"]
