"""Exactness without sampling: enumerated random bits, thresholds hit to the last bit, both paths on the same words."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from nabladp.noise.choices import randomized_response_counts, scatter, select, select_exponential, uniform_subset
from nabladp.noise.draws import Draws, SeededBits, Uniform, exp_bounds, exp_interval, rational_bounds
from nabladp.noise.samplers import binomial, discrete_gaussian, discrete_laplace, geometric

FORCED = 1e6


class NeedMore(Exception):
    pass


class Scripted:
    """Hands out the words it was given."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        if count > len(self.left):
            raise NeedMore
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def enumerate_law(function, letters, depth):
    """The exact law of ``function(draws)`` when each word is uniform over letters; and the mass not yet decided.

    This is the true law whenever a word matters only through bits on which the letters are uniform.
    """
    law, undecided = defaultdict(Fraction), Fraction(0)
    scripts = [()]
    while scripts:
        script = scripts.pop()
        weight = Fraction(1, len(letters) ** len(script))
        try:
            law[function(Draws(Scripted(script), slack=0.0))] += weight
        except NeedMore:
            if len(script) == depth:
                undecided += weight
            else:
                scripts.extend((*script, letter) for letter in letters)
    return law, undecided


def assert_law(law, undecided, truth, at_most):
    assert set(law) <= set(truth)
    assert undecided <= at_most
    for outcome, probability in truth.items():
        assert probability - undecided <= law[outcome] <= probability


def binomial_law(n, p):
    return {k: math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)}


def test_coins_and_heads_use_every_bit_once():
    law, undecided = enumerate_law(lambda d: int(d.heads(np.array([3]))[0]), range(8), 1)
    assert_law(law, undecided, binomial_law(3, Fraction(1, 2)), 0)
    word = 0b1011 | 1 << 63
    assert Draws(Scripted([word])).coins(64).sum() == 4
    assert Draws(Scripted([2**64 - 1] * 6)).heads(np.array([0, 64, 65, 0, 130])).tolist() == [0, 64, 65, 0, 130]


def test_heads_of_many_cells_across_blocks():
    tosses = np.array([0, 64 * 40_000, 7, 64 * 30_000 + 1, 0, 64, 0])
    ones = Draws(Scripted([2**64 - 1] * 70_003)).heads(tosses)
    assert ones.tolist() == tosses.tolist()


@pytest.mark.parametrize(("p", "depth", "left"), [(Fraction(3, 8), 3, 0), (Fraction(1, 3), 4, Fraction(1, 4))])
def test_binomial_law(p, depth, left):
    law, undecided = enumerate_law(lambda d: int(binomial(d, np.array([3]), p)[0]), range(8), depth)
    assert_law(law, undecided, binomial_law(3, p), left)


def test_binomial_cells_are_independent():
    p = Fraction(1, 4)
    law, undecided = enumerate_law(lambda d: tuple(binomial(d, np.array([2, 1]), p).tolist()), range(4), 4)
    first, second = binomial_law(2, p), binomial_law(1, p)
    assert_law(law, undecided, {(a, b): first[a] * second[b] for a in first for b in second}, 0)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1)])
def test_certain_binomials(p):
    assert binomial(Draws(SeededBits(1)), np.array([100, 0, 7]), p).tolist() == [100 * p, 0, 7 * p]


def test_scatter_law():
    law, undecided = enumerate_law(lambda d: tuple(scatter(d, np.array([2]), 3)[0].tolist()), range(4), 6)
    truth = defaultdict(Fraction)
    for cells in product(range(3), repeat=2):
        truth[tuple(cells.count(c) for c in range(3))] += Fraction(1, 9)
    assert_law(law, undecided, truth, Fraction(1, 5))


@pytest.mark.parametrize(
    ("counts", "keep"), [((1, 1), Fraction(3, 4)), ((2, 0), Fraction(5, 8)), ((0, 1, 1), Fraction(2, 3))]
)
def test_randomized_response_on_counts_is_that_of_rows(counts, keep):
    size = len(counts)
    law, undecided = enumerate_law(
        lambda d: tuple(randomized_response_counts(d, np.array(counts), keep).tolist()), range(4), 7
    )
    truth = defaultdict(Fraction)
    rows = [code for code, count in enumerate(counts) for _ in range(count)]
    for answers in product(range(size), repeat=len(rows)):
        chances = [keep if a == r else (1 - keep) / (size - 1) for a, r in zip(answers, rows, strict=True)]
        truth[tuple(answers.count(code) for code in range(size))] += math.prod(chances)
    assert_law(law, undecided, truth, Fraction(1, 16))


