"""Tables read by other libraries, a batch at a time: DuckDB relations, polars LazyFrames, Arrow datasets and files (of
which Feather is one), Excel workbooks."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.errors import MissingPart, NablaDPError, SourceError
from nabladp.tables.duck import Batches, batch_rows, type_word
from nabladp.tables.memory import PolarsFrame, arrow_type_word, object_texts


@dataclass(frozen=True)
class Lazy(ABC):
    """Rows that are computed anew by each pass, maybe in another order unless ``keeps_order``."""

    what: str
    rows: Any = field(repr=False)  # the repr of a relation shows rows
    in_memory = False
    keeps_order = False
    header_is_text = False
    query = ""

    @abstractmethod
    def _names(self) -> list[str]: ...

    @abstractmethod
    def _types(self) -> list[str]: ...

    @abstractmethod
    def _count(self) -> int: ...

    @abstractmethod
    def _read(self, index: list[int], rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        """All rows with the columns at these positions, in batches of about so many rows."""

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        with self._without_values():
            names = tuple(self._names())
        yield self.what, names, self.header_is_text

    def type_words(self) -> list[str]:
        with self._without_values():
            return self._types()

    def known_count(self) -> int | None:
        return None

    def count(self) -> int:
        with self._without_values():
            return self._count()

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        with self._without_values():
            known = self._names()
            for batch in self._read([known.index(name) for name in names], batch_rows(len(names)), ordered):
                yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))

    @contextmanager
    def _without_values(self) -> Iterator[None]:
        """Errors of other libraries quote values: only their kind is kept."""
        try:
            yield
        except (NablaDPError, MemoryError, GeneratorExit):
            raise
        except Exception as error:
            raise SourceError(
                f"{self.what} cannot be read: it raises {type(error).__name__}.",
                fix="Run it yourself to see why. Its own message may show data: keep it to yourself.",
                rule="cannot be read",
            ) from None


class DuckRelation(Lazy):
    """A relation runs in its own connection, again for each pass, as a query does."""

    @property
    def query(self) -> str:  # type: ignore[override]
        return str(self.rows.sql_query())

    def _names(self) -> list[str]:
        return list(self.rows.columns)

    def _types(self) -> list[str]:
        return [type_word(str(kind)) for kind in self.rows.types]

    def _count(self) -> int:
        return int(self.rows.aggregate("count(*)").fetchall()[0][0])

    def _read(self, index: list[int], rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        columns = ", ".join(f"#{i + 1} as c{i}" for i in index)  # by position, so names may hold anything
        yield from self.rows.project(columns).to_arrow_reader(rows)


class PolarsLazy(Lazy):
    """A LazyFrame runs again for each pass."""

    def _names(self) -> list[str]:
        return list(self.rows.collect_schema().names())

    def _types(self) -> list[str]:
        return PolarsFrame(self.rows.collect_schema().to_frame()).type_words()

    def _count(self) -> int:
        import polars

        return int(self.rows.select(polars.len()).collect().item())

    def _read(self, index: list[int], rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        import polars

        chosen = self.rows.select(polars.nth(index))
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(chunk_size=rows, maintain_order=ordered)
        else:  # slices of several runs would not belong together
            frames = [chosen.collect()]
        for frame in frames:
            yield from PolarsFrame(frame).batches(tuple(frame.columns))


class ArrowDataset(Lazy):
    """An Arrow dataset: files are read in batches."""

    def _names(self) -> list[str]:
        return list(self.rows.schema.names)

    def _types(self) -> list[str]:
        return [arrow_type_word(field.type) for field in self.rows.schema]

    def _count(self) -> int:
        return int(self.rows.count_rows())

    def _read(self, index: list[int], rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        names = self._names()
        columns = [names[i] for i in index]
        yield from self.rows.to_batches(columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1)


class ArrowFile(ArrowDataset):
    """A Feather or Arrow file, whose rows stand in order."""

    keeps_order = True

    @classmethod
    def open(cls, path: Path, what: str) -> ArrowFile:
        with path.open("rb") as file:
            mark = file.read(6)
        if mark != b"ARROW1":
            kind = "the first Feather format" if mark.startswith(b"FEA1") else "an Arrow stream, or damaged"
            raise SourceError(
                f"{what} is not an Arrow file: it is {kind}.",
                fix="Write the table again, with pyarrow.feather.write_feather or as Parquet.",
                path=str(path),
            )
        import pyarrow.dataset  # loads pandas where that is installed
        import pyarrow.fs

        files = pyarrow.fs.LocalFileSystem()
        return cls(what, pyarrow.dataset.dataset(str(path), format="ipc", filesystem=files))


# ---- Excel -----------------------------------------------------------------------------------------------------------

_MOST_BYTES = 1 << 31  # of a workbook, unpacked
_WORDS = ((bool, "boolean"), (int, "integer"), (float, "real"), (str, "text"))


class Workbook(Lazy):
    """The only sheet of an Excel workbook; its first row names the columns. Empty rows at the end do not count."""

    keeps_order = True
    header_is_text = True

    @classmethod
    def open(cls, path: Path, what: str) -> Workbook:
        try:
            import openpyxl  # noqa: F401  (only whether it is there)
        except ImportError:
            raise MissingPart(
                f"{what} needs openpyxl to be read.",
                fix="Install it with pip install 'nabladp[excel]', or save the sheet as CSV.",
            ) from None
        try:
            with zipfile.ZipFile(path) as packed:
                unpacked = sum(part.file_size for part in packed.infolist())
        except zipfile.BadZipFile:
            fix = "Check that it is complete, and saved as .xlsx without a password."
            raise SourceError(f"{what} is not an Excel workbook.", fix=fix, path=str(path)) from None
        if unpacked > _MOST_BYTES:
            raise SourceError(f"{what} is too large for a workbook.", fix="Save the sheet as CSV.", path=str(path))
        return cls(what, path)

    @contextmanager
    def _lines(self) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The rows of the sheet, as tuples of values."""
        import openpyxl

        book = openpyxl.load_workbook(self.rows, read_only=True, data_only=True)
        try:
            if len(book.worksheets) != 1:
                raise SourceError(
                    f"{self.what} has {len(book.worksheets)} sheets, and only one can be the table.",
                    fix="Save that sheet as CSV, or in a workbook of its own.",
                )
            book.worksheets[0].reset_dimensions()  # which some programs write wrongly
            yield book.worksheets[0].iter_rows(values_only=True)
        finally:
            book.close()

    def _names(self) -> list[str]:
        with self._lines() as lines:
            first = next(lines, ())
        while first and first[-1] is None:
            first = first[:-1]
        if not first or not all(isinstance(name, str) for name in first):
            fix = "Put the column names into the first row of the sheet."
            raise SourceError(f"{self.what} has no header.", fix=fix)
        return [str(name) for name in first]

    def _people(self) -> Iterator[list[tuple[Any, ...]]]:
        """The rows below the header, in lists; empty ones only where others follow."""
        width, empty = len(self._names()), 0
        with self._lines() as lines:
            next(lines, None)
            while chunk := list(islice(lines, 1 << 12)):
                kept: list[tuple[Any, ...]] = []
                for line in chunk:
                    if any(value is not None for value in line):
                        kept += [(None,) * width] * empty
                        kept.append((*line[:width], *(None,) * (width - len(line))))
                        empty = 0
                    else:
                        empty += 1
                yield kept

    def _types(self) -> list[str]:
        sample = [line for chunk in islice(self._people(), 1) for line in chunk[:1000]]
        return [_word([line[i] for line in sample if line[i] is not None]) for i in range(len(self._names()))]

    def _count(self) -> int:
        return sum(map(len, self._people()))

    def _read(self, index: list[int], rows: int, ordered: bool) -> Iterator[pa.RecordBatch]:
        for chunk in self._people():
            columns = [_texts([line[i] for line in chunk]) for i in index]
            yield pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in index])


