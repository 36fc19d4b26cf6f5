"""The statistical audit: any mechanism, as a black box, run many times on neighbouring tables.

For each set T of attributes a pair of tables that differ in one row on T is looked for, and something to tell their
outputs apart is learned, on some of the runs. Other runs, as many as were fixed beforehand, measure it. All lower
bounds of an audit hold together with confidence 1 − β, so a true claim is refuted with a chance of at most β.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats
from nabladp.audit.deadline import FOREVER, Deadline, OutOfTime
from nabladp.audit.features import Features
from nabladp.audit.neighbouring_tables import Derive, Pair, PairMaker, Pairs, default_sets
from nabladp.audit.results import StatisticalAudit, StatisticalRow, check_asked
from nabladp.audit.runs import Runs, Tell
from nabladp.audit.scores_and_bounds import (
    Binned,
    Sample,
    Score,
    at_least,
    at_most,
    best_bet,
    beyond,
    concentrated_rho,
    divergence_terms,
    learn,
    mean_at_least,
    pure_epsilon,
    separation,
)
from nabladp.checks import is_above_zero, is_share, is_whole, members
from nabladp.errors import AuditError, GuaranteeError, MechanismError, quote
from nabladp.mechanisms import Auditable
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema

# ---- from runs on two neighbouring tables to lower bounds ------------------------------------------------------------

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
        """Bounds on the event's probabilities: at least p on one table, at most q on the other; each fails with
        probability ``failure``."""
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
        """A lower bound on KL, and so on ρ, from samples of a log ratio; fails with probability ``failure``."""
        if self.turned:
            one, other = other, one
        terms = divergence_terms(self(one), self(other))
        low, high = -self.cap - self.shift, self.cap - self.shift
        return max(0.0, mean_at_least(terms, low - math.expm1(high), high - math.expm1(low), self.bet, failure))


@dataclass(frozen=True)
class LowerBounds:
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
        """Choose an attack on one pair of tables: learn on the first two thirds of runs, choose by the rest; ``trials``
        runs will measure."""
        cut = 2 * min(len(one), len(other)) // 3
        scores = learn(one.part(0, cut), other.part(0, cut))
        left = one.part(cut), other.part(cut)
        events = tuple(_best_event(scores, *left, failure, worth) for worth in (pure_epsilon, concentrated_rho))
        ratios = (ratio for score in scores for ratio in _ratios(score, one.part(0, cut), other.part(0, cut)))
        return cls(events, _best_ratio(ratios, *left, failure, trials))

    def measure(
        self, one: Sample, other: Sample, failure: float, claim: Guarantee, attributes: Sequence[str]
    ) -> LowerBounds:
        """Measure the chosen attack on fresh runs: all :data:`BOUNDS` bounds hold together but for ``BOUNDS *
        failure``."""
        seen = [event.seen(one, other, failure) for event in self.events]
        return LowerBounds(
            pure=max(float(pure_epsilon(p, q)) for p, q in seen),
            rho=max(*(float(concentrated_rho(p, q)) for p, q in seen), self.ratio.seen(one, other, failure)),
            beyond_curve=any(_beyond_curve(claim, attributes, p, q) for p, q in seen),
        )


def _best_event(
    scores: Sequence[Score], one: Sample, other: Sample, failure: float, worth: Callable[[Floats, Floats], Floats]
) -> Event:
    best, result = -math.inf, Event(scores[0], 0.0, False)
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
                best, result = float(value[top]), Event(score, float(thresholds[top]), turned)
    return result


def _ratios(score: Score, one: Sample, other: Sample) -> Iterator[LogRatio]:
    """Two log-ratio shapes for each score: a bin at a time, and a straight line, as two laws of one spread would have
    it."""
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
    best, result = -math.inf, None
    need = -math.log(failure)
    for ratio in ratios:
        p, q = (other, one) if ratio.turned else (one, other)
        terms = divergence_terms(ratio(p), ratio(q))
        deviation = float(terms.std()) + 1e-9
        high, low = ratio.cap - ratio.shift, -ratio.cap - ratio.shift
        widest = high - math.expm1(low) - low + math.expm1(high)
        bet = min(best_bet(deviation, trials, failure), 0.9 / widest)
        value = float(terms.mean()) - need / (trials * bet) - bet * deviation**2 / 2
        if result is None or value > best:
            best, result = value, LogRatio(ratio.score, ratio.shape, ratio.cap, ratio.shift, ratio.turned, bet)
    if result is None:
        raise GuaranteeError("There is nothing to measure.", fix="Give more runs.")
    return result


def _beyond_curve(claim: Guarantee, attributes: Sequence[str], p: float, q: float) -> bool:
    """Whether the measured (p, q) break some (ε, δ) of the claim; for Gaussian noise, of the noise's own curve."""
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


