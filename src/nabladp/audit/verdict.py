"""From runs on two neighbouring tables to lower bounds: everything is chosen on some runs and measured on others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.audit.scores import Binned, Sample, Score, learn
from nabladp.errors import GuaranteeError
from nabladp.privacy.guarantee import Guarantee

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
    """Clopper–Pearson: below the true probability but for a chance of at most ``failure``.

    The bound after k successes is the p at which k or more have probability ``failure``. It exceeds the true p only if
    so many succeeded that P_p(k or more) < ``failure``, and that happens with a chance of at most ``failure``.
    """
    from scipy.special import betaincinv

    k = np.asarray(successes, dtype=np.float64)
    low = betaincinv(np.maximum(k, 1), trials - np.maximum(k, 1) + 1, failure)
    return np.where(k > 0, low, 0.0)


def at_most(successes: ArrayLike, trials: int, failure: float) -> Floats:
    """Clopper–Pearson from above: the failures' lower bound, turned round."""
    return 1.0 - at_least(trials - np.asarray(successes, dtype=np.float64), trials, failure)


def pure_epsilon(p: ArrayLike, q: ArrayLike) -> Floats:
    """ln(p/q), not below 0: no smaller pure ε allows an event of P at least p and Q at most q.

    P(E) ≤ e^ε·Q(E) gives ε ≥ ln(P(E)/Q(E)) ≥ ln(p/q).
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(p / q)
    return np.where(p > q, found, 0.0)


def concentrated_rho(p: ArrayLike, q: ArrayLike) -> Floats:
    """The largest D_a(Bern(p)‖Bern(q))/a over orders a: no smaller ρ allows an event of P at least p, Q at most q.

    Seen through the event alone, P and Q are Bernoulli laws, and D_a cannot grow by looking at less (data processing).
    For p ≥ q, D_a of two Bernoulli laws grows with the first probability and falls with the second, so the corner
    (p, q) is the least it can be; for p < q nothing is known and the bound is 0.
    """
    p, q = np.asarray(p, dtype=np.float64)[..., None], np.asarray(q, dtype=np.float64)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        held = _ORDERS * np.log(p) + (1 - _ORDERS) * np.log(q)
        rest = _ORDERS * np.log1p(-p) + (1 - _ORDERS) * np.log1p(-q)
        rest = np.where(p >= 1, -np.inf, rest)
        found = np.logaddexp(held, rest) / (_ORDERS * (_ORDERS - 1))
    best: Floats = np.max(np.where(p > q, np.maximum(found, 0.0), 0.0), axis=-1)
    return best


def beyond(p: float, q: float, epsilon: float, delta: float) -> bool:
    """Whether P(E) ≥ p and Q(E) ≤ q contradict (ε, δ)."""
    return epsilon < 700 and p > math.exp(epsilon) * q + delta


def mean_at_least(values: Floats, low: float, high: float, bet: float, failure: float) -> float:
    """Below the true mean of independent values within [low, high] but for a chance of at most ``failure``.

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
    """With it the bound is about mean − deviation·√(2·ln(1/failure)/trials), the best there is."""
    return math.sqrt(-2 * math.log(failure) / max(trials, 1)) / max(deviation, 1e-12)


def divergence_terms(of_p: Floats, of_q: Floats) -> Floats:
    """g(xᵢ) − (e^g(yᵢ) − 1) for xᵢ ~ P, yᵢ ~ Q: independent, and of mean at most KL(P‖Q), whatever the function g.

    KL(P‖Q) ≥ E_P g − ln E_Q e^g (Donsker and Varadhan), and ln u ≤ u − 1. With g = ln dP/dQ both are equalities, so
    nothing is lost where g is learned well. KL is at most ρ: a lower bound on this mean is one on ρ.
    """
    paired = min(len(of_p), len(of_q))
    return np.asarray(of_p[:paired] - np.expm1(of_q[:paired]))


# ---- the verdict -----------------------------------------------------------------------------------------------------

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
