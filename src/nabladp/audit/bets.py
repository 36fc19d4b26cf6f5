"""The law of all numbers that a mechanism publishes about one table, and bets of runs against it.

Each test is a bet against the law at fair odds: the likelihood ratio of some fixed alternative to the law. If the law
holds, the capital of such a bet, or of a mean of bets, ever exceeds 1/β with probability β at most, however many tests
there are, whenever one looks (Ville's inequality). So no merged cell has to be large enough for an approximation, and
an audit may stop as soon as it has refuted the law.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms import Scenario, ValueLaw

# ---- the law of all published numbers of one table -------------------------------------------------------------------

_BEYOND = 1e-9  # at least this probability for all numbers that a law does not list: it was cut somewhere
_MOST_OUTCOMES = 1 << 21  # of all numbers together
_BINS, _PAIR_BINS = 8, 4  # merged cells of one number by itself, and in a pair


class Column:
    """One published number. Its outcomes: 0 absent, 1 … the listed numbers, the last one everything beyond."""

    def __init__(self, name: Hashable, laws: Sequence[ValueLaw | None]) -> None:
        known = [law for law in laws if law is not None]
        self.name, self.step = name, known[0].step
        self.first = min(law.first for law in known)
        ends = [(law.first - self.first) // self.step + len(law.log_chances) for law in known]
        self.length = max(ends)
        rows: dict[int, int] = {}  # scenarios share laws
        self.row = np.array([rows.setdefault(id(law), len(rows)) for law in laws], dtype=np.int64)
        distinct = {id(law): law for law in laws}
        self.logs = np.array([self._row(distinct[key]) for key in rows])

    def _row(self, law: ValueLaw | None) -> Floats:
        logs = np.full(self.length + 2, -np.inf)
        if law is None:
            logs[0] = 0.0
        else:
            start = 1 + (law.first - self.first) // self.step
            logs[0], logs[start : start + len(law.log_chances)] = law.log_absent, law.log_chances
        logs[-1] = math.log(max(1 - float(np.exp(logs).sum()), _BEYOND))
        return np.asarray(logs - logsumexp(logs))

    def outcome(self, value: int | None) -> int:
        if value is None:
            return 0
        index = round((value - self.first) / self.step)
        return 1 + index if 0 <= index < self.length else self.length + 1

    def marginal(self, weights: Floats) -> Floats:
        """Log-probabilities of all outcomes of one published number, over all scenarios."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.bincount(self.row, weights) @ np.exp(self.logs)))

    @cached_property
    def powers(self) -> Floats:
        """The law of one published number as it is, and then raised to each of the powers."""
        return np.stack([self.logs, *(temper(self.logs, power) for power in POWERS.tolist())])


POWERS = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0])


def temper(logs: Floats, power: float) -> Floats:
    """Temper laws (last axis) by a power: being published at all by itself, and the number given that it is.

    Gaussian noise of scale s becomes noise of scale s/√power, Laplace noise or a selection one of scale s/power.
    """
    here = logsumexp(logs[..., 1:], axis=-1, keepdims=True)
    given = power * (logs[..., 1:] - here)
    either = power * np.concatenate([logs[..., :1], here], axis=-1)
    either -= logsumexp(either, axis=-1, keepdims=True)
    given += either[..., 1:] - logsumexp(given, axis=-1, keepdims=True)
    return np.concatenate([either[..., :1], given], axis=-1)


def merge_outcomes(logs: Floats, most: int) -> tuple[Integers, Floats]:
    """Merge neighbouring outcomes of a law into cells of about equal probability: each outcome's cell, and the cells'
    probabilities.

    Impossible outcomes make up the last cell, of probability 0.
    """
    chances = np.exp(logs)
    middle = np.cumsum(chances) - chances / 2
    cells = np.minimum(most - 1, (most * middle).astype(np.int64))
    _, cells = np.unique(cells[chances > 0], return_inverse=True)
    result = np.full(len(logs), int(cells.max()) + 1, dtype=np.int64)
    result[chances > 0] = cells
    return result, np.bincount(result, chances, minlength=int(cells.max()) + 2).astype(np.float64)


