"""Repairing synthetic rows: values are changed, one at a time, until the rows' marginals are close to the answers.

The model holds a part of what was measured; the answers pool all of it. Rows sampled from the model are moved towards
the answers here: for one row and one column at a time, the value is taken that most lowers the distance

  F = Σ over targets w · Σ over cells (rows in the cell − rows wanted there)²,   w = weight / variance of a cell.

Large gains come first: a threshold falls from pass to pass, so that few rows are changed, and each for much. Where no
single change helps any more, two might: so small losses are taken, fewer from pass to pass, and the last passes take
gains alone. Nothing is drawn, and nothing is read but released numbers and the rows, which come in random order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers, compile_loop
from nabladp.mechanisms.synthesis.derived_columns import Codes, Function
from nabladp.mechanisms.synthesis.inference import Zeros
from nabladp.mechanisms.synthesis.repair_loops import (
    FUNCTION,
    TARGET,
    ZERO,
    Gaps,
    Layout,
    Rows,
    count_rows,
    improve_rows,
)
from nabladp.mechanisms.synthesis.workload import Names


@dataclass(frozen=True, eq=False)
class Target:
    """Rows wanted in every cell of some columns, and the variance of a cell; ``weight`` is how much it matters."""

    attributes: Names
    counts: Floats
    variance: float
    weight: float = 1.0


# ---- the tables that the loop looks at -------------------------------------------------------------------------------
# A target has one table for each of its columns, in which that column comes last: so the cells that a row could move to
# lie side by side. Declared zeros (infinite where forbidden) and functions (the codes of derived
# columns) are tables as well.

CANDIDATES = 64  # values tried at once; of a column with more, those of other rows
_ROUNDING = 0.25  # the variance of whole rows, whatever the noise
Axes = list[tuple[int, int]]


class Entry(NamedTuple):
    """A table that a change of a column meets."""

    kind: int
    subject: int
    table: int
    slot: int
    fixed: Axes
    moving: Axes


def _whole(numbers: Iterable[int]) -> Integers:
    return np.array(list(numbers), np.int64)


def _lists(lists: Sequence[Axes]) -> tuple[Integers, Integers, Integers]:
    """Lists of two numbers each, one after the other: where each starts, the first numbers, the second ones."""
    pairs = np.array([pair for each in lists for pair in each], np.int64).reshape(-1, 2)
    return np.cumsum([0, *map(len, lists)]), pairs[:, 0].copy(), pairs[:, 1].copy()


class Tables:
    """The tables of targets, zeros and functions, all in one flat array; a subject is one of these three."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        targets: Sequence[Target],
        zeros: Iterable[Zeros] = (),
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        self.names, self.targets, self.sizes = tuple(sizes), targets, dict(sizes)
        self._number = {name: i for i, name in enumerate(sizes)}
        self._functions = dict(functions or {})
        self._kinds: list[int] = []
        self._subjects: list[Names] = []
        self._weights: list[float] = []
        self._known: list[NDArray[Any]] = []  # of zeros and functions
        self._table_start, self._offset = [0], [0]
        self._axes: list[Axes] = []
        for target in targets:
            weight = target.weight / (target.variance + _ROUNDING)
            self._add(TARGET, target.attributes, [_last(target.attributes, own) for own in target.attributes], weight)
        for zero in zeros:
            self._add(ZERO, zero.attributes, [zero.attributes])
            self._known.append(np.where(zero.forbidden, math.inf, 0.0).ravel())
        for function in self._functions.values():
            self._add(FUNCTION, function.sources, [function.sources])
            self._known.append(function.values)
        self.layout = self._layout()

    def _add(self, kind: int, names: Names, orders: Sequence[Names], weight: float = 0.0) -> None:
        for order in orders:
            stride, axes = 1, []
            for name in reversed(order):
                axes.append((self._number[name], stride))
                stride *= self.sizes[name]
            self._axes.append(axes)
            self._offset.append(self._offset[-1] + stride)
        self._kinds.append(kind)
        self._subjects.append(names)
        self._weights.append(weight)
        self._table_start.append(len(self._axes))

    def _layout(self) -> Layout:
        touching: dict[str, list[int]] = {name: [] for name in self.names}
        for i, names in enumerate(self._subjects):
            for name in names:
                touching[name].append(i)
        plain = np.zeros(len(self.names), np.bool_)
        movable, changed, changed_start, entries, entry_start = list[int](), list[int](), [0], list[Entry](), [0]
        for name, size in self.sizes.items():
            if name not in self._functions and size > 1:
                together = self._changing_with(name)
                met = self._entries(name, together, touching)
                if any(entry.kind == TARGET for entry in met):
                    movable.append(self._number[name])
                    entries += met
                    changed += [self._number[own] for own in together]
                    plain[self._number[name]] = size == 2 and all(
                        entry.kind == TARGET and entry.moving == [(0, 1)] and len(entry.fixed) == 1 for entry in met
                    )
            entry_start.append(len(entries))
            changed_start.append(len(changed))
        fixed_start, fixed_column, fixed_stride = _lists([entry.fixed for entry in entries])
        moving_start, moving_slot, moving_stride = _lists([entry.moving for entry in entries])
        axis_start, axis_column, axis_stride = _lists(self._axes)
        return Layout(
            sizes=_whole(self.sizes.values()),
            movable=_whole(movable),
            changed_start=_whole(changed_start),
            changed=_whole(changed),
            entry_start=_whole(entry_start),
            kind=_whole(entry.kind for entry in entries),
            plain=plain,
            side_by_side=np.array([entry.moving == [(0, 1)] for entry in entries], np.bool_),
            subject=_whole(entry.subject for entry in entries),
            weight=np.array([self._weights[entry.subject] for entry in entries], np.float32),
            slot=_whole(entry.slot for entry in entries),
            start=_whole(self._offset[entry.table] for entry in entries),
            fixed_start=fixed_start,
            fixed_column=fixed_column,
            fixed_stride=fixed_stride,
            moving_start=moving_start,
            moving_slot=moving_slot,
            moving_stride=moving_stride,
            table_start=_whole(self._table_start),
            offset=_whole(self._offset),
            axis_start=axis_start,
            axis_column=axis_column,
            axis_stride=axis_stride,
        )

    def _changing_with(self, name: str) -> list[str]:
        """A column, and the derived ones that are recomputed when it changes, in that order."""
        together = [name]
        for derived, function in self._functions.items():
            if set(function.sources) & set(together):
                together.append(derived)
        return together

    def _entries(self, name: str, together: Sequence[str], touching: Mapping[str, list[int]]) -> list[Entry]:
        results = []
        slot_of = {self._number[own]: slot for slot, own in enumerate(together)}
        derived = dict(enumerate(self._functions, len(self._kinds) - len(self._functions)))
        met = {i for own in together for i in touching[own]}
        for i in sorted(met, key=lambda i: (self._kinds[i] != FUNCTION, i)):
            names, table = self._subjects[i], self._table_start[i]
            if self._kinds[i] == TARGET and name in names:
                table += names.index(name)
            slot = together.index(derived[i]) if i in derived else 0
            fixed = [axis for axis in self._axes[table] if axis[0] not in slot_of]
            moving = [(slot_of[column], stride) for column, stride in self._axes[table] if column in slot_of]
            results.append(Entry(self._kinds[i], i, table, slot, fixed, moving))
        return results

    @property
    def together(self) -> int:
        """How many rows the loop takes together."""
        return _TOGETHER if len(self.layout.kind) > _CACHED else 1

    def counts(self, codes: Codes) -> list[Integers]:
        """The rows in every cell of every target."""
        sizes = [target.counts.size for target in self.targets]
        starts = np.cumsum([0, *sizes])
        counts = np.zeros(starts[-1], np.int64)
        for start in range(0, _many(codes), _BLOCK):
            compile_loop(count_rows)(_block(codes, start), counts, starts, self.layout)
        orders = [_last(target.attributes, target.attributes[0]) for target in self.targets]
        return [
            _transpose(part.reshape([self.sizes[name] for name in order]), order, target.attributes)
            for part, order, target in zip(np.split(counts, starts[1:-1]), orders, self.targets, strict=True)
        ]

    def gaps(self, counts: Sequence[Integers]) -> Gaps:
        """Every cell of every table; those of targets hold the rows there less those wanted.

        Where less than one row is wanted, one is as right as none: of many such cells, some are to have one. The
        rows stay there as they were sampled.
        """
        result = np.empty(self._offset[-1], np.float32)
        for target, table, count in zip(self.targets, self._table_start, counts, strict=False):
            names = target.attributes
            wanted = target.counts
            gap = count - np.where(wanted < 1, np.clip(count, np.floor(wanted), np.ceil(wanted)), wanted)
            for k, name in enumerate(names):
                result[self._cells(table + k)] = _transpose(gap, names, _last(names, name)).ravel()
        first = self._offset[self._table_start[len(self.targets)]]
        result[first:] = np.concatenate([np.empty(0), *self._known])
        return result

    def _cells(self, table: int) -> slice:
        return slice(self._offset[table], self._offset[table + 1])

    def _by_target(self, gaps: Gaps) -> Iterator[Gaps]:
        return (gaps[self._cells(table)] for table in self._table_start[: len(self.targets)])

    def distance(self, gaps: Gaps) -> float:
        """F, of which every pass takes its gain."""
        squares = (float(np.square(part, dtype=np.float64).sum()) for part in self._by_target(gaps))
        return sum(weight * square for weight, square in zip(self._weights, squares, strict=False))

    def variations(self, counts: Sequence[Integers], rows: int) -> Floats:
        """The total variation distance of the rows from every target."""
        pairs = zip(counts, self.targets, strict=True)
        return np.array([np.abs(count - target.counts).sum() for count, target in pairs]) / (2 * max(rows, 1))


