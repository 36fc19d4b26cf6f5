"""The private choice of a halfspace from a finite class by robust loss (`lem:erm-robust`): scores, cost, output law,
and the rows that the theorem asks for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.randomized_labels import Response, unbiased_sensitivity
from nabladp.mechanisms.learners.halfspaces.robust_distance import NEVER, ClippedLoss, Distances, Halfspace, whole
from nabladp.mechanisms.learners.halfspaces.task import Task, curve
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise.parameters import selection_scores
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.tables import Kernel

Predictions = NDArray[np.integer]
"""+1 or −1 for every possible record: an axis for each attribute."""


@dataclass(frozen=True, eq=False)
class FiniteClass:
    """Hypotheses over attributes with so many values each: halfspaces, or what they say for every possible record.

    Distances are worked out here from what a hypothesis says, so its scores have the promised sensitivity whatever was
    handed in.
    """

    sizes: tuple[int, ...]
    hypotheses: tuple[Halfspace | Predictions, ...]

    def __post_init__(self) -> None:
        for hypothesis in self.hypotheses:
            if isinstance(hypothesis, Halfspace):
                fits = tuple(map(len, hypothesis.tables)) == self.sizes
            else:
                said = np.asarray(hypothesis)
                fits = said.shape == self.sizes and bool(np.all((said == 1) | (said == -1)))
            if not fits:
                raise MechanismError(
                    "A hypothesis says −1 or +1 for every combination of the attributes' values.",
                    fix="Give a Halfspace with a weight for each value, or an array with an axis for each attribute.",
                    sizes=list(self.sizes),
                )
        if not self.hypotheses:
            raise MechanismError("There is no hypothesis to choose from.", fix="Give at least one.")

    @property
    def count(self) -> int:
        return len(self.hypotheses)

    def scores(self, table: ArrayLike, loss: ClippedLoss) -> Integers:
        """The robust loss of every hypothesis in the finite class, on a table with an axis per attribute and a last one
        for the label (−1, +1)."""
        counts = whole(table, "Counts")
        if counts.shape != (*self.sizes, 2):
            raise MechanismError("Counts need an axis for each attribute and the label.", fix="Give such a table.")
        records = np.indices(self.sizes).reshape(len(self.sizes), -1).T
        results = []
        for hypothesis in self.hypotheses:
            said = hypothesis.predict(records).reshape(self.sizes) if isinstance(hypothesis, Halfspace) else hypothesis
            both = (loss.scores(distances_to_wrong(said, label)) for label in (-1, 1))
            results.append(sum(int((counts[..., i] * own).sum()) for i, own in enumerate(both)))
        return np.array(results, np.int64)


def distances_to_wrong(said: ArrayLike, label: int) -> Distances:
    """For every possible record, the fewest attributes to change until a hypothesis's prediction is not ``label``.

    A record changes axis by axis: along each it stays, or for 1 goes to the nearest of that line.
    """
    result = np.where(np.asarray(said) == label, NEVER - np.ndim(said), 0).astype(np.int32)
    for axis in range(result.ndim):
        result = np.minimum(result, result.min(axis=axis, keepdims=True) + 1)
    return np.where(result > result.ndim, NEVER, result).astype(np.int32)


def row_scores(halfspaces: Sequence[Halfspace], codes: ArrayLike, labels: ArrayLike, loss: ClippedLoss) -> Integers:
    """The robust loss of every halfspace, summed over rows, for domains too large for a table."""
    return np.array([int(loss.scores(h.distance(codes, labels)).sum()) for h in halfspaces], np.int64)


# ---- planning ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise:
    """What the theorem promises for a class of so many hypotheses, at e per attribute (ρ = e²/2).

    ``keep`` is the probability to keep a label; 1 if labels are public.
    """

    candidates: int
    loss: ClippedLoss
    epsilon: float
    keep: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.candidates < 1 or not 0 < self.epsilon < math.inf or not Fraction(1, 2) < self.keep <= 1:
            raise MechanismError("A promise needs candidates, an epsilon and a response.", fix="Give positive numbers.")

    @property
    def _amplified(self) -> float:
        """The factor by which randomized labels raise a score's sensitivity to an attribute, against the loss
        itself."""
        step = self.keep if self.loss.inner or self.keep == 1 else Fraction(1)
        return float(step / (2 * self.keep - 1))

    def private_excess(self, n: int) -> float:
        """A bound on the selected hypothesis's expected loss on n rows beyond the best one's; with public labels for
        any table."""
        return self._amplified * math.log(self.candidates) / (self.epsilon * self.loss.width * n)

    def excess(self, n: int) -> float:
        """A bound on the selected hypothesis's γ'-robust error on new rows beyond the class's best γ-robust error."""
        sampling = math.sqrt(math.log(self.candidates) / (2 * n)) / float(2 * self.keep - 1)
        return sampling + self.private_excess(n)

    def rows(self, excess: float) -> int:
        """The smallest number of rows for which the theorem promises this excess robust error."""
        if not excess > 0:
            raise MechanismError("The excess must be positive.", fix="Give, say, 0.05.")
        n = 1
        while self.excess(n) > excess:
            n *= 2
        low = n // 2
        while n - low > 1:
            middle = (low + n) // 2
            low, n = (low, middle) if self.excess(middle) <= excess else (middle, n)
        return n


