"""Numbers on grids, values in bins, and the matrices by which quantiles are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.errors import DomainTooLarge
from nabladp.sql.domains import Domain

MOST_BINS = 1024
MOST_DISTINCT = 1 << 20
FINEST = 32  # bits of the grid of a centred sum
FINEST_TOTAL = 30  # of one from zero, whatever the number of rows: what it costs depends on the grid
FINEST_SQUARES = 20


# ---- grids and bins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Numbers as whole steps u: value = origin + step·u, for low ≤ u ≤ high."""

    origin: float
    step: float
    low: int
    high: int

    @classmethod
    def centred(cls, domain: Domain, bits: int) -> Grid:
        """Steps from the middle of the range, −K … K. Whole numbers take half steps, so that the middle is one."""
        if domain.whole:
            reach = int(domain.high) - int(domain.low)
            return cls((domain.low + domain.high) / 2, 0.5, -reach, reach)
        reach = 1 << bits
        middle = domain.low + (domain.high - domain.low) / 2
        return cls(middle, (domain.high - domain.low) / 2 / reach, -reach, reach)

    @classmethod
    def from_zero(cls, domain: Domain, bits: int) -> Grid:
        """Steps from zero, for sums that are not divided by a count."""
        if domain.whole:
            return cls(0.0, 1.0, int(domain.low), int(domain.high))
        step = max(abs(domain.low), abs(domain.high)) / (1 << bits) or 1.0
        return cls(0.0, step, math.floor(domain.low / step + 0.5), math.floor(domain.high / step + 0.5))

    @property
    def reach(self) -> int:
        return max(abs(self.low), abs(self.high))

    def steps(self, numbers: NDArray[Any]) -> Integers:
        """Clamped before the cast, so that nothing overflows."""
        if self.step == 0.5 and numbers.dtype.kind in "iu":
            return np.asarray(np.clip(2 * numbers.astype(np.int64) - int(2 * self.origin), self.low, self.high))
        if self.step == 1.0 and not self.origin and numbers.dtype.kind in "iu":
            return np.clip(numbers.astype(np.int64), self.low, self.high)
        scaled = np.floor((numbers.astype(np.float64) - self.origin) / self.step + 0.5)
        return np.asarray(np.clip(np.nan_to_num(scaled), self.low, self.high), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a value for its quantiles: ``edges[k]`` is the largest value of bin k where values are listed, else its
    upper end."""

    values: Floats | None  # each value its own bin
    edges: Floats  # bins [e0, e1), …

    @classmethod
    def of(cls, domain: Domain) -> Bins:
        if domain.values is not None and len(domain.values) <= MOST_BINS:
            values = np.asarray(domain.values, dtype=np.float64)
            return cls(values, values)
        if domain.whole and domain.high - domain.low < MOST_BINS:
            values = np.arange(domain.low, domain.high + 1, dtype=np.float64)
            return cls(values, values)
        return cls(None, _growing(float(domain.low), float(domain.high)))

    @classmethod
    def of_distinct(cls, domain: Domain) -> Bins:
        """Every value its own bin, texts by their position in the list."""
        if domain.is_text or (domain.values is not None and domain.kind == "boolean"):
            values = np.arange(len(domain.values or ()), dtype=np.float64)
        elif domain.values is not None:
            values = np.asarray(domain.values, dtype=np.float64)
        elif domain.whole and domain.high - domain.low < MOST_DISTINCT:
            values = np.arange(domain.low, domain.high + 1, dtype=np.float64)
        else:
            raise DomainTooLarge(
                f"COUNT(DISTINCT) takes at most {MOST_DISTINCT:,} possible values.", fix="Round or group the values."
            )
        return cls(values, values)

    @property
    def count(self) -> int:
        return len(self.edges) if self.values is not None else len(self.edges) - 1

    def index(self, numbers: NDArray[Any]) -> Integers:
        if self.values is not None:
            found = np.searchsorted(self.values, numbers.astype(np.float64), side="left")
        else:
            found = np.searchsorted(self.edges, numbers.astype(np.float64), side="right") - 1
        return np.clip(found, 0, self.count - 1).astype(np.int64)

    def bounds(self, index: int) -> tuple[float, float]:
        """Lowest and highest number of a bin."""
        if self.values is not None:
            return float(self.values[index]), float(self.values[index])
        return float(self.edges[index]), float(self.edges[index + 1])


def _growing(low: float, high: float) -> Floats:
    """Bins that grow away from the end nearest to zero, a thousandfold in all: money and counts need it."""
    if low < 0 < high:
        return np.asarray(np.linspace(low, high, MOST_BINS + 1))
    rate = math.log(1000) / MOST_BINS
    grown = np.expm1(rate * np.arange(MOST_BINS + 1)) / math.expm1(rate * MOST_BINS)
    return np.asarray(low + (high - low) * grown if low >= 0 else high - (high - low) * grown[::-1])


# ---- matrices for quantiles ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Strategy:
    """An integer matrix over the bins whose noisy answers give prefix sums: ``prefix @ answers`` estimates them."""

    matrix: Integers
    prefix: Floats
    member: int  # how far a row that comes moves the answers: squared (Gaussian), or in L1
    change: int  # how far a row that changes its value does

    @property
    def rows(self) -> int:
        return len(self.matrix)

    @cached_property
    def deviations(self) -> Floats:
        """Of each prefix sum, for noise of deviation 1 in each answer."""
        return np.asarray(np.sqrt((self.prefix**2).sum(axis=1)))


@lru_cache(maxsize=32)
def strategy(bins: int, pure: bool) -> Strategy:
    """For Laplace noise, sums over blocks of bins. Their entries are 0 and 1: L1 norms are squared norms as well."""
    matrix = _tree(bins) if pure else _toeplitz(bins)
    gram = (matrix.astype(np.float64).T @ matrix).astype(np.int64)  # below 2^53, hence exact
    norms = np.diag(gram)
    member, change = int(norms.max()), int((norms[:, None] + norms[None, :] - 2 * gram).max())
    return Strategy(matrix, _prefix_sums(matrix.astype(np.float64)), member, change)


def _prefix_sums(matrix: Floats) -> Floats:
    """The least-squares estimate of all prefix sums from noisy answers: a matrix P with P·A equal to prefix sums."""
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    bins = matrix.shape[1]
    ones = np.tril(np.ones((bins, bins)))
    if len(matrix) == bins:  # lower triangular
        return np.asarray(solve_triangular(matrix, ones.T, trans="T", lower=True).T)
    return np.asarray(cho_solve(cho_factor(matrix.T @ matrix), ones.T).T @ matrix.T)


def _toeplitz(bins: int) -> Integers:
    """The square root of the matrix of prefix sums, in steps of 1/256."""
    weights = np.ones(bins)
    for k in range(1, bins):
        weights[k] = weights[k - 1] * (2 * k - 1) / (2 * k)
    row, column = np.indices((bins, bins))
    return np.where(row >= column, np.rint(256 * weights)[np.clip(row - column, 0, None)], 0).astype(np.int64)


def _tree(bins: int) -> Integers:
    """Sums over blocks of 1, 4, 16, … bins."""
    rows: list[Integers] = []
    width = 1
    while width < bins or not rows:
        for start in range(0, bins, width):
            row = np.zeros(bins, np.int64)
            row[start : start + width] = 1
            rows.append(row)
        width *= 4
    return np.array(rows)
