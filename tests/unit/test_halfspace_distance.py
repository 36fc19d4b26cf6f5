"""How many attributes make a label wrong: against brute force over all changes, ties included; Lipschitz."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.robust_distance import (
    NEVER,
    Halfspace,
    distance_to_flip,
    integer_weights,
    radius,
    robust_error,
)


def cube(d: int) -> np.ndarray[Any, Any]:
    return np.array(list(itertools.product((-1, 1), repeat=d)), np.int8)


def brute(records: np.ndarray[Any, Any], sums: np.ndarray[Any, Any], label: int) -> np.ndarray[Any, Any]:
    """For every record, the nearest one that is not given the label, over all of them."""
    wrong = records[np.where(sums >= 0, 1, -1) != label]
    if not len(wrong):
        return np.full(len(records), NEVER)
    return (records[:, None, :] != wrong[None, :, :]).sum(axis=2).min(axis=1)


@pytest.mark.parametrize("d", range(1, 11))
def test_against_all_flips(d: int) -> None:
    draws = np.random.default_rng(d)
    x, ties = cube(d), 0
    for trial in range(12 if d < 9 else 4):
        w = draws.integers(-3, 4, d) if trial % 2 else draws.integers(-1, 2, d)  # small weights tie often
        intercept = int(w.sum() % 2) if trial < 2 else int(draws.integers(-2, 3)) if trial % 3 == 0 else 0
        sums = x @ w + intercept
        ties += int(np.count_nonzero(sums == 0))
        for label in (1, -1):
            found = distance_to_flip(x, np.full(len(x), label), w, intercept)
            assert found.tolist() == brute(x, sums, label).tolist()
    assert ties


def test_mixed_labels_many_rows_any_layout_and_width() -> None:
    draws = np.random.default_rng(0)
    x = draws.choice(np.array([-1, 1], np.int8), (1003, 21))
    y = draws.choice([-1, 1], 1003)
    w = draws.integers(-40, 41, 21)
    wanted = distance_to_flip(x, y, w)
    for scale in (1, 10**5, 10**12):  # 16, 32 and 64 bits
        assert (distance_to_flip(x, y, w * scale) == wanted).all()
    for other in (np.asfortranarray(x), x.astype(np.int64), np.repeat(x, 2, axis=1)[:, ::2]):
        assert (distance_to_flip(other, y, w) == wanted).all()
    codes = (x > 0).astype(np.uint16)
    assert (Halfspace.signs(w).distance(codes, y) == wanted).all()
    assert (distance_to_flip(codes, y, Halfspace.signs(w)) == wanted).all()


def test_threads_cut_rows_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    x, y = draws.choice(np.array([-1, 1], np.int8), (777, 9)), draws.choice([-1, 1], 777)
    w = draws.integers(-9, 10, 9)
    wanted = distance_to_flip(x, y, w)
    monkeypatch.setattr("nabladp.mechanisms.learners.halfspaces.robust_distance._WORTH_A_THREAD", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert (distance_to_flip(x, y, w) == wanted).all()


def test_constant_halfspaces_never_turn() -> None:
    x = cube(3)
    assert (distance_to_flip(x, np.ones(8), [0, 0, 0]) == NEVER).all()  # 0 says +1
    assert (distance_to_flip(x, -np.ones(8), [0, 0, 0]) == 0).all()
    assert (distance_to_flip(x, -np.ones(8), [1, 1, 1], -4) == NEVER).all()
    assert (distance_to_flip(x, np.ones(8), [1, 1, 1], 3) == NEVER).all()  # a sum of 0 is still +1
    assert distance_to_flip(x, -np.ones(8), [1, 1, 1], -3).max() == 3


tables = st.lists(st.lists(st.integers(-4, 4), min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(tables, st.integers(-4, 4))
def test_any_values_against_all_changes_and_one_lipschitz(weights: list[list[int]], intercept: int) -> None:
    halfspace = Halfspace(tuple(np.array(w) for w in weights), intercept)
    records = np.array(list(itertools.product(*(range(len(w)) for w in weights))))
    sums = intercept + np.array([sum(w[c] for w, c in zip(weights, r, strict=True)) for r in records.tolist()])
    assert (halfspace.sums(records) == sums).all()
    assert (halfspace.predict(records) == np.where(sums >= 0, 1, -1)).all()
    apart = (records[:, None, :] != records[None, :, :]).sum(axis=2)
    for label in (1, -1):
        found = halfspace.distance(records, np.full(len(records), label)).astype(np.int64)
        assert found.tolist() == brute(records, sums, label).tolist()
        assert (np.abs(found[:, None] - found[None, :]) <= apart).all()
        assert ((found == 0) == (halfspace.predict(records) != label)).all()


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 40))
def test_one_flip_moves_it_by_at_most_one(data: st.DataObject, d: int) -> None:
    w = data.draw(st.lists(st.integers(-(10**9), 10**9), min_size=d, max_size=d))
    x = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=d, max_size=d)), np.int8)
    flipped = x * (1 - 2 * np.eye(d, dtype=np.int8))
    rows = np.vstack([x, flipped])
    for label in (1, -1):
        found = distance_to_flip(rows, np.full(d + 1, label), w).astype(np.int64)
        assert np.abs(found[1:] - found[0]).max() <= 1


def test_one_hot_columns_count_as_one_attribute() -> None:
    draws = np.random.default_rng(3)
    blocks = [draws.integers(-5, 6, size) for size in (3, 1, 4)]
    halfspace = Halfspace.one_hot(blocks, 2)
    for codes in itertools.product(range(3), range(2), range(4)):
        columns = [2 * (np.arange(3) == codes[0]) - 1, [2 * codes[1] - 1], 2 * (np.arange(4) == codes[2]) - 1]
        wanted = 2 + sum(int(np.dot(w, c)) for w, c in zip(blocks, columns, strict=True))
        assert int(halfspace.sums([codes])[0]) == wanted
    assert halfspace.distance([[0, 0, 0]], [1]).max() <= 3 or halfspace.distance([[0, 0, 0]], [1])[0] == NEVER


def test_robust_error_counts_rows_within_the_radius() -> None:
    x, w = cube(5), np.array([3, 2, 2, 1, 1])
    y = np.sign(x @ w)
    distances = distance_to_flip(x, y, w)
    for flips in range(6):
        assert robust_error(x, y, w, Fraction(flips, 5)) == np.mean(distances <= flips)
    assert robust_error(x, y, w, 0) == 0
    assert radius(0.3, 10) == 3 and radius(0.1, 30) == 3 and radius(0.29, 10) == 2 and radius(2 / 7, 7) == 2


def test_real_weights_become_integers() -> None:
    assert integer_weights([0.5, -1.0, 0.1], 10).tolist() == [5, -10, 1]
    assert integer_weights([0.0, 0.0]).tolist() == [0, 0]
    with pytest.raises(MechanismError, match="finite"):
        integer_weights([np.inf, 1])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: distance_to_flip(cube(3), np.ones(8), [0.5, 1, 1]), "integers"),
        (lambda: distance_to_flip(cube(3), np.ones(8), [1, 1]), "table"),
        (lambda: distance_to_flip(cube(3) * 0, np.ones(8), [1, 1, 1]), "−1 or \\+1"),
        (lambda: distance_to_flip(cube(3) * 3, np.ones(8), [1, 1, 1]), "−1 or \\+1"),
        (lambda: distance_to_flip(cube(3), np.zeros(8), [1, 1, 1]), "label"),
        (lambda: distance_to_flip(cube(3), np.ones(7), [1, 1, 1]), "label"),
        (lambda: Halfspace.signs([1, 1]).distance([[0, 2]], [1]), "outside"),
        (lambda: Halfspace.signs([1 << 61, 1]), "too large"),
        (lambda: Halfspace((np.array([], np.int64),)), "weight for each"),
        (lambda: robust_error(cube(3), np.ones(8), [1, 1, 1], 1.5), "share"),
        (lambda: robust_error(np.empty((0, 3), np.int8), [], [1, 1, 1], 0.5), "at least one row"),
    ],
)
def test_refusals(call: Any, match: str) -> None:
    with pytest.raises(MechanismError, match=match) as caught:
        call()
    assert caught.value.fix
