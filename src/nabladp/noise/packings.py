"""Choosing attribute-disjoint sets, with exactly known probabilities: a given number of them, or any number.

Z[mask][c] is the log of the summed weights of all packings of c sets inside ``mask``. Such a packing either leaves the
lowest attribute of the mask alone or has one set whose lowest attribute that is, so each packing is reached by exactly
one path of such steps. Walking the path from (all attributes, count), step by step at random, draws the packing.
For any number of sets, Z[mask] sums over all c, the empty packing included; the path is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp import checks
from nabladp.arrays import Floats, Integers, compile_loop
from nabladp.errors import MechanismError
from nabladp.noise.choices import select_exponential
from nabladp.noise.draws import Draws
from nabladp.noise.parameters import refuse_long, whole_number

# ---- a given number of sets ------------------------------------------------------------------------------------------

WIDEST = 20
LARGEST_WEIGHT = 1e9  # beyond it the slack of double precision would no longer be small
_ROUNDING = 2.0**-53  # the largest relative error of one float operation
_NONE = -1  # stands among the options for using no set at the lowest attribute

Choose = Callable[[Integers, Floats], int]
"""Given a step's options (member indices, or none) and their log weights: the position of the one to take."""


class Packings:
    """Ways to choose ``count`` pairwise disjoint members of a family of attribute sets, given as bit masks.

    Holds structure only, no weights. Members may share a mask; they are told apart by their index.
    """

    def __init__(self, masks: Sequence[int] | Integers, width: int, count: int) -> None:
        self.count = whole_number(count, "The number of disjoint sets", 1)
        self.width, self.masks = _family(masks, width)
        self._sets, self._group, self._first = _by_lowest_attribute(self.masks, self.width)
        wanted = 1 << self.count if self.count <= self.width else 0
        states: NDArray[np.int32] = compile_loop(_reach)(self._sets, self._first, self.width, wanted)
        if not states[-1]:
            largest = largest_packing(self.masks, self.width)
            raise MechanismError(
                f"There are no {self.count} pairwise disjoint sets: at most {largest} can be chosen.",
                fix="Ask for fewer sets, or give sets that overlap less.",
                count=self.count,
                largest=largest,
            )
        self._visited = np.flatnonzero(states > 1)  # masks with a state Z[mask][c], c ≥ 1, that the walk may need
        self._states = states[self._visited]
        self._row = np.zeros(1 << self.width, np.int32)  # a mask's row of the table; row 0 for all others
        self._row[self._visited] = np.arange(1, len(self._visited) + 1)
        lowest = _lowest(self.masks)
        self._members = [np.flatnonzero(lowest == attribute) for attribute in range(self.width)]

    def draw(self, draws: Draws, log_weights: ArrayLike) -> tuple[int, ...]:
        """A random packing of disjoint sets, as sorted indices, P ∝ exp(sum of its members' log weights) up to
        ``slack``."""
        weights = self._checked(log_weights)
        grid = self._grid(float(np.abs(weights).max()))
        scale = Fraction(1 << grid)

        def choose(_: Integers, values: Floats) -> int:
            return select_exponential(draws, on_grid(values, grid), scale) if len(values) > 1 else 0

        return self._walk(weights, self._table(weights, soft=True), choose)

    def log_probability(self, log_weights: ArrayLike, packing: Sequence[int]) -> float:
        """The log-probability with which ``draw`` returns this packing: its steps', on the grid, multiplied."""
        weights = self._checked(log_weights)
        wanted = self._packing(packing)
        grid = self._grid(float(np.abs(weights).max()))
        parts: list[float] = []

        def choose(members: Integers, values: Floats) -> int:
            hits = np.flatnonzero(np.isin(members, wanted))
            taken = int(hits[0]) if len(hits) else len(members) - 1  # none of them: the option to use no set comes last
            scores = on_grid(values, grid)
            gaps = (scores.max() - scores) * 2.0**-grid
            parts.extend((-float(gaps[taken]), -math.log(math.fsum(np.exp(-gaps)))))
            return taken

        self._walk(weights, self._table(weights, soft=True), choose)
        return math.fsum(parts)

    def heaviest(self, weights: ArrayLike) -> tuple[float, tuple[int, ...]]:
        """The packing with the largest sum of weights, and that sum: the same recursion with max for log-sum."""
        checked = self._checked(weights)
        best = self._walk(checked, self._table(checked, soft=False), lambda _, values: int(values.argmax()))
        return math.fsum(checked[list(best)]), best

    def slack(self, largest: float) -> float:
        """η with |log_probability − ideal log probability| ≤ η for every packing if every |log weight| ≤ largest.

        Let u = 2⁻⁵³ and let hats mark computed numbers. Proof:

        1. Ideally |Z[mask][c]| ≤ V_c = c·(largest + ln members). (At most membersᶜ packings, each within c·largest.)
        2. A log-sum-exp m + ln Σ exp(Lᵢ − m) of N stored doubles, m their maximum, is off by τ ≤ 16(N + 4)u + u·V:
           the sum is at least 1, so subtracting m costs Σ u·yᵢ·exp(−yᵢ) ≤ N·u/e, adding up N·u, exp and log 8u each
           (taken to be right to 4 units in the last place; of a logarithm ≤ N), and adding m one rounding.
        3. The table holds Ẑ = log-sum-exp over distinct sets S of fl(Ŵ_S + Ẑ'), where Ŵ_S is one over S's members; the
           walk picks among L̂ = fl(w + Ẑ') for single members. So Ẑ is within τ + τ_S + 2uV of the exact log-sum-exp of
           these L̂ (which moves no more than its arguments), and L̂ is within uV of w + Ẑ'.
        4. Rounding L̂ to the grid moves it by γ = 2^−(G+1) and a step's log probability by 2γ; the pick is then exact.
           Hence a step has log probability w + Ẑ' − Ẑ (w = 0 if no set is used), up to 2γ + 16(N + N_S + 8)u + 5uV_c.
        5. Along a path Ẑ' − Ẑ telescopes, down to Z[·][0] = 0 exactly. With η' the sum over its steps, a packing has
           log probability Σw − Ẑ[all][count] up to η'. Both laws sum to one, so Ẑ is within η' of the ideal Z: 2η'.

        A path uses a set ``count`` times, once at each c, and no set at most width − count·(smallest set) times. The
        result is 4η': second-order terms and the floats that ``log_probability`` is computed in fit in the rest.
        """
        if not checks.is_number(largest) or not 0 <= float(largest) <= LARGEST_WEIGHT:
            raise MechanismError("A bound on log weights must lie between 0 and 1e9.", fix="Rescale the weights.")
        largest = float(largest)
        alone = self.width - self.count * int(np.bitwise_count(self.masks).min())
        steps = self.count + alone
        sizes = (largest + math.log(len(self.masks))) * (self.count * (self.count + 1) / 2 + alone * self.count)
        options = int(np.diff(self._first).max()) + 1 + int(np.bincount(self._group).max())
        return 4 * (steps * (2.0 ** -self._grid(largest) + 16 * (options + 8) * _ROUNDING) + 5 * _ROUNDING * sizes)

    def _grid(self, largest: float) -> int:
        """G such that every log weight of a packing step, times 2^G, stays below 2⁶²: as fine as 64 bits allow.

        Then γ is at most V·2⁻⁶², far below the rounding of the floats. G may differ between neighbouring tables: the
        law of each is within its own slack of the ideal one.
        """
        return 62 - math.frexp(self.count * (largest + math.log(len(self.masks))) + 1)[1]

    def _table(self, weights: Floats, soft: bool) -> Floats:
        """The packing recursion Z[mask][c] at [row of mask, c], minus infinity where there is no packing; if not soft,
        max for log-sum."""
        per_set = np.full(len(self._sets), -np.inf)
        np.maximum.at(per_set, self._group, weights)
        if soft:
            per_set += np.log(np.bincount(self._group, np.exp(weights - per_set[self._group])))
        table = np.full((len(self._visited) + 1, self.count + 1), -np.inf)
        table[:, 0] = 0.0
        compile_loop(_fill)(self._sets, self._first, per_set, self._visited, self._states, self._row, table, soft)
        return table

    def _walk(self, weights: Floats, table: Floats, choose: Choose) -> tuple[int, ...]:
        mask, left = (1 << self.width) - 1, self.count
        chosen: list[int] = []
        while left:
            lowest = mask & -mask
            members = self._members[lowest.bit_length() - 1]
            members = members[self.masks[members] & ~mask == 0]
            used = weights[members] + table[self._row[mask ^ self.masks[members]], left - 1]
            values = np.append(used, table[self._row[mask ^ lowest], left])
            possible = values > -np.inf
            options = np.append(members, _NONE)[possible]
            member = int(options[choose(options, values[possible])])
            if member == _NONE:
                mask ^= lowest
            else:
                mask ^= int(self.masks[member])
                left -= 1
                chosen.append(member)
        return tuple(sorted(chosen))

    def _checked(self, weights: ArrayLike) -> Floats:
        return checked_weights(weights, len(self.masks))

    def _packing(self, packing: Sequence[int]) -> Integers:
        listed = checks.members(packing, "A packing", "Give the indices of its members.")
        chosen = [whole_number(m, "A member's index", 0, len(self.masks) - 1) for m in listed]
        union = int(np.bitwise_or.reduce(self.masks[chosen], initial=0))
        if len(chosen) != self.count or union.bit_count() != np.bitwise_count(self.masks[chosen]).sum():
            fix = f"Give {self.count} members with pairwise disjoint sets."
            raise MechanismError("That is not a packing.", fix=fix, count=self.count)
        return np.array(chosen, np.int64)


