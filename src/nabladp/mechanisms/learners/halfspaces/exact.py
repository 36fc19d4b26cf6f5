"""method="exact": the theorem's learner (`lem:robust-halfspaces`), over all halfspaces, a net, or a class handed in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError, DomainTooLarge, MechanismError
from nabladp.mechanisms.gram_matrix import NoisyGram
from nabladp.mechanisms.learners.halfspaces.finite_classes import (
    SignOrbits,
    lattice_net,
    threshold_functions,
    within_memory,
)
from nabladp.mechanisms.learners.halfspaces.gram import GramFit
from nabladp.mechanisms.learners.halfspaces.holdout import HoldoutPlan, RightAnswers, label_count
from nabladp.mechanisms.learners.halfspaces.model import halfspace_of
from nabladp.mechanisms.learners.halfspaces.randomized_labels import unbiased
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, Halfspace, integer_weights
from nabladp.mechanisms.learners.halfspaces.selection import Pick, Promise, RowScores, log_law
from nabladp.mechanisms.learners.halfspaces.task import AUDIT_ORDER, Fitted, Task
from nabladp.mechanisms.mechanism import Auditable, Law
from nabladp.mechanisms.noise_uses import NoiseUse, with_steps
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.privacy.guarantee import Guarantee
from nabladp.schema import Schema
from nabladp.tables import Counts, PartOfRows

# ---- method="exact" --------------------------------------------------------------------------------------------------

MOST_CELLS = 1 << 14  # of a table that the exact law is worked out for
_MOST_RESPONSES = 1 << 12


@dataclass(frozen=True, eq=False)
class AllHalfspaces:
    """Every threshold function, or a lattice net; scored from the table of all cells at a cost independent of n."""

    task: Task
    pick: Pick
    orbits: SignOrbits
    memory: int

    @classmethod
    def listed(cls, task: Task, pick: Pick, intercept: bool, resolution: int | None, memory: int) -> AllHalfspaces:
        for name in task.features:
            if task.schema[name].size != 2:
                raise MechanismError(
                    f"{name!r} has {task.schema[name].size:,} values; every feature here has two.",
                    fix="Leave it out, hand in 'hypotheses', or use method='gram'.",
                    attribute=name,
                )
        d = len(task.features)
        orbits = (
            threshold_functions(d, intercept) if resolution is None else lattice_net(d, resolution, intercept, memory)
        )
        within_memory(orbits.count, memory)
        if (task.n * pick.keep.denominator * pick.loss.width) << (2 * orbits.coordinates) >= 1 << 63:
            raise DomainTooLarge("There are too many rows for scores of 64 bits.", fix="Use fewer features.")
        return cls(task, pick, orbits, memory)

    @property
    def count(self) -> int:
        return self.orbits.count

    def table(self, counts: Counts) -> Integers:
        return counts.marginals([(*self.task.features, self.task.label)])[0]

    def scores(self, counts: Counts, noise: NoiseSource) -> NDArray[Any]:
        table = self.table(counts)
        if self.pick.response is not None:
            table = noise.randomized_response_counts(table, self.pick.keep)  # the same law as row by row
        return self.table_scores(table)

    def table_scores(self, table: Integers) -> NDArray[Any]:
        """The scores of all halfspaces from the table of cells; unbiased where labels were randomized."""
        given = table if self.pick.response is None else unbiased(table, self.pick.keep)
        return self.orbits.scores(given, self.pick.loss, self.memory)

    def weights(self, index: int) -> Integers:
        """The weights of the halfspace with this number, the intercept's first."""
        result = self.orbits.weights(index)
        return np.roll(result, 1) if self.orbits.intercept else np.concatenate(([0], result))


