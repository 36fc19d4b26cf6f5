"""People with many rows: at most so many of each are used, whatever their rows say. Proof in PROOF.md.

Which rows these are follows from the ID column and the rows' order alone. One pass over these columns marks the rows
that are used, a bit for each; later passes leave out the others before anything else looks at them. IDs are hashed to
64 bits: should two meet, they share one person's rows, which protects no one less. Beyond `ROWS_AT_ONCE` rows the pass
deals people out over files by their hash, and looks at one file at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.errors import DataError
from nabladp.person import Person
from nabladp.tables.counts import no_rows, with_people, wrong_number_of_rows
from nabladp.tables.duck import Batches
from nabladp.tables.encode import Encoder
from nabladp.tables.sources import ScanSource, Source, scan_file
from nabladp.tables.values import value_texts

Hashes = NDArray[np.uint64]
ROWS_AT_ONCE = 1 << 20  # whose keys are held in memory together
_FILES = 64
_LAST = np.iinfo(np.int64).max  # of row IDs that are no whole numbers: they come after all others, by their text


# ---- a table of which not every row is used --------------------------------------------------------------------------


@dataclass(frozen=True)
class UsedRows:
    """A source of which at most ``person.rows`` rows of each person are used; others are never revealed."""

    source: Source
    person: Person

    query = ""

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    @property
    def keeps_order(self) -> bool:
        return self.source.keeps_order

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        return self.source.headers()

    def type_words(self) -> list[str]:
        return self.source.type_words()

    def known_count(self) -> int | None:
        return None

    def count(self) -> int:
        return self._marks.used

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        marks, start = self._marks, 0
        with closing(self.source.batches(names, True)) as batches:
            for batch in batches:
                end = start + batch.num_rows
                if end > marks.rows:
                    raise wrong_number_of_rows()
                yield batch.filter(pa.array(marks.between(start, end)))  # [used-rows]
                start = end
        if start != marks.rows:
            raise wrong_number_of_rows()

    def people(self, encoder: Encoder) -> Batches:
        """The codes of the used rows, all of a person's in one batch, in the order of their row IDs."""
        marks, own = self._marks, self.person.columns
        names = (*own, *(name for name in encoder.columns if name not in own))
        with ExitStack() as stack:
            batches = stack.enter_context(closing(self.source.batches(names, True)))
            parts, start = _Parts(stack), 0
            for batch in batches:
                end = start + batch.num_rows
                if end > marks.rows:
                    raise wrong_number_of_rows()
                kept = pa.array(marks.between(start, end))  # [used-rows]
                keys = _keys(batch.select(range(len(own))), start, self.person).filter(kept)
                codes = encoder.encode(batch.filter(kept))
                parts.add(pa.table([*keys.columns, *codes.columns], names=_apart(keys, codes)))
                start = end
            if start != marks.rows:
                raise wrong_number_of_rows()
            for part in parts.all():
                yield _people_of(part, self.person, encoder.names)

    def dropped(self, most: int) -> int:
        """How many rows are not used, counting at most so many of each person. No public number: it needs noise."""
        with closing(self.source.batches(self.person.columns, True)) as batches:
            return mark_rows(batches, self.person, most).dropped

    @cached_property
    def _marks(self) -> Marks:
        with closing(self.source.batches(self.person.columns, True)) as batches:
            return mark_rows(batches, self.person)


