"""Drafts of the concentrated tree: thresholds and how ρ is split over the levels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.planning.certificate import Sieve, list_bounds
from nabladp.mechanisms.heavy_hitters.planning.search import Draft, Goal, feasible, tuned
from nabladp.mechanisms.heavy_hitters.planning.shape import Shape

_LENGTHS = np.geomspace(30, 1, 12)[:, None]  # lists below the root: the longest allowed over this, squared
_ROUNDS = 12
_QUANTILE = NormalDist().inv_cdf
_SLACK = 1e-11


def estimates(shape: Shape, goal: Goal) -> Iterator[tuple[float, Floats]]:
    """A quick figure for the best draft of this shape, and where it is: thresholds, and logarithms of shares of ρ.

    A level with noise σ that lets a false candidate pass with the tail beyond a·σ and misses with the tail beyond m·σ
    certifies f = (a + m)·σ. With all levels at the same f, Σ 1/σ² = ρ gives f² = Σ (a + m)²/ρ. What is left is to
    split the failure probability, for which (a + m)/(nodes·density(m)) is the same at all levels at the best split.
    """
    lengths = goal.largest_list / _LENGTHS**2
    candidates = np.array([_widest(shape, float(length)) for length in lengths[:, 0]])
    target = np.repeat(lengths, len(shape.nodes), axis=1)
    target[:, -1] = goal.largest_list / 1.2  # nothing is joined with the root's
    a, m = np.full(target.shape, 3.5), np.full(target.shape, 4.0)
    f, split = np.zeros((len(lengths), 1)), np.full(target.shape, 1 / len(shape.nodes))
    for _ in range(_ROUNDS):
        f = np.sqrt(((a + m) ** 2).sum(axis=1, keepdims=True) / goal.budget)
        scale = f / (a + m)
        data = 0.9 * goal.n / np.maximum(a * scale + 0.5 * scale, 1)
        rate = np.minimum(np.maximum(target - data, target / 4), goal.false_listed) / candidates
        a = _beyond(np.clip(rate, 1e-300, 0.5))
        a = np.maximum(a, goal.n / (0.8 * target * scale))  # so that the data cannot fill a list
        strings = goal.n / f if goal.frequency is None else np.minimum(goal.n / f, 1 / goal.frequency)
        m = _beyond(np.clip(split * goal.failure / np.maximum(strings, 1) / shape.nodes, 1e-300, 0.4))
        weight = shape.nodes * np.exp(-(m**2) / 2) / (a + m)
        split = weight / weight.sum(axis=1, keepdims=True)
    best = int(np.argmin(f))
    scale = f[best] / (a + m)[best]
    yield float(f[best, 0]), np.concatenate([np.ceil(a[best] * scale), -2 * np.log(scale)])


def _beyond(tails: Floats) -> Floats:
    """How many standard deviations a normal variable exceeds with these probabilities."""
    return np.array([-_QUANTILE(tail) for tail in tails.ravel().tolist()]).reshape(tails.shape)


def _widest(shape: Shape, length: float) -> Floats:
    """Candidates of the widest node of every level, if all lists have this length."""
    levels = len(shape.nodes)
    candidates = list_bounds(shape, (np.full(levels, length), np.zeros(levels)))[1]
    candidates[shape.levels[0]] *= shape.thresholded
    return np.array([min(float(candidates[level].max()), 1e290) for level in shape.levels[shape.lowest :]])


def tune(shape: Shape, goal: Goal, start: Floats) -> tuple[float, Draft | None]:
    levels = len(shape.nodes)

    def build(point: Floats) -> Draft | None:
        thresholds = np.round(point[:levels])
        if thresholds.min() < 0:
            return None
        shares = np.exp(point[levels:] - point[levels:].max())
        scales = np.sqrt(shares.sum() / (goal.budget * shares)) * (1 + _SLACK)
        return Draft(shape, Sieve("cdp", thresholds, scales))

    wide = 2.0 ** max(0, round(math.log2(max(start[:levels].max(), 1) / 16)))
    steps, last = np.full(2 * levels, wide), np.full(2 * levels, max(1.0, wide / 8))
    steps[levels:], last[levels:] = 0.1, 0.05
    harder = np.repeat([wide, 0.0], levels)  # where lists come out too long, raise all thresholds
    return tuned(feasible(start, harder, build, goal), steps, last, build, goal)
