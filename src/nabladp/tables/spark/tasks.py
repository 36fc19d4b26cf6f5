"""What executors do with their rows. Every task is picklable, maps Arrow batches to Arrow batches, and draws nothing.

Tasks may be run again when a machine is lost: what they hand out depends on their rows alone.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import nabladp
from nabladp import errors
from nabladp.errors import DataError, NablaDPError, SourceError
from nabladp.schema import Schema
from nabladp.tables.counts import with_people
from nabladp.tables.declarations import declaration_faults
from nabladp.tables.duck import batch_rows
from nabladp.tables.encode import Encoder, encode_column
from nabladp.tables.kernels import Kernel, Total
from nabladp.tables.values import value_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---- what travels between tasks and driver ---------------------------------------------------------------------------
# Faults travel as records, too. An error raised on an executor would be tried again three times, and would come back as
# a text that may quote a row.

LAYOUT = "chunk int, branch int, rows long, data binary, fault string"
FIELDS = pa.schema(
    [("chunk", pa.int32()), ("branch", pa.int32()), ("rows", pa.int64()), ("data", pa.binary()), ("fault", pa.string())]
)


def record(
    chunk: int = 0, branch: int = 0, rows: int = 0, data: bytes = b"", fault: str | None = None
) -> pa.RecordBatch:
    values = (chunk, branch, rows, data, fault)
    return pa.RecordBatch.from_arrays(
        [pa.array([v], f.type) for v, f in zip(values, FIELDS, strict=True)], schema=FIELDS
    )


def fault_of(error: NablaDPError) -> str:
    return json.dumps([type(error).__name__, error.message, error.fix, error.fields], default=str)


def error_of(fault: str) -> NablaDPError:
    name, message, fix, fields = json.loads(fault)
    kind = getattr(errors, name, SourceError)
    error: NablaDPError = kind(message, fix=fix, **fields)
    return error


# ---- a task on its way to the executors ------------------------------------------------------------------------------

PACKAGES = ("numpy", "pyarrow", "numba")
Run = Callable[[Iterator[Any]], Iterator[Any]]


def driver_versions() -> dict[str, str]:
    """The versions that Spark executors must agree on: Python and packages in their first two numbers, nabladp in
    all."""
    same = {name: ".".join(version(name).split(".")[:2]) for name in PACKAGES}
    return {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}", "nabladp": nabladp.__version__, **same}


class Shipping:
    """Sends tasks to the rows of data frames. Tasks are broadcast: a list they carry reaches each executor once.

    Close it when nothing that was sent will run again.
    """

    def __init__(self) -> None:
        self._sent: list[Any] = []

    def __call__(self, frame: DataFrame, task: Any, layout: str = LAYOUT) -> DataFrame:
        from pyspark import cloudpickle

        self._sent.append(frame.sparkSession.sparkContext.broadcast(cloudpickle.dumps(task)))  # type: ignore[no-untyped-call]
        return frame.mapInArrow(executor_function(self._sent[-1], driver_versions()), layout)

    def close(self) -> None:
        with suppress(Exception):  # the session may be over
            while self._sent:
                self._sent.pop().destroy()


def executor_function(task: Any, wanted: Mapping[str, str]) -> Run:
    """The function that a Spark executor runs: ``task`` is a broadcast of the pickled task.

    The function inside is sent by value and leans on nothing of ours, so that it can tell of an executor where there is
    no nabladp. It looks at every task: executors come and go.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import json
        import pickle
        import sys
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        def own_version(name: str) -> str:
            try:
                if name == "Python":
                    return f"{sys.version_info[0]}.{sys.version_info[1]}"
                if name == "nabladp":  # may have been shipped as plain files
                    import nabladp

                    return nabladp.__version__
                return ".".join(version(name).split(".")[:2])
            except (ImportError, PackageNotFoundError):
                return "none"

        other = {name: own_version(name) for name in wanted if own_version(name) != wanted[name]}
        if other:
            what = ", ".join(f"{name} {there} where the driver has {wanted[name]}" for name, there in other.items())
            fix = "Give executors the driver's environment, installed on each or sent along with spark.archives."
            fault = json.dumps(["MissingPart", f"An executor has {what}.", fix, {"packages": sorted(other)}])
            zero = pa.array([0], pa.int32())
            columns = [zero, zero, pa.array([0], pa.int64()), pa.array([b""], pa.binary()), pa.array([fault])]
            yield pa.RecordBatch.from_arrays(columns, names=["chunk", "branch", "rows", "data", "fault"])
            return
        yield from pickle.loads(task.value)(batches)

    return run


