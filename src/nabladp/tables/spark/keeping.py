"""Codes that Spark keeps in memory between passes, where they fit."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nabladp.schema import Schema
from nabladp.tables.encode import Encoder
from nabladp.tables.spark import tasks
from nabladp.tables.spark.frame import SparkFrame
from nabladp.tables.spark.shipping import Shipping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        """A data frame, and how a task comes by the codes of these columns in it."""
        wanted = frozenset(names)
        if self._frame is None or not wanted <= self._names:
            if not wanted <= self._read or not self._fits(n):
                return self._source.columns(names), tasks.FromValues(Encoder(self._schema, names))
            self._frame = self._keep()
        return self._frame, tasks.FromKept(names)

    def note(self, names: tuple[str, ...]) -> None:
        """These columns were read and broke no rule; one that does must not stop who reads others."""
        self._read |= frozenset(names)

    def _fits(self, n: int) -> bool:
        needed = n * Encoder(self._schema, self._read).bytes_per_row()
        return needed <= KEPT_SHARE * free_memory(self._source.frame.sparkSession.sparkContext)

    def _keep(self) -> DataFrame:
        from pyspark import StorageLevel

        if self._forget is not None:
            self._forget()
        self._names = self._read
        chosen = tuple(name for name in self._schema.names if name in self._names)
        shipping = Shipping()
        frame = shipping(self._source.columns(chosen), tasks.Keep(Encoder(self._schema, chosen)))
        frame.persist(StorageLevel.MEMORY_AND_DISK)  # what is lost or pushed out is read from disk, or made again
        self._forget = weakref.finalize(self, _forget, frame, shipping)
        self._forget.atexit = False  # the session ends then anyway
        return frame


def _forget(frame: DataFrame, shipping: Shipping) -> None:
    with suppress(Exception):  # the session may be over
        frame.unpersist()
    shipping.close()


def free_memory(context: Any) -> int:
    """Bytes that all executors together could still keep. One entry of Spark's list is the driver's, without saying
    which: of several, the largest is left out."""
    places, free = context._jsc.sc().getExecutorMemoryStatus().valuesIterator(), []
    while places.hasNext():
        free.append(int(places.next()._2()))
    return sum(sorted(free)[: max(1, len(free) - 1)])
