"""Planted faults in joint selection: each a plausible shortcut, each caught by the check that it should break."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from nabladp.noise import Packings

Law = dict[tuple[int, ...], float]
"""Log probabilities of packings."""


def pairs(width: int) -> list[int]:
    return [1 << a | 1 << b for a, b in combinations(range(width), 2)]


def every_packing(masks: list[int], count: int) -> list[tuple[int, ...]]:
    return [
        c
        for c in combinations(range(len(masks)), count)
        if sum(masks[i].bit_count() for i in c) == int(np.bitwise_or.reduce([masks[i] for i in c])).bit_count()
    ]


def joint(masks: list[int], width: int, count: int, weights: np.ndarray) -> Law:
    packings = Packings(masks, width, count)
    return {c: packings.log_probability(weights, c) for c in every_packing(masks, count)}


def greedy(masks: list[int], width: int, count: int, weights: np.ndarray) -> Law:
    """One after another, each by the exponential mechanism among the sets still disjoint: the exact law."""
    law: Law = {}

    def pick(chosen: tuple[int, ...], used: int, log_p: float) -> None:
        if len(chosen) == count:
            key = tuple(sorted(chosen))
            law[key] = float(np.logaddexp(law.get(key, -np.inf), log_p))
            return
        left = [i for i, mask in enumerate(masks) if not mask & used]
        total = float(np.logaddexp.reduce(weights[left]))
        for i in left:
            pick((*chosen, i), used | masks[i], log_p + weights[i] - total)

    pick((), 0, 0.0)
    return law


def linear(masks: list[int], width: int, count: int, weights: np.ndarray) -> Law:
    """The recursion's result in plain numbers, scaled so that the largest weight is one."""
    mass = np.exp(weights - weights.max())
    products = {c: float(np.prod(mass[list(c)])) for c in every_packing(masks, count)}
    total = sum(products.values())
    return {c: math.log(p / total) if p else -math.inf for c, p in products.items()}


def span(before: Law, after: Law) -> float:
    ratios = [after[c] - before[c] for c in before]
    return max(ratios) - min(ratios)


Picker = Callable[[list[int], int, int, np.ndarray], Law]


def per_attribute_span(picker: Picker, e: float) -> float:
    """The sets that hold attribute 0, heavy ones, all gain e; three pairs are chosen among seven attributes."""
    masks = pairs(7)
    holds = np.array([mask & 1 for mask in masks])
    weights = 6.0 * holds
    return span(picker(masks, 7, 3, weights), picker(masks, 7, 3, weights + e * holds))


def test_picking_one_after_another_breaks_the_range_of_a_single_attribute() -> None:
    e = 0.5
    assert per_attribute_span(joint, e) <= 2 * e + 1e-9
    assert per_attribute_span(greedy, e) > 1.3 * 2 * e  # each pick sees attribute 0 until it is used


def test_plain_numbers_underflow_to_impossible_packings() -> None:
    masks, weights = pairs(4), np.array([-400.0, 0.0, 0.0, 0.0, 0.0, -400.0])
    ours, theirs = (picker(masks, 4, 2, weights) for picker in (joint, linear))
    assert theirs[(0, 5)] == -math.inf
    assert ours[(0, 5)] == pytest.approx(-800 - math.log(2), abs=1e-9)


class GridTooCoarse(Packings):
    def _grid(self, largest: float) -> int:
        return 20


class BestInsteadOfSum(Packings):
    """The maximum where a log-sum belongs: the future of an option counts as its best packing only."""

    def _table(self, weights: np.ndarray, soft: bool) -> np.ndarray:
        return super()._table(weights, soft=False)


class SharedMaskCountedOnce(Packings):
    """Members that share a mask are taken for one when the future is summed up."""

    def _table(self, weights: np.ndarray, soft: bool) -> np.ndarray:
        kept = np.full(len(weights), -1e6)
        _, first = np.unique(self.masks, return_index=True)
        kept[first] = weights[first]
        return super()._table(kept, soft)


class SinglePrecision(Packings):
    def _table(self, weights: np.ndarray, soft: bool) -> np.ndarray:
        return super()._table(weights, soft).astype(np.float32).astype(np.float64)


def error_over_slack(kind: type[Packings]) -> float:
    """The largest error of a log probability, as a multiple of the slack that the right one claims."""
    masks = [*pairs(5), 0b11, 0b11000, 0b11000]
    weights = np.random.default_rng(8).uniform(-30, 30, len(masks))
    packings, every = kind(masks, 5, 2), every_packing(masks, 2)
    totals = np.array([math.fsum(weights[list(c)]) for c in every])
    ideal = totals - np.logaddexp.reduce(totals)
    drawn = np.array([packings.log_probability(weights, c) for c in every])
    return float(np.abs(drawn - ideal).max()) / Packings(masks, 5, 2).slack(30.0)


def test_the_right_one_stays_within_its_slack() -> None:
    assert error_over_slack(Packings) <= 1


@pytest.mark.parametrize("fault", [GridTooCoarse, BestInsteadOfSum, SharedMaskCountedOnce, SinglePrecision])
def test_faults_leave_the_slack(fault: type[Packings]) -> None:
    assert error_over_slack(fault) > 10
