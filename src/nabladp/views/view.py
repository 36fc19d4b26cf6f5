"""A view: one table of released values, what to draw of it, and what is known about its error. Plain data.

A row is stored as one value, or as a short list of them. A column says where its value comes from: an item of the row,
an item that is a code with labels, the row's position along an axis, or another column plus a constant; so that names
and intervals of large tables are not repeated for every cell. drawing.js reads the same keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats

LEVEL = 0.95
MOST_ACROSS, MOST_DOWN = 60, 150  # categories along the sides of a heat map; the longer one goes down
MOST_SQUARES = 2500
MOST_PANELS = 12  # small charts beside each other, one for every value of one attribute
ONE_SERIES = ("heat", "panels")  # kinds of views that draw one number per row
MOST_DOTS = 40  # so small a marginal is drawn as dots, which show several series; a heat map shows one of them
_DIGITS = 7


@dataclass(frozen=True)
class Column:
    """``format``: "text", "count", "share" (shown in percent) or "number"; ``source`` says where a value comes from."""

    name: str
    format: str
    source: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "format": self.format, **self.source}


def value_column(name: str, format: str = "text", index: int = 0) -> Column:
    """A view column: the item of the row at this index, or the row itself where it is one value."""
    return Column(name, format, {"place": index})


def label_column(name: str, labels: Iterable[str], index: int = 0) -> Column:
    """A view column of labels: a code at this index of the row, and the label of each code."""
    return Column(name, "text", {"place": index, "labels": list(labels)})


Scale = Mapping[str, Sequence[float]]


def axis_column(name: str, labels: Iterable[str], every: int, ordered: int = 0, scale: Scale | None = None) -> Column:
    """A view column of an axis: the label changes every so many rows, and begins again after the last one.

    The first ``ordered`` labels stand in order. ``scale`` says where on a scale they lie: ``at`` a number for each, at
    ``dates`` in numbers, or between two ``edges``, of which there is one more.
    """
    source = {"axis": list(labels), "every": every}
    return Column(
        name,
        "text",
        source | ({"ordered": ordered} if ordered else {}) | {key: list(where) for key, where in (scale or {}).items()},
    )


def offset_column(name: str, format: str, of: int, plus: float) -> Column:
    """A view column that is another one, by its number, plus a constant."""
    return Column(name, format, {"of": of, "plus": plus})


@dataclass(frozen=True)
class Series:
    """The column that is drawn, and where known the two columns of its interval."""

    name: str
    value: int
    low: int | None = None
    high: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class View:
    """``kind``: "bars", "dots", "heat", "panels" or "table". The page draws bars and dots along a scale, on a map, and
    heat maps as pyramids where the columns that name a row allow it.

    ``names`` are the columns that name a row: for a heat map two of them, for panels three. ``facts`` are pairs of a
    label and a text, the noise scale and the predicted error among them. ``ordered`` says that neighbouring rows belong
    together; ``signed`` that zero is the middle of the colours; ``symmetric`` that a heat map's rows stand for both
    halves. ``line`` is a value that bars are to be compared with, and what it means.
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
    line: tuple[float, str] | None = None

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "title": self.title,
            "kind": self.kind,
            "summary": self.summary,
            "facts": [list(pair) for pair in self.facts],
            "notes": list(self.notes),
            "columns": [column.to_json() for column in self.columns],
            "names": list(self.names),
            "series": [series.to_json() for series in self.series],
            "caption": self.caption,
            "rows": list(self.rows),
        }
        flags = {"ordered": self.ordered, "signed": self.signed, "symmetric": self.symmetric}
        body |= {name: True for name, flag in flags.items() if flag}
        return body | ({} if self.line is None else {"line": {"at": self.line[0], "text": self.line[1]}})

    def read(self, most: int | None = None) -> Iterator[list[Any]]:
        """The values of a view's first rows, column by column, as drawing.js reads them."""
        for number, row in enumerate(self.rows[:most]):
            yield [self._value(column, number, row) for column in self.columns]

    def _value(self, column: Column, number: int, row: Any) -> Any:
        source = column.source
        if "axis" in source:
            return source["axis"][number // source["every"] % len(source["axis"])]
        if "of" in source:
            value = self._value(self.columns[source["of"]], number, row)
            return None if value is None else value + source["plus"]
        item = row[source["place"]] if isinstance(row, list | tuple) else row
        return source["labels"][item] if "labels" in source else item


# ---- tables of all combinations -------------------------------------------------------------------------------------


class Cells(Sequence[Any]):
    """Rows of a view as columns of numbers, which become lists when they are looked at; one column alone is its values.

    Millions of cells take no more room than their arrays.
    """

    def __init__(self, *columns: NDArray[Any]) -> None:
        self.columns = tuple(np.asarray(column).ravel() for column in columns)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, at: Any) -> Any:
        return list(self._rows(at)) if isinstance(at, slice) else next(self._rows(slice(at, at + 1 or None)))

    def __iter__(self) -> Iterator[Any]:
        return self._rows(slice(None))

    def _rows(self, at: slice) -> Iterator[Any]:
        lists = [_numbers(column[at]) for column in self.columns]
        return iter(lists[0]) if len(lists) == 1 else (list(row) for row in zip(*lists, strict=True))


def _numbers(column: NDArray[Any]) -> list[Any]:
    return [round_digits(v) for v in column.tolist()] if column.dtype.kind == "f" else column.tolist()


def cell_axes(
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    ordered: Sequence[int] | None = None,
    scales: Sequence[Scale] | None = None,
) -> list[Column]:
    """The view columns of a table of all combinations: one axis per name, the last one fastest. ``ordered`` says how
    many labels of each, from the first, stand in order, ``scales`` where these lie."""
    sizes = [len(own) for own in labels]
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    more = (ordered or [0] * len(sizes), scales or [{}] * len(sizes))
    return [axis_column(*axis) for axis in zip(names, labels, strides, *more, strict=True)]


def marginal_kind(sizes: Sequence[int], *, dots: bool = False) -> str:
    """The kind of view for a table of all combinations; ``dots`` where several series stand beside each other."""
    if dots and (len(sizes) == 1 or math.prod(sizes) <= MOST_DOTS):
        return "dots"
    if len(sizes) == 1:
        return "bars"
    panels, *sides = sorted(sizes) if len(sizes) == 3 else (1, *sizes)
    drawable = panels <= MOST_PANELS and len(sides) == 2 and min(sides) <= MOST_ACROSS and max(sides) <= MOST_DOWN
    if not drawable or math.prod(sizes) > MOST_SQUARES:
        return "table"
    return "panels" if len(sizes) == 3 else "heat"


# ---- numbers for people ---------------------------------------------------------------------------------------------


def round_digits(value: float | None) -> float | None:
    """A view's number with enough digits to read; the record holds them all. Non-finite values become null."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def format_figure(value: Any) -> str:
    """A number in a view's text: whole numbers in full, others with four digits."""
    if value is None:
        return "no bound"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def format_range(numbers: Sequence[float] | Floats) -> str:
    """A range in a view's text: one number, or from the smallest to the largest."""
    low, high = float(min(numbers)), float(max(numbers))
    return format_figure(high) if high - low <= 1e-9 * high else f"{format_figure(low)} to {format_figure(high)}"


def format_percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def count_of(count: int, word: str, plural: str = "") -> str:
    """A count with its noun: "1 row", "2 rows"."""
    return f"{count:,} {word if count == 1 else plural or word + 's'}"
