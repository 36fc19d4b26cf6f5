"""What a value means: from any Arrow column to raw codes, where what is not a declared value gets a mark below zero."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nabladp.schema import Attribute
from nabladp.schema.rules import number_label

NULL = -1  # empty
FOREIGN = -2  # not a value of this kind at all
BELOW = -3  # a number under the domain
ABOVE = -4  # a number over the domain

Raw = NDArray[np.int64]
_TRUTH = {"true": 1.0, "t": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "f": 0.0, "no": 0.0, "n": 0.0}


def plain_codes(attribute: Attribute, column: pa.Array) -> NDArray[np.integer] | None:
    """The common cases, at the speed of memory: truth values, or integers inside an integer range; without gaps."""
    boolean = attribute.kind == "boolean"
    low, high = (0, 1) if boolean else (attribute.low, attribute.high)
    if low is None or high is None or column.null_count or not len(column) or attribute.null_values:
        return None
    if boolean and pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    if not pa.types.is_integer(column.type):
        return None
    values: NDArray[np.integer] = column.to_numpy()
    if int(values.min()) < low or int(values.max()) > high:
        return None
    return values if low == 0 else values.astype(np.int64) - low


def raw_codes(attribute: Attribute, column: pa.Array) -> Raw:
    column = _plain(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _spread(raw_codes(attribute, column.dictionary), column.indices)
    if not _is_readable(kind):
        return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, FOREIGN).astype(np.int64)
    # A truth value is no number: as in text, where "true" is none either.
    if _is_machine_number(kind) and not _lists_text(attribute) and (attribute.kind == "boolean" or kind != pa.bool_()):
        return _of_numbers(attribute, _floats(column))
    distinct = column.dictionary_encode()  # text is parsed once for each distinct value
    return _spread(_of_texts(attribute, _texts(distinct.dictionary)), distinct.indices)


def _spread(codes: Raw, indices: pa.Array) -> Raw:
    """Codes of distinct values, laid out by row."""
    rows = pc.fill_null(pc.cast(indices, pa.int64()), len(codes)).to_numpy()
    spread: Raw = np.append(codes, NULL)[rows]
    return spread


# Numbers


def _of_numbers(attribute: Attribute, numbers: NDArray[np.float64]) -> Raw:
    """NaN stands for null."""
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
        place = np.minimum(np.searchsorted(listed[order], numbers), len(listed) - 1)
        codes = np.where(listed[order][place] == numbers, order[place], FOREIGN)
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
        found = pc.index_in(texts, value_set=pa.array(attribute.values, pa.string()))
        codes = pc.fill_null(found, FOREIGN).to_numpy(zero_copy_only=False).astype(np.int64)
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
    """Numbers behind texts, and which texts are none."""
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
    """Any values as text: numbers in their shortest form, dates and times in ISO 8601."""
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


def float_text(number: float | None) -> str | None:
    if number is None or math.isnan(number):
        return None
    return number_label(number) if math.isfinite(number) else str(number)


# Arrow types


def _plain(column: pa.Array) -> pa.Array:
    """Without the wrappings that mean nothing here."""
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
