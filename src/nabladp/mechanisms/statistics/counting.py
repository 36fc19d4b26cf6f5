"""One pass over the rows for all blocks: exact integer sums by group, in any order of rows and on any engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.mechanisms.statistics.blocks import Block, Part
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.grids import Bins, Grid, strategy
from nabladp.schema import Schema
from nabladp.sql.expressions import AllCodes, Bools, Expression, Rows
from nabladp.sql.query import Key
from nabladp.tables import Counts, Kernel, Marginals
from nabladp.tables.encode import grid_column
from nabladp.tables.kernels import CACHED_CELLS, PERSON


class BatchRows:
    """A batch as expressions read it: each column once, as an array."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._read: dict[str, NDArray[np.integer]] = {}

    @property
    def count(self) -> int:
        return int(self._batch.num_rows)

    def codes(self, name: str) -> NDArray[np.integer]:
        if name not in self._read:
            self._read[name] = self._batch.column(name).to_numpy(zero_copy_only=False)
        return self._read[name]

    def grid(self, name: str) -> NDArray[np.integer]:
        return self.codes(grid_column(name))


def key_codes(key: Key, rows: Any) -> NDArray[np.integer]:
    """The group of every row, by one key."""
    codes = _all_codes(key, rows)
    if key.codes is None:
        return codes
    if not key.codes:
        return np.zeros(len(codes), np.int64)
    kept, rest = np.asarray(key.codes), len(key.codes) if key.others else 0  # without others: rows that do not pass
    position = np.minimum(np.searchsorted(kept, codes), len(kept) - 1)
    return np.where(kept[position] == codes, position, rest)


def _own_group(key: Key, rows: Any) -> NDArray[np.integer]:
    """The group of every row by one key; one more for all rows that are in none, and pass no condition."""
    codes = _all_codes(key, rows)
    if key.column is None and not key.expression.domain.nullable:  # a table of values has NULL where WHERE excludes
        codes = np.where(key.expression.evaluate(rows).is_null(), key.all_codes, codes)
    if key.codes is None:
        return codes
    kept = np.asarray(key.codes, dtype=np.int64)
    position = np.searchsorted(kept, codes)
    return np.where(np.append(kept, -1)[position] == codes, position, len(kept))


def _all_codes(key: Key, rows: Any) -> NDArray[np.integer]:
    """The code of a key on every row: of the column itself, or by the position among the expression's values."""
    column = key.column
    if column is not None:
        return rows.codes(column.attribute.name)  # type: ignore[no-any-return]
    domain, cells = key.expression.domain, key.expression.evaluate(rows)
    values = domain.values or ()
    if domain.is_text:
        codes = cells.data.astype(np.int64)
    elif domain.kind == "boolean":
        codes = np.searchsorted(np.asarray(values, dtype=np.int64), cells.data.astype(np.int64))
    else:
        codes = np.searchsorted(np.asarray(values), cells.data)
    codes = np.clip(codes, 0, max(0, len(values) - 1))
    return np.where(cells.is_null(), len(values), codes) if domain.nullable else codes


def passes(filters: Sequence[Expression], rows: Any) -> Bools | None:
    """Rows for which every condition is true; None: all."""
    kept: Bools | None = None
    for condition in filters:
        cells = condition.evaluate(rows)
        holds = cells.data.astype(np.bool_, copy=False)
        if cells.null is not None:
            holds = holds & ~cells.null
        kept = holds if kept is None else kept & holds
    return kept


