"""What the rows of ``bench table1`` share: points, crossings and fitted exponents, in one common shape.

A curve is measured at a few places x. Its exponent is the slope of log(mean) over log(x); beside it stands the slope
of the mechanism's own bound at the same places.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Point = dict[str, Any]
Curve = dict[str, Any]


def seeds(many: int) -> range:
    """Other ones with NABLADP_BENCH_SEED, so that what was settled on some can be repeated on those nobody has seen."""
    first = int(os.environ.get("NABLADP_BENCH_SEED", "0"))
    return range(first, first + many)


def exponent(xs: Sequence[float], means: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float]:
    """The slope of log(mean) over log(x), and its 95% interval.

    The interval is the wider of two: what the standard errors of the points let the slope vary, and what the scatter
    of the points about the line says (Student's t), so that a curve that is no power law shows as a wide one.
    """
    from scipy.stats import t

    x, y = np.log(np.asarray(xs, float)), np.log(np.asarray(means, float))
    spread = np.asarray(errors, float) / np.asarray(means, float)
    weights = 1 / (spread**2 + max(float(np.mean(spread**2)), 1e-12))  # tempered: few runs know their spread badly
    apart = x - np.average(x, weights=weights)
    pulls = weights * apart / (weights @ apart**2)  # the slope is linear in y
    slope = float(pulls @ y)
    reach = 1.96 * float(np.sqrt(pulls**2 @ spread**2))
    if (free := len(x) - 2) > 0:
        left = y - np.average(y, weights=weights) - slope * apart
        scatter = math.sqrt(float(weights @ left**2) / free / float(weights @ apart**2))
        reach = max(reach, float(t.ppf(0.975, free)) * scatter)
    return slope, slope - reach, slope + reach


def r2(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The share of the variance of y that a straight line over x explains."""
    x, y = np.asarray(xs, float), np.asarray(ys, float)
    left = y - np.polyval(np.polyfit(x, y, 1), x)
    whole = y - y.mean()
    return float(1 - left @ left / (whole @ whole))


def point(x: float, values: Iterable[float], bound: float | None = None) -> Point:
    """Mean and standard error over runs, and what the mechanism's own bound says there."""
    found = list(values)
    spread = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return {
        "x": x,
        "mean": short(statistics.fmean(found)),
        "error": short(spread),
        "bound": None if bound is None or math.isinf(bound) else short(bound),
    }


def curve(
    name: str,
    unit: str,
    mechanism: str,
    against: str,
    what: str,
    fixed: dict[str, Any],
    points: Sequence[Point],
    paper: str,
) -> Curve:
    """``paper`` is the paper's exponent in words ("1/2", "0, up to log d")."""
    xs = [each["x"] for each in points]
    slope, low, high = exponent(xs, [each["mean"] for each in points], [each["error"] for each in points])
    bounds = [each["bound"] for each in points]
    predicted = None if None in bounds else exponent(xs, bounds, [0.0] * len(xs))[0]
    fitted = {"measured": slope, "low": low, "high": high, "predicted": predicted}
    bound = "" if predicted is None else f", by the bound {predicted:.2f}"
    print(f"{name}, per {unit}, {mechanism}: {against}^{slope:.2f} ({low:.2f} to {high:.2f}{bound})", flush=True)
    return {
        "name": name,
        "unit": unit,
        "mechanism": mechanism,
        "against": against,
        "what": what,
        "fixed": fixed,
        "points": list(points),
        "exponent": {key: value if value is None else round(value, 3) + 0.0 for key, value in fitted.items()}
        | {"paper": paper},
    }


def summary(of: Curve) -> dict[str, float | None]:
    """What the last line tells of a curve."""
    return {key: of["exponent"][key] for key in ("measured", "predicted", "low", "high")}


def least(fulfilled: Callable[[float], bool], start: float, within: float = 1e-6, most: float = 1e9) -> float:
    """The least x, up to a factor, from which on a monotone condition holds, or ∞: for needed n by a bound."""
    low = high = start
    while not fulfilled(high):
        if high > most:
            return math.inf
        low, high = high, 2 * high
    while low > 1e-9 and fulfilled(low):
        low, high = low / 2, low
    while high / low > 1 + within:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fulfilled(middle) else (middle, high)
    return high


def short(value: float) -> float:
    return float(f"{value:.4g}")
