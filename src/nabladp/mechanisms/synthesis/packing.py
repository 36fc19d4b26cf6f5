"""Any number of attribute-disjoint sets at once, with exactly known probabilities.

Z[mask] is the log of the summed weights of all packings inside ``mask``, the empty one included. A packing either
leaves the lowest attribute of the mask alone or has one set whose lowest attribute that is, so each packing is reached
by exactly one path of such steps. Walking the path, step by step at random, draws the packing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.kernels import compiled
from nabladp.noise import NoiseSource

_U = 2.0**-53  # the largest relative error of one float operation
_NONE = -1


class Packing:
    """Members of a family of attribute sets, as bit masks, with the log weight of each; P ∝ exp(Σ log weights)."""

    def __init__(self, masks: Sequence[int] | Integers, width: int, weights: Floats, grid: int) -> None:
        self.width, self.grid = width, grid
        given = np.asarray(masks, np.int64)
        lowest = np.bitwise_count((given & -given) - 1).astype(np.int64)
        self._order = np.argsort(lowest, kind="stable")
        self.masks, self.weights = given[self._order], np.asarray(weights, np.float64)[self._order]
        self._first = np.searchsorted(lowest[self._order], np.arange(width + 1)).astype(np.int64)
        self.table = np.zeros(1 << width)
        compiled(_fill)(self.masks, self.weights, self._first, self.table)

    def draw(self, noise: NoiseSource) -> tuple[int, ...]:
        """The sorted indices of a packing."""
        scale = Fraction(1 << self.grid)
        mask, chosen = (1 << self.width) - 1, []
        while mask:
            options, values = self._options(mask)
            scores = _whole(values, self.grid)
            member = int(options[noise.select_exponential(scores, scale) if len(scores) > 1 else 0])  # [exact-pick]
            if member == _NONE:
                mask &= mask - 1
            else:
                mask ^= int(self.masks[member])
                chosen.append(int(self._order[member]))
        return tuple(sorted(chosen))

    def law(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every packing with the log of the probability with which :meth:`draw` makes it; for tiny cases."""
        yield from self._law((1 << self.width) - 1, (), 0.0)

    def _law(self, mask: int, chosen: tuple[int, ...], chance: float) -> Iterator[tuple[tuple[int, ...], float]]:
        if not mask:
            yield tuple(sorted(chosen)), chance
            return
        options, values = self._options(mask)
        for member, log_chance in zip(options.tolist(), log_law(_whole(values, self.grid), self.grid), strict=True):
            if member == _NONE:
                yield from self._law(mask & (mask - 1), chosen, chance + log_chance)
            else:
                rest = mask ^ int(self.masks[member])
                yield from self._law(rest, (*chosen, int(self._order[member])), chance + log_chance)

    def _options(self, mask: int) -> tuple[Integers, Floats]:
        """The members that may be used at the lowest attribute, then none; and their log weights with what follows."""
        lowest = (mask & -mask).bit_length() - 1
        members = np.arange(self._first[lowest], self._first[lowest + 1])
        members = members[self.masks[members] & ~mask == 0]
        used = self.weights[members] + self.table[mask ^ self.masks[members]]
        return np.append(members, _NONE), np.append(used, self.table[mask & (mask - 1)])


def largest_value(members: int, most: int, largest: float) -> float:
    """V: no |Z| is above it, if every |log weight| is at most ``largest`` and a packing has at most ``most`` sets."""
    return most * (largest + math.log(members + 1))


def fineness(value: float) -> int:
    """G such that values up to this one, times 2^G, stay below 2⁶²: as fine as 64 bits allow."""
    return 61 - math.frexp(value + 1)[1]


def slack(width: int, members: int, most: int, largest: float) -> float:
    """η with |log P(packing) − ideal log P| ≤ η for every packing if every |log weight| ≤ ``largest``.

    As in ``noise/packings.py``: with u = 2⁻⁵³, V as above and N options at a step, the table's log-sum-exp is off by at
    most 16(N + 4)u + uV, adding a weight by uV, and rounding to the grid moves a step's log probability by 2γ, γ =
    2^−(G+1). Along a path of at most ``width`` steps the table's values telescope down to Z[∅] = 0: η' = width·(2γ +
    16(N + 8)u + 5uV). Both laws sum to one, so the normaliser is within η' too: 2η'. The code takes 4η'.
    """
    value = largest_value(members, most, largest)
    step = 2.0 ** -fineness(value) + 16 * (members + 9) * _U + 5 * _U * value
    return 4 * width * step  # [slack]


def _whole(values: Floats, grid: int) -> Integers:
    return np.rint(np.ldexp(values, grid)).astype(np.int64)


def log_law(scores: Integers, grid: int) -> Floats:
    """The logs of probabilities ∝ exp(scores/2^grid)."""
    gaps = np.ldexp((scores - scores.max()).astype(np.float64), -grid)
    return np.asarray(gaps - math.log(math.fsum(np.exp(gaps))))


def _fill(masks: Integers, weights: Floats, first: Integers, table: Floats) -> None:
    """Z of every mask in increasing order; in logs throughout, because weights span thousands."""
    values = np.empty(len(masks) + 1, np.float64)
    for mask in range(1, len(table)):
        attribute = 0
        while not mask >> attribute & 1:
            attribute += 1
        top = values[0] = table[mask & (mask - 1)]
        count = 1
        for m in range(first[attribute], first[attribute + 1]):
            if masks[m] & ~mask == 0:
                values[count] = weights[m] + table[mask ^ masks[m]]
                top = max(top, values[count])
                count += 1
        total = 0.0
        for i in range(count):
            total += math.exp(values[i] - top)
        table[mask] = top + math.log(total)
