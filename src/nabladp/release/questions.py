"""Questions by clicking: figures of columns and conditions on rows, as the keys of a plan that ask for the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nabladp.errors import PlanError
from nabladp.release.entries import (
    Digits,
    Entry,
    Inexpressible,
    Line,
    Numbers,
    OneOf,
    Part,
    Rows,
    Texts,
    refuse,
    scalar,
    scalar_text,
)

_FIGURES = {  # what a person chooses, and the key of a plan
    "number of rows": "rows",
    "number of values": "count",
    "sum": "sum",
    "mean": "mean",
    "median": "median",
    "quantiles": "quantile",
    "variance": "variance",
    "standard deviation": "stddev",
    "number of different values": "count_distinct",
    "sum per person": "sum_per_person",
}
_ASKED = Rows(
    (
        Part("what", "figure", OneOf(tuple(_FIGURES), tuple(_FIGURES.values()))),
        Part("of", "of the column", Line(columns=True), optional=True),
        Part("levels", "levels, such as 0.25, 0.75", Numbers(), optional=True),
        Part("low", "at least", Digits(), optional=True),
        Part("high", "at most", Digits(), optional=True),
    )
)


@dataclass(frozen=True)
class AskedFigures(Entry):
    """What to find out: any number of figures, each of all rows or of one column; stands for several parameters."""

    shape: ClassVar[str] = "figures"
    parameters: ClassVar[tuple[str, ...]] = tuple(key for key in _FIGURES.values() if key != "rows")

    def read(self, texts: Texts) -> dict[str, Any] | None:
        given = texts if isinstance(texts, dict) else {}
        asked: dict[str, Any] = {}
        for number in sorted(given, key=lambda key: (len(key), key)):
            row = _row(given[number])
            if row:
                _ask(asked, row)
        if asked.get("count") == ["*"]:
            asked["count"] = True
        return asked or None

    def fill(self, value: Mapping[str, Any]) -> Texts:
        if set(value) - set(self.parameters):
            raise Inexpressible
        return _ASKED.fill(list(_figure_rows(value)))

    def to_json(self) -> dict[str, Any]:
        return {**_ASKED.to_json(), "shape": self.shape}


def _row(texts: Texts) -> dict[str, Any]:
    given = texts if isinstance(texts, dict) else {}
    row = {part.name: part.entry.read(given.get(part.name)) for part in _ASKED.parts}
    return {name: own for name, own in row.items() if own is not None}


def _ask(asked: dict[str, Any], row: Mapping[str, Any]) -> None:
    what, column = row.get("what"), row.get("of")
    if what is None or (column is None and what != "rows"):
        if column is None and len(row) > 1:
            raise refuse("A figure has no column.", "Fill it in, or remove the row.")
        if what is None and column is not None:
            raise refuse(f"No figure is chosen for {column!r}.", "Choose a figure, or remove the row.")
        if what is not None:
            raise refuse("A figure has no column.", "Fill it in, or remove the row.")
        return
    if what == "rows":
        _append(asked, "count", "*")
    elif what == "quantile":
        if "levels" not in row:
            raise refuse(f"The quantiles of {column!r} have no level.", "Write, for instance, 0.25, 0.75.")
        asked.setdefault("quantile", {}).setdefault(column, []).extend(row["levels"])
    elif what == "sum_per_person":
        if "low" not in row or "high" not in row:
            raise refuse(
                f"The sums of {column!r} per person have no bounds.",
                "Write the smallest and the largest sum of one person.",
            )
        asked.setdefault("sum_per_person", {})[column] = [row["low"], row["high"]]
    else:
        _append(asked, str(what), str(column))


def _append(asked: dict[str, Any], key: str, column: str) -> None:
    listed = asked.setdefault(key, [])
    if column not in listed:
        listed.append(column)


def _figure_rows(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each figure that these keys of a plan ask for."""
    for key in AskedFigures.parameters:
        own = value.get(key, ())
        if key == "quantile":
            yield from (_quantile(column, levels) for column, levels in dict(own).items())
        elif key == "sum_per_person":
            yield from (
                {"what": key, "of": column, "low": low, "high": high} for column, (low, high) in dict(own).items()
            )
        elif isinstance(own, bool):
            yield from [{"what": "rows"}] if own and key == "count" else []
        else:
            columns: Sequence[str] = [own] if isinstance(own, str) else own
            yield from ({"what": "rows"} if column == "*" else {"what": key, "of": column} for column in columns)


