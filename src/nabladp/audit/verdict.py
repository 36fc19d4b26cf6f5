"""From runs on two neighbouring tables to lower bounds: everything is chosen on some runs and measured on others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats
from nabladp.audit.bounds import (
    at_least,
    at_most,
    best_bet,
    beyond,
    concentrated_rho,
    divergence_terms,
    mean_at_least,
    pure_epsilon,
)
from nabladp.audit.scores import Binned, Sample, Score, learn
from nabladp.errors import GuaranteeError
from nabladp.privacy.guarantee import Guarantee

BOUNDS = 5  # that have to hold at once for one set: two events of two each, and one mean
_SHARES = np.unique(np.concatenate([[0.0005, 0.001, 0.002, 0.005, 0.01], np.linspace(0.02, 0.5, 33)]))
_CAPS = (0.5, 1.0, 2.0, 3.0, 4.0)  # how much one output may say
_DELTAS = (0.003, 0.03, 0.1, 0.3, 0.6)  # of the event's own probability


@dataclass(frozen=True)
class Event:
    """A score at or above a threshold; ``turned``: below it, with the two tables changing places."""

    score: Score
    threshold: float
    turned: bool

    def seen(self, one: Sample, other: Sample, failure: float) -> tuple[float, float]:
        """At least p on one table, at most q on the other; each but for a chance of ``failure``."""
        if self.turned:
            one, other = other, one
        k, m = (int(np.sum((self.score(x) >= self.threshold) != self.turned)) for x in (one, other))
        return float(at_least(k, len(one), failure)), float(at_most(m, len(other), failure))


@dataclass(frozen=True)
class LogRatio:
    """An approximate ln dP/dQ, kept within [−cap, cap] before it is shifted; ``turned``: ln dQ/dP."""

    score: Score
    shape: Callable[[Floats], Floats]
    cap: float
    shift: float
    turned: bool
    bet: float

    def __call__(self, sample: Sample) -> Floats:
        return _capped(self.shape(self.score(sample)), self.cap, self.turned) - self.shift

    def seen(self, one: Sample, other: Sample, failure: float) -> float:
        """A lower bound on KL, and so on ρ, but for a chance of ``failure``."""
        if self.turned:
            one, other = other, one
        terms = divergence_terms(self(one), self(other))
        low, high = -self.cap - self.shift, self.cap - self.shift
        return max(0.0, mean_at_least(terms, low - math.expm1(high), high - math.expm1(low), self.bet, failure))


@dataclass(frozen=True)
class Found:
    """Lower bounds that hold together, and whether the claimed (ε, δ) curve is broken."""

    pure: float
    rho: float
    beyond_curve: bool


@dataclass(frozen=True)
class Attack:
    """What was chosen to be measured on runs not yet made."""

    events: tuple[Event, ...]
    ratio: LogRatio

    @classmethod
    def choose(cls, one: Sample, other: Sample, failure: float, trials: int) -> Attack:
        """Learn on the first two thirds, choose by the rest. ``trials`` runs of each table will measure."""
        cut = 2 * min(len(one), len(other)) // 3
        scores = learn(one.part(0, cut), other.part(0, cut))
        left = one.part(cut), other.part(cut)
        events = tuple(_best_event(scores, *left, failure, worth) for worth in (pure_epsilon, concentrated_rho))
        ratios = (ratio for score in scores for ratio in _ratios(score, one.part(0, cut), other.part(0, cut)))
        return cls(events, _best_ratio(ratios, *left, failure, trials))

    def measure(self, one: Sample, other: Sample, failure: float, claim: Guarantee, attributes: Sequence[str]) -> Found:
        """All :data:`BOUNDS` bounds hold together but for a chance of ``BOUNDS * failure``."""
        seen = [event.seen(one, other, failure) for event in self.events]
        return Found(
            pure=max(float(pure_epsilon(p, q)) for p, q in seen),
            rho=max(*(float(concentrated_rho(p, q)) for p, q in seen), self.ratio.seen(one, other, failure)),
            beyond_curve=any(_beyond_curve(claim, attributes, p, q) for p, q in seen),
        )


def _best_event(
    scores: Sequence[Score], one: Sample, other: Sample, failure: float, worth: Callable[[Floats, Floats], Floats]
) -> Event:
    best, found = -math.inf, Event(scores[0], 0.0, False)
    for score in scores:
        p, q = np.sort(score(one)), np.sort(score(other))
        thresholds = np.unique(np.quantile(np.concatenate([p, q]), np.union1d(_SHARES, 1 - _SHARES)))
        above_p, above_q = (len(x) - np.searchsorted(x, thresholds) for x in (p, q))
        for turned in (False, True):
            k, m = (len(q) - above_q, len(p) - above_p) if turned else (above_p, above_q)
            trials = (len(q), len(p)) if turned else (len(p), len(q))
            low, high = at_least(k, trials[0], failure), at_most(m, trials[1], failure)
            value = worth(low, high) + 1e-6 * (low - high)  # where nothing is found yet: the nearest to it
            top = int(np.argmax(value))
            if value[top] > best:
                best, found = float(value[top]), Event(score, float(thresholds[top]), turned)
    return found


def _ratios(score: Score, one: Sample, other: Sample) -> Iterator[LogRatio]:
    """Two shapes for each score: a bin at a time, and a straight line, as two laws of one spread would have it."""
    p, q = score(one), score(other)
    bins = int(np.clip(min(len(p), len(q)) ** 0.4, 4, 64))
    spread = (p.var() + q.var()) / 2
    slope = (p.mean() - q.mean()) / spread if spread > 0 else 0.0
    for shape in (Binned.learn(p, q, bins), Line(float(slope), float(p.mean() + q.mean()) / 2)):
        for turned in (False, True):
            for cap in _CAPS:
                held = _capped(shape(p if turned else q), cap, turned)
                yield LogRatio(score, shape, cap, math.log(float(np.mean(np.exp(held)))), turned, 0.0)


@dataclass(frozen=True)
class Line:
    slope: float
    middle: float

    def __call__(self, values: Floats) -> Floats:
        return np.asarray(self.slope * (values - self.middle))


def _capped(values: Floats, cap: float, turned: bool) -> Floats:
    return np.clip(-values if turned else values, -cap, cap)


def _best_ratio(ratios: Iterator[LogRatio], one: Sample, other: Sample, failure: float, trials: int) -> LogRatio:
    best, found = -math.inf, None
    need = -math.log(failure)
    for ratio in ratios:
        p, q = (other, one) if ratio.turned else (one, other)
        terms = divergence_terms(ratio(p), ratio(q))
        deviation = float(terms.std()) + 1e-9
        high, low = ratio.cap - ratio.shift, -ratio.cap - ratio.shift
        widest = high - math.expm1(low) - low + math.expm1(high)
        bet = min(best_bet(deviation, trials, failure), 0.9 / widest)
        value = float(terms.mean()) - need / (trials * bet) - bet * deviation**2 / 2
        if found is None or value > best:
            best, found = value, LogRatio(ratio.score, ratio.shape, ratio.cap, ratio.shift, ratio.turned, bet)
    if found is None:
        raise GuaranteeError("There is nothing to measure.", fix="Give more runs.")
    return found


def _beyond_curve(claim: Guarantee, attributes: Sequence[str], p: float, q: float) -> bool:
    """Whether some (ε, δ) that the guarantee states itself is broken; for Gaussian noise, by the noise's own curve."""
    if p <= q:
        return False
    for share in _DELTAS:
        delta = share * p
        for conversion in ("tight", "discrete_gaussian"):
            try:
                epsilon = claim.epsilon(attributes, delta, conversion)
            except GuaranteeError:  # this figure is stated for Gaussian noise only
                continue
            if beyond(p, q, epsilon, delta):
                return True
    return False
