"""Every sampler against its exact law: the truth is accepted, a scale 30 % off either way is not.

A true law is refused with probability 1e-9 per comparison; samples are large enough for a wrong one to be certain.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from nabladp.noise import NoiseSource, gaussian_log_pmf, laplace_log_pmf
from nabladp.noise.draws import Draws, SeededBits
from nabladp.noise.samplers import discrete_gaussian, discrete_laplace

ALARM = 1e-9
LAWS = {"gaussian": gaussian_log_pmf, "laplace": laplace_log_pmf}
FORCED = 1e6  # a slack this wide sends every decision down the exact path


@pytest.fixture(params=["system", "seeded"])
def noise(request):
    return NoiseSource() if request.param == "system" else NoiseSource.seeded(20260)


def chi2_p(observed, expected):
    """p-value of a chi² test over cells that expect at least 10; the rare ones, taken together, by Poisson's law."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    common = expected >= 10
    o, e = observed[common], expected[common]
    rare = stats.poisson.sf(observed[~common].sum() - 1, max(expected[~common].sum(), 1e-9))
    # With rare cells left out the common ones do not add up to a fixed total: no degree of freedom is lost.
    return min(rare, stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e)) if len(e) else 1.0)


def integer_law_p(samples, kind, scale):
    """Chi² of integer noise against P(x); whatever lies outside the window is an impossible cell if it is not empty."""
    reach = max(10, math.ceil(40 * scale))
    inside = samples[np.abs(samples) <= reach]
    assert len(inside) == len(samples)
    probabilities = np.exp(LAWS[kind](scale, -reach, reach))
    return chi2_p(np.bincount(inside + reach, minlength=2 * reach + 1), probabilities * len(samples))


def wide_law_p(samples, kind, scale, cells=64):
    """For scales so large that the continuous law is exact enough: equally likely cells."""
    law = stats.norm if kind == "gaussian" else stats.laplace
    uniform = law.cdf((samples + 0.5) / float(scale))
    places = np.minimum((uniform * cells).astype(int), cells - 1)  # far out, the law is 1 to the last bit
    return chi2_p(np.bincount(places, minlength=cells), np.full(cells, len(samples) / cells))


def draw(noise, kind, scale, size):
    return noise.discrete_gaussian(scale, size) if kind == "gaussian" else noise.discrete_laplace(scale, size)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [0.25, 0.3, 0.9, 1.0, 2.5, Fraction(22, 7), 10.0, 60.0])
def test_integer_noise_has_its_law_and_no_other(noise, kind, scale):
    samples = draw(noise, kind, scale, 200_000)
    assert integer_law_p(samples, kind, float(scale)) > ALARM
    assert integer_law_p(samples, kind, float(scale) * 0.7) < ALARM
    assert integer_law_p(samples, kind, float(scale) * 1.3) < ALARM


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [1e5, 3e6, 1e9, 1e12, 1e15, Fraction(10**14, 7)])
def test_wide_integer_noise(noise, kind, scale):
    samples = draw(noise, kind, scale, 100_000)
    assert wide_law_p(samples, kind, scale) > ALARM
    assert wide_law_p(samples, kind, float(scale) * 0.7) < ALARM
    assert wide_law_p(samples, kind, float(scale) * 1.3) < ALARM
    for modulus in (2, 64, 81):  # the low bits, drawn apart for such scales, are as good as uniform
        counts = np.bincount(samples % modulus, minlength=modulus)
        assert chi2_p(counts, np.full(modulus, len(samples) / modulus)) > ALARM


@pytest.mark.parametrize("kind", LAWS)
def test_tiny_scales_are_nearly_always_zero(noise, kind):
    assert not draw(noise, kind, 1e-3, 20_000).any()
    assert not draw(noise, kind, 1e-6, 20_000).any()


@pytest.mark.parametrize(("sampler", "kind"), [(discrete_gaussian, "gaussian"), (discrete_laplace, "laplace")])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_the_exact_path_alone_has_the_same_law(sampler, kind, scale):
    samples = sampler(Draws(SeededBits(7), slack=FORCED), Fraction(scale), 4_000)
    assert integer_law_p(samples, kind, scale) > ALARM
    assert integer_law_p(samples, kind, scale * 0.7) < ALARM
    assert integer_law_p(samples, kind, scale * 1.3) < ALARM


def opendp_samples(kind, scale, size):
    import opendp.prelude as dp
    from opendp.core import as_array

    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale) >> as_array()
    else:
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale) >> as_array()
    return np.asarray(measurement(np.zeros(size, np.int64)))


