"""How much noise every pair of columns gets, and what that costs every set of attributes. The proof is in PROOF.md.

Precision is bought in layers. The first covers all pairs of columns and stops where the first attribute is used up; its
columns leave, and the next layer covers all pairs of the rest. A layer is a Gram matrix of its own columns, so its cost
is a curve, and a pair that lies in several layers has the sum of their precisions. Squares of columns of numbers, which
no pair covers, are bought beside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import BudgetError
from nabladp.mechanisms.allocation import least_scale, source_units
from nabladp.mechanisms.gram_matrix.signed_columns import INTERCEPT, SignedColumns
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise.parameters import LARGEST_SCALE
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue

MOST_LAYERS = 16
_FEWEST_UNITS = 1 << 12  # with less the noise would be of scale 10⁷
_SMALLEST = 1e-6  # what the noise source draws
Held = Mapping[str, int]


def moved(flips: int, width: int) -> int:
    """The largest number of column pairs that change when up to ``flips`` of ``width`` ±1 columns flip: one of the two
    must."""
    most = min(flips, width // 2)
    return most * (width - most)  # [sensitivity]


@dataclass(frozen=True)
class Layer:
    """All pairs among ``width`` columns. ``held``: how many of them each protected source can flip at once."""

    held: Held
    width: int
    weight: int  # what a changed pair costs, in units of ρ

    def changed(self, flips: int) -> int:
        return moved(flips, self.width)

    def cost(self, flips: int) -> int:
        return self.weight * self.changed(flips)


@dataclass(frozen=True)
class Star:
    """The pairs of the label's one column with all ``reach`` others, beyond what the layers give them."""

    held: Held  # in pairs: all of them for the label's sources, one for each column that another can flip
    reach: int
    weight: int

    def changed(self, pairs: int) -> int:
        return min(pairs, self.reach)  # [star]

    def cost(self, pairs: int) -> int:
        return self.weight * self.changed(pairs)


@dataclass(frozen=True)
class Squares:
    """The sums of squares of columns of numbers. ``held``: how many of these each protected source can change."""

    held: Held
    weight: int

    def changed(self, numbers: int) -> int:
        return numbers  # [squares]

    def cost(self, numbers: int) -> int:
        return self.weight * self.changed(numbers)


Part = Layer | Star | Squares
Possible = tuple[int, int, int]  # the lowest and the highest value of a sum, and how far one row can move it


