"""SQL as a syntax tree, by sqlglot: what it accepts is checked here and node by node, never trusted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from nabladp.errors import QueryError
from nabladp.sql.expressions import Expression

Node = exp.Expr
Parse = Callable[[Node], Expression]
Reader = Callable[[Parse, Any], Expression]  # gives one kind of node its meaning

MOST_TEXT = 20_000  # characters
MOST_NESTED = 30  # parentheses within another
MOST_DEPTH = 90  # of the tree; every level takes a few calls
_SELECT = "Write SELECT … FROM people [WHERE …] [GROUP BY …]."


class _Dialect(DuckDB):
    """DuckDB's, with names between backticks as well, as BigQuery and Spark write them."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  as sqlglot declares it


def refuse(node: Node, reason: str, fix: str, **fields: Any) -> NoReturn:
    """Names the position in the query, as far as the parser knows it. In ``fix``, {0} and {1} are the arguments."""
    for index, letter in enumerate("xy"):
        if f"{{{index}}}" in fix:
            arguments = children(node)
            text = text_of(arguments[index]) if index < len(arguments) else letter
            fix = fix.replace(f"{{{index}}}", text if len(text) <= 40 else letter)
    found = _position(node)
    if found is None:
        raise QueryError(f"{reason}.", fix=fix, **fields)
    line, column = found
    raise QueryError(f"{reason} (line {line}, column {column}).", fix=fix, line=line, character=column, **fields)


def _position(node: Node | None) -> tuple[int, int] | None:
    """Of the first word of a node, or else of what is around it."""
    while node is not None:
        marked = [part.meta for part in node.walk() if part.meta.get("line") and "start" in part.meta]
        if marked:
            first = min(marked, key=lambda meta: int(meta["start"]))
            return int(first["line"]), max(1, int(first["col"]) - (int(first["end"]) - int(first["start"])))
        node = node.parent
    return None


def syntax_tree(text: str) -> exp.Select:
    if len(text) > MOST_TEXT:
        raise QueryError(f"The query has {len(text):,} characters.", fix=f"Use at most {MOST_TEXT:,}.")
    dialect = _Dialect()
    try:
        tokens = dialect.tokenize(text)
        _check_tokens(tokens)
        statements = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    except QueryError:
        raise
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        line, column = details.get("line"), details.get("col")
        place = f" (line {line}, column {column})" if line and column else ""
        raise QueryError(f"This is not valid SQL{place}.", fix=_SELECT) from None
    except (SqlglotError, RecursionError, ValueError, TypeError, LookupError, AttributeError):
        raise QueryError("This is not valid SQL.", fix=_SELECT) from None  # sqlglot trips over some texts
    if not statements:
        raise QueryError("The query is empty.", fix=_SELECT)
    tree = statements[0]
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not tree.args.get("alias"):
        tree = tree.this
    if isinstance(tree, exp.SetOperation):
        refuse(tree, "UNION, INTERSECT and EXCEPT are not available", "Give several queries as a list.")
    if not isinstance(tree, exp.Select):
        raise QueryError("A query begins with SELECT.", fix=_SELECT)
    if _depth(tree) > MOST_DEPTH:
        raise QueryError("The query is nested too deeply.", fix="Use shorter expressions.")
    return tree


_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM)
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_PREFIX = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)


def _check_tokens(tokens: list[Token]) -> None:
    """What sqlglot would accept, or fall over, without saying so."""
    if not tokens or tokens[0].token_type not in _STARTS:
        raise QueryError("A query begins with SELECT (line 1, column 1).", fix=_SELECT, line=1, character=1)
    nested = deepest = prefixes = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.token_type == TokenType.SEMICOLON != token.token_type:
            raise QueryError(f"A query is one statement {_place(token)}.", fix="Give several queries as a list.")
        nested += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        prefixes = prefixes + 1 if token.token_type in _PREFIX else 0
        deepest = max(deepest, nested, prefixes)
        number_before = before is not None and before.token_type == TokenType.NUMBER and before.end + 1 == token.start
        if number_before and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            raise QueryError(
                f"A name cannot follow a number without a space {_place(token)}.", fix="Write numbers in digits."
            )
    if deepest > MOST_NESTED:
        raise QueryError(
            "The query is nested too deeply.", fix=f"Use at most {MOST_NESTED} parentheses within each other."
        )


def _place(token: Token) -> str:
    return f"(line {token.line}, column {max(1, token.col - (token.end - token.start))})"


