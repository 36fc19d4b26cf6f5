"""A table behind a schema. Opening one reads column names only; rows are read when something is counted."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from nabladp.errors import DataError
from nabladp.schema import Schema
from nabladp.tables.counts import CodedRows
from nabladp.tables.duck import Batches
from nabladp.tables.encode import Encoder
from nabladp.tables.sources import Source, open_source
from nabladp.tables.spark import SparkFrame

KEPT_BYTES = 32 << 20  # codes of files up to this size stay in memory after the first pass


class Table(CodedRows):
    """Rows of people, seen through a schema. Offers counts only; see :class:`nabladp.tables.Counts`."""

    def __init__(self, source: Source, schema: Schema, rows: int | None = None) -> None:
        self.schema = schema
        self._source = source
        self._declared_rows = rows
        self._codes: list[pa.RecordBatch] | None = None

    def __repr__(self) -> str:
        return f"Table({len(self.schema)} attributes)"

    @property
    def known_rows(self) -> int | None:
        """The number of rows where it is declared, or known without reading any; otherwise None."""
        known = self._source.known_count()
        return known if self._declared_rows is None else self._declared_rows

    @cached_property
    def n(self) -> int:
        """How many rows there are. Public, as differential privacy here hides what a row says, not that it exists."""
        rows = self._source.count() if self._declared_rows is None else self._declared_rows
        if rows < 1:
            raise DataError("The table has no rows.", fix="Give a table with at least one row.")
        return rows

    def check_places(self) -> None:
        """Refuses a table whose rows may stand elsewhere in another pass; here they never do."""

    def raw_batches(self) -> Batches:
        """The rows themselves, for checking them against the schema."""
        return self._source.batches(self.schema.names)

    def _batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        if self._codes is None and self._keeps_codes():
            kept = []
            for batch in self._encoded(self.schema.names, ordered=True):  # later passes may ask for it
                kept.append(batch)
                yield batch.select(list(names))
            self._codes = kept
        elif self._codes is not None:
            for batch in self._codes:
                yield batch.select(list(names))
        else:
            yield from self._encoded(names, ordered)

    def _encoded(self, names: tuple[str, ...], ordered: bool) -> Batches:
        encoder = Encoder(self.schema, names)
        with closing(self._source.batches(names, ordered)) as batches:
            for batch in batches:
                yield encoder.encode(batch)

    def _keeps_codes(self) -> bool:
        return self._source.in_memory or self.n * Encoder(self.schema).bytes_per_row() <= KEPT_BYTES


def open_table(source: Any, schema: Schema, rows: int | None = None, *, folder: str | Path = "") -> Table:
    """Open a CSV, Parquet or JSON file, a glob of them, a DuckDB query, a pandas, polars or Arrow table, or a Spark
    DataFrame (or the ``source`` of a plan that names a Spark reader).

    Checks that it can be read and has the columns of the schema, and reads no rows (of JSON, the names in the first
    records). ``rows`` is their number where it is known beforehand; a table with any other number is refused when it is
    counted. ``folder`` is where relative paths inside a query start. Each row of a query must be made from one person's
    data alone, and who is in it must not depend on a protected attribute: no such filter, window, limit or sample.
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise DataError("The number of rows must be a whole number above zero.", fix="Leave it out to have it counted.")
    opened = open_source(source, frozenset(schema.names), str(folder))
    for what, columns, is_text in opened.headers():
        _check_columns(what, columns, is_text, schema)
    if rows is not None and opened.known_count() not in (None, rows):
        raise DataError(
            "The table does not have the number of rows it was said to have.", fix="Correct or remove 'rows'."
        )
    if isinstance(opened, SparkFrame):
        from nabladp.tables.spark.table import SparkTable  # which builds on this module

        return SparkTable(opened, schema, rows)
    return Table(opened, schema, rows)


def column_types(source: Any) -> list[tuple[str, str]]:
    """Each column with a word for its type: ``integer``, ``real``, ``boolean``, ``date`` or ``text``."""
    opened = open_source(source)
    _, columns, _ = next(iter(opened.headers()))
    return list(zip(columns, opened.type_words(), strict=True))


def _check_columns(what: str, columns: Sequence[str], is_text: bool, schema: Schema) -> None:
    times = Counter(columns)
    for name in schema.names:
        if times[name] > 1:
            raise DataError(f"{what} has the column {name!r} twice.", fix="Rename or remove one.", column=name)
    missing = [name for name in schema.names if name not in times]
    if not missing:
        return
    if is_text and len(missing) == len(schema):  # perhaps no header at all: then its first line is a person
        fix = "Put the column names into the first line, as the schema writes them."
        raise DataError(f"{what} names no column of the schema in its first line.", fix=fix, columns=missing)
    near = difflib.get_close_matches(missing[0], times, n=1)
    fix = f"Did you mean {near[0]!r}?" if near else "Correct its name in the schema, or remove it there."
    more = f" (nor {len(missing) - 1} others)" if len(missing) > 1 else ""
    raise DataError(f"{what} has no column {missing[0]!r}{more}.", fix=fix, column=missing[0], columns=missing)
