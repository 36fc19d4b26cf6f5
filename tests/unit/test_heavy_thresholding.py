"""Who passes, and with which noise: the law is that of drawing noise for every candidate."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from nabladp.mechanisms.heavy_hitters import candidates
from nabladp.mechanisms.heavy_hitters.candidates import Candidates, Rule, decide, draw_survivors
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.noise import NoiseSource


def run(level: list[Candidates], true: list[dict[int, int]], rule: Rule, noise: NoiseSource) -> list[candidates.Passed]:
    """One level; the same node many times over stands for as many runs."""
    some = draw_survivors(level, rule, noise)
    counts = [np.array([of.get(int(c), 0) for c in codes], np.int64) for of, codes in zip(true, some, strict=True)]
    return decide(level, some, counts, rule, noise)


def make_candidates(size: int, counts: dict[int, int], above: int) -> Candidates:
    counted = sorted(code for code, f in counts.items() if f > above)
    kind = np.int64 if size <= candidates.MOST_IN_64_BITS else object
    return Candidates(size, np.array(counted, kind), np.array([counts[c] for c in counted], np.int64))


def laplace(scale: float, least: int) -> float:
    """P(Z ≥ least)."""
    q = math.exp(-1 / scale)
    return math.exp(-least / scale) / (1 + q) if least > 0 else 1 - math.exp((least - 1) / scale) / (1 + q)


def gaussian_pmf(scale: float, x: np.ndarray) -> np.ndarray:
    every = np.arange(-math.ceil(40 * scale) - 40, math.ceil(40 * scale) + 41)
    return np.exp(-(x**2) / (2 * scale**2)) / np.exp(-(every.astype(float) ** 2) / (2 * scale**2)).sum()


def gaussian(scale: float, least: int) -> float:
    return float(gaussian_pmf(scale, np.arange(least, least + math.ceil(40 * scale) + 40).astype(float)).sum())


def pass_chance(rule: Rule, f: int) -> float:
    if rule.pure:
        return laplace(rule.scale, 1 + rule.tau - max(f, rule.floor))
    return gaussian(rule.scale, 1 + rule.tau - f)


def chi_square(seen: dict[object, int], law: dict[object, float]) -> float:
    total = sum(seen.values())
    assert set(seen) <= set(law)
    likely = [key for key in law if law[key] * total >= 5]
    observed = [seen.get(key, 0) for key in likely]
    expected = [law[key] * total for key in likely]
    if sum(expected) < total - 1:
        observed.append(total - sum(observed))
        expected.append(total - sum(expected))
    scaled = np.array(expected) * sum(observed) / sum(expected)
    return float(stats.chisquare(observed, scaled).pvalue)


RULES = [
    Rule(True, 6, 3.0, 4, 4),
    Rule(True, 6, 3.0, 1, 4),
    Rule(True, 5, 3.0, 2, 5),
    Rule(True, 3, 1.5, 0, 0),
    Rule(False, 5, 3.0, 0, 0),
    Rule(False, 5, 3.0, 0, 2),
    Rule(False, 5, 3.0, 0, 5),
]
COUNTS = {1: 7, 2: 2, 4: 5, 5: 1}


@pytest.mark.parametrize("rule", RULES)
def test_every_set_passes_with_its_probability(rule: Rule) -> None:
    """Six candidates, all 64 sets: chances are products, so this is a test of independence, too."""
    law = {}
    for bits in itertools.product((False, True), repeat=6):
        chances = [pass_chance(rule, COUNTS.get(c, 0)) for c in range(6)]
        law[tuple(np.flatnonzero(bits).tolist())] = math.prod(
            p if b else 1 - p for p, b in zip(chances, bits, strict=True)
        )
    assert sum(law.values()) == pytest.approx(1)
    level, noise = [make_candidates(6, COUNTS, rule.limit)] * 4000, NoiseSource.seeded(1)
    seen = Counter(tuple(passed.codes.tolist()) for passed in run(level, [COUNTS] * 4000, rule, noise))
    assert chi_square(seen, law) > 1e-4


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.pure])
@pytest.mark.parametrize("counted_above", ["limit", 0])
def test_noisy_counts_have_the_law_of_noise_given_that_it_was_enough(rule: Rule, counted_above: object) -> None:
    counts = {0: 7, 1: 1, 2: 4}
    above = rule.limit if counted_above == "limit" else 0
    level, noise = [make_candidates(4, counts, above)] * 4000, NoiseSource.seeded(2)
    seen: list[dict[object, int]] = [{} for _ in range(4)]
    for passed in run(level, [counts] * 4000, rule, noise):
        assert passed.counts.tolist() == [counts.get(c, 0) for c in passed.codes.tolist()]
        values = dict(zip(passed.codes.tolist(), passed.noisy.tolist(), strict=True))
        for code in range(4):
            value = values.get(code)
            seen[code][value] = seen[code].get(value, 0) + 1
    for code in range(4):
        values = np.arange(rule.tau + 1, rule.tau + 80)
        chances = gaussian_pmf(rule.scale, (values - counts.get(code, 0)).astype(float))
        law = dict(zip(values.tolist(), chances.tolist(), strict=True)) | {None: 1 - float(chances.sum())}
        assert chi_square(seen[code], law) > 1e-4


@pytest.mark.parametrize("size", [10**6, 2**62 + 3, 10**30])
@pytest.mark.parametrize("pure", [True, False])
def test_false_candidates_of_many(size: int, pure: bool) -> None:
    """How many pass is nearly Poisson; which ones, uniform; those counted are never among them."""
    mean = 2.5
    scale = 12.0
    if pure:
        limit, tau = 20, 20 + math.floor(scale * (math.log(size / mean) - math.log1p(math.exp(-1 / scale)))) - 1
        chance = laplace(scale, tau - limit + 1)
    else:
        limit = 3
        tau = next(x for x in range(1, 1000) if gaussian(scale, x + 1) * size < mean)
        chance = gaussian(scale, tau + 1)  # of a candidate with count 0
    rule = Rule(pure, tau, scale, limit if pure else 0, limit)
    counts = {0: 21, size // 2: 10**6, size - 1: 10**6}
    level, noise = [make_candidates(size, counts, limit)] * 1500, NoiseSource.seeded(3)
    many, places = [], []
    for passed in run(level, [counts] * 1500, rule, noise):
        codes = [int(c) for c in passed.codes]
        assert codes == sorted(set(codes)) and size // 2 in codes and size - 1 in codes
        false = [c for c in codes if c not in counts]
        many.append(len(false))
        places.extend(c * 10 // size for c in false)
    seen = dict(zip(*np.unique(many, return_counts=True), strict=True))
    law = {k: float(stats.poisson.pmf(k, chance * (size - 3))) for k in range(60)}
    assert chi_square(seen, law) > 1e-4
    assert stats.chisquare(np.bincount(places, minlength=10)).pvalue > 1e-4


def test_nodes_of_a_level_are_independent_and_keep_their_order() -> None:
    rule = Rule(True, 3, 2.0, 1, 1)
    true = [{0: 3}, {}, {1: 4}]
    level = [make_candidates(size, counts, 1) for size, counts in zip((2, 1, 2), true, strict=True)]
    passed = [tuple(one.codes.tolist()) for one in run(level * 4000, true * 4000, rule, NoiseSource.seeded(4))]
    seen = Counter(zip(passed[::3], passed[1::3], passed[2::3], strict=True))
    law = {}
    for bits in itertools.product((0, 1), repeat=5):
        fs = (3, 0, 0, 0, 4)
        chances = [pass_chance(rule, f) for f in fs]
        key = (tuple(c for c in (0, 1) if bits[c]), (0,) * bits[2], tuple(c for c in (0, 1) if bits[3 + c]))
        law[key] = math.prod(p if b else 1 - p for p, b in zip(chances, bits, strict=True))
    assert chi_square(seen, law) > 1e-4


def test_the_pure_tree_keeps_no_noisy_count() -> None:
    passed = run([make_candidates(5, {0: 9}, 0)], [{0: 9}], Rule(True, 1, 1.0, 0, 0), NoiseSource.seeded(5))[0]
    assert passed.noisy is None


@pytest.mark.parametrize("size", [10, 10**6, 10**9, 10**100])
@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_the_limit_lets_few_through_and_stays_between_floor_and_threshold(size: int, notion: str) -> None:
    tree, pure = Tree.build([2, 2], 4, 2, 4), notion == "pure"
    settings = Settings(notion, tree, 30 * pure, (Level(40, 5.0),), 1.0 if pure else None, 1, 1, 1, 0.1, 1.0, 1)
    rule = Rule.of(settings, settings.levels[0], size, 10**9)
    assert rule.floor == (10 if pure else 0)
    assert rule.floor <= rule.limit <= rule.tau and rule.start >= 1
    through = (laplace if pure else gaussian)(5.0, rule.start) * size
    if rule.floor < rule.limit:
        assert min(size // 64, candidates.LEFT_TO_LOOK_AT) / 4 < through < 2 * candidates.LEFT_TO_LOOK_AT
    assert Rule.of(settings, settings.levels[0], size, 3).limit == rule.floor


def test_nth_untaken_counts_only_the_others() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        size = int(draw.integers(1, 12))
        taken = np.sort(draw.choice(size, draw.integers(0, size + 1), replace=False))
        others = [c for c in range(size) if c not in taken.tolist()]
        assert candidates._nth_untaken(taken, np.arange(len(others))).tolist() == others
        big = candidates._nth_untaken(taken.astype(object) + 2**70, np.arange(len(others)).astype(object) + 2**70)
        assert big.tolist() == [2**70 + c for c in others]
