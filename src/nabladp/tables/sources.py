"""Where rows come from. A source knows its column names at once and hands out rows, a batch at a time, when asked."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from nabladp.errors import SourceError
from nabladp.tables import scans
from nabladp.tables.duck import Batches
from nabladp.tables.memory import ArrowFrame, PandasFrame, PolarsFrame
from nabladp.tables.scans import Scan, scan_file, scan_query
from nabladp.tables.spark import SparkFrame, is_spark, read_spark

_ADDRESS = re.compile(r"://|\bpassword\s*=", re.IGNORECASE)
_QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)


class Source(Protocol):
    """Rows that can be read any number of times."""

    @property
    def in_memory(self) -> bool: ...
    @property
    def keeps_order(self) -> bool:
        """Whether rows come in the same order each time they are asked for in order."""
        ...

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """What it is, its column names, and whether these are a line of text; one for each file."""
        ...

    def type_words(self) -> list[str]: ...
    def known_count(self) -> int | None:
        """How many rows there are, if that can be told without reading any."""
        ...

    def count(self) -> int: ...
    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches: ...


@dataclass(frozen=True)
class ScanSource:
    """A query, a file, or several files read one after the other."""

    scans: tuple[Scan, ...]
    in_memory = False

    @property
    def keeps_order(self) -> bool:
        return all(scan.keeps_order for scan in self.scans)

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        return ((scan.what, scan.columns, scan.header_is_text) for scan in self.scans)

    def type_words(self) -> list[str]:
        return scans.type_words(self.scans[0])

    def known_count(self) -> int | None:
        known = [scan.rows for scan in self.scans]
        return None if None in known else sum(rows for rows in known if rows is not None)

    def count(self) -> int:
        known = self.known_count()
        return scans.count(self.scans) if known is None else known

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        return scans.rows(self.scans, names, ordered)


def open_source(source: Any, expected: frozenset[str] = frozenset(), folder: str = "") -> Source:
    """A file, a glob, a query, a table in memory or on Spark. pandas, polars and Spark are imported by those who use
    them."""
    if isinstance(source, (str, Path)):
        return ScanSource(_scans(source, expected, folder))
    if isinstance(source, Mapping):
        return SparkFrame(read_spark(source, folder))
    if is_spark(source):
        return SparkFrame(source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return ArrowFrame(source)
    library, name = type(source).__module__.partition(".")[0], type(source).__name__
    if (library, name) == ("pandas", "DataFrame"):
        return PandasFrame(source.copy(deep=False))  # its columns are read one by one: sorting it in between is no harm
    if (library, name) == ("polars", "DataFrame"):
        return PolarsFrame(source.clone())
    fix = "Give a file, a glob, a DuckDB query, a pandas, polars or Arrow table, or a Spark DataFrame."
    if name in ("LazyFrame", "RecordBatchReader", "DuckDBPyRelation"):
        fix = "Collect it into a table first, since rows may be read more than once."
    raise SourceError(f"A {name} cannot be read as a table.", fix=fix)


def _scans(source: str | Path, expected: frozenset[str], folder: str) -> tuple[Scan, ...]:
    text = str(source)
    if _exists(source):
        return (scan_file(Path(source), expected),)
    if isinstance(source, str) and _QUERY.match(source):
        return (scan_query(source, folder),)
    if _ADDRESS.search(text):  # never repeated: it may hold a password
        raise SourceError(
            "A table is not read from an address.",
            fix='Give a file on this machine or a query; in a plan also a source such as { spark = "jdbc", … }.',
        )
    if glob.has_magic(text):
        found = sorted(glob.glob(text, recursive=True))
        if not found:
            raise SourceError(f"No file matches {text!r}.", fix="Check the pattern and the folder.", path=text)
        return tuple(scan_file(Path(name), expected) for name in found)
    raise SourceError(f"There is no file {text!r}.", fix="Check the path.", path=text)


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except PermissionError:
        raise SourceError(f"{str(path)!r} may not be read.", fix="Check its permissions.", path=str(path)) from None
    except (OSError, ValueError):  # a text too long for a path, or one with a zero byte
        return False
