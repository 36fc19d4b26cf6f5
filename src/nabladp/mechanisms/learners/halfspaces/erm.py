"""Private robust learning over any finite class (`lem:erm-robust`): its scores, its promise, and the rows it takes.

Promise. Write L for the clipped loss (scores divided by n·width) and draw h with P(h) ∝ exp(−a·score(h)). Among all
laws P that one minimises a·E[score] − entropy(P), and certainty of the best has entropy 0; hence

    E[score(h)] ≤ lowest score + entropy/a ≤ lowest score + ln|H|/a.

With labels kept with probability p and unbiased scores, everything is (2p−1) times as large in the mean while an
attribute moves the score by p (by 1 if γ'd = 0); a is chosen for that, so the excess grows by p/(2p−1) (1/(2p−1)).

From the table to where its rows come from. For a fixed h the loss of a row lies in [0, 1] (with unbiased scores in a
range of 1/(2p−1)); by Hoeffding's lemma the largest of |H| such means of n independent rows exceeds its expectation by
at most range·√(ln|H|/(2n)) in the mean. Together, for every distribution D of rows,

    E[R_γ'(h, D)] ≤ min over H of R_γ(·, D) + √(ln|H|/(2n))/(2p−1) + p·ln|H|/((2p−1)·a·width·n).

This is the theorem with its constants, for the class at hand; for the net of `lem:halfspace-net`, ln|H| is of the order
d·ln(1/(γ−γ')) and width = (γ−γ')·d, so the privacy term does not grow with d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.halfspace import NEVER, ClippedLoss, Distances, Halfspace, whole

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
        """Every hypothesis's score on a table with an axis for each attribute and a last one for the label (−1, +1)."""
        counts = whole(table, "Counts")
        if counts.shape != (*self.sizes, 2):
            raise MechanismError("Counts need an axis for each attribute and the label.", fix="Give such a table.")
        records = np.indices(self.sizes).reshape(len(self.sizes), -1).T
        found = []
        for hypothesis in self.hypotheses:
            said = hypothesis.predict(records).reshape(self.sizes) if isinstance(hypothesis, Halfspace) else hypothesis
            both = (loss.scores(distances_to_wrong(said, label)) for label in (-1, 1))
            found.append(sum(int((counts[..., i] * own).sum()) for i, own in enumerate(both)))
        return np.array(found, np.int64)


def distances_to_wrong(said: ArrayLike, label: int) -> Distances:
    """For every record, the fewest attributes to change until the prediction is not ``label``.

    A record changes axis by axis: along each it stays, or for 1 goes to the nearest of that line.
    """
    found = np.where(np.asarray(said) == label, NEVER - np.ndim(said), 0).astype(np.int32)
    for axis in range(found.ndim):
        found = np.minimum(found, found.min(axis=axis, keepdims=True) + 1)
    return np.where(found > found.ndim, NEVER, found).astype(np.int32)


def row_scores(halfspaces: Sequence[Halfspace], codes: ArrayLike, labels: ArrayLike, loss: ClippedLoss) -> Integers:
    """Scores from rows, for domains too large for a table."""
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
        """By how much randomized labels make what an attribute moves larger, against the loss itself."""
        step = self.keep if self.loss.inner or self.keep == 1 else Fraction(1)
        return float(step / (2 * self.keep - 1))

    def private_excess(self, n: int) -> float:
        """Expected loss on n rows beyond the best hypothesis's, at most; with public labels for any table."""
        return self._amplified * math.log(self.candidates) / (self.epsilon * self.loss.width * n)

    def excess(self, n: int) -> float:
        """Expected γ'-robust error on new rows beyond the class's best γ-robust error, at most."""
        sampling = math.sqrt(math.log(self.candidates) / (2 * n)) / float(2 * self.keep - 1)
        return sampling + self.private_excess(n)

    def rows(self, excess: float) -> int:
        """How many rows are enough for this excess: the smallest such n."""
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
