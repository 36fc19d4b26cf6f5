"""Fast exact evaluation of many terms: for one set of attributes, and for the costliest sets of a size.

A touch term whose weights differ is a sum of touch terms whose weights are equal (cut its weights into layers), and an
equal-weight touch term is charged when T meets its support: a coverage function. Coverage is evaluated on packed bits,
one table row per group of attributes, and the costs of the layers touched are summed exactly in float64, cut into limbs
so narrow that no sum can leave 2⁵³. Terms of other shapes are few and are asked one by one.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nabladp.checks import is_whole
from nabladp.errors import GuaranteeError, quote
from nabladp.privacy.terms import Cost, Term, WeightTerm
from nabladp.privacy.units import root_double, to_float
from nabladp.privacy.universe import Universe

_EXACT_BITS = 53  # integers below 2⁵³ are exact in float64
_TABLE_BYTES = 1 << 26


@dataclass(frozen=True)
class Total:
    """Exact sums over the terms that a set meets. None stands for 'no bound'."""

    rho: int | None  # of everything
    pure: int | None  # of the pure terms (None only if one of them is unbounded)
    rho_of_rest: int | None  # of the terms without a pure bound

    @property
    def pure_of_all(self) -> int | None:
        return self.pure if self.rho_of_rest == 0 else None


class CostIndex:
    """The costs of many terms, for any set of source attributes and for the costliest sets."""

    def __init__(self, universe: Universe, terms: Sequence[tuple[Term, int]]) -> None:
        self.universe, self.terms = universe, terms
        self._greedy: tuple[str, ...] = ()
        merged: dict[frozenset[str], list[int]] = {}  # support -> ρ of pure terms, ε of pure terms, ρ of the rest
        self._others: list[tuple[Term, int]] = []
        for term, count in terms:
            if isinstance(term, WeightTerm) and term.shape == "touch":
                for support, *costs in _layers(term, count):
                    sums = merged.setdefault(support, [0, 0, 0])
                    sums[:] = [a + b for a, b in zip(sums, costs, strict=True)]
            else:
                self._others.append((term, count))
        self._size = len(merged)
        self._limbs, self._limb_positions = _limbs(list(merged.values()), _EXACT_BITS - self._size.bit_length())
        if merged:
            self._tabulate(universe.position, list(merged))

    def worst_subset(self, size: int, most: int | None = None) -> WorstSubset:
        return _worst_subset(self, size, most)

    def greedy(self, size: int) -> tuple[str, ...]:
        """A costly set by greedy search: add the attribute that raises the cost most, ``size`` times."""
        chosen = self._greedy  # a smaller set begins a larger one
        while len(chosen) < size:
            rest = [name for name in self.universe.protected if name not in chosen]
            chosen += (max(rest, key=lambda name: _units(self, (*chosen, name))),)
        self._greedy = max(self._greedy, chosen, key=len)
        return chosen[:size]

    @cached_property
    def singles(self) -> list[float | int]:
        """The cost of every protected attribute by itself."""
        return [_units(self, (name,)) for name in self.universe.protected]

    def _tabulate(self, position: dict[str, int], supports: list[frozenset[str]]) -> None:
        """For every group of attributes and every choice within it: the cost layers that the choice touches, as
        bits."""
        member = np.zeros((len(position), -(-self._size // 64) * 64), dtype=bool)
        for column, support in enumerate(supports):
            member[[position[name] for name in support], column] = True
        touched_by = np.packbits(member, axis=1).view(np.uint64)
        group = 8 if touched_by.nbytes * 256 // 8 <= _TABLE_BYTES else 1
        groups = -(-len(position) // group)
        table = np.zeros((groups, 1 << group, touched_by.shape[1]), dtype=np.uint64)
        for row, bits in enumerate(touched_by):
            base, half = table[row // group], 1 << (row % group)
            base[half : 2 * half] = base[:half] | bits
        self._table = table.reshape(-1, touched_by.shape[1])
        self._first_rows = np.arange(groups) << group
        self._bit = {name: 1 << i for name, i in position.items()}

    def total(self, attributes: frozenset[str]) -> Total:
        rho_of_pure, pure, rest = self._touch_costs(attributes)
        bounded_rho, bounded_pure = True, True
        for term, count in self._others:
            cost = term.cost(attributes)
            if cost.rho is None:
                bounded_rho, bounded_pure = False, False
            elif cost.pure is None:
                rest += count * cost.rho
            else:
                rho_of_pure += count * cost.rho
                pure += count * cost.pure
        return Total(
            rho=rho_of_pure + rest if bounded_rho else None,
            pure=pure if bounded_pure else None,
            rho_of_rest=rest if bounded_rho else None,
        )

    def _touch_costs(self, attributes: frozenset[str]) -> tuple[int, int, int]:
        if not self._size or not attributes:
            return 0, 0, 0
        chosen = sum(map(self._bit.__getitem__, attributes)).to_bytes(-(-len(self._bit) // 8), "little")
        digits = np.frombuffer(chosen, dtype=np.uint8)
        if len(digits) != len(self._first_rows):  # a row per attribute, not per eight
            digits = np.unpackbits(digits, count=len(self._first_rows), bitorder="little")
        touched = np.bitwise_or.reduce(self._table.take(self._first_rows + digits, axis=0), axis=0).view(np.uint8)
        hit = np.unpackbits(touched, count=self._size).astype(np.float64)
        sums = [0, 0, 0]
        for limb, (column, shift) in zip((self._limbs @ hit).tolist(), self._limb_positions, strict=True):
            sums[column] += int(limb) << shift
        return sums[0], sums[1], sums[2]


def _layers(term: WeightTerm, count: int) -> list[tuple[frozenset[str], int, int, int]]:
    """A max-of-weights term cut into a sum of equal-weight layers: the attributes at or above each distinct weight."""
    layers = []
    below = Cost(0, 0)
    for weight in sorted({weight for _, weight in term.weights}):
        support = frozenset(name for name, w in term.weights if w >= weight)
        cost = term.of_amount(weight)
        step = count * ((cost.rho or 0) - (below.rho or 0))
        if term.pure:
            layers.append((support, step, count * ((cost.pure or 0) - (below.pure or 0)), 0))
        else:
            layers.append((support, 0, 0, step))
        below = cost
    return layers


def _limbs(costs: list[list[int]], bits: int) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    """The index's three cost columns as rows of limbs, and for each row its column and the shift that undoes the
    cut."""
    rows: list[list[int]] = []
    positions: list[tuple[int, int]] = []
    mask = (1 << bits) - 1
    for column in range(3):
        longest = max((cost[column].bit_length() for cost in costs), default=0)
        for shift in range(0, longest, bits):
            rows.append([(cost[column] >> shift) & mask for cost in costs])
            positions.append((column, shift))
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(costs)), positions


def scan_total(terms: Iterable[tuple[Term, int]], attributes: frozenset[str]) -> Cost:
    """The plain sum of a set's cost over all terms, for one-off questions and as the check of :class:`CostIndex`."""
    rho: int | None = 0
    pure: int | None = 0
    for term, count in terms:
        cost = term.cost(attributes).times(count)
        rho = None if rho is None or cost.rho is None else rho + cost.rho
        pure = None if pure is None or cost.pure is None else pure + cost.pure
    return Cost(rho, pure)


