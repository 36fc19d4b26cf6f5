"""PointLearner: which one combination of features carries the label."""

from __future__ import annotations

from nabladp.mechanisms.learners.points.mechanism import PointLearner
from nabladp.mechanisms.learners.points.model import PointModel

__all__ = ["PointLearner", "PointModel"]