def _quantile(column: str, levels: Any) -> dict[str, Any]:
    return {"what": "quantile", "of": column, "levels": list(levels) if isinstance(levels, (list, tuple)) else [levels]}


# ---- conditions ------------------------------------------------------------------------------------------------------

_COMPARISONS = {"is": "=", "is not": "<>", "is at least": ">=", "is at most": "<=", "is above": ">", "is below": "<"}
_NULLS = {"is missing": "IS NULL", "is not missing": "IS NOT NULL"}
_RESERVED = re.compile(
    "all|and|as|asc|by|case|desc|distinct|else|end|false|from|group|having|in|is|join|like|limit|not|null|on|or|order|"
    "select|table|then|true|union|when|where|with"
)
_NAME = r'(?:[A-Za-z_][A-Za-z0-9_]*|"(?:[^"]|"")+")'
_LITERAL = r"(?:-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|'(?:[^']|'')*'|TRUE|FALSE|true|false)"
_ONE = re.compile(rf"\s*({_NAME})\s*(?:(=|<>|>=|<=|>|<)\s*({_LITERAL})|(IS NOT NULL|IS NULL))\s*")
_WHERE = Rows(
    (
        Part("column", "column", Line(columns=True)),
        Part("is", "condition", OneOf((*_COMPARISONS, *_NULLS))),
        Part("value", "value", Line(), optional=True),
    )
)


@dataclass(frozen=True)
class WhereRows(Entry):
    """Conditions that must all hold, a row for each: a column, a comparison, a value."""

    shape: ClassVar[str] = "where"

    def read(self, texts: Texts) -> str | None:
        rows = _WHERE.read(texts)
        return None if rows is None else " AND ".join(map(_condition, rows))

    def fill(self, value: Any) -> Texts:
        if not isinstance(value, str):
            raise Inexpressible
        return _WHERE.fill(list(_conditions(value)))

    def to_json(self) -> dict[str, Any]:
        return {**_WHERE.to_json(), "shape": self.shape}


def _condition(row: Mapping[str, str]) -> str:
    """One condition in SQL."""
    name = column_name(row["column"])
    if row["is"] in _NULLS:
        return f"{name} {_NULLS[row['is']]}"
    if "value" not in row:
        raise PlanError(f"The condition on {row['column']!r} has no value.", fix="Fill it in, or remove the row.")
    return f"{name} {_COMPARISONS[row['is']]} {_literal(scalar(row['value']))}"


def column_name(name: str) -> str:
    """A column's name in SQL, between quotes where it could be read otherwise."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not _RESERVED.fullmatch(name.lower())
    return name if plain else '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return repr(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


def _conditions(sql: str) -> Iterator[dict[str, str]]:
    """The conditions of a text in SQL, where it is nothing but simple ones joined by AND."""
    start = 0
    words = {sign: word for word, sign in (_COMPARISONS | _NULLS).items()}
    while True:
        match = _ONE.match(sql, start)
        if match is None:
            raise Inexpressible
        name, sign, literal, null = match.groups()
        plain = name[1:-1].replace('""', '"') if name.startswith('"') else name
        row = {"column": plain, "is": words[sign or null]}
        yield row if null else row | {"value": scalar_text(_value(literal))}
        if match.end() == len(sql):
            return
        if sql[match.end() : match.end() + 4] != "AND ":
            raise Inexpressible
        start = match.end() + 4


def _value(literal: str) -> Any:
    return literal[1:-1].replace("''", "'") if literal.startswith("'") else scalar(literal.lower())
