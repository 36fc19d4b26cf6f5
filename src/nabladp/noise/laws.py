"""The exact laws of the noise: probabilities, intervals, variances. No randomness here."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import MechanismError, quote
from nabladp.noise.draws import exp_bounds
from nabladp.noise.parameters import MOST_DRAWN, Real, exact_number, keep_probability, noise_scale, whole_number

Kind = Literal["gaussian", "laplace"]

_ALL_TERMS = np.arange(1, 41, dtype=np.float64)  # exp(−40²/2) is below 10⁻³⁴⁷: enough for any sum with unit spacing
_SUMMED_SCALE = 256.0  # Gaussian tails are summed term by term below this scale, approximated by a series above
_CAUTION = 1e-11  # relative; tails are computed to about 1e-13


def gaussian_log_pmf(scale: Real, lowest: int, highest: int) -> Floats:
    """log P(x) of the discrete Gaussian for x = lowest … highest, normalised over all integers."""
    sigma = float(noise_scale(scale))
    x = _window(lowest, highest)
    return -((x / sigma) ** 2 / 2 + _gaussian_log_total(sigma))


def laplace_log_pmf(scale: Real, lowest: int, highest: int) -> Floats:
    """log P(x) of the discrete Laplace for x = lowest … highest: P(x) = tanh(1/(2s))·exp(−|x|/s)."""
    s = float(noise_scale(scale))
    q = math.exp(-1 / s)
    log_peak = (math.log1p(-q) if q < 0.5 else math.log(-math.expm1(-1 / s))) - math.log1p(q)
    return log_peak - np.abs(_window(lowest, highest)) / s


def half_width(kind: Kind, scale: Real, level: Real) -> int:
    """The half-width h of the noise's interval, the smallest with P(|X| ≤ h) ≥ level; the next larger one where too
    close to call."""
    s = float(noise_scale(scale))
    _known(kind)
    confidence = exact_number(level, "A confidence level")
    allowed = float(1 - confidence) if 0 < confidence < 1 else 0.0
    if allowed < 1e-300:  # as a double it would be no share of anything
        raise MechanismError("A confidence level must lie strictly between 0 and 1.", fix="Try level = 0.95.")
    tail = _gaussian_tail if kind == "gaussian" else _laplace_tail
    # Both laws satisfy P(|X| > h) ≤ 2·exp(−h²/(2s²)) or 2·exp(−h/s), which gives where to stop searching.
    reach = math.log(2 / allowed)
    too_small, enough = -1, math.ceil(s * (math.sqrt(2 * reach) if kind == "gaussian" else reach)) + 2
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if tail(s, middle) * (1 + _CAUTION) <= allowed:
            enough = middle
        else:
            too_small = middle
    return enough


def variance(kind: Kind, scale: Real) -> float:
    s = float(noise_scale(scale))
    if _known(kind) == "laplace":
        return 2 * math.exp(-1 / s) / math.expm1(-1 / s) ** 2
    k = _ALL_TERMS
    if s < 1:
        weights = np.exp(-((k / s) ** 2) / 2)
        return float(2 * (k**2 * weights).sum() / (1 + 2 * weights.sum()))
    dual = np.exp(-2 * (math.pi * s * k) ** 2)
    return float(s * s - 8 * math.pi**2 * s**4 * (k**2 * dual).sum() / (1 + 2 * dual.sum()))


def response_epsilon(size: int, keep: Real) -> float:
    """The pure ε of randomized response, ln(keep·(size−1)/(1−keep)), as a double that is never below it."""
    size = whole_number(size, "The number of codes", 1)
    p = keep_probability(keep, size)
    if size == 1:
        return 0.0
    if p == 1:
        return math.inf
    ratio = p * (size - 1) / (1 - p)
    excess = ratio - 1
    epsilon = math.log1p(excess) if excess < 1 else math.log(ratio.numerator) - math.log(ratio.denominator)
    precision = 256 + 2 * max(ratio.numerator.bit_length(), ratio.denominator.bit_length())
    while exp_bounds(Fraction(epsilon))(precision)[1] * ratio > 1 << precision:  # until exp(−ε) ≤ 1/ratio for certain
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def _gaussian_log_total(sigma: float) -> float:
    """The discrete Gaussian's normaliser ln Σ exp(−k²/(2σ²)): summed directly for small σ, by Poisson's formula from 1
    on."""
    if sigma < 1:
        return math.log1p(2 * float(np.exp(-((_ALL_TERMS / sigma) ** 2) / 2).sum()))
    dual = 2 * float(np.exp(-2 * (math.pi * sigma * _ALL_TERMS) ** 2).sum())
    return math.log(sigma * math.sqrt(2 * math.pi)) + math.log1p(dual)


def _gaussian_tail(sigma: float, h: int) -> float:
    """P(|X| > h) of the discrete Gaussian."""
    total = math.exp(_gaussian_log_total(sigma))
    if sigma < _SUMMED_SCALE:
        k = np.arange(h + 1, h + 2 + math.ceil(40 * sigma), dtype=np.float64)
        return 2 * float(np.exp(-((k / sigma) ** 2) / 2).sum()) / total
    # Euler–Maclaurin at midpoints: Σ_{k>h} f(k) = ∫ f + f'/24 − 7f'''/5760 + … at h + 1/2. The next term is below
    # 10⁻¹³ of the sum for σ ≥ 256 and any level a double can hold.
    z = (h + 0.5) / sigma
    integral = sigma * math.sqrt(math.pi / 2) * math.erfc(z / math.sqrt(2))
    density = math.exp(-z * z / 2)
    first, third = -z / sigma * density, (3 * z - z**3) / sigma**3 * density
    return 2 * (integral + first / 24 - 7 * third / 5760) / total


def _laplace_tail(s: float, h: int) -> float:
    """P(|X| > h) of the discrete Laplace."""
    return 2 * math.exp(-(h + 1) / s) / (1 + math.exp(-1 / s))


def _window(lowest: int, highest: int) -> Floats:
    limit = 1 << 53  # integers that a double holds exactly
    lowest = whole_number(lowest, "The lowest value", -limit, limit)
    highest = whole_number(highest, "The highest value", lowest, limit)
    if highest - lowest >= MOST_DRAWN >> 3:
        raise MechanismError(
            f"A window holds at most {MOST_DRAWN >> 3:,} values.", fix="Ask for probabilities nearer to the middle."
        )
    return np.arange(lowest, highest + 1, dtype=np.float64)


def _known(kind: str) -> str:
    if not isinstance(kind, str) or kind not in ("gaussian", "laplace"):
        raise MechanismError("Unknown kind of noise.", fix='Use "gaussian" or "laplace".', kind=quote(kind))
    return kind
