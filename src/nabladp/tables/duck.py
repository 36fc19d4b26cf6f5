"""DuckDB as a stream of batches: bounded memory, no network, no data in error texts, and Ctrl-C at any time."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from queue import Empty, Full, Queue
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa

from nabladp.errors import NablaDPError, SourceError

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 21  # wide tables get shorter batches
CONVERT = "Convert it, for example with iconv -f latin1 -t utf-8."
Batches = Generator[pa.RecordBatch, None, None]


def batch_rows(columns: int) -> int:
    return max(1 << 11, min(BATCH_ROWS, BATCH_VALUES // max(1, columns)))


@contextmanager
def connection(folder: str = "", ordered: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A private in-memory DuckDB database that cannot fetch extensions or see Python variables.

    Relative paths in a query are looked for in ``folder``, too. What a query has to spill goes to a folder of its own,
    removed at the end.
    """
    with TemporaryDirectory(prefix="nabladp-") as spill:
        settings: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "enable_external_file_cache": "false",
            "preserve_insertion_order": str(ordered).lower(),  # most counts do not depend on the order of rows
            "memory_limit": "1GB",
            "threads": str(min(4, os.cpu_count() or 1)),
            "temp_directory": spill,
            "lock_configuration": "true",
            "disabled_optimizers": _rejecting_optimizers(),
        }
        if folder:
            settings["file_search_path"] = folder
        database = duckdb.connect(":memory:", config=settings)
        try:
            yield database
        finally:
            database.close()


@lru_cache(maxsize=1)
def _rejecting_optimizers() -> str:
    """DuckDB's optimizer that lets a CSV file be read with the type of a later cast: then try_cast, which should turn
    what it cannot read into a null, fails instead."""
    with closing(duckdb.connect(":memory:")) as database:
        known = {str(name) for (name,) in database.execute("select * from duckdb_optimizers()").fetchall()}
    return ",".join(sorted(known & {"type_pushdown"}))


def stream(queries: Iterable[tuple[str, str]], rows: int, folder: str = "", ordered: bool = False) -> Batches:
    """Stream the results of DuckDB queries one after the other, a batch at a time; beside each query, what it reads,
    for errors.

    DuckDB runs in a thread of its own: its calls may not notice Ctrl-C, while this one always does and stops it.
    """
    with connection(folder, ordered) as database:
        ready: Queue[Any] = Queue(maxsize=2)
        stopped = Event()

        def put(item: Any) -> None:
            while not stopped.is_set():
                try:
                    return ready.put(item, timeout=0.1)
                except Full:
                    continue

        def produce() -> None:
            what = "The table"
            try:
                for sql, what in queries:  # noqa: B007  (named where an error is caught)
                    for batch in database.sql(sql).to_arrow_reader(rows):
                        put(batch)
                        if stopped.is_set():
                            return
                put(None)
            except BaseException as error:
                put(readable(error, what))

        producer = Thread(target=produce, name="nabladp-duckdb", daemon=True)
        producer.start()
        try:
            while (item := _wait_for(ready)) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            while producer.is_alive():
                database.interrupt()
                producer.join(0.05)


def _wait_for(ready: Queue[Any]) -> Any:
    """The next item of the DuckDB thread. Wakes up now and then, since some libraries let a signal pass without ending
    a long wait."""
    while True:
        try:
            return ready.get(timeout=0.1)
        except Empty:
            continue


def readable(error: BaseException, what: str) -> BaseException:
    """Our error for one of DuckDB's, whose texts quote rows: only the kind of fault is kept."""
    if isinstance(error, NablaDPError) or not isinstance(error, Exception):
        return error
    text = str(error).lower()
    if isinstance(error, (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException)):
        reason = str(error).splitlines()[0]
        message = (
            f"{what} is not valid: {reason}" if "://" not in reason else f"{what} names a table that is an address."
        )
        return SourceError(message, fix="Correct the query.")  # an address is never repeated: it may hold a password
    for sign, rule, fix in _FAULTS:
        if sign in text:
            return SourceError(f"{what} {rule}.", fix=fix, rule=rule)
    return SourceError(f"{what} cannot be read.", fix="Check that it is complete and of the kind its name says.")


_FAULTS = (
    ("expected number of columns", "has rows of different lengths", "Give every row as many fields as the header."),
    (
        "sniffing file",
        "is not a regular CSV file",
        "Give every row as many fields as the header, with one delimiter and one kind of quotes.",
    ),
    ("unicode", "is not UTF-8 text", CONVERT),
    ("utf-8", "is not UTF-8 text", CONVERT),
    ("utf8", "is not UTF-8 text", CONVERT),
    (
        "unterminated quote",
        "has a quoted field that does not end",
        "Close the quotes, and double those inside a field.",
    ),
    ("maximum line size", "has a line that is too long", "Check its quotes and line ends."),
    ("csv parser state", "is not a regular CSV file", "Use one kind of line end and one delimiter throughout."),
    ("malformed json", "is not valid JSON", "Write one object per line, or one list of objects."),
    ("could not convert", "meets a value it cannot convert", "Use try_cast in the query, or clean the column before."),
    ("conversion error", "meets a value it cannot convert", "Use try_cast in the query, or clean the column before."),
    ("out of memory", "needs more memory than allowed", "Simplify the query, or write its result to Parquet first."),
    ("permission denied", "may not be read", "Ask for permission to read it."),
    ("no files found", "names a file that does not exist", "Check the paths in it."),
    ("no space left", "needs more disk than there is", "Free space in the temporary folder."),
)


def type_word(kind: str) -> str:
    """A word for one of DuckDB's types, as a schema would have it."""
    return next((word for starts, word in _WORDS if kind.upper().startswith(starts)), "text")


_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        "integer",
    ),
    (("UHUGEINT",), "integer"),
    (("FLOAT", "DOUBLE", "DECIMAL"), "real"),
    (("BOOLEAN",), "boolean"),
    (("DATE", "TIMESTAMP"), "date"),
)
