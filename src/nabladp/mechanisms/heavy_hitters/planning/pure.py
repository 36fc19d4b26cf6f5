"""Drafts of the pure tree: clip μ, lowest threshold, rises, and the split between finding and counting.

Lists stay short if μ/λ is large enough, and λ·ε depends on μ/λ and the rises over λ, hardly on λ itself. So these
ratios are what is searched: μ, thresholds and at last λ, exactly, follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.loss import count_scale, least_path_lambda
from nabladp.mechanisms.heavy_hitters.planning.certificate import Sieve
from nabladp.mechanisms.heavy_hitters.planning.search import ERROR_CAUTION, Draft, Goal, feasible, tuned
from nabladp.mechanisms.heavy_hitters.planning.shape import Shape

_SHARE = 0.2  # of the budget, for counts: where the tuning starts
# Clip and rise over λ (the rise as a part of the clip), and how far the lowest threshold lies above the clip.
_CLIP, _RISE, _ABOVE = np.meshgrid(
    np.linspace(1, 26, 26), np.linspace(0.0, 1.0, 21), [0.0, 0.25, 0.5, 1.0, 2.0, 4.0], indexing="ij"
)


def estimates(shape: Shape, goal: Goal) -> Iterator[tuple[float, Floats]]:
    """Quick figures for the best drafts of this shape, and where: clip, height above it, rises, share of counts.

    Two of them, with small and with large rises: between them the loss has a hump that tuning does not cross.
    """
    share = _SHARE if goal.count_share is None else goal.count_share
    height = len(shape.nodes)
    steps = np.sum([_step(-_CLIP + i * _CLIP * _RISE) for i in range(height)], axis=0)
    lam = (steps + 1) / ((1 - share) * goal.budget)
    lowest, rise = lam * _CLIP + _ABOVE * _unit(lam, goal), lam * _CLIP * _RISE
    top = lowest + (height - 1) * rise
    weight = sum(count * np.exp(-(height - 1 - i) * rise / lam) for i, count in enumerate(shape.nodes))
    strings = goal.n / top if goal.frequency is None else np.minimum(goal.n / top, 1 / goal.frequency)
    beta = 1 / np.minimum(share * goal.budget, (share * goal.budget + 1 / lam) / 2)
    value = top + lam * np.log(np.maximum(strings * weight / (2 * goal.failure), 1))
    value += beta * np.log(np.maximum(ERROR_CAUTION * strings / goal.failure, 1))
    value[~_lists_bounded(shape, goal, lam, lowest, rise)] = math.inf
    for part in (_RISE < 0.45, _RISE >= 0.45):
        best = np.unravel_index(np.argmin(np.where(part, value, math.inf)), value.shape)
        rises = np.full(height - 1, _CLIP[best] * _RISE[best])
        yield float(value[best]), np.array([_CLIP[best], _ABOVE[best], *rises, share])


def _step(x: Floats) -> Floats:
    """λ times what one row does to a passing string x·λ above the threshold, for finely spread noise."""
    far = np.exp(-np.maximum(x, 0))
    return np.where(x <= 0, 1.0, far / (2 - far))


def _unit(lam: Floats | float, goal: Goal) -> Floats:
    """In which heights above the clip are measured: from n/largest_list on, the data cannot fill a list."""
    return np.maximum(lam, 2 * goal.n / goal.largest_list)


def _lists_bounded(shape: Shape, goal: Goal, lam: Floats, lowest: Floats, rise: Floats) -> NDArray[np.bool_]:
    """Whether expected lists stay short, as if all nodes of a level were as wide as the widest."""
    p = np.exp(-_CLIP) / 2
    widest = float(shape.cells[shape.thresholded].max()) if shape.lowest == 0 else shape.widest
    joined = max((math.ceil(len(children) / len(starts)) for children, starts in shape.joins), default=1)
    fits, candidates = np.ones(lam.shape, dtype=bool), np.full(lam.shape, widest)
    for level in range(len(shape.nodes)):
        listed = 0.85 * goal.n / (lowest + level * rise + lam) + p * candidates
        fits &= (listed <= goal.largest_list) & (p * candidates <= goal.false_listed)
        candidates = np.minimum(listed, goal.largest_list) ** joined
    return fits


def tune(shape: Shape, goal: Goal, start: Floats) -> tuple[float, Draft | None]:
    def build(point: Floats) -> Draft | None:
        clip, above, share = point[0], point[1], float(point[-1])
        heights = np.cumsum([0.0, *point[2:-1]])
        if clip <= 0 or above < 0 or point[2:-1].min(initial=0) < 0 or not 0 < share < 1:
            return None
        epsilon = (1 - share) * goal.budget
        chains = np.tril(_step(heights[:, None] - heights[None, :] - clip)).sum(axis=1)
        guess = (float(chains.max()) + 1) / epsilon
        mu = max(1, round(clip * guess))
        thresholds = mu + np.round(above * _unit(guess, goal) + heights * guess)
        lam = least_path_lambda([int(t) for t in thresholds], mu, epsilon)
        sieve = Sieve("pure", thresholds, np.full(len(thresholds), lam), mu)
        return Draft(shape, sieve, count_scale(lam, share * goal.budget))

    steps, last = np.full(len(start), 0.8), np.full(len(start), 0.1)
    steps[1], last[1] = 0.1, 0.02
    steps[-1], last[-1] = (0.0, 1.0) if goal.count_share is not None else (0.04, 0.01)
    harder = np.zeros(len(start))
    harder[:2] = 0.4, start[1] / 20  # where lists come out too long
    return tuned(feasible(start, harder, build, goal), steps, last, build, goal)
