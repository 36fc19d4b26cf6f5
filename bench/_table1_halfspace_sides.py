"""Tables for the row of robust halfspaces, and those who learn from them: ours, and learners for whole records.

All give their error on fresh rows with true labels: the share that γ'·d changed features can make wrong. Even weights
are hard to outvote, and happen to be right on these tables. To even weights that are out costs nothing, so each side is
there with its weights as they are and with even ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._record_level import LEARNERS, SignedRows, averaging
from bench._table1_fits import least
from bench._table1_margin import (
    Floats,
    Noise,
    NoiseFor,
    constant_margin_error,
    own_noise,
    person_noise,
    pure_person_draw,
    pure_person_noise,
    uniform_error,
)
from bench.halfspaces_by_dimension import TURNED, Signs, constant_margin, fitted, uniform
from nabladp import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces.robust_distance import integer_weights, robust_error
from nabladp.privacy import CDP

TEST_ROWS = 1000


@dataclass(frozen=True)
class Problem:
    d: int
    epsilon: float
    alpha: float
    gamma: float | None  # changes that some halfspace withstands, as a share of d; None for uniform rows
    gamma_prime: float = 0.0  # changes that the learned one has to withstand

    def rows(self, n: int, seed: int) -> tuple[Signs, Signs]:
        draw = np.random.default_rng([self.d, n, seed])
        return uniform(self.d, n, draw) if self.gamma is None else constant_margin(self.d, n, draw, 2 * self.gamma)

    def predicted(self, noise: NoiseFor) -> float:
        """The rows with which averaging with this noise has error α."""

        def enough(n: float) -> bool:
            if self.gamma is None:
                return uniform_error(self.d, n, noise(n)) <= self.alpha
            return constant_margin_error(self.d, n, 2 * self.gamma, self.gamma_prime, noise(n)) <= self.alpha

        return least(enough, 100.0, 0.01)


@dataclass(frozen=True, eq=False)
class Rows:
    """To learn from, and to test on."""

    problem: Problem
    x: Signs
    y: Signs
    test_x: Signs
    test_y: Signs
    seed: int

    @classmethod
    def drawn(cls, problem: Problem, n: int, seed: int) -> Rows:
        x, y = problem.rows(n + TEST_ROWS, seed)
        turned = np.where(np.random.default_rng([n, seed]).random(n) < TURNED, -y[:n], y[:n])
        return cls(problem, x[:n], turned, x[n:], y[n:], seed)

    def error(self, weights: Any) -> float:
        """Of integer weights, or of real ones once they are rounded; the intercept's first."""
        whole = np.asarray(weights) if np.asarray(weights).dtype.kind == "i" else integer_weights(weights)
        return robust_error(self.test_x, self.test_y, whole[1:], self.problem.gamma_prime, int(whole[0]))

    @property
    def signed(self) -> SignedRows:
        return SignedRows.of(self.x, self.y)

    @property
    def draw(self) -> np.random.Generator:
        return np.random.default_rng([self.problem.d, len(self.y), self.seed, 1])


def even(weights: Floats) -> NDArray[np.int64]:
    """The same votes, all of the same weight."""
    return np.append(0, np.sign(weights[1:])).astype(np.int64)


# Learners: each gives its error on the test rows


def ours(rows: Rows, public: bool = False, method: str = "average", learner: HalfspaceLearner | None = None) -> float:
    learner = learner or HalfspaceLearner(CDP(rows.problem.epsilon), "y", method=method)
    return rows.error(fitted(rows.x, rows.y, learner, public, rows.seed).integers)


def ours_even(rows: Rows) -> float:
    learner = HalfspaceLearner(CDP(rows.problem.epsilon), "y", method="average")
    return rows.error(even(fitted(rows.x, rows.y, learner, False, rows.seed).weights))


def person_average(rows: Rows) -> float:
    return rows.error(averaging(rows.signed, rows.problem.epsilon**2 / 2, rows.draw)["once"])


def person_best(rows: Rows) -> float:
    """The best of four learners in all settings, weights as they are or even, on these very test rows: a favour."""
    signed, draw = rows.signed, rows.draw
    return min(
        rows.error(form)
        for learner in LEARNERS.values()
        for weights in learner(signed, rows.problem.epsilon**2 / 2, draw).values()
        for form in (weights, even(weights))
    )


def person_pure(rows: Rows) -> float:
    signed = rows.signed
    sums = (signed.y @ signed.z).astype(np.float64)
    return rows.error(sums + pure_person_draw(rows.problem.d, rows.problem.epsilon, rows.draw))


@dataclass(frozen=True, eq=False)
class Side:
    unit: str
    mechanism: str
    error: Callable[[Rows], float]
    noise: Callable[[Problem], NoiseFor]
    bounded: bool = True  # whether the noise says how many rows it needs, or only where to look


def _always(noise: Callable[[int, float], Noise], problem: Problem) -> NoiseFor:
    return lambda n: noise(problem.d, problem.epsilon)


def _own(problem: Problem) -> NoiseFor:
    return own_noise(problem.d, problem.epsilon, public=False)


def _own_public(problem: Problem) -> NoiseFor:
    return own_noise(problem.d, problem.epsilon, public=True)


OURS, BEST = "HalfspaceLearner(method='average')", "best of four"
SIDES: dict[str, Side] = {
    "ours": Side("attribute", OURS, ours, _own),
    "ours, public labels": Side("attribute", f"{OURS}, label public", partial(ours, public=True), _own_public),
    "ours, evened": Side("attribute", f"{OURS}, weights evened", ours_even, _own, bounded=False),
    "ours, default": Side("attribute", "HalfspaceLearner()", partial(ours, method="auto"), _own, bounded=False),
    "averaging": Side("person", "Gaussian averaging", person_average, partial(_always, person_noise)),
    BEST: Side(
        "person",
        "averaging, Gram, logistic regression by gradient descent, whitened descent: best on the test rows",
        person_best,
        partial(_always, person_noise),
        bounded=False,
    ),
    "averaging, pure": Side("person", "K-norm averaging", person_pure, partial(_always, pure_person_noise)),
}