@dataclass(frozen=True, eq=False)
class HandedIn:
    """Integer weights of the columns, a list for each hypothesis; scored from rows."""

    task: Task
    pick: Pick
    rows: Integers  # a row of weights for each hypothesis, the intercept's first

    @classmethod
    def read(cls, task: Task, pick: Pick, hypotheses: Sequence[Sequence[int]]) -> HandedIn:
        width = task.width
        rows = [np.asarray(weights) for weights in hypotheses]
        if not rows or any(r.ndim != 1 or r.dtype.kind not in "iu" or len(r) not in (width - 1, width) for r in rows):
            raise MechanismError(
                f"A hypothesis is a list of {width - 1} integers, a weight for each column, or of {width} with the "
                "intercept's first.",
                fix="Columns are those of SignedColumns.of(schema, features, encode), in order.",
                columns=list(task.columns.names),
            )
        padded = [r if len(r) == width else np.concatenate(([0], r)) for r in rows]
        return cls(task, pick, np.array(padded, dtype=np.int64))

    @property
    def count(self) -> int:
        return len(self.rows)

    @cached_property
    def halfspaces(self) -> tuple[Halfspace, ...]:
        return tuple(halfspace_of(self.task.columns, self.task.features, row) for row in self.rows)

    def scores(self, counts: Counts, noise: NoiseSource) -> NDArray[Any]:
        response = self.pick.response
        rows: Counts = response.rows(counts, noise) if response else counts
        label = response.answer if response else self.task.label
        kernel = RowScores(self.halfspaces, self.task.features, label, self.pick.loss, self.pick.keep)
        return rows.fold(kernel)

    def table(self, counts: Counts) -> Integers:
        return counts.marginals([(*self.task.features, self.task.label)])[0]

    def table_scores(self, table: Integers) -> NDArray[Any]:
        given = table if self.pick.response is None else unbiased(table, self.pick.keep)
        records = np.indices(given.shape[:-1]).reshape(given.ndim - 1, -1).T
        results = []
        for halfspace in self.halfspaces:
            both = [self.pick.loss.scores(halfspace.distance(records, np.full(len(records), y))) for y in (-1, 1)]
            results.append(sum(int(given[..., i].reshape(-1) @ own) for i, own in enumerate(both)))
        return np.array(results, dtype=np.int64)

    def weights(self, index: int) -> Integers:
        result: Integers = self.rows[index]
        return result


@dataclass(frozen=True, eq=False)
class Exact:
    task: Task
    pick: Pick
    candidates: AllHalfspaces | HandedIn

    @property
    def randomizes(self) -> bool:
        return self.pick.response is not None

    def guarantee(self) -> Guarantee:
        return self.pick.guarantee()

    def noise_uses(self) -> list[NoiseUse]:
        return self.pick.noise_uses()

    @property
    def promise(self) -> Promise:
        return self.pick.promise(self.candidates.count)

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"halfspaces to choose from": self.candidates.count}
        figures["a row counts fully up to this distance from a wrong label"] = self.pick.loss.inner
        figures["a row does not count from this distance on"] = self.pick.loss.outer
        if self.pick.response is not None:
            figures["a label is kept with probability"] = float(self.pick.keep)
        if self.task.n:
            figures["γ'-robust error on new people beyond the best γ-robust error, on average at most"] = (
                self.promise.excess(self.task.n)
            )
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        scores = self.candidates.scores(counts, noise)
        weights = self.candidates.weights(noise.select_lowest(scores, self.pick.rate))  # [selection]
        facts = {"candidates": self.candidates.count, "rate": float(self.pick.rate), "keep": float(self.pick.keep)}
        return Fitted(weights.astype(np.float64), facts, integers=weights)

    def law(self, counts: Counts) -> Law:
        """The exact law of the method "exact" over all candidate halfspaces, summed over all randomized labels (shown,
        for one row)."""
        cells = self.task.schema.cells((*self.task.features, self.task.label))
        if cells > MOST_CELLS or 2**counts.n > _MOST_RESPONSES:
            raise AuditError("The exact output distribution is for tiny tables.", fix="Use fewer features and rows.")
        table = self.candidates.table(counts)
        if self.pick.response is not None and counts.n == 1:
            return self.pick.response.law(counts, self._answered_law)
        return Law((self._summed(table),))

    def _summed(self, table: Integers) -> NDArray[np.float64]:
        if self.pick.response is None:
            return self._log_law(table)
        answers = [chance + self._log_law(answered) for chance, answered in self.pick.response.tables(table)]
        return np.asarray(np.logaddexp.reduce(answers))

    def _answered_law(self, rows: Counts) -> Law:
        answer = self.pick.response.answer if self.pick.response else self.task.label
        return Law((self._log_law(rows.marginals([(*self.task.features, answer)])[0]),))

    def law_with_holdout(self, counts: Counts, plan: HoldoutPlan) -> Law:
        """The exact law of the selected halfspace and the noisy count of its right answers on the holdout, over all
        holdouts; and that of the label's noisy count, which depends on neither."""
        held, n = plan.rows(counts.n), counts.n
        window = audit_window(plan.scale)
        results = []
        for number, chosen in enumerate(itertools.combinations(range(n), held)):
            counts.working("rows held out", number, math.comb(n, held))
            held_out = np.array(chosen, dtype=np.int64)
            own = self._summed(self.candidates.table(PartOfRows(counts, held_out, inside=False)))
            right = self._right_answers(PartOfRows(counts, held_out))
            noise = [gaussian_log_pmf(plan.scale, -window - r, held + window - r) for r in right]
            results.append(np.add(own[:, None], noise).ravel())
        chosen_law = np.logaddexp.reduce(results) - math.log(len(results))
        if not plan.label_scale:
            return Law((chosen_law,), AUDIT_ORDER)
        window, second = audit_window(plan.label_scale), label_count(counts, self.task.label)
        labels = gaussian_log_pmf(plan.label_scale, -window - second, n + window - second)
        return Law((chosen_law, labels), AUDIT_ORDER)

    def _right_answers(self, rows: Counts) -> list[int]:
        halfspaces = [
            halfspace_of(self.task.columns, self.task.features, self.candidates.weights(i))
            for i in range(self.candidates.count)
        ]
        kernels = (RightAnswers(h, self.task.features, self.task.label) for h in halfspaces)
        return [int(rows.fold(kernel)[0]) for kernel in kernels]

    def _log_law(self, table: Integers) -> NDArray[np.float64]:
        return log_law(self.candidates.table_scores(table).astype(np.int64), Fraction(self.pick.rate))


