"""Whether a query decides which rows there are. The number of rows is published, so such a decision is published, too.

The query is read by DuckDB's own parser. What is known to give one row for each row of one table passes; everything
else, known or not, needs a sentence by the curator on why it is public which rows are in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nabladp.errors import SourceError
from nabladp.tables import duck

Node = Mapping[str, Any]
_UNREAD = "a part that cannot be read"
_SEVERAL = "more than one statement"
_LONGEST = 100_000  # characters of a query
_READERS = {
    "read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto", "read_ndjson",
    "read_ndjson_auto",
}  # fmt: skip
_READER_OPTIONS = {  # none of which leaves out rows, as ignore_errors does
    "all_varchar", "allow_quoted_nulls", "auto_detect", "binary_as_string", "columns", "compression", "dateformat",
    "decimal_separator", "delim", "delimiter", "dtypes", "encoding", "escape", "filename", "format", "header",
    "hive_partitioning", "hive_types", "map_inference_threshold", "names", "new_line", "normalize_names",
    "null_padding", "nullstr", "quote", "sample_size", "sep", "strict_mode", "timestampformat", "types",
    "union_by_name",
}  # fmt: skip
_ROW_BY_ROW = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "LAMBDA",
    "LAMBDA_REF", "OPERATOR", "STAR", "TYPE",
}  # fmt: skip
_MACROS = frozenset(("nullif", "ifnull"))
_CLASSES = {"WINDOW": "a window function", "SUBQUERY": "a subquery"}
_TABLES = {"JOIN": "join", "PIVOT": "pivot", "SHOW_REF": "summarize"}
_CLAUSES = {"where_clause": "where", "having": "having", "qualify": "qualify", "sample": "sample"}
_MODIFIERS = {"LIMIT_MODIFIER": "limit", "LIMIT_PERCENT_MODIFIER": "limit", "DISTINCT_MODIFIER": "distinct"}


def row_selection(query: str, any_function: bool = False) -> str:
    """What in a query decides which rows there are, or mixes them: "where", "limit", "join", …; "" if nothing does.

    ``any_function``: a function in place of a table is a table, and not only one that reads a file.
    """
    if len(query) > _LONGEST:
        return _UNREAD
    try:
        parsed = _parse(query)
        statements = parsed["statements"]
        return _SEVERAL if len(statements) != 1 else _Reading(any_function).node(statements[0]["node"])
    except Exception:  # of the parser, or of a tree that is not as expected: fail closed
        return _UNREAD


def _parse(query: str) -> Node:
    with duck.connection() as database:
        found = database.execute("select json_serialize_sql(?::varchar)", [query]).fetchone()
        parsed: Node = json.loads(found[0]) if found else {}
        return parsed


@lru_cache(maxsize=1)
def _scalar_functions() -> frozenset[str]:
    """The functions of DuckDB that read one row at a time."""
    with duck.connection() as database:
        rows = database.execute("select distinct function_name, function_type from duckdb_functions()").fetchall()
    others = {name for name, kind in rows if kind != "scalar"} - _MACROS
    return (frozenset(name for name, kind in rows if kind == "scalar") | _MACROS) - others


def _first(found: Iterable[str]) -> str:
    return next(filter(None, found), "")


@dataclass(frozen=True)
class _Reading:
    """What decides which rows there are, in the parts of a parsed query."""

    any_function: bool

    def node(self, node: Node) -> str:
        """In a SELECT, or in UNION ALL of several."""
        ctes = _first(self.node(entry["value"]["query_node"]) for entry in node["cte_map"]["map"])
        modifiers = _first(self._modifier(own) for own in node["modifiers"])
        if node["type"] == "SET_OPERATION_NODE":
            name = str(node["setop_type"]).lower()
            own = "" if name == "union" and node["setop_all"] is True else name
            return _first((ctes, modifiers, own, *map(self.node, node["children"])))
        if node["type"] != "SELECT_NODE":
            return _UNREAD
        for key, clause in _CLAUSES.items():
            if node[key] is not None:
                return clause
        if node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING":
            return "group by"
        return _first((ctes, modifiers, self._table(node["from_table"]), _in_expression(node["select_list"])))

    def _modifier(self, own: Node) -> str:
        if own["type"] == "ORDER_MODIFIER":
            return _first(_in_expression(order["expression"]) for order in own["orders"])
        return _MODIFIERS.get(str(own["type"]), _UNREAD)

    def _table(self, table: Node) -> str:
        kind = table["type"]
        if table.get("sample") is not None:
            return "sample"
        if kind in ("EMPTY", "BASE_TABLE"):
            return ""
        if kind == "SUBQUERY":
            return self.node(table["subquery"]["node"])
        if kind == "EXPRESSION_LIST":
            return _in_expression(table["values"])
        if kind == "TABLE_FUNCTION":
            return "" if self.any_function else _in_reader(table["function"])
        return _TABLES.get(str(kind), _UNREAD)


def _in_reader(function: Node) -> str:
    """What in the function that stands for a table leaves out rows; only those that read files are known."""
    name = str(function["function_name"]).lower()
    if name not in _READERS:
        return f"{name}(…)"
    for argument in function["arguments"]:
        expression, option = argument["expression"], str(argument["name"]).lower()
        if expression["class"] == "COMPARISON":  # how some versions of DuckDB keep option = value
            option = str(expression["left"]["column_names"][0]).lower()
        if option and option not in _READER_OPTIONS:
            return option
    return ""


def _in_expression(node: Any) -> str:
    """What in an expression reads more than one row, or makes more than one of it."""
    if isinstance(node, list):
        return _first(map(_in_expression, node))
    if not isinstance(node, Mapping):
        return ""
    kind = node.get("class")
    if kind == "FUNCTION":
        name = str(node["function_name"]).lower()
        if name not in _scalar_functions() or node["filter"] is not None or node["distinct"]:
            return f"{name}(…)"
    elif kind is not None and kind not in _ROW_BY_ROW:
        return _CLASSES.get(str(kind), _UNREAD)
    return _first(map(_in_expression, node.values()))


# ---- the files that a query reads ------------------------------------------------------------------------------------


def query_files(query: str) -> list[str] | None:
    """The files and globs that a query names, as it writes them; names of its own subqueries may be among them. None
    where that cannot be said: a table may come from a function that is not known, or from a computed name."""
    if len(query) > _LONGEST:
        return None
    try:
        found = list(_files_in(_parse(query)["statements"]))
    except Exception:  # of the parser, or of a tree that is not as expected: fail closed
        return None
    return None if None in found else [name for name in found if name is not None]


def _files_in(node: Any) -> Iterator[str | None]:
    if isinstance(node, list):
        for part in node:
            yield from _files_in(part)
    elif isinstance(node, Mapping):
        if node.get("type") == "BASE_TABLE":
            yield ".".join(filter(None, (node["catalog_name"], node["schema_name"], node["table_name"])))
        if node.get("type") == "TABLE_FUNCTION":
            yield from _files_of_reader(node["function"])
        for part in node.values():
            yield from _files_in(part)


def _files_of_reader(function: Node) -> Iterator[str | None]:
    """The files that the function in place of a table is given, if it is one that reads files."""
    first = function["arguments"][0]["expression"] if function["arguments"] else {}
    listed = first["children"] if first.get("function_name") == "list_value" else [first]
    if str(function["function_name"]).lower() not in _READERS or not listed:
        yield None
    for part in listed:
        literal = part.get("literal") if part.get("class") == "CONSTANT" else None
        yield str(literal["text"]) if isinstance(literal, Mapping) and literal.get("kind") == "STRING" else None


# ---- the curator's sentence ------------------------------------------------------------------------------------------

_MOST_SENTENCE = 1_000
_FIX = "One sentence says why it is public which rows are in"


def check_sentence(sentence: Any) -> str:
    """The sentence that says why it is public which rows are in a table; "" where there is none."""
    if not isinstance(sentence, str) or (sentence and not sentence.strip()):
        raise SourceError("'population' is a sentence.", fix=f'{_FIX}: population = "All residents on 1 January."')
    if len(sentence) > _MOST_SENTENCE or not all(sign.isprintable() for sign in sentence):
        raise SourceError(
            "'population' is too long, or holds line breaks or control characters.",
            fix=f"Write one sentence of at most {_MOST_SENTENCE:,} characters.",
        )
    return sentence.strip()


def _is_one_select(query: str) -> bool:
    """Anything else cannot be opened as a table at all, which says more about it."""
    try:
        with duck.connection() as database:
            statements = database.extract_statements(query)
            return len(statements) == 1 and statements[0].type.name == "SELECT"
    except Exception:
        return False


@dataclass(frozen=True)
class Origin:
    """Where the rows of a table come from: the query behind it, if any, and why it is public which rows are in."""

    sentence: str = ""
    query: str = ""
    any_function: bool = False  # tables in the query may come from any function, as those of another connection do

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", check_sentence(self.sentence))

    def check(self) -> None:
        """Refuse a query that decides which rows there are, where no sentence says why that is public."""
        check_population(self.query, self.sentence, self.any_function)

    def to_json(self) -> dict[str, str]:
        """What is published of the origin: nothing where nothing is said."""
        if not self.sentence:
            return {}
        return {"sentence": self.sentence, **({"query": self.query.strip()} if self.query else {})}


def check_population(query: str, sentence: str, any_function: bool = False) -> None:
    """Refuse a query that decides which rows there are, where nothing says why that is public."""
    clause = "" if sentence or not query else row_selection(query, any_function)
    if clause and (clause not in (_UNREAD, _SEVERAL) or _is_one_select(query)):
        raise SourceError(
            f"The query decides which rows are in the table ({clause}), and their exact number is published.",
            fix=f'{_FIX}: add population = "…" to [table] (in Python: population="…"), or release from all rows.',
            clause=clause,
        )
