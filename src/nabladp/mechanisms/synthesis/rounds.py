"""The course of a run: what is measured first, how rounds choose, what the model learns, what is left at the end.

A state holds public knowledge only. The data enters twice: the distances that selectors score, and the counts
that get noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.synthesis import strategy
from nabladp.mechanisms.synthesis.accounts import Accounts
from nabladp.mechanisms.synthesis.design import (
    AT_ONCE,
    LEAST_UNITS,
    MOST_BYTES,
    AtOnce,
    Design,
    scale_for,
    variance_of,
)
from nabladp.mechanisms.synthesis.groups import Starts, spread_out, summed
from nabladp.mechanisms.synthesis.inference.fitting import fit
from nabladp.mechanisms.synthesis.inference.junction_tree import admit
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Zeros, join_measurements
from nabladp.mechanisms.synthesis.inference.misses import Miss, credible, shares_of
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.mechanisms.synthesis.inference.pooling import pool, subsets, surprises
from nabladp.mechanisms.synthesis.selection import ABSOLUTE, UNABLE, Pick, Selector, distance
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.noise import NoiseSource
from nabladp.privacy.units import UNIT

if TYPE_CHECKING:
    from nabladp.tables import Counts


# ---- true marginals, kept within a limit of bytes --------------------------------------------------------------------


class Truth:
    """The candidates' true counts: counted once where all of them fit, otherwise again whenever they are asked for."""

    def __init__(self, counts: Counts, sizes: Mapping[str, int]) -> None:
        self.counts, self.sizes = counts, sizes
        self._type = np.int32 if counts.n < 1 << 31 else np.int64
        self._kept: dict[Names, NDArray[np.integer]] = {}

    def keep(self, sets: Sequence[Names]) -> None:
        """Count these candidate marginals now if they all fit into memory; each of them is asked for many times."""
        if sum(map(self._cells, sets)) * np.dtype(self._type).itemsize <= MOST_BYTES:
            for chunk in self.chunks(sets):
                for names, table in zip(chunk, self.counts.marginals(chunk), strict=True):
                    self._kept[names] = table.astype(self._type)

    def tables(self, sets: Sequence[Names]) -> list[Integers]:
        """The exact counts of these candidate marginals, which must be few enough to hold."""
        missing = [names for names in sets if names not in self._kept]
        counted = dict(zip(missing, self.counts.marginals(missing), strict=True)) if missing else {}
        return [counted[names] if names in counted else self._kept[names].astype(np.int64) for names in sets]

    def chunks(self, sets: Sequence[Names]) -> Iterator[list[Names]]:
        """Candidate marginals in pieces that one pass over the rows can count."""
        chunk: list[Names] = []
        held = 0
        for names in sets:
            cells = self._cells(names)
            if chunk and held + cells > AT_ONCE:
                yield chunk
                chunk, held = [], 0
            chunk.append(names)
            held += cells
        if chunk:
            yield chunk

    def _cells(self, names: Names) -> int:
        return math.prod(self.sizes[name] for name in names)


# ---- rounds ----------------------------------------------------------------------------------------------------------

END_CLOSE = 0.1  # the last fit comes so near to its optimum, in deviations of the noise


@dataclass(frozen=True, eq=False)
class Noisy:
    """One marginal with noise: signed counts, the scale of the noise, the round (0: before anything was chosen)."""

    attributes: Names
    counts: Integers
    scale: float
    round: int
    surprise: tuple[Miss, ...] = ()  # how far the model was from it when it came
    starts: Starts = ()  # of the groups whose rows were counted, by axis

    @property
    def expected(self) -> float:
        """The expected sum of the absolute noise on a measured marginal."""
        return ABSOLUTE * math.sqrt(variance_of(self.scale)) * self.counts.size


def measurements(noisy: Sequence[Noisy]) -> list[Measurement]:
    """What models are fitted to: noisy counts, those of groups spread over the values as in the columns by
    themselves."""
    alone = {m.attributes[0]: m.counts for m in reversed(noisy) if len(m.attributes) == 1}
    return [_measurement(m, alone) for m in noisy]


