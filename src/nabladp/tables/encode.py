"""Values to codes. Text and typed sources give the same codes: "3", 3 and 3.0 are one value.

Everything is done a column at a time with Arrow and numpy, so the same code runs on one machine and inside a cluster.
"""

from __future__ import annotations

import math
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
from nabladp.schema.rules import number_label

# ---- what a value means ----------------------------------------------------------------------------------------------

NULL = -1  # empty
FOREIGN = -2  # not a value of this kind at all
BELOW = -3  # a number under the domain
ABOVE = -4  # a number over the domain

Raw = NDArray[np.int64]
_TRUTH = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0}


def plain_codes(attribute: Attribute, column: pa.Array) -> NDArray[np.integer] | None:
    """Encode the common cases at the speed of memory: truth values, or integers inside an integer range; without
    gaps."""
    boolean = attribute.kind == "boolean"
    integers = range(2) if boolean else attribute.integers
    if integers is None or column.null_count or not len(column) or attribute.null_values:
        return None
    if boolean and pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    if not pa.types.is_integer(column.type):
        return None
    values: NDArray[np.integer] = column.to_numpy()
    if int(values.min()) not in integers or int(values.max()) not in integers:
        return None
    return values if integers.start == 0 else values.astype(np.int64) - integers.start


def raw_codes(attribute: Attribute, column: pa.Array) -> Raw:
    column = _plain(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _expand(raw_codes(attribute, column.dictionary), column.indices)
    if not _is_readable(kind):
        return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, FOREIGN).astype(np.int64)
    # A truth value is no number: as in text, where "true" is none either.
    if _is_machine_number(kind) and not _lists_text(attribute) and (attribute.kind == "boolean" or kind != pa.bool_()):
        return _of_numbers(attribute, _floats(column))
    distinct = column.dictionary_encode()  # text is parsed once for each distinct value
    return _expand(_of_texts(attribute, _texts(distinct.dictionary)), distinct.indices)


def _expand(codes: Raw, indices: pa.Array) -> Raw:
    """The codes of distinct values, laid out by row."""
    rows = pc.fill_null(pc.cast(indices, pa.int64()), len(codes)).to_numpy()
    expanded: Raw = np.append(codes, NULL)[rows]
    return expanded


# Numbers


def _of_numbers(attribute: Attribute, numbers: NDArray[np.float64]) -> Raw:
    """Codes of a column of numbers, where NaN stands for null."""
    null = np.isnan(numbers) | np.isin(
        numbers, [value for value in attribute.null_values if not isinstance(value, str)]
    )
    numbers = np.where(null, 0.0, numbers)
    if attribute.kind == "real":
        edges = np.asarray(attribute.edges)
        codes = np.searchsorted(edges, numbers, side="right") - 1
        codes = _outside(np.minimum(codes, len(edges) - 2), numbers, edges[0], edges[-1])
    elif attribute.low is not None and attribute.high is not None:
        inside = np.clip(numbers, attribute.low, attribute.high)
        codes = np.where(inside == np.floor(inside), inside - attribute.low, FOREIGN).astype(np.int64)
        codes = _outside(codes, numbers, attribute.low, attribute.high)
    else:
        listed = np.asarray((0.0, 1.0) if attribute.kind == "boolean" else attribute.values, dtype=np.float64)
        order = np.argsort(listed)
        index = np.minimum(np.searchsorted(listed[order], numbers), len(listed) - 1)
        codes = np.where(listed[order][index] == numbers, order[index], FOREIGN)
    codes[null] = NULL
    return codes.astype(np.int64, copy=False)


def _outside(codes: Raw, numbers: NDArray[np.float64], low: float, high: float) -> Raw:
    codes[numbers < low] = BELOW
    codes[numbers > high] = ABOVE
    return codes


def _floats(column: pa.Array) -> NDArray[np.float64]:
    numbers = pc.cast(column, pa.float64(), safe=False)  # integers beyond 2^53 are outside every domain anyway
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


# Text