def checked_weights(weights: ArrayLike, members: int) -> Floats:
    """Log weights of a family's members as float64; errors say nothing about the values, which come from data."""
    refuse_long(weights, "Weights")
    try:
        array = np.asarray(weights)
    except (ValueError, TypeError, OverflowError):
        array = np.empty(0, np.object_)
    if array.shape != (members,) or array.dtype.kind not in "fiu":
        fix = "Give a flat array with one float per member."
        raise MechanismError("Weights do not fit the family of sets.", fix=fix, members=members)
    floats = array.astype(np.float64)
    if not (np.abs(floats) <= LARGEST_WEIGHT).all():  # false for NaN too
        raise MechanismError("Weights must be finite and within ±1e9.", fix="Bound or rescale them beforehand.")
    return floats


def largest_packing(masks: Sequence[int] | Integers, width: int) -> int:
    """The largest number of sets that are pairwise disjoint."""
    width, family = _family(masks, width)
    sets, _, first = _by_lowest_attribute(family, width)
    every_count = (2 << width) - 1
    return int(compile_loop(_reach)(sets, first, width, every_count)[-1]).bit_length() - 1


def _family(masks: Sequence[int] | Integers, width: int) -> tuple[int, Integers]:
    width = whole_number(width, "The number of attributes", 1, WIDEST)
    highest = (1 << width) - 1
    listed = checks.members(masks, "The masks", "Give a whole number for each set.")
    return width, np.array([whole_number(m, "The mask of a set", 1, highest) for m in listed], np.int64)


