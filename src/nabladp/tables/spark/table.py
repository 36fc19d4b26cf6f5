"""Counts of a table on a cluster: sums on the executors, a tree of sums between them, and the result to the driver."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from functools import cache
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.errors import NablaDPError
from nabladp.person import Person
from nabladp.schema import Schema
from nabladp.tables.counts import Progress, no_people, with_people, wrong_number_of_rows
from nabladp.tables.duck import Batches
from nabladp.tables.encode import Encoder, Finding, source_column
from nabladp.tables.kernels import Kernel, integer_result
from nabladp.tables.spark import tasks
from nabladp.tables.spark.jobs import Share, Stopped, act
from nabladp.tables.spark.people import UsedSparkRows
from nabladp.tables.spark.reading import SparkFrame
from nabladp.tables.spark.tasks import Shipping, error_of
from nabladp.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---- codes that Spark keeps in memory between passes -----------------------------------------------------------------

KEPT_SHARE = 0.5  # of the memory that executors have free for keeping things


class Keeper:
    """Hands out rows: as values on the first pass over some columns; a second pass over them keeps their codes.

    Who reads columns twice will do so again, and who reads them once should not pay for keeping them.
    """

    def __init__(self, source: SparkFrame, schema: Schema) -> None:
        self._source, self._schema = source, schema
        self._read: frozenset[str] = frozenset()  # columns of the passes so far
        self._names: frozenset[str] = frozenset()  # columns that are kept
        self._frame: DataFrame | None = None
        self._forget: Any = None

    def rows(self, names: tuple[str, ...], n: int) -> tuple[DataFrame, tasks.Rows]:
        """A Spark data frame, and how a task gets the codes of these columns from it."""
        wanted = frozenset(names)
        if self._frame is None or not wanted <= self._names:
            if not wanted <= self._read or not self._fits(n):
                encoder = Encoder(self._schema, names)
                return self._source.columns(encoder.columns), tasks.FromValues(encoder)
            self._frame = self._keep()
        return self._frame, tasks.FromKept(names)

    def note(self, names: tuple[str, ...]) -> None:
        """Note that these columns were read and broke no rule; one that does must not stop who reads others."""
        self._read |= frozenset(names)

    def _fits(self, n: int) -> bool:
        needed = n * Encoder(self._schema, self._read).bytes_per_row()
        return needed <= KEPT_SHARE * free_memory(self._source.frame.sparkSession.sparkContext)

    def _keep(self) -> DataFrame:
        from pyspark import StorageLevel

        if self._forget is not None:
            self._forget()
        self._names = self._read
        order = {name: i for i, name in enumerate(self._schema.names)}  # the first that fails is the one to name
        encoder = Encoder(
            self._schema, sorted(self._names, key=lambda name: (order.get(source_column(name), -1), name))
        )
        shipping = Shipping()
        frame = shipping(self._source.columns(encoder.columns), tasks.Keep(encoder))
        frame.persist(StorageLevel.MEMORY_AND_DISK)  # what is lost or pushed out is read from disk, or made again
        start_forgetting()
        self._forget = weakref.finalize(self, _to_forget.put, (frame, shipping))
        self._forget.atexit = False  # the session ends then anyway
        return frame


# A finaliser may run in the middle of a command to Java, whenever Python collects garbage. A second command on that
# thread's connection would read the first one's answer, and both would wait for ever: commands go out from a thread
# that does nothing else.
_to_forget: SimpleQueue[tuple[DataFrame, Shipping]] = SimpleQueue()  # its put may interrupt itself


@cache
def start_forgetting() -> None:
    Thread(target=_forget_all, name="nabladp-spark-forget", daemon=True).start()


def _forget_all() -> None:
    while True:
        frame, shipping = _to_forget.get()
        with suppress(Exception):  # the session may be over
            frame.unpersist()
        shipping.close()
        del frame, shipping


def free_memory(context: Any) -> int:
    """The bytes that all Spark executors together could still keep.

    One entry of Spark's list is the driver's, without saying which: of several, the largest is left out.
    """
    statuses, free = context._jsc.sc().getExecutorMemoryStatus().valuesIterator(), []
    while statuses.hasNext():
        free.append(int(statuses.next()._2()))
    return sum(sorted(free)[: max(1, len(free) - 1)])


# ---- counts of a table on a cluster ----------------------------------------------------------------------------------

CHUNK = 1 << 18  # counts in a record: two megabytes
CORES_PER_BRANCH = 8  # so many cores' partial sums are added before they meet the others'
TASKS_PER_CORE = 4


class SparkTable(Table):
    """Rows stay on the executors; each pass over them is one action, and only its counts reach the driver.

    The data frame has to give the same rows each time it is evaluated.
    """

    one_process = False

    def __init__(
        self, source: SparkFrame, schema: Schema, rows: int | None = None, person: Person | None = None
    ) -> None:
        super().__init__(source, schema, rows, person)
        self._frame = source
        self._spark = source.frame.sparkSession
        self._keeper = Keeper(source, schema)

    def check_row_order(self, names: Sequence[str] = ()) -> None:
        self._frame.check_row_order()

    def load(self, names: Iterable[str], progress: Progress | None = None) -> None:
        """Nothing to load beforehand: what Spark keeps, it keeps when rows are counted."""

    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        return self._frame.batches(names, ordered)

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> NDArray[np.int64]:
        """Fold a kernel over the rows on Spark. It is first called here, with no rows, to learn the shape of its
        result."""
        kernel = Kernel.of(kernel)
        names = self.schema.names if kernel.attributes is None else tuple(kernel.attributes)
        by_row_index = kernel.by_row_index
        self._frame.check_people()
        n, nothing = self.n, self._no_rows(names)
        if kernel.by_person:
            nothing = with_people(nothing, np.empty(0, np.int64))
        shape = integer_result(kernel.at(nothing, 0)).shape
        cells = math.prod(shape)
        if kernel.by_person:
            frame, rows = self._rows_of_people(names)
        else:
            frame, rows = self._in_fixed_order(names) if by_row_index else self._rows(names, n)
        if not by_row_index:
            codes = n * Encoder(self.schema, names).bytes_per_row()
            frame = frame.coalesce(most_tasks(self._cores, codes, cells))
        branches = -(-self._cores // CORES_PER_BRANCH)
        fold = tasks.Fold(rows, kernel, branches, CHUNK, self._frame.sizes if by_row_index else None)
        total, seen = self._sum(frame, fold, cells, None if progress is None else _in_rows(progress, n))
        if seen != n:
            raise wrong_number_of_rows()
        if not kernel.by_person:
            self._keeper.note(names)
        return total.reshape(shape)

    def _rows(self, names: tuple[str, ...], n: int) -> tuple[DataFrame, tasks.Rows]:
        if not names:
            return self._frame.no_columns(), tasks.FromValues(Encoder(self.schema, ()), ("c0",))
        return self._keeper.rows(names, n)

    def _rows_of_people(self, names: tuple[str, ...]) -> tuple[DataFrame, tasks.Rows]:
        """The Spark rows, all of a person's in one partition and in the order of their row IDs."""
        if not isinstance(self._frame, UsedSparkRows):
            raise no_people()
        encoder = Encoder(self.schema, names)
        return self._frame.of_people(encoder.columns), tasks.FromPeople(encoder)

    def _in_fixed_order(self, names: tuple[str, ...]) -> tuple[DataFrame, tasks.Rows]:
        """The Spark rows with always the same columns, whichever are asked for, so that a row has the same index in
        every pass."""
        self.check_row_order()
        columns = self.schema.columns
        return self._frame.columns(columns), tasks.FromValues(Encoder(self.schema, names), columns)

    def _sum(
        self, frame: DataFrame, fold: tasks.Fold, cells: int, progress: Share | None
    ) -> tuple[NDArray[np.int64], int]:
        chunks = max(1, -(-cells // CHUNK))
        with closing(Shipping()) as ship:
            sums = ship(frame, fold)
            if fold.branches > 1:
                some = min(chunks * fold.branches, TASKS_PER_CORE * self._cores)
                sums = ship(sums.repartition(some, "chunk", "branch"), tasks.Add())
            return self._collect(ship(sums.repartition(chunks, "chunk"), tasks.Add()), cells, progress)

    def _collect(self, sums: DataFrame, cells: int, progress: Share | None) -> tuple[NDArray[np.int64], int]:
        """Bring sums from Spark to the driver a few chunks at a time, so that it never holds a large result more than
        once."""
        total, stop = np.zeros(cells, dtype=np.int64), Event()
        faults: list[NablaDPError] = []

        def collect() -> int:
            seen = 0
            for row in sums.toLocalIterator():
                if stop.is_set():
                    raise Stopped
                if row.fault is not None:
                    faults.append(error_of(row.fault))
                    continue
                part = np.frombuffer(row.data, np.int64)
                start = row.chunk * CHUNK
                total[start : start + len(part)] = part
                seen += row.rows
            return seen

        seen = act(self._spark, "counting", collect, progress, stop)
        if faults:
            raise min(faults, key=self._fault_order)
        return total, seen

    def _fault_order(self, fault: NablaDPError) -> int:
        """Sort key of faults found on Spark: if several columns fail, the first in schema order is reported."""
        column = fault.fields.get("column")
        return self.schema.names.index(column) if column in self.schema.names else -1

    def _no_rows(self, names: tuple[str, ...]) -> pa.RecordBatch:
        encoder = Encoder(self.schema, names)
        arrays = [pa.array(np.empty(0, encoder.code_type(name))) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    @property
    def _cores(self) -> int:
        return max(1, self._spark.sparkContext.defaultParallelism)

    # ---- checking -----------------------------------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """The rules of the schema that rows break, found on Spark where the rows are."""
        self._frame.check_people()
        with closing(Shipping()) as ship:
            found = ship(self._frame.columns(self.schema.columns), tasks.Find(self.schema))
            totals = found.groupBy("fault").sum("rows").toDF("fault", "rows")
            faults = [(error_of(row.fault), row.rows) for row in act(self._spark, "checking", totals.collect)]
        for fault, _ in faults:
            if "rule" not in fault.fields:  # not about a column
                raise fault
        faults.sort(key=lambda pair: self._fault_order(pair[0]))
        return [
            Finding(fault.fields["column"], fault.fields["rule"], fault.fix, rows, "between" in fault.fields)
            for fault, rows in faults
        ]

    def is_function(self, column: str, sources: tuple[str, ...]) -> bool:
        """Whether a column is a function of others on all rows on Spark; its columns must break no rule."""
        keys = [f"c{i}" for i in range(len(sources))]
        layout = ", ".join([*(f"{key} string" for key in keys), "code long"])
        with closing(Shipping()) as ship:
            task = tasks.SourceValues(self.schema, sources, column)
            pairs = ship(self._frame.columns((*sources, column)), task, layout).distinct()
            broken = pairs.groupBy(*keys).count().where("count > 1").limit(1)
            return not act(self._spark, "checking", broken.collect)


def most_tasks(cores: int, codes: int, cells: int) -> int:
    """The number of Spark tasks: a partial sum should stand for at least as many bytes of codes as it has itself, while
    all cores have work."""
    return min(max(cores, codes // (8 * max(1, cells))), (1 << 31) - 1)


def _in_rows(progress: Progress, rows: int) -> Share:
    def report(share: float) -> None:
        progress(int(share * rows), rows)

    return report
