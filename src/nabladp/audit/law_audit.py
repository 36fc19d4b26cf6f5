"""Runs against the law: does ``run`` publish what ``distribution`` says that it does?

On a tiny table a mechanism is run many times, and every number that it publishes is compared with its exact law: each
by itself, each pair (noise that is used twice leaves single numbers as they should be), and all of a run together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from nabladp.arrays import Integers
from nabladp.audit.bets import POWERS, Bets, PublishedLaw
from nabladp.audit.deadline import FOREVER, Deadline, OutOfTime
from nabladp.audit.neighbouring_tables import CodedRows, Derive, PairMaker
from nabladp.audit.results import LawAudit, LawRow, check_asked
from nabladp.audit.runs import PooledNoise, RememberedTable, Tell
from nabladp.checks import is_above_zero, is_share, is_whole
from nabladp.errors import AuditError, NablaDPError
from nabladp.mechanisms import Auditable
from nabladp.noise import NoiseSource
from nabladp.noise.laws import Kind
from nabladp.noise.parameters import Real, Size
from nabladp.noise.source import RowResponse
from nabladp.noise.tape import ForwardingNoise
from nabladp.schema import Schema

# ---- what could have been noticed ------------------------------------------------------------------------------------

DIVISORS = (1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.45, 1.5, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0)
_POWER = 0.9  # the probability with which a fault is to be refuted
_FEWEST_REPLAYS, _MOST_REPLAYS = 40, 4000
_SURE = 40.0  # nats that an impossible outcome counts for here
_CAUTION = 2.0  # standard errors by which replays may flatter


class ScaledNoise(ForwardingNoise):
    """Noise divided by ``divisor``, as a fault in ``run`` alone would have it.

    Selections and randomized responses become as much sharper; but not where noise is added, too: then that is the
    fault that is looked for.
    """

    def __init__(self, source: NoiseSource, divisor: float, *, selections: bool) -> None:
        super().__init__(source)
        self.divisor, self.selections = divisor, selections
        self.adds = 0  # how often noise was drawn that is added to something

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        return super().discrete_laplace(self._scale(scale), size)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        return super().discrete_gaussian(self._scale(scale), size)

    def tail_subsets(self, law: Kind, scale: Real, start: int, sizes: Sequence[int]) -> list[Any]:
        return super().tail_subsets(law, self._scale(scale), start, sizes)

    def tail_values(self, law: Kind, scale: Real, start: int, size: int) -> Integers:
        return super().tail_values(law, self._scale(scale), start, size)

    def select_exponential(self, scores: ArrayLike, scale: Real) -> int:
        return super().select_exponential(scores, Fraction(scale) / self._sharper)

    def select_lowest(self, scores: ArrayLike, rate: Real) -> int:
        return super().select_lowest(scores, Fraction(rate) * self._sharper)

    def row_response(self, keep: Real) -> RowResponse:
        return super().row_response(self._keep(keep))

    def randomized_response_counts(self, counts: ArrayLike, keep: Real) -> Integers:
        return super().randomized_response_counts(counts, self._keep(keep))

    def _scale(self, scale: Real) -> float:
        self.adds += 1
        return float(scale) / self.divisor

    @property
    def _sharper(self) -> Fraction:
        return Fraction(self.divisor) if self.selections else Fraction(1)

    def _keep(self, keep: Real) -> Real:
        if not self.selections or not 0 < keep < 1:
            return keep
        odds = (float(keep) / (1 - float(keep))) ** self.divisor
        return Fraction(odds / (1 + odds)).limit_denominator(1 << 30)


def refutes(bets: Bets, replays: Sequence[list[int] | None], runs: int, log_needed: float) -> bool:
    """Whether so many runs like the replays would, by some single bet, refute the mechanism's exact law with
    probability 0.9.

    Winnings of independent runs add up, so their mean and deviation in the replays say enough.
    """
    known = np.array([row for row in replays if row is not None], dtype=np.int64).reshape(-1, len(bets.law.columns))
    unknown = 1 - len(known) / len(replays)
    if 1 - (1 - unknown) ** runs >= _POWER:
        return True
    families = [(bets.whole_ratios(known), 1.0)] if bets.compares_whole else []
    count = len(bets.law.columns)
    families += [(bets.single_ratios(index, known[:, index]), 0.5 / count) for index in range(count)]
    spread = NormalDist().inv_cdf(_POWER)
    for ratios, share in families:
        won = np.clip(np.nan_to_num(ratios, nan=0.0, posinf=_SURE, neginf=-_SURE), -_SURE, _SURE)
        needed = log_needed - math.log(share / (3 * len(POWERS)))
        mean, deviation = won.mean(axis=0), won.std(axis=0)
        least = runs * (mean - _CAUTION * deviation / math.sqrt(len(won))) - spread * deviation * math.sqrt(runs)
        if np.any(least >= needed):
            return True
    return False


# ---- tables to run on ------------------------------------------------------------------------------------------------

Candidate = tuple[Schema, Derive, int]  # a tiny schema with its derived columns, and a number of rows
LAW_ROWS = (2, 16, 1, 3, 4, 64, 256)  # the likeliest to say much first
_MOST_RECORDS = 128  # of a candidate's schema
_TABLES = 4  # of each candidate
_UNTIMED = 2  # candidates, where time may not decide
_TRIED = 3  # runs that say how long one takes
_FEW_ROWS, _COMPARED = 4, 2  # what a small table is; tables of either kind whose runs are timed
_SMALLEST, _ENOUGH = 1.1, 40.0  # a power of the law that is hardly told apart from it, and nats that tell it apart
_SEARCH, _REPLAYED = 0.25, 0.3  # of the time, for choosing tables, and for what could have been noticed
_BATCH = 64


class Instance:
    """A table, the law of what is published about it, and the bets against that law."""

    def __init__(self, mechanism: Auditable, schema: Schema, rows: CodedRows, deadline: Deadline = FOREVER) -> None:
        """The law may be given up in the middle; a run never is, as that might depend on what it would have shown."""
        columns = np.array(rows, dtype=np.int64).T
        self.mechanism, self.schema, self.rows, self.clock = mechanism, schema, rows, deadline.clock
        self.table = RememberedTable(schema, dict(zip(schema.names, columns, strict=True)))
        self.table.deadline = deadline
        law = mechanism.distribution(self.table)
        self.table.deadline = FOREVER
        self.law = PublishedLaw(mechanism.published_law(law, schema, self.table.n))
        self.information = self.law.information()
        self.seconds = 1e-6  # of a run

    @cached_property
    def bets(self) -> Bets:
        return Bets(self.law)

    @property
    def says_enough(self) -> bool:
        """Whether the bets on this table should notice noise that is only 5% too small."""
        return self.bets.runs * self._least_information >= _ENOUGH

    @cached_property
    def _least_information(self) -> float:
        return self.law.information(_SMALLEST)

    def observe(self, noise: NoiseSource, count: int) -> list[list[int] | None]:
        """The published outcomes of so many runs on this instance's table."""
        started, result = self.clock(), []
        for _ in range(count):
            output = self.mechanism.run(self.table, noise)
            result.append(self.law.outcomes(self.mechanism.published_values(output, self.schema, self.table.n)))
        self.seconds = max(1e-6, (self.clock() - started) / count)
        return result


