"""Draws at their edges: words written down beforehand, decisions that are all made exactly, sets of any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.noise import NoiseSource, Packings, samplers
from nabladp.noise.draws import Draws, SeededBits
from nabladp.noise.samplers import discrete_gaussian, discrete_laplace, geometric
from nabladp.noise.tails import Trials, gaussian_beyond, laplace_tail, subset

ONES = 2**64 - 1


class Script:
    """Words given beforehand; asking for more than there are fails."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        assert count <= len(self.left)
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)


def follows(values: np.ndarray, law: np.ndarray) -> bool:
    """Whether values 0, 1, 2, … come as often as the law says; seeds are fixed, so that it never fails by chance."""
    seen = np.bincount(values, minlength=len(law)) / len(values)
    return len(seen) == len(law) and bool(np.abs(np.cumsum(seen) - np.cumsum(law)).max() < 2 / math.sqrt(len(values)))


@pytest.mark.parametrize("scale", [Fraction(3, 4), Fraction(5), Fraction(40)])
def test_decided_exactly_throughout_the_law_is_the_same(scale: Fraction) -> None:
    """The exact way is taken once in 2⁴⁰ draws: a mistake in it would hardly ever show."""
    draws, count = Draws(SeededBits(21), slack=2.0), 3000
    reach = np.arange(round(12 * scale) + 12)
    for draw, weights in (
        (discrete_laplace, np.exp(-reach / float(scale))),
        (discrete_gaussian, np.exp(-(reach**2) / (2 * float(scale) ** 2))),
    ):
        weights[1:] *= 2
        assert follows(np.abs(draw(draws, scale, count)), weights / weights.sum())
    start = 2 * math.ceil(scale)
    beyond = np.exp(-((start + reach) ** 2 - start**2) / (2 * float(scale) ** 2))
    assert follows(gaussian_beyond(draws, scale, start, count) - start, beyond / beyond.sum())


@pytest.mark.parametrize("bits", [21, 24])
def test_very_wide_noise_has_low_bits_of_its_own(bits: int) -> None:
    """Beyond 2²⁰ the low bits are drawn apart: all of them, none twice, and independent of the others."""
    scale = Fraction(1 << bits)
    drawn = geometric(Draws(SeededBits(22)), scale, 20_000)
    upto = -np.expm1(-np.arange(1, 200) / 20)
    seen = np.searchsorted(np.sort(drawn), np.arange(1, 200) * (1 << bits) / 20, side="left") / len(drawn)
    assert np.abs(seen - upto).max() < 2 / math.sqrt(len(drawn))
    for bit in range(bits - 19 + 1):
        assert abs((drawn >> bit & 1).mean() - 0.5) < 0.02


