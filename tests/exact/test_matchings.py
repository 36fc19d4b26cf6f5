"""Gumbel matchings against enumeration: the heaviest way, what it may depend on, its law, and planted faults."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from nabladp.errors import AuditError, MechanismError
from nabladp.mechanisms.synthesis import Synthesis, strategy
from nabladp.mechanisms.synthesis.selection import combined_law
from nabladp.noise import NoiseSource, matching_law, matchings
from nabladp.noise.draws import Draws, SeededBits
from nabladp.noise.matchings import GRID, Matchings, gumbel
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from tests.helpers.opinions import pick_loss

MOVED = 0.3  # by which one attribute moves the log weight of every set that holds it


def all_pairs(width: int) -> Matchings:
    return Matchings(*zip(*itertools.combinations(range(width), 2), strict=True), width)  # type: ignore[arg-type]


def ways(family: Matchings, left: tuple[int, ...] | None = None) -> Iterator[tuple[int, ...]]:
    """Every way to take one option for each attribute."""
    left = tuple(range(family.width)) if left is None else left
    if not left:
        yield ()
    for option, ends in enumerate(zip(family.left.tolist(), family.right.tolist(), strict=True)):
        if left and left[0] in ends and set(ends) <= set(left):
            for rest in ways(family, tuple(own for own in left if own not in ends)):
                yield tuple(sorted((option, *rest)))


def heaviest_by_enumeration(family: Matchings, values: Any) -> tuple[int, ...]:
    listed = list(ways(family))
    largest = max(sum(values[list(way)]) for way in listed)
    tied = [way for way in listed if sum(values[list(way)]) == largest]
    first = min(tied, key=lambda way: [option in way for option in range(len(values))])
    return tuple(option for option in first if option < family.members)


def wrong_winners(seed: int, times: int) -> int:
    """How often, of random families with many ties, the heaviest way is not the one of enumeration."""
    draws, wrong = np.random.default_rng(seed), 0
    for _ in range(times):
        width, members = int(draws.integers(1, 6)), int(draws.integers(0, 10))
        family = Matchings(*draws.integers(0, width, (2, members)), width)
        values = draws.integers(-2, 3, members + width)
        wrong += family.heaviest(values) != heaviest_by_enumeration(family, values)
    return wrong


def test_the_heaviest_way_is_that_of_enumeration_and_ties_go_by_number() -> None:
    assert wrong_winners(1, 150) == 0


def test_a_tie_that_the_solver_breaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matchings, "_first", lambda self, values, best: best)
    assert wrong_winners(1, 150) > 5


def rests(family: Matchings, attribute: int, seed: int) -> int:
    """The largest number of different rests of a way beside one and the same option of an attribute, while only the
    values of its options change."""
    draws = np.random.default_rng(seed)
    held = (family.left == attribute) | (family.right == attribute)
    most = 0
    for _ in range(12):
        values = draws.integers(0, 3, family.members + family.width)
        met: dict[frozenset[int], set[frozenset[int]]] = {}
        for _ in range(12):
            values[held] = draws.integers(0, 6, int(held.sum()))
            chosen = family.heaviest(values)
            own = frozenset(option for option in chosen if held[option])
            met.setdefault(own, set()).add(frozenset(chosen) - own)
        most = max(most, *map(len, met.values()))
    return most


@pytest.mark.parametrize("width", [4, 5])
def test_the_rest_follows_from_one_attributes_option(width: int) -> None:
    """What the proof rests on, where ties are common: data of an attribute decides its option and nothing else."""
    assert rests(all_pairs(width), 0, width) == 1


def test_ties_by_data_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several heaviest ways, one that depends on all values."""

    def by_data(self: Matchings, values: Any, best: Any) -> Any:
        listed = [np.array(way) for way in ways(self)]
        tied = [way for way in listed if values[way].sum() == values[best].sum()]
        return tied[int(values.sum()) % len(tied)]

    monkeypatch.setattr(Matchings, "_first", by_data)
    assert rests(all_pairs(4), 0, 4) > 1


# ---- noise -----------------------------------------------------------------------------------------------------------


class Given(SeededBits):
    """These words first."""

    def __init__(self, *words: int) -> None:
        super().__init__(1)
        self.first = np.array(words, np.uint64)

    def words(self, count: int) -> Any:
        given, self.first = self.first[:count], self.first[count:]
        return np.concatenate([given, super().words(count - len(given))])


