"""The loops over rows, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.unsignedinteger]

SPREAD = 1 << 12  # windows up to this size are counted in several copies, for rows that are all alike


def append(cells: Numbers, numbers: Numbers, axis: np.unsignedinteger) -> None:
    for i in range(len(cells)):
        cells[i] = cells[i] * axis + numbers[i]


def append_four(cells: Numbers, a: Numbers, b: Numbers, c: Numbers, d: Numbers, axes: Numbers) -> None:
    """The same four times, with one pass over the cells."""
    p, q, r, s = axes[0], axes[1], axes[2], axes[3]
    for i in range(len(cells)):
        cells[i] = (((cells[i] * p + a[i]) * q + b[i]) * r + c[i]) * s + d[i]


def look_up(cells: Numbers, table: Numbers, found: Numbers) -> None:
    for i in range(len(cells)):
        found[i] = table[cells[i]]


def hash(listed: Numbers, shift: np.uint64, places: Numbers, table: Numbers) -> None:
    """Each cell goes to the first free place from its hash on; a place is free while its number is 0."""
    last = np.uint64(len(places) - 1)
    for i in range(len(listed)):
        at = (listed[i] * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[at] != 0:
            at = (at + np.uint64(1)) & last
        places[at], table[at] = listed[i], i + 1


def search(cells: Numbers, shift: np.uint64, places: Numbers, table: Numbers, found: Numbers) -> None:
    last = np.uint64(len(places) - 1)
    for i in range(len(cells)):
        cell = np.uint64(cells[i])
        at = (cell * np.uint64(0x9E3779B97F4A7C15)) >> shift
        while table[at] != 0 and places[at] != cell:
            at = (at + np.uint64(1)) & last
        found[i] = table[at]


def mix(mixed: Numbers, numbers: Numbers, from_one: bool) -> None:
    """One more number of every row goes into its hash. A hash is odd, or even for rows that are out, and stays so."""
    for i in range(len(mixed)):
        number = np.uint64(numbers[i])
        mixed[i] = mixed[i] * np.uint64(0xD1342543DE82EF95) + (number << np.uint64(1))
        if from_one and number == 0:
            mixed[i] = 0


def throw(mixed: Numbers, shift: np.uint64, kept: NDArray[np.uint8], found: Numbers) -> None:
    """The bucket of every row, the last time. Each time the hash is mixed once more.

    There is no branch: which way it goes could not be foreseen.
    """
    times = len(kept)
    for i in range(len(mixed)):
        spread = (mixed[i] ^ (mixed[i] >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        stays = mixed[i]
        for time in range(times):
            at = spread >> shift
            stays &= np.uint64(kept[time, at >> np.uint64(3)]) >> (at & np.uint64(7))
            spread = (spread ^ (spread >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        found[i] = ((spread >> shift) + np.uint64(1)) * (stays & np.uint64(1))


def tally(cells: Numbers, start: np.uint64, total: NDArray[Any]) -> None:
    """A small window is counted in four copies: adding to one cell again and again would wait for each addition."""
    size = np.uint64(len(total))
    first = 0
    if len(total) <= SPREAD:
        copies = np.zeros((4, len(total)), total.dtype)
        first = len(cells) - len(cells) % 4
        for i in range(0, first, 4):
            for j in range(4):
                at = cells[i + j] - start
                if at < size:
                    copies[j, at] += 1
        for j in range(4):
            for k in range(len(total)):
                total[k] += copies[j, k]
    for i in range(first, len(cells)):
        at = cells[i] - start
        if at < size:
            total[at] += 1
