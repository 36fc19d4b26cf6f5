"""The convex problem behind a fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError
from nabladp.mechanisms.synthesis.inference.descent import minimise
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, spread
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.mechanisms.synthesis.inference.residuals import Parts, Residual

_SMOOTH_ONE, _SMOOTH = 0.2, 0.7  # how strongly residuals on one attribute, and on several, are drawn towards zero
_LEAST_DEVIATION = 0.05  # of a row: no fit has to be closer than whole rows
_WORST = 10  # a single part may be so many times as far off as all are on average


class Dual:
    """n·ln Z(Φ) − Σ_A ⟨Φ_A, z_A⟩ + ½·Σ_A r_A·|Φ_A|², to be minimised.

    z_A are the measured residuals (see ``residuals``), Φ_A those of the sum of all potentials, and r_A is about half a
    deviation of z_A: at the optimum the model misses z_A by r_A·Φ_A. This is the dual of minimising n·KL(p ‖ uniform)
    + Σ_A |n·p_A − z_A|²/(2·r_A) over distributions p.

    Potentials θ_S are kept on the largest measured sets that clusters hold. What several of them could hold alike may
    lie with any: only Φ counts. So no step is spent on shifting it to and fro, which would take most of them.
    """

    def __init__(
        self,
        tree: JunctionTree,
        total: float,
        known: Mapping[Names, Residual],
        zeros: Sequence[Zeros],
        ridge: float = 1.0,
    ) -> None:
        inside = [part for part in known if tree.home(part) is not None]
        largest = [part for part in inside if not any(set(part) < set(other) for other in inside)]
        self.total = total
        self.network = Network(tree, largest, zeros)
        self.places = self.network.places
        self.parts = Parts(tree.sizes, [place.names for place in self.places], inside)
        self._refuse_nothing_left()
        order = [known[part] for part in self.parts.parts]
        deviation = np.array([max(math.sqrt(r.variance), _LEAST_DEVIATION) for r in order])
        pull = ridge * deviation * [_SMOOTH_ONE if len(part) == 1 else _SMOOTH for part in self.parts.parts]
        self.variance = deviation**2
        self.pull = np.repeat(pull, np.diff(self.parts.bounds))
        at = self.parts.at
        even = np.repeat(total / np.diff(at), np.diff(at))
        self.target = self.parts.spread(np.concatenate([_NONE, *(r.values.ravel() for r in order)])) + even
        strength = dict(zip(self.parts.parts, pull, strict=True))
        own = np.repeat([strength[tuple(sorted(place.names))] for place in self.places], np.diff(at))
        self.scale = 1 / np.sqrt(np.maximum(self.target, 0) + own)  # about the curvature in each direction
        self._room = self.network.empty()

    def _refuse_nothing_left(self) -> None:
        if math.isinf(self.network.beliefs([np.zeros(place.shape) for place in self.places])[0]):
            raise MechanismError(
                "The declared zeros contradict each other: no combination of values is left.",
                fix="Declare fewer combinations impossible.",
            )

    def split(self, theta: Floats) -> list[Floats]:
        at = self.parts.at
        return [theta[at[i] : at[i + 1]].reshape(place.shape) for i, place in enumerate(self.places)]

    def value(self, theta: Floats) -> tuple[float, Floats]:
        """And the gradient."""
        log_total, beliefs = self.network.beliefs(self.split(theta), self._room)
        mean = np.concatenate([table.ravel() for table in self.network.marginals(beliefs)])
        pulled = self.parts.spread(self.parts.centred(self.parts.means(theta)) * self.pull)
        mean *= self.total
        mean -= self.target
        return self.total * log_total + float(theta @ (pulled / 2 - self.target)), mean + pulled

    def gap(self, gradient: Floats) -> float:
        """How far the model is from the optimum at most, in deviations of the noise: the root mean square over all
        residuals, or a tenth of the worst residual's, whichever is larger.

        The gradient g of a residual bounds it: moving to the optimum changes n·p by H(H+R)⁻¹g, where H ≥ 0 is the
        curvature of n·ln Z and R that of the rest, and that is no longer than g in R's norm.
        """
        squares = np.add.reduceat(self.parts.of(gradient) ** 2, self.parts.bounds[:-1]) / self.variance
        worst = float((squares / self.parts.dimensions).max())
        return max(math.sqrt(float(squares.sum() / self.parts.dimensions.sum())), math.sqrt(worst) / _WORST)

    def solve(self, warm: Iterable[tuple[Names, Floats]], close: float, most: int) -> tuple[list[Floats], float, int]:
        """Potentials, the gap, and how many times the function was asked."""
        if not self.places:
            return [], 0.0, 0

        def scaled(x: Floats) -> tuple[float, Floats]:
            value, gradient = self.value(x * self.scale)
            return value, gradient * self.scale

        def done(gradient: Floats) -> bool:
            return self.gap(gradient / self.scale) <= close

        x, gradient, asked = minimise(scaled, self._start(warm) / self.scale, done, most)
        return self.split(x * self.scale), self.gap(gradient / self.scale), asked

    def _start(self, warm: Iterable[tuple[Names, Floats]]) -> Floats:
        """Earlier potentials, as far as there is still a place for them."""
        theta = np.zeros(len(self.target))
        tables = self.split(theta)
        for names, potential in warm:
            home = next((i for i, place in enumerate(self.places) if set(names) <= set(place.names)), None)
            if home is not None:
                tables[home] += spread(potential, names, self.places[home].names)
        return theta


_NONE = np.empty(0)
