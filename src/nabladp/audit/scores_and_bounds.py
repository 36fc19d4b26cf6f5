"""Scores that tell outputs on one table from outputs on its neighbour, and lower bounds from samples of them.

A score is high where the first table is the likelier. All are learned from one part of the runs. How good they are
decides how much an audit finds, never whether it is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

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
    """Learn several kinds of scores that distinguish outputs on two neighbouring tables; other runs say which is
    best."""
    apart = separation(one, other)
    order = np.argsort(-apart)
    order = order[apart[order] > 0]
    if not len(order):
        return [_symbols(one, other)]
    results: list[Score] = [_linear(one, other, order[:_MOST_LINEAR])]
    bins = int(np.clip(min(len(one), len(other)) ** (1 / 3), 4, _MOST_BINS))
    columns = [Binned.learn(one.columns[:, i], other.columns[:, i], bins) for i in order[: 4 * _MOST_ADDITIVE]]
    telling = np.argsort([-column.apart for column in columns])[:_MOST_ADDITIVE]
    for count in sorted({1, 2, 4, _MOST_ADDITIVE}):
        chosen = telling[:count]
        results.append(Additive(tuple((int(order[i]), columns[i]) for i in chosen)))
    return [*results, _symbols(one, other)]


def separation(one: Sample, other: Sample) -> Floats:
    """How far apart the two samples of each feature column are on average, in standard errors."""
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
        index = np.minimum(np.searchsorted(self.known, sample.symbols), len(self.known) - 1)
        return np.where(self.known[index] == sample.symbols, self.ratios[index], 0.0)


def _symbols(one: Sample, other: Sample) -> Symbols:
    known, index = np.unique(np.concatenate([one.symbols, other.symbols]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(known)) + 0.5 for part in (index[: len(one)], index[len(one) :])]
    seen = counts[0] + counts[1] > 2  # more than once
    return Symbols(known[seen], np.log(counts[0] / counts[0].sum())[seen] - np.log(counts[1] / counts[1].sum())[seen])


# ---- lower bounds from samples ---------------------------------------------------------------------------------------
# None assumes anything of the laws. What the bounds are compared with:
#
# - a pure claim ε says P(E) ≤ e^ε·Q(E) for every event E;
# - a concentrated claim ρ says D_a(P‖Q) ≤ ρ·a for every order a > 1, hence also KL(P‖Q) ≤ ρ (a → 1);
# - an (ε, δ) claim says P(E) ≤ e^ε·Q(E) + δ.
#
# All of them hold with P and Q swapped, too, as neighbouring is symmetric.

_ORDERS = 1 + 2.0 ** np.linspace(-9, 9, 55)  # of Rényi divergences: any order gives a valid bound
_MOST_BET = 0.9  # of what would lose everything


def at_least(successes: ArrayLike, trials: int, failure: float) -> Floats:
    """A Clopper–Pearson lower bound on a probability, wrong with probability at most ``failure``.

    The bound after k successes is the p at which k or more have probability ``failure``. It exceeds the true p only if
    so many succeeded that P_p(k or more) < ``failure``, and that happens with a chance of at most ``failure``.
    """
    from scipy.special import betaincinv

    k = np.asarray(successes, dtype=np.float64)
    low = betaincinv(np.maximum(k, 1), trials - np.maximum(k, 1) + 1, failure)
    return np.where(k > 0, low, 0.0)


def at_most(successes: ArrayLike, trials: int, failure: float) -> Floats:
    """A Clopper–Pearson upper bound on a probability: the failures' lower bound, turned round."""
    return 1.0 - at_least(trials - np.asarray(successes, dtype=np.float64), trials, failure)


def pure_epsilon(p: ArrayLike, q: ArrayLike) -> Floats:
    """A lower bound on pure ε: ln(p/q), not below 0, for an event of P at least p and Q at most q.

    P(E) ≤ e^ε·Q(E) gives ε ≥ ln(P(E)/Q(E)) ≥ ln(p/q).
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.log(p / q)
    return np.where(p > q, result, 0.0)


def concentrated_rho(p: ArrayLike, q: ArrayLike) -> Floats:
    """A lower bound on ρ: the largest D_a(Bern(p)‖Bern(q))/a over orders a, for an event of P at least p, Q at most q.

    Seen through the event alone, P and Q are Bernoulli laws, and D_a cannot grow by looking at less (data processing).
    For p ≥ q, D_a of two Bernoulli laws grows with the first probability and falls with the second, so the corner
    (p, q) is the least it can be; for p < q nothing is known and the bound is 0.
    """
    p, q = np.asarray(p, dtype=np.float64)[..., None], np.asarray(q, dtype=np.float64)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        held = _ORDERS * np.log(p) + (1 - _ORDERS) * np.log(q)
        rest = _ORDERS * np.log1p(-p) + (1 - _ORDERS) * np.log1p(-q)
        rest = np.where(p >= 1, -np.inf, rest)
        result = np.logaddexp(held, rest) / (_ORDERS * (_ORDERS - 1))
    best: Floats = np.max(np.where(p > q, np.maximum(result, 0.0), 0.0), axis=-1)
    return best


def beyond(p: float, q: float, epsilon: float, delta: float) -> bool:
    """Whether an event with P(E) ≥ p and Q(E) ≤ q contradicts (ε, δ)."""
    return epsilon < 700 and p > math.exp(epsilon) * q + delta


def mean_at_least(values: Floats, low: float, high: float, bet: float, failure: float) -> float:
    """A lower bound on the mean of independent values within [low, high], by betting; wrong with probability at most
    ``failure``.

    Suppose the mean were at most m. Whoever bets λ on each value has, of one unit, K(m) = Π (1 + λ·(xᵢ − m)) in the
    end: never negative where λ ≤ 1/(high − low), and of expectation at most 1. So K(m) ≥ 1/failure has a chance of at
    most ``failure`` (Markov). K falls with m; the bound is the m where K(m) = 1/failure, and it exceeds the true mean
    only if K at the true mean is that large. ``bet`` is λ; any will do that was chosen without looking at the values.
    """
    width = high - low
    if not len(values) or width <= 0:
        return low
    stake, need = min(max(bet, 0.0), _MOST_BET / width), -math.log(failure)
    x = np.clip(values, low, high)  # rounding only: values lie inside

    def gained(m: float) -> float:
        return float(np.sum(np.log1p(stake * (x - m))))

    if gained(low) < need:
        return low
    below, above = low, high  # gained(below) ≥ need; at ``above`` every bet loses
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (middle, above) if gained(middle) >= need else (below, middle)
    return below


def best_bet(deviation: float, trials: int, failure: float) -> float:
    """The bet for :func:`mean_at_least` that gives about mean − deviation·√(2·ln(1/failure)/trials), the best bound
    there is."""
    return math.sqrt(-2 * math.log(failure) / max(trials, 1)) / max(deviation, 1e-12)


def divergence_terms(of_p: Floats, of_q: Floats) -> Floats:
    """Terms whose mean is a lower bound on KL(P‖Q), whatever the function g: g(xᵢ) − (e^g(yᵢ) − 1) for xᵢ ~ P, yᵢ ~ Q.

    KL(P‖Q) ≥ E_P g − ln E_Q e^g (Donsker and Varadhan), and ln u ≤ u − 1. With g = ln dP/dQ both are equalities, so
    nothing is lost where g is learned well. KL is at most ρ: a lower bound on this mean is one on ρ.
    """
    paired = min(len(of_p), len(of_q))
    return np.asarray(of_p[:paired] - np.expm1(of_q[:paired]))