class PublishedLaw:
    """The law of everything that a mechanism publishes about one table."""

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        listed = list(scenarios)
        names = list(dict.fromkeys(name for scenario in listed for name in scenario.values))
        held = {id(law): len(law.log_chances) for scenario in listed for law in scenario.values.values()}
        if sum(held.values()) > _MOST_OUTCOMES:
            raise AuditError(
                "There are too many outcomes to compare runs with.", fix="Audit fewer columns, or a larger budget."
            )
        logs = np.array([scenario.log_chance for scenario in listed])
        self.log_weights: Floats = logs - logsumexp(logs)
        self.weights: Floats = np.exp(self.log_weights)
        self.columns = [Column(name, [scenario.values.get(name) for scenario in listed]) for name in names]
        self.names = frozenset(names)

    @cached_property
    def marginals(self) -> list[Floats]:
        return [column.marginal(self.weights) for column in self.columns]

    def outcomes(self, values: Mapping[Hashable, int]) -> list[int] | None:
        """The outcome of one run in every column of the law; None where it publishes something that the law does not
        know."""
        if not self.names.issuperset(values):
            return None
        return [column.outcome(values.get(column.name)) for column in self.columns]

    def information(self, power: float = 2.0) -> float:
        """The information of one run against the law, in nats, if all laws are tempered: noise smaller by 1.4, or by 2
        for Laplace."""
        return sum(_divergence(temper(logs, power), logs) for logs in self.marginals)


def _divergence(tempered: Floats, logs: Floats) -> float:
    possible = ~np.isneginf(logs)
    return float(np.exp(tempered[possible]) @ (tempered[possible] - logs[possible]))


# ---- bets against it -------------------------------------------------------------------------------------------------

_STRENGTHS = np.array([4.0, 30.0, 300.0, 3000.0, 30000.0])  # of the prior that cells are those of the law
_MOST_SCENARIOS, _AT_ONCE = 1 << 15, 64  # beyond, runs as a whole are not compared, or not many at once
_MOST_PAIRS = 120


