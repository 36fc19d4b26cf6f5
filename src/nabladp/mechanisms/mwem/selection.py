"""The joint pick of disjoint queries: integer errors, exact draws, and the slack of the floats in between."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.mwem.rounds import Block, Prices, Scope
from nabladp.noise import NoiseSource, Packings
from nabladp.privacy.units import UNIT
from nabladp.workloads import Queries

LARGEST_SCORE = 10**8
_U = 2.0**-53


class Selector:
    """Picks from one block: P(packing and queries) ∝ exp(Σ score), up to ``slack`` in the logarithm."""

    def __init__(self, block: Block, queries: Queries) -> None:
        self.block = block
        starts = queries.starts
        self.ranges = [(int(starts[m]), int(starts[m + 1])) for m in block.members]
        self.queries = np.concatenate([np.arange(a, b) for a, b in self.ranges])
        self.firsts = np.cumsum([0, *(b - a for a, b in self.ranges[:-1])])
        self.packings = Packings(block.masks, len(block.attributes), block.count) if block.count > 1 else None

    def slack(self, largest: float) -> float:
        """η: how far a log probability may be from the ideal one when all scores are at most ``largest``."""
        score = _U * largest  # [slack]: rounding coefficient times integer
        if self.packings is None:
            return 4 * (2 * _step(largest) + score)
        most = max(b - a for a, b in self.ranges)
        together = 16 * (most + 8) * _U + 2 * _U * (largest + math.log(most))  # a set's log-sum-exp
        inside = self.block.count * (2 * _step(largest) + together + score)
        return 4 * (inside + self.packings.slack(largest + math.log(most)))

    def draw(self, scores: Floats, noise: NoiseSource) -> list[int]:
        """The queries picked: one from each of ``count`` disjoint groups."""
        own = scores[self.queries]
        if self.packings is None:
            return [int(self.queries[_pick(own, noise)])]
        chosen = noise.select_packing(self.packings, self._together(own))
        return [a + _pick(scores[a:b], noise) for a, b in (self.ranges[i] for i in chosen)]

    def _together(self, own: Floats) -> Floats:
        """Every group's log-sum of weights."""
        peak = np.maximum.reduceat(own, self.firsts)
        lengths = np.diff([*self.firsts, len(own)])
        return np.asarray(peak + np.log(np.add.reduceat(np.exp(own - np.repeat(peak, lengths)), self.firsts)))

    def law(self, scores: Floats) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every possible pick with the log of the probability with which :meth:`draw` makes it; for tiny cases."""
        own = scores[self.queries]
        if self.packings is None:
            yield from (((int(q),), p) for q, p in zip(self.queries, _log_law(own), strict=True))
            return
        together = self._together(own)
        inside = [_log_law(scores[a:b]) for a, b in self.ranges]
        for packing in itertools.combinations(range(len(self.ranges)), self.block.count):
            if not _disjoint([self.block.masks[i] for i in packing]):
                continue
            start = self.packings.log_probability(together, packing)
            for choice in itertools.product(*(range(len(inside[i])) for i in packing)):
                picked = tuple(self.ranges[i][0] + c for i, c in zip(packing, choice, strict=True))
                yield picked, start + sum(float(inside[i][c]) for i, c in zip(packing, choice, strict=True))


class Scores:
    """The score of every query: its coefficient times the whole number |n·q(x) − n·q(A)| (on its grid).

    One row changes that number by at most the grid, hence the score by at most e_q, the query's coefficient.
    """

    def __init__(self, queries: Queries, scope: Scope, prices: Prices, selectors: Sequence[Selector], n: int) -> None:
        self.queries, self.n = queries, n
        dearest = max((prices.selection[name] for name in scope.attributes if name in prices.selection), default=UNIT)
        # Scores are kept within what doubles tell apart: beyond, a pick is as good as certain anyway.
        steepest = min(Fraction(dearest, UNIT), Fraction(LARGEST_SCORE, n + 1))
        slack = Fraction(max(selector.slack(float(steepest) * (n + 2)) for selector in selectors))
        top = max(group.weight for group in queries.groups)
        own = [
            _below(min(Fraction(prices.least(sources)[0], UNIT) - 2 * slack, steepest)) * (group.weight / top)
            for sources, group in zip(scope.sources, queries.groups, strict=True)
        ]
        self.coefficients = np.repeat(own, np.diff(queries.starts)) / queries.grids  # the grid is a power of two

    def of(self, truth: Integers, guess: Floats) -> Floats:
        """From the exact answers' numerators and the model's answers as shares."""
        near = np.rint(np.clip(guess, 0, 1) * (self.n * self.queries.grids)).astype(np.int64)
        return np.asarray(self.coefficients * np.abs(truth - near))  # [score]


def _below(value: Fraction) -> float:
    """The largest double at or below the value, never below 0."""
    found = float(value)
    return max(found if Fraction(found) <= value else math.nextafter(found, -math.inf), 0.0)


def _grid(largest: float) -> int:
    return 60 - math.frexp(largest + 1)[1]


def _step(largest: float) -> float:
    """How far rounding to the grid moves one log weight."""
    return 2.0 ** -(_grid(largest) + 1)


def _on_grid(scores: Floats) -> tuple[Integers, int]:
    grid = _grid(float(scores.max()))
    return np.rint(np.ldexp(scores, grid)).astype(np.int64), grid


def _pick(scores: Floats, noise: NoiseSource) -> int:
    if len(scores) == 1:
        return 0
    whole, grid = _on_grid(scores)
    return noise.select_exponential(whole, Fraction(1 << grid))  # [exact-pick]


def _log_law(scores: Floats) -> Floats:
    whole, grid = _on_grid(scores)
    gaps = np.ldexp((whole - whole.max()).astype(np.float64), -grid)
    return np.asarray(gaps - math.log(math.fsum(np.exp(gaps))))


def _disjoint(masks: Sequence[int]) -> bool:
    return sum(mask.bit_count() for mask in masks) == functools.reduce(operator.or_, masks).bit_count()
