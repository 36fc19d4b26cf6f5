"""The source itself: stamps, shapes, refusals, reproducibility, and safety across forks and threads."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.noise import NoiseSource
from nabladp.noise.draws import SeededBits, SystemBits
from nabladp.noise.parameters import LARGEST_SCALE, SMALLEST_SCALE

DRAWS = """
from fractions import Fraction
import numpy as np
from nabladp.noise import NoiseSource
noise = NoiseSource.seeded(5)
print([
    noise.discrete_laplace(3.5, 5).tolist(), noise.discrete_gaussian(1e9, 5).tolist(),
    noise.randomized_response([0, 1, 2], 3, Fraction(1, 2)).tolist(),
    noise.randomized_response_counts([10, 20, 30], Fraction(1, 2)).tolist(),
    noise.binomial(1000, Fraction(1, 3)), noise.uniform_subset(10**9, 4).tolist(),
    noise.select([3, 10**40]), noise.select_exponential([1, 2, 3], Fraction(1, 2)),
    noise.uniform_integers(10, 5).tolist(),
])
"""


def test_stamp():
    assert not NoiseSource().is_seeded
    assert NoiseSource().stamp is None
    assert NoiseSource.seeded(1).is_seeded
    assert NoiseSource.seeded(1).stamp == "TEST — NOT PRIVATE"
    assert "NOT PRIVATE" in repr(NoiseSource.seeded(1))
    assert "NOT PRIVATE" not in repr(NoiseSource())


def test_the_stamp_survives_pickling():
    assert pickle.loads(pickle.dumps(NoiseSource.seeded(1))).stamp == "TEST — NOT PRIVATE"


def test_a_seed_gives_the_same_draws_in_every_process():
    runs = {subprocess.run([sys.executable, "-c", DRAWS], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 1
    assert len(runs.pop()) > 100


def test_seeds_differ():
    drawn = {tuple(NoiseSource.seeded(seed).discrete_gaussian(100.0, 8).tolist()) for seed in range(50)}
    assert len(drawn) == 50


def test_a_seeded_stream_does_not_depend_on_how_it_is_asked_for():
    whole = SeededBits(9).words(30_000)
    pieces = SeededBits(9)
    split = np.concatenate([pieces.words(n) for n in (1, 0, 7, 8184, 8192, 1, 13_000, 615)])
    assert (whole == split).all()
    assert len(np.unique(whole)) == len(whole)


def test_system_words_never_repeat():
    source = SystemBits()
    words = np.concatenate([source.words(n) for n in (0, 1, 5, 20_000)])
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == 20_006


def in_forked_child(action):
    """What ``action`` returns (as text) in a forked copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(action()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_share_no_randomness():
    noise = NoiseSource()
    noise.discrete_gaussian(1e9, 3)  # in use before the fork

    def action():
        return noise.discrete_gaussian(1e9, 4).tolist()

    seen = [in_forked_child(action), in_forked_child(action), str(action())]
    assert len(set(seen)) == 3
    assert all(len(text) > 20 for text in seen)


def test_threads_share_no_randomness():
    noise = NoiseSource()
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: noise.uniform_integers(1 << 62, 2_000), range(40)))
    assert len(np.unique(np.concatenate(parts))) == 80_000


@pytest.mark.parametrize(("size", "expected"), [(0, (0,)), (3, (3,)), ((), ()), ((2, 0), (2, 0)), ((2, 3), (2, 3))])
def test_shapes_and_dtype(size, expected):
    noise = NoiseSource()
    for drawn in (
        noise.discrete_laplace(2.0, size),
        noise.discrete_gaussian(2.0, size),
        noise.uniform_integers(5, size),
        noise.select([1, 2], size),
    ):
        assert drawn.shape == expected
        assert drawn.dtype == np.int64


def test_shapes_follow_the_input():
    noise = NoiseSource()
    trials = np.full((2, 3), 10, np.int32)
    for drawn in (
        noise.binomial(trials, 0.5),
        noise.randomized_response(np.zeros((2, 3), np.uint8), 4, 0.5),
        noise.randomized_response_counts(trials, 0.5),
    ):
        assert drawn.shape == (2, 3)
        assert drawn.dtype == np.int64
    assert isinstance(noise.binomial(10, 0.5), int)
    assert isinstance(noise.select([1, 2]), int)
    assert noise.binomial([], 0.5).shape == (0,)
    assert noise.randomized_response([], 3, 0.5).shape == (0,)


def test_inputs_are_left_alone():
    noise = NoiseSource()
    codes, counts = np.arange(5), np.full(5, 100)
    noise.randomized_response(codes, 5, 0.5)
    noise.randomized_response_counts(counts, 0.5)
    noise.binomial(counts, 0.5)
    assert codes.tolist() == [0, 1, 2, 3, 4]
    assert counts.tolist() == [100] * 5


