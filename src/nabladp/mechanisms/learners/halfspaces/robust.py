"""method="robust": candidates from one Gram release, then the exponential mechanism on their clipped distance loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms.gram_matrix import NoisyGram
from nabladp.mechanisms.learners.halfspaces.distance import ClippedLoss, integer_weights
from nabladp.mechanisms.learners.halfspaces.erm import Promise
from nabladp.mechanisms.learners.halfspaces.gram import GramFit
from nabladp.mechanisms.learners.halfspaces.model import halfspace_of
from nabladp.mechanisms.learners.halfspaces.selection import Pick, RowScores, select_low
from nabladp.mechanisms.learners.halfspaces.task import Fitted, Task
from nabladp.mechanisms.mechanism import Law
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.tables import Counts

SELECTION_SHARE = Fraction(1, 5)
"""Of every budget, for the choice; the rest is for the Gram matrix."""

RIDGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # times the default
CLIPS = (1.0, 0.5, 0.25)  # weights are cut at this share of the largest: even weights are hard to outvote


@dataclass(frozen=True, eq=False)
class Robust:
    task: Task
    gram: GramFit
    pick: Pick

    @classmethod
    def choose(cls, task: Task, treatment: str | None, ridge: float | None, loss: ClippedLoss) -> Robust:
        gram = GramFit.choose(task.share(1 - SELECTION_SHARE), treatment, ridge)
        return cls(task, gram, Pick(task.share(SELECTION_SHARE), loss))  # [split]

    @property
    def randomizes(self) -> bool:
        return self.gram.randomizes

    @property
    def promise(self) -> Promise:
        return self.pick.promise((len(RIDGES) + 1) * len(CLIPS))

    def rows(self, excess: float) -> int:
        """How many rows are enough for a choice this much worse than the best candidate, on average."""
        if not excess > 0:
            raise MechanismError("The excess must be positive.", fix="Give, say, 0.05.")
        return max(1, math.ceil(self.promise.private_excess(1) / excess))

    def guarantee(self) -> Guarantee:
        return self.gram.guarantee() + self.pick.guarantee()  # [composition]

    def figures(self) -> dict[str, Any]:
        told = self.gram.figures() | {"candidates": self.promise.candidates}
        told["a row counts fully up to this distance from a wrong label"] = self.pick.loss.inner
        told["… and not at all from this distance on"] = self.pick.loss.outer
        if self.task.n:
            told["γ'-robust error on the table beyond the best candidate's γ-robust error, on average at most"] = (
                self.promise.private_excess(self.task.n)
            )
        return told

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        offered = self.candidates(self.gram.release(counts, noise))
        halfspaces = tuple(halfspace_of(self.task.columns, self.task.features, integer_weights(w)) for w, _ in offered)
        scores = counts.fold(RowScores(halfspaces, self.task.features, self.task.label, self.pick.loss))
        weights, facts = offered[select_low(scores, self.pick.rate, noise)]  # [selection]
        return Fitted(weights, facts | {"candidates": len(offered)})

    def candidates(self, gram: NoisyGram) -> list[tuple[Floats, dict[str, Any]]]:
        """Several ridges, and the average (a ridge without end), each with its weights cut at several sizes."""
        (first,) = self.gram.fits(gram, [self.gram.ridge])
        more = self.gram.fits(gram, [first.facts["ridge"] * times for times in RIDGES[1:]])
        average = gram.matrix[:-1, -1] / gram.n
        found = []
        for fit in (first, *more, Fitted(average, {"ridge": None})):
            found += [(_cut(fit.weights, clip), fit.facts | {"clip": clip}) for clip in CLIPS]
        return found

    def law(self, counts: Counts) -> Law:
        raise AuditError(
            "The exact output distribution of a selection among noisy fits is not available.",
            fix="Audit 'gram' and 'exact'.",
        )


def _cut(weights: Floats, clip: float) -> Floats:
    """The intercept shrinks with the features' weights together."""
    sizes = np.abs(weights[1:])
    cut = np.clip(weights[1:], -clip * sizes.max(initial=0.0), clip * sizes.max(initial=0.0))
    shrunk = np.abs(cut).sum() / sizes.sum() if sizes.any() else 1.0
    return np.concatenate((weights[:1] * shrunk, cut))
