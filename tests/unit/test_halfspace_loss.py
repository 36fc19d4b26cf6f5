"""The clipped loss, responses of labels, finite classes that a user hands in, and the theorem's numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.learners.halfspaces.randomized_labels import (
    GRID,
    keep_within,
    unbiased,
    unbiased_limit,
    unbiased_sensitivity,
)
from nabladp.mechanisms.learners.halfspaces.robust_distance import NEVER, ClippedLoss, Halfspace
from nabladp.mechanisms.learners.halfspaces.selection import FiniteClass, Promise, distances_to_wrong, row_scores
from nabladp.noise import response_epsilon


def test_the_loss_lies_between_the_robust_errors() -> None:
    loss = ClippedLoss.of_margins(0.5, 0.2, 10)
    assert (loss.outer, loss.inner, loss.width) == (5, 2, 3)
    distances = np.array([*range(12), NEVER])
    share = loss.scores(distances) / loss.width
    assert ((distances <= 2) <= share).all() and (share <= (distances <= 5)).all()
    assert [loss.sensitivity(m) for m in (0, 1, 2, 3, 9)] == [0, 1, 2, 3, 3]


@pytest.mark.parametrize("margins", [(0.2, 0.2), (0.1, 0.3), (0.29, 0.2), (0.5, -0.1), (2, 0.1)])
def test_margins_must_differ_by_an_attribute(margins: tuple[float, float]) -> None:
    with pytest.raises(MechanismError) as caught:
        ClippedLoss.of_margins(*margins, 10)
    assert caught.value.fix


predictions = st.lists(st.integers(1, 3), min_size=1, max_size=4).flatmap(
    lambda sizes: st.lists(st.sampled_from([-1, 1]), min_size=math.prod(sizes), max_size=math.prod(sizes)).map(
        lambda said: np.array(said).reshape(sizes)
    )
)


@settings(max_examples=100, deadline=None)
@given(predictions, st.integers(0, 3), st.integers(1, 3))
def test_distances_of_any_hypothesis(said: Any, inner: int, width: int) -> None:
    records = list(itertools.product(*map(range, said.shape)))
    for label in (1, -1):
        found = distances_to_wrong(said, label)
        wrong = [r for r in records if said[r] != label]
        for r in records:
            wanted = min((sum(a != b for a, b in zip(r, z, strict=True)) for z in wrong), default=NEVER)
            assert found[r] == wanted
    both = np.stack([ClippedLoss(inner + width, inner).scores(distances_to_wrong(said, y)) for y in (-1, 1)], -1)
    for a, b in itertools.product(records, repeat=2):
        apart = sum(i != j for i, j in zip(a, b, strict=True))
        assert np.abs(both[a] - both[b]).max() <= ClippedLoss(inner + width, inner).sensitivity(apart)


@settings(max_examples=60, deadline=None)
@given(predictions, st.integers(0, 2), st.integers(1, 3), st.integers(6, 11))
def test_unbiased_scores_move_no_more_than_said(said: Any, inner: int, width: int, numerator: int) -> None:
    loss, keep = ClippedLoss(inner + width, inner), Fraction(numerator, 12)
    candidates = FiniteClass(said.shape, (said,))
    records = list(itertools.product(*map(range, said.shape)))

    def score(record: tuple[int, ...], label: int) -> int:
        table = np.zeros((*said.shape, 2), np.int64)
        table[(*record, label)] = 1
        return int(candidates.scores(unbiased(table, keep), loss)[0])

    for label in (0, 1):
        scores = {record: score(record, label) for record in records}
        for a, b in itertools.combinations(records, 2):
            apart = sum(i != j for i, j in zip(a, b, strict=True))
            assert abs(scores[a] - scores[b]) <= unbiased_sensitivity(loss, keep, apart)


@pytest.mark.parametrize(
    ("inner", "width", "keep"), [(1, 3, Fraction(1)), (1, 3, Fraction(2, 3)), (0, 2, Fraction(3, 5))]
)
def test_beyond_the_limit_nothing_is_added(inner: int, width: int, keep: Fraction) -> None:
    loss = ClippedLoss(inner + width, inner)
    limit, step = unbiased_limit(loss, keep), unbiased_sensitivity(loss, keep)
    assert all(unbiased_sensitivity(loss, keep, m) <= step * min(m, limit) for m in range(12))
    assert unbiased_sensitivity(loss, keep, limit) == unbiased_sensitivity(loss, keep, limit + 1)
    assert limit == width if keep == 1 else limit <= 2 * width


def test_unbiased_scores_are_unbiased() -> None:
    draws = np.random.default_rng(2)
    loss, keep = ClippedLoss(2, 1), Fraction(3, 4)
    halfspaces = tuple(Halfspace.signs(draws.integers(-3, 4, 3)) for _ in range(9))
    candidates = FiniteClass((2, 2, 2), halfspaces)
    table = draws.integers(0, 9, (2, 2, 2, 2))
    expected = keep * table + (1 - keep) * np.flip(table, axis=-1)  # in the mean, times 4 whole
    scores = candidates.scores(unbiased((4 * expected).astype(np.int64), keep), loss)
    assert (scores == 4 * (2 * keep.numerator - keep.denominator) * candidates.scores(table, loss)).all()


def test_the_literal_reduction_prefers_the_wrong_hypothesis() -> None:
    """`lem:label-rr`: the robust error of randomized labels is no function of that of the true ones.

    0.2 of the rows lie next to the first hypothesis's boundary, all right; 0.25 far on the second's wrong side.
    """
    candidates = FiniteClass((2,) * 6, (Halfspace.signs([1, 1, 1, 0, 0, 0]), Halfspace.signs([0, 0, 0, 1, 1, 1])))
    loss, keep = ClippedLoss(2, 1), Fraction(3, 5)
    table = np.zeros((2,) * 7, np.int64)
    table[1, 1, 0, 1, 1, 1, 1], table[1, 1, 1, 0, 0, 0, 1], table[1, 1, 1, 1, 1, 1, 1] = 20, 25, 55
    assert candidates.scores(table, loss).tolist() == [20, 25]
    randomized = 3 * table + 2 * np.flip(table, axis=-1)  # five times what to expect
    assert candidates.scores(randomized, loss).tolist() == [5 * 52, 5 * 45]
    assert candidates.scores(unbiased(randomized, keep), loss).tolist() == [5 * 20, 5 * 25]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1, 3, 8, 40])
def test_the_probability_to_keep_a_label(epsilon: float) -> None:
    keep = keep_within(epsilon)
    assert keep.denominator <= GRID and response_epsilon(2, keep) <= epsilon
    above = keep + Fraction(1, GRID)
    assert above == 1 or response_epsilon(2, above) > epsilon


def test_no_label_budget_is_refused() -> None:
    for epsilon in (0, -1, 1e-6, float("nan")):
        with pytest.raises(BudgetError) as caught:
            keep_within(epsilon)
        assert caught.value.fix


def test_classes_from_tables_and_from_rows_agree() -> None:
    draws = np.random.default_rng(1)
    halfspaces = tuple(Halfspace(tuple(draws.integers(-4, 5, s) for s in (3, 2, 4))) for _ in range(6))
    codes = np.column_stack([draws.integers(0, s, 80) for s in (3, 2, 4)])
    labels = draws.integers(0, 2, 80)
    table = np.zeros((3, 2, 4, 2), np.int64)
    np.add.at(table, (*codes.T, labels), 1)
    loss = ClippedLoss(2, 0)
    by_table = FiniteClass((3, 2, 4), halfspaces).scores(table, loss)
    assert (by_table == row_scores(halfspaces, codes, 2 * labels - 1, loss)).all()
    said = tuple(h.predict(np.indices((3, 2, 4)).reshape(3, -1).T).reshape(3, 2, 4) for h in halfspaces)
    assert (by_table == FiniteClass((3, 2, 4), said).scores(table, loss)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: FiniteClass((2, 2), ()),
        lambda: FiniteClass((2, 2), (np.zeros((2, 2), int),)),
        lambda: FiniteClass((2, 3), (Halfspace.signs([1, 1]),)),
        lambda: FiniteClass((2, 2), (Halfspace.signs([1, 1]),)).scores(np.ones((2, 2), int), ClippedLoss(1, 0)),
        lambda: Promise(10, ClippedLoss(1, 0), 0.0),
        lambda: Promise(10, ClippedLoss(1, 0), 1.0, Fraction(1, 2)),
        lambda: Promise(10, ClippedLoss(1, 0), 1.0).rows(0),
    ],
)
def test_refusals(call: Any) -> None:
    with pytest.raises(MechanismError) as caught:
        call()
    assert caught.value.fix


def test_rows_needed() -> None:
    promise = Promise(15028134, ClippedLoss(3, 1), 0.5, keep_within(0.5))
    for excess in (0.5, 0.1, 0.013):
        n = promise.rows(excess)
        assert promise.excess(n) <= excess < promise.excess(n - 1)
    public = Promise(15028134, ClippedLoss(3, 1), 0.5)
    assert public.private_excess(1000) == pytest.approx(math.log(15028134) / (0.5 * 2 * 1000))
    assert public.rows(0.1) < promise.rows(0.1)
    assert Promise(1, ClippedLoss(3, 1), 0.5).rows(0.1) == 1
