"""The exact output distribution of a run, for tiny cases: every pick, every noisy count, every round after it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.mechanisms.synthesis.design import scale_for
from nabladp.mechanisms.synthesis.rounds import Course, Noisy, State, Truth
from nabladp.mechanisms.synthesis.selection import Pick, combined_law
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.noise import gaussian_log_pmf

_ORDER = 8.0  # laws are cut where no Rényi order up to this one could notice
_MOST_AFTER = 2_000


def learned_counts(counts: Integers, n: int) -> Integers:
    """What the model learns of noisy counts: everything. Any function of them would be as private."""
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
        """A pick, and what follows each."""
        grown, strength, selectors = self.course.next_round(state)
        excess = self.course.excess(state, grown, selectors, self.truth)
        chances, then = [], []
        for pick, chance in combined_law(selectors, excess, strength):
            chances.append(chance)
            then.append(self._answers(state, pick))
        return Law((Branch(np.array(chances), np.arange(len(then)), tuple(then)),), _ORDER)

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
        """Every cell's noisy count, each independent of the others."""
        found = []
        for table, scale in zip(self.truth.tables(sets), scales, strict=True):
            low, high = self._window(scale)
            found += [gaussian_log_pmf(scale, low - true, high - true) for true in table.ravel().tolist()]
        return found

    def _window(self, scale: float) -> tuple[int, int]:
        reach = math.ceil(_ORDER + 12 * scale)
        return -reach, self.n + reach

    def _each(
        self,
        sets: Sequence[Names],
        scales: Sequence[float],
        number: int,
        follow: Callable[[list[Noisy]], Law],
    ) -> Law:
        """What the model learns of noisy counts, then the counts themselves beside what follows from it."""
        if not sets:
            return follow([])
        shapes = [self.course.design.wanted.schema.sizes(names) for names in sets]
        cells = iter(self._cells(sets, scales))
        heard = [
            _heard(next(cells), learned_counts(np.arange(low, high + 1), self.n))
            for shape, (low, high) in zip(shapes, map(self._window, scales), strict=True)
            for _ in range(math.prod(shape))
        ]
        if math.prod(map(len, heard)) > _MOST_AFTER:
            raise AuditError("There are too many outcomes to follow up.", fix="Audit one round, with one_way = 0.")
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        chances, then = [], []
        for outcome in itertools.product(*heard):
            parts = np.split(np.array([one.value for one in outcome], dtype=np.int64), ends)
            noisy = [
                Noisy(names, part.reshape(shape), scale, number)
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
    found = []
    for value in np.unique(values).tolist():
        own = law[values == value]
        chance = float(np.logaddexp.reduce(own))
        found.append(_Heard(value, chance, own - chance))
    return found
