"""What a value means. Text and typed columns give the same codes: "3", 3 and 3.0 are one value; so are a date and its
text.

Everything is done a column at a time with Arrow and numpy, so the same code runs on one machine and inside a cluster.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nabladp.schema import Attribute
from nabladp.schema.levels import PERIODS, period_number, periods_of
from nabladp.schema.rules import number_label

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
    column = plain_column(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _expand(raw_codes(attribute, column.dictionary), column.indices)
    if not _is_readable(kind):
        return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, FOREIGN).astype(np.int64)
    if attribute.kind == "date" and not _is_machine_number(kind):
        return _of_dates(attribute, column)
    # A truth value is no number: as in text, where "true" is none either.
    if _is_machine_number(kind) and not lists_text(attribute) and (attribute.kind == "boolean" or kind != pa.bool_()):
        return number_codes(attribute, _floats(column))
    distinct = column.dictionary_encode()  # text is parsed once for each distinct value
    return _expand(_of_texts(attribute, _texts(distinct.dictionary)), distinct.indices)


def _expand(codes: Raw, indices: pa.Array) -> Raw:
    """The codes of distinct values, laid out by row."""
    rows = pc.fill_null(pc.cast(indices, pa.int64()), len(codes)).to_numpy()
    expanded: Raw = np.append(codes, NULL)[rows]
    return expanded


# Numbers


def number_codes(attribute: Attribute, numbers: NDArray[np.float64]) -> Raw:
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


def _outside(codes: Raw, numbers: NDArray[np.float64] | NDArray[np.int64], low: float, high: float) -> Raw:
    codes[numbers < low] = BELOW
    codes[numbers > high] = ABOVE
    return codes


def _floats(column: pa.Array) -> NDArray[np.float64]:
    numbers = pc.cast(column, pa.float64(), safe=False)  # integers beyond 2^53 are outside every domain anyway
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def numbers_of(attribute: Attribute, column: pa.Array) -> NDArray[np.float64]:
    column = plain_column(column)
    if pa.types.is_dictionary(column.type):
        numbers = np.append(numbers_of(attribute, column.dictionary), np.nan)
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


# Dates


_TIME = r"([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+]00:?00)?)?"
_FORMS = {"day": r"\d{4}-\d\d-\d\d", "month": r"\d{4}-\d\d", "quarter": r"\d{4}-Q[1-4]", "year": r"\d{4}"}


def _of_dates(attribute: Attribute, column: pa.Array) -> Raw:
    """Codes of a column of dates, timestamps (their day in UTC), or texts of such."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        days, faulty = _typed_days(column), np.zeros(len(column), np.bool_)
        null = column.is_null().to_numpy(zero_copy_only=False)
        markers = [period_number(value, "day") for value in attribute.null_values]
        null |= np.isin(days, [marker for marker in markers if marker is not None])
    else:
        distinct = column.dictionary_encode()
        texts = pc.utf8_trim_whitespace(_texts(distinct.dictionary))
        days, faulty = _days_of_texts(texts, attribute.level or "day")
        null = _is_null_text(attribute, texts)
        days, faulty, null = (
            part[pc.fill_null(pc.cast(distinct.indices, pa.int64()), len(part) - 1).to_numpy()]
            for part in (np.append(days, 0), np.append(faulty, False), np.append(null, True))
        )
    level = attribute.level or "day"
    first = period_number(attribute.values[0], level) or 0
    numbers = periods_of(days, level)
    codes = _outside(numbers - first, numbers, first, first + len(attribute.values) - 1)
    codes[faulty] = FOREIGN
    codes[null] = NULL
    return codes


def _typed_days(column: pa.Array) -> NDArray[np.int64]:
    """Days from 1970 of dates and timestamps."""
    kind = column.type
    if pa.types.is_date32(kind):
        numbers, day = pc.cast(column, pa.int32()), 1
    else:
        numbers, day = pc.cast(column, pa.int64()), 86_400 * _TICKS["ms" if pa.types.is_date(kind) else kind.unit]
    known: NDArray[np.int64] = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return known // day


_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _days_of_texts(texts: pa.Array, level: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The day that each text says, or a day of the period it says, and which texts say none."""
    coarse = PERIODS[: PERIODS.index(level) + 1]
    form = "|".join(_FORMS[period] for period in coarse[1:])
    known = pc.match_substring_regex(texts, f"^({_FORMS['day']}{_TIME}{'|' + form if form else ''})$")
    faulty = ~pc.fill_null(known, False).to_numpy(zero_copy_only=False)
    texts = pc.if_else(pa.array(faulty), "1970-01-01", pc.fill_null(texts, ""))
    years = _digits(texts, 0, 4, 1970)
    quarters = np.where(pc.match_substring(texts, "-Q").to_numpy(zero_copy_only=False), _digits(texts, 6, 7, 1), 0)
    months = np.where(quarters > 0, 3 * quarters - 2, _digits(texts, 5, 7, 1))
    days = _digits(texts, 8, 10, 1)
    first = ((years - 1970) * 12 + months - 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    same = periods_of(first + days - 1, "month") == periods_of(first, "month")
    faulty |= (years < 1) | (months < 1) | (months > 12) | (days < 1) | ~same
    return first + days - 1, faulty


def _digits(texts: pa.Array, start: int, stop: int, absent: int) -> NDArray[np.int64]:
    part = pc.utf8_slice_codeunits(texts, start, stop)
    part = pc.if_else(pc.match_substring_regex(part, r"^\d+$"), part, str(absent))
    digits: NDArray[np.int64] = pc.cast(part, pa.int64()).to_numpy(zero_copy_only=False)
    return digits


# Text


def _of_texts(attribute: Attribute, texts: pa.Array) -> Raw:
    if lists_text(attribute):  # categories are matched exactly, spaces included
        cut = texts if attribute.prefix is None else pc.utf8_slice_codeunits(texts, 0, attribute.prefix)
        matches = pc.index_in(cut, value_set=pa.array(attribute.values, pa.string()))
        codes = pc.fill_null(matches, FOREIGN).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        texts = pc.utf8_trim_whitespace(texts)
        numbers, foreign = _parse(texts, words=_TRUTH if attribute.kind == "boolean" else {})
        codes = number_codes(attribute, numbers)
        codes[foreign] = FOREIGN
    codes[_is_null_text(attribute, texts)] = NULL
    return np.asarray(codes, dtype=np.int64)


def _is_null_text(attribute: Attribute, texts: pa.Array) -> NDArray[np.bool_]:
    nothing = pa.array(["", *(_null_text(value) for value in attribute.null_values)], pa.string())
    empty = pc.fill_null(pc.is_in(texts, value_set=nothing), True).to_numpy(zero_copy_only=False)
    return np.asarray(empty | texts.is_null().to_numpy(zero_copy_only=False))


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
    column = plain_column(column)
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


def plain_column(column: pa.Array) -> pa.Array:
    """A column to encode without the Arrow wrappings that mean nothing here, such as dictionaries."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.RunEndEncodedArray):
        column = pc.run_end_decode(column)
    if pa.types.is_string_view(column.type) or pa.types.is_large_string(column.type):
        column = pc.cast(column, pa.string())
    return column


def lists_text(attribute: Attribute) -> bool:
    return bool(attribute.values) and isinstance(attribute.values[0], str)


def _is_machine_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_readable(kind: pa.DataType) -> bool:
    simple = _is_machine_number(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind)
    return bool(simple or pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind))
