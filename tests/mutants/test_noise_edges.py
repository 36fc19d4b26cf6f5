"""What the samplers stand on, at its edges."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.noise import NoiseSource, draws, half_width, laplace_log_pmf, laws, parameters, response_epsilon, variance
from nabladp.noise.draws import Draws, SeededBits, SystemBits
from nabladp.noise.source import KeyedBits, RowResponse


def block(seed: int, number: int) -> np.ndarray:
    name = f"nabladp noise, seed {seed}, block {number}"
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(8 * 8192), dtype="<u8")


@pytest.mark.parametrize("sizes", [(20000,), (8192, 8192, 3616), (1, 8191, 1, 11807), (0, 5, 19995), (64, 1, 200, 1)])
def test_a_seeded_stream_is_that_of_its_blocks_however_it_is_asked_for(sizes: tuple[int, ...]) -> None:
    """Blocks are numbered 0, 1, 2, … and none is used twice or skipped; a result of today is one of tomorrow."""
    source = SeededBits(5)
    drawn = np.concatenate([source.words(size) for size in (*sizes, 4 * 8192 - sum(sizes))])
    assert np.array_equal(drawn, np.concatenate([block(5, number) for number in range(4)]))


def test_words_of_the_system_are_as_many_as_asked_for_and_never_the_same() -> None:
    source = SystemBits()
    assert len(source.words(0)) == 0 and len(source.words(3)) == 3
    assert len(np.unique(np.concatenate([source.words(1000), source.words(1000)]))) == 2000


@pytest.mark.parametrize("gamma", [Fraction(n, d) for n in (1, 2, 3, 7, 63, 64, 65, 10**9) for d in (1, 3, 8, 10**6)])
def test_the_series_is_only_summed_where_its_error_was_bounded(
    gamma: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on its rounding takes γ/2ʰ < 1/2 for granted: a term then inherits at most half of an error."""
    seen = []

    def watched(gamma: Fraction, halvings: int, precision: int) -> tuple[int, int]:
        seen.append(gamma / 2**halvings)
        return interval(gamma, halvings, precision)

    interval = draws.exp_interval
    monkeypatch.setattr(draws, "exp_interval", watched)
    low, high = draws.exp_bounds(gamma)(80)
    assert len(seen) == 1 and seen[0] < Fraction(1, 2)
    with mpmath.workdps(60):
        truth = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** 80
        assert low <= truth <= high and high - low <= 2


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1, 2**20), Fraction(49, 100)])
def test_the_interval_leaves_two_units_for_every_term_and_two_for_the_rest(gamma: Fraction) -> None:
    precision, term, order = 96, 1 << 96, 0
    while term:
        order += 1
        term = term * math.floor(gamma * 2**precision) // (order << precision)
    low, high = draws.exp_interval(gamma, 0, precision)
    assert high - low >= 2 * (2 * order + 2)


def test_words_of_a_key_never_come_again() -> None:
    """Machines of a cluster must agree on them too, so how they are made is part of the format."""
    key = bytes(range(32))
    for number in (0, 300):
        source = KeyedBits(key, number)
        parts = [source.words(count) for count in (5, 5, 5, 2)]
        for taken, words in zip((0, 5, 10, 15), parts, strict=True):
            name = key + b" nabladp rows " + number.to_bytes(8, "little") + taken.to_bytes(8, "little")
            assert np.array_equal(words, np.frombuffer(hashlib.shake_256(name).digest(8 * len(words)), "<u8"))
        assert len(np.unique(np.concatenate(parts))) == 17


@pytest.mark.parametrize("first", [0, 1, 8191, 8192, 20000])
def test_every_row_answers_by_the_draw_of_its_own_place(first: int) -> None:
    response = RowResponse(Fraction(3, 4), bytes(range(32)))
    blocks = [Draws(KeyedBits(response.key, number)).bernoulli(response.keep, 8192) for number in range(4)]
    kept = np.concatenate(blocks)[first : first + 9000]
    labels = (np.arange(9000) % 3 == 0).astype(np.uint8)
    answers = response(labels, first)
    assert np.array_equal(answers, np.where(kept, labels, 1 - labels)) and answers.dtype == np.int64
    assert len(response(labels[:0], first)) == 0


