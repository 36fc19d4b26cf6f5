"""What a run needs, all of it known before data is read; and, for tiny cases, the exact law of what it releases."""

from __future__ import annotations

import itertools
import math

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.mechanisms.mwem.rounds import Rounds
from nabladp.mechanisms.mwem.selection import Scores, Selector
from nabladp.mechanisms.mwem.updates import Update
from nabladp.mechanisms.scales import least_scale
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.workloads import Queries
from nabladp.workloads.cube import Cube

_SMALLEST_SCALE = 1e-6  # what the noise source draws
_AUDIT_ORDER, _AUDIT_OUTCOMES = 16.0, 4_000_000


class Machine:
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
        found = np.zeros(len(chosen), dtype=np.int64)
        for scale in np.unique(self.scale[chosen]):
            here = self.scale[chosen] == scale
            found[here] = noise.discrete_gaussian(float(scale), int(here.sum()))
        return found

    def learn(self, model: Update, chosen: Integers, noisy: Integers, *, last: bool) -> None:
        rows = self.queries.grids[chosen] * float(self.n)
        model.learn(chosen, noisy / rows, self.scale[chosen] / rows, last=last)

    # ---- the exact law, for tiny cases ----------------------------------------------------------------------------

    def law(self, truth: Integers, model: Update, number: int) -> Law:
        """A round is a pick; a pick is followed by its answers; the answers decide the next round."""
        scores = self.scores.of(truth, model.answers())
        laws = [list(selector.law(scores)) for selector in self.selectors(number)]
        picks, chances, then = [], [], []
        for combined in itertools.product(*laws):
            picks.append(np.array([q for queries, _ in combined for q in queries], dtype=np.int64))
            chances.append(math.fsum(chance for _, chance in combined))
        last = number == self.plan.count - 1
        for chosen in picks:
            parts = [self._answers(int(truth[q]), q) for q in chosen.tolist()]
            then.append(Law(tuple(parts), _AUDIT_ORDER) if last else self._continued(truth, model, number, chosen))
        return Law((Branch(np.array(chances), np.arange(len(picks)), tuple(then)),), _AUDIT_ORDER)

    def _window(self, query: int) -> tuple[int, int]:
        reach = math.ceil(_AUDIT_ORDER * int(self.queries.grids[query]) + 12 * float(self.scale[query]))
        return -reach, self.n * int(self.queries.grids[query]) + reach

    def _answers(self, true: int, query: int) -> Floats:
        low, high = self._window(query)
        return gaussian_log_pmf(float(self.scale[query]), low - true, high - true)

    def _continued(self, truth: Integers, model: Update, number: int, chosen: Integers) -> Law:
        """All answers to one pick, and the next round after each. The model only sees answers cut to [0, 1]."""
        spans = [self._window(int(q)) for q in chosen]
        lengths = [high - low + 1 for low, high in spans]
        if math.prod(lengths) > _AUDIT_OUTCOMES:
            raise AuditError(
                "There are too many outcomes to enumerate.", fix="Use fewer queries a round or less noise."
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
        then = []
        for answers in itertools.product(*(values.tolist() for values in seen)):
            after = model.fresh()
            self.learn(after, chosen, np.array(answers, dtype=np.int64), last=False)
            then.append(self.law(truth, after, number + 1))
        return Law((Branch(joint, which, tuple(then)),), _AUDIT_ORDER)


def answer_scale(units: int, moved: int) -> float:
    """The least noise for a query at this price, where one row moves its numerator so far, squared."""
    return max(least_scale("gaussian", units, moved), _SMALLEST_SCALE)
