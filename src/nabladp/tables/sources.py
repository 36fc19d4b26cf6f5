"""Where rows come from. A source knows its column names at once and hands out rows, a batch at a time, when asked."""

from __future__ import annotations

import csv
import glob
import gzip
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nabladp.arrays import Integers
from nabladp.checks import near_file
from nabladp.errors import SourceError, quote_path
from nabladp.schema import Attribute
from nabladp.tables import duck
from nabladp.tables.duck import Batches
from nabladp.tables.lazy import ArrowDataset, DuckRelation, Files, PolarsLazy, open_lazy_file, opening
from nabladp.tables.memory import ArrowFrame, PandasFrame, PolarsFrame
from nabladp.tables.refused import other_file, other_object
from nabladp.tables.spark import SparkFrame, is_spark, read_spark

# ---- files and queries as scans --------------------------------------------------------------------------------------

LONGEST_HEADER = 1 << 22
MOST_FILES = 10_000
_DELIMITERS = (",", ";", "\t", "|")
_ENDINGS = ("csv", "tsv", "parquet", "pq", "json", "ndjson", "jsonl")


@dataclass(frozen=True)
class Scan:
    """A table expression for DuckDB. ``columns`` are its names in order; SQL refers to them by position only, so names
    may hold anything. ``typed`` is the same with types guessed, for drafting a schema."""

    what: str
    relation: str
    columns: tuple[str, ...]
    typed: str
    header_is_text: bool = False  # a first line of text, which might be a row by mistake
    folder: str = ""  # where the paths inside a query start
    rows: int | None = None  # where the file says so without being read
    keeps_order: bool = True  # a file does; a query that groups returns its rows in another order each time
    query: str = ""  # where it is one
    whole: frozenset[str] = frozenset()  # columns known to hold whole numbers of at most 64 bits


def scan_file(path: Path, expected: frozenset[str] = frozenset()) -> Scan:
    """A DuckDB scan of a file; ``expected`` are names the table should have, which help to tell a CSV file's
    delimiter."""
    what = f"The file {str(path)!r}"
    if path.is_dir():
        fix = f"Give a file, or a glob such as {str(path / '*.parquet')!r}."
        raise SourceError(f"{str(path)!r} is a folder, not a table.", fix=fix, path=str(path))
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if ending not in _ENDINGS:
        raise SourceError(f"{what} has a file type that is not read.", fix=other_file(ending), path=str(path))
    try:
        with opening(path, what):
            with path.open("rb"):
                pass
            if ending in ("csv", "tsv"):
                return _csv(path, what, expected)
            return _parquet(path, what) if ending in ("parquet", "pq") else _json(path, what)
    except UnicodeDecodeError:
        raise SourceError(f"{what} is not UTF-8 text.", fix=_convert(path), path=str(path)) from None


def _convert(path: Path) -> str:
    """How to make the text of a file UTF-8; spreadsheets save "Unicode text" as UTF-16, which begins with a mark."""
    with path.open("rb") as file:
        marked = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    return duck.CONVERT.replace("latin1", "utf-16") if marked else duck.CONVERT


def scan_query(query: str, folder: str = "") -> Scan:
    """A DuckDB scan of a SELECT query. It must give the same rows each time it is run, each made from one person's
    data."""
    what = "The query"
    if "\0" in query:  # with which DuckDB waits for ever
        raise SourceError("The query holds a zero byte.", fix="Remove it.")
    with duck.connection(folder) as database:
        try:
            statements = database.extract_statements(query)
            if len(statements) != 1 or statements[0].type.name != "SELECT":
                raise SourceError("The query must only select.", fix="Give a single SELECT statement.")
            columns = tuple(database.sql(query).columns)
        except Exception as error:
            fault = duck.readable(error, what)
            raise fault from None
    relation = f"({query.strip().rstrip(';')}\n)"  # the line break ends a comment at the end
    return Scan(what, relation, columns, relation, folder=folder, keeps_order=False, query=query)


def _csv(path: Path, what: str, expected: frozenset[str]) -> Scan:
    lines = _first_lines(path)
    if any("\0" in line for line in lines):
        raise SourceError(f"{what} is not a text file.", fix="Give a CSV file in UTF-8.", path=str(path))
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    delimiter, columns = _header(lines, ("\t",) if tabs else _DELIMITERS, expected)
    if not columns:
        fault, which = (
            ("has no header", ", with quotes that are closed") if any(map(str.strip, lines)) else ("is empty", "")
        )
        fix = f"Give a file whose first line names the columns{which}."
        raise SourceError(f"{what} {fault}.", fix=fix, path=str(path))
    options = f"header=true, delim={literal(delimiter)}, quote='\"', escape='\"', strict_mode=true, encoding='utf-8'"
    options += _compression(path)
    names = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(columns)))
    text = f"auto_detect=false, nullstr='', allow_quoted_nulls=true, comment='', columns={{{names}}}"
    where = _location(path)
    return Scan(what, f"read_csv({where}, {options}, {text})", columns, f"read_csv({where}, {options})", True)