@dataclass(frozen=True)
class Marks:
    """Which of ``rows`` rows are used, a bit for each, and how many; and how many others were asked to be counted."""

    bits: NDArray[np.uint8]
    rows: int
    used: int
    dropped: int = 0

    def between(self, start: int, end: int) -> NDArray[np.bool_]:
        first = start // 8
        bits = np.unpackbits(self.bits[first : -(-end // 8)], bitorder="little")
        return bits[start - 8 * first : end - 8 * first].astype(np.bool_)


def mark_rows(batches: Iterable[pa.RecordBatch], person: Person, dropped: int = 0) -> Marks:
    """Mark the rows that are used, from batches of nothing but the person's columns, in the order of the rows. Counts
    at most ``dropped`` others of each person."""
    rows = 0
    with ExitStack() as stack:
        parts = _Parts(stack)
        for batch in batches:
            parts.add(_keys(batch, rows, person))
            rows += batch.num_rows
        bits, used, others = np.zeros(-(-rows // 8), np.uint8), 0, 0
        for part in parts.all():
            marked, more = _mark(part, person, dropped, bits)
            used, others = used + marked, others + more
    return Marks(bits, rows, used, others)


def _apart(keys: pa.Table, codes: pa.RecordBatch) -> list[str]:
    """Names of keys and codes; those of codes may be anything."""
    return [*keys.column_names, *(f"c{i}" for i in range(codes.num_columns))]


def _people_of(part: pa.Table, person: Person, names: tuple[str, ...]) -> pa.RecordBatch:
    """The codes of some people, all of whose used rows are here, sorted by person and row ID."""
    ids, index = (part.column(name).to_numpy() for name in ("id", "index"))
    if person.row_id is None:
        order = np.lexsort((index, ids))
    else:
        order = np.lexsort((_ranks(part.column("text")), part.column("number").to_numpy(), ids))
    whose = np.cumsum(np.diff(ids[order], prepend=ids[order][:1]) != 0)
    sorted_ = part.select([f"c{i}" for i in range(len(names))]).take(pa.array(order)).combine_chunks()
    columns = [column.combine_chunks() for column in sorted_.columns]
    codes = pa.RecordBatch.from_arrays(columns, names=list(names)) if names else _no_codes(len(order))
    return with_people(codes, whose)


def _no_codes(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])


def _mark(part: pa.Table, person: Person, dropped: int, bits: NDArray[np.uint8]) -> tuple[int, int]:
    """Mark the used rows of some people, all of whose rows are here; returns their number, and that of others."""
    ids, index = (part.column(name).to_numpy() for name in ("id", "index"))
    if person.row_id is None:  # they stand in their own order
        columns = [ids, index, np.zeros(len(ids), np.int64), index]
    else:
        number, text = part.column("number").to_numpy(), _ranks(part.column("text"))
        order = np.lexsort((text, number)) if text.any() else np.argsort(number)
        columns = [column[order] for column in (ids, number, text, index)]
    used, others = compile_loop(_mark_first)(*columns, person.rows, dropped, bits)
    if used < 0:
        raise no_row_id(person)
    return int(used), int(others)


def _ranks(texts: pa.ChunkedArray) -> Integers:
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.int64)
    return np.asarray(pc.rank(texts, tiebreaker="dense"), dtype=np.int64)


class StoredQuery:
    """The rows of a query, or of anything else without an order of its own, which may give them in another one each
    time: run once, and kept in a temporary file."""

    in_memory, keeps_order = False, True
    query = ""

    def __init__(self, query: Source, names: tuple[str, ...]) -> None:
        self._query, self._names = query, names

    def headers(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        return self._query.headers()

    def type_words(self) -> list[str]:
        return self._query.type_words()

    def known_count(self) -> int | None:
        return None

    def count(self) -> int:
        return self._stored_rows.count()

    def batches(self, names: tuple[str, ...], ordered: bool = False) -> Batches:
        return self._stored_rows.batches(names, ordered)

    @cached_property
    def _stored_rows(self) -> ScanSource:
        self._folder = TemporaryDirectory(prefix="nabladp-")
        path = Path(self._folder.name, "rows.parquet")
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for batch in stack.enter_context(closing(self._query.batches(self._names))):
                plain = batch.rename_columns([f"c{i}" for i in range(len(self._names))])
                writer = writer or stack.enter_context(pq.ParquetWriter(path, plain.schema))
                writer.write_batch(plain)
        if writer is None:
            raise no_rows()
        return ScanSource((replace(scan_file(path), what=next(self._query.headers())[0], columns=self._names),))


# ---- keys: who a row is of, and where it comes among that person's rows ----------------------------------------------


def _keys(batch: pa.RecordBatch, first: int, person: Person) -> pa.Table:
    for name, kind in zip(person.columns, batch.schema.types, strict=False):
        if pa.types.is_nested(kind) or pa.types.is_duration(kind):
            raise no_text(name)
    columns = {"id": _hashes(batch.column(0), person), "index": np.arange(first, first + batch.num_rows)}
    if person.row_id is not None:
        number, text = _row_ids(batch.column(1), person)
        return pa.table({**columns, "number": number, "text": text})
    return pa.table(columns)


def _hashes(column: pa.Array, person: Person) -> Hashes:
    """A number for each ID. The integer 3, 3.0 and the texts "3" and "3.0" are one ID, as they are one value of an
    attribute: a file may hold what another has as numbers, or as numbers with a point."""
    if _is_integer(column.type) and not column.null_count:
        hashes: Hashes = compile_loop(_hash_integers)(pc.cast(column, pa.int64()).to_numpy())
        return hashes
    texts = _texts(column)
    if texts.null_count:
        raise no_id(person)
    offsets, data = _buffers(texts)
    hashes = compile_loop(_hash_texts)(offsets, data)
    return hashes


def _row_ids(column: pa.Array, person: Person) -> tuple[pa.Array, pa.Array]:
    """A row ID as a whole number, or as the last one and a text."""
    if column.null_count:
        raise no_row_id(person)
    if _is_integer(column.type):
        return pc.cast(column, pa.int64()), pa.nulls(len(column), pa.string())
    texts = _texts(column)
    if texts.null_count or texts.type != pa.large_string():
        raise no_row_id(person)
    texts = pc.cast(texts, pa.string())
    whole = pc.match_substring_regex(texts, WHOLE)
    numbers = pc.cast(pc.if_else(whole, texts, str(_LAST)), pa.int64())
    return numbers, pc.if_else(whole, pa.scalar(None, pa.string()), texts)


WHOLE = "^(0|-?[1-9][0-9]{0,17})$"  # texts that are read as whole numbers


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


POINT = r"^(0|-?[1-9][0-9]*)\.0*$"  # texts of whole numbers that end in a point and zeros


def _texts(column: pa.Array) -> pa.Array:
    """IDs as text, or as the bytes that they are, such as UUIDs; an empty one is none."""
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = column.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = pc.cast(column, pa.large_binary())
    elif pa.types.is_decimal(kind):  # to the last digit, which a float would not hold
        texts = _without_point(pc.cast(pc.cast(column, pa.string()), pa.large_string()))
    else:
        texts = _without_point(pc.cast(value_texts(column), pa.large_string()))
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type), texts)


def _without_point(texts: pa.Array) -> pa.Array:
    """Texts of whole numbers as those of integers."""
    if not pc.any(pc.match_substring(texts, ".")).as_py():
        return texts
    return pc.replace_substring_regex(texts, POINT, r"\1")


def _buffers(texts: pa.Array) -> tuple[Integers, NDArray[np.uint8]]:
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return starts, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def no_text(name: str) -> DataError:
    return DataError(
        f"The column {name!r} holds lists, structs or durations, which can neither identify people nor order rows.",
        fix="Make text or numbers of it, for example with CAST(… AS VARCHAR) in a query.",
        column=name,
        rule="holds lists, structs or durations",
    )


def no_id(person: Person) -> DataError:
    return DataError(
        f"The column {person.id!r}, which names people, is empty in some rows.",
        fix="Fill it in, or leave these rows out: whose they are is not known.",
        column=person.id,
        rule="is empty in some rows",
    )


def no_row_id(person: Person) -> DataError:
    return DataError(
        f"The column {person.row_id!r} does not order the rows of each person: it is empty, or the same in two.",
        fix="Give a column in which all rows of a person differ, such as a running number.",
        column=person.row_id,
        rule="does not order the rows of each person",
    )


# ---- people dealt out over files -------------------------------------------------------------------------------------


class _Parts:
    """Keys of rows, in parts that hold all rows of some people: a single one, or as many as there are files."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._paths: list[Path] = []
        self._writers: list[Any] = []

    def add(self, keys: pa.Table) -> None:
        self._waiting.append(keys)
        self._rows += keys.num_rows
        if self._rows >= ROWS_AT_ONCE:
            self._spill()

    def all(self) -> Iterator[pa.Table]:
        if not self._writers:
            if self._waiting:
                yield pa.concat_tables(self._waiting).combine_chunks()
            return
        self._spill()
        for writer in self._writers:
            writer.close()
        for path in self._paths:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                part = reader.read_all()
            path.unlink()
            if part.num_rows:
                yield part

    def _spill(self) -> None:
        if not self._waiting:
            return
        keys = pa.concat_tables(self._waiting)
        self._waiting, self._rows = [], 0
        if not self._writers:
            folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="nabladp-")))
            self._paths = [folder / f"{i}.arrow" for i in range(_FILES)]
            files = [self._stack.enter_context(pa.OSFile(str(path), "wb")) for path in self._paths]
            self._writers = [pa.ipc.new_stream(file, keys.schema) for file in files]
        files_of = (keys.column("id").to_numpy() >> np.uint64(58)).astype(np.uint8)
        order = np.argsort(files_of, kind="stable")  # rows of one person stay in order
        ends = np.cumsum(np.bincount(files_of, minlength=_FILES)).tolist()
        dealt = keys.take(pa.array(order)).combine_chunks()
        for writer, start, end in zip(self._writers, [0, *ends], ends, strict=False):
            if end > start:
                writer.write_table(dealt.slice(start, end - start))


# ---- loops over rows, compiled when first used -----------------------------------------------------------------------


def _hash_integers(values: Any) -> Any:
    """SplitMix64, which takes no two numbers to one."""
    hashes = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        x = np.uint64(values[i]) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[i] = x ^ (x >> np.uint64(31))
    return hashes


def _hash_texts(offsets: Any, data: Any) -> Any:
    """FNV-1a and SplitMix64; the text of a 64-bit integer has the hash of that number."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    most = np.uint64(0x7FFFFFFFFFFFFFFF)
    for i in range(len(hashes)):
        start, end = offsets[i], offsets[i + 1]
        negative = data[start] == 45
        first = start + 1 if negative else start
        whole = 0 < end - first <= 19 and (data[first] != 48 or (end - first == 1 and not negative))
        number = np.uint64(0)
        x = np.uint64(0xCBF29CE484222325)
        for j in range(start, end):
            x = (x ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
            if j >= first:
                whole = whole and 48 <= data[j] <= 57
                if whole:
                    number = number * np.uint64(10) + np.uint64(data[j] - 48)
        if whole and number <= most + np.uint64(negative):
            x = ~number + np.uint64(1) if negative else number
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[i] = x ^ (x >> np.uint64(31))
    return hashes


def _mark_first(ids: Any, number: Any, text: Any, index: Any, most: int, dropped: int, bits: Any) -> tuple[int, int]:
    """Mark the first rows of each ID, of rows in the order of their row IDs, and count so many others of each; -1 where
    two rows of an ID have the same row ID."""  # [first-rows]
    size = 16
    while size < 2 * len(ids):
        size *= 2
    last = np.full(size, -1, np.int64)  # the last row of an ID so far; an empty slot has none
    counts = np.zeros(size, np.int32)
    used = 0
    others = 0
    for i in range(len(ids)):
        slot = np.int64(ids[i] & np.uint64(size - 1))
        while last[slot] >= 0 and ids[last[slot]] != ids[i]:
            slot = (slot + 1) & (size - 1)
        before = last[slot]
        if before >= 0 and number[before] == number[i] and text[before] == text[i]:
            return -1, 0
        last[slot] = i
        if counts[slot] < most:
            counts[slot] += 1
            used += 1
            bits[index[i] >> 3] |= np.uint8(1 << (index[i] & 7))
        elif counts[slot] < most + dropped:
            counts[slot] += 1
            others += 1
    return used, others
