"""Tables already in memory, as Arrow batches. Columns are taken by position, a slice of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.tables.duck import Batches, batch_rows
from nabladp.tables.values import float_text

# ---- columns of Python objects, as text ------------------------------------------------------------------------------
# Letting a library infer one type for the whole column would let one person's value change how all others are read: a
# single "unknown" among numbers turns 1.0 into "1.0" where it was 1. One row would then move many counts, and no noise
# is scaled for that. So every value becomes the text that a typed column of its own kind would give.

STRANGE = "\0"  # no declared value can be this: stands for objects that are no value of any kind
_MOST_BITS = 10_000  # Python writes no longer integers


def object_texts(values: NDArray[np.object_], null: NDArray[np.bool_]) -> pa.Array:
    """Python objects of a data frame as text, one per value; null where there is none."""
    kinds = set(map(type, values[~null]))
    if kinds <= {str}:
        known = values.copy()
        known[null] = None
        try:
            return pa.array(known, pa.string())
        except (pa.ArrowException, ValueError):  # some text is not valid Unicode: sort it out one by one
            pass
    return pa.array(_one_by_one(values, null), pa.string())


def _one_by_one(values: Iterable[Any], null: Iterable[np.bool_]) -> list[str | None]:
    return [None if missing else _text(value) for value, missing in zip(values, null, strict=True)]


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value if _is_unicode(value) else STRANGE
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value)) if int(value).bit_length() <= _MOST_BITS else STRANGE
    if _is_signal(value):
        return STRANGE
    if isinstance(value, float | np.floating | Decimal):
        return float_text(float(value))
    if isinstance(value, datetime):
        return _moment(value)
    return value.isoformat() if isinstance(value, date | time) else STRANGE


def _moment(value: datetime) -> str:
    """A Python date or time as text, as a timestamp column would be: the date alone at midnight, no needless zeros
    after the second."""
    if value.tzinfo is None and value.time() == time():
        return value.date().isoformat()
    text = value.isoformat()
    return text.rstrip("0") if "." in text and value.tzinfo is None else text


def _is_signal(value: Any) -> bool:
    return isinstance(value, Decimal) and value.is_snan()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---- tables in memory ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame(ABC):
    frame: Any
    in_memory = True
    keeps_order = True
    query = ""

    @abstractmethod
    def _names(self) -> list[str]: ...

    @abstractmethod
    def _array(self, column: int, start: int, rows: int) -> pa.Array: ...

    def categories(self, column: int) -> tuple[list[Any], bool, bool]:
        """The categories that the type of a column declares, whether they are in order, and whether they may have been
        collected from the data."""
        return [], False, False

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        yield "The table", tuple(self._names()), False

    def type_words(self) -> list[str]:
        return [arrow_type_word(self._array(i, 0, 1000).type) for i in range(len(self._names()))]

    def count(self) -> int:
        return len(self.frame)

    def known_count(self) -> int:
        return self.count()

    def batches(self, names: tuple[str, ...], ordered: bool = True) -> Batches:
        index = {name: i for i, name in enumerate(self._names())}
        rows = batch_rows(len(names))
        for start in range(0, self.count(), rows):
            arrays = [self._array(index[name], start, rows) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))


class ArrowFrame(Frame):
    def categories(self, column: int) -> tuple[list[Any], bool, bool]:
        chunks, kind = self.frame.column(column).chunks, self.frame.schema.field(column).type
        if not pa.types.is_dictionary(kind) or not chunks:
            return [], False, False
        return list(dict.fromkeys(own for chunk in chunks for own in chunk.dictionary.to_pylist())), kind.ordered, True

    def _names(self) -> list[str]:
        return list(self.frame.column_names)

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        return _whole(self.frame.column(column).slice(start, rows))


class PolarsFrame(Frame):
    def categories(self, column: int) -> tuple[list[Any], bool, bool]:
        import polars

        kind = self.frame.dtypes[column]  # a Categorical holds whatever occurred anywhere, so it declares nothing
        return (kind.categories.to_list(), True, False) if isinstance(kind, polars.Enum) else ([], False, False)

    def _names(self) -> list[str]:
        return list(self.frame.columns)

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        series = self.frame.to_series(column).slice(start, rows)
        if series.dtype.is_(_polars_object()):
            values = np.array([*series.to_list(), None], dtype=object)[:-1]  # the None keeps lists from becoming axes
            return object_texts(values, np.array([value is None for value in values], dtype=bool))
        return _whole(series.to_arrow())


class PandasFrame(Frame):
    def categories(self, column: int) -> tuple[list[Any], bool, bool]:
        kind = self.frame.dtypes.iloc[column]
        return (kind.categories.tolist(), kind.ordered, True) if hasattr(kind, "categories") else ([], False, False)

    def _names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        series = self.frame.iloc[start : start + rows, column]
        # Only pandas' categorical type has categories; pandas is not imported here
        kind = series.dtype.categories.dtype if hasattr(series.dtype, "categories") else series.dtype
        if isinstance(kind, np.dtype) and kind.hasobject:
            return _objects(series)
        try:
            return _whole(pa.array(series, from_pandas=True))
        except (pa.ArrowException, UnicodeError):  # complex or sparse numbers, or half of a surrogate pair
            return _objects(series)


def _objects(series: Any) -> pa.Array:
    values = series.to_numpy(dtype=object)
    try:
        return object_texts(values, np.asarray(series.isna()))
    except ArithmeticError:  # of pandas, when it looks at a signalling NaN
        readable = np.where(list(map(_is_signal, values)), STRANGE, values)
        return object_texts(readable, np.asarray(type(series)(readable, dtype=object).isna()))


def _polars_object() -> Any:
    import polars

    return polars.Object


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def arrow_type_word(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return arrow_type_word(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "real"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "date" if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else "text"