def _measurement(m: Noisy, alone: Mapping[str, Integers]) -> Measurement:
    counts, deviation = m.counts.astype(np.float64), math.sqrt(variance_of(m.scale))
    if m.starts:
        counts = spread_out(
            counts, m.starts, [alone[n] if own else None for n, own in zip(m.attributes, m.starts, strict=True)]
        )
        deviation *= m.counts.size / counts.size  # a group's noise is spread over its values as well
    axes = zip(m.attributes, counts.shape, m.starts or ((),) * counts.ndim, strict=True)
    lengths = {name: size / len(own) for name, size, own in axes if own}
    return Measurement(m.attributes, counts, deviation**2, m.surprise, lengths)


def answers(model: Model, noisy: Sequence[Noisy], sets: Sequence[Names]) -> list[Floats]:
    """Answers between rounds, from the model and direct counts together: what the model cannot hold would look unknown
    for ever."""
    return [pooled.values for pooled in pool(model, measurements(noisy), sets)]


def with_surprise(model: Model, before: Sequence[Noisy], noisy: Sequence[Noisy]) -> list[Noisy]:
    """New measurements with the distance of the model before them, which shows what it knows of the others."""
    known = {part for m in before for part in subsets(sorted(m.attributes))}
    each = surprises(model, known, measurements([*before, *noisy])[len(before) :])
    return [replace(m, surprise=own) for m, own in zip(noisy, each, strict=True)]


def surprising(noisy: Sequence[Noisy]) -> set[Names]:
    """The sets whose measurements said more than noise would: what the model is told of. It would take the others'
    noise for truth; answers shrink them instead."""
    results: set[Names] = set()
    for width in range(2, 1 + max((len(m.surprise) for m in noisy), default=0)):
        new = [m for m in noisy if len(m.surprise) >= width and m.surprise[width - 1].freedom]
        if new:
            misses = [m.surprise[width - 1] for m in new]
            shares = credible(misses, shares_of(misses))
            results |= {m.attributes for m, share in zip(new, shares, strict=True) if share >= strategy.SURE}
    return results


@dataclass(frozen=True, eq=False)
class State:
    """What is known between two rounds, all of it from published numbers."""

    model: Model
    measured: tuple[Noisy, ...]
    accounts: Accounts | None
    choice: strategy.Choice
    worth: Mapping[Names, float] = field(default_factory=dict)  # by how much each set surprised the model
    before: Mapping[int, tuple[Model, int]] = field(default_factory=dict)  # by width: that model, and what it knew
    coming: tuple[AtOnce, ...] = ()  # what is measured at once before rounds begin
    granted: Fraction = Fraction(0)  # the part of the accounts that comes before rounds
    done: int = 0  # of the planned rounds
    step: int = 1  # how many of them the next one takes
    number: int = 0  # rounds made, and measurements at once
    at_once: int = 0  # the last of these that was one

    @property
    def chosen(self) -> list[Names]:
        """The marginals that rounds have measured so far."""
        return list(dict.fromkeys(m.attributes for m in self.measured if m.round > self.at_once))

    def grow(self, rounds: int) -> Accounts:
        """The accounts once so many more rounds are granted."""
        if self.accounts is None:
            raise ValueError("this course has no rounds")
        part = Fraction(self.done + rounds, self.choice.rounds)
        return self.accounts.grow(self.granted + (1 - self.granted) * part)


