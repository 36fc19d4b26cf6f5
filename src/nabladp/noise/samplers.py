"""Integer noise: discrete Laplace, discrete Gaussian, binomial (after Canonne, Kamath and Steinke), all exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.noise.draws import Draws, Truths, Uniform, collect, exp_bounds
from nabladp.noise.parameters import trials as checked_trials

LARGEST = 1 << 62  # noise stays below this, so that a count can be added to it in 64 bits
_INVERSION_BITS = 20  # geometric draws are inverted directly up to scale 2²⁰; beyond, low bits are drawn apart
_SHORT_WORD = 1 << 44  # words below this say too little about the logarithm of the uniform real they begin


def discrete_laplace(draws: Draws, scale: Fraction, count: int) -> Integers:
    """Sample the discrete Laplace, P(x) ∝ exp(−|x|/scale): a geometric size with a random sign; a negative zero is
    redrawn."""

    def attempt(size: int) -> Integers:
        magnitude, negative = geometric(draws, scale, size), draws.coins(size)
        signed = np.where(negative, -magnitude, magnitude)
        return signed[(magnitude > 0) | ~negative]

    return collect(count, attempt)


def discrete_gaussian(draws: Draws, scale: Fraction, count: int) -> Integers:
    """Sample the discrete Gaussian by rejection: discrete Laplace of scale t > scale, kept with exp(−(|x| −
    scale²/t)²/(2 scale²))."""
    wider = scale.numerator // scale.denominator + 1
    centre = scale * scale / wider
    sigma, middle = float(scale), float(centre)

    def attempt(size: int) -> Integers:
        proposed = discrete_laplace(draws, Fraction(wider), size)
        # z = (|x| − centre)/σ is off by at most (|x|/σ + 1)·2⁻⁵¹, so exp(−z²/2) by less than 2⁻⁴⁸: SLACK/8 is 2⁻⁴³.
        z = (np.abs(proposed) - middle) / sigma

        def gamma(i: int) -> Fraction:
            return ((abs(int(proposed[i])) - centre) / scale) ** 2 / 2

        return proposed[draws.bernoulli_exp(z * z / 2, gamma)]

    return collect(count, attempt)


def geometric(draws: Draws, scale: Fraction, count: int) -> Integers:
    """Sample the geometric law P(X ≥ k) = exp(−k/scale) for k = 0, 1, 2, …

    X = low + 2ˢ·high with independent parts, because the weight exp(−X/scale) is a product of theirs. The low s bits
    are uniform ones kept with probability exp(−low/scale), which is nearly one.
    """
    bits = scale.numerator.bit_length() - scale.denominator.bit_length() + 1  # scale < 2^bits
    shift = max(0, bits - _INVERSION_BITS)
    high = _geometric_by_inversion(draws, scale / (1 << shift), count, LARGEST >> shift)
    if shift == 0:
        return high

    def attempt(size: int) -> Integers:
        low = draws.integers(1 << shift, size)
        return low[draws.bernoulli_exp(low / float(scale), lambda i: int(low[i]) / scale)]

    return (high << shift) + collect(count, attempt)


def _geometric_by_inversion(draws: Draws, scale: Fraction, count: int, limit: int) -> Integers:
    """Geometric samples ⌊−scale·ln U⌋ for a uniform real U of which a word gives the first 64 bits."""
    words = draws.words(count)
    real = np.log((words + 0.5) * 2.0**-64) * -float(scale)
    # For a word w ≥ 2⁴⁴ the unknown bits of U move ln U by at most 2⁻⁴⁴; ln U is above −14, so that the float errors of
    # `log`, of its argument and of the product add less than 2⁻⁴⁵. In all less than scale·2⁻⁴³, far inside the margin.
    margin = float(scale) * draws.slack
    low, high = np.floor(real - margin), np.floor(real + margin)
    values: Integers = low.astype(np.int64)
    undecided: Truths = (low != high) | (words < _SHORT_WORD)
    for i in np.flatnonzero(undecided).tolist():
        # A short word leaves −ln U up to ln 2 below the float, or any amount above it: begin surely too low.
        certain = max(0, int(np.floor(real[i] - margin - 2 * float(scale))))
        values[i] = _largest_below(Uniform(draws.bits, int(words[i])), scale, certain, limit)
    return values


def _largest_below(uniform: Uniform, scale: Fraction, certain: int, limit: int) -> int:
    """The largest k with U < exp(−k/scale), given one such k: ever longer steps up, then ever shorter ones."""
    step = 1
    while uniform.below(exp_bounds((certain + step) / scale)):
        certain += step
        step *= 2
    while step > 1:
        step //= 2
        if uniform.below(exp_bounds((certain + step) / scale)):
            certain += step
    if certain >= limit:  # probability below exp(−2000) for any scale that is let in
        raise MechanismError("A noise value does not fit into 64 bits.", fix="Use a smaller noise scale.")
    return certain


def binomial(draws: Draws, trials: Integers, p: Fraction) -> Integers:
    """Sample binomials: per cell, successes among so many trials of probability exactly p.

    Each trial compares a uniform real with p bit by bit. Half of the undecided trials agree with p's next bit and stay
    undecided; the others are settled, as successes where p's bit is a one. Only how many matters, so coins are counted.
    """
    undecided, successes = checked_trials(trials, "Trials"), np.zeros_like(trials)
    while p and undecided.any():
        staying = draws.heads(undecided)
        p *= 2
        if p >= 1:
            successes += undecided - staying
            p -= 1
        undecided = staying
    return successes
