"""Whether noise is as large as stated: the truth is accepted, thirty percent less or more is not."""

from __future__ import annotations

import math
from typing import Any


def check_unit_spread(residual: Any, errors: float = 5) -> None:
    """``residual``: noise over its stated deviation. The mean square is 1, give or take so many standard errors."""

    def fits(shrink: float) -> bool:
        square = (shrink * residual) ** 2
        return bool(abs(square.mean() - 1) < errors * square.std() / math.sqrt(len(square)))

    assert fits(1.0) and not fits(0.7) and not fits(1.3)
