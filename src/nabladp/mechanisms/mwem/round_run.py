"""The set-up of a run, all of it known before data is read: how disjoint queries are picked jointly, the noise of their
answers, what the model learns; and, for tiny cases, the exact output distribution.

A pick has integer errors, exact draws, and a slack for the floats in between.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.mechanism import Branch, Law, Scenario, ValueLaw
from nabladp.mechanisms.mwem.round_plan import Block, Prices, Rounds, Scope
from nabladp.noise import NoiseSource, Packings, gaussian_log_pmf
from nabladp.privacy.units import UNIT
from nabladp.workloads import Queries
from nabladp.workloads.cube import Cube

# ---- how the model learns from noisy answers -------------------------------------------------------------------------

UPDATES = ("fit", "paper")
_WHILE_LEARNING, _AT_THE_END = 500, 1000  # iterations of the fit: over all rounds but the last, and after the last
_CLOSE = 0.2  # of a measurement's deviation: how near the fit comes to its optimum
_TRUST = 0.5  # how strongly noisy measurements are smoothed towards the flattest model; divided by their deviation


class Update(Protocol):
    theta: Floats

    def answers(self) -> Floats: ...
    def fresh(self) -> Update: ...
    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None: ...


def gibbs(cube: Cube, theta: Floats) -> tuple[Floats, float]:
    """MWEM's distribution A(u) ∝ exp(Σ θ_q·q(u)) and the logarithm of its normaliser."""
    mass = cube.scores(theta)
    peak = float(mass.max())
    mass -= peak
    np.exp(mass, out=mass)
    total = float(mass.sum())
    mass /= total
    return mass, peak + float(np.log(total))


class Model:
    """The coefficients, and the answers of their distribution while these stay as they are."""

    def __init__(self, cube: Cube) -> None:
        self.cube = cube
        self.theta = np.zeros(len(cube.queries))
        self._answers: Floats | None = None

    def answers(self) -> Floats:
        """The MWEM model's answer to every query, as shares."""
        if self._answers is None:
            self._answers = self.cube.answers(gibbs(self.cube, self.theta)[0])
        return self._answers


class PaperUpdate(Model):
    """The literal step of `alg:pdp-mwem`: θ_q rises by ½·(a − q(A_t)) for each query of the round.

    All steps of a round start from the same A_t. Where A_t has strongly dependent attributes they add up and overshoot.
    """

    def fresh(self) -> PaperUpdate:
        return PaperUpdate(self.cube)

    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None:
        np.add.at(self.theta, chosen, (np.clip(shares, 0, 1) - self.answers()[chosen]) / 2)
        self._answers = None


