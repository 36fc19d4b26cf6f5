"""What a mechanism sees of a table: its schema, how many rows it has, and counts. Never a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from nabladp.errors import DataError, MechanismError
from nabladp.schema import Schema
from nabladp.tables.duck import Batches
from nabladp.tables.encode import code_type
from nabladp.tables.marginals import Marginals

Kernel = Callable[..., NDArray[np.int64]]  # of a batch, and where asked for the number of its first row
Progress = Callable[[int, int], None]  # rows done, rows in all


class Counts(Protocol):
    """What every engine offers, and all that a mechanism may ask for."""

    @property
    def n(self) -> int: ...
    @property
    def schema(self) -> Schema: ...
    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[NDArray[np.int64]]: ...
    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]: ...


class CodedRows(ABC):
    """Both ways to count, over anything that can hand out its rows as batches of codes."""

    schema: Schema
    one_process = True  # batches come one after the other, in this process

    @property
    @abstractmethod
    def n(self) -> int:
        """How many rows there are: a public number."""

    @abstractmethod
    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        """All rows as codes of these attributes, which may be none; nothing else of them is looked at.

        ``ordered``: in the same order each time, as far as there is one.
        """

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[NDArray[np.int64]]:
        """Counts of every combination of values, for each set of attributes, all in one pass over the rows.

        An array has one axis for each attribute of its set, in that order, as long as the attribute's size.
        """
        kernel = Marginals(self.schema, sets)
        return kernel.split(self.fold(kernel, progress)) if kernel.sets else []

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]:
        """The sum of ``kernel(batch)`` over all rows, a batch of codes at a time.

        The kernel is picklable, draws nothing, and returns an int64 array of one fixed shape. ``kernel.attributes``
        names the columns it needs; without it, it gets them all. With ``kernel.by_position`` it is called as
        ``kernel(batch, first)``, first being the number of the batch's first row, and rows come in their own order.
        """
        names = tuple(getattr(kernel, "attributes", self.schema.names))
        by_position = bool(getattr(kernel, "by_position", False))
        in_place = None if by_position else getattr(kernel, "add_to", None)
        rows, total, seen = self.n, None, 0
        with closing(self._batches(names, by_position)) as batches:
            for batch in batches:
                if total is not None and in_place is not None:
                    in_place(total, batch)
                else:
                    total = added(total, kernel(batch, seen) if by_position else kernel(batch))
                seen += batch.num_rows
                if progress is not None:
                    progress(min(seen, rows), rows)
        if total is None or seen != rows:
            raise wrong_number_of_rows()
        return total


def wrong_number_of_rows() -> DataError:
    return DataError(
        "The table does not have the number of rows it was said to have.",
        fix="Correct or remove 'rows'; do not change the table while it is read; give a query that always "
        "returns the same rows.",
        rule="does not have the number of rows it was said to have",
    )


def whole(part: Any) -> NDArray[np.int64]:
    if not isinstance(part, np.ndarray) or part.dtype != np.int64:
        raise MechanismError("A kernel must return an int64 array.", fix="Convert its result with astype(np.int64).")
    return part


def added(total: NDArray[np.int64] | None, part: Any) -> NDArray[np.int64]:
    found = whole(part)
    if total is None:
        return found.copy()
    if found.shape != total.shape:
        raise MechanismError("A kernel must return arrays of one shape.", fix="Let its shape depend on nothing.")
    total += found
    return total


class CodedTable(CodedRows):
    """Counts over codes already in memory: one array for each attribute."""

    def __init__(self, schema: Schema, codes: Mapping[str, ArrayLike], batch_rows: int = 1 << 16) -> None:
        self.schema = schema
        columns = []
        for attribute in schema:
            if attribute.name not in codes:
                raise DataError(f"There are no codes for {attribute.name!r}.", fix="Give an array for each attribute.")
            column = np.asarray(codes[attribute.name])
            if column.ndim != 1 or column.dtype.kind not in "iu" or len(column) == 0:
                raise DataError(
                    f"The codes of {attribute.name!r} are not integers, one a row.", fix="Give whole numbers."
                )
            if int(column.min()) < 0 or int(column.max()) >= attribute.size:
                raise DataError(f"A code of {attribute.name!r} is outside its domain.", fix="Codes run from 0.")
            columns.append(column.astype(code_type(attribute.size)))
        if len({len(column) for column in columns}) != 1:
            raise DataError("The arrays of codes have different lengths.", fix="Give one code for each row.")
        self._rows = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=list(schema.names))
        self._batch_rows = batch_rows

    @property
    def n(self) -> int:
        return int(self._rows.num_rows)

    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        chosen = self._rows.select(list(names))
        for start in range(0, self.n, self._batch_rows):
            yield chosen.slice(start, self._batch_rows)
