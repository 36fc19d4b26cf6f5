"""The noisy Gram matrix of ±1 columns: one release for every correlation and every linear regression."""

from nabladp.mechanisms.gram_matrix.mechanism import GramMatrix
from nabladp.mechanisms.gram_matrix.output import NoisyGram
from nabladp.mechanisms.gram_matrix.regression import Regression
from nabladp.mechanisms.gram_matrix.signed_columns import SignedColumns

__all__ = ["GramMatrix", "NoisyGram", "Regression", "SignedColumns"]