def two_sample_p(first, second):
    lowest = min(first.min(), second.min())
    width = int(max(first.max(), second.max()) - lowest) + 1
    table = np.stack([np.bincount(s - lowest, minlength=width) for s in (first, second)])
    groups = np.minimum(np.cumsum(table.sum(axis=0)) // 200, 400)  # about 200 draws a cell, wherever they fall
    merged = np.stack([np.bincount(groups, weights=row) for row in table])
    return stats.chi2_contingency(merged[:, merged.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [0.8, 6.0])
def test_agrees_with_opendp(kind, scale):
    theirs = opendp_samples(kind, scale, 40_000)
    source = NoiseSource()
    assert two_sample_p(draw(source, kind, scale, 40_000), theirs) > ALARM
    assert two_sample_p(draw(source, kind, scale * 0.7, 40_000), theirs) < ALARM
    assert two_sample_p(draw(source, kind, scale * 1.3, 40_000), theirs) < ALARM


@pytest.mark.parametrize(("trials", "p"), [(5, Fraction(1, 3)), (64, Fraction(1, 2)), (300, Fraction(3, 5))])
def test_binomial(noise, trials, p):
    samples = noise.binomial(np.full(40_000, trials), p)

    def p_value(q):
        return chi2_p(
            np.bincount(samples, minlength=trials + 1), stats.binom.pmf(np.arange(trials + 1), trials, q) * 40_000
        )

    assert p_value(float(p)) > ALARM
    assert p_value(float(p) * 0.7) < ALARM
    assert p_value(float(p) * 1.3) < ALARM


def test_binomial_of_many_trials(noise):
    trials, p = 3_000_017, Fraction(2, 7)
    z = (noise.binomial(trials, p) - trials * float(p)) / math.sqrt(trials * float(p * (1 - p)))
    assert abs(z) < 6.2  # two-sided 5e-10


def response_matrix(size, keep):
    return np.where(np.eye(size, dtype=bool), float(keep), (1 - float(keep)) / (size - 1))


@pytest.mark.parametrize(("size", "keep"), [(2, Fraction(3, 4)), (5, Fraction(2, 5)), (7, Fraction(1, 7))])
def test_randomized_response(noise, size, keep):
    codes = np.repeat(np.arange(size), 20_000)
    answers = noise.randomized_response(codes, size, keep)
    for code in range(size):
        counts = np.bincount(answers[codes == code], minlength=size)
        assert chi2_p(counts, response_matrix(size, keep)[code] * 20_000) > ALARM / 10
        for off in (Fraction(7, 10), Fraction(13, 10)):
            if keep * off < 1:
                assert chi2_p(counts, response_matrix(size, keep * off)[code] * 20_000) < ALARM


def test_randomized_response_on_counts_has_the_law_of_the_rows(noise):
    """The joint law of a small histogram, against row by row: same chi² cells over whole histograms."""
    counts, keep = np.array([3, 1, 0]), Fraction(1, 2)
    repeats = 30_000
    from_counts = noise.randomized_response_counts(np.tile(counts, (repeats, 1)), keep)
    rows = np.tile(np.repeat(np.arange(3), counts), (repeats, 1))
    answers = noise.randomized_response(rows, 3, keep)
    from_rows = np.stack([(answers == code).sum(axis=1) for code in range(3)], axis=1)
    assert (from_counts.sum(axis=1) == 4).all()
    base = np.array([25, 5, 1])
    joint = [np.bincount(h @ base, minlength=101) for h in (from_counts, from_rows)]
    table = np.stack(joint)
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 10]).pvalue > ALARM
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        off = noise.randomized_response_counts(np.tile(counts, (repeats, 1)), keep * factor)
        table = np.stack([np.bincount(off @ base, minlength=101), joint[1]])
        assert stats.chi2_contingency(table[:, table.sum(axis=0) > 10]).pvalue < ALARM


@pytest.mark.parametrize("bound", [3, 1000, (1 << 63) - 25, 3 << 61])
def test_uniform_integers(noise, bound):
    samples = noise.uniform_integers(bound, 100_000)
    assert samples.min() >= 0
    cells = min(bound, 100)
    counts = np.bincount([int(x) * cells // bound for x in samples], minlength=cells)
    assert chi2_p(counts, np.full(cells, 100_000 / cells)) > ALARM


@pytest.mark.parametrize(("n", "k"), [(6, 2), (6, 4), (5, 3)])
def test_uniform_subset(noise, n, k):
    seen = Counter(tuple(noise.uniform_subset(n, k).tolist()) for _ in range(6_000))
    every = list(combinations(range(n), k))
    assert set(seen) <= set(every)
    assert chi2_p([seen[s] for s in every], np.full(len(every), 6_000 / len(every))) > ALARM


@pytest.mark.parametrize("factor", [1, 10**30])
def test_select(noise, factor):
    weights = [w * factor for w in (5, 0, 1, 14)]
    counts = np.bincount(noise.select(weights, 20_000), minlength=4)
    assert counts[1] == 0
    assert chi2_p(counts[[0, 2, 3]], 20_000 * np.array([0.25, 0.05, 0.7])) > ALARM
    assert chi2_p(counts[[0, 2, 3]], 20_000 * np.array([0.35, 0.05, 0.6])) < ALARM


def test_select_exponential(noise):
    scores, repeats = np.array([10, 7, 0, 10, -4000]), 20_000
    counts = np.bincount([noise.select_exponential(scores, Fraction(5, 2)) for _ in range(repeats)], minlength=5)

    def p_value(scale):
        weights = np.exp((scores - 10) / scale)
        return chi2_p(counts, repeats * weights / weights.sum())

    assert counts[4] == 0
    assert p_value(2.5) > ALARM
    assert p_value(2.5 * 0.7) < ALARM
    assert p_value(2.5 * 1.3) < ALARM
