"""DistributionEstimate: the probabilities of combinations of very many attributes, in the sense of squared error."""

from __future__ import annotations

from nabladp.mechanisms.distribution_estimate.mechanism import DistributionEstimate
from nabladp.mechanisms.distribution_estimate.output import Distribution

__all__ = ["Distribution", "DistributionEstimate"]
