"""method="gram": one noisy Gram matrix of features and label, then ridge regression of the label."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram, Regression, SignedColumns
from nabladp.mechanisms.gram_matrix.calibration import Calibration
from nabladp.mechanisms.gram_matrix.mechanism import lowest_outcome
from nabladp.mechanisms.gram_matrix.regression import noise_norm
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel
from nabladp.mechanisms.learners.halfspaces.randomized_labels import Response, answered, respond
from nabladp.mechanisms.learners.halfspaces.task import Fitted, Task
from nabladp.mechanisms.mechanism import Law, Scenario, ValueLaw
from nabladp.mechanisms.noise_uses import NoiseUse
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import Rho
from nabladp.schema import Schema
from nabladp.tables import Counts

# ---- the method ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GramFit:
    """``response``: the label is randomized first; otherwise it pays for its column like a feature."""

    task: Task
    response: Response | None = None
    ridge: float | None = None

    @classmethod
    def choose(cls, task: Task, treatment: str | None, ridge: float | None = None) -> GramFit:
        """The method "gram" with the treatment of labels asked for, or else the one that leaves less noise in products
        with the label."""
        own = cls(task, None, ridge)
        if treatment == "response":
            return cls(task, Response(task), ridge)
        response = respond(task) if treatment is None and task.label_sources else None
        if response is None:
            return own
        other = cls(task, response, ridge)
        return other if other.label_noise() < own.label_noise() else own

    @property
    def randomizes(self) -> bool:
        return self.response is not None

    @cached_property
    def mechanism(self) -> GramMatrix:
        task = self.response.rest if self.response else self.task
        target = self.response.answer if self.response else task.label
        over = task.columns.attributes
        encode = {name: how for name, how in task.columns.to_json().items() if name in over}
        return GramMatrix(Rho(1), over, encode, target, task.budgets())

    @property
    def schema(self) -> Schema:
        return self.response.schema if self.response else self.task.schema

    @cached_property
    def calibration(self) -> Calibration:
        return self.mechanism.calibration(self.schema)

    def guarantee(self) -> Guarantee:
        """The guarantee of the method "gram": randomized labels are public once given, so the matrix costs as with a
        public label."""
        matrix = replace(self.calibration, universe=self.task.universe).guarantee()  # [gram]
        return matrix + self.response.guarantee() if self.response else matrix

    def noise_uses(self) -> list[NoiseUse]:
        uses = self.calibration.noise_uses(self.task.universe)
        return [*uses, self.response.noise_use()] if self.response else uses

    # ---- noise ----------------------------------------------------------------------------------------------------

    def label_noise(self) -> float:
        """The mean standard deviation of the noise in a Gram product with the label, over columns.

        For fewer rows than columns as for as many: no regression is worth much below, and so the number of rows seldom
        matters for how the label is treated.
        """
        noise = float(np.sqrt(np.mean(self._scales(max(self.task.n, self.task.width))[:-1, -1] ** 2)))
        return noise / self.response.signal if self.response else noise

    def _scales(self, n: int) -> Floats:
        """The noise scales of all Gram products, the label's last, with the spread that randomized labels add over n
        rows."""
        classes = self.calibration.class_of
        result: Floats = 2 * self.calibration.class_scales[np.ix_(classes, classes)]
        np.fill_diagonal(result, 0.0)
        if self.response is not None:
            result[-1, :-1] = result[:-1, -1] = np.hypot(result[-1, :-1], self.response.spread(n))
        return result

    def figures(self) -> dict[str, Any]:
        expected = self.mechanism.expected_error(self.schema, self.task.n)
        how = "randomized first" if self.response else "paid for as one column" if self.task.label_sources else "public"
        figures: dict[str, Any] = {"columns of ±1, with the intercept": self.task.width, "the label": how}
        figures["noise scale of a product of two columns"] = expected.largest_scale
        if self.task.n:
            figures["noise in a product with the label, as a share of the rows"] = self.label_noise() / self.task.n
            ridge = default_ridge(self._scales(self.task.n)) if self.ridge is None else self.ridge
            figures["ridge, as a share of the rows"] = ridge / self.task.n
        return figures

    # ---- on data --------------------------------------------------------------------------------------------------

    def release(self, counts: Counts, noise: NoiseSource) -> NoisyGram:
        rows: Counts = self.response.rows(counts, noise) if self.response else counts
        return self.mechanism.run(rows, noise)

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        return self.fits(self.release(counts, noise), [self.ridge])[0]

    def fits(self, gram: NoisyGram, ridges: Sequence[float | None]) -> list[Fitted]:
        """Ridge regressions of the label from one noisy Gram matrix, one for each ridge."""  # [post-processing]
        default = default_ridge(self._scales(gram.n))
        results = []
        for ridge in ridges:
            fit = ridge_fit(gram, self.mechanism.label or "", default if ridge is None else ridge)
            signal = self.response.signal if self.response else 1.0
            facts = {"ridge": fit.ridge, "noise_scale": float(gram.scales.max())}
            deviations = np.hypot(fit.deviations, self._answer_deviations(gram, fit))
            results.append(Fitted(fit.coefficients / signal, facts, deviations / signal))
        return results

    def _answer_deviations(self, gram: NoisyGram, fit: Regression) -> Floats:
        """The deviations of weights due to randomized labels: each turned label moves all products of its row."""
        from scipy.linalg import cho_solve

        if self.response is None:
            return np.zeros(len(fit.features))
        products = gram.matrix[:-1, :-1] * (self.response.spread(gram.n) ** 2 / gram.n)
        shares = cho_solve(fit.factor, products)
        inverse = cho_solve(fit.factor, np.eye(len(fit.features)))
        return np.asarray(np.sqrt((shares * inverse).sum(axis=1).clip(0)))

    def law(self, counts: Counts) -> Law:
        if self.response is None:
            return self.mechanism.distribution(counts)
        return self.response.law(counts, self.mechanism.distribution)

    def scenarios(self, law: Law, n: int) -> Iterator[Scenario]:
        """The scenarios of the method "gram": weights are published, a function of the noisy matrix, so their law sums
        over matrices."""
        number, outputs = self._outputs(n)
        scales, reach = self.calibration.scales, reach_of(self.calibration.scales)
        counts = np.arange(-reach, n + reach + 1)
        for chance, then in answered(self.response, law):
            parts = zip(scales.tolist(), then.arrays(), strict=True)
            joint = functools.reduce(
                np.add.outer, [_log_probabilities_at(part, counts - lowest_outcome(s)) for s, part in parts]
            )
            with np.errstate(divide="ignore"):
                weights = np.log(np.bincount(number, np.exp(joint).ravel(), len(outputs)))
            yield Scenario(chance, {"weights": ValueLaw(0, weights)})

    def values(self, model: HalfspaceModel) -> dict[Hashable, int]:
        """The number of the published weights among all that a Gram matrix can give; −1 where none gives them."""
        outputs = self._outputs(model.n)[1]
        signal = self.response.signal if self.response else 1.0
        result = float(_as_one_number(*(model.weights * signal)))
        nearest = min(int(np.searchsorted(outputs, result - _APART)), len(outputs) - 1)
        return {"weights": nearest if abs(outputs[nearest] - result) < _APART else -1}

    def _outputs(self, n: int) -> tuple[Integers, Floats]:
        """For one column beside the intercept: the number of the weights of every Gram matrix, and all weights in
        order."""
        if self.task.width != 2:
            raise AuditError("The law of the weights is known for one column.", fix="Audit one feature of two values.")
        ridge = default_ridge(self._scales(n)) if self.ridge is None else self.ridge
        return _weights_of_matrices(n, ridge, reach_of(self.calibration.scales))


_APART = 1e-9  # weights that differ by less are the same
_REACH = 6.5  # scales of the noise that matrices are listed for: there is more with a probability of 10⁻¹⁰
_MOST_MATRICES = 1 << 23


def _log_probabilities_at(part: Floats, indices: Integers) -> Floats:
    """The log-probabilities at these indices of a law's part; beyond its ends there are none."""
    inside = (indices >= 0) & (indices < len(part))
    return np.where(inside, part[np.clip(indices, 0, len(part) - 1)], -np.inf)


