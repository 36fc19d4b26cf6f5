"""What noise in the sums Σ y·x does to averaging as a learner of halfspaces: the error of its weights, worked out.

Constant margin. In every row (1 + m)/2·d features vote for its label, and weights of ±1 are right. Turn all features
so that these are +1. Over the rows let F be the sum of +1 for every label as it should be and −1 for every turned one,
turned by nature or by randomized response. Then the sum for feature j is m·F + E_j, where E_j has variance n·(1 − m²),
plus the noise Z_j. A new row gets its label wrong after γ'·d changes if and only if the sum of all votes for it is at
most twice the sum of the γ'·d largest ones. For every q the k largest of some numbers v_j add up to at most
k·q + Σ (v_j − q)_+, which bounds the expectation. The difference of both sides is a concave function of the noise, so
that its median is no less than its mean, with a Lipschitz constant of √(d+1) times its deviation. By Gaussian
isoperimetry, with Φ the normal distribution function,

    Pr[wrong | F] ≤ Φ(−s/(√(d+1)·deviation)),  s = d·(m·F/n)·(m − 2·min_q {γ'·q + E(v − q)_+})

for v of mean ±1 (+1 with probability (1 + m)/2) and the same noise, in units of m·F/n; with γ' = 0 the minimum is 0.
The mean is over F. E_j and F are taken for normal, which they are but for few rows, and E_j for independent.

Uniform rows, normal weights: a sum has mean √(2/π) along the right weights and variance n; the error is the angle
between them over π.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.halfspaces_by_dimension import TURNED, signs_schema
from nabladp import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces.average import Average
from nabladp.privacy import CDP

Floats = NDArray[np.float64]
_NORMAL = np.linspace(-4, 4, 65)
_CHANCES = np.exp(-(_NORMAL**2) / 2) / np.exp(-(_NORMAL**2) / 2).sum()
_CUTS = np.linspace(0, 8, 400)  # q, in deviations above the mean


@dataclass(frozen=True)
class Noise:
    """``deviation`` of the noise in a sum; ``kept`` is what is left of a label on average, if they are randomized."""

    deviation: float
    kept: float = 1.0


NoiseFor = Callable[[float], Noise]  # for so many rows


def own_noise(d: int, epsilon: float, public: bool) -> NoiseFor:
    """Of ``HalfspaceLearner(method="average")``, with the treatment of the label that it chooses itself."""
    task = HalfspaceLearner(CDP(epsilon), "y", method="average").learner(signs_schema(d, public), 0).task

    def noise(n: float) -> Noise:
        chosen = Average.choose(replace(task, n=math.ceil(n)), None)
        return Noise(2 * chosen.scale, chosen.response.signal if chosen.response else 1.0)

    return noise


def person_noise(d: int, epsilon: float) -> Noise:
    """Gaussian: another record moves the sums by 2√p."""
    return Noise(2 * math.sqrt(d + 1) / epsilon)


def pure_person_noise(d: int, epsilon: float) -> Noise:
    """Of density exp(−ε·largest entry/2), as another record moves no sum by more than 2: a cube of Gamma size."""
    return Noise(2 * math.sqrt((d + 2) * (d + 3) / 3) / epsilon)


def pure_person_draw(d: int, epsilon: float, draw: np.random.Generator) -> Floats:
    return draw.gamma(d + 2, 2 / epsilon) * draw.uniform(-1, 1, d + 1)


def constant_margin_error(d: int, n: float, margin: float, gamma: float, noise: Noise) -> float:
    """The chance that ``gamma``·d changes make a new row wrong, at most."""
    from scipy.special import ndtr

    kept = noise.kept * (1 - 2 * TURNED)
    signal = margin * np.maximum(kept + _NORMAL * math.sqrt((1 - kept**2) / n), 1e-9)
    deviation = math.hypot(math.sqrt((1 - margin**2) / n), noise.deviation / n) / signal
    slack = margin - 2 * (_largest(margin, gamma, deviation) if gamma else np.zeros_like(signal))
    wrong = np.where(slack > 0, ndtr(-d * slack / (deviation * math.sqrt(d + 1))), 1.0)
    return float(_CHANCES @ wrong)


def _largest(margin: float, gamma: float, deviation: Floats) -> Floats:
    """What the ``gamma``·d largest votes have on average, over d; a row for every deviation."""
    from scipy.special import ndtr

    spread = deviation[:, None]
    cut = 1 + _CUTS * spread

    def above(mean: float) -> Floats:
        z = (mean - cut) / spread
        found: Floats = spread * (z * ndtr(z) + np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))
        return found

    expected = gamma * cut + (1 + margin) / 2 * above(1) + (1 - margin) / 2 * above(-1)
    return np.asarray(expected.min(axis=1))


def uniform_error(d: int, n: float, noise: Noise) -> float:
    signal = n * math.sqrt(2 / math.pi) * noise.kept * (1 - 2 * TURNED)
    return math.atan(math.sqrt((d + 1) * (n + noise.deviation**2)) / signal) / math.pi