# ---- the private choice of a halfspace -------------------------------------------------------------------------------


def log_law(scores: ArrayLike, rate: Fraction) -> NDArray[np.float64]:
    """The log-probability that each candidate halfspace is selected, from scores and rate; for audits."""
    values = selection_scores(scores)
    logs = -float(rate) * (values.astype(np.int64) - int(values.min()))
    return np.asarray(logs - math.log(math.fsum(np.exp(logs))))


_FINE = 1 << 80
_FREE = Fraction(64)  # the rate where nothing protected moves a score


@dataclass(frozen=True, eq=False)
class Pick:
    """What the choice costs, and how sharp it may be.

    With a response, scores are unbiased ones of the answers, and only features move them. Without, a protected label
    moves the score of its row by as much as all features together.
    """

    task: Task
    loss: ClippedLoss
    response: Response | None = None

    @property
    def keep(self) -> Fraction:
        return self.response.keep if self.response else Fraction(1)

    @cached_property
    def held(self) -> Counter[str]:
        """The attributes that count for each source in the selection: a label that was not randomized counts as many as
        matter at all."""
        pays = frozenset() if self.response else self.task.label_sources
        return self.task.reach + Counter(dict.fromkeys(pays, self.loss.width))  # [score]

    def moved(self, held: int) -> int:
        """The sensitivity of a halfspace's score to so many changed attributes of a row."""
        if self.response is None:
            return self.loss.sensitivity(held)
        return unbiased_sensitivity(self.loss, self.keep, held)  # [unbiased]

    @cached_property
    def rate(self) -> Fraction:
        units = (self.response.rest if self.response else self.task).units
        rates = [Fraction(math.isqrt(2 * units[s] * UNIT), UNIT * self.moved(c)) for s, c in self.held.items()]
        return Fraction(math.floor(min(rates) * _FINE), _FINE) if rates else _FREE / self.keep.denominator

    def guarantee(self) -> Guarantee:
        return self._choice_cost() + self.response.guarantee() if self.response else self._choice_cost()

    def _choice_cost(self) -> Guarantee:
        return curve(self.task.universe, self.held, lambda c: (self.rate * self.moved(c)) ** 2 / 2)  # [range]

    def noise_uses(self) -> list[NoiseUse]:
        moved = {frozenset({source}): self.moved(count) for source, count in self.held.items()}
        charge = Charge(self._choice_cost(), moved)
        choice = NoiseUse.exactly("the choice of a halfspace", "select_exponential", 1, charge)
        return [choice, self.response.noise_use()] if self.response else [choice]

    def promise(self, candidates: int) -> Promise:
        return Promise(candidates, self.loss, float(self.rate * self.moved(1)), self.keep)


class RowScores(Kernel):
    """A kernel: the scores of some halfspaces, from rows. ``keep`` below 1 makes those of answers unbiased."""

    def __init__(
        self,
        halfspaces: tuple[Halfspace, ...],
        features: tuple[str, ...],
        label: str,
        loss: ClippedLoss,
        keep: Fraction = Fraction(1),
    ) -> None:
        self.halfspaces, self.features, self.label, self.loss, self.keep = halfspaces, features, label, loss, keep
        self.attributes = (*features, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        columns = [batch.column(name).to_numpy().astype(np.int64) for name in self.features]
        codes = np.stack(columns, axis=1)
        labels = 2 * batch.column(self.label).to_numpy().astype(np.int64) - 1
        result = self.keep.numerator * row_scores(self.halfspaces, codes, labels, self.loss)
        if self.keep < 1:
            turned = self.keep.denominator - self.keep.numerator
            result -= turned * row_scores(self.halfspaces, codes, -labels, self.loss)
        return result
