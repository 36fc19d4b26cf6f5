"""Quantiles chosen one by one: the score of the exponential mechanism, and its exact law."""

from __future__ import annotations

import math

import numpy as np

from nabladp.arrays import Floats, Integers


def rank_scores(histogram: Integers, numerator: int, denominator: int) -> Integers:
    """−den · max(0, #(V < t) − qN, qN − #(V ≤ t)) for every bin t and group: how many rows too few or too many lie
    below t."""
    upto = np.cumsum(histogram, axis=1)
    rows = upto[:, -1:]
    above = denominator * (upto - histogram) - numerator * rows
    below = numerator * rows - denominator * upto
    return np.asarray(-np.maximum(np.maximum(above, below), 0))


def selection_law(scores: Integers, scales: tuple[float, ...] | None) -> Floats:
    """Log-probabilities of every bin; without noise the first of the best is certain."""
    if scales is None:
        law = np.full(len(scores), -np.inf)
        law[int(scores.argmax())] = 0.0
        return law
    weights = (scores - scores.max()) / scales[0]
    return np.asarray(weights - math.log(np.exp(weights).sum()))