def test_numbers_are_taken_as_they_are_or_refused() -> None:
    assert parameters.exact_number(2**53 + 1, "A number") == 2**53 + 1  # not by way of a double
    assert parameters.probability(0, "A chance") == 0 and parameters.probability(1, "A chance") == 1
    for most in (Fraction(10**100), Fraction(1, 10**100)):
        assert parameters.selection_scale(most) == most
    for value, told, read in (
        ("x", "A noise scale", parameters.noise_scale),
        ("x", "A selection scale", parameters.selection_scale),
        (2, "The probability to keep a code", lambda value: parameters.keep_probability(value, 2)),
        (-1, "A size must be at least 0 and at most", parameters.shape),
        ((1 << 28) + 1, "A size must be at least 0 and at most", parameters.shape),
    ):
        with pytest.raises(MechanismError) as error:
            read(value)
        assert str(error.value).startswith(told)
    assert parameters.shape(1 << 28) == (1 << 28,)
    with pytest.raises(MechanismError, match=r"at least 3\."):
        parameters.whole_number(2, "A number", 3)


def test_integers_that_would_turn_negative_are_refused() -> None:
    """As int64 2⁶³ is −2⁶³: a count of that size must not slip through, alone or among others."""
    fits = np.array([2**63 - 1], np.uint64)
    assert parameters.integer_array(fits, "Counts").tolist() == [2**63 - 1]
    assert parameters.integer_array(np.empty(0, np.uint64), "Counts").dtype == np.int64
    for counts in (np.array([2**63], np.uint64), np.array([0, 2**64 - 1], np.uint64), np.array([1.0]), np.array(["1"])):
        with pytest.raises(MechanismError, match="64 bits"):
            parameters.integer_array(counts, "Counts")


def test_weights_are_kept_as_an_array_where_they_came_as_one() -> None:
    assert isinstance(parameters.selection_weights(np.array([3])), np.ndarray)
    assert parameters.selection_weights(np.array([2**63], np.uint64)) == [2**63]
    for weights in (np.array([[1]]), np.array([0, 0]), np.array([-1, 2]), np.array([0.5]), [], [True], 5):
        with pytest.raises(MechanismError, match=r"^Weights"):
            parameters.selection_weights(weights)  # type: ignore[arg-type]


class Ones:
    """A source whose every bit is set."""

    def words(self, count: int) -> np.ndarray:
        return np.full(count, 2**64 - 1, np.uint64)


def test_every_coin_is_a_bit_that_was_drawn() -> None:
    """A coin beyond the words drawn would always show tails, and a sign would no longer be fair."""
    draws = Draws(Ones())
    for count in (*range(200), 64 * 65, 2**15):
        assert len(draws.coins(count)) == count and draws.coins(count).all()
    tosses = np.array([0, 1, 63, 64, 65, 128, 4000, 2**21 + 5], np.int64)
    assert np.array_equal(draws.heads(tosses), tosses)


@pytest.mark.parametrize("scale", [0.7, 3, 40])
def test_noise_has_both_signs_and_the_law_it_promises(scale: float) -> None:
    """A fixed seed, so that it never fails by chance; a sign that is lost or a size that is doubled shows at once."""
    source, count = NoiseSource.seeded(11), 20_000
    reach = np.arange(-round(12 * scale) - 12, round(12 * scale) + 13)
    for draw, weights in (
        (source.discrete_laplace, np.exp(-np.abs(reach) / scale)),
        (source.discrete_gaussian, np.exp(-(reach**2) / (2 * scale**2))),
    ):
        values, law = draw(scale, count), weights / weights.sum()
        upto = np.searchsorted(np.sort(values), reach, side="right") / count
        assert np.abs(upto - np.cumsum(law)).max() < 2 / math.sqrt(count)
        assert abs(int((values > 0).sum()) - int((values < 0).sum())) < 4 * math.sqrt(count)


