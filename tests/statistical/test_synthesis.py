"""A run draws what its exact law says: picks of every kind, and the noise of what was measured."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from nabladp import CDP, NoiseSource, Schema, Synthesis
from nabladp.mechanisms.synthesis import strategy
from nabladp.mechanisms.synthesis.rounds import Truth
from nabladp.mechanisms.synthesis.selection import combined_law
from nabladp.noise import gaussian_log_pmf
from nabladp.noise.packings import AnyPackings, fineness
from nabladp.schema import Attribute
from nabladp.tables import CodedTable

BITS = Schema(tuple(Attribute(name, "boolean") for name in "abcd"))
ROWS = CodedTable(
    BITS,
    {"a": [1] * 16 + [0] * 4, "b": [1] * 15 + [0] * 5, "c": [0, 1] * 10, "d": [0] * 12 + [1] * 8},
)
RUNS = 2000


@pytest.mark.parametrize("kind", ["packed", "single", "blocks", "matched"])
def test_picks_follow_their_law(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "blocks":
        monkeypatch.setattr(strategy, "WIDEST_BLOCK", 2)
    named = "packed" if kind == "blocks" else kind
    mechanism = Synthesis(CDP(1.5), strategy=named, rounds=1, one_way=0, selection=0.5)
    course = mechanism._course(BITS, ROWS.n)
    state = course.start([])
    grown, strength, selectors = course.next_round(state)
    excess = course.excess(state, grown, selectors, Truth(ROWS, course.design.wanted.sizes))
    noise = NoiseSource.seeded(7)
    seen = Counter(tuple(sorted(c for s in selectors for c in s.draw(excess, strength, noise))) for _ in range(RUNS))

    def p_value(factor: int) -> float:
        law = {pick: math.exp(chance) for pick, chance in combined_law(selectors, factor * excess, strength)}
        kept = [pick for pick, chance in law.items() if RUNS * chance >= 5]
        rest = RUNS - sum(seen[pick] for pick in kept)
        expected = [RUNS * law[pick] for pick in kept]
        return float(chisquare([*(seen[p] for p in kept), rest + 1], [*expected, RUNS - sum(expected) + 1]).pvalue)

    assert p_value(1) > 1e-6
    assert min(p_value(2), p_value(-1)) < 1e-6  # and the test can tell


def test_a_packing_of_six_attributes_follows_its_law() -> None:
    draws = np.random.default_rng(2)
    masks = [1 << i | 1 << j for i in range(6) for j in range(i)] + [0b111, 0b111000]
    packing = AnyPackings(masks, 6, draws.uniform(-1, 1, len(masks)), fineness(100))
    noise = NoiseSource.seeded(3)
    seen = Counter(noise.select_any_packing(packing) for _ in range(6_000))
    law = {pick: 6_000 * math.exp(chance) for pick, chance in packing.law()}
    assert seen.keys() <= law.keys() and len(law) > 60
    assert chisquare([seen[pick] for pick in law], list(law.values())).pvalue > 1e-6


@pytest.mark.parametrize("named", ["packed", "all"])
def test_the_noise_has_the_scale_that_is_told(named: str) -> None:
    mechanism = Synthesis(CDP(1), strategy=named, rounds=2, rows=1)
    noise = NoiseSource.seeded(5)
    true = {names: ROWS.marginals([names])[0] for names in mechanism.wanted(BITS).first + mechanism.wanted(BITS).sets}
    found: dict[float, list[int]] = {}
    for _ in range(60):
        for noisy in mechanism.run(ROWS, noise).measured:
            found.setdefault(noisy.scale, []).extend((noisy.counts - true[noisy.attributes]).ravel().tolist())
    scale, noises = max(found.items(), key=lambda item: len(item[1]))
    assert len(noises) > 300

    def p_value(scale: float) -> float:
        law = np.exp(gaussian_log_pmf(scale, -60, 60))
        ends = np.array([law[:59].sum(), *law[59:62], law[62:].sum()])
        return float(chisquare(np.bincount(np.clip(noises, -2, 2) + 2, minlength=5), len(noises) * ends).pvalue)

    assert p_value(scale) > 1e-6
    assert max(p_value(0.6 * scale), p_value(1.7 * scale)) < 1e-6