def reach_of(scales: Floats) -> int:
    return math.ceil(_REACH * float(scales.max()))


@lru_cache(maxsize=4)
def _weights_of_matrices(n: int, ridge: float, reach: int) -> tuple[Integers, Floats]:
    """w = (A + ridge)⁻¹·b for every Gram matrix of two columns and a label, as one number each; equal ones are one."""
    if (n + 2 * reach + 1) ** 3 > _MOST_MATRICES:
        raise AuditError("The noise is too wide for the law of the weights.", fix="Audit with a larger budget.")
    counts = np.arange(-reach, n + reach + 1)
    corner, one, other = np.meshgrid(*[n - 2.0 * counts] * 3, indexing="ij")
    diagonal = np.full(corner.shape, n + ridge)
    while np.any(singular := diagonal <= np.abs(corner)):  # as in ridge_fit
        diagonal[singular] = n + np.maximum(2 * (diagonal[singular] - n), 1.0)
    determinant = diagonal**2 - corner**2
    weights = _as_one_number(
        (diagonal * one - corner * other) / determinant, (diagonal * other - corner * one) / determinant
    )
    order = np.argsort(weights, axis=None)
    ascending = weights.ravel()[order]
    new = np.append(True, np.diff(ascending) > _APART)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    return number, ascending[new]


def _as_one_number(one: Any, other: Any) -> Any:
    """Both weights of a halfspace as one number, different for different weights."""
    return one + other * (math.sqrt(5) - 1) / 2


def default_ridge(scales: Floats) -> float:
    """The default ridge of the method "gram": about the largest spectral norm of the noise, 2·s·√P for one scale s."""
    return noise_norm(scales)


