"""SQL as a syntax tree, by sqlglot: what it accepts is checked here and node by node, never trusted."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from nabladp.errors import QueryError

Node = exp.Expr
MOST_TEXT = 20_000  # characters
MOST_DEPTH = 40  # of parentheses


def refuse(node: Node, reason: str, fix: str, **fields: Any) -> NoReturn:
    """Names the position where the query says this, as far as the parser knows it."""
    for part in node.walk():
        line, column = part.meta.get("line"), part.meta.get("col")
        if line is not None and column is not None:
            start = max(1, column - (part.meta.get("end", 0) - part.meta.get("start", 0)))
            place = f"line {line}, column {start}"
            raise QueryError(f"{reason} ({place}).", fix=fix, line=line, column=start, **fields)
    raise QueryError(f"{reason}.", fix=fix, **fields)


def syntax_tree(text: str) -> exp.Select:
    if len(text) > MOST_TEXT:
        raise QueryError(f"A query has at most {MOST_TEXT:,} characters.", fix="Ask less at once.")
    _check_depth(text)
    try:
        statements = [statement for statement in sqlglot.parse(text, read="duckdb") if statement is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        where = _position(error)
        raise QueryError(f"This is not valid SQL{where}.", fix="Write SELECT … FROM table [WHERE …] [GROUP BY …].") from None
    if len(statements) != 1:
        raise QueryError("A query is one SELECT statement.", fix="Give several queries as a list.")
    tree = statements[0]
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not tree.args.get("alias"):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        raise QueryError("A query begins with SELECT.", fix="Write SELECT … FROM table [WHERE …] [GROUP BY …].")
    return tree


def _check_depth(text: str) -> None:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MOST_DEPTH or len(re.findall(r"(?i)\b(case|not)\b|[-+~]", text)) > 2_000:
        raise QueryError("The query is nested too deeply.", fix=f"Use at most {MOST_DEPTH} parentheses within another.")


def _position(error: Exception) -> str:
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, column = details.get("line"), details.get("col")
    return f" (line {line}, column {column})" if line and column else ""



def number(node: Node) -> int | float:
    """A number written in a query."""
    try:
        value = float(node.this)
    except ValueError:
        refuse(node, "This is not a number", "Write it in digits, such as 12.5.")
    if not math.isfinite(value) or abs(value) > 2**53:
        refuse(node, "This number is too large", "Numbers up to 2^53 can be told apart.")
    return int(value) if value.is_integer() else value


def unalias(node: Node) -> Node:
    return node.this if isinstance(node, exp.Alias) else node


AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.CountIf, exp.Filter, exp.Window, exp.IgnoreNulls)
_QUANTILES = ("APPROX_PERCENTILE", "PERCENTILE")


def is_aggregate(node: Node) -> bool:
    """Whether this is an aggregate itself, known here or not."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper() in _QUANTILES
    return isinstance(node, AGGREGATES)


def has_aggregate(node: Node) -> bool:
    return any(is_aggregate(part) for part in node.walk())


def text_of(node: Node) -> str:
    """One text for expressions that are written alike."""
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    while isinstance(plain, exp.Paren):
        plain = plain.this
    return str(plain.sql(dialect="duckdb", normalize=True, normalize_functions="upper"))


def name_of(node: Node) -> str:
    """A name for a column that the query gives none: avg_income for AVG(income)."""
    if isinstance(node, exp.Count) and not isinstance(node.this, (exp.Column, exp.Distinct)):
        return "count"
    words = re.findall(r"[A-Za-z_][A-Za-z_0-9]*|\d+", text_of(node).lower())
    return "_".join(words)[:60].strip("_") or "value"


