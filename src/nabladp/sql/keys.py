"""The keys of groups: which groups a query is answered for, by the schema alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from nabladp.checks import is_whole
from nabladp.errors import QueryError, quote, suggestion
from nabladp.sql.conditions import value_of_label
from nabladp.sql.domains import Refused, value_of
from nabladp.sql.expressions import Column, Expression, Lookup
from nabladp.sql.released import KeyMeaning, Released
from nabladp.sql.released_parser import KeyReader
from nabladp.sql.row_parser import RowParser
from nabladp.sql.syntax import Node, has_aggregate, name_of, number, refuse, text_of, unalias, unwrap
from nabladp.sql.texts import as_text

MOST_CELLS = 1 << 24  # groups that are answered
MOST_SETS = 64  # grouping sets
OTHERS = "OTHER"  # the group of all values that a public list of groups leaves out
Groups = Mapping[str, Sequence[Any]]  # public lists of groups, by key


@dataclass(frozen=True)
class Key:
    """A key of groups: an expression whose values can be listed. Codes count its values; NULL, if possible, is last.

    ``codes``: those that have a group of their own, in order (None: all). Others are one more group, the last, if
    ``others``; else no row that passes WHERE has them.
    """

    name: str
    expression: Expression
    text: str
    codes: tuple[int, ...] | None = None
    others: bool = False

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """What is shown for each group: the label of its value, or else the value itself; None is NULL."""
        return (*map(self.label, self._kept_codes), *((OTHERS,) if self.others else ()))

    @property
    def _kept_codes(self) -> Sequence[int]:
        return range(self.all_codes) if self.codes is None else self.codes

    def label(self, code: int) -> Any:
        value = self.value(code)
        if self.column is None or not self.column.attribute.labels:
            return value
        text = self.column.attribute.text(code)
        return self.column.attribute.labels.get(text, value)

    def value(self, code: int) -> Any:
        """The value of a group in SQL; None is NULL."""
        if self.column is not None:
            return value_of(self.column.attribute, code)
        listed = self.expression.domain.values or ()
        return listed[code] if code < len(listed) else None

    @property
    def column(self) -> Column | None:
        """The column itself, where the key is nothing else: then its codes are those of the column."""
        return self.expression if isinstance(self.expression, Column) else None

    @property
    def all_codes(self) -> int:
        if self.column is not None:
            return self.column.attribute.size
        return len(self.expression.domain.values or ()) + self.expression.domain.nullable

    @property
    def size(self) -> int:
        return self.all_codes if self.codes is None else len(self.codes) + self.others

    def is_named(self, name: str) -> bool:
        """Whether a public list of groups under this name is about this key."""
        own = {self.name.lower()} | ({self.column.attribute.name.lower()} if self.column is not None else set())
        return name.lower() in own

    @property
    def meanings(self) -> dict[Any, Any] | None:
        """What each label means in an expression: a number or date outside its declared domain is NULL. None where
        labels are ranges of numbers."""
        column = self.column
        if column is not None and column.by_grid:
            return None
        numbers = self.expression.domain.kind in ("number", "boolean")
        no_date = column.attribute.other if column is not None and column.attribute.kind == "date" else None
        values = (*map(self.value, self._kept_codes), *((OTHERS,) if self.others else ()))
        return {
            label: None if (numbers and isinstance(value, str)) or value == no_date else value
            for label, value in zip(self.labels, values, strict=True)
        }

    @property
    def ranks(self) -> dict[Any, int] | None:
        """Where the order of the values differs from that of the labels: the rank of each. All others together are
        last."""
        plain = self.column is None or not (self.column.by_grid or self.column.attribute.unknown == "other")
        labelled = self.column is not None and bool(self.column.attribute.labels)
        by_value = plain and not self.expression.domain.ordered
        if by_value and not self.others and not labelled:
            return None
        codes = [code for code in self._kept_codes if self.value(code) is not None]
        if by_value:
            codes.sort(key=self.value)
        labels = [*map(self.label, codes), *((OTHERS,) if self.others else ())]
        return {label: rank for rank, label in enumerate(labels)}


# ---- GROUP BY --------------------------------------------------------------------------------------------------------


class KeyParser(KeyReader):
    """Reads GROUP BY, and finds its keys again in the rest of the query."""

    def __init__(
        self, tree: exp.Select, rows: RowParser, passing: RowParser, aliases: Mapping[str, Node], groups: Groups
    ) -> None:
        self.tree, self.rows, self.passing, self.aliases, self.groups = tree, rows, passing, aliases, groups
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
        """Its groups are the values that rows which pass WHERE may have, by the schema alone."""
        expression = self.passing.parse(node)
        if not isinstance(expression, Column) and expression.domain.values is None:
            refuse(
                node,
                "The values of this key cannot be listed",
                f"Bin them: write FLOOR({text_of(node)} / 1000), or use CASE.",
            )
        key = Key(name, expression, text, _possible(expression))
        listed = next((values for own, values in self.groups.items() if key.is_named(own)), None)
        key = key if listed is None else _with_list(key, listed)
        if key.size > MOST_CELLS:
            refuse(node, f"{name!r} has {key.size:,} values", f"Bin it, for example FLOOR({name} / 100){_OR_LIST}.")
        return key

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

    def count(self) -> int:
        return len(self.keys)

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
                return KeyMeaning(index, _by_label(expression, key))
        return None

    def constant(self, node: Node, index: int, text: str) -> Any:
        column = self.keys[index].column
        try:
            return text if column is None else value_of_label(column, text)
        except Refused as refusal:
            refuse(node, refusal.reason, refusal.fix)

    def refuse(self, node: Node) -> Any:
        text = text_of(node)
        self.rows.parse(node)  # a name that does not exist is reported first
        refuse(
            node,
            f"{text} is neither an aggregate nor in GROUP BY",
            f"Add {text} to GROUP BY, or aggregate it, for example AVG({text}).",
        )


def _by_label(expression: Lookup, key: Key) -> dict[Any, Any]:
    """What a function of a key gives for each group; for all others together, nothing."""
    values = expression.domain.values or ()
    null = expression.null if expression.null is not None else [False] * len(expression.data)
    found = [values[int(own)] if expression.domain.is_text else own.item() for own in expression.data]
    kept = range(len(found)) if key.codes is None else key.codes
    return {key.label(code): None if null[code] else found[code] for code in kept}


def _possible(expression: Expression) -> tuple[int, ...] | None:
    """The codes that rows which pass WHERE may have; None where these are all, or none at all."""
    if isinstance(expression, Column):
        return tuple(np.flatnonzero(expression.allowed or ()).tolist()) or None
    values = expression.domain.values or ()
    if not isinstance(expression, Lookup) or not expression.domain.is_text:
        return None  # numbers that no row can have are not among its values
    present = expression.data if expression.null is None else expression.data[~expression.null]
    used = (*np.unique(present).tolist(), *((len(values),) if expression.domain.nullable else ()))
    return used if 0 < len(used) < len(values) + expression.domain.nullable else None


_WHOLE = re.compile(r"-?[0-9]{1,18}")
_OR_LIST = ", or list the groups that you want in 'groups'"


def _with_list(key: Key, listed: Sequence[Any]) -> Key:
    """The key with a group for each listed value that rows may have, and one for all others, if there are any."""
    possible = range(key.all_codes) if key.codes is None else key.codes
    wanted = {_code(key, value) for value in listed}
    codes = tuple(sorted(wanted & set(possible) if key.codes is not None else wanted))
    others = len(possible) > len(codes)
    if others and OTHERS in {*map(key.label, codes), *map(key.value, codes)}:
        raise QueryError(
            f"{key.name!r} has a group {OTHERS!r}, which is the name of all groups that 'groups' leaves out.",
            fix=f"Remove {OTHERS!r} from the list.",
        )
    return replace(key, codes=codes, others=others, text=f"{key.text} IN {codes}")


def _code(key: Key, value: Any) -> int:
    """Of a value or its label, either of which may be given as text."""
    integers = key.column.attribute.integers if key.column is not None else None
    codes = range(key.all_codes)
    if integers is not None and key.column is not None:  # a range may be wide: no list of its labels
        number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if is_whole(number, integers.start, integers.stop - 1):
            return int(number) - integers.start
        labelled = key.column.attribute.code(value)
        codes = range(len(integers), key.all_codes)
        if labelled is not None and labelled not in codes:
            return labelled
    known = [code for code in codes if key.value(code) is not None]
    labels = {as_text(of(code)): code for of in (key.value, key.label) for code in known}
    text = as_text(value)
    if text not in labels:
        fix = f"Values: {', '.join(list(labels)[:12])}." if labels else "Leave it out."
        raise QueryError(
            f"'groups' lists {quote(value)}, which {key.name!r} does not have.",
            fix=suggestion(text, tuple(labels), fix),
        )
    return labels[text]


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


def check_cells(tree: exp.Select, keys: KeyParser) -> None:
    for grouping in keys.grouping:
        cells = math.prod(keys.keys[i].size for i in grouping)
        if cells > MOST_CELLS:
            names = ", ".join(keys.keys[i].name for i in grouping)
            largest = max((keys.keys[i] for i in grouping), key=lambda key: key.size).name
            refuse(
                tree.args["group"],
                f"Grouping by {names} gives {cells:,} groups, each of which is answered",
                f"Bin {largest}, for example FLOOR({largest} / 100){_OR_LIST}; at most {MOST_CELLS:,} groups.",
            )
