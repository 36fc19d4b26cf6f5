"""Robust halfspaces: HalfspaceLearner, exact distances to the boundary, and private selection from finite classes."""

from __future__ import annotations

from nabladp.mechanisms.learners.halfspaces.mechanism import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel
from nabladp.mechanisms.learners.halfspaces.robust_distance import (
    NEVER,
    Halfspace,
    distance_to_flip,
    integer_weights,
    robust_error,
)

__all__ = [
    "NEVER",
    "Halfspace",
    "HalfspaceLearner",
    "HalfspaceModel",
    "distance_to_flip",
    "integer_weights",
    "robust_error",
]