class EntropicFit(Model):
    """The flattest distribution that agrees with all measurements so far, as far as their noise deserves.

    Minimises ln Z(θ) − Σ θ_q·a_q + (λ/2)·Σ (σ_q·θ_q)², a convex function, so no step can overshoot. a_q is the mean of
    the query's measurements, cut to [0, 1]; σ_q its deviation. A round goes on where the one before it stopped; the
    more rounds there are, the less each has to do.
    """

    def __init__(self, cube: Cube, rounds: int) -> None:
        super().__init__(cube)
        self.rounds = rounds
        self._sum = np.zeros(len(cube.queries))
        self._precision = np.zeros(len(cube.queries))

    def fresh(self) -> EntropicFit:
        return EntropicFit(self.cube, self.rounds)

    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None:
        from scipy.optimize import minimize

        np.add.at(self._precision, chosen, deviations**-2.0)
        np.add.at(self._sum, chosen, shares * deviations**-2.0)
        known = np.flatnonzero(self._precision)
        target = np.clip(self._sum[known] / self._precision[known], 0, 1)
        variance = 1 / self._precision[known]
        ridge = _TRUST * variance / np.sqrt(variance.max())

        def objective(theta: Floats) -> tuple[float, Floats]:
            full = np.zeros(len(self.theta))
            full[known] = theta
            mass, log_total = gibbs(self.cube, full)
            value = log_total - theta @ target + (ridge * theta) @ theta / 2
            return float(value), self.cube.answers(mass)[known] - target + ridge * theta

        goal = _CLOSE * float(np.sqrt(variance.min()))
        most = _AT_THE_END if last else max(3, _WHILE_LEARNING // self.rounds)
        options: Any = {
            "maxiter": most,
            "maxfun": 2 * most,
            "maxcor": 20,
            "ftol": 0.0,
            "gtol": goal / 10 if last else goal,
        }
        with _blas().limit(limits=1, user_api="blas"):  # its matrices are tiny: threads would only wait for each other
            result = minimize(objective, self.theta[known], jac=True, method="L-BFGS-B", options=options)
        self.theta[known] = result.x
        self._answers = None


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def update_named(name: str, cube: Cube, rounds: int) -> Update:
    return EntropicFit(cube, rounds) if name == "fit" else PaperUpdate(cube)


# ---- the joint pick of disjoint queries ------------------------------------------------------------------------------

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
        """η: how far a pick's log probability may be from the ideal one when all scores are at most ``largest``."""
        score = _U * largest  # [slack]: rounding coefficient times integer
        if self.packings is None:
            return 4 * (2 * _step(largest) + score)
        most = max(b - a for a, b in self.ranges)
        together = 16 * (most + 8) * _U + 2 * _U * (largest + math.log(most))  # a set's log-sum-exp
        inside = self.block.count * (2 * _step(largest) + together + score)
        return 4 * (inside + self.packings.slack(largest + math.log(most)))

    def draw(self, scores: Floats, noise: NoiseSource) -> list[int]:
        """The MWEM queries picked in a round: one from each of ``count`` disjoint groups."""
        own = scores[self.queries]
        if self.packings is None:
            return [int(self.queries[_pick(own, noise)])]
        chosen = noise.select_packing(self.packings, self._together(own))
        return [a + _pick(scores[a:b], noise) for a, b in (self.ranges[i] for i in chosen)]

    def _together(self, own: Floats) -> Floats:
        """The log-sum of weights of every query group."""
        peak = np.maximum.reduceat(own, self.firsts)
        lengths = np.diff([*self.firsts, len(own)])
        return np.asarray(peak + np.log(np.add.reduceat(np.exp(own - np.repeat(peak, lengths)), self.firsts)))

    def law(self, scores: Floats) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every possible MWEM pick with the log-probability with which :meth:`draw` makes it; for tiny cases."""
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
        """MWEM's selection score of every query, from the exact answers' numerators and the model's answers as
        shares."""
        near = np.rint(np.clip(guess, 0, 1) * (self.n * self.queries.grids)).astype(np.int64)
        return np.asarray(self.coefficients * np.abs(truth - near))  # [score]


def _below(value: Fraction) -> float:
    """The largest double at or below the value, never below 0."""
    result = float(value)
    return max(result if Fraction(result) <= value else math.nextafter(result, -math.inf), 0.0)


def _grid(largest: float) -> int:
    return 60 - math.frexp(largest + 1)[1]


def _step(largest: float) -> float:
    """How far rounding to the grid moves one log weight of a selection."""
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


# ---- what a run needs ------------------------------------------------------------------------------------------------

_SMALLEST_SCALE = 1e-6  # what the noise source draws
_AUDIT_ORDER, _AUDIT_OUTCOMES = 16.0, 4_000_000
Working = Callable[[str, int, int], None]  # reports progress of an exact law; may raise to stop it


class RunSetup:
    """What a run needs, all of it known before data is read."""

    def __init__(self, queries: Queries, plan: Rounds, n: int) -> None:
        self.queries, self.plan, self.scope, self.n = queries, plan, plan.scope, n
        self.cube = Cube(queries)
        self._selectors = {
            block: Selector(block, self.queries) for block in {b for blocks in self.plan.blocks for b in blocks}
        }
        self.scores = Scores(self.queries, self.scope, self.plan.prices, list(self._selectors.values()), n)
        own = [
            answer_scale(self.plan.prices.least(sources)[1], group.grid**2)  # [scale]
            for sources, group in zip(self.scope.sources, self.queries.groups, strict=True)
        ]
        self.scale = np.repeat(own, np.diff(self.queries.starts))

    def selectors(self, number: int) -> list[Selector]:
        return [self._selectors[block] for block in self.plan.blocks[number]]

    def noise(self, chosen: Integers, noise: NoiseSource) -> Integers:
        result = np.zeros(len(chosen), dtype=np.int64)
        for scale in np.unique(self.scale[chosen]):
            here = self.scale[chosen] == scale
            result[here] = noise.discrete_gaussian(float(scale), int(here.sum()))
        return result

    def learn(self, model: Update, chosen: Integers, noisy: Integers, *, last: bool) -> None:
        rows = self.queries.grids[chosen] * float(self.n)
        model.learn(chosen, noisy / rows, self.scale[chosen] / rows, last=last)

    # ---- the exact law, for tiny cases ----------------------------------------------------------------------------

    def law(self, truth: Integers, model: Update, number: int, working: Working) -> Law:
        """The exact law of MWEM from this round on: a pick, then its noisy answers, which decide the next round."""
        scores = self.scores.of(truth, model.answers())
        laws = [list(selector.law(scores)) for selector in self.selectors(number)]
        picks, chances, then = [], [], list[Law]()
        for combined in itertools.product(*laws):
            picks.append(np.array([q for queries, _ in combined for q in queries], dtype=np.int64))
            chances.append(math.fsum(chance for _, chance in combined))
        last = number == self.plan.count - 1
        for chosen in picks:
            working("law, pick", len(then), len(picks))
            if last:
                then.append(Law(tuple(self._answers(int(truth[q]), q) for q in chosen.tolist()), _AUDIT_ORDER))
            else:
                then.append(self._law_after_pick(truth, model, number, chosen, working))
        return Law((Branch(np.array(chances), np.arange(len(picks)), tuple(then)),), _AUDIT_ORDER)

    def scenarios(self, law: Law, number: int = 0) -> Iterator[Scenario]:
        """The scenarios of MWEM's published numbers: every pick with its noisy answers, named by round and query."""
        nothing = np.zeros(len(self.queries))
        laws = [list(selector.law(nothing)) for selector in self.selectors(number)]  # lists the picks in their order
        picks = [[q for queries, _ in combined for q in queries] for combined in itertools.product(*laws)]
        for pick, chance, then in law.branch().possible():
            for result, answers, after in self._answer_laws(picks[pick], then, number):
                own = {(number, q): answer for q, answer in zip(picks[pick], answers, strict=True)}
                sequel = [Scenario(0.0, {})] if after is None else self.scenarios(after, number + 1)
                for rest in sequel:
                    yield Scenario(chance + result + rest.log_chance, own | dict(rest.values))

    def _answer_laws(
        self, chosen: list[int], law: Law, number: int
    ) -> Iterator[tuple[float, list[ValueLaw], Law | None]]:
        """The laws of the answers to one MWEM pick; before another round, given what that round learns of them."""
        lows = [self._window(q)[0] for q in chosen]
        if number == self.plan.count - 1:
            yield 0.0, [ValueLaw(low, part) for low, part in zip(lows, law.arrays(), strict=True)], None
            return
        branch = law.branch()
        shape = [high - low + 1 for low, high in map(self._window, chosen)]
        for which, then in enumerate(branch.then):
            own = np.where(branch.which == which, branch.outcomes, -np.inf).reshape(shape)
            chance = float(np.logaddexp.reduce(own, axis=None))
            if chance > -math.inf:
                axes = range(len(shape))
                each = [np.logaddexp.reduce(own - chance, axis=tuple(a for a in axes if a != axis)) for axis in axes]
                yield chance, [ValueLaw(low, part) for low, part in zip(lows, each, strict=True)], then

    def _window(self, query: int) -> tuple[int, int]:
        reach = math.ceil(_AUDIT_ORDER * int(self.queries.grids[query]) + 12 * float(self.scale[query]))
        return -reach, self.n * int(self.queries.grids[query]) + reach

    def _answers(self, true: int, query: int) -> Floats:
        low, high = self._window(query)
        return gaussian_log_pmf(float(self.scale[query]), low - true, high - true)

    def _law_after_pick(self, truth: Integers, model: Update, number: int, chosen: Integers, working: Working) -> Law:
        """All answers to one MWEM pick, and the next round after each. The model only sees answers cut to [0, 1]."""
        spans = [self._window(int(q)) for q in chosen]
        lengths = [high - low + 1 for low, high in spans]
        if math.prod(lengths) > _AUDIT_OUTCOMES:
            raise AuditError(
                "There are too many outcomes to enumerate.", fix="Use fewer queries per round or less noise."
            )
        joint = np.zeros(1)
        which = np.zeros(1, dtype=np.int64)
        seen: list[Integers] = []
        for (low, high), q in zip(spans, chosen.tolist(), strict=True):
            top = self.n * int(self.queries.grids[q])
            cut = np.clip(np.arange(low, high + 1), 0, top)
            joint = (joint[:, None] + self._answers(int(truth[q]), q)).ravel()
            which = (which[:, None] * (top + 1) + cut).ravel()
            seen.append(np.arange(top + 1))
        then: list[Law] = []
        for answers in itertools.product(*(values.tolist() for values in seen)):
            working("law, outcome", len(then), math.prod(map(len, seen)))
            after = model.fresh()
            self.learn(after, chosen, np.array(answers, dtype=np.int64), last=False)
            then.append(self.law(truth, after, number + 1, working))
        return Law((Branch(joint, which, tuple(then)),), _AUDIT_ORDER)


def answer_scale(units: int, moved: int) -> float:
    """The least noise scale for a query at this price, where ``moved`` is the squared sensitivity of its numerator."""
    return max(least_scale("gaussian", units, moved), _SMALLEST_SCALE)
