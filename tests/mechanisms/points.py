"""PointLearner: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from faults import AB, Fault, label_is_free, settings

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.privacy import CDP, Pure, Rho

INSTANCES: list[Mechanism] = [
    PointLearner(CDP(2), "sick", over=("region", "age")),
    PointLearner(Pure(4), "sick", over=("region", "band"), notion="pure"),
]


def noisy(out: Any) -> list[Any]:
    return [np.array(out.point), np.array([0 if out.count is None else out.count])]


# ---- faults ---------------------------------------------------------------------------------------------------------


FAULTS = (
    Fault(
        "label not charged (points)",
        PointLearner(Rho(9), "b", settings=settings("cdp", [(1, 1.2)])),
        AB,
        label_is_free(PointLearner),
    ),
)
