"""The compiled loops that count synthetic rows and change their values, and how their tables are laid out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers

Rows = NDArray[np.uint16]  # codes, those of one row side by side
Gaps = NDArray[np.float32]
TARGET, ZERO, FUNCTION = 0, 1, 2  # the kinds of tables


class Layout(NamedTuple):
    """Where everything lies, as arrays for the compiled loops; what belongs to number i runs from ``start[i]`` to
    ``start[i + 1]``."""

    sizes: Integers
    movable: Integers  # columns whose values are changed
    changed_start: Integers  # by column: the columns that change with it, itself first
    changed: Integers
    entry_start: Integers  # by column: the tables that a change of it meets, functions first
    kind: Integers
    plain: NDArray[np.bool_]  # by column: two values, and only side-by-side tables of targets with one other column
    side_by_side: NDArray[np.bool_]  # only the column itself changes, and its cells lie side by side
    subject: Integers
    weight: NDArray[np.float32]
    slot: Integers  # of a function: the number of its column among the columns that change
    start: Integers  # the first cell
    fixed_start: Integers  # by entry: columns that do not change, and their strides
    fixed_column: Integers
    fixed_stride: Integers
    moving_start: Integers  # by entry: numbers of columns that change, and their strides
    moving_slot: Integers
    moving_stride: Integers
    table_start: Integers  # by subject: its tables
    offset: Integers  # by table: its first cell
    axis_start: Integers  # by table: its columns
    axis_column: Integers
    axis_stride: Integers


def count_rows(block: Rows, counts: Integers, starts: Integers, layout: Layout) -> None:
    """Count rows in the first table of every target; ``starts`` are where their counts begin."""
    for row in range(len(block)):
        for target in range(len(starts) - 1):
            table = layout.table_start[target]
            cell = starts[target]
            for axis in range(layout.axis_start[table], layout.axis_start[table + 1]):
                cell += layout.axis_stride[axis] * np.int64(block[row, layout.axis_column[axis]])
            counts[cell] += 1


def improve_rows(
    block: Rows, gaps: Gaps, threshold: float, candidates: int, together: int, layout: Layout
) -> tuple[float, float]:
    """Give one column of one row after the other its best value, where that gains more than the threshold, or loses
    less than one below zero; a column of so many rows ``together``, so that its tables are at hand.

    Returns how much that lowers the distance in all, and the largest gain there was; gains are compared as rows in a
    cell, a weighted mean over targets.
    """
    rows = len(block)
    most = np.diff(layout.changed_start).max()
    values = np.empty((most, candidates), np.int64)
    codes = np.empty(most, np.int64)
    cells = np.empty(candidates, np.int64)
    change = np.empty(candidates, np.float32)
    gained, largest = 0.0, 0.0
    for number in range((rows + together - 1) // together):
        for turn in range(len(layout.movable)):
            column = layout.movable[(turn + number) % len(layout.movable)]
            first, end = layout.changed_start[column], layout.changed_start[column + 1]
            every = layout.sizes[column] <= candidates
            count = layout.sizes[column] if every else candidates
            for row in range(number * together, min((number + 1) * together, rows)):
                for slot in range(end - first):
                    codes[slot] = block[row, layout.changed[first + slot]]
                now = codes[0]
                for k in range(count):
                    values[0, k] = k if every else block[(row + 1 + 97 * k) % rows, column]
                    change[k] = 0
                whole = np.float32(0)
                from_entry, to_entry = layout.entry_start[column], layout.entry_start[column + 1]
                if layout.plain[column]:  # what follows, without its loops
                    shift = layout.fixed_start[from_entry] - from_entry
                    zero, one = np.float32(0), np.float32(0)
                    for entry in range(from_entry, to_entry):
                        other = np.int64(block[row, layout.fixed_column[entry + shift]])
                        fixed = layout.start[entry] + layout.fixed_stride[entry + shift] * other
                        weight, level = layout.weight[entry], gaps[fixed + now] - np.float32(1)
                        zero += weight * (gaps[fixed] - level)
                        one += weight * (gaps[fixed + 1] - level)
                        whole += weight
                    change[0], change[1] = zero, one
                    from_entry = to_entry
                for entry in range(from_entry, to_entry):
                    fixed = layout.start[entry]
                    for axis in range(layout.fixed_start[entry], layout.fixed_start[entry + 1]):
                        fixed += layout.fixed_stride[axis] * np.int64(block[row, layout.fixed_column[axis]])
                    kind, weight = layout.kind[entry], layout.weight[entry]
                    whole += weight
                    if every and kind == TARGET and layout.side_by_side[entry]:
                        level = gaps[fixed + now] - np.float32(1)
                        own = gaps[fixed : fixed + count]
                        for k in range(count):
                            change[k] += weight * (own[k] - level)
                        continue
                    cells[:count] = fixed
                    here = fixed
                    for axis in range(layout.moving_start[entry], layout.moving_start[entry + 1]):
                        slot, stride = layout.moving_slot[axis], layout.moving_stride[axis]
                        here += stride * codes[slot]
                        for k in range(count):
                            cells[k] += stride * values[slot, k]
                    for k in range(count):
                        value = gaps[cells[k]]
                        if kind == FUNCTION:
                            values[layout.slot[entry], k] = np.int64(value)
                        elif kind == ZERO:
                            change[k] += value
                        elif cells[k] != here:
                            change[k] += weight * (value - gaps[here] + np.float32(1))
                best = -1
                for k in range(count):
                    if values[0, k] != now and (best < 0 or change[k] < change[best]):
                        best = k
                if best < 0 or change[best] >= max(-threshold, 0.0) * whole:
                    continue
                largest = max(largest, -change[best] / whole)
                if -change[best] <= threshold * whole:
                    continue
                gained -= 2 * change[best]
                for entry in range(layout.entry_start[column], layout.entry_start[column + 1]):
                    if layout.kind[entry] == TARGET:
                        subject = layout.subject[entry]
                        for table in range(layout.table_start[subject], layout.table_start[subject + 1]):
                            old = layout.offset[table]
                            for axis in range(layout.axis_start[table], layout.axis_start[table + 1]):
                                old += layout.axis_stride[axis] * np.int64(block[row, layout.axis_column[axis]])
                            gaps[old] -= 1
                for slot in range(end - first):
                    block[row, layout.changed[first + slot]] = values[slot, best]
                for entry in range(layout.entry_start[column], layout.entry_start[column + 1]):
                    if layout.kind[entry] == TARGET:
                        subject = layout.subject[entry]
                        for table in range(layout.table_start[subject], layout.table_start[subject + 1]):
                            new = layout.offset[table]
                            for axis in range(layout.axis_start[table], layout.axis_start[table + 1]):
                                new += layout.axis_stride[axis] * np.int64(block[row, layout.axis_column[axis]])
                            gaps[new] += 1
    return gained, largest
