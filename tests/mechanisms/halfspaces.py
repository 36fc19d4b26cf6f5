"""HalfspaceLearner: examples of it, what of its output got noise, and faults planted in it."""

from __future__ import annotations

from typing import Any

from faults import ABY, Fault, Patches, black_box, label_is_free

from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, randomized_labels
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP

INSTANCES: list[Mechanism] = [
    HalfspaceLearner(CDP(1), "sick", over=("region", "age", "income")),
    HalfspaceLearner(CDP(1), "sick", over=("region", "age", "income"), method="gram"),
    HalfspaceLearner(CDP(1), "band", over=("region", "sick"), method="average", label_epsilon=2.0),
    HalfspaceLearner(CDP(1), "sick", over=("region", "income"), method="gradient", steps=3),
    HalfspaceLearner(CDP(2), "sick", over=("region", "income", "age"), method="robust", gamma=2 / 3, gamma_prime=1 / 3),
]


def noisy(out: Any) -> list[Any]:
    return [out.integers]


# ---- faults ---------------------------------------------------------------------------------------------------------


def half_the_response(patches: Patches) -> None:
    """Labels are kept as likely as ε allows, and ε/2 is charged."""
    true = randomized_labels.response_epsilon
    patches.set(randomized_labels, "response_epsilon", lambda size, keep: true(size, keep) / 2)


def true_labels(patches: Patches) -> None:
    """The response is charged, and labels are used as they are."""

    def rows(self: randomized_labels.Response, counts: Any, noise: NoiseSource) -> Any:
        return randomized_labels.AnsweredRows(counts, self, lambda labels, first: labels)

    patches.set(randomized_labels.Response, "rows", rows)


LABEL_FIRST: dict[str, Any] = {"method": "average", "label_treatment": "response"}
FAULTS = (
    Fault(
        "label not charged (halfspaces)",
        HalfspaceLearner(CDP(1), "y", method="average", label_treatment="gaussian"),
        ABY,
        label_is_free(HalfspaceLearner),
    ),
    Fault(
        "response off by eps/2",
        HalfspaceLearner(CDP(1), "y", **LABEL_FIRST),
        ABY,
        half_the_response,
        n=1,
        claimed_for=2,
    ),
    Fault(
        "labels used as they are",
        HalfspaceLearner(CDP(2), "y", label_epsilon=0.5, **LABEL_FIRST),
        ABY,
        true_labels,
        **black_box(2, 240, "y"),
    ),
)
