"""How many attributes must change before a halfspace gets a label wrong (``dec`` of `lem:erm-robust`), exactly.

A halfspace adds up an integer for each attribute's value and an intercept; it says +1 where the sum is at least 0. In
the direction of a label y, attribute j can lose at most g_j(x_j) = y·t_j[x_j] − min_c y·t_j[c], its *gain*, and with
every attribute at its worst the sum is y·intercept + Σ_j min_c y·t_j[c]. Changing some attributes to their worst leaves
the gains S of the others, and the label is wrong if and only if S ≤ T, where

    T = −(y·intercept + Σ_j min_c y·t_j[c]) − [y = +1]          (a sum of 0 says +1)

The fewest changes take the largest gains. So, adding up a row's gains from the smallest on, every attribute whose gain
brings the sum above T has to go, and their number is the distance. One pass in a fixed order of all (attribute, value)
pairs does this for many rows at once. If T < 0, no change ever makes the label wrong.

Being the distance to a set, it changes by at most 1 when one attribute does. This needs integers: with floats the order
of summation could make two neighbours disagree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers, compile_loop
from nabladp.errors import MechanismError
from nabladp.privacy.units import exact

# ---- the distance ----------------------------------------------------------------------------------------------------

Distances = NDArray[np.int32]
NEVER = int(np.iinfo(np.int32).max)
"""The distance where no change of attributes makes the label wrong."""

LARGEST_SUM = 1 << 62
_WORTH_A_THREAD = 1 << 22  # coordinates


@dataclass(frozen=True, eq=False)
class Halfspace:
    """+1 where ``intercept`` + Σ_j ``tables[j][code of attribute j]`` ≥ 0, else −1; all integers."""

    tables: tuple[Integers, ...]
    intercept: int = 0

    def __post_init__(self) -> None:
        tables = tuple(whole(table, "The weights of an attribute") for table in self.tables)
        if any(table.ndim != 1 or not table.size for table in tables):
            raise MechanismError("Every attribute needs a weight for each of its values.", fix="Give flat lists.")
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "intercept", int(whole(self.intercept, "The intercept")))
        reach = abs(self.intercept) + sum(max(abs(int(t.min())), abs(int(t.max()))) for t in tables)
        if 2 * reach >= LARGEST_SUM:
            raise MechanismError("The weights are too large: sums must stay below 2⁶¹.", fix="Scale them down.")

    @classmethod
    def signs(cls, weights: ArrayLike, intercept: int = 0) -> Halfspace:
        """The halfspace sgn(⟨weights, x⟩ + intercept) for x ∈ {−1,+1}^d, −1 being code 0 and +1 code 1."""
        return cls(tuple(np.array([-w, w]) for w in whole(weights, "Weights")), intercept)

    @classmethod
    def one_hot(cls, blocks: Sequence[ArrayLike], intercept: int = 0) -> Halfspace:
        """A halfspace from weights of ±1 columns: a block of one is a ±1 column itself, a longer one has a column for
        each value.

        Where an attribute has value c, its column c is +1 and its others are −1: together 2·w_c − Σ w.
        """
        columns = [whole(block, "Weights") for block in blocks]
        return cls(tuple(np.array([-w[0], w[0]]) if len(w) == 1 else 2 * w - w.sum() for w in columns), intercept)

    def sums(self, codes: ArrayLike) -> Integers:
        """The weighted sum of every row of codes, whose sign is the halfspace's prediction."""
        rows = self._rows(codes)
        result = np.full(len(rows), self.intercept, np.int64)
        for j, table in enumerate(self.tables):
            result += table[rows[:, j]]
        return result

    def predict(self, codes: ArrayLike) -> Integers:
        return np.where(self.sums(codes) >= 0, 1, -1)

    def distance(self, codes: ArrayLike, labels: ArrayLike) -> Distances:
        """The robust distance of every row: the fewest attributes to change so that label (±1) is wrong; ``NEVER``
        where none do."""
        return self._distance(self._rows(codes), labels, 0, 1)

    def _rows(self, codes: ArrayLike) -> NDArray[Any]:
        rows = table_of(codes, len(self.tables))
        if len(rows) and (rows.min() < 0 or any(rows.max(axis=0) >= [len(table) for table in self.tables])):
            raise MechanismError("A code lies outside its attribute's values.", fix="Encode by the schema.")
        return rows

    def _distance(self, rows: NDArray[Any], labels: ArrayLike, first: int, step: int) -> Distances:
        """The robust distance of rows to the halfspace's boundary; code c is written as first + step·c."""
        signs = signs_of(labels, len(rows))
        sides = [self._steps(label) for label in (1, -1)]
        kind = np.result_type(*(gains for _, _, gains, _ in sides))
        columns = np.concatenate([side[0] for side in sides])
        values = (first + step * np.concatenate([side[1] for side in sides])).astype(rows.dtype)
        gains = np.concatenate([side[2] for side in sides]).astype(kind)
        thresholds = np.array([side[3] for side in sides]).astype(kind)
        result = np.empty(len(rows), np.int32)

        def part(start: int, end: int) -> None:
            steps = columns, values, gains, thresholds, len(sides[0][0])
            compile_loop(_distances)(rows, signs, result, start, end, *steps)

        count = max(1, min(os.cpu_count() or 1, rows.size // _WORTH_A_THREAD))
        edges = np.linspace(0, len(rows), count + 1).astype(int).tolist()
        with ThreadPoolExecutor(count) as threads:
            for _ in threads.map(part, edges[:-1], edges[1:]):
                pass
        return result

    def _steps(self, label: int) -> tuple[Integers, Integers, NDArray[Any], int]:
        """Changes of one attribute that help to flip the label, as (attribute, code) pairs by gain: attributes, codes,
        gains, and the threshold T.

        Gains are divided by their common divisor (2 for ±1 columns) and T with them; they are as narrow as fits.
        """
        sizes = [len(table) for table in self.tables]
        starts = np.cumsum([0, *sizes])[:-1]
        columns = np.repeat(np.arange(len(sizes)), sizes)
        signed = label * np.concatenate([*self.tables, np.empty(0, np.int64)])
        worst = np.minimum.reduceat(signed, starts) if sizes else signed
        gains = signed - worst[columns]
        codes = np.arange(len(gains)) - np.repeat(starts, sizes)
        order = np.argsort(gains, kind="stable")
        order = order[gains[order] > 0]
        divisor = max(1, int(np.gcd.reduce(gains)))
        total = int(np.maximum.reduceat(gains, starts).sum()) // divisor if sizes else 0
        threshold = (-(label * self.intercept + int(worst.sum())) - (label == 1)) // divisor
        kind = next(k for k in (np.int16, np.int32, np.int64) if max(total, len(sizes)) <= np.iinfo(k).max)
        return columns[order], codes[order], (gains[order] // divisor).astype(kind), max(-1, min(threshold, total))


def distance_to_flip(x: ArrayLike, y: ArrayLike, w: ArrayLike | Halfspace, intercept: int = 0) -> Distances:
    """The robust distance ``dec``: for rows ``x`` of ±1 and integer weights, or for rows of codes and a
    :class:`Halfspace`."""
    if isinstance(w, Halfspace):
        return w.distance(x, y)
    halfspace = Halfspace.signs(w, intercept)
    rows = table_of(x, len(halfspace.tables))
    if rows.dtype.kind != "i" or not compile_loop(_only_signs)(rows.ravel(order="K")):
        raise MechanismError("Features must be −1 or +1.", fix="Give codes and a Halfspace for anything else.")
    return halfspace._distance(rows, y, -1, 2)


def robust_error(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | Halfspace, gamma: float | Fraction, intercept: int = 0
) -> float:
    """A halfspace's robust error: the share of rows that at most γ·d changed attributes (of d) make wrong."""
    rows = np.asarray(x)
    if rows.ndim != 2 or not len(rows):
        raise MechanismError("A robust error is over at least one row.", fix="Give a table of rows.")
    return float(np.mean(distance_to_flip(rows, y, w, intercept) <= radius(gamma, rows.shape[1])))


def radius(gamma: float | Fraction, d: int) -> int:
    """The robustness radius ⌊γ·d⌋ with γ as it was meant: 0.3 of 10 attributes is 3, and 2/7 of 7, which no double is,
    is 2."""
    share = exact(gamma, "γ").limit_denominator(10**6)
    if not 0 <= share <= 1:
        raise MechanismError("γ is a share of the attributes, from 0 to 1.", fix="Give, say, 0.1.")
    return math.floor(share * d)


def integer_weights(weights: ArrayLike, largest: int = 1 << 10) -> Integers:
    """Real weights of a halfspace as integers, the largest ``largest`` in size: scaling does not change a halfspace."""
    reals = np.asarray(weights, np.float64)
    top = float(np.abs(reals).max(initial=0.0))
    if not math.isfinite(top):
        raise MechanismError("Weights must be finite.", fix="Look for what made them infinite.")
    return np.rint(reals * (largest / top if top else 0.0)).astype(np.int64)


def whole(values: ArrayLike, what: str) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise MechanismError(f"{what} must be integers.", fix="Round real weights with integer_weights.")
    return array.astype(np.int64)


def table_of(rows: ArrayLike, columns: int) -> NDArray[Any]:
    array = np.asarray(rows)
    array = array.view(np.uint8) if array.dtype == np.bool_ else array
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "iu":
        fix = f"Give {columns} columns, as the halfspace has attributes."
        raise MechanismError("Rows must form a table of integers.", fix=fix, columns=columns)
    return array


def signs_of(labels: ArrayLike, count: int) -> NDArray[np.int8]:
    array = np.asarray(labels)
    if array.shape != (count,) or not np.all((array == 1) | (array == -1)):
        raise MechanismError("Every row needs a label, −1 or +1.", fix="Encode the label's two values as −1 and +1.")
    return array.astype(np.int8)


# ---- kernels -------------------------------------------------------------------------------------------------------


def _only_signs(values: NDArray[Any]) -> bool:
    others = False
    for i in range(len(values)):
        others |= (values[i] != 1) & (values[i] != -1)
    return not others


def _distances(
    rows: NDArray[Any],
    labels: NDArray[np.int8],
    out: Distances,
    begin: int,
    end: int,
    columns: Integers,
    values: NDArray[Any],
    gains: NDArray[Any],
    thresholds: NDArray[Any],
    split: int,
) -> None:
    """Robust distances by adding gains, largest last, and counting those that bring the sum above the threshold
    (compiled loop).

    Steps before ``split`` are those of label +1. Rows are turned into columns in blocks that stay in the cache, so that
    a step is done for many rows at once.
    """
    block = 256
    tile = block if rows.strides[0] == rows.itemsize else 64  # columns are copied, rows are turned in small squares
    turned = np.empty((rows.shape[1], block), rows.dtype)
    nothing = gains.dtype.type(0)
    total, changes = np.empty(block, gains.dtype), np.empty(block, gains.dtype)
    for start in range(begin, end, block):
        size = min(block, end - start)
        for first in range(0, size, tile):
            for j in range(rows.shape[1]):
                source, target = rows[start + first : start + size, j], turned[j, first:size]
                for i in range(min(tile, len(source))):
                    target[i] = source[i]
        for side in range(2):
            label, threshold = 1 - 2 * side, thresholds[side]
            total[:] = 0
            changes[:] = 0
            for k in range(side * split, split + side * (len(columns) - split)):
                column, value, gain = turned[columns[k]], values[k], gains[k]
                for i in range(block):
                    has = column[i] == value
                    total[i] += gain if has else nothing
                    changes[i] += has and total[i] > threshold
            for i in range(size):
                if labels[start + i] == label:
                    out[start + i] = changes[i] if threshold >= 0 else NEVER


# ---- the clipped distance loss of lem:erm-robust, in whole numbers ---------------------------------------------------
# A row at distance t from a wrong label scores clip(G − t, 0, G − G') with G = γd and G' = γ'd whole: nothing from G
# on, everything up to G'. Divided by the width G − G' that is the paper's loss, so for every table and hypothesis
#
#     γ'-robust error ≤ loss ≤ γ-robust error.
#
# Sensitivity. t is a distance, counted in attributes, so a change of m attributes of one row moves it by at most m and
# the score by at most min(m, width) [score]. If several of the columns that t counts belong to one attribute, k say,
# the change is k·m; here every attribute counts once, however many columns its values would take.
#
# Privacy. P(h) ∝ exp(−a·score(h)): between neighbours that differ on m attributes of a row, scores differ by at most Δ
# = min(m, width), up or down, so log P(h) − log P'(h) lies for all h in one interval of length 2aΔ. A mechanism of such
# bounded range r is r²/8-zCDP; here a²Δ²/2. That is the term ``linear(attributes, limit=width, e=a)`` of a guarantee. A
# change of the label alone may move the score from 0 to the width: Δ = width, unless labels are randomized first
# (:mod:`nabladp.mechanisms.learners.halfspaces.randomized_labels`).


@dataclass(frozen=True)
class ClippedLoss:
    """Scores min(``outer`` − distance, ``outer`` − ``inner``), at least 0; ``outer`` is γd and ``inner`` γ'd."""

    outer: int
    inner: int

    def __post_init__(self) -> None:
        for value in (self.outer, self.inner):
            if not isinstance(value, int) or isinstance(value, bool):
                raise MechanismError("γd and γ'd are numbers of attributes.", fix="Give whole numbers.")
        if not 0 <= self.inner < self.outer:
            raise MechanismError(
                "γ must be larger than γ', by at least one attribute.",
                fix="Raise γ or lower γ': γ'·d < γ·d after rounding down.",
                outer=self.outer,
                inner=self.inner,
            )

    @classmethod
    def of_margins(cls, gamma: float | Fraction, gamma_prime: float | Fraction, d: int) -> ClippedLoss:
        """The clipped robust loss with γd and γ'd rounded down, as no distance lies in between: robust errors are the
        same."""
        return cls(radius(gamma, d), radius(gamma_prime, d))

    @property
    def width(self) -> int:
        return self.outer - self.inner

    def scores(self, distances: ArrayLike) -> Integers:
        return np.clip(self.outer - np.asarray(distances, np.int64), 0, self.width)

    def sensitivity(self, attributes: int = 1) -> int:
        """The sensitivity of the sum of clipped losses to a change of so many attributes of one row."""
        return min(attributes, self.width)