def ridge_fit(gram: NoisyGram, target: str, ridge: float) -> Regression:
    """Ridge regression from noisy products; a ridge that leaves them without an inverse is doubled until it does
    not."""
    while True:
        try:
            return gram.regress(target, ridge=ridge)
        except MechanismError:
            if ridge > 1e300:
                raise
            ridge = max(2 * ridge, 1.0)


# ---- whitening -------------------------------------------------------------------------------------------------------
# Noise that is the same in all directions hurts there where the rows vary little. Rows are cut to a common length,
# which bounds what one of them can do to a sum, and the map is whole-numbered, so that the bound is exact. It is made
# from the release alone.

RADIUS = 1 << 13  # about the length of a row, on the grid
RIDGES = 2.0  # times what the noise's spectral norm hardly ever exceeds: directions below it are lost in the noise
_LEAST_RIDGE = 0.1  # however little noise: a few steps make nothing of directions in which rows hardly vary
_MOST_COMPARED = 1 << 11  # values of an attribute whose pairs are compared
LARGEST_INVERSE = 1 << 16  # entries of L⁻¹: with a ridge of 0.1 they are about 3
LARGEST_RADIUS = 1 << 18  # what follows for the radius, with at most 2,048 columns; PROOF.md says why
_LARGEST_SUM = 1 << 41  # of a row of the map, and so of every entry of a whitened row


@dataclass(frozen=True, eq=False)
class Whitening:
    """A row x of ±1 becomes ``matrix`` · x, cut to length ``radius``.

    Two rows that differ in one attribute come to lie at most ``radius`` apart, too, the cutting and its rounding
    included.
    """

    matrix: Integers
    radius: int
    ridge: float

    def __post_init__(self) -> None:
        largest = int(np.abs(self.matrix).sum(axis=1).max())
        if not 0 < self.radius < LARGEST_RADIUS or largest >= _LARGEST_SUM:  # [bounded]
            raise MechanismError("Whitened rows are too long to be added up exactly.", fix="Use a larger ridge.")

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
        """Weights of the ±1 columns, from weights of whitened coordinates in units of ``radius``."""
        result: Floats = inner @ self.matrix / self.radius
        return result


def longest_step(matrix: Floats | Integers, columns: SignedColumns) -> float:
    """An upper bound on the squared distance between two whitened rows that differ in one attribute.

    Whole, and exact, where the matrix is: squares of ways are far below 2⁵³, and so are all sums on the way to them.
    """
    single = [columns.column_ranges[block.attribute].start for block in columns.blocks if len(block.names) == 1]
    longest = 4 * float((matrix[:, single].astype(np.float64) ** 2).sum(axis=0).max(initial=0.0))
    for block in columns.blocks:
        if len(block.names) < 2:
            continue
        span = columns.column_ranges[block.attribute]
        changes = (block.positive[:, 1:] != block.positive[:, :-1]).any(axis=0)
        told_apart = block.positive[:, np.append(True, changes)]  # codes of one range are neighbours
        ends = matrix[:, span.start : span.stop].astype(np.float64) @ np.where(told_apart, 1.0, -1.0)
        ends -= ends[:, :1].copy()
        squares = (ends * ends).sum(axis=0)
        if len(squares) > _MOST_COMPARED:
            longest = max(longest, 4 * float(squares.max()))  # by way of the first
        else:
            longest = max(longest, float((squares[:, None] + squares - 2 * (ends.T @ ends)).max()))
    return longest


def _inverse_root(gram: NoisyGram) -> tuple[float, Floats]:
    """The whitening matrix L⁻¹ of a noisy Gram matrix, and its ridge, doubled until the matrix is safely positive."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    ridge = max(RIDGES * gram.noise_norm / gram.n, _LEAST_RIDGE)
    one = np.eye(len(gram.matrix))
    while True:
        with suppress(LinAlgError):
            inverse = solve_triangular(cholesky(gram.matrix / gram.n + ridge * one, lower=True), one, lower=True)
            if np.abs(inverse).max() <= LARGEST_INVERSE:  # [bounded]
                return ridge, np.asarray(inverse)
        ridge *= 2


def _usual_length(gram: NoisyGram, ridge: float, inverse: Floats) -> float:
    """About the root mean square length of whitened rows: E‖L⁻¹x‖² = tr(Q·G) for the true Gram matrix G and Q = (noisy
    + ridge)⁻¹.

    The noisy matrix instead of G gives p − ridge·tr Q, which is too small, as Q follows the noise. By how much,
    Stein's identity says: Σ s_ij²·(Q_ii·Q_jj + Q_ij²) on average.
    """
    product = inverse.T @ inverse
    own = np.diag(product)
    noise = (gram.scales / gram.n) ** 2
    result = len(own) - ridge * own.sum() + (noise * (np.outer(own, own) + product**2)).sum()
    return math.sqrt(min(max(float(result), 1.0), len(own)))