def test_noise_is_the_rounded_down_gumbel_of_its_words() -> None:
    ends = (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1)
    words = (*ends, *SeededBits(3).words(300).tolist())
    plain, exact = (gumbel(Draws(Given(*words), slack=slack), len(words)) for slack in (2.0**-40, 1.0))
    assert plain[6:].tolist() == exact[6:].tolist()
    with mpmath.workdps(60):
        for word, drawn in zip(words[6:], exact[6:].tolist(), strict=True):
            low, high = (
                mpmath.floor(-mpmath.log(-mpmath.log(mpmath.mpf(w) / 2**64)) * 2**GRID) for w in (word, word + 1)
            )
            assert low <= drawn <= high
    assert (np.diff(plain[[0, 1, 2, 3, 4, 5]]) >= 0).all() and plain[
        5
    ] < 60 << GRID  # drawn on where a word says little


# ---- laws ------------------------------------------------------------------------------------------------------------


def law_of(family: Matchings, weights: Any) -> dict[tuple[int, ...], float]:
    return dict(family.law(np.asarray(weights, float)))


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_law, "_STEP", 0.9)


def test_the_law_of_few_options_is_known() -> None:
    """Two attributes: a softmax of the pair against both alone has no closed form, one attribute has."""
    law = law_of(Matchings([0, 0], [0, 0], 1), [1.0, -0.5])
    weights = {(): 0.0, (0,): 1.0, (1,): -0.5}
    total = math.log(sum(map(math.exp, weights.values())))
    assert max(abs(law[pick] - (weight - total)) for pick, weight in weights.items()) < 1e-9
    with mpmath.workdps(20):  # P(pair) = P(w + G > G' + G'') = E[1 − exp(−exp(w − a))], a the sum of two Gumbels

        def at(a: Any) -> Any:
            density = 2 * mpmath.exp(-a) * mpmath.besselk(0, 2 * mpmath.exp(-a / 2))
            return density * (1 - mpmath.exp(-mpmath.exp(1 - a)))

        pair = float(mpmath.quad(at, [-8, -4, 0, 4, 10, 40]))
    assert math.isclose(math.exp(law_of(Matchings([0], [1], 2), [1.0])[(0,)]), pair, rel_tol=3e-4)


def gap(noise: NoiseSource, family: Matchings, weights: Any, runs: int = 2500) -> float:
    """How far frequencies are from the law, in deviations; the largest."""
    seen = Counter(noise.select_matching(family, weights) for _ in range(runs))
    law = {pick: math.exp(chance) for pick, chance in family.law(np.asarray(weights))}
    assert seen.keys() <= law.keys() and math.isclose(sum(law.values()), 1)
    return max(abs(seen[pick] / runs - chance) / math.sqrt((chance + 2 / runs) / runs) for pick, chance in law.items())


FOUR = Matchings([0, 0, 0, 1, 1, 2, 2, 3], [1, 2, 3, 2, 3, 3, 3, 3], 4)  # a pair twice, a set of one attribute
WEIGHTS = [1.5, 0.0, -1.0, 0.5, 2.0, 1.0, 0.7, 1.0]


def test_draws_follow_the_law() -> None:
    assert gap(NoiseSource.seeded(4), FOUR, WEIGHTS) < 5


def test_draws_with_half_the_noise_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchings, "gumbel", lambda draws, count: gumbel(draws, count) // 2)
    assert gap(NoiseSource.seeded(4), FOUR, WEIGHTS) > 6


def test_draws_on_five_attributes_follow_an_independent_simulation() -> None:
    family, draws, runs = all_pairs(5), np.random.default_rng(3), 200_000
    weights = draws.uniform(-1, 2, family.members)
    listed = [list(way) for way in ways(family)]
    noisy = draws.gumbel(size=(runs, 15)) + np.append(weights, np.zeros(5))
    won = np.bincount(np.argmax([noisy[:, way].sum(axis=1) for way in listed], axis=0), minlength=len(listed)) / runs
    noise = NoiseSource.seeded(9)
    seen = Counter(noise.select_matching(family, weights) for _ in range(2000))
    for way, chance in zip(listed, won, strict=True):
        pick = tuple(option for option in way if option < family.members)
        assert abs(seen[pick] / 2000 - chance) < 5 * math.sqrt((chance + 1e-3) / 2000)


def losses(width: int, base: Any) -> Iterator[tuple[int, float, float]]:
    """For every set of attributes: its size, the largest log ratio, and ρ of order 2, over changes that move each
    of its sets by ``MOVED`` up or down."""
    family, draws = all_pairs(width), np.random.default_rng(width)
    before = law_of(family, base)
    for size in range(1, width + 1):
        for moved in itertools.combinations(range(width), size):
            met = [i for i in range(family.members) if {family.left[i], family.right[i]} & set(moved)]
            signs = [
                np.where([min(family.left[i], family.right[i]) % 2 for i in met], 1, -1),
                draws.choice([-1, 1], len(met)),
            ]
            for sign in signs:
                other = np.array(base)
                other[met] += MOVED * sign
                after = law_of(family, other)
                ratios = {pick: before[pick] - after[pick] for pick in before}
                order_two = math.log(sum(math.exp(before[pick] + ratio) for pick, ratio in ratios.items()))
                yield size, max(map(abs, ratios.values())), order_two / 2


