"""How the model learns from noisy answers: A(u) ∝ exp(Σ θ_q·q(u)) over all records u. Nothing here sees the data."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.workloads.cube import Cube

UPDATES = ("fit", "paper")
_WHILE_LEARNING, _AT_THE_END = 500, 1000  # iterations of the fit: over all rounds but the last, and after the last
_CLOSE = 0.2  # of a measurement's deviation: how near the fit comes to its optimum
_TRUST = 0.5  # how strongly noisy measurements are smoothed towards the flattest model; divided by their deviation


class Update(Protocol):
    theta: Floats

    def answers(self) -> Floats: ...
    def fresh(self) -> Update: ...
    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None: ...


def gibbs(cube: Cube, theta: Floats) -> tuple[Floats, float]:
    """The distribution A(u) ∝ exp(Σ θ_q·q(u)) and the logarithm of its normaliser."""
    mass = cube.scores(theta)
    peak = float(mass.max())
    mass -= peak
    np.exp(mass, out=mass)
    total = float(mass.sum())
    mass /= total
    return mass, peak + float(np.log(total))


class Model:
    """The coefficients, and the answers of their distribution while these stay as they are."""

    def __init__(self, cube: Cube) -> None:
        self.cube = cube
        self.theta = np.zeros(len(cube.queries))
        self._answers: Floats | None = None

    def answers(self) -> Floats:
        """To every query, as shares."""
        if self._answers is None:
            self._answers = self.cube.answers(gibbs(self.cube, self.theta)[0])
        return self._answers


class PaperUpdate(Model):
    """The literal step of `alg:pdp-mwem`: θ_q rises by ½·(a − q(A_t)) for each query of the round.

    All steps of a round start from the same A_t. Where A_t has strongly dependent attributes they add up and overshoot.
    """

    def fresh(self) -> PaperUpdate:
        return PaperUpdate(self.cube)

    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None:
        np.add.at(self.theta, chosen, (np.clip(shares, 0, 1) - self.answers()[chosen]) / 2)
        self._answers = None


class EntropicFit(Model):
    """The flattest distribution that agrees with all measurements so far, as far as their noise deserves.

    Minimises ln Z(θ) − Σ θ_q·a_q + (λ/2)·Σ (σ_q·θ_q)², a convex function, so no step can overshoot. a_q is the mean of
    the query's measurements, cut to [0, 1]; σ_q its deviation. A round goes on where the one before it stopped; the
    more rounds there are, the less each has to do.
    """

    def __init__(self, cube: Cube, rounds: int) -> None:
        super().__init__(cube)
        self.rounds = rounds
        self._sum = np.zeros(len(cube.queries))
        self._precision = np.zeros(len(cube.queries))

    def fresh(self) -> EntropicFit:
        return EntropicFit(self.cube, self.rounds)

    def learn(self, chosen: Integers, shares: Floats, deviations: Floats, *, last: bool) -> None:
        from scipy.optimize import minimize

        np.add.at(self._precision, chosen, deviations**-2.0)
        np.add.at(self._sum, chosen, shares * deviations**-2.0)
        known = np.flatnonzero(self._precision)
        target = np.clip(self._sum[known] / self._precision[known], 0, 1)
        variance = 1 / self._precision[known]
        ridge = _TRUST * variance / np.sqrt(variance.max())

        def objective(theta: Floats) -> tuple[float, Floats]:
            full = np.zeros(len(self.theta))
            full[known] = theta
            mass, log_total = gibbs(self.cube, full)
            value = log_total - theta @ target + (ridge * theta) @ theta / 2
            return float(value), self.cube.answers(mass)[known] - target + ridge * theta

        goal = _CLOSE * float(np.sqrt(variance.min()))
        most = _AT_THE_END if last else max(3, _WHILE_LEARNING // self.rounds)
        options: Any = {
            "maxiter": most,
            "maxfun": 2 * most,
            "maxcor": 20,
            "ftol": 0.0,
            "gtol": goal / 10 if last else goal,
        }
        with _blas().limit(limits=1, user_api="blas"):  # its matrices are tiny: threads would only wait for each other
            found = minimize(objective, self.theta[known], jac=True, method="L-BFGS-B", options=options)
        self.theta[known] = found.x
        self._answers = None


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def update_named(name: str, cube: Cube, rounds: int) -> Update:
    return EntropicFit(cube, rounds) if name == "fit" else PaperUpdate(cube)