def _texts(values: list[Any]) -> pa.Array:
    """Cells as texts, as a column of objects of a data frame would be."""
    column = np.array([*values, None], dtype=object)[:-1]
    return object_texts(column, np.array([value is None for value in values], dtype=bool))


def _word(values: Sequence[Any]) -> str:
    kinds = set(map(type, values))
    if kinds == {int, float}:
        return "real"
    for kind, word in _WORDS:
        if kinds == {kind}:
            return word
    return "date" if kinds and all(hasattr(kind, "isoformat") for kind in kinds) else "text"


def open_lazy_file(path: Path) -> ArrowFile | Workbook | None:
    """A Feather, Arrow or Excel file; None where the name says that it is of another type."""
    ending = path.name.lower().rpartition(".")[2]
    if ending not in ("feather", "arrow", "ipc", "xlsx") or path.is_dir():
        return None
    what = f"The file {str(path)!r}"
    with opening(path, what):
        return Workbook.open(path, what) if ending == "xlsx" else ArrowFile.open(path, what)


@contextmanager
def opening(path: Path, what: str) -> Iterator[None]:
    """Opening a regular file: anything else is refused first, and every error becomes a SourceError."""
    try:
        if not path.is_file():
            fix = "Give a file: its rows may be read more than once, which a pipe does not allow."
            raise SourceError(f"{what} is not a regular file.", fix=fix, path=str(path))
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException):
        fix = "Check that it is complete, and that its ending is that of its contents."
        raise SourceError(f"{what} cannot be read.", fix=fix, path=str(path)) from None
    except SourceError:
        raise
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise SourceError(f"{what} cannot be opened: {reason}.", fix="Check its permissions.", path=str(path)) from None


# ---- several files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Several sources of different kinds, read one after the other."""

    parts: tuple[Any, ...]
    in_memory = False
    keeps_order = True
    query = ""

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        for part in self.parts:
            yield from part.headers()

    def type_words(self) -> list[str]:
        words: list[str] = self.parts[0].type_words()
        return words

    def known_count(self) -> int | None:
        return None

    def count(self) -> int:
        return sum(part.count() for part in self.parts)

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        for part in self.parts:
            yield from part.batches(names, ordered)