def _of_texts(attribute: Attribute, texts: pa.Array) -> Raw:
    if _lists_text(attribute):  # categories are matched exactly, spaces included
        matches = pc.index_in(texts, value_set=pa.array(attribute.values, pa.string()))
        codes = pc.fill_null(matches, FOREIGN).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        texts = pc.utf8_trim_whitespace(texts)
        numbers, foreign = _parse(texts, words=_TRUTH if attribute.kind == "boolean" else {})
        codes = _of_numbers(attribute, numbers)
        codes[foreign] = FOREIGN
    nothing = pa.array(["", *(_null_text(value) for value in attribute.null_values)], pa.string())
    empty = pc.fill_null(pc.is_in(texts, value_set=nothing), True).to_numpy(zero_copy_only=False)
    codes[empty | texts.is_null().to_numpy(zero_copy_only=False)] = NULL
    return np.asarray(codes, dtype=np.int64)


def _null_text(value: str | int | float) -> str:
    return value if isinstance(value, str) else number_label(value)


def _parse(texts: pa.Array, words: dict[str, float]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers behind texts, and which texts are none."""
    try:
        numbers = _floats(texts)
    except pa.ArrowInvalid:  # some text is no plain number
        numbers = np.full(len(texts), np.nan)
    if not np.isnan(numbers).any():
        return numbers, np.zeros(len(texts), dtype=np.bool_)
    parsed = [_number(text, words) for text in texts.to_pylist()]
    foreign = np.array([number is None for number in parsed], dtype=np.bool_)
    return np.array([0.0 if number is None else number for number in parsed]), foreign


def _number(text: str | None, words: dict[str, float]) -> float | None:
    if not text:
        return math.nan
    if text.lower() in words:
        return words[text.lower()]
    if not text.isascii() or "_" in text:  # Python would read 1_000 as a number
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _texts(distinct: pa.Array) -> pa.Array:
    """Values of any type as text to encode: numbers in their shortest form, dates and times in ISO 8601."""
    kind = distinct.type
    if pa.types.is_floating(kind):
        return pa.array([float_text(number) for number in distinct.to_pylist()], pa.string())
    texts = pc.cast(distinct, pa.string())
    if pa.types.is_decimal(kind):  # as their shortest number, like floats; parsed from text, hence exactly rounded
        return pa.array([None if text is None else float_text(float(text)) for text in texts.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind):  # 2026-01-31 at midnight, 2026-01-31T08:30:00 otherwise
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+(Z?)$", r"\1\2")
        texts = pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")
        texts = pc.replace_substring(pc.replace_substring_regex(texts, r" 00:00:00$", ""), " ", "T")
    return texts


def value_texts(column: pa.Array) -> pa.Array:
    """A column of any type as one text for each value, the same for 3, 3.0 and "3"; to compare values, not to show
    them."""
    column = _plain(column)
    if pa.types.is_dictionary(column.type):
        return value_texts(column.dictionary).take(column.indices)
    if not _is_readable(column.type) and not pa.types.is_boolean(column.type):
        return pa.nulls(len(column), pa.string())
    distinct = column.dictionary_encode()
    return pc.utf8_trim_whitespace(_texts(distinct.dictionary)).take(distinct.indices)


def float_text(number: float | None) -> str | None:
    if number is None or math.isnan(number):
        return None
    return number_label(number) if math.isfinite(number) else str(number)


# Arrow types


def _plain(column: pa.Array) -> pa.Array:
    """A column to encode without the Arrow wrappings that mean nothing here, such as dictionaries."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.RunEndEncodedArray):
        column = pc.run_end_decode(column)
    if pa.types.is_string_view(column.type) or pa.types.is_large_string(column.type):
        column = pc.cast(column, pa.string())
    return column


def _lists_text(attribute: Attribute) -> bool:
    return bool(attribute.values) and isinstance(attribute.values[0], str)


def _is_machine_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_readable(kind: pa.DataType) -> bool:
    simple = _is_machine_number(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind)
    return bool(simple or pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind))


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
    numbers = np.nan_to_num(_numbers_of(attribute, column))
    low, high = float(attribute.edges[0]), float(attribute.edges[-1])
    steps = np.floor((np.clip(numbers, low, high) - low) / (high - low) * GRID_STEPS + 0.5)
    bins = raw.copy()
    faults = _apply_rules(attribute, bins) if raw.size and raw.min() < 0 else []
    codes = np.clip(steps, 0, GRID_STEPS).astype(np.int64)
    for code, step in ((attribute.other_code, OTHER_STEP), (attribute.null_code, NULL_STEP)):
        if code is not None:
            codes[bins == code] = step
    return codes.astype(np.uint32), faults