def _lowest(masks: Integers) -> Integers:
    """The lowest attribute of each bit mask: the bits below its lowest one, counted."""
    below: Integers = np.bitwise_count((masks & -masks) - 1).astype(np.int64)
    return below


def _by_lowest_attribute(masks: Integers, width: int) -> tuple[Integers, Integers, Integers]:
    """Distinct sets ordered by lowest attribute, each member's rank among them, and where each attribute's begin."""
    sets, group = np.unique(masks, return_inverse=True)
    lowest = _lowest(sets)
    order = np.argsort(lowest, kind="stable")
    rank = np.argsort(order)
    return sets[order], rank[group], np.searchsorted(lowest[order], np.arange(width + 1)).astype(np.int64)


def on_grid(values: Floats, grid: int) -> Integers:
    """Log weights times 2^grid, rounded to whole numbers."""
    return np.rint(np.ldexp(values, grid)).astype(np.int64)


def _reach(sets: Integers, first: Integers, width: int, wanted: int) -> NDArray[np.int32]:
    """Per mask, a bit for each c such that the packing walk from (all attributes, a wanted count) may pass (mask, c).

    A step raises the lowest attribute: going up shows which states are asked for, coming back which have a packing.
    They are few: what a mask lacks above its lowest attribute went with sets that began below it.
    """
    size = 1 << width
    asked = np.zeros(size, np.int32)
    asked[size - 1] = wanted
    for attribute in range(width):
        for mask in range(1 << attribute, size, 2 << attribute):
            if asked[mask] > 1:
                asked[mask ^ (1 << attribute)] |= asked[mask]
                for s in range(first[attribute], first[attribute + 1]):
                    if sets[s] & ~mask == 0:
                        asked[mask ^ sets[s]] |= asked[mask] >> 1
    there = np.ones(size, np.int32)  # to choose nothing is always possible
    for attribute in range(width - 1, -1, -1):
        for mask in range(1 << attribute, size, 2 << attribute):
            if asked[mask] > 1:
                there[mask] |= there[mask ^ (1 << attribute)]
                for s in range(first[attribute], first[attribute + 1]):
                    if sets[s] & ~mask == 0:
                        there[mask] |= there[mask ^ sets[s]] << 1
    return asked & there