def find_instances(
    mechanism: Auditable, candidates: Iterable[Candidate], noise: NoiseSource, deadline: Deadline, timed: bool
) -> list[Instance]:
    """Tables for the law audit, a small and a larger one, whose laws say that runs tell most about the noise."""
    search = deadline.part(_SEARCH)
    results = sorted(_laws(mechanism, candidates, search, deadline), key=lambda one: -one.information)
    chosen: list[Instance] = []
    for large in (False, True):  # small tables show what hangs by a few rows, large ones what only many rows show
        tried = [one for one in results if (len(one.rows) > _FEW_ROWS) == large][: _COMPARED if timed else 1]
        if search.is_over:
            tried = tried[: 0 if chosen else 1]
        for instance in tried:
            instance.observe(noise, 1)  # what is compiled or kept when first used takes its time
            instance.observe(noise, 1 if search.is_over else _TRIED)
        chosen += sorted(tried, key=lambda one: -one.information / one.seconds)[:1] if timed else tried
    fullest = mechanism.with_all_published()
    if fullest is not mechanism:
        chosen[0] = Instance(fullest, chosen[0].schema, chosen[0].rows, deadline)
        chosen[0].observe(noise, _TRIED)
    return chosen


def _laws(
    mechanism: Auditable, candidates: Iterable[Candidate], search: Deadline, deadline: Deadline
) -> list[Instance]:
    """The candidate tables that have an exact law: as many as time allows, and the first few without a limit.

    While none is found the search goes on, up to the deadline of the whole audit.
    """
    seconds, slow, result, done = search.left, math.inf, list[Instance](), 0
    reasons: list[NablaDPError] = []
    for schema, derive, n in candidates:
        size = schema.cells(schema.roots) * n
        started = deadline.clock()
        if result and (size > slow or search.is_over or (math.isinf(seconds) and done == _UNTIMED)):
            continue
        try:
            deadline.check("The search for a table with a law")
            _check_size(schema)
            for rows in _tables(mechanism, schema, derive, n):
                result.append(Instance(mechanism, schema, rows, search if result else deadline))
                if deadline.clock() - started > seconds / 4:
                    slow = min(slow, size)  # what is larger would take longer still
                    break
            done += 1
        except NablaDPError as error:
            reasons.append(error)
    told = [instance for instance in result if instance.law.columns]
    if told:
        return told
    kinds = OutOfTime, AuditError, NablaDPError  # with more time there might have been a law
    known = [error for kind in kinds for error in reasons if isinstance(error, kind)]
    raise known[0] if known else AuditError("No table has an exact output distribution.", fix="Audit a tiny schema.")


