"""MWEM with jointly picked, attribute-disjoint queries."""

from nabladp.mechanisms.mwem.mechanism import MWEM
from nabladp.mechanisms.mwem.output import FittedDistribution

__all__ = ["MWEM", "FittedDistribution"]