def test_choices_have_the_law_they_promise() -> None:
    source, count = NoiseSource.seeded(12), 20_000
    codes = np.arange(count) % 3
    answers = source.randomized_response(codes, 3, Fraction(3, 5))
    for change, chance in ((0, 0.6), (1, 0.2), (2, 0.2)):
        assert abs(float(((answers - codes) % 3 == change).mean()) - chance) < 4 / math.sqrt(count)
    counts = np.array([count, 0, 0])
    spread = source.randomized_response_counts(counts, Fraction(3, 5))
    assert spread.sum() == count and np.abs(spread / count - [0.6, 0.2, 0.2]).max() < 4 / math.sqrt(count)
    chosen = source.select([1, 0, 3], count)
    assert np.abs(np.bincount(chosen, minlength=3) / count - [0.25, 0, 0.75]).max() < 4 / math.sqrt(count)
    huge = source.select([2**70, 0, 3 * 2**70], 2000)
    assert np.abs(np.bincount(huge, minlength=3) / 2000 - [0.25, 0, 0.75]).max() < 4 / math.sqrt(2000)
    for edge in ([2**62, 2**62], np.array([2**62, 2**62])):  # the first sum that no longer fits into 64 bits
        assert set(source.select(edge, 40).tolist()) == {0, 1}
    best = [source.select_exponential([0, 2, 0], 2) for _ in range(2000)]
    law = np.exp([0, 1, 0]) / np.exp([0, 1, 0]).sum()
    assert np.abs(np.bincount(best, minlength=3) / 2000 - law).max() < 4 / math.sqrt(2000)
    for n, k in ((10, 3), (10, 8), (5, 0), (4, 4)):
        subset = source.uniform_subset(n, k)
        assert len(np.unique(subset)) == len(subset) == k and np.isin(subset, np.arange(n)).all()
    inside = [np.isin(np.arange(10), source.uniform_subset(10, k)).mean() for k in (3, 8) for _ in range(5)]
    assert inside == [0.3] * 5 + [0.8] * 5
    heads = source.binomial(np.full(2000, 50), Fraction(1, 5))
    assert abs(float(heads.mean()) - 10) < 0.4 and abs(float(heads.var()) - 8) < 1.5


# The laws


@pytest.mark.parametrize("scale", [1e6, 1e9, 1e12])
def test_the_law_of_wide_noise_keeps_its_digits(scale: float) -> None:
    """1 − exp(−1/scale) taken as it is written would have four of them left."""
    peak = math.log(math.tanh(0.5 / scale))
    assert laplace_log_pmf(scale, 0, 0)[0] == pytest.approx(peak, rel=1e-14, abs=0)


@pytest.mark.parametrize("scale", [1.05, 1.1, 1.2])
def test_the_variance_just_above_scale_one(scale: float) -> None:
    x = np.arange(-40, 41)
    weights = [mpmath.exp(-mpmath.mpf(int(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for k in x]
    truth = mpmath.fsum(w * int(k) ** 2 for w, k in zip(weights, x, strict=True)) / mpmath.fsum(weights)
    assert variance("gaussian", scale) == pytest.approx(float(truth), rel=1e-13, abs=0)


def test_an_interval_of_tiny_noise_is_wide_enough_for_any_level() -> None:
    """P(|X| > 0) is about 10⁻⁸⁷ at scale 0.05: not nothing, if someone asks for that much."""
    for scale in (0.05, 0.06):
        outside = Fraction(2 * math.exp(-1 / (2 * scale**2)))
        assert half_width("gaussian", scale, 1 - 2 * outside) == 0
        assert half_width("gaussian", scale, 1 - outside / 2) == 1


def test_a_window_holds_only_what_a_double_can() -> None:
    """Beyond 2⁵³ neighbours fall together: their probabilities would be those of others."""
    far = 1 << 53
    assert laplace_log_pmf(1e15, far, far).shape == laplace_log_pmf(1e15, -far, -far).shape == (1,)
    for lowest, highest, told in (
        (far + 1, far + 1, "The lowest value"),
        (-far - 1, 0, "The lowest value"),
        (far, far + 1, "The highest value"),
        (1, 0, "The highest value"),
    ):
        with pytest.raises(MechanismError) as error:
            laws._window(lowest, highest)
        assert str(error.value).startswith(told)


def test_laws_name_what_they_refuse() -> None:
    for ask, told in (
        (lambda: half_width("gaussian", 1, "x"), "A confidence level must be a number"),
        (lambda: response_epsilon(0, 1), "The number of codes must be"),
    ):
        with pytest.raises(MechanismError) as error:
            ask()
        assert str(error.value).startswith(told)