# ---- the audit -------------------------------------------------------------------------------------------------------

_ROWS = (4, 16, 64, 256, 1024, 4096, 16384)
_FEWEST, _MOST = 32, 25_000  # runs of a table to learn from, and as many to measure
_PILOT = 8  # runs of every table tried
_FEW_SETS, _ENOUGH = 4, 1000  # sets, and runs of each, before further sets are tried
_SEARCH, _LEARNING = 0.25, 0.4  # of the time: for finding a pair; of what is left, for learning from its runs
_LEAST_OF_A_SET = 4 * _PILOT + 4 * _FEWEST  # runs: of two pairs, then of two tables to learn from and to measure
_LEAST = 64 + _LEAST_OF_A_SET  # runs: those that come before the first set, too


def statistical_audit(
    mechanism: Auditable,
    schema: Schema,
    *,
    sets: Iterable[Sequence[str] | str] | None = None,
    rows: int | None = None,
    beta: float = 0.01,
    runs: int | None = None,
    seconds: float = 40,
    pairs: Pairs | None = None,
    features: Features | None = None,
    derive: Derive | None = None,
    noise: NoiseSource | None = None,
    guarantee: Guarantee | None = None,
    progress: Tell | None = None,
) -> StatisticalAudit:
    """The statistical audit: run a mechanism many times to find a set whose claim is too small, with confidence 1 −
    ``beta`` overall.

    The mechanism needs ``run(counts, noise)`` and ``guarantee(schema, n)``, or hand in a ``guarantee``.

    ``sets``: which sets to try, otherwise a few. ``rows``: of the tables. ``runs``: for each set, half of them to learn
    from and half to measure; otherwise as many as about ``seconds`` allow. ``pairs``: pairs of tables to try instead of
    our own, each table a list of records (codes by attribute), or a function of the set. ``features``: a function from
    an output to numbers. ``derive``: for derived columns, the code from a record's codes.

    Sets that ``seconds`` leave no time for are left out; if there is none for any, :class:`OutOfTime` is raised.
    """
    check_options(beta, runs, seconds)
    beta, seconds = float(beta), float(seconds)  # what SciPy takes; a fraction is welcome
    check_asked(mechanism, schema, guarantee, rows)
    deadline = Deadline.after(seconds) if runs is None else FOREVER
    n, claim = _claimed(mechanism, schema, rows, guarantee)
    universe = Universe.of(schema)
    asked = None if sets is None else members(sets, "'sets'", 'Write sets=["age", ("age", "sex")].')
    wanted = [_sources(universe, names) for names in asked] if asked is not None else _usual(mechanism, claim, schema)
    wanted = list(dict.fromkeys(wanted))
    source = noise if noise is not None else NoiseSource()
    maker = PairMaker(mechanism, schema, n, source, derive)
    made = Runs(mechanism, schema, source, features, progress, deadline)
    tried = {names: _offered(maker, pairs, names) for names in wanted}
    first = [table for offered in tried.values() for pair in offered[:2] for table in pair]
    if first:
        made.begin(list(dict.fromkeys(first)), runs, _LEAST)
    count = len(wanted)
    if sets is None and runs is None:  # better few sets with many runs than the other way round
        count = min(count, _how_many(int(seconds / max(made.each, 1e-6))))
    results: list[StatisticalRow] = []
    for names, part in zip(wanted[:count], deadline.parts([1] * count), strict=True):
        waiting = count - len(results)
        made.expected = made.done + (int(deadline.left / max(made.each, 1e-6)) if runs is None else runs * waiting)
        try:
            if results:
                deadline.refuse_longer("One more set", _LEAST_OF_A_SET * made.each)
            results.append(_audited(made, names, tried[names], claim, beta / (count * BOUNDS), runs, part))
        except OutOfTime:  # what its runs have shown so far counts for nothing: how many measure was fixed before
            if not results:
                raise
            break
    return StatisticalAudit(tuple(results), beta, n, tuple(wanted[len(results) :]))


def check_options(beta: float, runs: int | None, seconds: float) -> None:
    if not is_share(beta):
        raise AuditError("beta is a probability between 0 and 1.", fix="The usual one is 0.01.")
    if runs is not None and not is_whole(runs, 4 * _PILOT):
        raise AuditError(f"{quote(runs)} runs are too few.", fix="Give thousands, or a time in seconds.")
    if not is_above_zero(seconds):
        raise AuditError("'seconds' must be positive and finite.", fix="Give, for instance, seconds = 40.")


