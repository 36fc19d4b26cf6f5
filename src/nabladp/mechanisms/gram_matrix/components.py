"""Principal components of released columns, as far as the noise lets one tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.gram_matrix.regression import noise_norm, steps_of
from nabladp.mechanisms.gram_matrix.signed_columns import SignedColumns


@dataclass(frozen=True, eq=False, repr=False)
class PrincipalComponents:
    """Directions of the largest variance of columns between −1 and 1, from a noisy Gram matrix.

    ``variances`` are eigenvalues of the noisy covariance, in order, none farther than ``error`` from the true one as
    long as the spectral norm of the noise is below a bound that it hardly ever exceeds. ``resolved`` is how many
    leading components stand apart from the next by more than twice that; the directions of the others are noise.
    """

    columns: SignedColumns
    features: tuple[int, ...]
    means: Floats
    variances: Floats
    directions: Floats  # one row each
    error: float

    def __repr__(self) -> str:
        shares = ", ".join(f"{100 * share:.3g} %" for share in self.shares[: self.resolved])
        variance = f" ({shares} of the variance)" if shares else ""
        return f"PrincipalComponents({self.resolved} of {len(self.variances)} stand out from the noise{variance})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.names[i] for i in self.features)

    @property
    def resolved(self) -> int:
        gaps = self.variances - np.append(self.variances[1:], 0.0)
        apart = gaps > 2 * self.error
        return int(apart.argmin()) if not apart.all() else len(apart)

    @property
    def shares(self) -> Floats:
        """The share of the whole variance that each component explains."""
        whole = float(self.variances.clip(0).sum())
        result: Floats = self.variances.clip(0) / whole if whole else self.variances * 0
        return result

    def transform(self, data: Any, count: int | None = None) -> Floats:
        """The leading components (by default all that are resolved) of every row of raw values."""
        steps = steps_of(self.columns, self.features, data)[:, list(self.features)]
        chosen = self.resolved if count is None else count
        result: Floats = (steps - self.means) @ self.directions[:chosen].T
        return result


def principal_components(
    columns: SignedColumns, n: int, gram: Floats, scales: Floats, features: list[int]
) -> PrincipalComponents:
    """From a noisy Gram matrix A: the eigenvalues of A/n − m·mᵀ, m the noisy means. By Weyl's inequality none is
    farther from the true one than the spectral norm of the noise in that difference."""
    chosen = np.ix_(features, features)
    means = gram[0, features] / n
    values, vectors = np.linalg.eigh(gram[chosen] / n - np.outer(means, means))
    of_means = 2 * float(np.linalg.norm(scales[0, features])) / n  # about the most that the noise on m measures
    error = noise_norm(scales[chosen]) / n + of_means * (2 * float(np.linalg.norm(means)) + of_means)
    order = values.argsort()[::-1]
    return PrincipalComponents(columns, tuple(features), means, values[order], vectors.T[order], error)
