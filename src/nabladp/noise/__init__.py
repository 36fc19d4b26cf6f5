"""Every random draw of the library, and the exact laws of what is drawn."""

from __future__ import annotations

from nabladp.noise.laws import gaussian_log_pmf, half_width, laplace_log_pmf, response_epsilon, variance
from nabladp.noise.packings import Packings, largest_packing
from nabladp.noise.source import NoiseSource

__all__ = [
    "NoiseSource",
    "Packings",
    "gaussian_log_pmf",
    "half_width",
    "laplace_log_pmf",
    "largest_packing",
    "response_epsilon",
    "variance",
]
