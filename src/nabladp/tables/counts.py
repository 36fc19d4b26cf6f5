"""What a mechanism sees of a table: its schema, how many rows it has, and counts. Never a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.checks import expect, mapping
from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.tables.duck import Batches
from nabladp.tables.encode import NULL_STEP, OTHER_STEP, Encoder, as_array, code_type, grid_codes
from nabladp.tables.kernels import PERSON, Kernel, Marginals, Total

Progress = Callable[[int, int], None]  # rows done, rows in all


class Counts(ABC):
    """What every engine offers, and all that a mechanism may ask for. Never a row."""

    schema: Schema
    one_process: bool = False  # batches come one after the other, in this process

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of rows of the table: a public number."""

    @abstractmethod
    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        """The sum of a kernel's results over all rows of the table, a batch of codes at a time."""

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        """Exact counts of every combination of values, for each set of attributes, all in one pass over the rows.

        An array has one axis for each attribute of its set, in that order, as long as the attribute's size.
        """
        kernel = Marginals(self.schema, sets)
        return kernel.split(self.fold(kernel, progress)) if kernel.sets else []

    def dropped(self, most: int) -> int:
        """How many rows of people are not used, counting at most ``most`` of each. No public number: it needs noise."""
        raise no_people()

    def working(self, what: str, done: int, total: int) -> None:
        """Report how far a mechanism is with work of its own, e.g. ``("round", 3, 40)``, for someone who waits."""
        return


class CodedRows(Counts):
    """Counts over anything that can hand out its rows as batches of codes."""

    one_process = True

    @abstractmethod
    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        """All rows of the table as batches of codes of these attributes, which may be none; nothing else is read.

        ``ordered``: in the same order each time, as far as there is one.
        """

    def _of_people(self, names: tuple[str, ...]) -> Batches:
        """The same with all rows of a person in one batch, in their order, and with the column PERSON."""
        raise no_people()

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        kernel = Kernel.of(kernel)
        names = self.schema.names if kernel.attributes is None else tuple(kernel.attributes)
        rows, total = self.n, Total(kernel)
        with closing(
            self._of_people(names) if kernel.by_person else self._batches(names, kernel.by_row_index)
        ) as batches:
            for batch in batches:
                total.add(batch)
                if progress is not None:
                    progress(min(total.rows, rows), rows)
        if total.sum is None or total.rows != rows:
            raise wrong_number_of_rows()
        return total.sum


def no_people() -> DataError:
    return DataError(
        "No column of the table identifies people.",
        fix='Name the column: [person] id = "patient", or Person("patient").',
    )


def no_rows() -> DataError:
    return DataError("The table has no rows.", fix="Give a table with at least one row.")


def wrong_number_of_rows() -> DataError:
    return DataError(
        "The table has another number of rows than was stated, or counted before.",
        fix="Correct or remove 'rows' in [table]. Do not change the table while it is read; a query must return the "
        "same rows each time.",
        rule="has another number of rows than was stated, or counted before",
    )


