"""What synthetic tables are measured against, all on the estimator and the pooling of the library.

Each pays ``rho`` for an attribute. Noise here is floating point and from numpy: for measuring, not for use.

- AIM (McKenna et al. 2022), as published but for neighbours that change a row (twice the variance, twice the
  sensitivity): 16·d rounds, 0.9 of the budget to measure, downward closure, overlap weights, halved noise when a
  measurement moves the model less than noise would, a model that may grow as the budget is spent. It pays per person;
  an attribute can be promised no less.
- AIM with pooling: the same, but the model's size never decides what is measured.
- Gaussian: all marginals of the workload at once, each projected onto the simplex; Gaussian + model: with a fit.
- single: one marginal a round, each attribute with an account of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bench._synthesis_data import Attributes, Data
from nabladp.mechanisms.synthesis.inference import Measurement, Model, admit, fit, model_bytes, pool
from nabladp.mechanisms.synthesis.strategy import ROOM

Floats = NDArray[np.float64]
BETWEEN_ROUNDS = 0.2  # how near a fit comes to its optimum, in deviations of the noise; the last one comes nearer
ABSOLUTE = math.sqrt(2 / math.pi)  # mean size of a standard Gaussian


@dataclass(frozen=True, eq=False)
class Estimate:
    """Counts of the whole workload, what a table would be drawn from, and ρ of a person over ρ of an attribute."""

    marginals: Mapping[Attributes, Floats]
    model: Model | None
    person: float


def error(data: Data, k: int, found: Mapping[Attributes, Floats]) -> float:
    """Mean total variation distance over all k-way marginals."""
    return float(np.mean([np.abs(found[s] - true).sum() / (2 * data.n) for s, true in data.counts(k).items()]))


# One run


@dataclass(eq=False)
class Run:
    """What has been measured of a table, and the model fitted to it."""

    data: Data
    k: int
    seed: int
    limit: int  # bytes of the model
    measured: list[Measurement] = field(default_factory=list)
    worth: dict[Attributes, float] = field(default_factory=dict)  # noisy gain of each set in the model's eyes
    model: Model | None = None

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng([self.seed, 7])
        self.wanted = self.data.sets(self.k)
        self.closure = [*chain.from_iterable(self.data.sets(i) for i in range(1, self.k + 1))]
        self.truth = {s: c for i in range(1, self.k + 1) for s, c in self.data.counts(i).items()}

    def measure(self, attributes: Attributes, rho: float) -> Measurement:
        """A marginal for ``rho``: changing a row moves two cells by one, so the variance is 1/ρ."""
        true = self.truth[attributes]
        taken = Measurement(attributes, true + self.draw.normal(0, 1 / math.sqrt(rho), true.shape), 1 / rho)
        self.measured.append(taken)
        return taken

    def measure_one_way(self, rho: float) -> None:
        for attributes in self.data.sets(1):
            self.measure(attributes, rho)
        self.refit()

    def refit(self, pooling: bool = True, last: bool = False) -> None:
        """To everything measured; where it does not fit into the limit, to the sets of most worth."""
        held = None
        if pooling:
            ordered = sorted(self.worth, key=lambda s: -self.worth[s] / self.data.cells(s) ** ROOM)
            held = admit(self.data.sizes, [*ordered, *self.data.sets(1)], self.limit)
        close = {} if last else {"close": BETWEEN_ROUNDS}
        self.model = fit(
            self.data.sizes, self.data.n, self.measured, cliques=held, limit_bytes=self.limit, warm=self.model, **close
        )

    def told(self) -> Model:
        if self.model is None:
            raise RuntimeError("nothing has been fitted yet")
        return self.model

    def guesses(self, sets: Sequence[Attributes], pooling: bool = True) -> list[Floats]:
        """Of the model, or of the model and direct counts together, which also tells what the model cannot hold."""
        return [p.values for p in pool(self.told(), self.measured, sets)] if pooling else self.told().marginals(sets)

    def learn(self, attributes: Attributes, rho: float, pooling: bool = True) -> bool:
        """Measures and refits; whether that moved what is known of the marginal less than noise alone would."""
        before = self.guesses([attributes], pooling)[0]
        taken = self.measure(attributes, rho)
        noise = ABSOLUTE * math.sqrt(taken.variance) * taken.values.size
        gain = float(np.abs(taken.values - before).sum()) - noise
        self.worth[taken.attributes] = max(gain, self.worth.get(taken.attributes, -math.inf))
        self.refit(pooling)
        return float(np.abs(self.guesses([attributes], pooling)[0] - before).sum()) <= noise

    def gaps(self, sets: Sequence[Attributes], pooling: bool = True) -> Floats:
        """‖true − guess‖₁ of every candidate."""
        pairs = zip(sets, self.guesses(sets, pooling), strict=True)
        return np.array([np.abs(self.truth[s] - guess).sum() for s, guess in pairs])

    def order(self, scores: Floats, epsilon: float, weight: float) -> list[int]:
        """Candidates by the exponential mechanism: the first is its pick, the first that fits its pick among those."""
        noisy = epsilon * scores / (4 * weight) + self.draw.gumbel(size=len(scores))
        return [int(i) for i in np.argsort(-noisy)]

    def pooled(self, person: float) -> Estimate:
        answers = pool(self.told(), self.measured, self.wanted)
        return Estimate({answer.attributes: answer.values for answer in answers}, self.model, person)


# AIM


def aim(data: Data, rho: float, k: int, seed: int, limit: int, pooling: bool = False) -> Estimate:
    run = Run(data, k, seed, limit)
    d = len(data.sizes)
    step = rho / (16 * d)  # of a round: 0.9 to measure, 0.1 to choose
    run.measure_one_way(0.9 * step)
    spent = 0.9 * step * d
    weights = np.array([sum(len(set(s) & set(w)) for w in run.wanted) for s in run.closure], dtype=float)
    cells = np.array([data.cells(s) for s in run.closure])
    while spent < rho * (1 - 1e-9):
        if rho - spent < 2 * step:
            step = rho - spent  # the last round takes what is left
        spent += step
        sigma, epsilon = 1 / math.sqrt(0.9 * step), math.sqrt(8 * 0.1 * step)
        scores = weights * (run.gaps(run.closure, pooling) - ABSOLUTE * sigma * cells)
        ordered = (run.closure[i] for i in run.order(scores, epsilon, float(weights.max())))
        room = None if pooling else run.limit * spent / rho
        chosen = next((s for s in ordered if room is None or _fits(run, s, room)), None)
        if chosen is None:
            break
        if run.learn(chosen, 0.9 * step, pooling):
            step *= 4
    run.refit(pooling, last=True)
    if pooling:
        return run.pooled(1.0)
    found = run.told().marginals(run.wanted)
    return Estimate(dict(zip(run.wanted, found, strict=True)), run.model, 1.0)


def _fits(run: Run, chosen: Attributes, room: float) -> bool:
    held = {m.attributes for m in run.measured}
    inside = any(set(chosen) <= set(s) for s in held)
    return inside or model_bytes(run.data.sizes, [*held, chosen]) <= room


def aim_pool(data: Data, rho: float, k: int, seed: int, limit: int) -> Estimate:
    return aim(data, rho, k, seed, limit, pooling=True)


# All at once


def gaussian(data: Data, rho: float, k: int, seed: int, limit: int) -> Estimate:
    run = Run(data, k, seed, limit)
    each = rho / math.comb(len(data.sizes) - 1, k - 1)
    found = {s: onto_simplex(run.measure(s, each).values, data.n) for s in run.wanted}
    return Estimate(found, None, len(data.sizes) / k)


def gaussian_model(data: Data, rho: float, k: int, seed: int, limit: int, one_way: float = 0.1) -> Estimate:
    run = Run(data, k, seed, limit)
    d = len(data.sizes)
    run.measure_one_way(one_way * rho)
    each = (1 - one_way) * rho / math.comb(d - 1, k - 1)
    taken = [run.measure(s, each) for s in run.wanted]
    for before, measured in zip(run.told().marginals(run.wanted), taken, strict=True):
        noise = ABSOLUTE * math.sqrt(measured.variance) * measured.values.size
        run.worth[measured.attributes] = float(np.abs(measured.values - before).sum()) - noise
    run.refit(last=True)
    return run.pooled(one_way * d + (1 - one_way) * d / k)


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest counts that are not negative and add up to ``total``."""
    ordered = np.sort(values, axis=None)[::-1]
    over = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    return np.maximum(values - over[np.flatnonzero(ordered > over)[-1]], 0)


