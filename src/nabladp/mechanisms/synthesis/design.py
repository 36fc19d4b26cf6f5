"""Synthesis design: all that is fixed before data is read, and with it guarantee, expected error, memory and time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import BudgetError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.synthesis.accounts import Accounts, Block, Limits, blocks_of_rounds
from nabladp.mechanisms.synthesis.groups import Groups
from nabladp.mechanisms.synthesis.repair import passes_of, work
from nabladp.mechanisms.synthesis.selection import ABSOLUTE, Selector, prices
from nabladp.mechanisms.synthesis.strategy import AT_FIRST, GROUPED_ALONE, Choice
from nabladp.mechanisms.synthesis.workload import Names, Wanted
from nabladp.noise import variance
from nabladp.privacy.guarantee import Guarantee

MOST_BYTES = 1 << 30  # of true marginals that are kept
AT_ONCE = 1 << 24  # cells counted in one pass
_FINEST = 1 << 20  # a marginal's weight over the largest is no finer
LEAST_UNITS = 1 << 12  # of a marginal: its noise would be of scale 10⁷
_NO_NOISE = 1e-12  # the variance of noise so small that it underflows
_SMALLEST_SCALE = 1e-6  # what the noise source draws


@dataclass(frozen=True)
class Planned:
    """A marginal that is measured whatever the data says."""

    attributes: Names
    units: int

    @property
    def scale(self) -> float:
        return scale_for(self.units)


def scale_for(units: int) -> float:
    """The noise scale of a marginal that so many units of ρ buy: one row moves two cells by one."""
    return max(least_scale("gaussian", units, 2), _SMALLEST_SCALE)  # [scale]


@lru_cache(maxsize=4096)
def variance_of(scale: float) -> float:
    return max(variance("gaussian", scale), _NO_NOISE)


@dataclass(frozen=True)
class AtOnce:
    """Marginals that are measured at once after single columns have decided it, in proportion to ``shares`` from what
    accounts were granted up to this part of the whole."""

    sets: tuple[Names, ...]
    shares: list[Fraction]
    granted: Fraction


@dataclass(frozen=True, eq=False)
class Design:
    """``planned`` is measured first (for "all": it is everything); then rounds choose, from accounts that grow. For
    "refined" they pick nothing: what was released says what they measure again. Where the choice has another instead,
    single columns are planned, and decide between the two."""

    wanted: Wanted
    limits: Limits
    choice: Choice
    n: int
    planned: tuple[Planned, ...]
    fixed: Guarantee  # of what is planned, and of all picks
    rounds: tuple[tuple[Block, ...], ...] = ()
    price: dict[str, int] = field(default_factory=dict)
    accounts: Accounts | None = None
    groups: Groups = field(default_factory=Groups)  # of values that marginals of several columns are measured in

    @classmethod
    def of(
        cls, wanted: Wanted, limits: Limits, choice: Choice, n: int, seed: int, groups: Groups | None = None
    ) -> Design:
        groups = groups or Groups()
        alone = [Fraction(GROUPED_ALONE if names[0] in groups.starts else 1) for names in wanted.first]
        planned = _planned(limits, wanted.first, alone, choice.one_way)
        if choice.pairs and choice.instead is None:
            pairs, weights = wanted.pairs
            shares = _shares(pairs, weights, wanted, groups, choice.balance)
            planned = _merge_planned(planned + _planned(limits, pairs, shares, choice.pairs))
        if not choice.picks:
            rest = Accounts.after(limits, _cost(limits, planned)).left()
            shares = _shares(wanted.sets, wanted.weights, wanted, groups, choice.balance)
            first = AT_FIRST if choice.strategy == "refined" else Fraction(1)
            planned = _merge_planned(planned + _planned(rest, wanted.sets, shares, first))
            fixed = _cost(limits, planned)
            accounts = Accounts.after(limits, fixed) if choice.strategy == "refined" else None
            return cls(wanted, limits, choice, n, planned, fixed, accounts=accounts, groups=groups)
        sources = [limits.universe.sources(names) for names in wanted.candidates]
        read = frozenset().union(*sources)
        scope = tuple(name for name in limits.universe.roots if name in read)
        rounds = blocks_of_rounds(scope, sources, choice.rounds, seed, chosen=choice.strategy)
        price, picks = prices(limits, rounds, choice.selection)
        fixed = _cost(limits, planned) + picks
        accounts = Accounts.after(limits, fixed)
        for name, units in zip(limits.names, accounts.most, strict=True):
            if units * (1 - _granted_before(choice)) // choice.rounds < LEAST_UNITS:
                raise BudgetError(
                    f"The budget of {name!r} is too small for {choice.rounds:,} rounds.",
                    fix="Raise it or ask for fewer.",
                )
        result = cls(wanted, limits, choice, n, planned, fixed, rounds, price, accounts, groups)
        for each in (choice, choice.instead):  # what could fail should do so before anything is booked
            if each is not None and choice.instead:
                result.at_once(each)
        return result

    def guarantee(self) -> Guarantee:
        return (
            self.fixed if self.accounts is None else self.fixed + self.accounts.guarantee(self.least)
        )  # [composition]

    def noise_uses(self, measured: Sequence[tuple[Names, int, float]]) -> list[NoiseUse]:
        """The noise of Synthesis: for planned marginals, for picks, and for every marginal that rounds measured, with
        its published scale."""
        results = [
            NoiseUse.exactly(
                f"the marginal {'+'.join(p.attributes)}",
                "discrete_gaussian",
                self.measured_cells(p.attributes),
                Charge.of_each(_cost(self.limits, (p,)), p.attributes, 2),
                marginal=None if self.groups.of(p.attributes) else p.attributes,
            )
            for p in self.planned
        ]
        if self.accounts is None:
            return results
        spent = self.accounts.guarantee(self.least)
        for names, cells, scale in measured:
            what, charge = f"the marginal {'+'.join(names)} of a round", Charge.of_each(spent, names, 2)
            results.append(NoiseUse.exactly(what, "discrete_gaussian", cells, charge, published=scale))
        return [
            *results,
            *self._pick_uses(),
            NoiseUse("what rounds may still measure", "discrete_gaussian", 0, 0, (Charge(spent),)),
        ]

    def _pick_uses(self) -> list[NoiseUse]:
        """The draws of the rounds' picks, at most one per block: a round may find nothing to pick, a later one may
        stand for several."""
        if not self.rounds:
            return []
        universe, result = self.limits.universe, list[NoiseUse]()
        first = [(block, block.guarantee(universe, self.price)) for block in self.rounds[0]]
        later = [block.guarantee(universe, self.price) for blocks in self.rounds[1:] for block in blocks]
        rest = Guarantee.compose(universe, later)
        kinds = Counter(_kind_of(block) for blocks in self.rounds[1:] for block in blocks)
        for block, cost in first:
            result.append(NoiseUse("the first round's selection", _kind_of(block), 0, 1, (Charge(cost),)))
        for kind, most in kinds.items():
            result.append(NoiseUse("selections of later rounds", kind, 0, most, (Charge(rest),)))
        return result

    @cached_property
    def keys(self) -> list[tuple[int, ...]]:
        """The accounts that each candidate marginal is charged to."""
        return [self.limits.charged(names) for names in self.wanted.candidates]

    @cached_property
    def least(self) -> int:
        """The number of protected attributes that every marginal that accounts may pay for touches at least."""
        candidates, sets = self.wanted.candidates, self.wanted.sets
        measured = (*candidates, *sets) if self.choice.instead else candidates if self.rounds else sets
        counted = [len(self.limits.protected(names)) for names in measured]
        return min((count for count in counted if count), default=1)

    @cached_property
    def sources(self) -> list[frozenset[str]]:
        return [self.limits.universe.sources(names) for names in self.wanted.candidates]

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        return np.array([self.measured_cells(names) for names in self.wanted.candidates], np.int64)

    def measured_cells(self, names: Names) -> int:
        """The counts that a measurement of a marginal has."""
        return self.groups.cells(names, self.wanted.sizes)

    def at_once(self, choice: Choice) -> tuple[AtOnce, ...]:
        """What is measured at once by one of two choices that single columns decided between: pairs, and the workload
        where nothing will be picked."""
        results, granted = list[AtOnce](), Fraction(0)
        if choice.pairs:
            pairs, weights = self.wanted.pairs
            granted = self.choice.of_rest(choice.pairs)
            results.append(AtOnce(pairs, self._shares(pairs, weights, choice), granted))
        if not choice.picks:
            granted += (1 - granted) * AT_FIRST
            sets, shares = self.wanted.sets, self._shares(self.wanted.sets, self.wanted.weights, choice)
            results.append(AtOnce(sets, shares, granted))
        return tuple(results)

    def _shares(self, sets: Sequence[Names], weights: Sequence[float], choice: Choice) -> list[Fraction]:
        return _shares(sets, weights, self.wanted, self.groups, choice.balance)

    def spread_evenly(self) -> list[int]:
        """What each marginal of the workload would get if all that is not planned were spread evenly."""
        if self.accounts is None:
            return [0] * len(self.wanted.sets)
        return self.accounts.left().divided(self.wanted.sets, [Fraction(1)] * len(self.wanted.sets))

    @cached_property
    def one_block(self) -> bool:
        """Whether every round chooses from the same block, so that one strong pick may stand for several."""
        return len(set(self.rounds)) == 1

    @cached_property
    def _selectors(self) -> dict[Block, Selector]:
        weights = np.array(self.wanted.candidate_weights)
        return {
            block: Selector(block, self.sources, weights, self.price, self.n)
            for block in {block for blocks in self.rounds for block in blocks}
        }

    def selectors(self, number: int) -> list[Selector]:
        return [self._selectors[block] for block in self.rounds[number]]

    @cached_property
    def sharing(self) -> dict[int, int]:
        """For each account of a set: the number of marginals of one pick that may be charged to it."""
        most = max((sum(block.most for block in blocks) for blocks in self.rounds), default=1)
        return {key: min(most, len(held)) for key, held in enumerate(self.limits.sets) if len(held) > 1}


def _granted_before(choice: Choice) -> Fraction:
    """The part of the accounts that is spent on pairs before a round picks."""
    return choice.of_rest(choice.pairs) if choice.instead else Fraction(0)


def _kind_of(block: Block) -> str:
    """The kind of draw that picks from a block, as on a tape."""
    return "select_exponential" if block.one else "select_matching" if block.matched else "select_any_packing"


def _planned(limits: Limits, sets: tuple[Names, ...], weights: list[Fraction], share: Fraction) -> tuple[Planned, ...]:
    if not share:
        return ()
    units = limits.divided(sets, weights, share)
    for names, amount in zip(sets, units, strict=True):
        if amount < LEAST_UNITS:
            raise BudgetError(
                f"The budget is too small for so many marginals (first: {'+'.join(names)}).",
                fix="Raise it or ask for fewer sets.",
            )
    return tuple(Planned(names, amount) for names, amount in zip(sets, units, strict=True))


def _merge_planned(planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """Planned marginals, each set once: one planned twice is measured once, for what both cost."""
    results: dict[frozenset[str], Planned] = {}
    for each in planned:
        key = frozenset(each.attributes)
        before = results.get(key)
        results[key] = each if before is None else Planned(before.attributes, before.units + each.units)
    return tuple(results.values())


def _cost(limits: Limits, planned: tuple[Planned, ...]) -> Guarantee:
    return limits.touched([p.attributes for p in planned], [p.units for p in planned], [p.scale for p in planned])


def _shares(
    sets: Sequence[Names], weights: Sequence[float], wanted: Wanted, groups: Groups, balance: float
) -> list[Fraction]:
    """Shares of marginals that are measured at once: their weights over the largest, times a power of the cells, which
    protects larger tables."""
    largest = Fraction(max(weights))
    relative = [(Fraction(weight) / largest).limit_denominator(_FINEST) or Fraction(1, _FINEST) for weight in weights]
    sizes = [max(1, round(1000 * groups.cells(names, wanted.sizes) ** balance)) for names in sets]
    return [share * size for share, size in zip(relative, sizes, strict=True)]


_ROWS_A_SECOND = 3e6  # counted, for each hundred marginals
_CELLS_A_SECOND = 2e7  # compared with the model
_SECONDS_A_BYTE = 2e-7  # of a model, to fit it
_SECONDS_A_SET = 0.95e-3  # of a fit, for every marginal it is fitted to
_SECONDS_A_ROUND = 1.25e-9  # for every byte of the model and every column, to answer all candidates
_SECONDS_SAMPLED = 1.6e-7  # of a row, for every column
_SECONDS_LOOKED_AT = 5e-10  # of a cell, while rows are repaired
MOST_SHOWN = 20_000  # marginals that a report shows cell by cell
_SECONDS_PUBLISHED = 1.85e-3  # for every marginal that is answered, written and shown
_BYTES_A_SET = 14_000
_BYTES_SHOWN = 30_000
_BYTES_COMPARED = 38_000  # and in rounds, for every candidate
_BASE_BYTES = 470_000_000  # the packages
_BYTES_REPAIRED = 4  # of a cell of the workload, for each of its columns
_COPIES = 12  # of the model's tables, while it answers all pairs at once
_ANSWER_COPIES = 6
_BYTES_A_CODE = 2  # as sampled, and as repaired


@dataclass(frozen=True)
class SynthesisError(ExpectedError):
    """``noise_error`` is the mean total variation distance of a marginal from the truth, by its noise alone, if it is
    picked once, or with all that it gets where nothing is picked; the model makes it smaller. None while the number of
    rows is not known."""

    columns: int
    marginals: int
    workload_cells: int
    measured_cells: int  # about as many in rounds that pick
    strategy: str
    why: str
    rounds: int
    rows: int
    scale: float  # of the noise on a marginal, in the middle
    noise_error: float | None
    memory_mb: float
    seconds: float

    def values_written(self) -> int:
        """The number of values that Synthesis will write: answers, measurements, synthetic table."""
        return self.workload_cells + self.measured_cells + self.rows * self.columns // 32

    def measure(self, rows: int) -> ErrorMeasure:
        what = "Distance of a measured table from the truth by noise alone (total variation, at most 1)"
        advice = "ask for a smaller workload"
        return ErrorMeasure(what, self.noise_error, small=0.1, useless=0.5, scales=True, advice=advice)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "columns": self.columns,
            "marginals wanted": self.marginals,
            "strategy": f"{self.strategy}: {self.why}",
        }
        if self.rounds:
            told["rounds, at most"] = self.rounds
        told["noise scale of a measured marginal"] = self.scale
        if self.noise_error is not None:
            told["error of a measured marginal by noise alone (total variation)"] = self.noise_error
        return told | {"memory, MB": round(self.memory_mb), "time, seconds": round(self.seconds)}


def expect(design: Design, limit_bytes: int, rows: int) -> SynthesisError:
    wanted, n = design.wanted, design.n
    if not design.rounds:
        units = {frozenset(p.attributes): p.units for p in design.planned}
        spread = design.spread_evenly()
        scales = np.array(
            [scale_for(units[frozenset(names)] + more) for names, more in zip(wanted.sets, spread, strict=True)]
        )
    else:
        if design.accounts is None:
            raise ValueError("rounds have accounts")
        before = _granted_before(design.choice)
        grown = design.accounts.grow((1 - before) / design.choice.rounds)
        able = [grown.affordable(design.limits.charged(names), design.sharing) for names in wanted.sets]
        scales = np.array([scale_for(max(amount, 1)) for amount in able])
    cells, counted = np.array(
        [(wanted.cells(names), design.measured_cells(names)) for names in wanted.sets], np.int64
    ).T
    noise = None
    if n:
        deviations = np.array([np.sqrt(variance_of(float(scale))) for scale in scales])
        noise = float(np.average(np.minimum(1.0, ABSOLUTE * deviations * counted / (2 * n)), weights=wanted.weights))
    return SynthesisError(
        columns=len(wanted.columns),
        marginals=len(wanted.sets),
        workload_cells=int(cells.sum()),
        measured_cells=_measured_cells(design, int(counted.sum())),
        strategy=design.choice.strategy,
        why=design.choice.expected_reason,
        rounds=design.choice.rounds,
        rows=rows,
        scale=float(np.median(scales)),
        noise_error=noise,
        memory_mb=_memory(design, limit_bytes, int(cells.sum()), rows) / 1e6,
        seconds=_seconds(design, limit_bytes) + _row_seconds(design, rows),
    )


def _measured_cells(design: Design, workload_cells: int) -> int:
    planned = sum(design.measured_cells(p.attributes) for p in design.planned)
    again = 0 if design.accounts is None else 1 if design.rounds else design.choice.rounds
    if design.choice.instead:  # whichever is more
        again = 1 + design.choice.instead.rounds
        planned += sum(design.measured_cells(pair) for pair in design.wanted.pairs[0])
    return planned + again * workload_cells


def _model_bytes(design: Design, limit_bytes: int) -> int:
    """The expected memory of the Synthesis model: as large as it is allowed to be, or could ever be."""
    return min(limit_bytes, 8 * math.prod(design.wanted.sizes.values()))


def _memory(design: Design, limit_bytes: int, workload_cells: int, rows: int) -> int:
    counted = int(design.cells.sum()) if design.accounts is not None else workload_cells
    kept = min(MOST_BYTES, 4 * counted)
    counting = 8 * min(2 * AT_ONCE, counted)
    return (
        _BASE_BYTES
        + (_BYTES_A_SET + (_BYTES_COMPARED if design.rounds else 0)) * len(design.wanted.candidates)
        + _BYTES_SHOWN * min(MOST_SHOWN, len(design.wanted.sets))
        + kept
        + counting
        + 16 * _measured_cells(design, workload_cells)
        + _COPIES * _model_bytes(design, limit_bytes)
        + _ANSWER_COPIES * 8 * workload_cells
        + _BYTES_REPAIRED * sum(len(names) * design.wanted.cells(names) for names in design.wanted.sets)
        + _BYTES_A_CODE * rows * len(design.wanted.columns)
    )


def _row_seconds(design: Design, rows: int) -> float:
    """The expected time of sampling and repairing so many rows."""
    looked_at = work(design.wanted.sizes, design.wanted.sets)
    passes = sum(passes_of(rows, looked_at)) + 1
    return rows * (len(design.wanted.columns) * _SECONDS_SAMPLED + passes * looked_at * _SECONDS_LOOKED_AT)


def _seconds(design: Design, limit_bytes: int) -> float:
    """The expected time of a Synthesis run: counting, comparing candidates with the model in every round, fitting,
    publishing."""
    rounds = design.choice.rounds
    fits = 2 + rounds / 2
    counting = design.n * max(1.0, len(design.wanted.candidates) / 100) / _ROWS_A_SECOND
    compared = sum(int(design.cells[list(block.members)].sum()) for blocks in design.rounds for block in blocks)
    answering = _SECONDS_A_ROUND * rounds * _model_bytes(design, limit_bytes) * len(design.wanted.columns)
    measured = len(design.planned) + sum(block.most for blocks in design.rounds for block in blocks)
    fitting = 0.05 + _SECONDS_A_SET * measured + _SECONDS_A_BYTE * _model_bytes(design, limit_bytes) / 2
    published = _SECONDS_PUBLISHED * min(MOST_SHOWN, len(design.wanted.sets))
    return counting + answering + compared / _CELLS_A_SECOND + fits * fitting + published
