"""What executors do with their rows. Every task is picklable, maps Arrow batches to Arrow batches, and draws nothing.

Tasks may be run again when a machine is lost: what they hand out depends on their rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.errors import DataError, NablaDPError
from nabladp.schema import Schema
from nabladp.tables.duck import batch_rows
from nabladp.tables.encode import Encoder, encode_column
from nabladp.tables.kernels import Kernel, Total
from nabladp.tables.spark.shipping import error_of, fault_of, record

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
        columns = self.columns or self.encoder.names
        for batch in gathered(batches, columns, batch_rows(len(columns))):
            yield self.encoder.encode(batch.select(list(self.encoder.names)))


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


def gathered(batches: Batches, names: tuple[str, ...], rows: int) -> Batches:
    """Spark's batches are short; longer ones are counted faster. Times are told in UTC, whatever the session's zone."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        waiting.append(_named(batch, names))
        held += batch.num_rows
        if held >= rows:
            yield from _joined(waiting)
            waiting, held = [], 0
    if held:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Batches:
    if len(batches) == 1:
        yield batches[0]
    else:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _named(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
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
                    yield record(rows=min(most, codes.num_rows - start), data=_packed(codes.slice(start, most)))
        except NablaDPError as error:
            yield record(fault=fault_of(error))


def _packed(codes: pa.RecordBatch) -> bytes:
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
            total, seen = self._summed(self.rows.codes(batches), partition)
        except NablaDPError as error:
            yield record(fault=fault_of(error))
            return
        if total is None:
            return
        flat = total.reshape(-1)
        for number, start in enumerate(range(0, max(1, len(flat)), self.chunk)):
            data = flat[start : start + self.chunk].tobytes()
            yield record(number, partition % self.branches, seen if number == 0 else 0, data)

    def _summed(self, batches: Batches, partition: int) -> tuple[NDArray[np.int64] | None, int]:
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
            for one in batch.to_pylist():
                if one["fault"] is not None:
                    yield record(fault=one["fault"])
                    continue
                part = np.frombuffer(one["data"], np.int64)
                held = totals.setdefault(one["chunk"], [np.zeros(len(part), np.int64), 0])
                held[0] += part
                held[1] += one["rows"]
        for chunk, (total, rows) in totals.items():
            yield record(chunk, 0, rows, total.tobytes())


@dataclass(frozen=True)
class Find:
    """The rules of the schema that a partition's rows break, each once."""

    schema: Schema

    def __call__(self, batches: Batches) -> Batches:
        names, told = self.schema.names, set[str]()
        for batch in gathered(batches, names, batch_rows(len(names))):
            for attribute in self.schema:
                _, faults = encode_column(attribute, batch.column(attribute.name))
                told.update(fault_of(fault.error()) for fault in faults)
        for fault in sorted(told):
            yield record(fault=fault)


@dataclass(frozen=True)
class Columns:
    """Codes as columns of whole numbers, for Spark to compare."""

    encoder: Encoder

    def __call__(self, batches: Batches) -> Batches:
        for codes in FromValues(self.encoder).codes(batches):
            columns = [column.cast(pa.int64()) for column in codes.columns]
            yield pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