# One marginal a round, an account for each attribute

ONE_WAY, CHOOSING = 0.06, 0.08


def single(data: Data, rho: float, k: int, seed: int, limit: int) -> Estimate:
    """Each round lets every account grow; a marginal takes what the poorest of its attributes has saved."""
    run = Run(data, k, seed, limit)
    d = len(data.sizes)
    run.measure_one_way(ONE_WAY * rho)
    measuring = (1 - ONE_WAY - CHOOSING) * rho
    saved = dict.fromkeys(data.sizes, 0.0)
    step, gone = 1 / (16 * d / k), 0.0
    cells = np.array([data.cells(s) for s in run.wanted])
    while gone < 1 - 1e-9:
        step = 1 - gone if 1 - gone < 2 * step else step
        gone += step
        for name in saved:
            saved[name] += measuring * step
        richest = np.array([min(saved[name] for name in s) for s in run.wanted])
        scores = run.gaps(run.wanted) - ABSOLUTE * cells / np.sqrt(np.maximum(richest, 1e-12))
        chosen = run.wanted[run.order(scores, math.sqrt(8 * CHOOSING * rho * step), 1.0)[0]]
        cost = min(saved[name] for name in chosen)
        for name in chosen:
            saved[name] -= cost
        if run.learn(chosen, cost):
            step *= 4
    remeasure(run, saved)
    return run.pooled(CHOOSING + ONE_WAY * d + (1 - ONE_WAY - CHOOSING) * d / k)


def remeasure(run: Run, saved: dict[str, float]) -> None:
    """What is left is spent on sets measured before, those of most worth first."""
    for chosen in sorted(run.worth, key=lambda s: -run.worth[s]):
        cost = min(saved[name] for name in chosen)
        if cost > 1e-9:
            run.measure(chosen, cost)
            for name in chosen:
                saved[name] -= cost
    run.refit(last=True)


Baseline = Callable[[Data, float, int, int, int], Estimate]
BASELINES: dict[str, Baseline] = {
    "AIM": aim,
    "AIM + pooling": aim_pool,
    "Gaussian": gaussian,
    "Gaussian + model": gaussian_model,
    "single": single,
}
