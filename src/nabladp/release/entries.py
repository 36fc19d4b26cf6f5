"""What a form asks for: entries, each of which turns what a person typed into a value of a plan file, and back.

A form sends texts by name, such as ``sets.0.columns``; :func:`nest` makes a tree of them. An entry reads its part of
the tree, and fills it from a value. ``shape`` says how a page draws it.
"""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nabladp.errors import PlanError
from nabladp.schema.files import toml_text

Texts = Any  # a list of texts, or a mapping of names to more of the same
_MEASURES = ("cdp", "rho", "pure", "epsilon")


def nest(pairs: Iterable[tuple[str, str]]) -> dict[str, Texts]:
    """The texts of a form as a tree, by the dots in their names."""
    tree: dict[str, Any] = {}
    for name, text in pairs:
        *path, last = name.split(".")
        inner = tree
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise PlanError("The form has a field and a group of fields of one name.", fix="Reload the page.")
        leaf = inner.setdefault(last, [])
        if not isinstance(leaf, list):
            raise PlanError("The form has a field and a group of fields of one name.", fix="Reload the page.")
        leaf.append(text)
    return tree


class Inexpressible(Exception):
    """A value of a plan that an entry cannot show; a page then shows it as a plan file has it."""


def refuse(what: str, fix: str) -> PlanError:
    return PlanError(what, fix=fix)


class Entry(ABC):
    """One value that a form asks for."""

    shape: ClassVar[str]

    @abstractmethod
    def read(self, texts: Texts) -> Any:
        """The value that these texts stand for, as a plan file has it; None where nothing was entered."""

    @abstractmethod
    def fill(self, value: Any) -> Texts:
        """The texts that stand for a value; raises :class:`Inexpressible` where there are none."""

    def to_json(self) -> dict[str, Any]:
        """What a page needs to draw an entry."""
        return {"shape": self.shape}


def _text(texts: Texts) -> str:
    return texts[-1].strip() if isinstance(texts, list) and texts else ""


# ---- single values ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line(Entry):
    """One line of text; ``columns``: a column or an expression, for which a page offers the names of columns."""

    columns: bool = False
    shape: ClassVar[str] = "line"

    def read(self, texts: Texts) -> str | None:
        return _text(texts) or None

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, str) or "\n" in value or value != value.strip():
            raise Inexpressible
        return [value]

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "columns": self.columns}


@dataclass(frozen=True)
class Lines(Entry):
    """A text of several lines, such as a query."""

    shape: ClassVar[str] = "lines"

    def read(self, texts: Texts) -> str | None:
        return _text(texts).replace("\r\n", "\n") or None

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, str) or value != value.strip() or "\r" in value:
            raise Inexpressible
        return [value]


@dataclass(frozen=True)
class Listed(Entry):
    """Values, one on each line: numbers, true and false as such, all others as text; a text between quotes is one."""

    shape: ClassVar[str] = "listed"

    def read(self, texts: Texts) -> list[Any] | None:
        return [scalar(line.strip()) for line in _text(texts).splitlines() if line.strip()] or None

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(own, (str, bool, int, float)) for own in value):
            raise Inexpressible
        return ["\n".join(map(scalar_text, value))]


@dataclass(frozen=True)
class Column(Entry):
    """The name of one column."""

    shape: ClassVar[str] = "column"

    def read(self, texts: Texts) -> str | None:
        return (texts[-1] if isinstance(texts, list) and texts else "") or None

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, str):
            raise Inexpressible
        return [value]


@dataclass(frozen=True)
class Columns(Entry):
    """Several columns, by ticking them."""

    shape: ClassVar[str] = "columns"

    def read(self, texts: Texts) -> list[str] | None:
        return list(dict.fromkeys(texts)) or None if isinstance(texts, list) else None

    def fill(self, value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list) or not all(isinstance(own, str) for own in value):
            raise Inexpressible
        return value


@dataclass(frozen=True)
class OneOf(Entry):
    """One of some words; ``values`` are what they stand for."""

    words: tuple[str, ...]
    values: tuple[Any, ...] = ()
    shape: ClassVar[str] = "choice"

    def read(self, texts: Texts) -> Any:
        text = _text(texts)
        if not text:
            return None
        if text not in self.words:
            raise refuse("This is not one of the choices.", f"Choose {', '.join(self.words)}.")
        return self.values[self.words.index(text)] if self.values else text

    def fill(self, value: Any) -> list[str]:
        known = self.values or self.words
        if value not in known:
            raise Inexpressible
        return [self.words[known.index(value)]]

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "words": list(self.words)}


