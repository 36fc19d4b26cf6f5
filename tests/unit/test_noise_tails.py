"""Exactness of the draws that stand for very many equal ones."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from nabladp.noise.draws import Draws, HalfWords, SeededBits, rational_bounds
from nabladp.noise.tails import Trials, gaussian_beyond, gaussian_tail, laplace_beyond, laplace_tail, subset

mpmath.mp.dps = 120


def draws(seed: int) -> Draws:
    return Draws(HalfWords(Draws(SeededBits(seed))))


def true_tail(kind: str, scale: float, start: int) -> mpmath.mpf:
    s = mpmath.mpf(scale)
    if kind == "laplace":
        return mpmath.exp(-start / s) / (1 + mpmath.exp(-1 / s))
    reach = int(26 * scale) + 10
    weight = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s)) for x in range(start + reach)]
    return mpmath.fsum(weight[start:]) / (1 + 2 * mpmath.fsum(weight[1:]))


TAILS = [
    ("laplace", 0.3, 1),
    ("laplace", 4.7, 1),
    ("laplace", 4.7, 60),
    ("laplace", 1000.5, 9000),
    ("gaussian", 0.4, 1),
    ("gaussian", 5.3, 1),
    ("gaussian", 5.3, 40),
    ("gaussian", 61.0, 20),
]


def bounds_of(kind: str, scale: float, start: int):
    return (laplace_tail if kind == "laplace" else gaussian_tail)(Fraction(scale), start)


@pytest.mark.parametrize(("kind", "scale", "start"), TAILS)
@pytest.mark.parametrize("n", [3, 64, 200])
def test_tail_bounds_hold_and_are_tight(kind: str, scale: float, start: int, n: int) -> None:
    low, high = bounds_of(kind, scale, start)(n)
    truth = true_tail(kind, scale, start) * mpmath.mpf(2) ** n
    assert low <= truth <= high
    assert high - low <= 2


def test_a_tail_beyond_all_precision_still_has_bounds() -> None:
    low, high = gaussian_tail(Fraction(1e-6), 5)(64)
    assert low == 0 and 0 <= high <= 1
    low, high = gaussian_tail(Fraction(2), 10**6)(64)
    assert low == 0 and high <= 1


@pytest.mark.parametrize(("kind", "scale", "start"), TAILS)
@pytest.mark.parametrize("n", [64, 192])
def test_a_block_has_the_binomial_law(kind: str, scale: float, start: int, n: int) -> None:
    trials = Trials(bounds_of(kind, scale, start), 10**40)
    p = true_tail(kind, scale, start)
    size = 2**trials.bits
    assert size * p <= 1
    total = mpmath.mpf(0)
    lows, highs = trials._table(n)
    for j, (low, high) in enumerate(zip(lows, highs, strict=True)):
        total += mpmath.binomial(size, j) * p**j * (1 - p) ** (size - j)
        assert low <= min(total, 1) * mpmath.mpf(2) ** n <= high
        assert high - low <= 2
    assert 1 - total < mpmath.mpf(2) ** (2 - n)


class Script:
    """Words given beforehand."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)


@pytest.mark.parametrize("j", [0, 1, 3])
def test_the_inversion_looks_at_as_many_bits_as_it_takes(j: int) -> None:
    trials = Trials(laplace_tail(Fraction(3), 12), 10**6)
    precise = trials._table(192)
    boundary = (precise[0][j] + precise[1][j]) // 2  # F(j) to 192 bits, up to a few units
    words = [(boundary >> shift) & (2**64 - 1) for shift in (128, 64, 0)]
    for change, expected in ((-1000, j), (1000, j + 1)):
        script = Script(words[0], words[1], words[2] + change)
        assert trials._block(Draws(script), 1)[0] == expected
        assert not script.left