def test_sure_outcomes():
    noise = NoiseSource()
    assert noise.randomized_response([2, 0, 1], 3, 1).tolist() == [2, 0, 1]
    assert noise.randomized_response([0, 0], 1, 1).tolist() == [0, 0]
    assert noise.randomized_response_counts([5, 0, 7], 1).tolist() == [5, 0, 7]
    assert noise.randomized_response_counts([5], 1).tolist() == [5]
    assert noise.select([0, 0, 7, 0]) == 2
    assert noise.select_exponential([4], 1.0) == 0
    assert noise.select_exponential([-(2**63), 2**63 - 1, 0], 1e-100) == 1
    assert noise.uniform_integers(1, 4).tolist() == [0] * 4
    assert noise.uniform_subset(5, 0).tolist() == []
    assert noise.uniform_subset(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert noise.uniform_subset(0, 0).tolist() == []


def test_a_hopeless_candidate_among_a_million_is_never_in_the_way():
    scores = np.zeros(10**6, np.int64)
    scores[123_456] = 5000
    assert NoiseSource().select_exponential(scores, 1) == 123_456


def test_counts_add_up():
    counts = np.array([[1000, 0, 5], [0, 0, 0], [10**6, 3, 1]])
    answered = NoiseSource().randomized_response_counts(counts, Fraction(1, 2))
    assert answered.sum(axis=1).tolist() == counts.sum(axis=1).tolist()
    assert (answered >= 0).all()


def test_memory_stays_bounded():
    noise = NoiseSource()
    tracemalloc.start()
    noise.uniform_subset(10**15, 1000)
    noise.binomial(50_000_000, Fraction(1, 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize(
    "scale", [SMALLEST_SCALE, LARGEST_SCALE, 1e-6, 1e15, 1e-3, 1e12, 3, np.float32(0.5), np.int64(2)]
)
def test_supported_scales(scale):
    noise = NoiseSource()
    for drawn in (noise.discrete_laplace(scale, 2000), noise.discrete_gaussian(scale, 2000)):
        assert np.abs(drawn).max() < 1 << 62


BAD_SCALES = [0, -1.0, math.nan, math.inf, -math.inf, 1e-7, 1e16, Fraction(-1, 2), "1", None, True, [1.0], 1j]


@pytest.mark.parametrize("scale", BAD_SCALES)
def test_bad_scales(scale):
    noise = NoiseSource()
    for call in (noise.discrete_laplace, noise.discrete_gaussian):
        with pytest.raises(MechanismError) as caught:
            call(scale, 1)
        assert caught.value.fix
    if scale not in (1e-7, 1e16):
        with pytest.raises(MechanismError):
            noise.select_exponential([1, 2], scale)


@pytest.mark.parametrize("size", [-1, 1.0, "3", None, (2, -1), [3], True])
def test_bad_sizes(size):
    with pytest.raises(MechanismError):
        NoiseSource().discrete_laplace(1.0, size)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True])
def test_bad_seeds(seed):
    with pytest.raises(MechanismError):
        NoiseSource.seeded(seed)


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.uniform_integers(0, 1),
        lambda n: n.uniform_integers((1 << 63) + 1, 1),
        lambda n: n.uniform_integers(2.0, 1),
        lambda n: n.binomial(-1, 0.5),
        lambda n: n.binomial(1 << 70, 0.5),
        lambda n: n.binomial(np.array([1.0]), 0.5),
        lambda n: n.binomial(3, -0.1),
        lambda n: n.binomial(3, 1.1),
        lambda n: n.binomial(3, math.nan),
        lambda n: n.randomized_response([0, 3], 3, 0.5),
        lambda n: n.randomized_response([-1], 3, 0.5),
        lambda n: n.randomized_response([0.0], 3, 0.5),
        lambda n: n.randomized_response([[0], [0, 1]], 3, 0.5),
        lambda n: n.randomized_response([0], 0, 0.5),
        lambda n: n.randomized_response([0], 3, 0.2),
        lambda n: n.randomized_response([0], 3, 1.5),
        lambda n: n.randomized_response_counts([-1, 2], 0.5),
        lambda n: n.randomized_response_counts([], 0.5),
        lambda n: n.randomized_response_counts(5, 0.5),
        lambda n: n.randomized_response_counts([1, 2, 3], 0.2),
        lambda n: n.uniform_subset(3, 4),
        lambda n: n.uniform_subset(-1, 0),
        lambda n: n.uniform_subset(3, -1),
        lambda n: n.select([]),
        lambda n: n.select(np.array([], np.int64)),
        lambda n: n.select([0, 0]),
        lambda n: n.select([1, -1]),
        lambda n: n.select(np.array([1, -1])),
        lambda n: n.select([1.0, 2.0]),
        lambda n: n.select(np.array([0.5])),
        lambda n: n.select([True, True]),
        lambda n: n.select(np.ones((2, 2), np.int64)),
        lambda n: n.select(np.ones((2, 2), np.uint64)),
        lambda n: n.select(5),
        lambda n: n.select_exponential([], 1.0),
        lambda n: n.select_exponential([0.5], 1.0),
        lambda n: n.select_exponential([[1]], 1.0),
    ],
)
def test_bad_parameters(call):
    with pytest.raises(MechanismError) as caught:
        call(NoiseSource())
    assert caught.value.fix


def test_errors_never_hold_data():
    for call in (
        lambda n: n.randomized_response([0, 987_654], 3, 0.5),
        lambda n: n.randomized_response_counts([-987_654, 2], 0.5),
        lambda n: n.select_exponential(["987654"], 1.0),
    ):
        with pytest.raises(MechanismError) as caught:
            call(NoiseSource())
        assert "987" not in f"{caught.value} {caught.value.fields}"
        assert caught.value.__cause__ is None


def test_unsigned_weights():
    assert NoiseSource().select(np.array([0, 2**64 - 1], np.uint64)) == 1
    assert NoiseSource().select(np.array([0, 200], np.uint8)) == 1
    assert set(NoiseSource().select(np.full(4, 2**62), 200).tolist()) == {0, 1, 2, 3}