def _depth(tree: Node) -> int:
    """Chains of AND and OR count once: they are read as lists."""
    deepest, pending = 0, [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        flat = isinstance(node, exp.Connector)
        pending += [(child, depth + (not flat or type(child) is not type(node))) for child in node.iter_expressions()]
    return deepest


def number(node: Node) -> int | float:
    """A number written in a query."""
    try:
        value = float(node.this)
    except (TypeError, ValueError):
        refuse(node, "This is not a number", "Write it in digits, such as 12.5.")
    if not math.isfinite(value) or abs(value) > 2**53:
        refuse(node, "This number is too large", "Use numbers up to 2^53.")
    return int(value) if value.is_integer() else value


def constant_number(node: Node | None) -> int | float | None:
    """The number that a literal says, with its sign; None for anything else."""
    if isinstance(node, exp.Neg):
        inner = constant_number(node.this)
        return None if inner is None else -inner
    return number(node) if isinstance(node, exp.Literal) and not node.is_string else None


def unalias(node: Node) -> Node:
    return node.this if isinstance(node, exp.Alias) else node


def unwrap(node: Node) -> Node:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def operands(node: Node) -> list[Node]:
    """All conditions of a chain of ANDs, or of ORs."""
    found, pending = list[Node](), [node]
    while pending:
        one = pending.pop()
        if type(one) is type(node):
            pending += [one.args["expression"], one.this]
        else:
            found.append(one)
    return found


def conjuncts(node: Node) -> list[Node]:
    """The conditions of which all hold where this one does."""
    found, pending = list[Node](), [node]
    while pending:
        one = unwrap(pending.pop())
        if isinstance(one, exp.And):
            pending += [one.args["expression"], one.this]
        else:
            found.append(one)
    return found


def children(node: Node) -> list[Node]:
    first = [node.args[key] for key in ("this", "expression") if isinstance(node.args.get(key), Node)]
    return [*first, *(node.args.get("expressions") or ())]


# ---- what a node may carry -------------------------------------------------------------------------------------------

_USUAL = {"this", "expression", "expressions"}
_FLAGS = {"typed", "safe", "big_int", "coalesce", "is_string", "ignore_nulls", "value_constructor", "to", "_type"}
_OWN: dict[type[Node], set[str]] = {
    exp.Case: {"ifs", "default"},
    exp.If: {"true", "false"},
    exp.Between: {"low", "high"},
    exp.Round: {"decimals"},
    exp.Substring: {"start", "length"},
    exp.TimestampTrunc: {"unit"},
    exp.DateTrunc: {"unit"},
    exp.TimeToStr: {"format"},
    exp.Replace: {"replacement"},
    exp.Column: {"table", "db", "catalog"},
    exp.Quantile: {"quantile"},
    exp.ApproxQuantile: {"quantile"},
    exp.In: {"query", "unnest", "field"},
    exp.Star: {"except_", "replace"},
    exp.Is: {"negate"},
    exp.Like: {"negate"},
    exp.ILike: {"negate"},
}


def check_options(node: Node) -> None:
    """Refuses parts of a node that nobody reads, so that none is ignored in silence, and nodes that lack a part."""
    lacking = [name for name, needed in node.arg_types.items() if needed and node.args.get(name) is None]
    if lacking and not isinstance(node, exp.Concat):
        refuse(node, f"{sql_name(node)} lacks an argument", f"Write {sql_name(node)}(x).")
    allowed = _USUAL | _FLAGS | _OWN.get(type(node), set())
    for name, value in node.args.items():
        if value and name not in allowed:
            word = name.strip("_").replace("_", " ").upper()
            refuse(node, f"{sql_name(node)} with {word} is not available", f"Write {sql_name(node)} without it.")


def sql_name(node: Node) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    if isinstance(node, exp.Func):
        return str(type(node).sql_name())
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


# ---- aggregates and names --------------------------------------------------------------------------------------------

_AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.CountIf, exp.Filter, exp.Window, exp.IgnoreNulls, exp.RespectNulls)
QUANTILE_NAMES = ("APPROX_PERCENTILE", "PERCENTILE", "PERCENTILE_APPROX")
MEAN_NAMES = ("MEAN",)
TOTAL_NAME = "SUM_PER_PERSON"
LEFT_OUT_NAME = "ROWS_LEFT_OUT"
_OTHER_AGGREGATES = ("HISTOGRAM", "PRODUCT", "MAD", "ENTROPY", "FSUM", "GEOMEAN", "GEOMETRIC_MEAN", "FAVG", "SUMKAHAN")


def is_aggregate(node: Node) -> bool:
    """Whether this is an aggregate itself, available or not."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper() in (
            *QUANTILE_NAMES,
            *MEAN_NAMES,
            TOTAL_NAME,
            LEFT_OUT_NAME,
            *_OTHER_AGGREGATES,
        )
    if isinstance(node, exp.Bracket):  # APPROX_QUANTILES(x, 4)[OFFSET(2)]
        return isinstance(node.this, exp.ApproxQuantiles)
    return isinstance(node, _AGGREGATES) and not isinstance(node, (exp.Grouping, exp.GroupingId))  # these name keys


def has_aggregate(node: Node) -> bool:
    return any(is_aggregate(part) for part in _outside_subqueries(node))


def _outside_subqueries(node: Node) -> Iterator[Node]:
    return node.walk(prune=lambda part: isinstance(part, (exp.Select, exp.Subquery)))


def text_of(node: Node) -> str:
    """The expression as one would write it."""
    return str(
        node.sql(dialect=_Dialect, normalize_functions="upper", comments=False, unsupported_level=ErrorLevel.IGNORE)
    )


def name_of(node: Node) -> str:
    """A name for a column that the query gives none: avg_income for AVG(income)."""
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Count) and not isinstance(node.this, (exp.Column, exp.Distinct)):
        return "count"
    words = re.findall(r"[^\W\d]\w*|\d+", text_of(node).lower())
    return "_".join(words)[:60].strip("_") or "value"
