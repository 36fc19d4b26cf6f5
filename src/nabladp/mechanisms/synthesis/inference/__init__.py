"""Noisy marginals in, a distribution out: nothing here sees data or spends anything."""

from nabladp.mechanisms.synthesis.inference.fitting import fit, fit_seconds
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree, admit, model_bytes
from nabladp.mechanisms.synthesis.inference.measurement import Measurement, Zeros
from nabladp.mechanisms.synthesis.inference.misses import Miss
from nabladp.mechanisms.synthesis.inference.model import Model
from nabladp.mechanisms.synthesis.inference.pooling import Pooled, on_simplex, pool

__all__ = [
    "JunctionTree",
    "Measurement",
    "Miss",
    "Model",
    "Pooled",
    "Zeros",
    "admit",
    "fit",
    "fit_seconds",
    "model_bytes",
    "on_simplex",
    "pool",
]