@dataclass(frozen=True, eq=False)
class Calibration:
    """Columns of one class get the same noise; ``class_scales`` are those of the counts of disagreements, and with
    columns of numbers of the sums of products in whole steps; ``square_scales`` those of their sums of squares.

    A scale of 0 says that nothing protected can move the count, which is then exact.
    """

    columns: SignedColumns
    universe: Universe
    parts: tuple[Part, ...]
    class_of: NDArray[np.int64]
    class_scales: Floats
    label: str | None = None  # where its pairs have a part of their own
    square_scales: Floats = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def scales(self) -> Floats:
        """The noise scale of every pair of columns, in the order of ``np.triu_indices(P, 1)``; then of every square."""
        first, second = np.triu_indices(len(self.class_of), 1)
        pairs: Floats = self.class_scales[self.class_of[first], self.class_of[second]]
        return np.concatenate([pairs, self.square_scales])

    @cached_property
    def class_reaches(self) -> NDArray[np.int64]:
        """The reach of every class of columns: 0 where they are of ±1."""
        result = np.zeros(len(self.class_scales), dtype=np.int64)
        result[self.class_of] = self.columns.reaches
        return result

    @cached_property
    def class_counts(self) -> NDArray[np.bool_]:
        """Whether what two classes of columns share is a count of disagreements: both are of ±1."""
        signs = self.class_reaches == 0
        return np.asarray(np.logical_and.outer(signs, signs))

    @cached_property
    def are_counts(self) -> NDArray[np.bool_]:
        """The same for every sum that gets noise, in the order of ``scales``."""
        first, second = np.triu_indices(len(self.class_of), 1)
        pairs = self.class_counts[self.class_of[first], self.class_of[second]]
        return np.concatenate([pairs, np.zeros(len(self.square_scales), dtype=bool)])

    @cached_property
    def scale_matrix(self) -> Floats:
        """The noise scale of every entry of the Gram matrix of columns between −1 and 1; 0 where it is exact."""
        ends = np.maximum(self.columns.reaches, 1)
        draws = np.where(self.class_counts, 2, 1) * self.class_scales
        result: Floats = draws[np.ix_(self.class_of, self.class_of)] / np.outer(ends, ends)
        np.fill_diagonal(result, 0.0)
        numbers = self.columns.numbers
        result[numbers, numbers] = self.square_scales / ends[numbers].astype(np.float64) ** 2
        return result

    @property
    def entry_scales(self) -> Floats:
        """The noise scales of the entries above the diagonal, then of the squares."""
        whole, numbers = self.scale_matrix, self.columns.numbers
        return np.concatenate([whole[np.triu_indices(len(whole), 1)], whole[numbers, numbers]])

    def ranges(self, n: int) -> list[Possible]:
        """What every sum that gets noise can be without it."""
        ends = np.maximum(self.columns.reaches, 1).tolist()
        first, second = np.triu_indices(len(ends), 1)
        pairs = zip(first.tolist(), second.tolist(), self.are_counts.tolist(), strict=False)
        sums: list[Possible] = []
        for i, j, is_count in pairs:
            most = ends[i] * ends[j]
            sums.append((0, n, 1) if is_count else (-n * most, n * most, 2 * most))
        return sums + [(0, n * ends[i] ** 2, ends[i] ** 2) for i in self.columns.numbers]

    def guarantee(self) -> Guarantee:
        return Guarantee.compose(self.universe, [_curve(self.universe, part) for part in self.parts])  # [composition]

    def noise_uses(self, universe: Universe | None = None) -> list[NoiseUse]:
        """The noise of a Gram matrix: a number for every pair with a protected column; each part the pair lies in adds
        to its precision.

        Charged in another universe, if one is given, where the label is not a column of the schema.
        """
        charges = [_charge(universe or self.universe, part) for part in self.parts]
        sizes = Counter(self.class_of.tolist())
        names = {kind: self.columns.attribute_of[self.class_of.tolist().index(kind)] for kind in sizes}
        results = []
        for one, other in combinations_with_replacement(sorted(sizes), 2):
            pairs = sizes[one] * sizes[other] if one != other else math.comb(sizes[one], 2)
            if pairs and (self._sources(names[one]) or self._sources(names[other])):
                paid = [
                    charge
                    for part, charge in zip(self.parts, charges, strict=True)
                    if self._lies_in(part, names[one], names[other])
                ]
                what = (
                    f"the pairs of columns like {names[one] or INTERCEPT} with columns like {names[other] or INTERCEPT}"
                )
                moved = pair_change(int(self.class_reaches[one]), int(self.class_reaches[other]))
                paid = [_times(charge, moved) for charge in paid]
                results.append(NoiseUse.exactly(what, "discrete_gaussian", pairs, *paid))
        return [*results, *self._square_uses(charges)]

    def _square_uses(self, charges: list[Charge]) -> list[NoiseUse]:
        """The noise of the sums of squares, each of its own reach."""
        paid = [charge for part, charge in zip(self.parts, charges, strict=True) if isinstance(part, Squares)]
        return [
            NoiseUse.exactly(
                f"the squares of {block.attribute}",
                "discrete_gaussian",
                1,
                *(_times(charge, square_change(block.reach)) for charge in paid),
            )
            for block in self.columns.number_columns
            if self._sources(block.attribute)
        ]

    def _sources(self, name: str | None) -> frozenset[str]:
        """The protected sources of a column; none for the intercept."""
        return frozenset() if name is None else self.universe.sources(name) - self.universe.public

    def _lies_in(self, part: Part, one: str | None, other: str | None) -> bool:
        """Whether a pair of columns lies in a layer or star; a column leaves the layers with the first of its
        sources."""
        if isinstance(part, Squares):
            return False
        if isinstance(part, Star):
            return (one == self.label) != (other == self.label)
        return (self._sources(one) | self._sources(other)) <= part.held.keys()