@dataclass(frozen=True)
class Sums:
    """What is added up for one block: rows, rows with a value, sums, squares, totals and histograms, in this order."""

    block: Block
    grids: Mapping[str, Grid]  # by kind of part

    @cached_property
    def layout(self) -> dict[str, tuple[int, int]]:
        """Where each kind of sum begins in the block's numbers, and how many there are."""
        start = 0
        layout: dict[str, tuple[int, int]] = {}
        kinds = {part.kind for part in self.block.parts}
        sizes = {"count": 1, "values": 1, "sum": 1, "squares": 2, "total": 1, "people": 1, "left_out": 1}
        for kind in sizes:
            if kind in kinds:
                layout[kind] = (start, sizes[kind] * self.block.cells)
                start += sizes[kind] * self.block.cells
        if kinds & {"cdf", "point", "distinct"}:
            layout["bins"] = (start, self.bins.count * self.block.cells)
        return layout

    @property
    def bins(self) -> Bins:
        return self.block.bins

    @property
    def size(self) -> int:
        return max((start + length for start, length in self.layout.values()), default=0)

    def add_to(
        self, total: Integers, rows: Rows, weights: Integers | None = None, person: Integers | None = None
    ) -> None:
        """``weights``: how often each of these rows occurs; None: once. ``person``: whose they are, where that matters;
        all rows of a person are then here, in their order."""
        group = self._groups(rows)
        kept = passes(self.block.filters, rows)
        counted = np.ones(rows.count, np.bool_) if kept is None else kept
        if person is not None and self.block.once:
            counted = counted & self._is_first(rows, person)
        if person is not None and self.block.of_people:
            self._add_people(total, rows, group, counted, person)
            return
        if "count" in self.layout:
            _add(_tally, self._part(total, "count"), group, counted, weights)
        if self.block.value is None:
            return
        cells = self.block.value.evaluate(rows)
        present = counted if cells.null is None else counted & ~cells.null
        if "values" in self.layout:
            _add(_tally, self._part(total, "values"), group, present, weights)
        for kind in ("sum", "total"):
            if kind in self.layout:
                _add(_sum, self._part(total, kind), group, present, weights, self.grids[kind].steps(cells.data))
        if "squares" in self.layout:
            steps = self.grids["squares"].steps(cells.data)
            sums = self._part(total, "squares").reshape(-1, 2)
            _add(_sum, sums[:, 0], group, present, weights, steps)
            _add(_sum, sums[:, 1], group, present, weights, 2 * steps * steps - self.grids["squares"].reach ** 2)
        if "bins" in self.layout:
            index = group * self.bins.count + self.bins.index(cells.data)
            _add(_tally, self._part(total, "bins"), index, present, weights)

    def _is_first(self, rows: Rows, person: Integers) -> Bools:
        """Rows that are a person's first in their group of the keys of ``once``, whatever else they say."""  # [once]
        index = person.astype(np.int64)
        for i in self.block.once:
            index = index * (self.block.keys[i].size + 1) + _own_group(self.block.keys[i], rows)
        first = np.zeros(len(index), np.bool_)
        first[np.unique(index, return_index=True)[1]] = True
        return first

    def _add_people(self, total: Integers, rows: Rows, group: Integers, counted: Bools, person: Integers) -> None:
        """Add each person's number to the groups with rows of theirs: 1, or the sum of their values, clamped."""
        steps, grid = np.zeros(0, np.int64), None  # [each-person-once]
        if self.block.value is not None:
            cells, grid = self.block.value.evaluate(rows), self.grids["people"]
            counted = counted if cells.null is None else counted & ~cells.null
            steps = replace(grid, low=-_MOST_STEPS, high=_MOST_STEPS).steps(cells.data)[counted]
        index = person[counted].astype(np.int64) * self.block.cells + group[counted]
        once, place = np.unique(index, return_inverse=True)
        added = np.ones(len(once), np.int64)
        if grid is not None:
            sums = np.zeros(len(once), np.int64)
            np.add.at(sums, place, steps)
            added = np.clip(sums, grid.low, grid.high)  # [clamp-total]
        np.add.at(self._part(total, "people"), once % self.block.cells, added)

    def _part(self, total: Integers, kind: str) -> Integers:
        start, length = self.layout[kind]
        return total[start : start + length]

    def _groups(self, rows: Rows) -> Integers:
        index = np.zeros(rows.count, np.int64)
        for key in self.block.keys:
            index = index * key.size + key_codes(key, rows)
        return index

    def numbers(self, total: Integers, kind: str, pure: bool) -> Integers:
        """The exact numbers of a part: a row for each group."""
        cells = self.block.cells
        if kind == "cdf":
            histogram = self._part(total, "bins").reshape(cells, -1)
            return np.asarray(histogram @ strategy(self.bins.count, pure).matrix.T)
        if kind == "distinct":
            return np.asarray((self._part(total, "bins").reshape(cells, -1) > 0).sum(axis=1)[:, None], dtype=np.int64)
        if kind == "point":
            return self._part(total, "bins").reshape(cells, -1)
        return self._part(total, kind).reshape(cells, -1)


def _add(
    loop: Callable[..., None], out: Integers, index: Integers, kept: Bools, weights: Integers | None, *steps: Integers
) -> None:
    """Rows one by one in a compiled loop; the few that stand for many, by their weight."""
    if weights is None:
        compile_loop(loop)(out, index, kept, *steps)
    else:
        np.add.at(out, index, math.prod(steps, start=np.where(kept, weights, 0)))


def _tally(out: Integers, index: Integers, kept: Bools) -> None:
    for i in range(len(index)):  # without a branch, which a processor would often guess wrong
        out[index[i]] += kept[i]


def _sum(out: Integers, index: Integers, kept: Bools, steps: Integers) -> None:
    for i in range(len(index)):
        out[index[i]] += kept[i] * steps[i]


_MOST_STEPS = 1 << 41  # of a value on the grid of a person's total: 2^20 rows of it fit into 64 bits


# ---- one kernel for all blocks ---------------------------------------------------------------------------------------

_ROWS_FOR_EACH = 4  # rows to a combination of codes, from which on these are counted instead