class Course:
    def __init__(self, design: Design, limit_bytes: int, zeros: Sequence[Zeros] = (), back_end: str = "own") -> None:
        self.design, self.limit_bytes, self.zeros, self.back_end = design, limit_bytes, tuple(zeros), back_end

    # ---- what happens, in order -----------------------------------------------------------------------------------

    def run(self, truth: Truth, noise: NoiseSource, progress: Callable[[int, int], None]) -> State:
        design = self.design
        planned = [p.attributes for p in design.planned]
        if design.accounts is not None:
            later = design.wanted.candidates if design.rounds else design.wanted.sets
            truth.keep(list(dict.fromkeys([*planned, *later])))
        state = self.start(self._measure(truth, planned, [p.scale for p in design.planned], 0, noise))
        if design.accounts is None:
            return state
        while state.coming:
            state = self._measure_at_once(state, truth, noise)
        step = self._choose_and_measure if state.choice.picks else self._measure_again
        while not self.over(state):
            state = step(state, truth, noise)
            progress(state.done, state.choice.rounds)
        if not state.choice.picks:
            return state
        sets, units = self.leftovers(state.accounts, state.chosen)
        noisy = self._measure(truth, sets, [scale_for(u) for u in units], state.number + 1, noise)
        return self.finish(state, noisy)

    def _choose_and_measure(self, state: State, truth: Truth, noise: NoiseSource) -> State:
        grown, strength, selectors = self.next_round(state)
        excess = self.excess(state, grown, selectors, truth)
        pick = tuple(sorted(c for s in selectors for c in s.draw(excess, strength, noise)))
        units = self.units(grown, pick)
        sets = [self.design.wanted.candidates[c] for c in pick]
        noisy = self._measure(truth, sets, [scale_for(u) for u in units], state.number + 1, noise)  # [answers]
        return self.after(state, grown, pick, units, noisy)

    def _measure_at_once(self, state: State, truth: Truth, noise: NoiseSource) -> State:
        paid, sets, units = self.together(state)
        noisy = self._measure(truth, sets, [scale_for(u) for u in units], state.number + 1, noise)
        return self.after_together(state, paid, noisy)

    def _measure_again(self, state: State, truth: Truth, noise: NoiseSource) -> State:
        paid, sets, units = self.again(state)
        noisy = self._measure(truth, sets, [scale_for(u) for u in units], state.number + 1, noise)
        return self.after_again(state, paid, noisy)

    def _measure(
        self, truth: Truth, sets: Sequence[Names], scales: Sequence[float], number: int, noise: NoiseSource
    ) -> list[Noisy]:
        """Measure marginals: fresh noise on every cell of every table, each of its own scale; a set may be measured
        twice."""
        tables = (table for chunk in truth.chunks(sets) for table in self.tables(truth, chunk))
        noisy = (
            t + noise.discrete_gaussian(scale, t.shape) for t, scale in zip(tables, scales, strict=True)
        )  # [noise]
        return [
            Noisy(names, counts, scale, number, starts=self._starts(names))
            for names, counts, scale in zip(sets, noisy, scales, strict=True)
        ]

    def tables(self, truth: Truth, sets: Sequence[Names]) -> list[Integers]:
        """The exact counts that measurements of these marginals get noise on."""
        return [summed(t, self._starts(names)) for names, t in zip(sets, truth.tables(sets), strict=True)]

    def _starts(self, names: Names) -> Starts:
        return self.design.groups.of(names)

    # ---- at first -------------------------------------------------------------------------------------------------

    def start(self, noisy: Sequence[Noisy]) -> State:
        """Single columns first; then pairs, then larger marginals, each by how much it surprises the model so far."""
        first = {frozenset(names) for names in self.design.wanted.first}
        measured = tuple(m for m in noisy if frozenset(m.attributes) in first)
        later, over = [m for m in noisy if frozenset(m.attributes) not in first], self.design.accounts is None
        model = self._fit(measured, {}, None, last=over and not later)
        state = self._learn(State(model, measured, self.design.accounts, self.design.choice), later, last=over)
        return self._decide(state)

    def _learn(self, state: State, noisy: Sequence[Noisy], *, last: bool = False) -> State:
        """The model with marginals that were measured at once: smaller ones first."""
        model, worth, measured, before = state.model, state.worth, state.measured, dict(state.before)
        widths = sorted({len(m.attributes) for m in noisy})
        for width in widths:
            before[width] = model, len(measured)
            new = with_surprise(model, measured, [m for m in noisy if len(m.attributes) == width])
            worth, measured = self._surprise(worth, model, new), (*measured, *new)
            model = self._fit(measured, worth, model, picked=state.choice.picks, last=last and width == widths[-1])
        return replace(state, model=model, worth=worth, measured=measured, before=before)

    def _decide(self, state: State) -> State:
        """Which of two choices it will be, where there are two: a function of the single columns that were released."""
        instead = self.design.choice.instead
        if instead is None:
            return state
        filled = self.filled_cells(state.model)
        choice = instead if filled <= self.design.choice.few_cells else self.design.choice.confirm()  # [decided]
        coming = self.design.at_once(choice)
        return replace(state, choice=choice, coming=coming, granted=coming[-1].granted if coming else Fraction(0))

    def filled_cells(self, model: Model) -> float:
        """How many cells of the marginal in the middle rows fill: as many as one has that is as uncertain, if all cells
        of it were alike."""
        columns = self.design.wanted.columns
        tables = model.marginals([(name,) for name in columns])
        uncertain = {name: _entropy(table) for name, table in zip(columns, tables, strict=True)}
        return math.exp(float(np.median([sum(uncertain[name] for name in names) for names in self.design.wanted.sets])))

    # ---- at once, once that is decided ----------------------------------------------------------------------------

    def together(self, state: State) -> tuple[Accounts, list[Names], list[int]]:
        """The accounts once marginals that are measured at once are paid, these marginals, and what for each."""
        if state.accounts is None:
            raise ValueError("this course has no accounts")
        now = state.coming[0]
        grown = state.accounts.grow(now.granted)
        return self._pay_for(grown, now.sets, grown.saved_limits().divided(now.sets, now.shares))

    def after_together(self, state: State, paid: Accounts, noisy: Sequence[Noisy]) -> State:
        number = state.number + 1
        state = replace(state, accounts=paid, coming=state.coming[1:], number=number, at_once=number)
        return self._learn(state, noisy)

    # ---- before a round -------------------------------------------------------------------------------------------

    def over(self, state: State) -> bool:
        return state.done >= state.choice.rounds

    def is_last(self, state: State) -> bool:
        return state.done + self._take(state) >= state.choice.rounds

    def next_round(self, state: State) -> tuple[Accounts, int, list[Selector]]:
        """The next Synthesis round: the accounts as they stand, how strongly it picks, and its blocks."""
        take = self._take(state)
        grown = state.grow(take)
        strength = math.isqrt(take) if self.design.one_block else 1  # [strength]: strength² picks are paid for
        return grown, strength, self.design.selectors(state.done)

    def _take(self, state: State) -> int:
        left = state.choice.rounds - state.done
        return left if left < 2 * state.step else state.step

    def excess(self, state: State, grown: Accounts, selectors: Sequence[Selector], truth: Truth) -> Integers:
        """For every candidate marginal of the round: the model's error beyond what noise would explain, on the grid."""
        design, explained = self.design, self.explained(grown, selectors)
        result = np.full(len(design.wanted.candidates), UNABLE, np.int64)
        number_of = {design.wanted.candidates[c]: c for c in sorted(explained)}
        for chunk in truth.chunks(list(number_of)):
            guesses = answers(state.model, state.measured, chunk)
            for names, table, guess in zip(chunk, self.tables(truth, chunk), guesses, strict=True):
                own = distance(table, summed(guess, self._starts(names)))
                result[number_of[names]] = own - explained[number_of[names]]
        return result

    def explained(self, grown: Accounts, selectors: Sequence[Selector]) -> dict[int, int]:
        """For every affordable candidate marginal of the round: the error that noise would explain, on the grid."""
        design = self.design
        results: dict[int, int] = {}
        for c in {int(c) for selector in selectors for c in selector.members}:
            units = grown.affordable(design.keys[c], design.sharing)
            if units >= LEAST_UNITS:
                noise = ABSOLUTE * scale_for(units) * float(design.cells[c])
                results[c] = round(noise * strategy.GRID)  # [explained]
        return results

    def units(self, grown: Accounts, pick: Pick) -> list[int]:
        """The cost of each marginal of a pick: all that its accounts have saved, shared where several need one."""
        sharing = Counter(key for c in pick for key in self.design.keys[c])
        return [grown.affordable(self.design.keys[c], sharing) for c in pick]

    # ---- after a measurement --------------------------------------------------------------------------------------

    def paid(self, grown: Accounts, pick: Pick, units: Sequence[int]) -> Accounts:
        for c, amount in zip(pick, units, strict=True):
            grown = grown.pay(self.design.keys[c], amount)
        return grown

    def after(self, state: State, grown: Accounts, pick: Pick, units: Sequence[int], noisy: Sequence[Noisy]) -> State:
        noisy = with_surprise(state.model, state.measured, noisy)
        measured = (*state.measured, *noisy)
        worth = self._surprise(state.worth, state.model, noisy)
        sets = [m.attributes for m in noisy]
        model = self._fit(measured, worth, state.model, picked=True) if noisy else state.model
        before, now = answers(state.model, state.measured, sets), answers(model, measured, sets)
        moved = sum(float(np.abs(summed(a - b, m.starts)).sum()) for a, b, m in zip(before, now, noisy, strict=True))
        taught = moved > sum(m.expected for m in noisy)
        return replace(
            state,
            model=model,
            measured=measured,
            accounts=self.paid(grown, pick, units),
            worth=worth,
            done=state.done + self._take(state),
            step=state.step if taught else state.step * strategy.FASTER,
            number=state.number + 1,
        )

    # ---- measuring again ------------------------------------------------------------------------------------------

    def again(self, state: State) -> tuple[Accounts, list[Names], list[int]]:
        """A round that measures marginals of the workload again: the accounts once it is paid, these marginals, and
        what for each."""
        sets, grown = self.design.wanted.sets, state.grow(1)
        left = grown.saved_limits()
        even = sum(left.divided(sets, [Fraction(1)] * len(sets)))
        shares = self.shares_again(state, even / UNIT)
        weights = [Fraction(round(strategy.FINE_AGAIN * share)) for share in shares.tolist()]
        units = left.divided(sets, weights)  # [again]
        return self._pay_for(grown, sets, units)

    def shares_again(self, state: State, total: float) -> Floats:
        """Halfway (their geometric mean) between shares in proportion to the expected errors of answers and those with
        which so much ρ in all would lower these errors most. The latter lower them further if expectations are right;
        the former depend on these less."""
        wanted, weights = self.design.wanted, np.array(self.design.wanted.weights)
        weights /= weights.max()
        errors = self.expected_errors(state)
        errors = np.maximum(errors, max(1e-9 * float(errors.max()), 1e-12))
        cells = np.array([self.design.measured_cells(names) for names in wanted.sets])
        noise = ABSOLUTE * cells / (2 * max(self.design.n, 1))  # the error of a measurement that costs ρ = 1
        shares = [errors * weights, least_error(errors, noise, weights, total)]
        floored = [np.maximum(each / max(float(each.mean()), 1e-300), strategy.LEAST_AGAIN) for each in shares]
        return np.asarray(np.sqrt(floored[0] * floored[1]))

    def expected_errors(self, state: State) -> Floats:
        """For every marginal of the workload, the expected error of its answer as things stand."""
        known = measurements(state.measured)
        return np.array([answer.error for answer in pool(state.model, known, self.design.wanted.sets)])

    def after_again(self, state: State, paid: Accounts, noisy: Sequence[Noisy]) -> State:
        state = replace(state, measured=(*state.measured, *noisy))
        if state.choice.looks_again:
            state = self._compare_again(state)
        model = self._fit(state.measured, state.worth, state.model, last=self.is_last(state))
        return replace(state, model=model, accounts=paid, done=state.done + 1, number=state.number + 1)

    def _compare_again(self, state: State) -> State:
        """How far models were from what was measured at once, by all measurements of it so far: it says more surely
        what the model should be told."""
        measured, worth, tables = list(state.measured), dict(state.worth), measurements(state.measured)
        for width, (model, count) in state.before.items():
            places: dict[Names, list[int]] = {}
            for i in range(count, len(measured)):
                if len(measured[i].attributes) == width:
                    places.setdefault(measured[i].attributes, []).append(i)
            known = {part for m in measured[:count] for part in subsets(sorted(m.attributes))}
            together = [join_measurements([tables[i] for i in own]) for own in places.values()]
            guesses = model.marginals(list(places))
            found = zip(places.items(), together, surprises(model, known, together), guesses, strict=True)
            for (names, own), table, surprise, guess in found:
                measured[own[0]] = replace(measured[own[0]], surprise=surprise)
                noise = ABSOLUTE * math.sqrt(table.variance) * table.values.size
                worth[names] = float(np.abs(table.values - guess).sum()) - noise
        return replace(state, measured=tuple(measured), worth=worth)

    def _pay_for(
        self, accounts: Accounts, sets: Sequence[Names], units: Sequence[int]
    ) -> tuple[Accounts, list[Names], list[int]]:
        """The accounts once marginals are paid, and these: those that get enough to be measured at all."""
        kept = [(names, amount) for names, amount in zip(sets, units, strict=True) if amount >= LEAST_UNITS]
        for names, amount in kept:
            accounts = accounts.pay(self.design.limits.charged(names), amount)
        return accounts, [names for names, _ in kept], [amount for _, amount in kept]

    def leftovers(self, accounts: Accounts | None, chosen: Sequence[Names]) -> tuple[list[Names], list[int]]:
        """The marginals measured once more at the end, with all that is still unspent: those that rounds measured."""
        if accounts is None:
            return [], []
        units = accounts.left().divided(chosen, [Fraction(1)] * len(chosen))
        _, kept, amounts = self._pay_for(accounts.grow(Fraction(1)), chosen, units)
        return kept, amounts

    def finish(self, state: State, noisy: Sequence[Noisy]) -> State:
        measured = (*state.measured, *noisy)
        return replace(
            state, model=self._fit(measured, state.worth, state.model, picked=True, last=True), measured=measured
        )

    def _surprise(self, known: Mapping[Names, float], model: Model, noisy: Sequence[Noisy]) -> dict[Names, float]:
        results = dict(known)
        for m, guess in zip(noisy, model.marginals([m.attributes for m in noisy]), strict=True):
            gain = float(np.abs(m.counts - summed(guess, m.starts)).sum()) - m.expected
            results[m.attributes] = max(gain, results.get(m.attributes, -math.inf))
        return results

    def _claim(self, worth: Mapping[Names, float], picked: bool) -> Callable[[Names], float]:
        """The worth of a marginal for entering the model first: large tables take the room of several others.

        Rounds have picked by weight already."""
        wanted = self.design.wanted
        weights = {} if picked else dict(zip(wanted.sets, wanted.weights, strict=True))
        return lambda names: -worth[names] * weights.get(names, 1.0) / wanted.cells(names) ** strategy.ROOM

    def _fit(
        self,
        noisy: Sequence[Noisy],
        worth: Mapping[Names, float],
        warm: Model | None,
        *,
        picked: bool = False,
        last: bool = False,
    ) -> Model:
        """Fit the model between rounds: measured marginals of most worth enter while they fit; all of them are pooled
        later."""
        sizes = self.design.wanted.sizes
        sure = surprising(noisy)
        ordered = [*sorted(worth.keys() & sure, key=self._claim(worth, picked)), *self.design.wanted.first]
        held = admit(sizes, ordered, self.limit_bytes, always=[zero.attributes for zero in self.zeros])
        return fit(  # [post-processing]
            sizes,
            float(self.design.n),
            measurements(noisy),
            cliques=held,
            limit_bytes=self.limit_bytes,
            warm=warm,
            zeros=self.zeros,
            back_end=self.back_end if last else "own",
            close=END_CLOSE if last else strategy.CLOSE,
        )


def least_error(errors: Floats, noise: Floats, weights: Floats, total: float) -> Floats:
    """How to divide a total of ρ among answers so that the sum of their weighted errors is least, where ρ turns an
    error e into (e⁻² + ρ/noise²)^(−1/2): what all would gain from a little more is the same, and who gains less than
    that from the first bit gets nothing."""

    def divided(gain: float) -> Floats:
        return noise**2 * np.maximum((2 * gain * noise**2 / weights) ** (-2 / 3) - errors**-2.0, 0)

    low, high = -600.0, 600.0  # logarithms of the gain
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if divided(math.exp(middle)).sum() > total else (low, middle)
    return divided(math.exp(low))


def _entropy(counts: Floats) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float((shares * np.log(shares)).sum())
