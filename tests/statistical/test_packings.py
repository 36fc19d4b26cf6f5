"""Drawn packings against the law: the true one is accepted, near ones are not.

A true law is refused with probability 1e-9 per comparison; samples are large enough for a wrong one to be certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from nabladp.noise import NoiseSource, Packings
from nabladp.noise.draws import Draws, SeededBits

ALARM = 1e-9
FORCED = 1e6  # a slack this wide sends every decision of the sampler down its exact path
PAIRS = [0b11, 0b101, 0b110, 0b1001, 0b1010, 0b1100, 0b10001, 0b10010, 0b10100, 0b11000]
FAMILIES = {
    "pairs": (PAIRS, 5, 2),
    "pairs, one of them thrice": ([*PAIRS[:6], 0b11, 0b11], 4, 2),
    "mixed sizes": ([*PAIRS, 1, 2, 4, 0b11100], 5, 2),
}


def weights_for(masks: list[int]) -> np.ndarray:
    """Far enough apart for a scale 30 % off to show, near enough for every packing to be seen."""
    return 2.5 * np.linspace(0, 1, len(masks)) ** 2


def law(masks: list[int], weights: np.ndarray, count: int) -> dict[tuple[int, ...], float]:
    disjoint = [
        c
        for c in combinations(range(len(masks)), count)
        if sum(masks[i].bit_count() for i in c) == int(np.bitwise_or.reduce([masks[i] for i in c])).bit_count()
    ]
    mass = np.exp([weights[list(c)].sum() for c in disjoint])
    return dict(zip(disjoint, mass / mass.sum(), strict=True))


def p_value(drawn: Iterable[tuple[int, ...]], truth: dict[tuple[int, ...], float]) -> float:
    seen = Counter(drawn)
    assert set(seen) <= set(truth)
    expected = np.array(list(truth.values())) * seen.total()
    assert expected.min() > 5
    return float(stats.chisquare([seen[c] for c in truth], expected).pvalue)


def one_after_another(noise: NoiseSource, masks: list[int], weights: np.ndarray, count: int) -> tuple[int, ...]:
    """The greedy picker: each time an exponential choice among the sets still disjoint from all before."""
    grid, used, chosen = 1 << 30, 0, []
    for _ in range(count):
        left = [i for i, mask in enumerate(masks) if not mask & used]
        chosen.append(left[noise.select_exponential(np.rint(weights[left] * grid).astype(np.int64), grid)])
        used |= masks[chosen[-1]]
    return tuple(sorted(chosen))


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_their_law_and_no_other(family: str) -> None:
    masks, width, count = FAMILIES[family]
    weights, noise, packings = weights_for(masks), NoiseSource.seeded(31), Packings(masks, width, count)
    drawn = [noise.select_packing(packings, weights) for _ in range(6_000)]
    assert p_value(drawn, law(masks, weights, count)) > ALARM
    assert p_value(drawn, law(masks, weights * 0.7, count)) < ALARM
    assert p_value(drawn, law(masks, weights * 1.3, count)) < ALARM


def test_picking_one_after_another_is_another_law() -> None:
    masks, _, count = FAMILIES["mixed sizes"]
    weights, noise = weights_for(masks), NoiseSource.seeded(32)
    drawn = [one_after_another(noise, masks, weights, count) for _ in range(6_000)]
    assert p_value(drawn, law(masks, weights, count)) < ALARM


def test_the_exact_path_alone_has_the_same_law() -> None:
    masks, width, count = FAMILIES["pairs"]
    weights, packings = weights_for(masks), Packings(masks, width, count)
    draws = Draws(SeededBits(33), slack=FORCED)
    drawn = [packings.draw(draws, weights) for _ in range(1_000)]
    assert p_value(drawn, law(masks, weights, count)) > ALARM
    assert p_value(drawn, law(masks, weights * 0.4, count)) < ALARM


def test_weights_far_beyond_the_range_of_exp() -> None:
    """Two packings share nearly all the mass although every weight is thousands away from the others."""
    masks = [0b0011, 0b1100, 0b0101, 0b1010, 0b1001, 0b0110]
    weights = np.array([9_000.0, -4_000.0, 3_000.0, 2_001.0, -8_000.0, 12_000.0])  # sums 5000, 5001, 4000
    packings, noise = Packings(masks, 4, 2), NoiseSource.seeded(34)
    drawn = [noise.select_packing(packings, weights) for _ in range(3_000)]
    odds = 1 / (1 + np.exp(1.0))
    assert p_value(drawn, {(0, 1): odds, (2, 3): 1 - odds}) > ALARM
    assert p_value(drawn, {(0, 1): 1 - odds, (2, 3): odds}) < ALARM
