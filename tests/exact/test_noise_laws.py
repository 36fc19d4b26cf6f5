"""The laws against sums carried out with fifty digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.noise import gaussian_log_pmf, half_width, laplace_log_pmf, laws, response_epsilon, variance

SCALES = [1e-3, 0.1, 0.3, 0.399, 0.75, 0.999, 1.0, 1.5, Fraction(7, 3), 12.0]


def weights(kind, scale, reach):
    """exp(−|x|/s) or exp(−x²/(2s²)) for x = 0 … reach, as decimals."""
    s = Decimal(scale.numerator) / Decimal(scale.denominator)
    return [(-(Decimal(x) / s if kind == "laplace" else (x / s) ** 2 / 2)).exp() for x in range(reach + 1)]


def high_precision(kind, scale):
    """Weights and their total over all integers, far enough out for fifty digits."""
    scale = Fraction(scale)
    w = weights(kind, scale, math.ceil(130 * scale) + 2 if kind == "laplace" else math.ceil(16 * scale) + 2)
    return w, w[0] + 2 * sum(w[1:])


@pytest.fixture(autouse=True)
def fifty_digits():
    with localcontext() as context:
        context.prec = 50
        context.Emin = -(10**15)
        yield


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("kind", "law"), [("gaussian", gaussian_log_pmf), ("laplace", laplace_log_pmf)])
def test_log_probabilities(kind, law, scale):
    w, total = high_precision(kind, scale)
    reach = min(len(w) - 1, 20)
    computed = law(scale, -reach, reach)
    for x in range(-reach, reach + 1):
        truth = (w[abs(x)] / total).ln()
        if truth > Decimal("-1e-300"):  # the logarithm of a probability that is one but for a denormal number
            continue
        assert abs(Decimal(float(computed[x + reach])) / truth - 1) < Decimal("1e-14")


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 1e6])
@pytest.mark.parametrize("law", [gaussian_log_pmf, laplace_log_pmf])
def test_windows(law, scale):
    assert law(scale, 3, 3).shape == (1,)
    assert law(scale, -2, 5).tolist()[2:] == law(scale, 0, 5).tolist()
    with pytest.raises(MechanismError):
        law(scale, 5, 4)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_variance(kind, scale):
    w, total = high_precision(kind, scale)
    truth = 2 * sum(x * x * p for x, p in enumerate(w)) / total
    assert variance(kind, scale) == pytest.approx(float(truth), rel=1e-12, abs=0)


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, Fraction(7, 3), 12.0, 40.5])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.95, 0.99, 1 - 1e-6, 1 - 2**-40])
def test_half_width_is_the_smallest_that_suffices(kind, scale, level):
    w, total = high_precision(kind, scale)
    h = half_width(kind, scale, level)

    def inside(k):
        return (w[0] + 2 * sum(w[1 : k + 1])) / total

    assert inside(h) >= Decimal(level)
    assert h == 0 or inside(h - 1) < Decimal(level)


def test_half_width_rounds_up_where_doubles_cannot_tell():
    level = math.tanh(0.5 / 2.0)  # P(X = 0) for Laplace noise of scale 2, up to rounding
    assert half_width("laplace", 2.0, level * (1 - 1e-9)) == 0
    assert half_width("laplace", 2.0, level) == 1


@pytest.mark.parametrize("scale", [300.0, 1e6])
@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-9])
def test_half_width_of_wide_gaussians_against_the_plain_sum(scale, level):
    h = half_width("gaussian", scale, level)
    x = np.arange(1, int(9 * scale), dtype=float)
    tail = 2 * np.cumsum(np.exp(-((x / scale) ** 2) / 2)[::-1])[::-1]  # tail[h] is the weight of |X| > h
    total = 1 + tail[0]
    assert tail[h] / total <= 1 - level < tail[h - 1] / total


@pytest.mark.parametrize("z", [0.1, 1.0, 3.0, 8.0])
def test_both_tail_formulas_agree(monkeypatch, z):
    h = round(256 * z)
    by_series = laws._gaussian_tail(256.0, h)
    monkeypatch.setattr(laws, "_SUMMED_SCALE", 1000.0)
    assert laws._gaussian_tail(256.0, h) == pytest.approx(by_series, rel=5e-13, abs=0)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_half_width_at_the_largest_scale(kind):
    factor = {"gaussian": 1.959963984540054, "laplace": math.log(20)}[kind]
    assert half_width(kind, 1e15, 0.95) == pytest.approx(factor * 1e15, rel=1e-9)


@pytest.mark.parametrize(
    ("size", "keep"),
    [(2, Fraction(3, 4)), (10, Fraction(1, 10)), (3, 0.9), (7, Fraction(1, 7) + Fraction(1, 10**40)), (2, 1 - 2**-50)],
)
def test_response_epsilon_is_an_upper_bound_and_a_near_one(size, keep):
    p = Fraction(keep)
    ratio = p * (size - 1) / (1 - p)
    with localcontext() as context:
        context.prec = 120
        truth = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        epsilon = Decimal(response_epsilon(size, keep))
        assert truth <= epsilon <= truth * (1 + Decimal(2) ** -49)


def test_response_epsilon_at_the_ends():
    assert response_epsilon(2, Fraction(1, 2)) == 0.0
    assert response_epsilon(1, 1) == 0.0
    assert response_epsilon(2, 1) == math.inf
    assert response_epsilon(2, 1 - Fraction(1, 10**400)) == pytest.approx(400 * math.log(10))
    with pytest.raises(MechanismError):
        response_epsilon(3, Fraction(1, 4))


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, math.nan, math.inf, "0.95", None, True])
def test_bad_levels(level):
    with pytest.raises(MechanismError):
        half_width("gaussian", 1.0, level)


def test_unknown_kind():
    for call in (lambda: half_width("cauchy", 1.0, 0.9), lambda: variance("cauchy", 1.0)):
        with pytest.raises(MechanismError, match="kind"):
            call()
