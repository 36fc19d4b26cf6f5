"""Codes of the columns of a table: where values that no domain holds go, and which rules a column breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nabladp import checks
from nabladp.checks import expect
from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.tables.values import (
    ABOVE,
    BELOW,
    FOREIGN,
    NULL,
    lists_text,
    number_codes,
    numbers_of,
    plain_codes,
    plain_column,
    raw_codes,
    value_texts,
)


def column_numbers(attribute: Attribute, column: pa.Array, codes: Codes) -> NDArray[np.float64]:
    """The numbers of a column of the table, moved to the ends of its domain where it is clamped; NaN for null and
    other. ``codes`` are the column's."""
    if attribute.kind == "boolean":
        numbers = codes.astype(np.float64)
    else:
        bounds = attribute.bin_bounds
        numbers = numbers_of(attribute, column)
        if bounds is not None:
            numbers = np.clip(numbers, bounds[0].min(), bounds[1].max())
    return np.where(codes < attribute.ordered_size, numbers, np.nan)


def encode_numbers(attribute: Attribute, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The codes of computed numbers, NULL where there is none or where the schema refuses it."""
    raw: NDArray[np.int64] = number_codes(attribute, numbers)
    outside = raw < NULL
    if attribute.other_code is not None:
        raw[outside] = attribute.other_code
    elif attribute.unknown == "clamp":
        raw[raw == BELOW], raw[raw == ABOVE] = 0, attribute.ordered_size - 1
    raw[raw < NULL] = NULL
    return raw


# ---- values to codes -------------------------------------------------------------------------------------------------

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Finding:
    """A rule of the schema that a column breaks, never by which values. ``rows``: how many break it; 0 where that is
    not counted. It is for the owner of the table, and part of no error of a release."""

    column: str
    rule: str
    fix: str
    rows: int = 0
    between: bool = False  # about several columns: the codes of this one are sound

    def to_json(self) -> dict[str, Any]:
        counted = {"rows": self.rows} if self.rows else {}
        return {"column": self.column, "rule": self.rule, **counted, "fix": self.fix}

    def error(self) -> DataError:
        more = {"between": True} if self.between else {}
        return DataError(
            f"Column {self.column!r} {self.rule}.", fix=self.fix, column=self.column, rule=self.rule, **more
        )


def code_type(size: int) -> type[np.unsignedinteger]:
    """The smallest unsigned integer type that holds the codes 0 … size − 1."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def as_array(values: Any) -> NDArray[Any]:
    """An array of codes given by a user; empty and without a type where that is none."""
    if isinstance(values, (range, set, frozenset, Mapping)):  # a range takes no memory until it becomes an array
        return np.empty(0, object)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0, object)


def encode_column(attribute: Attribute, column: pa.Array) -> tuple[Codes, list[Finding]]:
    """Encode a column: its codes, and the rules it breaks. Where a rule is broken, the codes mean nothing."""
    kind = code_type(attribute.size)
    plain = plain_codes(attribute, column)
    if plain is not None:
        return plain.astype(kind), []  # a copy: the table may change behind our back, codes never do
    try:
        raw = raw_codes(attribute, column)
    except pa.ArrowException:  # the text of such an error may hold a value
        unreadable = Finding(attribute.name, "holds text that is not valid UTF-8", "Write the column again as UTF-8.")
        return np.zeros(len(column), kind), [unreadable]
    faults = _apply_rules(attribute, raw) if raw.size and raw.min() < 0 else []
    return (np.zeros(raw.size, kind) if faults else raw.astype(kind)), faults


def _apply_rules(attribute: Attribute, raw: NDArray[np.int64]) -> list[Finding]:
    """Map values that are not declared to their declared category (null or other), in place."""
    faults = []
    null, outside = raw == NULL, raw < NULL
    if attribute.null_code is not None:
        raw[null] = attribute.null_code
    elif null.any():
        fix = 'Write null = "category" for it in the schema, or fill the gaps before.'
        faults.append(Finding(attribute.name, "holds empty values, which the schema refuses", fix, int(null.sum())))
    if attribute.other_code is not None:
        raw[outside] = attribute.other_code
    elif attribute.unknown == "clamp":
        if (raw == FOREIGN).any():
            what = _NAMED.get(attribute.kind, "numbers")
            fix = 'Write unknown = "other" for it in the schema, or mend them before.'
            rule, rows = f"holds values that are not {what} and cannot be clamped", int((raw == FOREIGN).sum())
            faults.append(Finding(attribute.name, rule, fix, rows))
        raw[raw == BELOW] = 0
        raw[raw == ABOVE] = attribute.ordered_size - 1
    elif outside.any():
        rule, fix = "holds values outside its declared domain", _outside_fix(attribute, raw)
        faults.append(Finding(attribute.name, rule, fix, int(outside.sum())))
    return faults


def outside_hint(attribute: Attribute, column: pa.Array) -> str:
    """What values outside the domain have in common, if they are meant to be inside: spaces, or decimal commas."""
    column = plain_column(column)
    if not pa.types.is_string(column.type):
        return ""
    texts = column.filter(pa.array(raw_codes(attribute, column) < NULL)).unique()
    if lists_text(attribute):
        inside = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array(attribute.values, pa.string()))
        return "Some have spaces around them: remove these. " if pc.any(inside).as_py() else ""
    commas = pc.match_substring_regex(texts, r"^\s*-?[0-9]+,[0-9]+\s*$")
    return "Some have a decimal comma: write a point. " if pc.any(commas).as_py() else ""