def test_uniform_integers_reject_exactly_the_incomplete_multiple():
    for bound in (3, 10, 2**62 + 1, 2**63 - 1):
        last = 2**64 - 2**64 % bound - 1
        assert (last + 1) % bound == 0
        draws = Draws(Scripted([last + 1, last, 0] if last < 2**64 - 1 else [last, 0]))
        assert draws.integers(bound, 2).tolist() == [bound - 1, 0]


@pytest.mark.parametrize("bound", [1, 4, 5, 7])
def test_uniform_big_integers(bound):
    law, undecided = enumerate_law(lambda d: d.integer(bound), range(8), 6)
    assert_law(law, undecided, {k: Fraction(1, bound) for k in range(bound)}, Fraction(1, 300))
    assert len(set(law.values())) == 1


def test_uniform_subset_law():
    law, undecided = enumerate_law(lambda d: tuple(uniform_subset(d, 4, 2).tolist()), range(4), 6)
    assert len(law) == 6
    assert len(set(law.values())) == 1
    assert undecided < Fraction(1, 100)


@pytest.mark.parametrize("as_array", [True, False])
def test_select_law(as_array):
    weights = np.array([1, 0, 2, 1]) if as_array else [1, 0, 2, 1]
    law, undecided = enumerate_law(lambda d: int(select(d, weights, 1)[0]), range(4), 1)
    assert_law(law, undecided, {0: Fraction(1, 4), 2: Fraction(1, 2), 3: Fraction(1, 4)}, 0)


def test_select_law_beyond_64_bits():
    letters = [0, 1 << 63, 1, 1 | 1 << 63]  # the total is 2⁶⁵: bit 63 of the first word and bit 0 of the second decide
    law, undecided = enumerate_law(lambda d: int(select(d, [1 << 63, 0, 1 << 64, 1 << 63], 1)[0]), letters, 2)
    assert_law(law, undecided, {0: Fraction(1, 4), 2: Fraction(1, 2), 3: Fraction(1, 4)}, 0)


def exp_scaled(gamma, n):
    """2ⁿ·exp(−γ) to 40 digits beyond the point, by the decimal module (correctly rounded, independent of ours)."""
    with localcontext() as context:
        context.prec = 60 + n // 3
        return (-Decimal(gamma.numerator) / Decimal(gamma.denominator)).exp() * Decimal(2) ** n


GAMMAS = [
    Fraction(1, 10**9),
    Fraction(1, 7),
    Fraction(1),
    Fraction(355, 113),
    Fraction(40),
    Fraction(0.1),
    Fraction(5000),
]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("n", [64, 128, 640])
def test_exp_bounds_hold_and_are_tight(gamma, n):
    low, high = exp_bounds(gamma)(n)
    truth = exp_scaled(gamma, n)
    assert low <= truth <= high
    assert high - low <= 2


@pytest.mark.parametrize("precision", range(40, 90))
def test_exp_intervals_hold_to_the_last_unit(precision):
    for gamma, halvings in ((Fraction(1, 3), 0), (Fraction(2, 5), 0), (Fraction(7, 3), 3), (Fraction(30), 6)):
        low, high = exp_interval(gamma, halvings, precision)
        assert low <= exp_scaled(gamma, precision) <= high


def test_exp_of_nothing_is_one():
    assert exp_bounds(Fraction(0))(64) == (1 << 64, 1 << 64)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_uniform_real_is_compared_to_the_last_bit(gamma):
    bounds = exp_bounds(gamma)
    bits = int(exp_scaled(gamma, 256))
    words = [bits >> shift & 2**64 - 1 for shift in (192, 128, 64, 0)]
    for position in range(1, 4):  # agrees with the threshold up to there, then is just below or just above
        if 0 < words[position] < 2**64 - 1:
            for off in (-1, 1):
                script = Scripted([*words[1:position], words[position] + off, *[0] * 5])
                assert Uniform(script, words[0]).below(bounds) is (off < 0)
                assert len(script.left) == 5  # and no bit more was asked for