def _transpose(table: NDArray[Any], names: Names, order: Names) -> NDArray[Any]:
    return table.transpose([names.index(name) for name in order])


def _last(names: Names, last: str) -> Names:
    return (*(name for name in names if name != last), last)


def work(sizes: Mapping[str, int], sets: Iterable[Names]) -> int:
    """What one row takes, once through its columns, if these sets are the targets: each cell looked at counts one."""
    return sum(min(sizes[name], CANDIDATES) + _TABLE for names in sets for name in names)


# ---- the passes ------------------------------------------------------------------------------------------------------

_BLOCK = 1 << 16  # rows at a time
_TABLE = 8  # what a table takes, in cells
_WORK = 1e10  # of passes that take losses, in cells: some five seconds
_GAINING = (1, 4)  # passes with a threshold that take gains alone: for many rows, for few
_LOSING = 60  # passes that take losses, at most
_LOSS = 0.15  # taken at first, in rows of a cell; a change of rows that fit loses one
_LAST_PASSES = 3  # without one, at most
_STALLED = 0.02  # of the distance: without a threshold, a pass that gains less ends it
_LEAST_THRESHOLD = 0.5
_TOGETHER = 256  # rows of which one column is changed, where the tables of all columns do not fit into a cache
_CACHED = 1 << 14  # tables that do
_SOME = 1 << 11  # rows that show how large gains are, where there are many tables