# ---- tasks -----------------------------------------------------------------------------------------------------------

_KEPT_BYTES = 1 << 20  # of codes in a record
Batches = Iterator[pa.RecordBatch]


class Rows(Protocol):
    """How a task comes by the codes of its rows."""

    def codes(self, batches: Batches) -> Batches: ...


@dataclass(frozen=True)
class FromValues:
    """Rows as they are in the table, encoded on the way. ``columns``: those they have, where there are more."""

    encoder: Encoder
    columns: tuple[str, ...] | None = None

    def codes(self, batches: Batches) -> Batches:
        columns = self.columns or self.encoder.columns
        for batch in gather(batches, columns, batch_rows(len(columns))):
            yield self.encoder.encode(batch.select(list(self.encoder.columns)))


@dataclass(frozen=True)
class FromKept:
    """Codes that :class:`Keep` has packed."""

    names: tuple[str, ...]

    def codes(self, batches: Batches) -> Batches:
        for batch in batches:
            for data, fault in zip(batch.column("data"), batch.column("fault"), strict=True):
                if fault.is_valid:
                    raise error_of(fault.as_py())
                with pa.ipc.open_stream(data.as_buffer()) as packed:
                    for codes in packed:
                        yield codes.select(list(self.names))


@dataclass(frozen=True)
class FromPeople:
    """Rows of people, all of each one's after each other: encoded, in batches that hold whole people. The last column
    is the rank of a row among its person's."""

    encoder: Encoder

    def codes(self, batches: Batches) -> Batches:
        columns = tuple(f"c{i}" for i in range(len(self.encoder.columns)))
        waiting: list[pa.RecordBatch] = []  # the beginning of a person's rows
        for batch in gather(batches, (*columns, "rank"), batch_rows(len(columns) + 1)):
            first = np.flatnonzero(batch.column("rank").to_numpy() == 1)
            if len(first):
                yield from self._encode([*waiting, batch.slice(0, first[-1])])
                waiting, batch = [], batch.slice(first[-1])
            waiting.append(batch)
        yield from self._encode(waiting)

    def _encode(self, batches: list[pa.RecordBatch]) -> Batches:
        for batch in _join([batch for batch in batches if batch.num_rows]):
            values = pa.RecordBatch.from_arrays(batch.columns[:-1], names=list(self.encoder.columns))
            codes = self.encoder.encode(values) if self.encoder.names else batch.select([])
            yield with_people(codes, np.cumsum(batch.column("rank").to_numpy() == 1))


def gather(batches: Batches, names: tuple[str, ...], rows: int) -> Batches:
    """Longer Arrow batches from Spark's short ones, which are counted faster. Times are in UTC, whatever the session's
    zone."""
    waiting: list[pa.RecordBatch] = []
    rows_waiting = 0
    for batch in batches:
        waiting.append(_rename_columns(batch, names))
        rows_waiting += batch.num_rows
        if rows_waiting >= rows:
            yield from _join(waiting)
            waiting, rows_waiting = [], 0
    if rows_waiting:
        yield from _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> Batches:
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _rename_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_in_utc(column) for column in batch.columns], names=list(names))


def _in_utc(column: pa.Array) -> pa.Array:
    zoned = pa.types.is_timestamp(column.type) and column.type.tz
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if zoned else column


