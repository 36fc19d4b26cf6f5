"""The clipped distance loss of `lem:erm-robust`, in whole numbers.

A row at distance t from a wrong label scores clip(G − t, 0, G − G') with G = γd and G' = γ'd whole: nothing from G on,
everything up to G'. Divided by the width G − G' that is the paper's loss, so for every table and hypothesis

    γ'-robust error ≤ loss ≤ γ-robust error.

Sensitivity. t is a distance, counted in attributes, so a change of m attributes of one row moves it by at most m and
the score by at most min(m, width) [score]. If several of the columns that t counts belong to one attribute, k say, the
change is k·m; here every attribute counts once, however many columns its values would take.

Privacy. P(h) ∝ exp(−a·score(h)): between neighbours that differ on m attributes of a row, scores differ by at most
Δ = min(m, width), up or down, so log P(h) − log P'(h) lies for all h in one interval of length 2aΔ. A mechanism of such
bounded range r is r²/8-zCDP; here a²Δ²/2. That is the term ``linear(attributes, limit=width, e=a)`` of a guarantee. A
change of the label alone may move the score from 0 to the width: Δ = width, unless labels are randomized first
(:mod:`nabladp.mechanisms.learners.halfspaces.label_response`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.distance import radius


@dataclass(frozen=True)
class ClippedLoss:
    """Scores min(``outer`` − distance, ``outer`` − ``inner``), at least 0; ``outer`` is γd and ``inner`` γ'd."""

    outer: int
    inner: int

    def __post_init__(self) -> None:
        for value in (self.outer, self.inner):
            if not isinstance(value, int) or isinstance(value, bool):
                raise MechanismError("γd and γ'd are numbers of attributes.", fix="Give whole numbers.")
        if not 0 <= self.inner < self.outer:
            raise MechanismError(
                "γ must be larger than γ', by at least one attribute.",
                fix="Raise γ or lower γ': γ'·d < γ·d after rounding down.",
                outer=self.outer,
                inner=self.inner,
            )

    @classmethod
    def of_margins(cls, gamma: float | Fraction, gamma_prime: float | Fraction, d: int) -> ClippedLoss:
        """γd and γ'd rounded down, as no distance lies in between: robust errors are the same."""
        return cls(radius(gamma, d), radius(gamma_prime, d))

    @property
    def width(self) -> int:
        return self.outer - self.inner

    def scores(self, distances: ArrayLike) -> Integers:
        return np.clip(self.outer - np.asarray(distances, np.int64), 0, self.width)

    def sensitivity(self, attributes: int = 1) -> int:
        """How far a change of so many attributes of one row may move the sum of scores."""
        return min(attributes, self.width)