def _fill(
    sets: Integers,
    first: Integers,
    weights: Floats,
    visited: Integers,
    states: NDArray[np.int32],
    row: NDArray[np.int32],
    table: Floats,
    soft: bool,
) -> None:
    """Fill the packing recursion Z[mask][c] for all visited masks in increasing order, in logs, because weights span
    thousands."""
    target = np.empty(len(sets), np.int64)
    weight = np.empty(len(sets), np.float64)
    values = np.empty(len(sets) + 1, np.float64)
    for r in range(1, len(visited) + 1):
        mask = visited[r - 1]
        attribute = 0
        while not mask >> attribute & 1:
            attribute += 1
        fitting = 0
        for s in range(first[attribute], first[attribute + 1]):
            if sets[s] & ~mask == 0:
                target[fitting], weight[fitting] = row[mask ^ sets[s]], weights[s]
                fitting += 1
        without = row[mask ^ (1 << attribute)]
        for c in range(1, table.shape[1]):
            if states[r - 1] >> c & 1:
                top = values[fitting] = table[without, c]
                for i in range(fitting):
                    values[i] = weight[i] + table[target[i], c - 1]
                    top = max(top, values[i])
                if soft:
                    total = 0.0
                    for i in range(fitting + 1):
                        total += math.exp(values[i] - top)
                    top += math.log(total)
                table[r, c] = top


# ---- any number of sets ----------------------------------------------------------------------------------------------