def test_the_last_word_is_never_decided_without_looking_further() -> None:
    trials = Trials(laplace_tail(Fraction(3), 12), 10**6)
    top = 2**64 - 1
    script = Script(top, 0, 0)
    few = trials._block(Draws(script), 1)[0]
    script = Script(top, top, top, 0)
    more = trials._block(Draws(script), 1)[0]
    assert len(trials._lows) - 1 <= few < more


def chi_square(observed: np.ndarray, chances: np.ndarray) -> float:
    """The p-value, with outcomes expected fewer than five times put together."""
    total = observed.sum()
    expected = np.append(chances, max(0.0, 1 - chances.sum())) * total
    seen = np.append(observed, 0)
    small = expected < 5
    seen = np.append(seen[~small], seen[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] == 0:
        assert seen[-1] == 0
        seen, expected = seen[:-1], expected[:-1]
    elif expected[-1] < 1:
        assert seen[-1] <= 6
        seen, expected = seen[:-1], expected[:-1] * seen[:-1].sum() / expected[:-1].sum()
    return float(stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize(
    ("p", "number"),
    [
        (laplace_tail(Fraction(2), 1), 5),
        (laplace_tail(Fraction(2), 5), 77),
        (gaussian_tail(Fraction(4), 9), 300),
        (rational_bounds(Fraction(9, 10)), 6),
    ],
)
def test_successes_are_binomial(p, number: int) -> None:
    trials, source = Trials(p, number), draws(1)
    drawn = np.array([trials.successes(source, number) for _ in range(4000)])
    chance = p(64)[1] / 2.0**64
    law = stats.binom.pmf(np.arange(number + 1), number, chance)
    assert chi_square(np.bincount(drawn, minlength=number + 1), law) > 1e-4


def test_more_trials_than_any_machine_integer() -> None:
    number = 3 * 10**40
    p = rational_bounds(Fraction(1, 10**40) * Fraction(7, 5))
    trials, source = Trials(p, number), draws(2)
    drawn = np.array([trials.successes(source, number) for _ in range(3000)])
    assert chi_square(np.bincount(drawn, minlength=40), stats.poisson.pmf(np.arange(40), 4.2)) > 1e-4


def test_no_trials_and_hopeless_ones() -> None:
    trials = Trials(laplace_tail(Fraction(1, 1000), 10**6), 10**30)
    assert trials.successes(draws(3), 0) == 0
    assert trials.successes(draws(3), 10**30) == 0


@pytest.mark.parametrize(("scale", "start"), [(6.0, 2), (6.0, 25), (0.7, 1), (50.0, 60)])
def test_noise_beyond_a_threshold(scale: float, start: int) -> None:
    values = gaussian_beyond(draws(4), Fraction(scale), start, 20_000)
    assert values.min() >= start
    x = np.arange(start, start + math.ceil(12 * scale) + 5)
    weights = np.exp(-(x.astype(float) ** 2 - start**2) / (2 * scale**2))
    seen = np.bincount(values - start, minlength=len(x))[: len(x)]
    assert chi_square(seen, weights / weights.sum()) > 1e-4


def test_laplace_noise_beyond_a_threshold() -> None:
    values = laplace_beyond(draws(6), Fraction(3.5), 9, 20_000) - 9
    law = (1 - math.exp(-1 / 3.5)) * np.exp(-np.arange(80) / 3.5)
    assert chi_square(np.bincount(values, minlength=80)[:80], law) > 1e-4


@pytest.mark.parametrize("n", [7, 2**70])
def test_subsets_are_uniform(n: int) -> None:
    source = draws(5)
    drawn = [subset(source, n, 3) for _ in range(2000)]
    assert all(len(set(s.tolist())) == 3 and sorted(s.tolist()) == s.tolist() for s in drawn)
    sevenths = np.array([int(x) * 7 // n for s in drawn for x in s.tolist()])
    assert stats.chisquare(np.bincount(sevenths, minlength=7)).pvalue > 1e-4
    assert len(subset(source, n, 0)) == 0
