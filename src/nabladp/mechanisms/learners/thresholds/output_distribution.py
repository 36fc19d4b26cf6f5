"""The exact law of a run, for tiny cases: the number of ones, then the cut, then the lists, then the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms.heavy_hitters.output_distribution import (
    MOST_OUTCOMES,
    String,
    TreeLaw,
    lists_below,
    subsets,
)
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.mechanisms.learners.thresholds.search import (
    candidate_thresholds,
    log_tails,
    mistakes,
    polarization,
    search_law,
    selection_law,
)
from nabladp.mechanisms.mechanism import Branch, Law, Scenario, ValueLaw
from nabladp.noise import gaussian_log_pmf, laplace_log_pmf

if TYPE_CHECKING:
    from nabladp.tables import Counts

_AUDIT_ORDER = 16.0


@dataclass(frozen=True)
class RunLaw:
    """Every step is a branch: what it shows decides what comes next."""

    design: Design
    names: tuple[str, ...]
    label: str
    counts: Counts

    def law(self) -> Law:
        if math.prod(self.design.sizes) > MOST_OUTCOMES:
            raise AuditError(
                "There are too many thresholds for their exact output distribution.", fix="Audit fewer features."
            )
        if not self.design.many:
            return self._choice(0, np.empty((1, 0), np.int64))
        n, few = self.counts.n, self.design.few
        low, high = ones_window(self.design, n)
        ones = int(self.counts.marginals([(self.label,)])[0][1])
        shown = np.arange(low, high + 1)
        which = np.where(shown <= few, 0, np.where(n - shown <= few, 1, 2))
        told = Branch(self._log_chances_of_ones(low - ones, high - ones), which, (Law(()), Law(()), self._cut_law()))
        return Law((told,), math.inf if self.design.notion == "pure" else _AUDIT_ORDER)

    def _log_chances_of_ones(self, low: int, high: int) -> Floats:
        scale = self.design.ones_scale
        if self.design.notion != "pure":
            return gaussian_log_pmf(scale, low, high)
        law = laplace_log_pmf(scale, low, high)
        law[0], law[-1] = log_tails("pure", scale, low + 1)[1], log_tails("pure", scale, high)[0]
        return law

    def _cut_law(self) -> Law:
        chances = search_law(self.design, polarization(self.counts, self.names, self.label, self.design))
        return Law((Branch(chances, np.arange(len(chances)), tuple(map(self._law_of_lists, range(len(chances))))),))

    def _law_of_lists(self, cut_index: int) -> Law:
        names = self.names[: self.design.cuts[cut_index]]
        if not names:
            return self._choice(cut_index, np.empty((1, 0), np.int64))
        table = self.counts.marginals([names])[0]
        return _Lists(self.design.lists_up_to(cut_index), table, self.counts.n, False, self, cut_index).law(0, {})

    def _choice(self, cut_index: int, prefixes: Integers) -> Law:
        thresholds = np.ravel_multi_index(
            tuple(candidate_thresholds(self.design, cut_index, prefixes).T), self.design.sizes
        )
        return Law((selection_law(-self._mistakes[thresholds], self.design.select_scale),))

    @cached_property
    def _mistakes(self) -> Integers:
        """The mistakes of every possible threshold, in order."""
        strings = np.stack(np.unravel_index(np.arange(math.prod(self.design.sizes)), self.design.sizes), axis=1)
        return mistakes(self.counts, self.names, self.label, strings.astype(np.uint32))


@dataclass(frozen=True)
class _Lists(TreeLaw):
    """The tree's law, which goes on to the choice of a threshold once the root's list is known."""

    run: RunLaw
    cut_index: int

    def _root(self, candidates: Sequence[String], tests: Sequence[tuple[float, float]]) -> Law:
        if 1 << len(candidates) > MOST_OUTCOMES:
            raise AuditError("A list has too many outcomes to enumerate.", fix="Audit fewer attributes or values.")
        length = self.run.design.cuts[self.cut_index]
        chances, then = [], []
        for passed, chance in subsets(candidates, tests):
            chances.append(chance)
            then.append(self.run._choice(self.cut_index, np.array(passed, np.int64).reshape(-1, length)))
        return Law((Branch(np.array(chances), np.arange(len(then)), tuple(then)),))


# ---- what a model shows of it ----------------------------------------------------------------------------------------


def ones_window(design: Design, n: int) -> tuple[int, int]:
    """The range of noisy counts of ones in ThresholdLearner's exact law. Pure: whatever lies beyond has the ends' ratio
    and sequel."""
    reach = math.ceil(_AUDIT_ORDER + 14 * design.ones_scale)
    return (min(-1, design.few), max(n + 1, n - design.few)) if design.notion == "pure" else (-reach, n + reach)


def published_scenarios(design: Design, law: Law, n: int) -> Iterator[Scenario]:
    """The scenarios of ThresholdLearner's published numbers: count of ones, prefix length, threshold; the lists are not
    published."""
    if not design.many:
        yield Scenario(0.0, {"threshold": _threshold(design, [(0.0, 0, _NO_PREFIX, law)])})
        return
    told, low = law.branch(), ones_window(design, n)[0]
    for sequel, then in enumerate(told.then):
        own = np.where(told.which == sequel, told.outcomes, -np.inf)
        chance = float(np.logaddexp.reduce(own))
        if chance == -math.inf:
            continue
        ones = ValueLaw(low, own - chance)
        if sequel < 2:  # too few ones: the largest threshold; too few zeros: the smallest
            trivial = ValueLaw.certain(0 if sequel else math.prod(design.sizes) - 1)
            yield Scenario(chance, {"ones": ones, "threshold": trivial})
        else:
            for cut_index, result, after in then.branch().possible():
                threshold = _threshold(design, _choices(design, cut_index, after))
                prefix = ValueLaw.certain(design.cuts[cut_index])
                yield Scenario(chance + result, {"ones": ones, "prefix": prefix, "threshold": threshold})


_NO_PREFIX = np.empty((1, 0), np.int64)
_Choice = tuple[float, int, Integers, Law]  # log-probability, index of the cut, listed prefixes, law of the threshold


def _choices(design: Design, cut_index: int, law: Law) -> Iterator[_Choice]:
    length = design.cuts[cut_index]
    if not length:
        yield 0.0, cut_index, _NO_PREFIX, law
        return
    for below, _, candidates, root in lists_below(design.lists_up_to(cut_index).tree, law):
        passing = [passed for passed, _ in subsets(candidates, [(0.0, 0.0)] * len(candidates))]
        for outcome, chance, then in root.branch().possible():
            yield below + chance, cut_index, np.array(passing[outcome], np.int64).reshape(-1, length), then


def _threshold(design: Design, choices: Iterable[_Choice]) -> ValueLaw:
    """The law of the published threshold's number among all strings, whatever was listed."""
    total = np.full(math.prod(design.sizes), -np.inf)
    for chance, cut_index, prefixes, law in choices:
        numbers = np.ravel_multi_index(tuple(candidate_thresholds(design, cut_index, prefixes).T), design.sizes)
        (own,) = law.arrays()
        total[numbers] = np.logaddexp(total[numbers], chance + own)
    return ValueLaw(0, total)