# ---- the costliest attributes ----------------------------------------------------------------------------------------

MOST_SUBSETS = 50_000  # about two seconds


@dataclass(frozen=True)
class WorstSubset:
    """``rho`` belongs to ``attributes``; no set of this size costs more than ``at_most``. ``exact`` if they agree.

    ``among`` holds every attribute of sets that cost as much: of all such sets where all were looked at, otherwise of
    those that differ in one attribute from the one that was found.
    """

    attributes: tuple[str, ...]
    rho: float
    at_most: float
    exact: bool
    among: tuple[str, ...] = ()


def _worst_subset(index: CostIndex, size: int, most: int | None) -> WorstSubset:
    """The costliest set of this size: looks at every set if there are at most ``most``, otherwise searches and says how
    sure that is."""
    names = index.universe.protected
    if not is_whole(size, 1, len(names)):
        raise GuaranteeError(
            f"There is no set of {quote(size)} protected attributes.", fix=f"Choose from 1 to {len(names)}."
        )
    size = int(size)
    if math.comb(len(names), size) <= (MOST_SUBSETS if most is None else most):
        best, among = _look_at_all(index, names, size)
        rho = _units(index, best)
        return WorstSubset(best, _as_float(rho), _as_float(rho), True, among)
    chosen = tuple(sorted(index.greedy(size), key=names.index))
    rho, bound = _units(index, chosen), _upper_bound(index, names, size)
    among = _exchangeable(index, names, chosen, rho)
    return WorstSubset(chosen, _as_float(rho), _as_float(bound), rho == bound, among)


def _look_at_all(index: CostIndex, names: tuple[str, ...], size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first of the costliest sets of this size, and every attribute that is in one of them."""
    best: tuple[str, ...] = ()
    most: float | int = -1
    among: set[str] = set()
    for chosen in itertools.combinations(names, size):
        units = _units(index, chosen)
        if units > most:
            best, most, among = chosen, units, set(chosen)
        elif units == most:
            among.update(chosen)
    return best, tuple(name for name in names if name in among)


def _exchangeable(
    index: CostIndex, names: tuple[str, ...], chosen: tuple[str, ...], rho: float | int
) -> tuple[str, ...]:
    """The chosen attributes, and those that can take the place of one of them at the same cost."""

    def costs_the_same(name: str) -> bool:
        return any(_units(index, (*chosen[:i], name, *chosen[i + 1 :])) == rho for i in range(len(chosen)))

    return tuple(name for name in names if name in chosen or costs_the_same(name))


def _units(index: CostIndex, chosen: tuple[str, ...]) -> float | int:
    units = index.total(frozenset(chosen)).rho
    return math.inf if units is None else units


def _as_float(units: float | int) -> float:
    return to_float(units) if isinstance(units, int) else units


def _upper_bound(index: CostIndex, names: tuple[str, ...], size: int) -> float | int:
    """An upper bound on the costliest set: the least of all protected attributes, group privacy over the k costliest,
    every term's own worst, and, where ρ is subadditive, the sum of the k costliest (PROOF.md, section 5)."""
    person = _units(index, names)
    single = index.singles
    if any(isinstance(units, float) for units in single):
        return person
    roots = heapq.nlargest(size, (root_double(int(units)) for units in single))
    group = -(-(sum(roots) ** 2) // (2 << 60))
    together: float | int = math.inf
    if all(term.adds_up for term, _ in index.terms):
        together = sum(heapq.nlargest(size, (int(units) for units in single)))
    termwise: float | int = 0
    for term, count in index.terms:
        worst = term.worst(size, frozenset(names)).rho
        termwise = math.inf if worst is None else termwise + count * worst
    return min(person, group, together, termwise)
