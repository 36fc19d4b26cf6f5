"""How far models are from what was measured, and what is typical of that.

A residual of two binary columns has one degree of freedom, so alone it says little about how much of its distance from
the model is noise. All residuals on as many attributes together say it: the squared correlation that the model misses
has a distribution over a grid, which is learnt from all of them (empirical Bayes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats
from nabladp.checks import damaged, is_number, is_whole

SQUARES = np.concatenate([[0.0], 4.0 ** -np.arange(18.0)])  # squared correlations, of a degree of freedom
_STEPS = 30


@dataclass(frozen=True)
class Miss:
    """The mean square of a residual's distance from the model, and what is expected of it by noise alone; both in units
    of attributes whose squared correlation is one."""

    square: float
    noise: float
    freedom: int

    @classmethod
    def of(cls, expected: Floats, values: Floats, variance: float) -> Miss:
        """``values`` are a measured residual, ``variance`` that of its sums before centring."""
        whole = unit(expected)
        square = float(((values - centred(expected)) ** 2).mean())
        return cls(square / whole, freedom(expected) * variance / whole, math.prod(n - 1 for n in expected.shape))

    def to_json(self) -> list[float | int]:
        return [self.square, self.noise, self.freedom]

    @classmethod
    def from_json(cls, data: Sequence[float]) -> Miss:
        square, noise, dimensions = data
        if not all(is_number(value) and value >= 0 for value in data) or not is_whole(dimensions):
            raise damaged("surprise")
        return cls(float(square), float(noise), int(dimensions))


def centred(table: Floats) -> Floats:
    """A table with the mean along every axis subtracted."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def freedom(table: Floats) -> float:
    """The degrees of freedom of a centred table over its number of cells."""
    return float(math.prod(1 - 1 / size for size in table.shape))


def unit(expected: Floats) -> float:
    """The mean square of a residual's cell if the squared correlation were one for each degree of freedom."""
    total, result = float(expected.sum()), 1.0
    for axis in range(expected.ndim):
        alone = expected.sum(axis=tuple(k for k in range(expected.ndim) if k != axis)) / max(total, 1e-300)
        result *= float(1 - (alone**2).sum()) / len(alone)
    return max(total**2 * result, 1.0)


def likelihoods(misses: Sequence[Miss]) -> Floats:
    """Of every miss, a row for each, under every squared correlation of the grid; the largest is 1."""
    square, noise, dimensions = np.array([(m.square, m.noise, m.freedom) for m in misses]).T[:, :, None]
    both = SQUARES + noise
    logs = -dimensions / 2 * (np.log(both) + square / both)
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def shares_of(misses: Sequence[Miss], doubt: float = 1.0) -> Floats:
    """How common each squared correlation is, as likely as can be; all are thought equally common where there is
    nothing to learn from, and as if so many more misses (``doubt``) were of this kind."""
    shares = np.full(len(SQUARES), 1 / len(SQUARES))
    if not misses:
        return shares
    likely = likelihoods(misses)
    for _ in range(_STEPS):
        held = likely * shares
        held /= held.sum(axis=1, keepdims=True)
        shares = (held.sum(axis=0) + doubt / len(shares)) / (len(held) + doubt)
    return shares


def credible(misses: Sequence[Miss], shares: Floats) -> Floats:
    """Of every miss, the part that is expected not to be noise."""
    held = likelihoods(misses) * shares
    noise = np.array([[m.noise] for m in misses])
    return np.asarray((held * SQUARES / (SQUARES + noise)).sum(axis=1) / held.sum(axis=1))


def mean_square(shares: Floats) -> float:
    """The square of the mean correlation: what the mean of absolute errors follows."""
    return float(shares @ np.sqrt(SQUARES)) ** 2


def merge(misses: Sequence[Miss]) -> Miss:
    """Several misses as one, weighted by their degrees of freedom."""
    dimensions = sum(m.freedom for m in misses)
    square = sum(m.freedom * m.square for m in misses) / max(dimensions, 1.0)
    return Miss(square, sum(m.freedom * m.noise for m in misses) / max(dimensions, 1.0), dimensions)
