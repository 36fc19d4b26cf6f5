"""Noisy marginals: counts of value combinations with discrete Gaussian or Laplace noise."""

from nabladp.mechanisms.estimate import Estimate
from nabladp.mechanisms.noisy_marginals.mechanism import NoisyMarginals
from nabladp.mechanisms.noisy_marginals.output import MarginalTables, NoisyMarginal

__all__ = ["Estimate", "MarginalTables", "NoisyMarginal", "NoisyMarginals"]