def _numbers_of(attribute: Attribute, column: pa.Array) -> NDArray[np.float64]:
    column = _plain(column)
    if pa.types.is_dictionary(column.type):
        numbers = np.append(_numbers_of(attribute, column.dictionary), np.nan)
        rows = pc.fill_null(pc.cast(column.indices, pa.int64()), len(numbers) - 1).to_numpy()
        return np.asarray(numbers[rows])
    if not _is_readable(column.type):
        return np.full(len(column), np.nan)
    if _is_machine_number(column.type):
        return _floats(column)
    distinct = column.dictionary_encode()
    numbers, _ = _parse(pc.utf8_trim_whitespace(_texts(distinct.dictionary)), words={})
    rows = pc.fill_null(pc.cast(distinct.indices, pa.int64()), len(numbers)).to_numpy()
    return np.asarray(np.append(numbers, np.nan)[rows])


def column_numbers(attribute: Attribute, column: pa.Array, codes: Codes) -> NDArray[np.float64]:
    """The numbers of a column of the table, moved to the ends of its domain where it is clamped; NaN for null and
    other. ``codes`` are the column's."""
    if attribute.kind == "boolean":
        numbers = codes.astype(np.float64)
    else:
        bounds = attribute.bin_bounds
        numbers = _numbers_of(attribute, column)
        if bounds is not None:
            numbers = np.clip(numbers, bounds[0].min(), bounds[1].max())
    return np.where(codes < attribute.ordered_size, numbers, np.nan)


def encode_numbers(attribute: Attribute, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The codes of computed numbers, NULL where there is none or where the schema refuses it."""
    raw = _of_numbers(attribute, numbers)
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
            what = "integers" if attribute.kind == "integer" else "numbers"
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
    column = _plain(column)
    if not pa.types.is_string(column.type):
        return ""
    texts = column.filter(pa.array(raw_codes(attribute, column) < NULL)).unique()
    if _lists_text(attribute):
        inside = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array(attribute.values, pa.string()))
        return "Some have spaces around them: remove these. " if pc.any(inside).as_py() else ""
    commas = pc.match_substring_regex(texts, r"^\s*-?[0-9]+,[0-9]+\s*$")
    return "Some have a decimal comma: write a point. " if pc.any(commas).as_py() else ""


def outside_values(attribute: Attribute, column: pa.Array, most: int) -> list[str]:
    """Some values outside the domain, for the eyes of the table's owner alone."""
    texts = value_texts(column).filter(pa.array(raw_codes(attribute, _plain(column)) < NULL)).unique()
    return [text for text in texts.to_pylist() if text is not None][:most]


def _outside_fix(attribute: Attribute, raw: NDArray[np.int64]) -> str:
    if attribute.kind == "boolean":
        return 'Declare it "categorical" with its two values, or write unknown = "other" for it in the schema.'
    numeric = attribute.kind in ("integer", "real")
    if numeric and (raw == FOREIGN).any():
        what = "whole numbers" if attribute.kind == "integer" else "numbers"
        return (
            f'Not all are {what}: mend them, name those that mean "missing" in null_values, or write unknown = "other".'
        )
    clamp = ' or "clamp"' if numeric else ""
    return f'Widen the domain from public knowledge, or write unknown = "other"{clamp} for it in the schema.'


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
        return tuple(dict.fromkeys(self.attribute(name).name for name in self.names))

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of rows encoded as codes; a value the schema refuses is a DataError."""
        if not self.names:
            return batch.select([])  # which still knows how many rows it has
        columns = []
        for name in self.names:
            attribute = self.attribute(name)
            encode = encode_column if attribute.name == name else grid_codes
            codes, faults = encode(attribute, batch.column(attribute.name))
            if faults:
                raise faults[0].error()
            columns.append(pa.array(codes))
        return pa.RecordBatch.from_arrays(columns, names=list(self.names))

    def code_type(self, name: str) -> type[np.unsignedinteger]:
        attribute = self.attribute(name)
        return code_type(attribute.size) if attribute.name == name else np.uint32

    def bytes_per_row(self) -> int:
        return sum(np.dtype(self.code_type(name)).itemsize for name in self.names)
