"""A table behind a schema. Opening one reads column names only; rows are read when something is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.errors import DataError
from nabladp.person import Person
from nabladp.schema import Schema
from nabladp.tables.counts import CodedRows, Progress, no_people, no_rows, wrong_number_of_rows
from nabladp.tables.duck import BATCH_ROWS, Batches, batch_rows
from nabladp.tables.encode import Codes, Encoder
from nabladp.tables.kernels import CACHED_CELLS, Kernel, Marginals
from nabladp.tables.population import Origin
from nabladp.tables.sources import ScanSource, Source, count_codes

KEPT_BYTES = 32 << 20  # codes of files up to this size stay in memory after the first pass


class Table(CodedRows):
    """Rows of people, seen through a schema. Offers counts only; see :class:`nabladp.tables.Counts`.

    A column is encoded when something that reads it is counted, and not before: what a column holds that nobody reads
    makes nothing fail.
    """

    origin = Origin()  # of a table that was not opened by open_table, nothing is known

    def __init__(self, source: Source, schema: Schema, rows: int | None = None, person: Person | None = None) -> None:
        self.schema = schema
        self.person = person  # whose rows the source bounds; None: it hands out all
        self._source = source
        self._declared_rows = rows
        self._codes: dict[str, Codes] = {}  # of the columns that are kept, whole

    def __repr__(self) -> str:
        return f"Table({len(self.schema)} attributes)"

    @property
    def known_rows(self) -> int | None:
        """The table's number of rows where it is declared, or known without reading any; otherwise None."""
        known = self._source.known_count()
        return known if self._declared_rows is None else self._declared_rows

    @cached_property
    def n(self) -> int:
        """The table's number of rows. Public, as differential privacy here hides what a row says, not that it
        exists."""
        rows = self._source.count() if self._declared_rows is None else self._declared_rows
        if rows < 1:
            raise no_rows()
        return rows

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that is known not to be the table's."""
        known = self.known_rows
        if known not in (None, rows):
            raise other_number_of_rows(rows, known)

    def dropped(self, most: int) -> int:
        """How many rows of people are not used, counting at most ``most`` of each. No public number."""
        return self._source.dropped(most) if isinstance(self._source, DropsRows) else 0

    def check_row_order(self, names: Sequence[str] = ()) -> None:
        """Refuse a table whose rows may have another index in another pass over these columns (default: all).

        Two runs of a grouping query return its rows in different orders. Only if its codes are kept are there no two.
        """
        if not self._source.keeps_order and not self._can_keep(tuple(names) or self.schema.names):
            raise DataError(
                "The rows of this query have no fixed order, and they are too many to keep in memory; a holdout and "
                "randomized labels need one.",
                fix="Write its result to a file and release from that: copy (select …) to 'people.parquet'.",
            )

    def load(self, names: Iterable[str], progress: Progress | None = None) -> None:
        """Encode these columns of the table now, in one pass, if their codes are kept; a larger table is read when it
        is counted.

        So a column that breaks its rules is met before any noise is drawn.
        """
        wanted = frozenset(names)
        chosen = tuple(name for name in self.schema.names if name in wanted and name not in self._codes)
        if chosen and (self._source.in_memory or self._can_keep(chosen)):
            self.fold(_Nothing(chosen), progress)

    def raw_batches(self) -> Batches:
        """The table's rows themselves, for checking them against the schema."""
        return self._source.batches(self.schema.columns)

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        kernel = Marginals(self.schema, sets)
        counted = self._count_in_source(kernel)
        if counted is None:
            return super().marginals(kernel.sets, progress)
        if progress is not None:
            progress(self.n, self.n)
        return kernel.split(counted)

    def _count_in_source(self, kernel: Marginals) -> Integers | None:
        """The counts of a single joint histogram where the source can count it without handing out its rows."""
        if not isinstance(self._source, ScanSource) or all(name in self._codes for name in kernel.attributes):
            return None
        if len(kernel.joints) != 1 or kernel.bounds[-1] > CACHED_CELLS:
            return None
        counted = count_codes(self._source.scans, [self.schema[name] for name in kernel.joints[0]])
        return counted if counted is not None and int(counted.sum()) == self.n else None

    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        if not names:
            return self._no_columns()
        if all(name in self._codes for name in names):
            return self._cached_batches(names)
        if self._source.in_memory:  # a copy that nobody changes: columns of different passes belong together
            return self._read_and_cache(names, tuple(name for name in names if name not in self._codes))
        for together in (tuple(dict.fromkeys((*self._codes, *names))), names):
            if self._can_keep(together):
                return self._read_and_cache(names, together)
        return self._encode(names, ordered)

    def _no_columns(self) -> Batches:
        """The table's rows, of which nothing is read but that they are there."""
        rows = self._source.count()
        for start in range(0, rows, BATCH_ROWS):
            yield pa.RecordBatch.from_arrays([pa.nulls(min(BATCH_ROWS, rows - start))], names=["none"]).select([])

    def _of_people(self, names: tuple[str, ...]) -> Batches:
        if not isinstance(self._source, NamesPeople):
            raise no_people()
        encoder = Encoder(self.schema, names)
        with closing(self._source.people(encoder)) as batches:
            yield from batches

    def _cached_batches(self, names: tuple[str, ...]) -> Batches:
        rows = batch_rows(len(names))
        for start in range(0, self.n, rows):
            yield _batch({name: self._codes[name][start : start + rows] for name in names})

    def _read_and_cache(self, names: tuple[str, ...], read: tuple[str, ...]) -> Batches:
        """A pass over the table that keeps the codes it reads.

        In a file or query these replace the others: rows of a query may come in another order, and a file may have
        changed.
        """
        cached = self._codes if self._source.in_memory else {}
        encoder = Encoder(self.schema, read)
        fresh = {name: np.empty(self.n, encoder.code_type(name)) for name in read}
        start = 0
        with closing(self._encode(read, ordered=True)) as batches:  # later passes may ask for the order
            for batch in batches:
                end = start + batch.num_rows
                if end > self.n:
                    raise wrong_number_of_rows()
                for name in read:
                    fresh[name][start:end] = batch.column(name).to_numpy()
                yield _batch({name: (fresh if name in fresh else cached)[name][start:end] for name in names})
                start = end
        if start == self.n:
            self._codes = {**cached, **fresh}

    def _encode(self, names: tuple[str, ...], ordered: bool) -> Batches:
        encoder = Encoder(self.schema, names)
        with closing(self._source.batches(encoder.columns, ordered)) as batches:
            for batch in batches:
                yield encoder.encode(batch)

    def _can_keep(self, names: tuple[str, ...]) -> bool:
        return self.n * Encoder(self.schema, names).bytes_per_row() <= KEPT_BYTES


@runtime_checkable
class DropsRows(Protocol):
    """A source that leaves out rows of people who have many."""

    def dropped(self, most: int) -> int: ...


@runtime_checkable
class NamesPeople(Protocol):
    """A source that knows whose a row is: batches of the codes of all rows of some people, with the column PERSON."""

    def people(self, encoder: Encoder) -> Batches: ...


@dataclass(frozen=True)
class _Nothing(Kernel):
    """A kernel that only has its columns read."""

    attributes: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)


def _batch(columns: Mapping[str, Codes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(codes) for codes in columns.values()], names=list(columns))


def other_number_of_rows(declared: int, known: int | None) -> DataError:
    return DataError(
        f"The table has {known:,} rows, but the number of rows is given as {declared:,}.",
        fix=f"Write rows = {known}, or remove 'rows'.",
        rows=known,
    )