@dataclass(frozen=True)
class Keep:
    """Codes packed into few long records, which Spark can hold in memory and hand back fast."""

    encoder: Encoder

    def __call__(self, batches: Batches) -> Batches:
        most = max(1, _KEPT_BYTES // self.encoder.bytes_per_row())
        try:
            for codes in FromValues(self.encoder).codes(batches):
                for start in range(0, codes.num_rows, most):
                    yield record(rows=min(most, codes.num_rows - start), data=_serialize(codes.slice(start, most)))
        except NablaDPError as error:
            yield record(fault=fault_of(error))


def _serialize(codes: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, codes.schema) as writer:
        writer.write_batch(codes)
    return bytes(sink.getvalue())


@dataclass(frozen=True, eq=False)
class Fold:
    """The sum of a kernel over a partition's rows, in chunks. ``sizes``: how many rows each partition has, if the
    kernel has to know where its rows stand; a partition with another number of rows would shift all others."""

    rows: Rows
    kernel: Kernel
    branches: int
    chunk: int
    sizes: NDArray[np.int64] | None = None

    def __call__(self, batches: Batches) -> Batches:
        partition = partition_id()
        try:
            total, seen = self._sum(self.rows.codes(batches), partition)
        except NablaDPError as error:
            yield record(fault=fault_of(error))
            return
        if total is None:
            return
        flat = total.reshape(-1)
        for number, start in enumerate(range(0, max(1, len(flat)), self.chunk)):
            data = flat[start : start + self.chunk].tobytes()
            yield record(number, partition % self.branches, seen if number == 0 else 0, data)

    def _sum(self, batches: Batches, partition: int) -> tuple[NDArray[np.int64] | None, int]:
        total = Total(self.kernel, 0 if self.sizes is None else int(self.sizes[:partition].sum()))
        for batch in batches:
            total.add(batch)
        if self.sizes is not None and total.rows != (self.sizes[partition] if partition < len(self.sizes) else 0):
            raise DataError(
                "The rows of the Spark table are not spread over its partitions in the same way each time.",
                fix="Write it to Parquet or Delta and release from there, or leave out holdout and responses.",
            )
        return total.sum, total.rows


def partition_id() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


class Add:
    """One level of the tree: sums chunks of the same number."""

    def __call__(self, batches: Batches) -> Batches:
        totals: dict[int, list[Any]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                if row["fault"] is not None:
                    yield record(fault=row["fault"])
                    continue
                part = np.frombuffer(row["data"], np.int64)
                entry = totals.setdefault(row["chunk"], [np.zeros(len(part), np.int64), 0])
                entry[0] += part
                entry[1] += row["rows"]
        for chunk, (total, rows) in totals.items():
            yield record(chunk, 0, rows, total.tobytes())


@dataclass(frozen=True)
class Find:
    """The rules of the schema that a partition's rows break, each with the number of these rows."""

    schema: Schema

    def __call__(self, batches: Batches) -> Batches:
        names, rows = self.schema.columns, Counter[str]()
        for batch in gather(batches, names, batch_rows(len(names))):
            codes, sound = {}, set(names)
            for attribute in map(self.schema.__getitem__, names):
                codes[attribute.name], faults = encode_column(attribute, batch.column(attribute.name))
                rows.update({fault_of(fault.error()): fault.rows for fault in faults})
                sound -= {attribute.name} if faults else set()
            for found in declaration_faults(self.schema, batch, codes, frozenset(sound)):
                rows.update({fault_of(found.error()): found.rows})
        for fault in sorted(rows):
            yield record(fault=fault, rows=rows[fault])


@dataclass(frozen=True)
class SourceValues:
    """The values of some columns as texts, and the codes of one that may follow from them, for Spark to compare."""

    schema: Schema
    sources: tuple[str, ...]
    column: str

    def __call__(self, batches: Batches) -> Batches:
        names = (*self.sources, self.column)
        labels = [*(f"c{i}" for i in range(len(self.sources))), "code"]
        for batch in gather(batches, names, batch_rows(len(names))):
            codes, _ = encode_column(self.schema[self.column], batch.column(self.column))
            columns = [value_texts(batch.column(name)) for name in self.sources]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(codes).cast(pa.int64())], names=labels)