class Bets:
    """What was won so far against the law of one table; logarithms of capital that starts at 1."""

    def __init__(self, law: PublishedLaw) -> None:
        self.law, self.runs, self.impossible = law, 0, 0
        count = len(law.columns)
        self._tallies = [np.zeros(len(logs), dtype=np.int64) for logs in law.marginals]
        self._totals = [_log_totals(logs) for logs in law.marginals]
        self._merged = [merge_outcomes(logs, _BINS) for logs in law.marginals]
        self._whole = np.zeros(len(POWERS))
        self.compares_whole = len(law.weights) <= _MOST_SCENARIOS and count > 1
        merged = [merge_outcomes(logs, _PAIR_BINS) for logs in law.marginals]
        self._cells = [cells for cells, _ in merged]
        telling = [i for i, (_, chances) in enumerate(merged) if np.count_nonzero(chances) > 1]
        near = sorted((b - a, a, b) for i, a in enumerate(telling) for b in telling[i + 1 :])[:_MOST_PAIRS]
        self.pairs = [(a, b) for _, a, b in near]
        self._joint = [self._joint_law(a, b) for a, b in self.pairs]
        self._met = [np.zeros(joint.shape, dtype=np.int64) for joint in self._joint]

    def _joint_law(self, one: int, other: int) -> Floats:
        merged = []
        for index in (one, other):
            column, cells = self.law.columns[index], self._cells[index]
            chances = np.exp(column.logs)
            sums = np.stack([np.bincount(cells, row, minlength=int(cells.max()) + 1) for row in chances])
            merged.append(sums[column.row])
        return np.asarray((merged[0] * self.law.weights[:, None]).T @ merged[1])

    def add(self, observed: Sequence[list[int] | None]) -> None:
        """Bet on the outcomes of further runs."""
        known = [row for row in observed if row is not None]
        self.runs += len(observed)
        self.impossible += len(observed) - len(known)
        if not known or not self.law.columns:
            return
        outcomes = np.array(known, dtype=np.int64)
        for index, tally in enumerate(self._tallies):
            tally += np.bincount(outcomes[:, index], minlength=len(tally))
        for (one, other), met in zip(self.pairs, self._met, strict=True):
            np.add.at(met, (self._cells[one][outcomes[:, one]], self._cells[other][outcomes[:, other]]), 1)
        if self.compares_whole:
            ratios = self.whole_ratios(outcomes)
            possible = np.isfinite(ratios[:, 0])  # each number by itself may be possible where all together are not
            self.impossible += int(np.count_nonzero(~possible))
            self._whole += ratios[possible].sum(axis=0)

    def whole_ratios(self, outcomes: Integers) -> Floats:
        """For every run and power: the log ratio of all its numbers together, tempered law to law; NaN: impossible."""
        if len(self.law.weights) <= _AT_ONCE:
            logs = np.stack([self._likelihoods(number, outcomes) for number in range(len(POWERS) + 1)], axis=1)
        else:
            logs = np.array([self._likelihoods_of(run) for run in outcomes])
        with np.errstate(invalid="ignore"):
            return np.asarray(logs[:, 1:] - logs[:, :1])

    @cached_property
    def _log_weights(self) -> Floats:
        """The log weights of the scenarios: by the law, and by each of its powers."""
        raised = np.outer(np.append(1.0, POWERS), self.law.log_weights)
        return np.asarray(raised - logsumexp(raised, axis=1, keepdims=True))

    def _likelihoods(self, number: int, outcomes: Integers) -> Floats:
        """Log-likelihoods of many runs, by one power of the law."""
        total = np.tile(self._log_weights[number], (len(outcomes), 1))
        for column, own in zip(self.law.columns, outcomes.T, strict=True):
            total += column.powers[number][column.row[None, :], own[:, None]]
        return total[:, 0] if total.shape[1] == 1 else np.asarray(np.logaddexp.reduce(total, axis=1))

    def _likelihoods_of(self, run: Integers) -> Floats:
        """Log-likelihoods of one run, by all powers of the law; of many scenarios only a few can have led to it."""
        outcomes = list(zip(self.law.columns, run.tolist(), strict=True))
        likely = np.arange(len(self.law.weights))
        for column, own in outcomes:
            likely = likely[~np.isneginf(column.logs[column.row[likely], own])]
        total = self._log_weights[:, likely]
        for column, own in outcomes:
            total = total + column.powers[:, column.row[likely], own]
        return np.asarray(np.logaddexp.reduce(total, axis=1))

    def single_ratios(self, index: int, outcomes: Integers) -> Floats:
        """For every run and power: the log ratio of one published number by itself, tempered law to law."""
        logs = self.law.marginals[index]
        either, given = self._totals[index]
        return np.outer(logs[outcomes], POWERS - 1) - either - np.outer(outcomes > 0, given)

    # ---- capital --------------------------------------------------------------------------------------------------

    @property
    def log_capital(self) -> float:
        """The log capital of all bets: a third of the stake each on runs as a whole, on single numbers and on pairs,
        where there are some."""
        tests = self.tests()
        if self.impossible:
            return math.inf
        return float(np.logaddexp.reduce([won + math.log(share) for _, won, share in tests])) if tests else 0.0

    def tests(self) -> list[tuple[str, float, float]]:
        """Every bet against the law: its subject, the logarithm of its capital, its share of the stake."""
        families: list[list[tuple[str, float]]] = [[], [], []]
        if self.compares_whole:
            families[0].append(("all numbers of a run", _mean_of(self._whole)))
        for index, column in enumerate(self.law.columns):
            families[1].append((f"number {column.name!r}", self._log_single(index)))
        for (one, other), chances, met in zip(self.pairs, self._joint, self._met, strict=True):
            pair = f"numbers {self.law.columns[one].name!r} and {self.law.columns[other].name!r}"
            families[2].append((pair, _log_dirichlet(chances.ravel(), met.ravel())))
        kept = [family for family in families if family]
        return [(name, won, 1 / (len(kept) * len(family))) for family in kept for name, won in family]

    def _log_single(self, index: int) -> float:
        """The log capital of betting on one published number: half on tempered laws, half on any other probabilities of
        merged cells."""
        tally, logs = self._tallies[index], self.law.marginals[index]
        met = np.flatnonzero(tally)
        if np.any(np.isneginf(logs[met])):
            return math.inf
        tempered = tally[met] @ self.single_ratios(index, met)
        cells, chances = self._merged[index]
        others = _log_dirichlet(chances, np.bincount(cells, tally, len(chances)))
        return _mean_of(np.array([_mean_of(tempered), others]))

    def most_telling(self) -> str:
        if self.impossible:
            return "numbers that the law does not know"
        return max(self.tests(), key=lambda test: test[1] + math.log(test[2]), default=("nothing", 0.0, 1.0))[0]


def _log_totals(logs: Floats) -> tuple[Floats, Floats]:
    """For every power γ: ln Σ pᵞ of being published or not, and of the number given that it is; see :func:`temper`."""
    here = float(logsumexp(logs[1:]))
    given = (logs[1:] - here)[~np.isneginf(logs[1:])]
    either = logsumexp(np.outer(POWERS, np.array([logs[0], here])), axis=1)
    return np.asarray(either), np.asarray(logsumexp(np.outer(POWERS, given), axis=1))


def _log_dirichlet(chances: Floats, met: ArrayLike) -> float:
    """The log capital of a bet on cell probabilities around the law's: a mean over Dirichlet priors of several
    strengths."""
    counts = np.asarray(met, dtype=np.float64)
    possible = chances > 0
    if np.any(counts[~possible]):
        return math.inf
    counts, chances = counts[possible], chances[possible] / chances[possible].sum()
    prior = _STRENGTHS[:, None] * chances
    total = counts.sum()
    won = gammaln(_STRENGTHS) - gammaln(_STRENGTHS + total) + (gammaln(prior + counts) - gammaln(prior)).sum(axis=1)
    return _mean_of(won - counts @ np.log(chances))


def _mean_of(won: Floats) -> float:
    return float(np.logaddexp.reduce(won)) - math.log(len(won))
