"""Synthetic tables and marginals with a budget for every attribute."""

from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.mechanisms.synthesis.output import SyntheticModel
from nabladp.mechanisms.synthesis.view import Answer

__all__ = ["Answer", "Synthesis", "SyntheticModel"]
