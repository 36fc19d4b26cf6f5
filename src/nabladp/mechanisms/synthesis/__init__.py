"""Synthetic tables and marginals with a budget for every attribute."""

from nabladp.mechanisms.synthesis.answer import Answer
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.mechanisms.synthesis.output import SyntheticModel

__all__ = ["Answer", "Synthesis", "SyntheticModel"]
