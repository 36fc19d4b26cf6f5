"""Linear regression of one column on others, from noisy products only; error bars from the noise's public law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.errors import MechanismError
from nabladp.mechanisms.gram_matrix.signed_columns import SignedColumns
from nabladp.noise.parameters import confidence
from nabladp.tables.encode import source_column

LEVEL = 0.95
_SHOWN = 20  # columns or values in a text


@dataclass(frozen=True, eq=False, repr=False)
class Regression:
    """Coefficients of ``features`` (column indices, the intercept among them) for the column ``target``.

    ``coefficients`` are those of the columns between −1 and 1; ``effects`` say the same in the units of numbers, and of
    a ±1 column what being +1 adds. ``deviations`` and every interval speak of the noise alone: they cover what the same
    fit, with the same ridge, gives on the table itself. They come from the first-order effect of the noise. What a
    ridge shrinks, and how far this table is from the next one, they do not cover.
    """

    columns: SignedColumns
    target: int
    features: tuple[int, ...]
    coefficients: Floats
    ridge: float
    scales: Floats  # of the noise on the products of the features, and in the last column on those with the target
    factor: tuple[Floats, bool]  # Cholesky's, of the products and the ridge
    products: Floats  # noisy, of the features and last the target
    noise: Floats  # their scales
    n: int

    def __repr__(self) -> str:
        body = self.to_json()
        named = body.get("effects", body["coefficients"])
        width = max(map(len, named))
        lines = [f"Regression of {body['target']}: {self.n:,} rows, ridge {self.ridge:.4g}"]
        lines += [f"R² {_with_interval(body['r2'])}"] if "r2" in body else []
        lines += [f"{name:{width}}  {_with_interval(own)}" for name, own in list(named.items())[:_SHOWN]]
        more = len(named) - _SHOWN
        return "\n".join([*lines, f"… and {more} more"] if more > 0 else lines)

    @cached_property
    def covariance(self) -> Floats:
        """Of the coefficients: the noise E moves β by (A + ridge)⁻¹·(e − E·β), to first order."""
        from scipy.linalg import cho_solve

        squared, with_target = self.scales[:, :-1] ** 2, self.scales[:, -1] ** 2
        covariance = squared * np.outer(self.coefficients, self.coefficients)  # E is symmetric: two rows share a draw
        np.fill_diagonal(covariance, squared @ self.coefficients**2 + with_target)
        inverse: Floats = cho_solve(self.factor, np.eye(len(self.features)))
        result: Floats = inverse @ covariance @ inverse
        return result

    @cached_property
    def deviations(self) -> Floats:
        """The standard deviation of every regression coefficient."""
        result: Floats = np.sqrt(np.diag(self.covariance).clip(0))
        return result

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.names[i] for i in self.features)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """The interval of each regression coefficient by itself; see the class for what it covers."""
        width = _normal(level) * self.deviations
        return self.coefficients - width, self.coefficients + width

    # ---- in the units of numbers ------------------------------------------------------------------------------------

    @cached_property
    def _units(self) -> Floats:
        """The matrix that turns coefficients into effects: of the raw number, or of a column as 0 and 1."""
        result = np.zeros((len(self.features),) * 2)
        for row, index in enumerate(self.features):
            block = self.columns.number_blocks.get(index)
            if index == 0:
                result[0, row] += 1
            elif block is None:  # −1 and +1 are 0 and 1
                result[row, row], result[0, row] = 2, -1
            else:
                result[row, row], result[0, row] = 1 / block.half, -block.middle / block.half
        goal = self.columns.number_blocks.get(self.target)
        return result if goal is None else result * goal.half

    def effects(self, level: float = LEVEL) -> dict[str, tuple[float, float, float]]:
        """What each column adds to the target, with its interval: of a number for each of its units, in the target's
        units. The intercept is the fitted target where all numbers are 0 and no ±1 column is +1."""
        values = self._units @ self.coefficients
        goal = self.columns.number_blocks.get(self.target)
        if goal is not None:
            values[0] += goal.middle
        spread = self._units @ self.covariance @ self._units.T
        width = _normal(level) * np.sqrt(np.diag(spread).clip(0))
        return {
            name: (float(b), float(b - w), float(b + w)) for name, b, w in zip(self.names, values, width, strict=True)
        }

    def r2(self, level: float = LEVEL) -> tuple[float, float, float]:
        """R², the share of the target's variance that the regression explains, with an interval for the noise; the
        estimate is at most 1, and NaN where the noise hides the variance."""
        residual = np.append(-self.coefficients, 1.0)
        left = float(residual @ self.products @ residual)
        mean = self.products[0, -1] / self.n  # of the target: the intercept comes first
        whole = float(self.products[-1, -1] - self.n * mean**2)
        if not whole > 0:
            return math.nan, -math.inf, 1.0
        share = left / whole
        change = -np.outer(residual, residual)  # of R²·whole with every product, off the diagonal once on either side
        change[-1, -1] += share
        change[0, -1] -= share * mean
        change[-1, 0] -= share * mean
        variance = np.tril(change * 2, -1) ** 2 * self.noise**2
        spread = math.sqrt(variance.sum() + (np.diag(change) ** 2 * np.diag(self.noise) ** 2).sum()) / whole
        width = _normal(level) * spread
        return min(1.0, 1 - share), 1 - share - width, min(1.0, 1 - share + width)

    # ---- fitted values ----------------------------------------------------------------------------------------------

    def decision(self, codes: Mapping[str, ArrayLike]) -> Floats:
        """The regression's fitted value of the target column for rows of codes: above zero predicts +1."""
        result: Floats = self.columns.matrix(codes, self.features) @ self.coefficients
        return result

    def predict(self, data: Any) -> Floats:
        """The fitted value for every row of a data frame, an Arrow table or a mapping of columns: in the target's
        units, or, for a ±1 target, its column."""
        steps = steps_of(self.columns, self.features, data)
        fitted: Floats = steps[:, list(self.features)] @ self.coefficients
        goal = self.columns.number_blocks.get(self.target)
        return fitted if goal is None else goal.middle + goal.half * fitted

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval()
        listed = zip(self.names, self.coefficients, low, high, strict=True)
        body = {
            "target": self.columns.names[self.target],
            "ridge": self.ridge,
            "level": LEVEL,
            "coefficients": {name: [float(b), float(lo), float(hi)] for name, b, lo, hi in listed},
        }
        if self.columns.numbers:
            body["effects"] = {name: list(effect) for name, effect in self.effects().items()}
        if self.target in self.columns.numbers:
            body["r2"] = list(self.r2())
        return body


