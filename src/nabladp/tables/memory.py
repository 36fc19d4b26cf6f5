"""Tables already in memory, as Arrow batches. Columns are taken by position, a slice of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.tables.duck import Batches, batch_rows
from nabladp.tables.objects import object_texts


@dataclass(frozen=True)
class Frame(ABC):
    frame: Any
    in_memory = True
    keeps_order = True

    @abstractmethod
    def _names(self) -> list[str]: ...

    @abstractmethod
    def _array(self, column: int, start: int, rows: int) -> pa.Array: ...

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        yield "The table", tuple(self._names()), False

    def type_words(self) -> list[str]:
        return [_type_word(self._array(i, 0, 1000).type) for i in range(len(self._names()))]

    def count(self) -> int:
        return len(self.frame)

    def known_count(self) -> int:
        return self.count()

    def batches(self, names: tuple[str, ...], ordered: bool = True) -> Batches:
        places = {name: i for i, name in enumerate(self._names())}
        rows = batch_rows(len(names))
        for start in range(0, self.count(), rows):
            arrays = [self._array(places[name], start, rows) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))


class ArrowFrame(Frame):
    def _names(self) -> list[str]:
        return list(self.frame.column_names)

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        return _whole(self.frame.column(column).slice(start, rows))


class PolarsFrame(Frame):
    def _names(self) -> list[str]:
        return list(self.frame.columns)

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        series = self.frame.to_series(column).slice(start, rows)
        if series.dtype.is_(_polars_object()):
            values = np.array([*series.to_list(), None], dtype=object)[:-1]  # the None keeps lists from becoming axes
            return object_texts(values, np.array([value is None for value in values], dtype=bool))
        return _whole(series.to_arrow())


class PandasFrame(Frame):
    def _names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def _array(self, column: int, start: int, rows: int) -> pa.Array:
        series = self.frame.iloc[start : start + rows, column]
        kind = series.dtype.categories.dtype if hasattr(series.dtype, "categories") else series.dtype
        if isinstance(kind, np.dtype) and kind.hasobject:
            return object_texts(series.to_numpy(dtype=object), series.isna().to_numpy())
        return _whole(pa.array(series, from_pandas=True))


def _polars_object() -> Any:
    import polars

    return polars.Object


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _type_word(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _type_word(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "real"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "date" if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else "text"
