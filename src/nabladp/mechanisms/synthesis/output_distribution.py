"""The exact output distribution of a run, for tiny cases: every pick, every noisy count, every round after it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms.mechanism import Branch, Law, Scenario, ValueLaw
from nabladp.mechanisms.synthesis.design import scale_for
from nabladp.mechanisms.synthesis.rounds import Course, Noisy, State, Truth
from nabladp.mechanisms.synthesis.selection import UNABLE, Pick, combined_law
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.noise import gaussian_log_pmf

_ORDER = 8.0  # laws are cut where no Rényi order up to this one could notice
_MOST_AFTER = 2_000


def learned_counts(counts: Integers, n: int) -> Integers:
    """What the Synthesis model learns of noisy counts in the exact law: everything. Any function of them would be as
    private."""
    return counts


class OutputDistribution:
    def __init__(self, course: Course, truth: Truth) -> None:
        self.course, self.truth, self.n = course, truth, course.design.n

    def whole(self) -> Law:
        planned = self.course.design.planned
        sets, scales = [p.attributes for p in planned], [p.scale for p in planned]
        if self.course.design.accounts is None:
            return Law(tuple(self._cells(sets, scales)), _ORDER)
        return self._each(sets, scales, 0, lambda noisy: self._round(self.course.start(noisy)))

    def _round(self, state: State) -> Law:
        """The exact law of a Synthesis round: a pick, and what follows each."""
        if state.coming:
            return self._together(state)
        if not state.choice.picks:
            return self._again(state)
        grown, strength, selectors = self.course.next_round(state)
        excess = self.course.excess(state, grown, selectors, self.truth)
        chances, then = [], []
        for pick, chance in combined_law(selectors, excess, strength):
            chances.append(chance)
            then.append(self._answers(state, pick))
        return Law((Branch(np.array(chances), np.arange(len(then)), tuple(then)),), _ORDER)

    def _together(self, state: State) -> Law:
        """The exact law of marginals that are measured at once after single columns have decided it."""
        paid, sets, units = self.course.together(state)
        scales = [scale_for(amount) for amount in units]
        return self._each(
            sets,
            scales,
            state.number + 1,
            lambda noisy: self._round(self.course.after_together(state, paid, noisy)),
        )

    def _again(self, state: State) -> Law:
        """The exact law of a round that measures marginals again: which, and with how much noise, is no secret."""
        paid, sets, units = self.course.again(state)
        scales = [scale_for(amount) for amount in units]
        if self.course.is_last(state):
            return Law(tuple(self._cells(sets, scales)), _ORDER)
        return self._each(
            sets,
            scales,
            state.number + 1,
            lambda noisy: self._round(self.course.after_again(state, paid, noisy)),
        )

    def _answers(self, state: State, pick: Pick) -> Law:
        grown = self.course.next_round(state)[0]
        units = self.course.units(grown, pick)
        sets, scales = [self.course.design.wanted.candidates[c] for c in pick], [scale_for(u) for u in units]
        if self.course.is_last(state):  # what is left over depends on the picks alone
            chosen = list(dict.fromkeys([*state.chosen, *sets]))
            more, amounts = self.course.leftovers(self.course.paid(grown, pick, units), chosen)
            return Law(tuple(self._cells([*sets, *more], [*scales, *map(scale_for, amounts)])), _ORDER)
        return self._each(
            sets,
            scales,
            state.number + 1,
            lambda noisy: self._round(self.course.after(state, grown, pick, units, noisy)),
        )

    def _cells(self, sets: Sequence[Names], scales: Sequence[float]) -> list[Floats]:
        """The law of every noisy cell count of the measured marginals, each independent of the others."""
        results = []
        for table, scale in zip(self.course.tables(self.truth, sets), scales, strict=True):
            low, high = self._window(scale)
            results += [gaussian_log_pmf(scale, low - true, high - true) for true in table.ravel().tolist()]
        return results

    def _window(self, scale: float) -> tuple[int, int]:
        return window(scale, self.n)

    def _each(
        self,
        sets: Sequence[Names],
        scales: Sequence[float],
        number: int,
        follow: Callable[[list[Noisy]], Law],
    ) -> Law:
        """The law of what the model learns of noisy counts, then of the counts themselves beside what follows from
        it."""
        if not sets:
            return follow([])
        design = self.course.design
        shapes = [design.groups.shape(names, design.wanted.sizes) for names in sets]
        cells = iter(self._cells(sets, scales))
        heard = [
            _heard(next(cells), learned_counts(np.arange(low, high + 1), self.n))
            for shape, (low, high) in zip(shapes, map(self._window, scales), strict=True)
            for _ in range(math.prod(shape))
        ]
        total = math.prod(map(len, heard))
        if total > _MOST_AFTER:
            raise AuditError(
                "There are too many outcomes to follow up.",
                fix='Audit one round of "packed" or "single" with one_way = 0, or strategy = "all".',
            )
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        chances, then = [], list[Law]()
        for outcome in itertools.product(*heard):
            self.truth.counts.working("law, outcome", len(then), total)
            parts = np.split(np.array([one.value for one in outcome], dtype=np.int64), ends)
            noisy = [
                Noisy(names, part.reshape(shape), scale, number, starts=design.groups.of(names))
                for names, part, shape, scale in zip(sets, parts, shapes, scales, strict=True)
            ]
            chances.append(math.fsum(one.chance for one in outcome))
            then.append(Law((*(one.inside for one in outcome), *follow(noisy).parts), _ORDER))
        return Law((Branch(np.array(chances), np.arange(len(then)), tuple(then)),), _ORDER)


@dataclass(frozen=True, eq=False)
class _Heard:
    """One thing that the model may learn of a count: its log probability, and the count's law given that."""

    value: int
    chance: float
    inside: Floats