@dataclass(frozen=True, eq=False, repr=False)
class Classification:
    """One regression for every value of an attribute, against the rest; the largest fitted value decides. With two
    values it is one regression, and its sign."""

    attribute: str
    values: tuple[Any, ...]  # as the schema declares them, in the order of the regressions
    regressions: tuple[Regression, ...]

    def __repr__(self) -> str:
        values = ", ".join(map(str, self.values[:_SHOWN])) + (", …" if len(self.values) > _SHOWN else "")
        return f"Classification of {self.attribute} ({values}) by {len(self.regressions[0].features) - 1} columns"

    def decision(self, data: Any) -> Floats:
        """The fitted values, one column for every regression, for every row of raw values."""
        return np.column_stack([regression.predict(data) for regression in self.regressions])

    def predict(self, data: Any) -> list[Any]:
        """The predicted value for every row of a data frame, an Arrow table or a mapping of columns."""
        fitted = self.decision(data)
        best = (fitted[:, 0] > 0).astype(int) if fitted.shape[1] == 1 else fitted.argmax(axis=1)
        return [self.values[code] for code in best.tolist()]


def _with_interval(numbers: Iterable[float]) -> str:
    value, low, high = numbers
    return f"{value:.4g} ({low:.4g} to {high:.4g})"


def _normal(level: float) -> float:
    confidence(level)
    return NormalDist().inv_cdf((1 + level) / 2)


def fit(
    columns: SignedColumns,
    n: int,
    gram: Floats,
    scales: Floats,
    target: int,
    features: list[int],
    ridge: float | None,
) -> Regression:
    """Ridge regression from a noisy Gram matrix: β = (A + ridge·I)⁻¹·b, A the features' products and b those with the
    target.

    The default ridge is twice the largest norm of a row of scales: 2·s·√P for noise of one scale s, which the noise's
    spectral norm hardly ever exceeds. Should A not be positive even so, it is doubled until it is.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    everything = np.ix_([*features, target], [*features, target])
    chosen = noise_norm(scales[everything]) if ridge is None else ridge
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
    weights = cho_solve(factor, with_target)
    more = gram[everything], scales[everything]
    return Regression(columns, target, tuple(features), weights, float(chosen), noise, factor, *more, n)


def steps_of(columns: SignedColumns, features: Iterable[int], data: Any) -> Floats:
    """All columns, between −1 and 1, for rows of raw values; attributes without a feature are not looked at."""
    from nabladp.mechanisms.learners.columns import encoded_columns

    if columns.schema is None:
        raise MechanismError("These columns have no schema.", fix="Read them from their release.")
    chosen = {columns.attribute_of[i] for i in features}
    read = [name for name in columns.kernel_columns if source_column(name) in chosen]
    codes = encoded_columns(data, columns.schema, read)
    filler = np.zeros(len(next(iter(codes.values()))) if codes else 0, dtype=np.int64)
    steps = columns.steps({name: codes.get(name, filler) for name in columns.kernel_columns})
    result: Floats = steps / np.maximum(columns.reaches, 1)
    return result


def noise_norm(scales: Floats) -> float:
    """About the largest spectral norm of symmetric noise of these scales: 2·s·√P for one scale s."""
    return 2 * math.sqrt(float((scales**2).sum(axis=1).max(initial=0.0)))