YES_NO = OneOf(("yes", "no"), (True, False))


@dataclass(frozen=True)
class Digits(Entry):
    """A number; a whole one stays whole."""

    low: float | None = None
    high: float | None = None
    whole: bool = False
    shape: ClassVar[str] = "number"

    def read(self, texts: Texts) -> float | None:
        text = _text(texts)
        return number(text) if text else None

    def fill(self, value: Any) -> list[str]:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Inexpressible
        return [repr(value)]

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "low": self.low, "high": self.high, "whole": self.whole}


@dataclass(frozen=True)
class Numbers(Entry):
    """Some numbers, with commas or spaces between them."""

    shape: ClassVar[str] = "numbers"

    def read(self, texts: Texts) -> list[float] | None:
        return [number(part) for part in _text(texts).replace(",", " ").split()] or None

    def fill(self, value: Any) -> list[str]:
        if not isinstance(value, list) or any(isinstance(own, bool) for own in value):
            raise Inexpressible
        if not all(isinstance(own, (int, float)) for own in value):
            raise Inexpressible
        return [", ".join(map(repr, value))]


@dataclass(frozen=True)
class Amount(Entry):
    """A budget: its measure and its amount. ``pure``: only a pure one, or only one that is not; None: any."""

    pure: bool | None = None
    shape: ClassVar[str] = "budget"

    def read(self, texts: Texts) -> dict[str, float] | None:
        given = texts if isinstance(texts, dict) else {}
        measure, amount = _text(given.get("measure")), _text(given.get("amount"))
        if not amount:
            return None
        if measure not in _MEASURES:
            raise refuse("The budget has no measure.", f"Choose {', '.join(self.measures)}.")
        if measure != "epsilon":
            return {measure: number(amount)}
        delta = _text(given.get("delta"))
        if not delta:
            raise refuse("This budget needs a δ.", "Write a small number, such as 1e-6.")
        return {"epsilon": number(amount), "delta": number(delta)}

    def fill(self, value: Any) -> dict[str, list[str]]:
        if not isinstance(value, Mapping) or not value or set(value) - {*_MEASURES, "delta"}:
            raise Inexpressible
        measures = [name for name in value if name != "delta"]
        if len(measures) != 1 or not all(isinstance(own, (int, float)) for own in value.values()):
            raise Inexpressible
        filled = {"measure": measures, "amount": [repr(value[measures[0]])]}
        return filled | ({"delta": [repr(value["delta"])]} if "delta" in value else {})

    @property
    def measures(self) -> tuple[str, ...]:
        return ("pure",) if self.pure else ("cdp", "rho", "epsilon", *(() if self.pure is False else ("pure",)))

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "measures": list(self.measures)}


@dataclass(frozen=True)
class Toml(Entry):
    """Any value, as a plan file has it: for what no other entry can express."""

    example: str = ""
    shape: ClassVar[str] = "toml"

    def read(self, texts: Texts) -> Any:
        text = _text(texts).replace("\r\n", "\n")
        if not text:
            return None
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            raise refuse("This is not a value of a plan file.", f"Write, for instance, {self.example}.") from None

    def fill(self, value: Any) -> list[str]:
        return [toml_text(value)]

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "example": self.example}


# ---- values of several parts -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One cell of a row: its name, what a page writes above it, and its entry. ``optional``: it may stay empty."""

    name: str
    label: str
    entry: Entry
    optional: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "label": self.label, "entry": self.entry.to_json(), "optional": self.optional}