class CodedTable(CodedRows):
    """Counts over codes already in memory: one array for each attribute. ``people``: a number for whose each row is;
    without it, each is of a person of its own."""

    def __init__(
        self,
        schema: Schema,
        codes: Mapping[str, ArrayLike],
        batch_rows: int = 1 << 16,
        people: Sequence[int] | None = None,
    ) -> None:
        expect(schema, Schema, "The schema of a table", 'Load it with Schema.load("schema.toml").')
        mapping(codes, "The codes of a table", "Give an array of codes for each attribute.")
        self.schema = schema
        columns = []
        for attribute in schema:
            if attribute.name not in codes:
                raise DataError(f"There are no codes for {attribute.name!r}.", fix="Give an array for each attribute.")
            column = as_array(codes[attribute.name])
            if column.ndim != 1 or column.dtype.kind not in "iu" or len(column) == 0:
                raise DataError(
                    f"The codes of {attribute.name!r} are not integers, one per row.", fix="Give whole numbers."
                )
            if int(column.min()) < 0 or int(column.max()) >= attribute.size:
                raise DataError(f"A code of {attribute.name!r} is outside its domain.", fix="Codes run from 0.")
            columns.append(column.astype(code_type(attribute.size)))
        if len({len(column) for column in columns}) != 1:
            raise DataError("The arrays of codes have different lengths.", fix="Give one code for each row.")
        self._rows = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=list(schema.names))
        self._batch_rows = batch_rows
        self._people = people

    @property
    def n(self) -> int:
        return int(self._rows.num_rows)

    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        chosen = self._columns(names)
        for start in range(0, self.n, self._batch_rows):
            yield chosen.slice(start, self._batch_rows)

    def dropped(self, most: int) -> int:
        return 0  # codes are of rows that are used

    def _of_people(self, names: tuple[str, ...]) -> Batches:
        whose = np.arange(self.n) if self._people is None else np.asarray(self._people, dtype=np.int64)
        yield with_people(self._columns(names), whose)

    def _columns(self, names: tuple[str, ...]) -> pa.RecordBatch:
        """The in-memory codes of these columns; on the grid, the number that a code stands for."""
        if all(name in self.schema for name in names):
            return self._rows.select(list(names))
        encoder = Encoder(self.schema, names)
        arrays = []
        for name in names:
            attribute = encoder.attribute(name)
            codes = self._rows.column(attribute.name)
            arrays.append(codes if attribute.name == name else pa.array(_on_grid(attribute, codes.to_numpy())))
        return pa.RecordBatch.from_arrays(arrays, names=list(names))


def with_people(codes: pa.RecordBatch, person: Integers) -> pa.RecordBatch:
    """A batch of codes with the column that says whose its rows are."""
    return pa.RecordBatch.from_arrays([*codes.columns, pa.array(person)], names=[*codes.schema.names, PERSON])


def _on_grid(attribute: Attribute, codes: Integers) -> NDArray[np.uint32]:
    numbers = [*(attribute.representatives if attribute.representatives is not None else ()), 0.0, 0.0]
    steps, _ = grid_codes(attribute, pa.array(np.asarray(numbers)[codes]))
    for code, offset in ((attribute.other_code, OTHER_STEP), (attribute.null_code, NULL_STEP)):
        steps = np.where(codes == code, offset, steps) if code is not None else steps
    return steps.astype(np.uint32)


class PartOfRows(Counts):
    """The rows with these indices (sorted, counted from 0), or all the others with ``inside=False``.

    Whoever draws the indices at random makes the choice independent of the rows' order: then it does not matter that a
    table is sorted by what its rows say.
    """

    def __init__(self, counts: Counts, indices: Integers, inside: bool = True) -> None:
        sorted_once = bool((np.diff(indices) > 0).all())
        if indices.ndim != 1 or not sorted_once or (len(indices) and not 0 <= indices[0] <= indices[-1] < counts.n):
            raise DataError("Row indices must be sorted and within the table.", fix="Give each once, counted from 0.")
        self.schema = counts.schema
        self._counts = counts
        self._indices = indices
        self._inside = inside

    @property
    def n(self) -> int:
        return len(self._indices) if self._inside else self._counts.n - len(self._indices)

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        if Kernel.of(kernel).by_person:  # a part of the rows may hold some of a person's and not others
            raise no_people()
        return self._counts.fold(_ChosenRows(Kernel.of(kernel), self._indices, self._inside), progress)


class _ChosenRows(Kernel):
    by_row_index = True

    def __init__(self, kernel: Kernel, indices: Integers, inside: bool) -> None:
        self.kernel, self.indices, self.inside = kernel, indices, inside
        self.attributes = kernel.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self.at(batch, 0)

    def at(self, batch: pa.RecordBatch, first: int) -> Integers:
        before, after = np.searchsorted(self.indices, (first, first + batch.num_rows)).tolist()
        chosen = np.full(batch.num_rows, not self.inside)
        chosen[self.indices[before:after] - first] = self.inside
        part = batch.filter(pa.array(chosen))
        if self.kernel.by_row_index:  # it counts its own rows
            return self.kernel.at(part, before if self.inside else first - before)
        return self.kernel(part)
