"""Laws as a fault would make them, for mechanisms that have it planted."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabladp.mechanisms.mechanism import Law


def told_apart(law: Law, counts: Any) -> Law:
    """Where a count is zero, nothing but that is shown: the list of what is shown gives people away."""
    parts = []
    for part, count in zip(law.parts, counts, strict=True):
        shown = np.append(part, -np.inf)
        if count == 0:
            shown = np.full(len(shown), -np.inf)
            shown[-1] = 0.0
        parts.append(shown)
    return Law(tuple(parts), 24.0)
