"""Classes of halfspaces on {−1,+1}^d, and all their scores at once, whatever n.

``threshold_functions`` lists all halfspaces of few coordinates; ``lattice_net`` is a net of them for more coordinates.
Both are given as ``SignOrbits``: some weights, in every order and with every sign."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.errors import DomainTooLarge, MechanismError, many
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, Halfspace, whole

# ---- every order and sign of some weights ----------------------------------------------------------------------------
# Weights are odd in sum, so no ⟨w, z⟩ is 0 and h_w(−x) = −h_w(x). Hence the distance of (x, y) under w depends on z =
# y·x only, and a table of rows is as good as its counts n(z). For weights w on their support, and signs σ,
#
#     score(σ) = Σ_z n(z)·s_w(σ·z),   s_w(u) = the clipped distance of u to where ⟨w, u⟩ < 0,
#
# a convolution over the group {−1,+1}^d: Walsh–Hadamard transforms turn it into a product. The transform of n is taken
# once; that of s_w once for a representative w, whatever the order of its weights, as an order only permutes it. What
# is left for each order is one inverse transform of 2^support numbers, which are the scores of that many sign patterns.
# Everything is integers.
#
# An intercept is one more coordinate, which is always +1 before the label is multiplied in and never changes.

MOST_COORDINATES = 20  # counts are kept for every one of 2^coordinates cells
MEMORY = 1 << 30
"""Bytes that the scores of a class may take where nobody says otherwise."""

_ENDLESS = 127  # distance where nothing that may change makes the label wrong; beyond any number of coordinates


@dataclass(frozen=True, eq=False)
class SignOrbits:
    """All halfspaces whose weights are, up to order and signs, one of the ``representatives``.

    Those are rows of non-negative weights, never rising, of odd sum; no row may be there twice. With ``intercept`` the
    last coordinate is the intercept, and there is one feature less than coordinates.
    """

    representatives: Integers
    intercept: bool = False

    def __post_init__(self) -> None:
        weights = whole(self.representatives, "Weights")
        if weights.ndim != 2 or not weights.size or not 1 <= weights.shape[1] - self.intercept <= MOST_COORDINATES:
            raise MechanismError(f"Weights must be rows of at most {MOST_COORDINATES} numbers.", fix="Use fewer.")
        if (weights < 0).any() or (np.diff(weights, axis=1) > 0).any() or not (weights.sum(axis=1) % 2).all():
            raise MechanismError("Weights must never rise, be at least 0 and odd in sum.", fix="Sort their sizes.")
        object.__setattr__(self, "representatives", np.ascontiguousarray(weights))

    @property
    def coordinates(self) -> int:
        return int(self.representatives.shape[1])

    @property
    def features(self) -> int:
        return self.coordinates - self.intercept

    @cached_property
    def count(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def _supports(self) -> Integers:
        return np.asarray(np.count_nonzero(self.representatives, axis=1), np.int64)

    @cached_property
    def _starts(self) -> list[int]:
        """The number of the first halfspace of each representative: every order, and for each all signs on its
        support."""
        starts = [0]
        for row, support in zip(self.representatives.tolist(), self._supports.tolist(), strict=True):
            starts.append(starts[-1] + (orders(Counter(row)) << support))
        return starts

    @cached_property
    def _distances(self) -> NDArray[np.int8]:
        """Robust distances by [representative, position of the intercept (last: none), signs of z (bit i set: z_i =
        −1)]."""
        free = self.coordinates
        shape = len(self.representatives), free + 1, 1 << int(self._supports.max())
        result = np.full(shape, _ENDLESS, np.int8)
        compile_loop(_tabulate)(self.representatives, self._supports, 0 if self.intercept else free, result)
        return result

    def fold(self, table: ArrayLike) -> Integers:
        """n(z), the rows by feature signs times label, from a table with an axis of two per feature and a last one for
        the label."""
        counts = whole(table, "Counts")
        if counts.shape != (2,) * (self.features + 1):
            raise MechanismError("Counts need an axis of two for each feature and the label.", fix="Give such a table.")
        positive, negative = np.flip(counts[..., 1]), counts[..., 0]  # at 1 where z = −1
        folded = np.stack((positive, negative), axis=-1) if self.intercept else positive + negative
        return np.ascontiguousarray(folded.reshape(-1))

    def scores(self, table: ArrayLike, loss: ClippedLoss, memory: int = MEMORY) -> NDArray[Any]:
        """The robust loss of every halfspace of the class, summed over all rows. Counts may be of either sign."""
        cells = self.fold(table)
        total = int(np.abs(cells).sum())
        kind = np.dtype(np.int32 if total * loss.width < 1 << 31 else np.int64)
        within_memory(self.count, memory, kind.itemsize)
        if (total * loss.width) << (2 * self.coordinates) >= 1 << 63:
            raise DomainTooLarge("There are too many rows for scores of 64 bits.", fix="Use fewer features.")
        compile_loop(_transform)(cells)
        spectra = loss.scores(np.where(self._distances == _ENDLESS, loss.outer, self._distances))
        for own, support in zip(spectra, self._supports.tolist(), strict=True):
            for part in own:
                compile_loop(_transform)(part[: 1 << support])
        result = np.empty(self.count, kind)
        starts = np.array(self._starts)
        compile_loop(_scores)(self.representatives, self._supports, self.intercept, cells, spectra, starts, result)
        return result

    def weights(self, index: int) -> Integers:
        """The weights of the halfspace with this number; an intercept comes last."""
        own = int(np.searchsorted(self._starts, index, side="right")) - 1
        order, signs = divmod(index - self._starts[own], 1 << int(self._supports[own]))
        row = self.representatives[own].tolist()
        arranged = np.array(_order(row, order))
        positions = _positions(row, arranged.tolist())
        return np.where([signs >> position & 1 for position in positions], -arranged, arranged)

    def halfspace(self, index: int) -> Halfspace:
        result = self.weights(index)
        return Halfspace.signs(result[: self.features], int(result[-1]) if self.intercept else 0)


def within_memory(count: int, memory: int, itemsize: int = 8) -> None:
    if count * itemsize > memory:
        raise DomainTooLarge(
            f"There are {many(count)} halfspaces to choose from; their scores would take "
            f"{many(count * itemsize)} bytes, and {memory:,} are allowed.",
            fix="Use fewer features or a lower resolution, allow more memory, or use method='gram'.",
            candidates=str(count),
            bytes=str(count * itemsize),
            memory=memory,
        )


def orders(repeats: Counter[int]) -> int:
    """The number of orders of a weight vector some of whose entries are equal."""
    return math.factorial(repeats.total()) // math.prod(math.factorial(m) for m in repeats.values())


def _order(row: list[int], number: int) -> list[int]:
    """The order of weights with this number, lexicographically."""
    left, result = Counter(row), []
    for _ in row:
        for value in sorted(left):
            below = orders(left - Counter((value,)))
            if number < below:
                break
            number -= below
        left -= Counter((value,))
        result.append(value)
    return result


def _positions(row: list[int], arranged: list[int]) -> list[int]:
    """For every coordinate the position of its weight in the representative: equal ones are taken from the left."""
    seen: Counter[int] = Counter()
    positions = []
    for value in arranged:
        positions.append(row.index(value) + seen[value])
        seen[value] += 1
    return positions


# ---- kernels -------------------------------------------------------------------------------------------------------


def _tabulate(rows: Integers, supports: Integers, first: int, out: NDArray[np.int8]) -> None:
    """Fill the table of robust distances: largest agreeing weights flip first, but for the one at ``fixed``, until the
    sum is negative."""
    for r in range(len(rows)):
        for fixed in range(first, out.shape[1]):
            for z in range(1 << supports[r]):
                total = 0
                for i in range(supports[r]):
                    total += -rows[r, i] if z >> i & 1 else rows[r, i]
                flips = 0
                for i in range(supports[r]):
                    if total > 0 and i != fixed and not z >> i & 1:
                        total -= 2 * rows[r, i]
                        flips += 1
                if total < 0:
                    out[r, fixed, z] = flips


def _transform(values: Integers) -> None:
    """The Walsh–Hadamard transform, in place."""
    step = 1
    while step < len(values):
        for start in range(0, len(values), 2 * step):
            low, high = values[start : start + step], values[start + step : start + 2 * step]
            for i in range(step):
                low[i], high[i] = low[i] + high[i], low[i] - high[i]
        step *= 2


def _scores(
    rows: Integers,
    supports: Integers,
    intercept: bool,
    counts: Integers,
    spectra: Integers,
    starts: Integers,
    result: NDArray[Any],
) -> None:
    """Scores of every order of every representative, as a product of Walsh–Hadamard transforms; orders come
    lexicographically.

    Eight orders go side by side through the transform, so that each of its steps is done for all of them at once.
    """
    d, together = rows.shape[1], 8
    value, cell = np.zeros(together << d, np.int64), np.empty(1 << d, np.int64)
    arranged, bit = np.empty(d, np.int64), np.empty(d, np.int64)
    for r in range(len(rows)):
        support = supports[r]
        size = 1 << support
        at = starts[r]
        fixed = d
        for c in range(d):
            arranged[c] = rows[r, d - 1 - c]
        while at < starts[r + 1]:
            lanes = min(together, (starts[r + 1] - at) >> support)
            for lane in range(lanes):
                used = 0
                for c in range(d):
                    i = 0
                    while rows[r, i] != arranged[c] or used >> i & 1:
                        i += 1
                    used |= 1 << i
                    bit[i] = 1 << (d - 1 - c)
                    if intercept:
                        fixed = i  # that of the last coordinate, in the end
                cell[0] = 0
                for i in range(support):
                    for z in range(1 << i):
                        cell[z + (1 << i)] = cell[z] + bit[i]
                for z in range(size):
                    value[z * together + lane] = counts[cell[z]] * spectra[r, fixed, z]
                i = d - 2  # the next order: the last rise, its next larger follower, the rest turned round
                while i >= 0 and arranged[i] >= arranged[i + 1]:
                    i -= 1
                if i >= 0:
                    j = d - 1
                    while arranged[j] <= arranged[i]:
                        j -= 1
                    arranged[i], arranged[j] = arranged[j], arranged[i]
                    for k in range((d - 1 - i) // 2):
                        left, right = i + 1 + k, d - 1 - k
                        arranged[left], arranged[right] = arranged[right], arranged[left]
            step = together
            while step < size * together:
                for start in range(0, size * together, 2 * step):
                    low, high = value[start : start + step], value[start + step : start + 2 * step]
                    for i in range(step):
                        low[i], high[i] = low[i] + high[i], low[i] - high[i]
                step *= 2
            for lane in range(lanes):
                own = result[at + lane * size : at + (lane + 1) * size]
                for z in range(size):
                    own[z] = value[z * together + lane] >> support
            at += lanes * size


# ---- all halfspaces of up to 7 coordinates: every function once ------------------------------------------------------
# A function is determined by its Chow parameters, the sums of f(z)·z over the cube. Two coordinates are interchangeable
# if and only if their Chow parameters are equal in size. Up to order and signs of coordinates a function has weights
# that never rise and are at least 0; integers will do, and of odd sum: were it even, all |⟨w, z⟩| would be at least 2,
# so that one weight could be made smaller by 1. So integer weights are searched by growing sum for functions not met
# before. The search ends when there are as many functions as are known to exist; what is found is distinct, so that is
# all of them.

COUNTS = {1: 2, 2: 4, 3: 14, 4: 104, 5: 1882, 6: 94572, 7: 15028134, 8: 8378070864}
"""How many there are in so many coordinates."""

MOST_LISTED = 7


@cache
def threshold_functions(features: int, intercept: bool = False) -> SignOrbits:
    """The class of all halfspaces on so many features; an intercept counts as a coordinate."""
    coordinates = features + intercept
    if features < 1:
        raise MechanismError("A halfspace needs at least one feature.", fix="Name features in 'over'.")
    if coordinates > MOST_LISTED:
        there = f"There are {COUNTS[coordinates]:,} of them" if coordinates in COUNTS else "There are far too many"
        raise DomainTooLarge(
            f"All halfspaces can be listed for up to {MOST_LISTED} features, the intercept counted as one. "
            f"{there} for {coordinates}.",
            fix="Give a resolution (a lattice net), use fewer features, or use method='gram'.",
            features=features,
        )
    return SignOrbits(_representatives(coordinates), intercept)


def _representatives(d: int) -> Integers:
    half = 1 - 2 * (np.arange(1 << (d - 1))[:, None] >> np.arange(d) & 1)  # the other half is its negative
    results: dict[tuple[int, ...], list[int]] = {}
    total, missing = 1, COUNTS[d]
    while missing:
        weights = np.array(list(partitions(total, d, total)))
        chow = np.sign(weights @ half.T) @ half
        for row, parameters in zip(weights.tolist(), chow.tolist(), strict=True):
            key = tuple(parameters)
            if key not in results and Counter(Counter(row).values()) == Counter(Counter(key).values()):
                results[key] = row
                missing -= orders(Counter(key)) << sum(map(bool, key))
        total += 2
    return np.array(list(results.values()))


def partitions(total: int, parts: int, largest: int) -> Iterator[list[int]]:
    """Integer partitions: lists of ``parts`` numbers from ``largest`` to 0 that never rise and sum to ``total``."""
    if parts == 0:
        if total == 0:
            yield []
        return
    for first in range(min(total, largest), -(-total // parts) - 1, -1):
        for rest in partitions(total - first, parts - 1, first):
            yield [first, *rest]


# ---- the lattice net {w ∈ Z^d : |w|₁ = K} ----------------------------------------------------------------------------
# A real w with |w|₁ = K becomes a point of it by rounding sizes down and then up again those R with the largest rests,
# R being the sum of all rests: that moves w by 2·Σ of the rests left down ≤ 2·(d−R)·R/d ≤ d/2 in ℓ₁. Halfspaces do not
# mind scaling, so divided by K this is a net of radius ν = d/(2K) as `lem:halfspace-net` asks for. K is odd: then no
# ⟨w, z⟩ is 0.


def lattice_size(coordinates: int, resolution: int) -> int:
    """The number of points in the lattice net of halfspaces: i nonzero coordinates, a composition of K into i parts, i
    signs."""
    return sum(
        math.comb(coordinates, i) * math.comb(resolution - 1, i - 1) << i
        for i in range(1, min(coordinates, resolution) + 1)
    )


def net_radius(coordinates: int, resolution: int) -> Fraction:
    """ν: the largest ℓ₁ distance from weights of norm 1 to the nearest point of the lattice net."""
    return Fraction(coordinates, 2 * resolution)


def lattice_net(features: int, resolution: int, intercept: bool = False, memory: int = MEMORY) -> SignOrbits:
    """The lattice net of halfspaces on so many features, refused beforehand if its scores would not fit into
    ``memory``."""
    coordinates = features + intercept
    if resolution < 1 or resolution % 2 == 0:
        raise MechanismError("The resolution is an odd number: then no row lies on a boundary.", fix="Add 1 to it.")
    if features < 1 or coordinates > MOST_COORDINATES:
        raise MechanismError(
            f"A net takes 1 to {MOST_COORDINATES} features, the intercept counted as one.", fix="Use method='gram'."
        )
    within_memory(lattice_size(coordinates, resolution), memory)
    return SignOrbits(np.array(list(partitions(resolution, coordinates, resolution))), intercept)