@dataclass(frozen=True)
class Rows(Entry):
    """Any number of rows, each of the same parts; a row that is empty does not count.

    ``keyed``: a table whose keys are the first part, joined with "+" where that names several columns. ``bare``: a
    list of what the only part holds. Otherwise a list of tables with the names of the parts; ``alone``: a single one
    stands without a list.
    """

    parts: tuple[Part, ...]
    keyed: bool = False
    bare: bool = False
    alone: bool = False
    shape: ClassVar[str] = "rows"

    def read(self, texts: Texts) -> Any:
        given = texts if isinstance(texts, dict) else {}
        rows = [self._row(given[key]) for key in sorted(given, key=lambda key: (len(key), key))]
        listed = [row for row in rows if row]
        if not listed:
            return None
        if self.bare:
            return [row[self.parts[0].name] for row in listed]
        if self.alone and len(listed) == 1:
            return listed[0]
        return self._table(listed) if self.keyed else listed

    def _row(self, texts: Texts) -> dict[str, Any]:
        given = texts if isinstance(texts, dict) else {}
        row = {part.name: part.entry.read(given.get(part.name)) for part in self.parts}
        filled = {name: value for name, value in row.items() if value is not None}
        lacking = [part.label for part in self.parts if part.name not in filled and not part.optional]
        weighty = [part for part in self.parts if part.name in filled and not isinstance(part.entry, OneOf)]
        if not weighty:  # only choices, which always have a value
            return {}
        if lacking:
            raise refuse(f"A row has no {lacking[0]}.", "Fill it in, or remove the row.")
        return filled

    def _table(self, listed: Sequence[dict[str, Any]]) -> dict[str, Any]:
        first, *rest = self.parts
        table: dict[str, Any] = {}
        for row in listed:
            key = row[first.name]
            name = key if isinstance(key, str) else "+".join(key)
            if name in table:
                raise refuse(f"{name!r} has two rows.", "Remove one of them.")
            table[name] = row[rest[0].name] if len(rest) == 1 else [row[part.name] for part in rest]
        return table

    def fill(self, value: Any) -> dict[str, Texts]:
        return {str(number): self._row_texts(row) for number, row in enumerate(self._value_rows(value))}

    def _value_rows(self, value: Any) -> list[dict[str, Any]]:
        if not self.keyed:
            if self.alone and isinstance(value, Mapping):
                return [dict(value)]
            if not isinstance(value, list):
                raise Inexpressible
            return [{self.parts[0].name: own} for own in value] if self.bare else value
        if not isinstance(value, Mapping):
            raise Inexpressible
        first, *rest = self.parts
        several = isinstance(first.entry, Columns)
        rows = []
        for key, own in value.items():
            given = [own] if len(rest) == 1 else own
            if not isinstance(given, list) or len(given) != len(rest):
                raise Inexpressible
            head = {first.name: key.split("+") if several else key}
            rows.append(head | {part.name: part_value for part, part_value in zip(rest, given, strict=True)})
        return rows

    def _row_texts(self, row: Any) -> dict[str, Texts]:
        known = {part.name: part.entry for part in self.parts}
        if not isinstance(row, Mapping) or set(row) - set(known):
            raise Inexpressible
        return {name: known[name].fill(own) for name, own in row.items()}

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "parts": [own.to_json() for own in self.parts]}


@dataclass(frozen=True)
class Either(Entry):
    """A value that can be given in one of several ways."""

    ways: tuple[Part, ...]
    shape: ClassVar[str] = "either"

    def read(self, texts: Texts) -> Any:
        given = texts if isinstance(texts, dict) else {}
        values = [(way.label, way.entry.read(given.get(way.name))) for way in self.ways]
        entered = [(label, value) for label, value in values if value is not None]
        if len(entered) > 1:
            raise refuse(f"Both {entered[0][0]!r} and {entered[1][0]!r} are filled in.", "Empty one of them.")
        return entered[0][1] if entered else None

    def fill(self, value: Any) -> dict[str, Texts]:
        for way in self.ways:
            try:
                return {way.name: way.entry.fill(value)}
            except Inexpressible:
                continue
        raise Inexpressible

    def to_json(self) -> dict[str, Any]:
        return {"shape": self.shape, "parts": [own.to_json() for own in self.ways]}


# ---- texts of values -------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number that a person typed."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise refuse("This is not a number.", "Write it with digits, such as 0.25.")


def scalar(text: str) -> Any:
    """A value that a person typed: a number, true or false, a text between quotes, or any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (dict, list)) or value is None else value


def scalar_text(value: Any) -> str:
    """The text that :func:`scalar` reads as this value."""
    if isinstance(value, str) and value == value.strip() and scalar(value) == value and "\n" not in value and value:
        return value
    return json.dumps(value, ensure_ascii=False)