class StatisticsKernel(Kernel):
    """All sums of all blocks, one after the other.

    Where the codes that a block reads have few combinations, rows are only counted by these, which takes a fraction of
    the time; the sums follow from the counts. Both are whole numbers, hence equal.
    """

    def __init__(self, sums: Sequence[Sums], schema: Schema, n: int) -> None:
        self.sums = tuple(sums)
        self.attributes = columns_read(self.sums, schema)
        self.codes = [_few_codes(own, schema, n) for own in self.sums]
        self.marginals = Marginals(schema, [codes.names for codes in self.codes if codes is not None])
        sizes = [own.size if codes is None else 0 for own, codes in zip(self.sums, self.codes, strict=True)]
        self.bounds = np.cumsum([self.marginals.bounds[-1], *sizes]).tolist()

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(self.bounds[-1], np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        self.marginals.add_to(total[: self.bounds[0]], batch)
        rows = BatchRows(batch)
        for own, start, end in zip(self.sums, self.bounds, self.bounds[1:], strict=False):
            if end > start:
                own.add_to(total[start:end], rows)

    def totals(self, counts: Counts) -> list[Integers]:
        """The sums of each block. Where counts by code are all that is needed, the table may have a faster way."""
        if self.bounds[-1] == self.bounds[0]:
            return self._split(counts.marginals(self.marginals.sets), np.empty(0, np.int64))
        total = counts.fold(self)
        return self._split(self.marginals.split(total[: self.bounds[0]]), total)

    def _split(self, marginals: Sequence[Integers], total: Integers) -> list[Integers]:
        tables = iter(marginals)
        parts = []
        for own, codes, start, end in zip(self.sums, self.codes, self.bounds, self.bounds[1:], strict=False):
            part = total[start:end]
            if codes is not None:
                part = np.zeros(own.size, np.int64)
                own.add_to(part, codes, next(tables).ravel())
            parts.append(part)
        return parts


class PeopleKernel(Kernel):
    """All sums of blocks for which the rows of a person are needed together."""

    by_person = True

    def __init__(self, sums: Sequence[Sums], schema: Schema) -> None:
        self.sums = tuple(sums)
        self.attributes = columns_read(self.sums, schema)
        self.bounds = np.cumsum([0, *(own.size for own in self.sums)]).tolist()

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(self.bounds[-1], np.int64)
        rows, person = BatchRows(batch), batch.column(PERSON).to_numpy()
        for own, start, end in zip(self.sums, self.bounds, self.bounds[1:], strict=False):
            own.add_to(total[start:end], rows, person=person)
        return total

    def totals(self, counts: Counts) -> list[Integers]:
        total = counts.fold(self) if self.sums else np.zeros(0, np.int64)
        return [total[start:end] for start, end in zip(self.bounds, self.bounds[1:], strict=False)]


def _few_codes(sums: Sums, schema: Schema, n: int) -> AllCodes | None:
    """All combinations of the codes of a block's columns; None where they are too many, or where numbers are read."""
    names = columns_read([sums], schema)
    if not names or any(name not in schema for name in names):
        return None
    codes = AllCodes(names, schema.sizes(names))
    return codes if codes.count <= CACHED_CELLS and _ROWS_FOR_EACH * codes.count <= n else None


def columns_read(sums: Sequence[Sums], schema: Schema) -> tuple[str, ...]:
    """Codes of columns; where numbers of a real attribute are computed with, those on its grid."""
    by_code, by_grid = set[str](), set[str]()
    for own in sums:
        for key in own.block.keys:
            target = by_code if key.column is not None else None
            if target is not None:
                target.update(key.expression.columns)
            else:
                _sort_columns(key.expression, schema, by_code, by_grid)
        for expression in (*own.block.filters, *(() if own.block.value is None else (own.block.value,))):
            _sort_columns(expression, schema, by_code, by_grid)
    ordered = [name for name in schema.names if name in by_code]
    return (*ordered, *(grid_column(name) for name in schema.names if name in by_grid))


def _sort_columns(expression: Expression, schema: Schema, by_code: set[str], by_grid: set[str]) -> None:
    for name in expression.columns:
        (by_grid if schema[name].kind == "real" else by_code).add(name)


_ON_GRID = ("sum", "squares", "total", "people")


def exact_numbers(calibration: Calibration, counts: Counts) -> list[list[Integers]]:
    """Every part of every block without noise: an array with a row for each group."""
    sums = [
        Sums(
            block, {part.kind: calibration.grid(block, part, counts.n) for part in block.parts if _on_grid(part, block)}
        )
        for block in calibration.plan.blocks
    ]
    of_rows, of_people = (
        [own for own in sums if own.block.by_person == by_person and not own.block.left_out]
        for by_person in (False, True)
    )
    totals = dict(zip(map(id, of_people), PeopleKernel(of_people, counts.schema).totals(counts), strict=True))
    if of_rows:
        kernel = StatisticsKernel(of_rows, counts.schema, counts.n)
        totals |= zip(map(id, of_rows), kernel.totals(counts), strict=True)
    totals |= {id(own): np.array([counts.dropped(own.block.left_out)]) for own in sums if own.block.left_out}
    return [[own.numbers(totals[id(own)], part.kind, calibration.pure) for part in own.block.parts] for own in sums]


def _on_grid(part: Part, block: Block) -> bool:
    return part.kind in _ON_GRID and block.value is not None