def _first_lines(path: Path) -> list[str]:
    """The first record of a CSV file as decoded lines; only that much is read, whatever the rest holds."""
    opened: IO[bytes]
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as opened:  # type: ignore[assignment]
        lines: list[str] = []
        quotes, left = 0, LONGEST_HEADER
        while left > 0 and (line := opened.readline(left)):
            left -= len(line)
            lines.append(line.decode("utf-8-sig" if not lines else "utf-8"))
            quotes += lines[-1].count('"')
            if quotes % 2 == 0 or len(lines) > 1000:  # a quoted name may run over lines
                break
    return lines


def _header(lines: list[str], delimiters: Iterable[str], expected: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The column names of a CSV file, by the delimiter that finds most of the expected ones, or else simply most."""
    headers = {by: _split(lines, by) for by in delimiters}
    best = max(headers, key=lambda by: (len(expected.intersection(headers[by])), len(headers[by])))
    return best, headers[best]


def _split(lines: list[str], delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader(lines, delimiter=delimiter, strict=True), ()))
    except csv.Error:  # quotes that make no sense with this delimiter
        return ()


def _parquet(path: Path, what: str) -> Scan:
    facts = pq.read_metadata(path)
    fields = facts.schema.to_arrow_schema()
    whole = frozenset(field.name for field in fields if pa.types.is_integer(field.type) and field.type != pa.uint64())
    relation = f"read_parquet({_location(path)}, binary_as_string=true)"
    return Scan(what, relation, tuple(fields.names), relation, rows=facts.num_rows, whole=whole)


def _json(path: Path, what: str) -> Scan:
    """A DuckDB scan of a JSON file: every key of the first records is a column, read as text; a record without it has a
    null there."""
    where = _location(path) + _compression(path)
    typed = f"read_json({where}, map_inference_threshold=-1)"
    with duck.connection() as database:
        try:
            columns = tuple(database.sql(f"select * from {typed}").columns)
        except Exception as error:
            fault = duck.readable(error, what)
            raise fault from None
    names = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    return Scan(what, f"read_json({where}, columns={{{names}}})", columns, typed)


def _location(path: Path) -> str:
    """A path as SQL text, taken literally: glob characters are escaped."""
    escaped = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in os.fspath(path))
    return literal(escaped) + ", hive_partitioning=false"


def _compression(path: Path) -> str:
    return f", compression='{'gzip' if path.name.lower().endswith('.gz') else 'none'}'"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def count(scans: Sequence[Scan]) -> int:
    queries = [(f"select count(*) as n from {scan.relation}", scan.what) for scan in scans]
    return sum(batch.column(0)[0].as_py() for batch in duck.stream(queries, 1, _folder(scans)))


def rows(scans: Sequence[Scan], names: tuple[str, ...], ordered: bool = False) -> duck.Batches:
    """All rows of all scans, with the columns of these names; ``ordered``: as they stand in a file."""
    queries = [(_select(scan, names), scan.what) for scan in scans]
    for batch in duck.stream(queries, duck.batch_rows(len(names)), _folder(scans), ordered):
        yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))


def count_codes(scans: Sequence[Scan], attributes: Sequence[Attribute]) -> Integers | None:
    """How many rows have each combination of codes, counted by DuckDB alone. None where a column is not stored as whole
    numbers, or a row holds anything but declared ones: what becomes of that is decided where rows are encoded."""
    ranges = all(own.kind == "integer" and own.low is not None and not own.null_values for own in attributes)
    if not ranges or not all(own.name in scan.whole for scan in scans for own in attributes):
        return None
    total = np.zeros(math.prod(attribute.size for attribute in attributes), np.int64)
    queries = [(_select_codes(scan, attributes), scan.what) for scan in scans]
    with closing(duck.stream(queries, duck.BATCH_ROWS, _folder(scans))) as batches:
        for batch in batches:
            index, rows = (column.to_numpy() for column in batch.columns)
            if index.min(initial=0) < 0:
                return None
            total[index] += rows  # each combination is in one batch
    return total


def _select_codes(scan: Scan, attributes: Sequence[Attribute]) -> str:
    inside, index = [], "0"
    for own in attributes:
        column = f"c{scan.columns.index(own.name)}"
        inside.append(f"{column} between {own.low} and {own.high}")
        index = f"({index}) * {own.size} + ({column}::bigint - ({own.low}))"
    code = f"case when {' and '.join(inside)} then {index} else -1 end"
    return f"select {code} as i, count(*) as n from {_with_aliases(scan)} group by 1"


def _folder(scans: Sequence[Scan]) -> str:
    """The folder of a scan; only a query has one, and a query stands alone."""
    return scans[0].folder if scans else ""


def _select(scan: Scan, names: tuple[str, ...]) -> str:
    index = {name: i for i, name in enumerate(scan.columns)}
    chosen = ", ".join(f"c{index[name]}" for name in names)
    return f"select {chosen} from {_with_aliases(scan)}"


def _with_aliases(scan: Scan) -> str:
    return f"{scan.relation} as t({', '.join(f'c{i}' for i in range(len(scan.columns)))})"


def type_words(scan: Scan) -> list[str]:
    """A word for the type of each column of a scan, from the file's own types or, for text, a sample."""
    with duck.connection(scan.folder) as database:
        try:
            types = [str(kind) for kind in database.sql(f"select * from {scan.typed}").types]
        except Exception as error:
            fault = duck.readable(error, scan.what)
            raise fault from None
    if len(types) != len(scan.columns):
        return ["text"] * len(scan.columns)
    return [duck.type_word(kind) for kind in types]


# ---- sources ---------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"://|\bpassword\s*=", re.IGNORECASE)
_QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)


