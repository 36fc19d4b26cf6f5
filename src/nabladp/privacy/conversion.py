"""From concentrated ρ to (ε, δ): two conversions by name, because they mean different things; and the tighter ε of
discrete Gaussian noise, from its privacy-loss distribution."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nabladp.checks import is_number, is_share
from nabladp.errors import BudgetError, GuaranteeError, quote
from nabladp.privacy.terms import Term, WeightTerm
from nabladp.privacy.units import to_float

CONVERSIONS = ("tight", "paper")
_SLACK = 1e-12  # relative: covers the rounding of the few floating-point operations below


def epsilon_from_rho(rho: float, delta: float, conversion: str = "tight") -> float:
    """ε such that ρ-zCDP implies (ε, δ)-DP, by the named conversion, rounded up. ρ = ∞ gives ∞."""
    check_conversion(conversion, CONVERSIONS)
    check_delta(delta)
    if isinstance(rho, float) and rho == math.inf:
        return math.inf
    if not is_number(rho) or rho < 0:
        raise BudgetError("ρ must be a number, at least zero.", fix="Give rho as a float; infinity means no bound.")
    if rho == 0:
        return 0.0
    rho, delta = float(rho), float(delta)
    return _paper(rho, delta) if conversion == "paper" else _tight(rho, delta)


def check_conversion(conversion: str, known: tuple[str, ...] = (*CONVERSIONS, "discrete_gaussian")) -> None:
    if not isinstance(conversion, str) or conversion not in known:
        raise BudgetError(
            f"There is no conversion {quote(conversion)}.",
            fix="Use 'tight' or 'paper'; a guarantee also knows 'discrete_gaussian'.",
        )


def check_delta(delta: float) -> None:
    if not is_share(delta):
        raise BudgetError(f"delta must lie strictly between 0 and 1, and is {quote(delta)}.", fix="Try delta = 1e-6.")


def _paper(rho: float, delta: float) -> float:
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + _SLACK)


def _tight(rho: float, delta: float) -> float:
    """The tight conversion to ε: min over a > 1 of ρa + ln((a−1)/a) + (ln(1/δ) − ln a)/(a−1), clamped at 0.

    The derivative is ρ − (ln(1/δ) − ln a)/(a−1)², so Newton's method on ρ(a−1)² + ln a = ln(1/δ) finds the minimiser.
    Every a > 1 gives a valid bound: stopping early can only make the figure a little too large.
    """
    log_inverse = -math.log(delta)
    shift = math.sqrt(log_inverse / rho)  # a − 1; starts above the root
    for _ in range(12):
        step = (rho * shift * shift + math.log1p(shift) - log_inverse) / (2 * rho * shift + 1 / (1 + shift))
        shift = max(shift - step, shift / 8)
        if abs(step) <= 1e-6 * shift:  # the bound is flat at its minimum: its own error is of order 1e-12
            break
    # ln((a−1)/a) = −ln(1 + 1/(a−1)): written so that nothing cancels when a is huge.
    terms = (rho * (1 + shift), -math.log1p(1 / shift), (log_inverse - math.log1p(shift)) / shift)
    return max(sum(terms) + _SLACK * sum(map(abs, terms)), 0.0)


def rho_for(eps: float, delta: float) -> float:
    """The largest ρ (rounded down) whose tight conversion at δ is at most ε."""
    low, high = 0.0, max(1.0, 2 * eps)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_from_rho(middle, delta) <= eps else (low, middle)
    return low


Array = NDArray[np.float64]
_POINTS = 1 << 13  # lattice points kept
_ROUNDING = 1e-9  # relative: more than the accumulated rounding of positive sums and products here
_REACH = 9.5  # standard deviations kept on each side


def epsilon_of_terms(terms: Iterable[tuple[Term, int]], attributes: frozenset[str], delta: float) -> float:
    """ε at δ of discrete Gaussian terms, from their privacy-loss distribution; pure terms add their ε. Others have
    none."""
    pure_units = 0
    draws: Counter[float] = Counter()
    for term, count in terms:
        cost = term.cost(attributes)
        if cost.pure is not None:
            pure_units += count * cost.pure
        elif isinstance(term, WeightTerm) and term.gaussian_scale is not None:
            draws[term.gaussian_scale] += 2 * count
        else:
            raise GuaranteeError(
                "The discrete-Gaussian figure covers noisy marginals and pure releases only.",
                fix="Use conversion='tight' for this set.",
            )
    return (to_float(pure_units) + _epsilon(draws, delta)) * (1 + 1e-12)


def _epsilon(draws: Counter[float], delta: float) -> float:
    if not draws:
        return 0.0
    losses, masses, escaped = _compose(draws)
    if escaped >= delta:
        return math.inf
    return _smallest_epsilon(losses, masses, (delta - escaped) / (1 + _ROUNDING))


def _smallest_epsilon(losses: Array, masses: Array, delta: float) -> float:
    """The smallest ε ≥ 0 of a privacy-loss distribution with Σ mass·max(0, 1 − e^{ε − loss}) ≤ δ, by bisection, from
    above."""

    def exceeds(epsilon: float) -> bool:
        above = losses > epsilon
        return float(np.sum(masses[above] * -np.expm1(epsilon - losses[above]))) > delta

    if not exceeds(0.0):
        return 0.0
    low, high = 0.0, float(losses[-1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def _compose(draws: Counter[float]) -> tuple[Array, Array, float]:
    """The composed privacy-loss distribution: losses (rising), their masses, and the mass that escaped to an infinite
    loss."""
    groups = [_one_scale(scale, count) for scale, count in sorted(draws.items())]
    if len(groups) == 1:
        return groups[0]
    lowest = math.fsum(losses[0] for losses, *_ in groups)
    step = _step(groups)
    total, escaped = Lattice(1, 0, np.ones(1)), math.fsum(group[2] for group in groups)
    for losses, masses, _ in groups:
        above = losses - losses[0]  # only what lies above a group's lowest loss goes onto the grid
        positions = np.zeros(1, dtype=np.int64) if step == 0 else np.ceil(above / step).astype(np.int64)
        positions[positions * step < above] += 1
        total = total.plus(Lattice(1, 0, np.bincount(positions, weights=masses).astype(np.float64)))
    return lowest + total.points * step, total.masses, escaped + total.escaped


def _step(groups: list[tuple[Array, Array, float]]) -> float:
    """The lattice step of a privacy-loss distribution: fine for the spread of the sum, coarse for the widest group; 0
    if all are single points."""
    deviation = math.sqrt(math.fsum(_variance(losses, masses) for losses, masses, _ in groups))
    widest = max(float(losses[-1] - losses[0]) for losses, *_ in groups)
    return max(2 * _REACH * deviation / _POINTS, widest / _POINTS)


def _variance(losses: Array, masses: Array) -> float:
    share = masses / masses.sum()
    mean = float(share @ losses)
    return float(share @ (losses - mean) ** 2)


def _one_scale(scale: float, count: int) -> tuple[Array, Array, float]:
    """The privacy-loss distribution of ``count`` cells with discrete Gaussian noise of one scale."""
    noise = _noise(scale)
    reach = (len(noise.masses) // 2) * noise.step
    outside = count * 2 * math.exp(-(reach**2) / (2 * scale * scale))
    total = noise.narrow().power(count)
    return (count + 2 * total.points) / (2 * scale * scale), total.masses, total.escaped + outside


def _noise(scale: float) -> Lattice:
    """One cell's discrete Gaussian noise, on a window outside which next to nothing lies; never below the true
    masses."""
    step = 1
    while 2 * _REACH * scale / step > 1 << 16:
        step *= 2
    reach = math.ceil(_REACH * scale / step) + 2
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    if step == 1:
        weights = np.exp(-(points**2) / (2 * scale * scale))
        return Lattice(1, -reach, weights / weights.sum())
    # The integers in (point − step, point] move up to the point: as many of them times the largest of their masses.
    nearest = np.maximum(np.abs(points) - 1, 0) * step
    return Lattice(step, -reach, step * np.exp(-(nearest**2) / (2 * scale * scale)) / (scale * math.sqrt(2 * math.pi)))


@dataclass(frozen=True)
class Lattice:
    """A distribution on multiples of ``step`` (the first at ``start·step``), with mass that escaped upward."""

    step: int
    start: int
    masses: Array
    escaped: float = 0.0

    @property
    def points(self) -> Array:
        return (self.start + np.arange(len(self.masses), dtype=np.float64)) * self.step

    def narrow(self) -> Lattice:
        """Narrow a privacy-loss distribution: cut the tails; while too wide, double the step, rounding up."""
        start, masses, lost = _trim(self.start, self.masses)
        kept = Lattice(self.step, start, masses, self.escaped + lost)
        return kept.coarser().narrow() if len(masses) > _POINTS else kept

    def coarser(self) -> Lattice:
        pad = self.start & 1 ^ 1  # pairs end on even positions: an odd one moves up to the next even one
        padded = np.concatenate([np.zeros(pad), self.masses, np.zeros((pad + len(self.masses)) & 1)])
        return Lattice(2 * self.step, (self.start - pad + 1) // 2, padded.reshape(-1, 2).sum(axis=1), self.escaped)

    def plus(self, other: Lattice) -> Lattice:
        """The sum of two independent privacy losses."""
        one, two = self, other
        while one.step < two.step:
            one = one.coarser()
        while two.step < one.step:
            two = two.coarser()
        masses = np.convolve(one.masses, two.masses)
        return Lattice(one.step, one.start + two.start, masses, one.escaped + two.escaped).narrow()

    def power(self, count: int) -> Lattice:
        """The sum of ``count`` independent privacy losses, by repeated doubling."""
        total: Lattice | None = None
        doubled = self
        while True:
            if count & 1:
                total = doubled if total is None else total.plus(doubled)
            count >>= 1
            if not count:
                return total or doubled
            doubled = doubled.plus(doubled)


def _trim(start: int, masses: Array, tail: float = 1e-18) -> tuple[int, Array, float]:
    """Drop the far tails of a privacy-loss distribution: the upper one escapes to infinite loss, the lower one moves up
    to the first point kept."""
    upper = np.cumsum(masses[::-1])[::-1]
    last = int(np.searchsorted(-upper, -tail, side="left"))
    lost = float(upper[last]) if last < len(masses) else 0.0
    lower = np.cumsum(masses)
    first = min(int(np.searchsorted(lower, tail)), max(last - 1, 0))
    kept = masses[first:last].copy()
    if first:
        kept[0] += lower[first - 1]
    return start + first, kept, lost