def _check_size(schema: Schema) -> None:
    records = schema.cells(schema.roots)
    if records > _MOST_RECORDS:
        raise AuditError(
            f"The schema has {records:,} records; runs are compared with the law of {_MOST_RECORDS} at most.",
            fix="Audit a smaller schema.",
        )


def _tables(mechanism: Auditable, schema: Schema, derive: Derive, n: int) -> list[CodedRows]:
    read = [name for column in mechanism.reads(schema) for name in schema.derived.get(column, (column,))]
    maker = PairMaker(mechanism, schema, n, NoiseSource.seeded(n), derive)
    pairs = maker.pairs(list(dict.fromkeys(read)))
    return list(dict.fromkeys(table for pair in pairs for table in pair))[:_TABLES]


# ---- the audit -------------------------------------------------------------------------------------------------------


def law_audit(
    mechanism: Auditable,
    schema: Schema,
    *,
    rows: int | None = None,
    beta: float = 0.01,
    runs: int | None = None,
    seconds: float = 40,
    derive: Derive | None = None,
    noise: NoiseSource | None = None,
    progress: Tell | None = None,
) -> LawAudit:
    """The law audit: compare what ``run`` publishes with the mechanism's exact law, on tables of a tiny schema.

    A mechanism whose ``run`` follows its law is refuted with probability ``beta`` at most. ``rows``: of the tables,
    otherwise a few are tried. ``runs``: of each table; otherwise as many as ``seconds`` allow. The mechanism
    needs ``distribution``, ``published_law`` and ``published_values``.
    """
    check_asked(mechanism, schema, None, rows)
    if not is_share(beta) or not is_above_zero(seconds) or not (runs is None or is_whole(runs, 1)):
        raise AuditError(
            "'beta' lies between 0 and 1, 'runs' is a whole number, and 'seconds' is above zero.",
            fix="Leave them out for the usual ones.",
        )
    beta, seconds = float(beta), float(seconds)
    sizes = LAW_ROWS if rows is None else (rows,)
    return compare_runs(mechanism, [(schema, derive or {}, n) for n in sizes], beta, runs, seconds, noise, progress)