def pair_change(one: int, other: int) -> int:
    """How far one row can move the sum for a pair of columns of these reaches, squared: a count of disagreements by 1,
    a sum of products in whole steps by twice the product of both ends."""
    return (2 * max(one, 1) * max(other, 1)) ** 2 if one or other else 1  # [moved]


def square_change(reach: int) -> int:
    """How far one row can move a sum of squares in whole steps, squared."""
    return int(reach) ** 4


def _times(charge: Charge, moved: int) -> Charge:
    return replace(charge, moved={held: moved * Fraction(amount) for held, amount in (charge.moved or {}).items()})


def _charge(universe: Universe, part: Part) -> Charge:
    changed = {source: part.changed(count) for source, count in part.held.items()}
    return Charge(_curve(universe, part), {frozenset({source}): pairs for source, pairs in changed.items()})


def _curve(universe: Universe, part: Part) -> Guarantee:
    table = [Fraction(part.cost(count), UNIT) for count in range(sum(part.held.values()) + 1)]
    return Guarantee.curve(universe, part.held, table)  # [curve]


def calibrate(
    columns: SignedColumns,
    universe: Universe,
    budget: BudgetValue,
    budgets: Mapping[str, BudgetValue],
    label: str | None = None,
) -> Calibration:
    """Calibrate a Gram matrix: the least noise per pair of columns that keeps every protected source within its
    budget."""
    units = source_units(universe, budget, budgets)
    sources = {name: universe.sources(name) - universe.public for name in columns.attributes}  # [sources]
    left = {source: units[source] for source in sorted(frozenset().union(*sources.values()))}
    flips = {block.attribute: block.flips for block in columns.all_blocks}
    star = (
        None if label is None else _star(columns.width, _flipped_columns(sources, flips, label), sources[label], left)
    )
    if star is not None:
        left = {source: units - star.cost(star.held.get(source, 0)) for source, units in left.items()}
    squares = _squares(columns, sources, flips, left)
    if squares is not None:
        left = {source: units - squares.cost(squares.held.get(source, 0)) for source, units in left.items()}
    layers, last = _layers(columns, sources, flips, left)
    unpaid = [name for name, behind in sources.items() if behind and name not in last]
    if unpaid or (left and (not layers or layers[0].weight < _FEWEST_UNITS)):
        raise BudgetError("The budget is too small for so many columns.", fix="Raise it or name fewer attributes.")
    totals = list(accumulate(layer.weight for layer in layers))
    classes = [
        (*_class(name, name == label and name is not None, last, sources), int(reach))
        for name, reach in zip(columns.attribute_of, columns.reaches, strict=True)
    ]
    kinds = sorted(set(classes))
    scales = np.array([[_scale(a, b, totals, star.weight if star else 0) for b in kinds] for a in kinds])
    own = [
        least_scale("gaussian", squares.weight, square_change(block.reach))  # [square-scale]
        if squares is not None and sources[block.attribute]
        else 0.0
        for block in columns.number_columns
    ]
    if max(scales.max(), *own, 0.0) > LARGEST_SCALE:
        raise BudgetError(
            "The budget is too small for columns of numbers.", fix="Raise it, or name ranges in 'encode'."
        )
    class_of = np.array([kinds.index(kind) for kind in classes], dtype=np.int64)
    parts: tuple[Part, ...] = tuple(part for part in (star, squares, *layers) if part is not None)
    named = label if star else None
    return Calibration(columns, universe, parts, class_of, scales, named, np.array(own))


# Layers