def outside_values(attribute: Attribute, column: pa.Array, most: int) -> list[str]:
    """Some values outside the domain, for the eyes of the table's owner alone."""
    texts = shown_texts(column).filter(pa.array(raw_codes(attribute, plain_column(column)) < NULL)).unique()
    return [text for text in texts.to_pylist() if text is not None][:most]


def shown_texts(column: pa.Array) -> pa.Array:
    """The values of a column as texts to show: text as it stands, in quotes, so that spaces around it are seen."""
    column = plain_column(column)
    if not pa.types.is_string(column.type):
        return value_texts(column)
    return pc.binary_join_element_wise("'", column, "'", "")


_NAMED = {"integer": "integers", "date": "dates"}
_NAMED_LONG = {"integer": "whole numbers", "date": "dates such as 2026-01-31"}


def _outside_fix(attribute: Attribute, raw: NDArray[np.int64]) -> str:
    if attribute.kind == "boolean":
        return 'Declare it "categorical" with its two values, or write unknown = "other" for it in the schema.'
    numeric = attribute.kind in ("integer", "real", "date")
    if numeric and (raw == FOREIGN).any():
        what = _NAMED_LONG.get(attribute.kind, "numbers")
        return (
            f'Not all are {what}: mend them, name those that mean "missing" in null_values, or write unknown = "other".'
        )
    clamp = ' or "clamp"' if numeric else ""
    return f'Widen the domain from public knowledge, or write unknown = "other"{clamp} for it in the schema.'


# ---- numbers on a grid -----------------------------------------------------------------------------------------------
# Sums are taken over numbers themselves, not over the bins of a real attribute: each becomes a whole number of steps
# between the lowest and the highest. Whole numbers add up exactly, in any order and on any machine; floats do not, and
# then one row could move a sum by more than its range.

GRID_STEPS = (1 << 32) - 16  # from the lowest number to the highest
OTHER_STEP, NULL_STEP = GRID_STEPS + 1, GRID_STEPS + 2
_GRID_MARK = "\x1f"  # no attribute's name holds it


def grid_column(name: str) -> str:
    """The name under which a kernel asks for a real attribute's numbers on the grid instead of its bins."""
    return name + _GRID_MARK


def source_column(name: str) -> str:
    """The column of the table that a kernel's column is encoded from."""
    return name.removesuffix(_GRID_MARK)


def grid_codes(attribute: Attribute, column: pa.Array) -> tuple[Codes, list[Finding]]:
    """Encode numbers as grid steps from the lowest, and the rules that the column breaks, as :func:`encode_column` has
    them."""
    raw = raw_codes(attribute, column)
    numbers = np.nan_to_num(numbers_of(attribute, column))
    low, high = float(attribute.edges[0]), float(attribute.edges[-1])
    steps = np.floor((np.clip(numbers, low, high) - low) / (high - low) * GRID_STEPS + 0.5)
    bins = raw.copy()
    faults = _apply_rules(attribute, bins) if raw.size and raw.min() < 0 else []
    codes = np.clip(steps, 0, GRID_STEPS).astype(np.int64)
    for code, step in ((attribute.other_code, OTHER_STEP), (attribute.null_code, NULL_STEP)):
        if code is not None:
            codes[bins == code] = step
    return codes.astype(np.uint32), faults


# ---- batches of rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of rows by a schema; picklable, and without state between batches."""

    schema: Schema
    names: tuple[str, ...]

    def __init__(self, schema: Schema, names: Iterable[str] | None = None) -> None:
        expect(schema, Schema, "The schema of a table", 'Load it with Schema.load("schema.toml").')
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "names", schema.names if names is None else checks.names(names))
        for name in self.names:
            self.attribute(name)  # refuses an unknown name

    def attribute(self, name: str) -> Attribute:
        """The attribute behind a column of codes or of numbers on the grid."""
        return self.schema[name if name in self.schema else source_column(name)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the encoder reads."""
        return tuple(dict.fromkeys(self._column(self.attribute(name).name) for name in self.names))

    def _column(self, name: str) -> str:
        """The column that an attribute is read from: of a level, that of its source."""
        return self.schema.levels[name][0] if name in self.schema.levels else name

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of rows encoded as codes; a value the schema refuses is a DataError."""
        if not self.names:
            return batch.select([])  # which still knows how many rows it has
        known: dict[str, Codes] = {}
        columns = [pa.array(self._codes(name, batch, known)) for name in self.names]
        return pa.RecordBatch.from_arrays(columns, names=list(self.names))

    def _codes(self, name: str, batch: pa.RecordBatch, known: dict[str, Codes]) -> Codes:
        if name not in known:
            attribute = self.attribute(name)
            if attribute.is_computed:
                column, codes = self.schema.levels[attribute.name]
                known[name] = codes.astype(self.code_type(name))[self._codes(column, batch, known)]
            else:
                encode = encode_column if attribute.name == name else grid_codes
                known[name], faults = encode(attribute, batch.column(attribute.name))
                if faults:
                    raise faults[0].error()
        return known[name]

    def code_type(self, name: str) -> type[np.unsignedinteger]:
        attribute = self.attribute(name)
        return code_type(attribute.size) if attribute.name == name else np.uint32

    def bytes_per_row(self) -> int:
        return sum(np.dtype(self.code_type(name)).itemsize for name in self.names)
