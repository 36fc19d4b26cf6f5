"""Joint selection of disjoint sets against full enumeration: every packing, every count, every size of set."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from itertools import combinations

import mpmath
import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.noise import NoiseSource, Packings, largest_packing

Members = tuple[int, ...]


def sets_of(width: int, *sizes: int) -> list[int]:
    """All sets of these sizes, as masks."""
    return [sum(1 << i for i in chosen) for size in sizes for chosen in combinations(range(width), size)]


def every_packing(masks: Sequence[int], count: int) -> list[Members]:
    """By trying everything: no order of attributes, no recursion over masks."""
    found: list[tuple[Members, int]] = [((), 0)]
    for _ in range(count):
        found = [
            ((*chosen, i), used | masks[i])
            for chosen, used in found
            for i in range(chosen[-1] + 1 if chosen else 0, len(masks))
            if not used & masks[i]
        ]
    return [chosen for chosen, _ in found]


def ideal_logs(weights: np.ndarray, packings: list[Members]) -> list[mpmath.mpf]:
    """Log probabilities with 40 digits."""
    with mpmath.workdps(40):
        totals = [mpmath.fsum(mpmath.mpf(float(weights[i])) for i in chosen) for chosen in packings]
        top = max(totals)
        normaliser = top + mpmath.log(mpmath.fsum(mpmath.exp(t - top) for t in totals))
        return [t - normaliser for t in totals]


def log_law(packings: Packings, weights: np.ndarray, every: list[Members]) -> np.ndarray:
    return np.array([packings.log_probability(weights, chosen) for chosen in every])


FAMILIES = {
    f"{width} attributes, sets of {sizes}": (sets_of(width, *sizes), width)
    for width in range(1, 7)
    for sizes in ((1,), (2,), (3,), (1, 2), (2, 3))
    if width >= sizes[-1]
} | {
    "all sizes": (sets_of(5, 1, 2, 3), 5),
    "shared masks": (sets_of(4, 2) * 2 + [0b11, 0b11, 0b1000], 4),
    "shared triples": (sets_of(6, 3) * 2, 6),
    "one set many times": ([0b101] * 7, 3),
    "out of order, with gaps": ([0b110000, 0b000011, 0b010001, 0b101000, 0b000110, 0b001001], 6),
    "an attribute nobody uses": (sets_of(4, 2), 6),
    "the whole and its parts": ([0b111111, 0b000111, 0b111000, 0b1, 0b100000], 6),
}
SPREADS = {"equal": 0.0, "close": 1.0, "hundreds apart": 400.0, "tens of thousands apart": 2e4}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("spread", SPREADS)
def test_probabilities_are_those_of_enumeration(family: str, spread: str) -> None:
    masks, width = FAMILIES[family]
    rng = np.random.default_rng(len(masks) * 100 + width)
    largest = max(count for count in range(1, width + 1) if every_packing(masks, count))
    assert largest_packing(masks, width) == largest
    for count in range(1, largest + 1):
        packings, every = Packings(masks, width, count), every_packing(masks, count)
        weights = rng.uniform(-1, 1, len(masks)) * SPREADS[spread]
        drawn = log_law(packings, weights, every)
        slack = packings.slack(float(np.abs(weights).max()))
        for ours, truth in zip(drawn, ideal_logs(weights, every), strict=True):
            assert abs(mpmath.mpf(float(ours)) - truth) <= slack
            assert abs(math.exp(ours) - float(mpmath.exp(truth))) <= 1e-9
        assert math.fsum(np.exp(drawn)) == pytest.approx(1, abs=1e-12)
        assert np.isfinite(drawn).all()  # nothing that exists is impossible


def test_a_weight_that_all_share_changes_nothing() -> None:
    masks = sets_of(6, 2, 3)
    packings, every = Packings(masks, 6, 2), every_packing(masks, 2)
    weights = np.random.default_rng(5).normal(size=len(masks))
    shifted = log_law(packings, weights + 1e4, every)
    assert np.abs(shifted - log_law(packings, weights, every)).max() <= packings.slack(1e4 + 5) + 1e-11


@pytest.mark.parametrize(
    ("width", "size", "count", "packings"),
    [
        (16, 2, 8, 2_027_025),  # 15·13·…·1 perfect matchings
        (20, 2, 10, 654_729_075),
        (15, 3, 5, 1_401_400),  # 15!/(3!⁵·5!)
        (16, 3, 5, 16 * 1_401_400),
        (20, 1, 10, 184_756),  # 20 choose 10
        (13, 4, 1, 715),
    ],
)
def test_equal_weights_on_wide_families(width: int, size: int, count: int, packings: int) -> None:
    masks = sets_of(width, size)
    family = Packings(masks, width, count)
    _, chosen = family.heaviest(np.random.default_rng(0).normal(size=len(masks)))
    assert family.log_probability(np.zeros(len(masks)), chosen) == pytest.approx(-math.log(packings), abs=1e-11)


def test_the_slack_is_tiny_and_grows_with_the_weights() -> None:
    for masks, width, count in ((sets_of(16, 2), 16, 8), (sets_of(16, 3), 16, 5), (sets_of(12, 3) * 8, 12, 4)):
        slacks = [Packings(masks, width, count).slack(largest) for largest in (0, 1, 100.0, 1e4, 1e9)]
        assert slacks == sorted(slacks)
        assert 0 < slacks[0] < 1e-11
        assert slacks[3] < 1e-9
        assert slacks[4] < 1e-4


def log_ratio_range(before: np.ndarray, after: np.ndarray) -> float:
    return float((before - after).max() - (before - after).min())


@pytest.mark.parametrize(("width", "sizes", "count"), [(4, (2,), 2), (5, (1, 2), 3), (6, (2,), 3), (6, (3,), 2)])
def test_the_range_is_bounded_per_attribute_touched_and_the_bound_is_reached(
    width: int, sizes: tuple[int, ...], count: int
) -> None:
    """Weights move by at most e on members that meet T: log ratios span at most 2·e·min(|T|, count)."""
    e, rng = 0.5, np.random.default_rng(11)
    masks = sets_of(width, *sizes)
    packings, every = Packings(masks, width, count), every_packing(masks, count)
    for size in range(1, width + 1):
        touched = (1 << size) - 1
        moved = np.array([bool(mask & touched) for mask in masks])
        most = min(size, count)
        bound = 2 * e * most + 4 * packings.slack(10)
        spans = []
        for _ in range(10):
            weights = rng.normal(size=len(masks)) * 2
            change = np.where(moved, rng.choice([-e, e], len(masks)), 0.0)
            spans.append(log_ratio_range(log_law(packings, weights + change, every), log_law(packings, weights, every)))
        meeting = [{i for i in chosen if moved[i]} for chosen in every]
        raised, lowered = next(
            (a, b) for a in meeting for b in meeting if len(a) == len(b) == max(map(len, meeting)) and not a & b
        )
        change = np.array([e * (i in raised) - e * (i in lowered) for i in range(len(masks))])
        reached = log_ratio_range(log_law(packings, change, every), log_law(packings, 0 * change, every))
        assert max(*spans, reached) <= bound
        assert len(raised) == most
        assert reached == pytest.approx(2 * e * most, abs=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_heaviest_is_the_best_of_all(family: str) -> None:
    masks, width = FAMILIES[family]
    rng = np.random.default_rng(3)
    for count in range(1, largest_packing(masks, width) + 1):
        packings, every = Packings(masks, width, count), every_packing(masks, count)
        for _ in range(5):
            weights = rng.normal(size=len(masks)) - 1
            totals = [math.fsum(weights[list(chosen)]) for chosen in every]
            value, best = packings.heaviest(weights)
            assert value == pytest.approx(max(totals), abs=1e-12)
            assert best == every[int(np.argmax(totals))]


def test_largest_packing_of_random_families() -> None:
    rng = np.random.default_rng(17)
    for _ in range(200):
        width = int(rng.integers(1, 8))
        masks = rng.integers(1, 1 << width, int(rng.integers(1, 9))).tolist()
        sizes = [count for count in range(1, width + 1) if every_packing(masks, count)]
        assert largest_packing(masks, width) == max(sizes)
    assert largest_packing([], 5) == 0
    assert largest_packing(sets_of(20, 2), 20) == 10


def test_draws_are_sorted_members_of_a_packing() -> None:
    masks = sets_of(7, 2, 3)[::-1]
    every = set(every_packing(masks, 3))
    packings, noise = pickle.loads(pickle.dumps(Packings(masks, 7, 3))), NoiseSource.seeded(4)
    for spread in (0.0, 5.0, 1e9):
        weights = np.random.default_rng(1).uniform(-1, 1, len(masks)) * spread
        kept = weights.copy()
        drawn = {noise.select_packing(packings, weights) for _ in range(40)}
        assert drawn <= every
        assert (weights == kept).all()
    assert drawn == {packings.heaviest(weights)[1]}


def test_the_only_packing_needs_no_randomness() -> None:
    assert NoiseSource().select_packing(Packings([0b1100, 0b0011], 4, 2), [-5e8, 1]) == (0, 1)
    assert Packings([0b1100, 0b0011], 4, 2).log_probability([-5e8, 1], [1, 0]) == 0.0


@pytest.mark.parametrize(
    ("masks", "width", "count", "said"),
    [
        (sets_of(5, 2), 5, 3, "at most 2"),
        (sets_of(5, 2), 5, 60, "at most 2"),
        ([1, 1, 1], 1, 2, "at most 1"),
        ([], 3, 1, "at most 0"),
        (sets_of(4, 2), 4, 0, "at least 1"),
        (sets_of(4, 2), 4, 1.0, "whole number"),
        (sets_of(4, 2), 21, 1, "at most 20"),
        (sets_of(4, 2), 0, 1, "at least 1"),
        ([0, 1], 4, 1, "at least 1"),
        ([16], 4, 1, "at most 15"),
        ([-1], 4, 1, "at least 1"),
        ([1.5], 4, 1, "whole number"),
    ],
)
def test_impossible_families_are_refused(masks: list[int], width: int, count: int, said: str) -> None:
    with pytest.raises(MechanismError, match=said) as caught:
        Packings(masks, width, count)
    assert caught.value.fix


@pytest.mark.parametrize(
    "weights",
    [
        [987_654.0] * 5,
        [987_654.0] * 7,
        [[987_654.0] * 6],
        [987_654.0] * 5 + [math.nan],
        [987_654.0] * 5 + [math.inf],
        [987_654.0] * 5 + [-math.inf],
        [987_654.0] * 5 + [1.1e9],
        np.full(6, -(2**63)),
        ["987654"] * 6,
        [[987_654.0], [1.0, 2.0]],
        [987_654.0j] * 6,
        [None] * 6,
        [True] * 6,
        987_654.0,
        None,
    ],
)
def test_bad_weights_are_refused_without_being_told(weights: object) -> None:
    packings = Packings(sets_of(4, 2), 4, 2)
    for call in (
        lambda: NoiseSource().select_packing(packings, weights),
        lambda: packings.log_probability(weights, (0, 5)),
        lambda: packings.heaviest(weights),
    ):
        with pytest.raises(MechanismError) as caught:
            call()
        assert caught.value.fix
        assert "987" not in f"{caught.value} {caught.value.fields}"
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("chosen", [(), (0,), (0, 1), (0, 0), (0, 5, 1), (0, 6), (-1, 0), (0.0, 5)])
def test_what_is_no_packing_has_no_probability(chosen: Members) -> None:
    with pytest.raises(MechanismError):
        Packings(sets_of(4, 2), 4, 2).log_probability(np.zeros(6), chosen)


@pytest.mark.parametrize("largest", [-1, math.nan, math.inf, 1.1e9])
def test_bad_bounds_are_refused(largest: float) -> None:
    with pytest.raises(MechanismError):
        Packings(sets_of(4, 2), 4, 2).slack(largest)
