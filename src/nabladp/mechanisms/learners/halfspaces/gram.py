"""method="gram": one noisy Gram matrix of features and label, then ridge regression of the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError
from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram, Regression
from nabladp.mechanisms.gram_matrix.calibration import Calibration
from nabladp.mechanisms.gram_matrix.regression import noise_norm
from nabladp.mechanisms.learners.halfspaces.response import Response, respond
from nabladp.mechanisms.learners.halfspaces.task import Fitted, Task
from nabladp.mechanisms.mechanism import Law
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import Rho
from nabladp.schema import Schema
from nabladp.tables import Counts


@dataclass(frozen=True, eq=False)
class GramFit:
    """``response``: the label is randomized first; otherwise it pays for its column like a feature."""

    task: Task
    response: Response | None = None
    ridge: float | None = None

    @classmethod
    def choose(cls, task: Task, treatment: str | None, ridge: float | None = None) -> GramFit:
        """With the treatment asked for, or else the one that leaves less noise in the products with the label."""
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
        """The answers are public once they are given, so the matrix costs what it costs with a public label."""
        matrix = replace(self.calibration, universe=self.task.universe).guarantee()  # [gram]
        return matrix + self.response.guarantee() if self.response else matrix

    # ---- noise ----------------------------------------------------------------------------------------------------

    def label_noise(self) -> float:
        """The deviation of the noise in a product with the label, on average over columns.

        For fewer rows than columns as for as many: no regression is worth much below, and so the number of rows seldom
        matters for how the label is treated.
        """
        noise = float(np.sqrt(np.mean(self._scales(max(self.task.n, self.task.width))[:-1, -1] ** 2)))
        return noise / self.response.signal if self.response else noise

    def _scales(self, n: int) -> Floats:
        """Of the noise in all products, the label's last, with the spread that answers give to n rows of them."""
        classes = self.calibration.class_of
        found: Floats = 2 * self.calibration.class_scales[np.ix_(classes, classes)]
        np.fill_diagonal(found, 0.0)
        if self.response is not None:
            found[-1, :-1] = found[:-1, -1] = np.hypot(found[-1, :-1], self.response.spread(n))
        return found

    def figures(self) -> dict[str, Any]:
        expected = self.mechanism.expected_error(self.schema, self.task.n)
        how = "randomized first" if self.response else "paid for as one column" if self.task.label_sources else "public"
        told: dict[str, Any] = {"columns of ±1, with the intercept": self.task.width, "the label is": how}
        told["noise scale of a product of two columns"] = expected.largest_scale
        if self.task.n:
            told["noise in a product with the label, as a share of the rows"] = self.label_noise() / self.task.n
            ridge = default_ridge(self._scales(self.task.n)) if self.ridge is None else self.ridge
            told["ridge, as a share of the rows"] = ridge / self.task.n
        return told

    # ---- on data --------------------------------------------------------------------------------------------------

    def release(self, counts: Counts, noise: NoiseSource) -> NoisyGram:
        rows: Counts = self.response.rows(counts, noise) if self.response else counts
        return self.mechanism.run(rows, noise)

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted:
        return self.fits(self.release(counts, noise), [self.ridge])[0]

    def fits(self, gram: NoisyGram, ridges: Sequence[float | None]) -> list[Fitted]:
        """Post-processing: as many fits as wanted from one release."""  # [post-processing]
        default = default_ridge(self._scales(gram.n))
        found = []
        for ridge in ridges:
            fit = ridge_fit(gram, self.mechanism.label or "", default if ridge is None else ridge)
            signal = self.response.signal if self.response else 1.0
            facts = {"ridge": fit.ridge, "noise_scale": float(gram.scales.max())}
            deviations = np.hypot(fit.deviations, self._answer_deviations(gram, fit))
            found.append(Fitted(fit.coefficients / signal, facts, deviations / signal))
        return found

    def _answer_deviations(self, gram: NoisyGram, fit: Regression) -> Floats:
        """What answers add: each turned label moves all products of its row, so their noise goes like the products."""
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


def default_ridge(scales: Floats) -> float:
    """About the spectral norm of the noise, at most: 2·s·√P for noise of one scale s."""
    return noise_norm(scales)


def ridge_fit(gram: NoisyGram, target: str, ridge: float) -> Regression:
    """One that leaves the noisy products without an inverse is doubled until it does not: a release is never lost."""
    while True:
        try:
            return gram.regress(target, ridge=ridge)
        except MechanismError:
            if ridge > 1e300:
                raise
            ridge = max(2 * ridge, 1.0)
