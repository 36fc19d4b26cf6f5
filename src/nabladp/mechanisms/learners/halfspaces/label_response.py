"""Randomized response on the label, and scores that undo its bias.

A label that is kept with probability p > ½ and else turned costs ln(p/(1−p)), pure; whatever is made of the randomized
labels costs the label nothing more.

The paper then minimises the robust loss of the randomized labels (`lem:label-rr`), saying that it is an increasing
function of the robust error of the true ones. It is not: a row near the boundary is robustly wrong under *both* labels.
Where one hypothesis has 0.2 of the rows near its boundary, all right, and another has 0.25 far on the wrong side, the
first has the smaller robust error, but p = 0.6 makes the second look better (0.45 against 0.52), however many rows.

Instead, give the row the score p·s(x, ỹ) − (1−p)·s(x, −ỹ): on average over the response, (2p−1)·s(x, y) for the true
label y. As p is a fraction A/B, the numerators A·n(x, y) − (B−A)·n(x, −y) are whole and take the place of counts; a
class sums scores linearly, so nothing else changes.

Sensitivity [unbiased]. Of s(x, +1) and s(x, −1) one is at distance 0, that is, at its maximum. A step of one attribute
that keeps the side moves only the other, by 1: the score by at most A. A step across the boundary goes from distances
(1, 0) to (0, 1): if γ'd ≥ 1 both are at the maximum before and after and nothing moves; if γ'd = 0 both move by 1, the
score by A + (B−A) = B. All in all the score has a range of B·width. A public label is the case A = B = 1. With e per
attribute and P(h) ∝ exp(−(e/step)·score), the guarantee is ``linear(attributes, limit, e)``, and ln(A/(B−A)) for the
label.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Integers
from nabladp.errors import BudgetError
from nabladp.mechanisms.learners.halfspaces.clipped_loss import ClippedLoss
from nabladp.mechanisms.learners.halfspaces.distance import whole
from nabladp.noise import response_epsilon

GRID = 1 << 12  # denominators of the probability to keep a label: small, so that scores stay whole and short


def keep_within(epsilon: float) -> Fraction:
    """The largest probability on the grid that keeps a label and costs no more than ``epsilon``, pure."""
    if not epsilon > 0:
        raise BudgetError("The label's epsilon must be positive.", fix="Give, say, 0.5, or declare the label public.")
    start = math.floor(GRID / (1 + math.exp(-epsilon)))
    for numerator in range(min(start + 1, GRID - 1), GRID // 2, -1):
        if response_epsilon(2, Fraction(numerator, GRID)) <= epsilon:
            return Fraction(numerator, GRID)
    raise BudgetError(
        "The label's epsilon is too small: a response would say nothing.",
        fix=f"Give at least {response_epsilon(2, Fraction(GRID // 2 + 1, GRID)):.2g}.",
    )


def unbiased(table: ArrayLike, keep: Fraction) -> Integers:
    """Counts by label (last axis) after randomized response, as counts whose scores are unbiased up to a factor.

    The factor is ``2A − B`` for ``keep`` = A/B.
    """
    counts = whole(table, "Counts")
    return keep.numerator * counts - (keep.denominator - keep.numerator) * np.flip(counts, axis=-1)


def unbiased_sensitivity(loss: ClippedLoss, keep: Fraction, attributes: int = 1) -> int:
    """How far a change of so many attributes (not the label) of one row moves the sum of unbiased scores [unbiased]."""
    step = keep.numerator if loss.inner else keep.denominator
    return min(attributes * step, keep.denominator * loss.width)


def unbiased_limit(loss: ClippedLoss, keep: Fraction) -> int:
    """Beyond how many attributes a change moves the scores no further: the ``limit`` of the guarantee."""
    return math.ceil(Fraction(keep.denominator * loss.width, unbiased_sensitivity(loss, keep)))