def compare_runs(
    mechanism: Auditable,
    candidates: Iterable[Candidate],
    beta: float,
    runs: int | None,
    seconds: float,
    noise: NoiseSource | None,
    progress: Tell | None,
) -> LawAudit:
    """The law audit on the candidate tables whose laws say most. With a given number of runs nothing depends on
    time."""
    deadline = Deadline.after(seconds) if runs is None else FOREVER
    source = PooledNoise(noise if noise is not None else NoiseSource())
    chosen = find_instances(mechanism, candidates, source, deadline, runs is None)
    log_needed = math.log(len(chosen) / beta)  # of one table alone
    running = deadline.part(1 - _REPLAYED)
    for number, (instance, count) in enumerate(_rounds(chosen, runs, running)):
        instance.bets.add(instance.observe(source, count))
        if progress is not None and number % 4 == 0:
            done = sum(one.bets.runs for one in chosen)
            left = running.left / instance.seconds if runs is None else len(chosen) * runs - done
            progress("run against law", done, done + max(0, int(left)))
        if instance.bets.log_capital >= log_needed:
            break
    capital = [instance.bets.log_capital for instance in chosen]
    total = float(logsumexp(capital)) - math.log(len(capital))
    told = tuple(
        LawRow(len(one.rows), one.bets.runs, len(one.law.columns), own, one.bets.most_telling())
        for one, own in zip(chosen, capital, strict=True)
    )
    refuted = total >= -math.log(beta)
    limit = None if refuted else _detectable(chosen, source, log_needed, deadline)
    return LawAudit(told, beta, total, limit)


def _rounds(chosen: Sequence[Instance], runs: int | None, deadline: Deadline) -> Iterator[tuple[Instance, int]]:
    """Which table's turn it is in the law audit, and for how many runs."""
    if runs is not None:
        for instance in chosen:
            for start in range(0, runs, _BATCH):
                yield instance, min(_BATCH, runs - start)
        return
    while not all(one.says_enough for one in chosen):
        for instance in chosen:
            if deadline.is_over and all(one.bets.runs for one in chosen):
                return
            fitting = int(min(0.25, deadline.left / 2) / instance.seconds)
            yield instance, min(max(fitting, 1), 4096)


def _detectable(chosen: Sequence[Instance], source: NoiseSource, log_needed: float, deadline: Deadline) -> float | None:
    """The smallest divisor of the noise that these runs would have refuted; None: not even the largest.

    Where there is time to try a few divisors only, it is the smallest of these.
    """
    best = max(chosen, key=lambda one: one.bets.runs * one.information)
    pilot = ScaledNoise(source, 1.0, selections=False)
    best.observe(pilot, _TRIED)
    wanted = min(max(best.bets.runs // 4, _FEWEST_REPLAYS), _MOST_REPLAYS)
    fitting, most = deadline.left / best.seconds, len(DIVISORS).bit_length()
    tried = DIVISORS if fitting >= most * _FEWEST_REPLAYS else _spread(DIVISORS, int(fitting) // _FEWEST_REPLAYS)
    replays = int(min(wanted, max(_FEWEST_REPLAYS, fitting / most)))
    low, high = 0, len(tried)
    while low < high:
        middle = (low + high) // 2
        scaled = ScaledNoise(source, tried[middle], selections=not pilot.adds)
        noticed = refutes(best.bets, best.observe(scaled, replays), best.bets.runs, log_needed)
        low, high = (low, middle) if noticed else (middle + 1, high)
    return tried[low] if low < len(tried) else None


def _spread(values: Sequence[float], looks: int) -> Sequence[float]:
    """Evenly spread values, as many as bisection with so many looks can find one among."""
    count = 2**looks - 1
    return [values[(number + 1) * len(values) // (count + 1)] for number in range(min(count, len(values) - 1))]