@dataclass(frozen=True, eq=False)
class Repaired:
    """Rows, and their total variation distance from every target before and after."""

    codes: dict[str, NDArray[Any]]
    before: Floats
    after: Floats


def repair(codes: Codes, tables: Tables, change: bool = True) -> Repaired:
    """Change values of the rows until their counts are close to the targets'.

    A function of the rows and the targets, also in when it stops: the number of passes with a threshold follows from
    sizes and gains; without one it stops where a pass would lower the distance by less than 2 %. Without ``change``,
    distances are measured only.
    """
    rows = {name: column.copy() for name, column in codes.items()}  # [repair]
    counts = tables.counts(rows)
    before = after = tables.variations(counts, _many(rows))
    if change and _many(rows) and len(tables.layout.movable):
        gaps = tables.gaps(counts)
        for start, limit in _thresholds(rows, tables, gaps):
            _improve(rows, start, tables, gaps, limit)
        _finish(rows, tables, gaps)
        after = tables.variations(tables.counts(rows), _many(rows))
    return Repaired(rows, before, after)


def _many(codes: Codes) -> int:
    return len(next(iter(codes.values())))


def _thresholds(codes: Codes, tables: Tables, gaps: Gaps) -> Iterator[tuple[int, float]]:
    """Every block of every pass with its threshold: it falls evenly from the largest gain that some rows have, then
    rises from a loss that is taken."""
    rows = _many(codes)
    some = _block(codes, 0)[: _BLOCK if tables.together == 1 else _SOME]
    _, largest = compile_loop(improve_rows)(some, gaps, math.inf, CANDIDATES, tables.together, tables.layout)
    fall = max(largest / _LEAST_THRESHOLD, 1.0)
    passes = passes_of(rows, work(tables.sizes, [target.attributes for target in tables.targets]))
    blocks = range(0, rows, _BLOCK)
    gaining = [*blocks] * min(passes[0], math.ceil(math.log2(fall)))
    for i, start in enumerate(gaining, 1):
        yield start, largest * fall ** -(i / len(gaining))
    losing = [*blocks] * passes[1]
    for i, start in enumerate(losing):
        yield start, -_LOSS * (1 - i / len(losing))


def passes_of(rows: int, work: int) -> tuple[int, int]:
    """The passes with a threshold, those that take gains alone and those that take losses: fewer for more work."""
    passes = _WORK / max(rows * work, 1)
    return int(np.clip(2 * passes, *_GAINING)), int(min(passes, _LOSING))


def _finish(rows: dict[str, NDArray[Any]], tables: Tables, gaps: Gaps) -> None:
    blocks = range(0, _many(rows), _BLOCK)
    for start in itertools.chain.from_iterable(itertools.repeat(blocks, _LAST_PASSES)):
        distance = tables.distance(gaps)
        if _improve(rows, start, tables, gaps, 0.0) * len(blocks) <= _STALLED * distance:
            break


def _improve(rows: dict[str, NDArray[Any]], start: int, tables: Tables, gaps: Gaps, threshold: float) -> float:
    """Change values in one block of rows; how much that lowers the distance."""
    block = _block(rows, start)
    gained, _ = compile_loop(improve_rows)(block, gaps, threshold, CANDIDATES, tables.together, tables.layout)
    for i, column in enumerate(rows.values()):
        column[start : start + len(block)] = block[:, i]
    return float(gained)


def _block(codes: Codes, start: int) -> Rows:
    """Some rows, all codes of one side by side."""
    return np.stack([column[start : start + _BLOCK].astype(np.uint16) for column in codes.values()], axis=1)
