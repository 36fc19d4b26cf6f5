"""Scores that tell outputs on one table from outputs on its neighbour: high where the first is the likelier.

All are learned from one part of the runs. How good they are decides how much an audit finds, never whether it is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nabladp.arrays import Floats, Integers

_MOST_LINEAR, _MOST_ADDITIVE = 96, 12  # columns
_RIDGE = 1e-3
_MOST_BINS = 24


@dataclass(frozen=True)
class Sample:
    """Outputs on one table: a row of columns and a symbol each."""

    columns: Floats
    symbols: Integers

    def __len__(self) -> int:
        return len(self.symbols)

    def part(self, start: int, stop: int | None = None) -> Sample:
        return Sample(self.columns[start:stop], self.symbols[start:stop])

    def plus(self, other: Sample) -> Sample:
        return Sample(np.concatenate([self.columns, other.columns]), np.concatenate([self.symbols, other.symbols]))


class Score(Protocol):
    def __call__(self, sample: Sample) -> Floats: ...


def learn(one: Sample, other: Sample) -> list[Score]:
    """Several kinds of score; which of them is best is for other runs to say."""
    apart = separation(one, other)
    order = np.argsort(-apart)
    order = order[apart[order] > 0]
    if not len(order):
        return [_symbols(one, other)]
    found: list[Score] = [_linear(one, other, order[:_MOST_LINEAR])]
    bins = int(np.clip(min(len(one), len(other)) ** (1 / 3), 4, _MOST_BINS))
    columns = [Binned.learn(one.columns[:, i], other.columns[:, i], bins) for i in order[: 4 * _MOST_ADDITIVE]]
    telling = np.argsort([-column.apart for column in columns])[:_MOST_ADDITIVE]
    for count in sorted({1, 2, 4, _MOST_ADDITIVE}):
        chosen = telling[:count]
        found.append(Additive(tuple((int(order[i]), columns[i]) for i in chosen)))
    return [*found, _symbols(one, other)]


def separation(one: Sample, other: Sample) -> Floats:
    """How far apart the two samples of each column are on average, in standard errors."""
    p, q = one.columns, other.columns
    middle = (p.mean(axis=0) + q.mean(axis=0)) / 2
    return np.maximum(_apart(p, q), 0.5 * _apart(np.abs(p - middle), np.abs(q - middle)))  # or how far they spread


def _apart(p: Floats, q: Floats) -> Floats:
    gap = np.abs(p.mean(axis=0) - q.mean(axis=0))
    spread = p.var(axis=0) / len(p) + q.var(axis=0) / len(q)
    return np.asarray(gap / np.sqrt(spread + 1e-12 * (1 + gap**2)))


@dataclass(frozen=True)
class Linear:
    """Fisher's discriminant: the best linear score where both laws have one covariance."""

    chosen: Integers
    weights: Floats

    def __call__(self, sample: Sample) -> Floats:
        return np.asarray(sample.columns[:, self.chosen] @ self.weights)


def _linear(one: Sample, other: Sample, chosen: Integers) -> Linear:
    p, q = one.columns[:, chosen], other.columns[:, chosen]
    covariance = (np.cov(p, rowvar=False) + np.cov(q, rowvar=False)).reshape(len(chosen), len(chosen)) / 2
    size = np.diag(covariance).copy()
    ridge = _RIDGE + len(chosen) / (len(p) + len(q))  # few runs: trust correlations less
    covariance += np.diag(ridge * size + 1e-9 * (1 + size.max()))
    return Linear(chosen, np.linalg.solve(covariance, p.mean(axis=0) - q.mean(axis=0)))


@dataclass(frozen=True)
class Binned:
    """The logarithm of how much likelier a column's bin is under the first law."""

    edges: Floats
    ratios: Floats
    apart: float  # an estimate of the divergence in this column

    @classmethod
    def learn(cls, p: Floats, q: Floats, bins: int) -> Binned:
        pooled = np.concatenate([p, q])
        values = np.unique(pooled)
        if len(values) <= 2 * bins:
            edges = (values[1:] + values[:-1]) / 2
        else:
            edges = np.unique(np.quantile(pooled, np.arange(1, bins) / bins))
        counts = [np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) + 0.5 for x in (p, q)]
        ratios = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
        apart = float((counts[0] / counts[0].sum() - counts[1] / counts[1].sum()) @ ratios) / 2
        return cls(edges, ratios, apart - len(edges) / min(len(p), len(q)))

    def __call__(self, values: Floats) -> Floats:
        return np.asarray(self.ratios[np.searchsorted(self.edges, values)])


@dataclass(frozen=True)
class Additive:
    """The sum over a few columns, as if they were independent."""

    parts: tuple[tuple[int, Binned], ...]

    def __call__(self, sample: Sample) -> Floats:
        return np.asarray(np.sum([binned(sample.columns[:, i]) for i, binned in self.parts], axis=0))


@dataclass(frozen=True)
class Symbols:
    """For outputs that repeat, such as a choice among few: each whole output has its own ratio."""

    known: Integers
    ratios: Floats

    def __call__(self, sample: Sample) -> Floats:
        if not len(self.known):
            return np.zeros(len(sample))
        place = np.minimum(np.searchsorted(self.known, sample.symbols), len(self.known) - 1)
        return np.where(self.known[place] == sample.symbols, self.ratios[place], 0.0)


def _symbols(one: Sample, other: Sample) -> Symbols:
    known, place = np.unique(np.concatenate([one.symbols, other.symbols]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(known)) + 0.5 for part in (place[: len(one)], place[len(one) :])]
    seen = counts[0] + counts[1] > 2  # more than once
    return Symbols(known[seen], np.log(counts[0] / counts[0].sum())[seen] - np.log(counts[1] / counts[1].sum())[seen])