def _heard(law: Floats, values: Integers) -> list[_Heard]:
    results = []
    for value in np.unique(values).tolist():
        own = law[values == value]
        chance = float(np.logaddexp.reduce(own))
        results.append(_Heard(value, chance, own - chance))
    return results


def window(scale: float, n: int) -> tuple[int, int]:
    """The range of noisy counts that the exact law distinguishes."""
    reach = math.ceil(_ORDER + 12 * scale)
    return -reach, n + reach


# ---- what a model shows of it ----------------------------------------------------------------------------------------

Measured = tuple[int, Names, float]  # round, attributes, scale of the noise


def published_scenarios(course: Course, law: Law) -> Iterator[Scenario]:
    """The scenarios of Synthesis's published numbers: the noisy counts of planned marginals, and of one round's
    picks."""
    design = course.design
    planned = [(0, p.attributes, p.scale) for p in design.planned]
    if design.accounts is None:
        yield Scenario(0.0, _cell_laws(course, planned, law))
        return
    state = course.start([])
    if planned or not course.is_last(state):
        raise AuditError(
            "Published counts are known for one round that picks, without planned tables.",
            fix='Set strategy = "packed" or "single", rounds = 1 and one_way = 0; or strategy = "all".',
        )
    grown, strength, selectors = course.next_round(state)
    able = np.full(len(design.wanted.candidates), UNABLE, np.int64)
    able[list(course.explained(grown, selectors))] = 0  # who can be paid decides which picks there are
    picks = [pick for pick, _ in combined_law(selectors, able, strength)]
    for outcome, chance, then in law.branch().possible():
        units = course.units(grown, picks[outcome])
        sets = [design.wanted.candidates[c] for c in picks[outcome]]
        more, amounts = course.leftovers(course.paid(grown, picks[outcome], units), list(dict.fromkeys(sets)))
        measured = [(1, names, scale_for(u)) for names, u in zip(sets, units, strict=True)]
        measured += [(2, names, scale_for(u)) for names, u in zip(more, amounts, strict=True)]
        yield Scenario(chance, _cell_laws(course, measured, then))


def _cell_laws(course: Course, measured: Sequence[Measured], law: Law) -> dict[Hashable, ValueLaw]:
    """The laws of noisy cell counts, by the names of :func:`cell_names`, from parts in the same order."""
    design, n = course.design, course.design.n
    names = cell_names([(number, own, design.measured_cells(own)) for number, own, _ in measured])
    lows = [window(scale, n)[0] for _, own, scale in measured for _ in range(design.measured_cells(own))]
    laws = zip(names, lows, law.arrays(), strict=True)
    return {name: ValueLaw(low, part) for name, low, part in laws}


def cell_names(tables: Sequence[tuple[int, Names, int]]) -> list[Hashable]:
    """The name of every measured cell: round, attributes, which of that round's tables of these attributes, and which
    cell."""
    met: Counter[tuple[int, Names]] = Counter()
    results: list[Hashable] = []
    for number, attributes, cells in tables:
        met[number, attributes] += 1
        results += [(number, attributes, met[number, attributes], cell) for cell in range(cells)]
    return results
