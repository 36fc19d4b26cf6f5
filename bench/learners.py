"""Points and thresholds over d bits: is the planned number of rows enough, and how does it grow with d?

α = 0.1, ε0 = 1 for every attribute, failure probability 0.1. Beside it d/(α·ε), what the same needs with the budget for
the whole person, up to a constant (`thm:point-and-threshold-func-intro` and what it is contrasted with).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bench import _points, _thresholds

SECONDS = {"full": 220, "quick": 80}
ALPHA, EPSILON = 0.1, 1.0


def run(quick: bool) -> dict[str, object]:
    rates: dict[str, object] = {}
    grown: dict[str, object] = {}
    smallest = 1.0
    for name, kind in (("points", _points), ("thresholds", _thresholds)):
        rates[name] = kind.success_rates(quick)
        smallest = min(smallest, *rates[name].values())
        grown[name] = {notion: growth(needed) for notion, needed in kind.needed_n(quick).items()}
    return {
        "success_rate": smallest,
        "success_rates": rates,
        "needed": grown,
        "needed_one_pick": {"thresholds": _thresholds.needed_for_one_pick()},
        "alpha": ALPHA,
        "epsilon": EPSILON,
    }


def growth(needed: Mapping[int, int]) -> dict[str, object]:
    """The needed n with its fit slope·log2 d + start, and the power of d that it grows with."""
    x, n = np.log2(np.array(list(needed))), np.array(list(needed.values()), dtype=np.float64)
    slope, start = np.polyfit(x, n, 1)
    left = float(((n - slope * x - start) ** 2).sum() / ((n - n.mean()) ** 2).sum())
    return {
        "n": dict(needed),
        "slope_log_d": round(float(slope), 1),
        "r2_log_d": round(1 - left, 4),
        "power_of_d": round(float(np.polyfit(x, np.log2(n), 1)[0]), 3),
        "standard": {d: math.ceil(d / (ALPHA * EPSILON)) for d in needed},
    }
