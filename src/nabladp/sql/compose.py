"""Queries written as keys of a plan: ``by``, ``where``, ``count``, ``mean`` and so on become one query in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from nabladp.errors import QueryError, quote
from nabladp.schema import Schema
from nabladp.sql.query import parse_query
from nabladp.sql.syntax import TOTAL_NAME, Node, name_of, syntax_tree, text_of, unalias

FUNCTIONS: dict[str, Callable[[str], str]] = {
    "count": "COUNT({})".format,
    "count_distinct": "COUNT(DISTINCT {})".format,
    "sum": "SUM({})".format,
    "mean": "AVG({})".format,
    "median": "MEDIAN({})".format,
    "variance": "VAR_SAMP({})".format,
    "stddev": "STDDEV_SAMP({})".format,
}
_TABLE = "people"  # any name would do


@dataclass(frozen=True)
class WrittenQuery:
    """The parts of a query, by the key of a plan that gives them: expressions in SQL, or names of columns."""

    by: Sequence[str] = ()
    where: str | None = None
    aggregates: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by key of FUNCTIONS
    quantile: Mapping[str, Sequence[float]] = field(default_factory=dict)  # levels by expression
    sum_per_person: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # bounds by expression
    person: str = ""  # the column that names people

    def text(self, schema: Schema) -> str:
        """The query in SQL."""
        keys = [_read("by", part, schema) for part in self.by]
        columns = [*keys, *((text, name) for _, _, text, name in self._aggregates(schema))]
        group = f" GROUP BY {', '.join(text for text, _ in keys)}" if keys else ""
        return f"SELECT {', '.join(_named(*column) for column in columns)}{self._from(schema)}{group}"

    def _from(self, schema: Schema) -> str:
        where = "" if self.where is None else f" WHERE {_read('where', self.where, schema)[0]}"
        return f" FROM {_TABLE}{where}"

    def _aggregates(self, schema: Schema) -> Iterator[tuple[str, str, str, str]]:
        """Key, what stands there, the aggregate in SQL, and the name of its column."""
        for key, parts in self.aggregates.items():
            for part in parts:
                if key == "count" and part == "*":
                    yield key, part, "COUNT(*)", "count"
                    continue
                text, name = _read(key, part, schema, self.person)
                yield key, part, FUNCTIONS[key](text), name or f"{key}_{_short(text)}"
        for part, levels in self.quantile.items():
            text, name = _read("quantile", part, schema)
            for level in levels:
                percent = f"{100 * level:.10g}".replace(".", "_")
                column = f"{name or f'quantile_{_short(text)}'}_{percent}"
                yield "quantile", part, f"QUANTILE_CONT({text}, {level!r})", column

        for part, (low, high) in self.sum_per_person.items():
            text, name = _read("sum_per_person", part, schema)
            total = f"{TOTAL_NAME}({text}, {low!r}, {high!r})"
            yield "sum_per_person", part, total, name or f"sum_per_person_{_short(text)}"

    def explain(self, error: QueryError, schema: Schema) -> QueryError:
        """Why the query was refused, by the key of the first part that cannot be answered by itself."""
        rows = self._from(schema)
        alone = [("where", self.where, f"SELECT COUNT(*){rows}")] if self.where is not None else []
        alone += [("by", part, f"SELECT COUNT(*){rows} GROUP BY {_read('by', part, schema)[0]}") for part in self.by]
        alone += [(key, part, f"SELECT {text}{rows}") for key, part, text, _ in self._aggregates(schema)]
        for key, part, text in alone:
            try:
                parse_query(text, schema, person=self.person)
            except QueryError as refusal:
                return _without_position(refusal, f"{key} = {quote(part)}: ", key=key)
        return _without_position(error, "")


def _read(key: str, part: str | None, schema: Schema, person: str = "") -> tuple[str, str]:
    """An expression as SQL, and the name that it is given with AS. The name of a column may hold any character."""
    if part in schema or (person and part == person):
        return _column(str(part)), ""
    try:
        tree = syntax_tree(f"SELECT {part}\nFROM {_TABLE}")  # on a line of its own, so that no comment hides it
    except QueryError:
        tree = None
    if tree is None or len(tree.expressions) != 1 or _clauses(tree) != {"expressions", "from_"}:
        raise QueryError(f"{key} = {quote(part)}: this is not one expression.", fix=_EXAMPLES[key], key=key)
    (item,) = tree.expressions
    node = unalias(item)
    if isinstance(node, (exp.Literal, exp.Star)) or (key == "where" and item.alias):
        raise QueryError(f"{key} = {quote(part)}: this names no column.", fix=_EXAMPLES[key], key=key)
    return text_of(node), item.alias


def _clauses(tree: Node) -> set[str]:
    return {name for name, value in tree.args.items() if value}


def _column(name: str) -> str:
    """As it is where SQL reads it as a name, otherwise between quotes."""
    try:
        node = syntax_tree(f"SELECT {name}\nFROM {_TABLE}").expressions[0]
        plain = isinstance(node, exp.Column) and not node.table and node.name == name
    except QueryError:
        plain = False
    return name if plain else text_of(exp.column(exp.to_identifier(name, quoted=True)))


def _short(text: str) -> str:
    return name_of(syntax_tree(f"SELECT {text} FROM {_TABLE}").expressions[0])


def _named(text: str, name: str) -> str:
    return f"{text} AS {text_of(exp.to_identifier(name, quoted=not name.isidentifier()))}" if name else text


def _without_position(error: QueryError, start: str, **fields: str) -> QueryError:
    """A position in SQL that nobody wrote would only confuse."""
    line, column = error.fields.get("line"), error.fields.get("character")
    message = error.message.replace(f" (line {line}, column {column})", "")
    kept = {name: value for name, value in error.fields.items() if name not in ("line", "character")}
    return QueryError(start + message, fix=error.fix, **kept, **fields)


_EXAMPLES = {
    "by": 'Write by = ["region", "FLOOR(age / 10) AS decade"].',
    "where": "Write where = \"age >= 18 AND sex = 'f'\".",
    "quantile": "Write quantile = { income = [0.25, 0.75] }.",
    "sum_per_person": "Write sum_per_person = { income = [0, 5000] }.",
    **{key: f'Write {key} = ["income"].' for key in FUNCTIONS},
}