class AnyPackings:
    """Members of a family of attribute sets, as bit masks, with the log weight of each; P ∝ exp(Σ log weights)."""

    def __init__(self, masks: Sequence[int] | Integers, width: int, weights: Floats, grid: int) -> None:
        self.width, self.grid = width, grid
        given = np.asarray(masks, np.int64)
        lowest = _lowest(given)
        self._order = np.argsort(lowest, kind="stable")
        self.masks, self.weights = given[self._order], np.asarray(weights, np.float64)[self._order]
        self._first = np.searchsorted(lowest[self._order], np.arange(width + 1)).astype(np.int64)
        self.table = np.zeros(1 << width)
        compile_loop(_fill_any)(self.masks, self.weights, self._first, self.table)

    def draw(self, draws: Draws) -> tuple[int, ...]:
        """A random packing of any number of disjoint sets, as sorted indices."""
        scale = Fraction(1 << self.grid)
        mask, chosen = (1 << self.width) - 1, []
        while mask:
            options, values = self._options(mask)
            scores = on_grid(values, self.grid)
            member = int(options[select_exponential(draws, scores, scale) if len(scores) > 1 else 0])
            if member == _NONE:
                mask &= mask - 1
            else:
                mask ^= int(self.masks[member])
                chosen.append(int(self._order[member]))
        return tuple(sorted(chosen))

    def law(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every packing of any number of sets with the log-probability with which :meth:`draw` makes it; for tiny
        cases."""
        yield from self._law((1 << self.width) - 1, (), 0.0)

    def _law(self, mask: int, chosen: tuple[int, ...], chance: float) -> Iterator[tuple[tuple[int, ...], float]]:
        if not mask:
            yield tuple(sorted(chosen)), chance
            return
        options, values = self._options(mask)
        chances = log_softmax(on_grid(values, self.grid), self.grid)
        for member, log_chance in zip(options.tolist(), chances, strict=True):
            if member == _NONE:
                yield from self._law(mask & (mask - 1), chosen, chance + log_chance)
            else:
                rest = mask ^ int(self.masks[member])
                yield from self._law(rest, (*chosen, int(self._order[member])), chance + log_chance)

    def _options(self, mask: int) -> tuple[Integers, Floats]:
        """The members that a packing may use at the lowest attribute, then none; and their log weights with what
        follows."""
        lowest = (mask & -mask).bit_length() - 1
        members = np.arange(self._first[lowest], self._first[lowest + 1])
        members = members[self.masks[members] & ~mask == 0]
        used = self.weights[members] + self.table[mask ^ self.masks[members]]
        return np.append(members, _NONE), np.append(used, self.table[mask & (mask - 1)])


def largest_value(members: int, most: int, largest: float) -> float:
    """V: no |Z| of the packing recursion is above it, if every |log weight| ≤ ``largest`` and a packing has at most
    ``most`` sets."""
    return most * (largest + math.log(members + 1))


def fineness(value: float) -> int:
    """G such that values up to this one, times 2^G, stay below 2⁶²: as fine as 64 bits allow."""
    return 61 - math.frexp(value + 1)[1]


def any_slack(width: int, members: int, most: int, largest: float) -> float:
    """η with |log P(packing) − ideal log P| ≤ η for every packing of any number of sets if every |log weight| ≤
    ``largest``.

    As in ``Packings.slack``: with u = 2⁻⁵³, V as above and N options at a step, the table's log-sum-exp is off by at
    most 16(N + 4)u + uV, adding a weight by uV, and rounding to the grid moves a step's log probability by 2γ, γ =
    2^−(G+1). Along a path of at most ``width`` steps the table's values telescope down to Z[∅] = 0: η' = width·(2γ +
    16(N + 8)u + 5uV). Both laws sum to one, so the normaliser is within η' too: 2η'. The code takes 4η'.
    """
    value = largest_value(members, most, largest)
    step = 2.0 ** -fineness(value) + 16 * (members + 9) * _ROUNDING + 5 * _ROUNDING * value
    return 4 * width * step


def log_softmax(scores: Integers, grid: int) -> Floats:
    """The log-probabilities ∝ exp(scores/2^grid)."""
    gaps = np.ldexp((scores - scores.max()).astype(np.float64), -grid)
    return np.asarray(gaps - math.log(math.fsum(np.exp(gaps))))


def _fill_any(masks: Integers, weights: Floats, first: Integers, table: Floats) -> None:
    """Fill Z of every mask in increasing order for packings of any number of sets, in logs, because weights span
    thousands."""
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
