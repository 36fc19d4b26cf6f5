"""Projection: noisy answers to many queries, moved to the nearest answers that some table could give."""

from nabladp.mechanisms.projection.calibration import Bound, ProjectionError
from nabladp.mechanisms.projection.mechanism import Projection
from nabladp.mechanisms.projection.output import Answer, HullNote, ProjectedAnswers

__all__ = ["Answer", "Bound", "HullNote", "ProjectedAnswers", "Projection", "ProjectionError"]