class Source(Protocol):
    """Rows that can be read any number of times."""

    @property
    def in_memory(self) -> bool: ...
    @property
    def keeps_order(self) -> bool:
        """Whether the source's rows come in the same order each time they are asked for in order."""
        ...

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """What the source is, its column names, and whether these are a line of text; one for each file."""
        ...

    def type_words(self) -> list[str]: ...
    def known_count(self) -> int | None:
        """The source's number of rows, if that is known without reading any."""
        ...

    def count(self) -> int: ...
    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches: ...
    @property
    def query(self) -> str:
        """The SQL behind the source; "" where it is none."""
        ...


@dataclass(frozen=True)
class ScanSource:
    """A query, a file, or several files read one after the other."""

    scans: tuple[Scan, ...]
    in_memory = False

    @property
    def query(self) -> str:
        return self.scans[0].query  # a query stands alone

    @property
    def keeps_order(self) -> bool:
        return all(scan.keeps_order for scan in self.scans)

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        return ((scan.what, scan.columns, scan.header_is_text) for scan in self.scans)

    def type_words(self) -> list[str]:
        return type_words(self.scans[0])

    def known_count(self) -> int | None:
        known = [scan.rows for scan in self.scans]
        return None if None in known else sum(rows for rows in known if rows is not None)

    def count(self) -> int:
        known = self.known_count()
        return count(self.scans) if known is None else known

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        return rows(self.scans, names, ordered)


def open_source(source: Any, expected: frozenset[str] = frozenset(), folder: str = "") -> Source:
    """Open a source of rows: a file, a glob, a query, a table in memory or on Spark.

    pandas, polars and Spark are imported by those who use them.
    """
    if isinstance(source, (str, Path)):
        return _of_files(_scans(source, expected, folder))
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
    if (library, name) == ("polars", "LazyFrame"):
        return PolarsLazy("The LazyFrame", source)
    if (library, name) == ("duckdb", "DuckDBPyRelation"):
        return DuckRelation("The DuckDB relation", source)
    if (type(source).__module__, name[-7:]) == ("pyarrow._dataset", "Dataset"):
        return ArrowDataset("The Arrow dataset", source)
    raise SourceError(f"A {name} cannot be read as a table.", fix=other_object(source))


def _of_files(opened: tuple[Any, ...]) -> Source:
    if all(isinstance(each, Scan) for each in opened):
        return ScanSource(opened)
    parts = tuple(ScanSource((each,)) if isinstance(each, Scan) else each for each in opened)
    return parts[0] if len(parts) == 1 else Files(parts)


def _scans(source: str | Path, expected: frozenset[str], folder: str) -> tuple[Any, ...]:
    text = str(source)
    if _exists(source):
        return (open_lazy_file(Path(source)) or scan_file(Path(source), expected),)
    if isinstance(source, str) and _QUERY.match(source):
        return (scan_query(source, folder),)
    if _ADDRESS.search(text):  # never repeated: it may hold a password
        raise SourceError(
            "A table is not read from an address.",
            fix='Give a file on this machine or a query; in a plan also a source such as { spark = "jdbc", … }.',
        )
    if glob.has_magic(text):
        paths = _matches(text)
        if not paths:
            raise SourceError(
                f"No file matches {quote_path(text)}.", fix="Check the pattern and the folder.", path=text
            )
        return tuple(open_lazy_file(Path(name)) or scan_file(Path(name), expected) for name in paths)
    fix = near_file(Path(text), "Check the path.")
    raise SourceError(f"There is no file {quote_path(text)}.", fix=fix, path=text)


def _matches(pattern: str) -> list[str]:
    try:
        paths = list(islice(glob.iglob(pattern, recursive=True), MOST_FILES + 1))
    except (ValueError, re.error, OSError):  # a zero byte, or a name too long
        return []
    if len(paths) > MOST_FILES:
        raise SourceError(f"More than {MOST_FILES:,} files match.", fix="Write them into fewer, larger files.")
    return sorted(paths)


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except PermissionError:
        raise SourceError(f"{str(path)!r} may not be read.", fix="Check its permissions.", path=str(path)) from None
    except (OSError, ValueError):  # a text too long for a path, or one with a zero byte
        return False
