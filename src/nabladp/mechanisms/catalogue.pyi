"""Every mechanism of nabladp, one line each: this is the only list of them.

Type checkers and editors read it as it stands, ``registry.py`` reads it at run time. It loads nothing.
"""

# ruff: noqa: I001  (in the order in which pages list them)
from nabladp.mechanisms.statistics import Statistics as Statistics
from nabladp.mechanisms.noisy_marginals import NoisyMarginals as NoisyMarginals
from nabladp.mechanisms.projection import Projection as Projection
from nabladp.mechanisms.mwem import MWEM as MWEM
from nabladp.mechanisms.synthesis import Synthesis as Synthesis
from nabladp.mechanisms.heavy_hitters import HeavyHitters as HeavyHitters
from nabladp.mechanisms.distribution_estimate import DistributionEstimate as DistributionEstimate
from nabladp.mechanisms.learners.points import PointLearner as PointLearner
from nabladp.mechanisms.learners.thresholds import ThresholdLearner as ThresholdLearner
from nabladp.mechanisms.gram_matrix import GramMatrix as GramMatrix
from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner as HalfspaceLearner
