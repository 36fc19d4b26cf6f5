"""ThresholdLearner: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from faults import ABY, Fault, Patches, black_box, label_is_free, settings

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds import mechanism as thresholds
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.privacy import CDP, Pure, Rho

INSTANCES: list[Mechanism] = [
    ThresholdLearner(CDP(1), "band", over=("region", "income", "sick"), search="probes"),
    ThresholdLearner(Pure(1), "sick", over=("age", "region", "income"), notion="pure", search="pick"),
]


def noisy(out: Any) -> list[Any]:
    return [np.array(out.codes), np.array([out.ones or 0])]


# ---- faults ---------------------------------------------------------------------------------------------------------


def mistakes_in_percent(patches: Patches) -> None:
    """Scores of another unit: a hundred times as loud as the scale is made for."""
    true = thresholds.mistakes
    patches.set(thresholds, "mistakes", lambda *given: 100 * true(*given))


DESIGN = Design("cdp", (2, 2), (0, 1), 9.0, "probes", 9.0, 0.5, settings("cdp", [(1, 9.0)], d=1), few=-5)
FAULTS = (
    Fault(
        "label not charged (thresholds)",
        ThresholdLearner(Rho(99), "y", design=DESIGN),
        ABY,
        label_is_free(ThresholdLearner),
    ),
    Fault(
        "mistakes in per cent",
        ThresholdLearner(Rho(99), "y", design=dataclasses.replace(DESIGN, ones_scale=9.0)),
        ABY,
        mistakes_in_percent,
        **black_box(2, 400, "y", others={"a": 1, "b": 1, "y": 1}),
    ),
)