def test_rational_thresholds_are_exact():
    half = rational_bounds(Fraction(1, 2))
    assert Uniform(Scripted([]), 2**63 - 1).below(half)
    assert not Uniform(Scripted([]), 2**63).below(half)
    third, word = rational_bounds(Fraction(1, 3)), 0x5555555555555555
    assert Uniform(Scripted([word, word, word - 1]), word).below(third)
    assert not Uniform(Scripted([word, word, word + 1]), word).below(third)
    assert Uniform(Scripted([]), 2**64 - 1).below(rational_bounds(Fraction(1)))
    assert not Uniform(Scripted([]), 0).below(rational_bounds(Fraction(0)))


@pytest.mark.parametrize("scale", [Fraction(0.3), Fraction(1), Fraction(7.5), Fraction(10**6), Fraction(10**15, 7)])
@pytest.mark.parametrize("sampler", [geometric, discrete_laplace, discrete_gaussian])
def test_floats_decide_as_the_exact_path_does(sampler, scale):
    """The same words give the same values, whether floats or integer intervals decide."""
    fast = sampler(Draws(SeededBits(11)), scale, 300)
    slow = sampler(Draws(SeededBits(11), slack=FORCED), scale, 300)
    assert fast.tolist() == slow.tolist()


def test_selection_by_floats_and_exactly():
    scores = np.array([2**62, 2**62 - 3, -(2**62), 2**62 - 40])
    fast, slow = Draws(SeededBits(3)), Draws(SeededBits(3), slack=FORCED)
    scale = Fraction(5, 2)
    assert [select_exponential(fast, scores, scale) for _ in range(60)] == [
        select_exponential(slow, scores, scale) for _ in range(60)
    ]


@pytest.mark.parametrize("scale", [Fraction(0.3), Fraction(2.5), Fraction(1000.1), Fraction(10**6)])
def test_geometric_at_the_very_edge(scale):
    """Words next to 2⁶⁴·exp(−k/scale), where doubles cannot tell, fall on the right side."""
    for k in {1, 2, int(scale) + 1, int(5 * scale) + 1}:
        threshold = exp_scaled(k / scale, 64)
        edge = int(threshold)  # U = (edge + fraction)/2⁶⁴ lies below exp(−k/scale) iff fraction < threshold − edge
        if edge == 0:
            continue
        for word, expected in ((edge - 1, k), (edge + 1, k - 1)):
            assert geometric(Draws(Scripted([word])), scale, 1).tolist() == [expected]
        cut = int((threshold - edge) * 2**32)
        for lead, expected in ((cut - 1, k), (cut + 1, k - 1)):
            if 0 <= lead < 2**32:
                assert geometric(Draws(Scripted([edge, lead << 32])), scale, 1).tolist() == [expected]


@pytest.mark.parametrize("gamma", [Fraction(1, 10**6), Fraction(1, 3), Fraction(9), Fraction(25)])
@pytest.mark.parametrize("coin", ["exp", "rational"])
def test_biased_coins_at_the_very_edge(gamma, coin):
    """The same for coins: words that share all bits with the threshold a double can hold."""
    p = Fraction(int(exp_scaled(gamma, 200)), 1 << 200) if coin == "rational" else None
    threshold = exp_scaled(gamma, 64)
    edge, cut = int(threshold), int((threshold - int(threshold)) * 2**32)
    for script, expected in (
        ([edge - 1], True),
        ([edge + 1], False),
        ([edge, cut - 1 << 32], True),
        ([edge, cut + 1 << 32], False),
    ):
        draws = Draws(Scripted(script))
        coins = (
            draws.bernoulli(p, 1) if p is not None else draws.bernoulli_exp(np.array([float(gamma)]), lambda _: gamma)
        )
        assert coins.tolist() == [expected]
        assert draws.bits.left == []


def test_low_bits_of_wide_noise_at_the_very_edge():
    """Above scale 2²⁰ low bits are drawn apart and kept with probability exp(−low/scale)."""
    scale, low = Fraction(10**9), 700
    edge = int(exp_scaled(low / scale, 64))
    high_word, kept_anyway = 1 << 63, [3, 0]  # the next low bits, and a word below any threshold
    for word, expected in ((edge - 1, low), (edge + 1, 3)):
        draws = Draws(Scripted([high_word, low, word, *kept_anyway]))
        assert int(geometric(draws, scale, 1)[0]) % 1024 == expected


def test_geometric_with_no_leading_bits_at_all():
    """A first word of zeros: the value is found from the bits that follow, however far out."""
    scale = Fraction(1000)
    value = int(geometric(Draws(Scripted([0, 0, 1 << 40, 0])), scale, 1)[0])
    assert value == math.floor(1000 * (64 * 3 - 40) * math.log(2))