def _claimed(
    mechanism: Auditable, schema: Schema, rows: int | None, guarantee: Guarantee | None
) -> tuple[int, Guarantee]:
    """The claimed guarantee, for the smallest usual number of rows that the mechanism promises something for."""
    if guarantee is not None:
        return rows or _ROWS[0], guarantee
    for n in (rows,) if rows is not None else _ROWS:
        try:
            return n, mechanism.guarantee(schema, n)
        except MechanismError:
            if n in (rows, _ROWS[-1]):
                raise
    raise AuditError("A table has at least one row.", fix="Give rows = 4.")


def _sources(universe: Universe, names: Sequence[str] | str) -> tuple[str, ...]:
    behind = universe.sources(names)
    if public := behind & universe.public:
        raise AuditError(f"{min(public)!r} is public: nothing is claimed.", fix="Audit sets of protected attributes.")
    return tuple(name for name in universe.roots if name in behind)


def _usual(mechanism: Auditable, claim: Guarantee, schema: Schema) -> list[tuple[str, ...]]:
    reads = mechanism.reads(schema)
    result = default_sets(claim, reads, schema)
    if not result:
        raise AuditError("No attribute is protected.", fix="There is nothing to audit.")
    return result


def _how_many(runs: int) -> int:
    """The number of sets to audit where about so many runs can be made in all: the whole person, a few if all get the
    fewest runs."""
    return max(1, min(_FEW_SETS, runs // (4 * _FEWEST)), runs // _ENOUGH)


def _offered(maker: PairMaker, pairs: Pairs | None, names: tuple[str, ...]) -> list[Pair]:
    if pairs is None:
        return maker.pairs(names)
    return maker.given(pairs(names) if callable(pairs) else pairs, names)


def _audited(
    made: Runs,
    names: tuple[str, ...],
    pairs: Sequence[Pair],
    claim: Guarantee,
    failure: float,
    runs: int | None,
    deadline: Deadline,
) -> StatisticalRow:
    claimed, before = (claim.epsilon(names), claim.rho(names)), made.done
    if not pairs:  # no row can change here: there is nothing to find
        return StatisticalRow(names, *claimed, 0.0, 0.0, False, 0)
    tries = int(_SEARCH * deadline.left / max(made.each, 1e-6)) if runs is None else runs // 8
    pair = _likeliest(made, pairs, tries)
    half = _half(made, pair, deadline, runs)
    for count in (max(_FEWEST, half // 4), half):
        one, other = (made.learn(table, count) for table in pair)
        shared = min(len(one), len(other))
        if np.array_equal(one.symbols[:shared], other.symbols[:shared]):  # equal noise, equal outputs, every time
            return StatisticalRow(names, *claimed, 0.0, 0.0, False, made.done - before)
    attack = Attack.choose(one, other, failure, half)
    first, second = (made.measure(table, half) for table in pair)  # as many as fixed before: the bounds rest on it
    result = attack.measure(first, second, failure, claim, names)
    return StatisticalRow(names, *claimed, result.pure, result.rho, result.beyond_curve, made.done - before)


def _half(made: Runs, pair: Pair, deadline: Deadline, runs: int | None) -> int:
    """The number of runs of each table to learn from, and again to measure: as asked, or by the time left."""
    if runs is not None:
        return max(_PILOT, runs // 4)
    fitting = (1 - _LEARNING) * deadline.left / max(made.each, 1e-6)
    low, high = _FEWEST, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        enough = sum(made.missing(table, middle) for table in pair) <= fitting
        low, high = (middle, high) if enough else (low, middle)
    return low


def _likeliest(made: Runs, pairs: Sequence[Pair], runs: int) -> Pair:
    """The pair of tables likeliest to show a loss: some runs of every pair, then more of the better half, until one is
    left."""
    last = made.done + runs
    left, count = list(pairs[: max(2, runs // (2 * _PILOT))]), _PILOT
    while len(left) > 1:
        apart = {pair: _apart(made.learn(pair[0], count), made.learn(pair[1], count)) for pair in left}
        left.sort(key=lambda pair: -apart[pair])
        left, count = left[: (len(left) + 1) // 2], 2 * count
        if made.done > last:
            break
    return left[0]


def _apart(one: Sample, other: Sample) -> float:
    """How far apart two tables' outputs are, in their few farthest feature columns; where none is, how often whole
    outputs differ."""
    short = min(len(one), len(other))
    one, other = one.part(0, short), other.part(0, short)
    best = np.sort(separation(one, other))[-8:]
    return float(np.sqrt(np.sum(best**2) / short) + 0.01 * np.mean(one.symbols != other.symbols))