def test_low_and_high_part_of_wide_noise_meet_without_gap_or_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low parts below 2ˢ and high ones of scale/2ˢ: wider by one bit, and values next to zero would be rarer."""
    seen: list[tuple[Fraction, int]] = []

    def high_part(_: Draws, scale: Fraction, count: int, limit: int) -> np.ndarray:
        seen.append((scale, limit))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(samplers, "_geometric_by_inversion", high_part)
    for scale in (Fraction(1 << 21), Fraction(10**9), Fraction(10**15), Fraction(3 * 10**7, 7)):
        drawn = geometric(Draws(SeededBits(25)), scale, 4000)
        part, limit = seen[-1]
        low = scale / part
        assert low.denominator == 1 and drawn.max() < low and limit * low <= samplers.LARGEST
        assert drawn.max() >= low * 3 // 4


def test_a_word_of_zeros_is_looked_at_further() -> None:
    """A uniform real that begins with 64 zeros lies anywhere below 2⁻⁶⁴: the next words say where."""
    for scale in (1, 100, 1000):
        for words, log in (((0, ONES, ONES), 64), ((0, 1 << 63, 0), 65), ((0, 1 << 62, 1), 66)):
            value = geometric(Draws(Script(*words, *[7] * 20)), Fraction(scale), 1)[0]
            assert value in {math.floor(scale * log * math.log(2)) - 1, math.floor(scale * log * math.log(2))}


def test_no_cells_no_heads() -> None:
    assert len(Draws(SeededBits(1)).heads(np.empty(0, np.int64))) == 0


def test_weights_of_every_size_and_number() -> None:
    source = NoiseSource.seeded(23)
    assert source.select([5]) == 0 and source.select(np.array([5])) == 0
    for weights in ([1, 1, 1 << 63], [1 << 62, 1 << 62, 1 << 62], np.array([1 << 61] * 3)):
        chosen = source.select(weights, 600)
        law = np.array([int(w) for w in weights], float)
        assert np.abs(np.bincount(chosen, minlength=3) / 600 - law / law.sum()).max() < 4 / math.sqrt(600)


# Subsets of sets too large for 64 bits


@pytest.mark.parametrize(
    ("n", "k", "words", "chosen"),
    [
        (2**64 + 1, 1, (0, 1), [2**64]),  # the last of them
        (2**64 + 1, 1, (1, 0), [1]),
        (2**64 + 1, 1, (1, 1, 3, 0), [3]),  # 2⁶⁴ + 1 is none of them
        (2**64 + 2, 2, (5, 0, 1, 1), [5, 2**64 + 1]),
        (2**70, 2, (5, 64, 5, 128, 7, 2**64 - 1), [5, 7 + 2**64 * 63]),  # bits beyond the 70th are left out
        (2**70, 3, (9, 1, 8, 2, 9, 1, 4, 3), [9 + 2**64, 8 + 2**65, 4 + 3 * 2**64]),
        (2**200, 1, (1, 2, 3, 255), [1 + (2 << 64) + (3 << 128) + (255 << 192)]),
    ],
)
def test_large_subsets_are_read_from_the_words_drawn(n: int, k: int, words: tuple[int, ...], chosen: list[int]) -> None:
    """Every member can be drawn, nothing else can, and there are exactly as many as asked for."""
    script = Script(*words)
    assert subset(Draws(script), n, k).tolist() == sorted(chosen) and not script.left


def test_a_block_is_looked_up_in_whole_words() -> None:
    """As doubles, bounds near 2⁶⁴ would be off by thousands, and some decided that are not."""
    trials = Trials(laplace_tail(Fraction(3), 12), 10**6)
    assert trials._lows.dtype == trials._highs.dtype == np.uint64
    lows, highs = trials._tables(64)
    assert trials._lows.tolist() == [min(low, ONES) for low in lows]
    assert trials._highs.tolist() == [high for high in highs if high <= ONES]


def test_beyond_its_table_a_law_is_known_to_lie_between_its_last_entry_and_one() -> None:
    trials = Trials(laplace_tail(Fraction(3), 12), 10**6)
    for n in (64, 128):
        lows, highs = trials._tables(n)
        assert trials._below(len(lows) - 1)(n) == (lows[-1], highs[-1])
        assert trials._below(len(lows))(n) == trials._below(10**6)(n) == (lows[-1], 1 << n)


@pytest.mark.parametrize(("number", "bits"), [(1, 0), (5, 2), (8, 3), (13, 3), (100, 3), (40_000 * 8, 3)])
def test_successes_are_those_of_full_blocks_and_of_what_exists_of_the_last(number: int, bits: int) -> None:
    """With one success in every block, so that they can be counted."""
    trials = Trials(laplace_tail(Fraction(3), 12), 10**6)
    trials.bits = bits
    asked: list[int] = []

    def block(_: Draws, count: int) -> np.ndarray:
        asked.append(count)
        return np.ones(count, np.int64)

    trials._block = block  # type: ignore[method-assign]
    found = {trials.successes(Draws(SeededBits(seed)), number) for seed in range(40)}
    full, rest = divmod(number, 1 << bits)
    assert found == ({full} if rest == 0 else {full, full + 1})
    assert sum(asked) == 40 * (full + (rest > 0)) and max(asked) <= 1 << 15
    if rest:
        counted = [trials.successes(Draws(SeededBits(seed)), rest) for seed in range(2000)]
        assert abs(sum(counted) / 2000 - rest / (1 << bits)) < 0.05


# Disjoint sets


def test_packings_are_drawn_by_the_law_they_promise() -> None:
    """Steps with two options and with more; what lies behind an option counts with all its weight, not its best."""
    family = Packings([0b0001, 0b0010, 0b0100, 0b1000, 0b1000], 4, 2)
    weights = np.array([1.0, -0.5, 0.5, 0.2, 0.3])
    noise, count = NoiseSource.seeded(24), 1200
    drawn = [noise.select_packing(family, weights) for _ in range(count)]
    for chosen in ((0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (2, 4)):
        chance = math.exp(family.log_probability(weights, chosen))
        assert abs(drawn.count(chosen) / count - chance) < 2 / math.sqrt(count)


def test_the_slack_is_the_one_that_is_proved() -> None:
    """Step by step as its proof adds it up, for sets of several sizes, some of them more than once."""
    u, masks, width, count = 2.0**-53, [0b11, 0b11, 0b101, 0b1100, 0b110000, 0b100100], 7, 3
    family = Packings(masks, width, count)
    alone = width - count * 2  # every set has two attributes
    for largest in (0.0, 1.0, 1e4, 1e9):
        bound = largest + math.log(6)
        gamma = 2.0 ** -(family._grid(largest) + 1)
        one_step = 2 * gamma + 16 * ((2 + 1) + 2 + 8) * u  # two sets begin at the first attribute, one is there twice
        along = sum(5 * u * c * bound for c in range(1, count + 1)) + alone * 5 * u * count * bound
        assert family.slack(largest) == pytest.approx(4 * ((count + alone) * one_step + along), rel=1e-12, abs=0)
        assert 2.0**60 < (count * bound + 1) * 2.0 ** family._grid(largest) < 2.0**62


def test_weights_up_to_the_largest_are_taken() -> None:
    family = Packings([0b1, 0b10], 2, 1)
    assert family.heaviest([1e9, -1e9]) == (1e9, (0,))
    assert NoiseSource().select_packing(family, np.array([10**9, -(10**9)])) == (0,)


# What is refused is named


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda s: NoiseSource.seeded(-1), "A seed must"),
        (lambda s: s.uniform_integers(0, 1), "A bound must"),
        (lambda s: s.binomial("x", 0.5), "Trials must"),
        (lambda s: s.binomial(-1, 0.5), "Trials must"),
        (lambda s: s.binomial(1, 2), "A success probability must"),
        (lambda s: s.randomized_response([0], 0, 1), "The number of codes must"),
        (lambda s: s.randomized_response([0], (1 << 62) + 1, 1), "The number of codes must"),
        (lambda s: s.randomized_response(["x"], 2, 1), "Codes must"),
        (lambda s: s.randomized_response([-1], 2, 1), "Codes must"),
        (lambda s: s.row_response(0.4), "The probability to keep a code must"),
        (lambda s: s.randomized_response_counts(["x"], 1), "Counts must"),
        (lambda s: s.randomized_response_counts([-1, 2], 1), "Counts must"),
        (lambda s: s.uniform_subset(-1, 0), "The size of the set must"),
        (lambda s: s.uniform_subset((1 << 62) + 1, 0), "The size of the set must"),
        (lambda s: s.uniform_subset(3, 4), "The size of the subset must"),
        (lambda s: s.select_exponential(["x"], 1), "Scores must"),
        (lambda s: Packings([1], 1, 0), "The number of disjoint sets must"),
        (lambda s: Packings([1], 21, 1), "The number of attributes must"),
        (lambda s: Packings([2], 1, 1), "The mask of a set must"),
        (lambda s: Packings([1], 1, 1).log_probability([0.0], [1]), "A member's index must"),
    ],
)
def test_what_is_refused_is_named(ask: Callable[[NoiseSource], object], told: str) -> None:
    with pytest.raises(MechanismError) as error:
        ask(NoiseSource.seeded(1))
    assert str(error.value).startswith(told)
    assert repr(NoiseSource()) == "NoiseSource(operating system)"
