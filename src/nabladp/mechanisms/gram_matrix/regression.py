"""Linear regression of one ±1 column on others, from noisy products only; error bars from the noise's public law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.errors import MechanismError
from nabladp.mechanisms.gram_matrix.signed_columns import SignedColumns
from nabladp.noise.parameters import confidence

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of ``features`` (column indices, the intercept among them) for the column ``target``.

    ``deviations`` and :meth:`interval` speak of the noise alone: the interval covers the coefficient that the same fit,
    with the same ridge, has on the table itself. They come from the first-order effect of the noise. What a ridge
    shrinks, and how far this table is from the next one, they do not cover.
    """

    columns: SignedColumns
    target: int
    features: tuple[int, ...]
    coefficients: Floats
    ridge: float
    scales: Floats  # of the noise on the products of the features, and in the last column on those with the target
    factor: tuple[Floats, bool] = field(repr=False)  # Cholesky's, of the products and the ridge

    @cached_property
    def deviations(self) -> Floats:
        """The standard deviation of every regression coefficient: the noise E moves β by (A + ridge)⁻¹·(e − E·β), to
        first order."""
        from scipy.linalg import cho_solve

        squared, with_target = self.scales[:, :-1] ** 2, self.scales[:, -1] ** 2
        covariance = squared * np.outer(self.coefficients, self.coefficients)  # E is symmetric: two rows share a draw
        np.fill_diagonal(covariance, squared @ self.coefficients**2 + with_target)
        inverse: Floats = cho_solve(self.factor, np.eye(len(self.features)))
        result: Floats = np.sqrt(((inverse @ covariance) * inverse).sum(axis=1).clip(0))
        return result

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.names[i] for i in self.features)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """The interval of each regression coefficient by itself; see the class for what it covers."""
        confidence(level)
        width = NormalDist().inv_cdf((1 + level) / 2) * self.deviations
        return self.coefficients - width, self.coefficients + width

    def decision(self, codes: Mapping[str, ArrayLike]) -> Floats:
        """The regression's fitted value of the target column for rows of codes: above zero predicts +1."""
        result: Floats = self.columns.matrix(codes, self.features) @ self.coefficients
        return result

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval()
        listed = zip(self.names, self.coefficients, low, high, strict=True)
        return {
            "target": self.columns.names[self.target],
            "ridge": self.ridge,
            "level": LEVEL,
            "coefficients": {name: [float(b), float(lo), float(hi)] for name, b, lo, hi in listed},
        }


def fit(
    columns: SignedColumns, gram: Floats, scales: Floats, target: int, features: list[int], ridge: float | None
) -> Regression:
    """Ridge regression from a noisy Gram matrix: β = (A + ridge·I)⁻¹·b, A the features' products and b those with the
    target.

    The default ridge is twice the largest norm of a row of scales: 2·s·√P for noise of one scale s, which the noise's
    spectral norm hardly ever exceeds. Should A not be positive even so, it is doubled until it is.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    chosen = noise_norm(scales[np.ix_([*features, target], [*features, target])]) if ridge is None else ridge
    products, with_target = gram[np.ix_(features, features)], gram[features, target]
    while True:
        try:
            factor = cho_factor(products + chosen * np.eye(len(features)), lower=True)
            break
        except LinAlgError:
            if ridge is not None:
                raise MechanismError(
                    "With this little ridge the noisy products have no inverse.", fix="Raise it, or leave it out."
                ) from None
            chosen = max(2 * chosen, 1.0)
    noise = scales[np.ix_(features, [*features, target])]
    return Regression(columns, target, tuple(features), cho_solve(factor, with_target), float(chosen), noise, factor)


def noise_norm(scales: Floats) -> float:
    """About the largest spectral norm of symmetric noise of these scales: 2·s·√P for one scale s."""
    return 2 * math.sqrt(float((scales**2).sum(axis=1).max(initial=0.0)))