def audit_window(scale: float) -> int:
    """How far noise of this scale reaches in an exact law."""
    return math.ceil(AUDIT_ORDER + 14 * scale)


# ---- method="robust" -------------------------------------------------------------------------------------------------

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
        """The number of rows that are enough for a choice this much worse than the best candidate, on average."""
        if not excess > 0:
            raise MechanismError("The excess must be positive.", fix="Give, say, 0.05.")
        return max(1, math.ceil(self.promise.private_excess(1) / excess))

    def guarantee(self) -> Guarantee:
        return self.gram.guarantee() + self.pick.guarantee()  # [composition]

    def noise_uses(self) -> list[NoiseUse]:
        """The noise of the method "robust": its Gram matrix (if labels are not randomized) and the choice among
        halfspaces."""
        matrix = with_steps(self.gram.noise_uses(), *(() if self.randomizes else (self.gram.mechanism,)))
        return [*matrix, *with_steps(self.pick.noise_uses(), ChoiceAmong(self.pick, self._example_halfspaces()))]

    def _example_halfspaces(self) -> tuple[Halfspace, ...]:
        """Halfspaces that a release may offer, for audits: each column by itself, for and against the label, and all
        together."""
        one = np.eye(self.task.width, dtype=np.int64)
        weights = [*one, *-one, one.sum(axis=0), -one.sum(axis=0)]
        return tuple(halfspace_of(self.task.columns, self.task.features, own) for own in weights)

    def figures(self) -> dict[str, Any]:
        figures = self.gram.figures() | {"candidates": self.promise.candidates}
        figures["a row counts fully up to this distance from a wrong label"] = self.pick.loss.inner
        figures["a row does not count from this distance on"] = self.pick.loss.outer
        if self.task.n:
            figures["γ'-robust error on the table beyond the best candidate's γ-robust error, on average at most"] = (
                self.promise.private_excess(self.task.n)
            )
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        offered = self.candidates(self.gram.release(counts, noise))
        halfspaces = tuple(halfspace_of(self.task.columns, self.task.features, integer_weights(w)) for w, _ in offered)
        scores = counts.fold(RowScores(halfspaces, self.task.features, self.task.label, self.pick.loss))
        weights, facts = offered[noise.select_lowest(scores, self.pick.rate)]  # [selection]
        return Fitted(weights, facts | {"candidates": len(offered)})

    def candidates(self, gram: NoisyGram) -> list[tuple[Floats, dict[str, Any]]]:
        """The candidate halfspaces of the method "robust": several ridges and the average, each with weights cut at
        several sizes."""
        (first,) = self.gram.fits(gram, [self.gram.ridge])
        more = self.gram.fits(gram, [first.facts["ridge"] * times for times in RIDGES[1:]])
        average = gram.matrix[:-1, -1] / gram.n
        results = []
        for fit in (first, *more, Fitted(average, {"ridge": None})):
            results += [(_clip_weights(fit.weights, clip), fit.facts | {"clip": clip}) for clip in CLIPS]
        return results

    def law(self, counts: Counts) -> Law:
        raise AuditError(
            "The exact output distribution of a selection among noisy fits is not available.",
            fix="Audit 'gram' and 'exact'.",
        )


@dataclass(frozen=True, eq=False)
class ChoiceAmong(Auditable):
    """The choice by robust loss among halfspaces that were released before, with its exact law."""

    pick: Pick
    halfspaces: tuple[Halfspace, ...]

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.pick.guarantee()

    def distribution(self, counts: Counts) -> Law:
        task = self.pick.task
        scores = counts.fold(RowScores(self.halfspaces, task.features, task.label, self.pick.loss))
        return Law((log_law(scores, self.pick.rate),))


def _clip_weights(weights: Floats, clip: float) -> Floats:
    """Weights clipped at ``clip``; the intercept shrinks together with the features' weights."""
    sizes = np.abs(weights[1:])
    cut = np.clip(weights[1:], -clip * sizes.max(initial=0.0), clip * sizes.max(initial=0.0))
    shrunk = np.abs(cut).sum() / sizes.sum() if sizes.any() else 1.0
    return np.concatenate((weights[:1] * shrunk, cut))
