"""What a tree with given thresholds promises, for any data of n rows. Computed before data is read.

Found    A string with count f is missed only if, at some thresholded node, its noise falls to τ − f or below: its count
         at every node is at least f. No more than ⌊n/f⌋ strings can be that frequent.
Counted  The noise on its released count, two-sided.
Lists    E|L_I| = Σ_s Pr[s is a candidate]·Pr[s passes]. A string that is not in the data (or clipped) passes with the
         same small probability p; one with count f with p + h(f). Counts sum to n, so that the h(f) of all strings sum
         to at most K = n·max h(f)/f. Lists of disjoint attributes use independent noise: E|L_I| ≤ K + p·Π E|L_child|.
         A second bound, with room for chance at every node, holds for all lists at once with near certainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.heavy_hitters.settings import Level, Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree

# ---- the shape of a tree ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shape:
    """Kinds are numbered, those of leaves first, then level by level. Two nodes of a kind have equal subtrees."""

    cells: Floats  # of every kind of leaf
    thresholded: NDArray[np.bool_]  # every kind of leaf
    joins: tuple[tuple[Integers, Integers], ...]  # for every level above: all children in a row, where each kind starts
    copies: Integers  # how many nodes there are of every kind

    @classmethod
    def of(cls, tree: Tree) -> Shape:
        leaves = [tree.nodes[position] for position in tree.levels[0]]
        cells = np.array([float(tree.cells(leaf)) for leaf in leaves])
        free = [float(tree.cells(leaf)) for leaf in leaves if not leaf.thresholded]
        kinds = _Kinds(cells)
        known = dict(zip(tree.levels[0], kinds.of_leaves.tolist(), strict=True))
        for level in tree.levels[1:]:
            joined = [[known[child] for child in tree.nodes[position].children] for position in level]
            known.update(zip(level, kinds.join(_padded(joined)).tolist(), strict=True))
        return kinds.shape(max(free, default=0.0))

    @classmethod
    def build(cls, cells: Floats, fan_out: int, free_cells: int) -> Shape:
        """The shape that ``Tree.build`` gives a HeavyHitters tree with these leaves, without building the tree."""
        kinds = _Kinds(cells)
        current = kinds.of_leaves
        while len(current) > 1:
            alone = len(current) % fan_out == 1  # the last one finds no sibling and stays what it is
            joined, left = (current[:-1], current[-1:]) if alone else (current, current[:0])
            padding = np.full(-len(joined) % fan_out, -1)
            above = kinds.join(np.concatenate([joined, padding]).reshape(-1, fan_out))
            current = np.concatenate([above, left])
        return kinds.shape(free_cells)

    @cached_property
    def lowest(self) -> int:
        """The lowest level of the HeavyHitters tree with a threshold."""
        return 0 if self.thresholded.any() else 1

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """For every level of the HeavyHitters tree, the range of its kinds of nodes."""
        ends = np.cumsum([0, len(self.cells), *(len(starts) for _, starts in self.joins)]).tolist()
        return tuple(slice(first, end) for first, end in pairwise(ends))

    @cached_property
    def nodes(self) -> Integers:
        """The number of thresholded nodes at every thresholded level of the HeavyHitters tree."""
        leaves = int(self.copies[self.levels[0]][self.thresholded].sum())
        above = [int(self.copies[level].sum()) for level in self.levels[1:]]
        return np.array([leaves, *above][self.lowest :], dtype=np.int64)

    @cached_property
    def widest(self) -> float:
        """The largest product of free leaves that a tree node joins: that many cells must be counted."""
        if not self.joins:
            return float(self.cells[0])
        children, starts = self.joins[0]
        with np.errstate(over="ignore"):
            return float(np.multiply.reduceat(np.where(self.thresholded, 1.0, self.cells)[children], starts).max())


class _Kinds:
    """Kinds as they are found, level by level."""

    def __init__(self, cells: Floats) -> None:
        self._cells, self.of_leaves, copies = np.unique(cells, return_inverse=True, return_counts=True)
        self._joins: list[tuple[Integers, Integers]] = []
        self._copies = [copies]

    def join(self, children: Integers) -> Integers:
        """The kinds of tree nodes with these kinds of children: one row per node, padded with −1."""
        rows, kinds, copies = np.unique(children, axis=0, return_inverse=True, return_counts=True)
        starts = np.cumsum([0, *(rows[:-1] >= 0).sum(axis=1)])
        before = sum(map(len, self._copies))
        self._joins.append((rows[rows >= 0], starts))
        self._copies.append(copies)
        return before + kinds.reshape(-1)

    def shape(self, free_cells: float) -> Shape:
        alone = not self._joins
        return Shape(self._cells, (self._cells > free_cells) | alone, tuple(self._joins), np.concatenate(self._copies))


def _padded(rows: list[list[int]]) -> Integers:
    longest = max(map(len, rows))
    return np.array([[*row, *[-1] * (longest - len(row))] for row in rows], dtype=np.int64)


# ---- tails of the integer noises, never too small --------------------------------------------------------------------

_SLACK = 1e-11  # relative: the sums below are right to about 1e-13
_TINY = 1e-290  # stands for all that is smaller
_REACH = 37  # standard deviations summed: beyond, a tail is smaller still
_LARGEST_SUMMED = 4096.0


def laplace_tails(k: Floats, scales: Floats) -> Floats:
    """Pr[Z ≥ k] of the discrete Laplace, Pr[Z = z] ∝ e^(−|z|/scale): q^k/(1+q) for k > 0, q = e^(−1/scale)."""
    columns = scales[:, None]
    far = np.exp(-np.maximum(k, 1 - k) / columns) / (1 + np.exp(-1 / columns))
    return _upward(np.where(k > 0, far, 1 - far))


def gaussian_tails(k: Floats, scales: Floats) -> Floats:
    """Pr[Z ≥ k] of the discrete Gaussian, Pr[Z = z] ∝ e^(−z²/(2·scale²)), for many k and scales at once."""
    rows = [_gaussian_row(row, float(scale)) for row, scale in zip(k, scales, strict=True)]
    return _upward(np.array(rows))


def _upward(tails: Floats) -> Floats:
    return np.clip(tails * (1 + _SLACK), _TINY, 1.0)


def _gaussian_row(k: Floats, scale: float) -> Floats:
    if scale > _LARGEST_SUMMED:
        from scipy.special import ndtr

        # The weights fall from 0 on: for k > 0, the sum from k on is at most the integral from k − 1; for k ≤ 0, that
        # of the other side, from 1 − k on, is at least the integral from there. Both give the same figure.
        return np.asarray(ndtr((1 - k) / scale), dtype=np.float64)
    table = _gaussian_table(scale)
    far = table[np.minimum(np.maximum(k, 1 - k), len(table) - 1).astype(np.int64)]
    return np.where(k > 0, far, 1 - far)


@lru_cache(maxsize=1024)
def _gaussian_table(scale: float) -> Floats:
    """Pr[Z ≥ k] of one discrete Gaussian for k = 0, 1, …, summed from the far end."""
    points = np.arange(math.ceil(_REACH * scale) + 2, dtype=np.float64)
    weights = np.exp(-((points / scale) ** 2) / 2)
    sums = np.cumsum(weights[::-1])[::-1]
    return np.asarray(sums / (2 * sums[0] - 1))


# ---- the certificate -------------------------------------------------------------------------------------------------

_MISSING_PART, _LENGTH_PART = 0.9, 1e-6  # of the failure probability; what is not used up goes to the counts
_WORD = 8  # bytes
MOST_CELLS, CELL_BYTES = 1 << 25, 16  # counted at once; two copies of a count, where it is and whether it is large
FEWEST_CELLS = 1 << 20
LEAST_SHARE = 1 << 17  # cells of one node that are always counted one by one, if they are no more
_POINTS, _PARTS = 256, 64
_ENDLESS = 1e300


@dataclass(frozen=True, eq=False)
class Sieve:
    """Who passes: one threshold and one noise scale for every thresholded level; μ for the pure tree."""

    notion: Notion
    thresholds: Floats
    scales: Floats
    mu: int = 0

    @classmethod
    def of(cls, settings: Settings) -> Sieve:
        levels = settings.levels
        thresholds = np.array([level.threshold for level in levels], dtype=np.float64)
        return cls(settings.notion, thresholds, np.array([level.scale for level in levels]), settings.mu)

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(Level(int(t), float(s)) for t, s in zip(self.thresholds, self.scales, strict=True))

    def tails(self, k: Floats) -> Floats:
        """Pr[Z ≥ k] of the threshold noise, one row per tree level."""
        return laplace_tails(k, self.scales) if self.notion == "pure" else gaussian_tails(k, self.scales)

    def passing(self, f: Floats) -> Floats:
        """Pr[a candidate with count f passes its noisy threshold], one row of counts per tree level."""
        above = f - self.thresholds[:, None]
        return self.tails(1 - (np.maximum(above, -self.mu) if self.notion == "pure" else above))

    def rates(self, n: int) -> tuple[Floats, Floats]:
        """The constants K and p of every tree level that bound how many candidates pass, for any data of n rows.

        h never falls: after a point of a grid, and up to the next one, h(f)/f is at most h there over the first f.
        Beyond the last one everything passes.
        """
        p = self.passing(np.zeros((len(self.scales), 1)))[:, 0]
        most = np.maximum(self.thresholds, 1) + np.ceil(40 * self.scales)
        upper = np.ceil(most[:, None] ** np.linspace(0, 1, _POINTS))
        first = np.concatenate([np.ones((len(p), 1)), upper[:, :-1] + 1], axis=1)
        excess = self.passing(upper) - p[:, None] * (1 - 1e-10)
        return n * (excess / first).max(axis=1), p

    def missing(self, nodes: NDArray[np.int64], f: Floats) -> Floats:
        """An upper bound on Pr[a string with count f is missing from the root's list]; ``nodes`` per tree level."""
        return nodes @ self.tails(f[None, :] - self.thresholds[:, None])


def list_bounds(shape: Shape, rates: tuple[Floats, Floats], caution: float = 0.0) -> tuple[Floats, Floats]:
    """Bounds on the listed strings and candidates of every kind of tree node, from K and p of every level.

    Without caution, on their expectation. With caution t, bounds that a node exceeds with probability ≤ e^(−t) if its
    children do not: given their lists, candidates pass independently (Bernstein).
    """

    def passed(candidates: Floats, level: int) -> Floats:
        mean = rates[0][level] + rates[1][level] * candidates
        most = mean + caution / 3 + np.sqrt(caution**2 / 9 + 2 * caution * mean)
        return np.asarray(np.minimum(candidates, most))

    listed, candidates = [shape.cells], [shape.cells]
    if shape.lowest == 0:
        listed = [np.where(shape.thresholded, passed(shape.cells, 0), shape.cells)]
    for level, (children, starts) in enumerate(shape.joins, 1 - shape.lowest):
        with np.errstate(over="ignore"):
            products = np.multiply.reduceat(np.concatenate(listed)[children], starts)
        candidates.append(np.minimum(products, _ENDLESS))
        listed.append(passed(candidates[-1], level))
    return np.concatenate(listed), np.concatenate(candidates)


def caution(shape: Shape, failure: float) -> float:
    """The caution t for :func:`list_bounds` such that no list exceeds its bound, but for a ``_LENGTH_PART`` of
    ``failure``."""
    return math.log(float(shape.nodes.sum()) / (_LENGTH_PART * failure))


def false_bound(shape: Shape, p: Floats, candidates: Floats) -> float:
    """A bound on the expected number of listed strings that are in no row, with the children's lists at their
    bounds."""
    rates = np.where(shape.thresholded, p[0], 0.0) if shape.lowest == 0 else np.zeros(len(shape.cells))
    above = np.repeat(p[1 - shape.lowest :], [len(starts) for _, starts in shape.joins])
    return float((np.concatenate([rates, above]) * candidates).max())


def most_strings(n: int, f: Floats, frequency: float | None) -> Floats:
    """The number of strings that the HeavyHitters certificate covers at once."""
    strings = np.floor(n / f)
    return strings if frequency is None else np.minimum(strings, math.floor(1 / frequency))


def certified_count(
    shape: Shape, sieve: Sieve, n: int, failure: float, frequency: float | None, most: float = math.inf
) -> int | None:
    """The certified count: the smallest f such that every string held by f rows is listed, but for its part of
    ``failure``.

    None if it would be more than ``most``.
    """

    def all_listed(f: Floats) -> NDArray[np.bool_]:
        missed = most_strings(n, f, frequency) * sieve.missing(shape.nodes, f)
        return np.asarray(missed <= _MISSING_PART * failure)

    return _smallest(all_listed, 1, math.ceil(most) if most < n else n)


def certified_error(
    shape: Shape, sieve: Sieve, scale: float, n: int, f: int, failure: float, frequency: float | None
) -> int:
    """The smallest e such that the released counts of all certified strings are within ± e, with what is left of
    ``failure``."""
    count = np.array([float(f)])
    strings = float(most_strings(n, count, frequency)[0])
    allowed = (1 - _LENGTH_PART) * failure - strings * float(sieve.missing(shape.nodes, count)[0])
    noise = Sieve(sieve.notion, np.zeros(1), np.array([scale]))

    def within(e: Floats) -> NDArray[np.bool_]:
        return np.asarray(strings * 2 * noise.tails(e[None, :] + 1)[0] <= allowed)

    reach = 1 + math.ceil(2 * scale * math.log(2 * strings / allowed + 2))
    return _smallest(within, 0, reach) or 0


def list_bytes(shape: Shape, listed: Floats) -> float:
    """Memory for all lists of the tree: for every listed string a code or an index into every child's list, and a
    count."""
    indices = [np.where(shape.thresholded, 1, -1)]  # a free leaf needs no list
    indices += [np.diff(np.append(starts, len(children))) for children, starts in shape.joins]
    return _WORD * float(((np.concatenate(indices) + 1) * shape.copies) @ listed)


def table_bytes(shape: Shape, candidates: Floats, n: int) -> float:
    """Memory for one counting pass: the cells of all candidates of a level or, if these are many, several per row."""
    counted = shape.copies * candidates
    counted[shape.levels[0]] *= shape.thresholded
    most = max(float(counted[level].sum()) for level in shape.levels)
    return CELL_BYTES * (most if most <= LEAST_SHARE else min(MOST_CELLS, max(FEWEST_CELLS, 8 << n.bit_length())))


def certify(
    tree: Tree,
    sieve: Sieve,
    count_scale: float | None,
    n: int,
    failure: float,
    frequency: float | None = None,
    memory: float = math.inf,
) -> Settings:
    """HeavyHitters settings with their certificate for any data of n rows.

    With ``frequency`` ν it speaks of any ⌊1/ν⌋ combinations that are at least ``certified`` frequent, hence of all
    that hold at least a share ν of the rows. Where counting all cells at once would take more than ``memory``, it is
    done in several passes.
    """
    shape = Shape.of(tree)
    certified = certified_count(shape, sieve, n, failure, frequency)
    if certified is None:
        raise nothing_certified(n)
    scale = float(sieve.scales[-1]) if count_scale is None else count_scale
    rates = sieve.rates(n)
    longest, candidates = list_bounds(shape, rates, caution(shape, failure))
    needed = max(2 * list_bytes(shape, longest), 4 * table_bytes(shape, candidates, n))  # and the same for rows
    return Settings(
        notion=sieve.notion,
        tree=tree,
        mu=sieve.mu,
        levels=sieve.levels,
        count_scale=count_scale,
        certified=certified,
        count_error=certified_error(shape, sieve, scale, n, certified, failure, frequency),
        unlisted=certified if frequency is None else max(certified, math.ceil(frequency * n)),
        failure=failure,
        expected_list=float(list_bounds(shape, rates)[0].max()),
        memory=math.ceil(min(needed, memory, 2.0**62)),
        longest_list=float(longest.max()),
    )


def nothing_certified(n: int) -> ValueError:
    return ValueError(
        f"Nothing can be certified with {n} rows: not even a combination that all of them share would be found with "
        "probability 1 − η and lists of bounded length. Allow a larger budget, failure probability or list, or use "
        "more rows."
    )


def _smallest(has: Callable[[Floats], NDArray[np.bool_]], low: int, high: int) -> int | None:
    """The smallest number in low … high with a property that all larger ones share, by repeated 64-section."""
    if high < low or not has(np.array([float(high)]))[0]:
        return None
    while low < high:
        width = -(-(high - low) // _PARTS)
        points = np.arange(low, high, width, dtype=np.float64)
        first = int(np.argmax(np.append(has(points), True)))
        high = min(high, low + first * width)
        low = low if first == 0 else low + (first - 1) * width + 1
    return low