def _flipped_columns(
    sources: Mapping[str, frozenset[str]], flips: Mapping[str, int], but: str | None = None
) -> Counter[str]:
    """The number of ±1 columns each protected source can flip at once: those of all attributes derived from it."""
    result: Counter[str] = Counter()
    for name, behind in sources.items():
        if name != but:
            result.update(dict.fromkeys(behind, flips[name]))
    return result


def _layers(
    columns: SignedColumns, sources: Mapping[str, frozenset[str]], flips: Mapping[str, int], left: dict[str, int]
) -> tuple[list[Layer], dict[str, int]]:
    """The layers of a Gram matrix calibration, and for every attribute the last layer that holds it."""
    active, layers, last = dict(sources), list[Layer](), dict[str, int]()
    left = dict(left)
    while len(layers) < MOST_LAYERS and (held := _flipped_columns(active, flips)):
        width = 1 + sum(len(columns.column_ranges[name]) for name in active)
        weight = min(left[source] // moved(held[source], width) for source in held)
        if weight > 0:
            layers.append(Layer(dict(held), width, weight))
            last |= dict.fromkeys(active, len(layers) - 1)
        for source in held:
            left[source] -= weight * moved(held[source], width)  # [budgets]
        full = {source for source in held if left[source] < moved(held[source], width)}
        active = {name: behind for name, behind in active.items() if not behind & full}
    return layers, last


# Squares of columns of numbers


def _squares(
    columns: SignedColumns, sources: Mapping[str, frozenset[str]], flips: Mapping[str, int], left: Mapping[str, int]
) -> Squares | None:
    """Sums of squares as precise as the pairs of a first layer that had to pay for both."""
    held: Counter[str] = Counter()
    for block in columns.number_columns:
        held.update(dict.fromkeys(sources[block.attribute], 1))
    if not held:
        return None
    pairs = _flipped_columns(sources, flips)
    weight = min(left[source] // (moved(pairs[source], columns.width) + count) for source, count in held.items())
    if weight < _FEWEST_UNITS:
        raise BudgetError(
            "The budget is too small for columns of numbers.", fix="Raise it, or name ranges in 'encode'."
        )
    return Squares(dict(held), weight)


# The label's own pairs


def _star(width: int, held: Counter[str], behind: frozenset[str], left: Mapping[str, int]) -> Star | None:
    """The extra precision of the label's pairs beyond the layers, where its budget exceeds the others'; ``behind`` are
    its sources.

    Both kinds of noise enter a regression alike, so the sum of variances 1/own + 1/common is made least, subject to
    own + room·common = the poorest feature's units for one of its columns, and (P − 1)·own ≤ the label's units.
    """
    others = {source: count for source, count in held.items() if source not in behind}
    if not others:
        return None
    poorest = min(others, key=lambda source: Fraction(left[source], moved(others[source], width)))
    each, room = left[poorest] / others[poorest], width - others[poorest] - 1
    if room < 1:
        return None
    own = min([each / (1 + math.sqrt(room)), *(left[source] / (width - 1) for source in behind)])
    most = min(left[source] // (2 * count) for source, count in others.items())  # the layers keep at least half
    weight = min(math.floor(own - (each - own) / room), most)
    if weight <= 0:
        return None
    return Star(dict(held + Counter(dict.fromkeys(behind, width - 1))), width - 1, weight)


# Scales

Class = tuple[int, bool, bool, int]  # the last layer, whether it is the label, whether it is protected, the reach
_EVERY_LAYER = MOST_LAYERS


def _class(
    name: str | None, is_label: bool, last: Mapping[str, int], sources: Mapping[str, frozenset[str]]
) -> tuple[int, bool, bool]:
    protected = name is not None and bool(sources[name])
    return last[name] if name is not None and protected else _EVERY_LAYER, is_label, protected


def _scale(one: Class, other: Class, totals: list[int], extra: int) -> float:
    if not one[2] and not other[2]:
        return 0.0  # [public]
    units = totals[min(one[0], other[0])] + (extra if one[1] != other[1] else 0)
    return max(least_scale("gaussian", units, pair_change(one[3], other[3])), _SMALLEST)  # [scale]
