"""A view: one table of released values, what to draw of it, and what is known about its error. Plain data.

A row is stored as one value, or as a short list of them. A column says how its value is found: at a place of the row,
as a code with labels, by the row's position along an axis, or as another column plus a constant; so that names and
intervals of large tables are not repeated for every cell. drawing.js reads the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LEVEL = 0.95
_DIGITS = 7


@dataclass(frozen=True)
class Column:
    """``format``: "text", "count", "share" (shown in percent) or "number"; ``found`` says where a value is."""

    name: str
    format: str
    found: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "format": self.format, **self.found}


def stored(name: str, format: str = "text", place: int = 0) -> Column:
    """The value itself, or the one at a place of the row."""
    return Column(name, format, {"place": place})


def coded(name: str, labels: Iterable[str], place: int = 0) -> Column:
    """A code at a place of the row, and what each code means."""
    return Column(name, "text", {"place": place, "labels": list(labels)})


def axis(name: str, labels: Iterable[str], every: int) -> Column:
    """The label changes every so many rows, and begins again after the last one."""
    return Column(name, "text", {"axis": list(labels), "every": every})


def shifted(name: str, format: str, of: int, plus: float) -> Column:
    """Another column, by its number, plus a constant."""
    return Column(name, format, {"of": of, "plus": plus})


@dataclass(frozen=True)
class Series:
    """What is drawn for every row: a column, and where known the two columns of its interval."""

    name: str
    value: int
    low: int | None = None
    high: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class View:
    """``kind``: "bars", "dots", "heat" or "table".

    ``names`` are the columns that name a row: for a heat map two of them. ``facts`` are pairs of a label and a text,
    the noise scale and the predicted error among them. ``ordered`` says that neighbouring rows belong together;
    ``signed`` that zero is the middle of the colours; ``symmetric`` that a heat map's rows stand for both halves.
    ``line`` is a value that bars are to be compared with, and what it means.
    """

    title: str
    kind: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    summary: str = ""
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    names: Sequence[int] = (0,)
    series: Sequence[Series] = ()
    caption: str = ""
    ordered: bool = False
    signed: bool = False
    symmetric: bool = False
    line: tuple[float, str] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "title": self.title,
            "kind": self.kind,
            "summary": self.summary,
            "facts": [list(pair) for pair in self.facts],
            "notes": list(self.notes),
            "columns": [column.to_json() for column in self.columns],
            "names": list(self.names),
            "series": [drawn.to_json() for drawn in self.series],
            "caption": self.caption,
            "rows": list(self.rows),
        }
        body |= {word: True for word in ("ordered", "signed", "symmetric") if getattr(self, word)}
        return body | ({} if self.line is None else {"line": {"at": self.line[0], "text": self.line[1]}})


def cell_axes(names: Sequence[str], labels: Sequence[Sequence[str]]) -> list[Column]:
    """The axes of a table of all combinations, the last one fastest."""
    sizes = [len(own) for own in labels]
    return [axis(name, own, math.prod(sizes[i + 1 :])) for i, (name, own) in enumerate(zip(names, labels, strict=True))]


def brief(value: float | None) -> float | None:
    """Digits enough to read; the record holds them all. What is no number is nothing."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def worded(value: Any) -> str:
    """A figure for people: whole numbers in full, others with four digits."""
    if value is None:
        return "no bound"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def several(count: int, word: str, plural: str = "") -> str:
    return f"{count:,} {word if count == 1 else plural or word + 's'}"
