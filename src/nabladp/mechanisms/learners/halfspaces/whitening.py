"""Coordinates in which features are about uncorrelated, from a noisy Gram matrix: L⁻¹·x, where L·Lᵀ is Gram/n + ridge.

Noise that is the same in all directions hurts there where the rows vary little. Rows are cut to a common length, which
bounds what one of them can do to a sum, and the map is whole-numbered, so that the bound is exact. It is made from the
release alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.gram_matrix import NoisyGram, SignedColumns

RADIUS = 1 << 13  # about the length of a row, on the grid
RIDGES = 2.0  # times what the noise's spectral norm hardly ever exceeds: directions below it are lost in the noise
_LEAST_RIDGE = 0.1  # however little noise: a few steps make nothing of directions in which rows hardly vary
_MOST_COMPARED = 1 << 11  # values of an attribute whose pairs are compared


@dataclass(frozen=True, eq=False)
class Whitening:
    """A row x of ±1 becomes ``matrix`` · x, cut to length ``radius``.

    Two rows that differ in one attribute come to lie at most ``radius`` apart, too, the cutting and its rounding
    included.
    """

    matrix: Integers
    radius: int
    ridge: float

    @classmethod
    def of(cls, gram: NoisyGram) -> Whitening:
        ridge, inverse = _inverse_root(gram)
        usual = _usual_length(gram, ridge, inverse)
        grid = RADIUS / max(usual, math.sqrt(longest_step(inverse, gram.columns)))
        matrix = np.rint(inverse * grid).astype(np.int64)
        farthest = math.isqrt(int(longest_step(matrix, gram.columns))) + 1
        rounding = math.isqrt(len(matrix)) + 2  # cut entries lose less than 1 each; and one more for doubles
        return cls(matrix, max(math.ceil(grid * usual), farthest + rounding), ridge)  # [radius]

    def weights(self, inner: Floats) -> Floats:
        """Of the ±1 columns, from those of a row's coordinates in units of ``radius``."""
        found: Floats = inner @ self.matrix / self.radius
        return found


def longest_step(matrix: Floats | Integers, columns: SignedColumns) -> float:
    """The square of the longest way between two rows that differ in one attribute: at most.

    Whole, and exact, where the matrix is: squares of ways are far below 2⁵³, and so are all sums on the way to them.
    """
    single = [columns.places[block.attribute].start for block in columns.blocks if len(block.names) == 1]
    longest = 4 * float((matrix[:, single].astype(np.float64) ** 2).sum(axis=0).max(initial=0.0))
    for block in columns.blocks:
        if len(block.names) < 2:
            continue
        place = columns.places[block.attribute]
        changes = (block.positive[:, 1:] != block.positive[:, :-1]).any(axis=0)
        told_apart = block.positive[:, np.append(True, changes)]  # codes of one range are neighbours
        ends = matrix[:, place.start : place.stop].astype(np.float64) @ np.where(told_apart, 1.0, -1.0)
        ends -= ends[:, :1].copy()
        squares = (ends * ends).sum(axis=0)
        if len(squares) > _MOST_COMPARED:
            longest = max(longest, 4 * float(squares.max()))  # by way of the first
        else:
            longest = max(longest, float((squares[:, None] + squares - 2 * (ends.T @ ends)).max()))
    return longest


def _inverse_root(gram: NoisyGram) -> tuple[float, Floats]:
    """The ridge, and L⁻¹; should the matrix not be positive even so, the ridge is doubled until it is."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    ridge = max(RIDGES * gram.noise_norm / gram.n, _LEAST_RIDGE)
    one = np.eye(len(gram.matrix))
    while True:
        try:
            root = cholesky(gram.matrix / gram.n + ridge * one, lower=True)
        except LinAlgError:
            ridge *= 2
        else:
            return ridge, np.asarray(solve_triangular(root, one, lower=True))


def _usual_length(gram: NoisyGram, ridge: float, inverse: Floats) -> float:
    """About the root of the mean square: E‖L⁻¹x‖² = tr(Q·G) for the true Gram matrix G and Q = (noisy + ridge)⁻¹.

    The noisy matrix in place of G gives p − ridge·tr Q, which is too small, as Q follows the noise. By how much,
    Stein's identity says: Σ s_ij²·(Q_ii·Q_jj + Q_ij²) on average.
    """
    product = inverse.T @ inverse
    own = np.diag(product)
    noise = (gram.scales / gram.n) ** 2
    found = len(own) - ridge * own.sum() + (noise * (np.outer(own, own) + product**2)).sum()
    return math.sqrt(min(max(float(found), 1.0), len(own)))
