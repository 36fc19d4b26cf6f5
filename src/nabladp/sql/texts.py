"""Text: functions of values that can be listed, worked out once for each; and how a query writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from nabladp.schema.rules import number_label
from nabladp.sql.domains import MOST_VALUES, NULL, Domain, Kind, Refused, Value
from nabladp.sql.expressions import Call, Cells, Expression, Function
from nabladp.sql.syntax import Node, Parse, Reader, constant_number, refuse

# ---- functions by their values ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images(Function):
    """A function of one argument, by its value for each listed value of the argument; None is NULL."""

    images: tuple[Value | None, ...]

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        present = [image for image in self.images if image is not None]
        if not present:
            return NULL
        return Domain.of_values(_kind(present[0]), present, nullable=len(present) < len(self.images))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        if domain.kind == "null":
            return Cells(np.zeros(len(cells[0].data)), np.ones(len(cells[0].data), np.bool_))
        position = positions(cells[0], arguments[0])
        index = {value: i for i, value in enumerate(domain.values or ())}
        table = [index.get(image or "", 0) if domain.is_text else (image or 0) for image in self.images]
        missing = np.asarray([image is None for image in self.images])
        kinds: dict[str, Any] = {"text": np.int64, "boolean": np.bool_}
        kind = kinds.get(domain.kind, np.int64 if domain.whole else np.float64)
        return Cells(np.asarray(table, dtype=kind)[position], missing[position] if missing.any() else None)


def positions(cell: Cells, argument: Expression) -> NDArray[np.integer]:
    """Of each value in the list of the argument's values."""
    if argument.domain.is_text:
        return cell.data.astype(np.int64)
    values = np.asarray(argument.domain.values or (0,))
    return np.minimum(np.searchsorted(values, cell.data), len(values) - 1)


def _kind(value: Value) -> Kind:
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def by_value(name: str, compute: Callable[[Any], Value | None], argument: Expression) -> Expression:
    values = argument.domain.values
    if values is None:
        raise Refused(
            f"{name} takes values that can be listed, at most {MOST_VALUES:,}",
            "Group the values first, for example with FLOOR(x / 1000).",
        )
    return Call(Images(tuple(compute(value) for value in values)), (argument,))


@dataclass(frozen=True)
class Concat(Function):
    """Texts one after the other; ``||`` is NULL where one is, CONCAT leaves NULLs out."""

    strict: bool = True

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        return Domain.of_values("text", self._joined(arguments))

    def _joined(self, arguments: Sequence[Expression]) -> list[str]:
        lists = [self._texts(argument) for argument in arguments]
        if math.prod(map(len, lists)) > MOST_VALUES:
            raise Refused(
                f"More than {MOST_VALUES:,} texts could result", "GROUP BY the columns themselves, and join the answer."
            )
        joined = [""]
        for texts in lists:
            joined = [start + text for start in joined for text in texts]
        return joined

    def _texts(self, argument: Expression) -> list[str]:
        domain = argument.domain
        if domain.kind == "null":
            return [""]
        if domain.values is None:
            raise Refused("Joined text takes values that can be listed", "Group the values first.")
        texts = [as_text(value) for value in domain.values]
        return texts if self.strict or not domain.nullable else [*texts, ""]

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        index = {value: i for i, value in enumerate(domain.values or ())}
        position = np.zeros(len(cells[0].data), np.int64)
        for cell, argument in zip(cells, arguments, strict=True):
            texts = self._texts(argument)
            own = positions(cell, argument) if argument.domain.values else np.zeros(len(cell.data), np.int64)
            if not self.strict and argument.domain.nullable:
                own = np.where(cell.is_null(), len(texts) - 1, own)
            position = position * len(texts) + own
        return Cells(np.asarray([index[text] for text in self._joined(arguments)] or [0])[position])


def as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else number_label(value)


# ---- text ------------------------------------------------------------------------------------------------------------


def like(pattern: str, escape: str | None = None, ignore_case: bool = False) -> Callable[[str], bool]:
    """Whether a text matches: % is anything, _ one character. Takes steps in proportion to both lengths, whatever the
    pattern is."""
    parts: list[tuple[bool, str]] = []  # whether it is a wildcard, and the character
    characters = iter(pattern.lower() if ignore_case else pattern)
    for character in characters:
        if escape and character == escape:
            parts.append((False, next(characters, escape)))
        else:
            parts.append((character in "%_", character))

    def matches(text: str) -> bool:
        return _matches(text.lower() if ignore_case else text, parts)

    return matches


