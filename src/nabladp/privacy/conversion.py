"""From concentrated ρ to (ε, δ). Both conversions are offered by name, because they mean different things.

``paper``  the tail bound of `prop:ppdp-conversion`: except with probability δ the privacy *loss* is at most ε. Only
           this one supports statements about an adversary's posterior.
``tight``  Canonne, Kamath and Steinke (2020): the smallest ε for which every ρ-zCDP mechanism is known to be
           (ε, δ)-DP by this route; the one behind the Census Bureau's published figures.
"""

from __future__ import annotations

import math

from nabladp.checks import is_number, is_share
from nabladp.errors import BudgetError, quote

CONVERSIONS = ("tight", "paper")
_SLACK = 1e-12  # relative: covers the rounding of the few floating-point operations below


def epsilon_from_rho(rho: float, delta: float, conversion: str = "tight") -> float:
    """ε such that ρ-zCDP implies (ε, δ)-DP, rounded up. ρ = ∞ gives ∞."""
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
        raise BudgetError("delta must lie between 0 and 1.", fix="Try delta = 1e-6.")


def _paper(rho: float, delta: float) -> float:
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + _SLACK)


def _tight(rho: float, delta: float) -> float:
    """min over a > 1 of ρa + ln((a−1)/a) + (ln(1/δ) − ln a)/(a−1), clamped at 0.

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
