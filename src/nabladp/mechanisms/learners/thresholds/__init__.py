"""ThresholdLearner: from which value on, read from the first feature to the last, the label is positive."""

from __future__ import annotations

from nabladp.mechanisms.learners.thresholds.mechanism import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.model import ThresholdModel

__all__ = ["ThresholdLearner", "ThresholdModel"]