def _matches(text: str, parts: Sequence[tuple[bool, str]]) -> bool:
    at = part = 0
    retry = None  # after the last %, and where it ends so far
    while at < len(text):
        if part < len(parts) and parts[part] == (True, "%"):
            retry, part = (part + 1, at), part + 1
        elif part < len(parts) and (parts[part] == (True, "_") or parts[part] == (False, text[at])):
            at, part = at + 1, part + 1
        elif retry is not None:
            part, at = retry[0], retry[1] + 1
            retry = (part, at)
        else:
            return False
    return all(rest == (True, "%") for rest in parts[part:])


def substring(text: str, start: int, length: int | None) -> str:
    """As DuckDB does: positions count from 1, negative ones from the end."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    if length is not None and length < 0:
        first, last = first + length, first
    else:
        last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def _text(name: str, compute: Callable[[str], Value]) -> Reader:
    return lambda parse, node: _of_text(name, compute, parse, node)


def _of_text(name: str, compute: Callable[[str], Value], parse: Parse, node: Node) -> Expression:
    argument = parse(node.this)
    if argument.domain.kind not in ("text", "null"):
        refuse(node, f"{name} takes text", "CAST a number to VARCHAR first.")
    return by_value(name, compute, argument)


def _like(parse: Parse, node: Node, escape: str | None = None) -> Expression:
    pattern = parse(node.args["expression"]).constant if not isinstance(node.args["expression"], exp.Any) else None
    if not isinstance(pattern, str):
        refuse(node, "LIKE takes one constant pattern", "Write {0} LIKE 'a%' OR {0} LIKE 'b%'.")
    argument = parse(node.this)
    if argument.domain.kind not in ("text", "null"):
        refuse(node, "LIKE takes text", "Compare numbers with =, < or BETWEEN.")
    matches, negated = like(pattern, escape, isinstance(node, exp.ILike)), bool(node.args.get("negate"))
    return by_value("LIKE", lambda text: matches(text) is not negated, argument)


def _escape(parse: Parse, node: exp.Escape) -> Expression:
    escape = parse(node.expression).constant
    if not isinstance(node.this, (exp.Like, exp.ILike)) or not isinstance(escape, str) or len(escape) != 1:
        refuse(node, "ESCAPE takes one character after LIKE", "Write x LIKE 'a!%' ESCAPE '!'.")
    return _like(parse, node.this, escape)


def _whole(node: Node, argument: Node | None, default: int) -> int:
    value = default if argument is None else constant_number(argument)
    if not isinstance(value, int) or abs(value) > 10_000:
        refuse(node, "This takes a constant whole number", "Write SUBSTRING(x, 1, 3).")
    return value


def _substring(parse: Parse, node: exp.Substring) -> Expression:
    start, length = _whole(node, node.args.get("start"), 1), node.args.get("length")
    count = None if length is None else _whole(node, length, 0)
    return _of_text("SUBSTRING", lambda text: substring(text, start, count), parse, node)


def _left(parse: Parse, node: Node) -> Expression:
    count = _whole(node, node.args["expression"], 0)
    if isinstance(node, exp.Left):
        return _of_text("LEFT", lambda text: text[:count], parse, node)
    return _of_text("RIGHT", lambda text: text[-count:] if count else "", parse, node)


def _search(name: str, compute: Callable[[str, str], bool]) -> Reader:
    def read(parse: Parse, node: Node) -> Expression:
        part = parse(node.args["expression"]).constant
        if not isinstance(part, str):
            refuse(node, f"{name} takes a constant text", f"Write {name}(x, 'a').")
        return _of_text(name, lambda text: compute(text, part), parse, node)

    return read


def _replace(parse: Parse, node: exp.Replace) -> Expression:
    old, new = (parse(node.args[key]).constant for key in ("expression", "replacement"))
    if not isinstance(old, str) or not isinstance(new, str):
        refuse(node, "REPLACE takes constant texts", "Write REPLACE(x, 'a', 'b').")
    return _of_text("REPLACE", lambda text: text.replace(old, new) if old else text, parse, node)


def _concat(strict: bool) -> Reader:
    def read(parse: Parse, node: Node) -> Expression:
        parts = [node.this, node.args["expression"]] if strict else node.expressions
        return Call(Concat(strict), tuple(parse(part) for part in parts))

    return read


READERS: dict[type[Node], Reader] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Length: _text("LENGTH", len),
    exp.Upper: _text("UPPER", str.upper),
    exp.Lower: _text("LOWER", str.lower),
    exp.Trim: _text("TRIM", lambda text: text.strip(" ")),
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _left,
    exp.StartsWith: _search("STARTS_WITH", str.startswith),
    exp.EndsWith: _search("ENDS_WITH", str.endswith),
    exp.Contains: _search("CONTAINS", str.__contains__),
    exp.Replace: _replace,
    exp.Concat: _concat(strict=False),
    exp.DPipe: _concat(strict=True),
}