def exceeded(width: int, base: Any) -> bool:
    return any(
        pure > 2 * MOVED * size * 1.01 or rho > (MOVED * size) ** 2 / 2 * 1.01
        for size, pure, rho in losses(width, base)
    )


@pytest.mark.parametrize("width", [2, 3, 4])
def test_no_set_of_attributes_loses_more_than_claimed(width: int) -> None:
    """Pure 2Δ for each attribute, ρ = (Δ·|T|)²/2."""
    assert not exceeded(width, np.random.default_rng(width).uniform(-1, 3, math.comb(width, 2)))


def test_one_attribute_may_lose_nearly_all_that_is_claimed() -> None:
    """a is paired with c, hardly ever with b, to which its data moves it; both others are worth much by themselves."""
    family = Matchings([0, 0, 1, 2], [1, 2, 1, 2], 3)
    one, other = (law_of(family, [6 + s * MOVED, 18 - s * MOVED, 6, 6]) for s in (0, 1))
    assert 1.7 * MOVED < max(other[pick] - one[pick] for pick in one) < 2 * MOVED


def test_no_noise_on_alone_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_law, "_alone", lambda middle, lattice: (np.abs(lattice) < 1e-9).astype(float))
    assert exceeded(4, np.full(6, 2.0))


# ---- in Synthesis ----------------------------------------------------------------------------------------------------


def bits(width: int) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in "abcd"[:width]))


def test_a_round_of_synthesis_costs_no_set_more_than_its_price() -> None:
    design = Synthesis(CDP(1), strategy="matched", rounds=1, budgets={"a": CDP(0.5)}).design(bits(3), 10)
    (selector,) = design.selectors(0)
    assert selector.block.matched
    cost, sets = selector.block.guarantee(design.limits.universe, design.price), design.wanted.candidates
    start = 40 * strategy.GRID * np.ones(len(sets), np.int64)
    for moved in ("a", "b", "ab", "abc"):
        for sign in (np.array([1, 1, 1]), np.array([1, -1, 1])):
            step = 2 * strategy.GRID * sign * [bool({*names} & {*moved}) for names in sets]
            assert 0 < pick_loss(selector, start, start + step) <= cost.rho(tuple(moved)) * 1.001
    assert cost.rho("a") < cost.rho("b") and cost.rho(("a", "b", "c")) > 1.5 * cost.rho(("b", "c"))
    assert len(list(combined_law([selector], start, 1))) == 4


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(MechanismError, match="one or two source attributes; the workload needs 3") as refused:
        Synthesis(CDP(1), 3, strategy="matched").design(bits(4), 10)
    assert "packed" in str(refused.value)
    with pytest.raises(MechanismError, match="one or two of its attributes"):
        Matchings([0], [3], 3)
    with pytest.raises(AuditError, match="at most 4 attributes"):
        list(all_pairs(5).law(np.zeros(10)))
    assert Fraction(Matchings.slack()) == Fraction(4, 1 << GRID)


def test_on_five_attributes_each_option_has_its_exact_probability() -> None:
    """Given the noise of all options without attribute 0: P ∝ exp(score + the heaviest rest), found by enumeration."""
    family, draws, words = all_pairs(5), np.random.default_rng(5), Draws(SeededBits(2))
    scores = np.rint(np.append(draws.uniform(-1, 3, family.members), np.zeros(5)) * 2.0**GRID).astype(np.int64)
    fixed = scores + gumbel(words, len(scores))
    own = np.flatnonzero(family.left == 0)
    rest = [max(sum(fixed[[o for o in way if o != e]].tolist()) for way in ways(family) if e in way) for e in own]
    chances = np.exp((scores[own] + np.array(rest) - max(rest)) / 2.0**GRID)
    chances /= chances.sum()
    seen: Counter[int] = Counter()
    for _ in range(1200):
        values = fixed.copy()
        values[own] = scores[own] + gumbel(words, len(own))
        seen[next((e for e in family.heaviest(values) if e in own), int(own[-1]))] += 1
    for option, chance in zip(own.tolist(), chances, strict=True):
        assert abs(seen[option] / 1200 - chance) < 4.5 * math.sqrt((chance + 1e-3) / 1200)
