"""Exact selection of halfspaces: probabilities against enumeration, the cost of every change, unbiased draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.finite_classes import lattice_net, threshold_functions
from nabladp.mechanisms.learners.halfspaces.randomized_labels import unbiased, unbiased_sensitivity
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss
from nabladp.mechanisms.learners.halfspaces.selection import FiniteClass, Promise, log_law
from nabladp.noise import NoiseSource, choices

Array = np.ndarray[Any, Any]


def all_functions(d: int, intercept: bool) -> Array:
    """Every halfspace as its values on the cube (last coordinate fastest), found by trying weights."""
    cube = np.array(list(itertools.product((-1, 1), repeat=d)))
    offsets = range(-3, 4) if intercept else (0,)
    trials = np.array([(*w, b) for w in itertools.product(range(-3, 4), repeat=d) for b in offsets])
    sums = trials[:, :d] @ cube.T + trials[:, d:]
    return np.unique(np.where(sums[(sums != 0).all(axis=1)] > 0, 1, -1), axis=0)


def brute_scores(functions: Array, table: Array, loss: ClippedLoss) -> Array:
    """Σ over rows of clip(γd − distance), the distance by trying all records of the cube."""
    d = table.ndim - 1
    cube = np.array(list(itertools.product((-1, 1), repeat=d)))
    apart = (cube[:, None, :] != cube[None, :, :]).sum(axis=2)
    found = np.zeros(len(functions), np.int64)
    for label in (0, 1):
        wrong = functions != 2 * label - 1
        distance = np.where(wrong[:, None, :], apart[None], 10**6).min(axis=2)
        found += np.clip(loss.outer - distance, 0, loss.width) @ table[..., label].reshape(-1)
    return found


def table_of(d: int, n: int, seed: int) -> Array:
    draws = np.random.default_rng(seed)
    return draws.multinomial(n, draws.dirichlet(np.full(2 << d, 0.5))).reshape((2,) * (d + 1))


@pytest.mark.parametrize(("d", "intercept"), [(1, False), (2, False), (3, False), (4, False), (1, True), (3, True)])
def test_probabilities_of_all_halfspaces_are_the_enumerated_ones(d: int, intercept: bool) -> None:
    functions = all_functions(d, intercept)
    candidates = threshold_functions(d, intercept)
    assert len(functions) == candidates.count
    records = np.array(list(itertools.product((0, 1), repeat=d)))
    said = np.array([candidates.halfspace(i).predict(records) for i in range(candidates.count)])
    order = {row.tobytes(): i for i, row in enumerate(said.astype(np.int64))}
    place = [order[row.tobytes()] for row in functions.astype(np.int64)]
    for inner, outer in itertools.combinations(range(min(d, 3) + 1), 2):
        loss, rate = ClippedLoss(outer, inner), Fraction(3, 10)
        table = table_of(d, 40, 10 * d + outer)
        wanted = np.exp(-float(rate) * brute_scores(functions, table, loss))
        found = np.exp(log_law(candidates.scores(table, loss), rate))[place]
        assert np.abs(found - wanted / wanted.sum()).max() < 1e-12


def neighbours(d: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    records = list(itertools.product((0, 1), repeat=d))
    return [(a, b) for a, b in itertools.product(records, repeat=2) if a != b]


def one_row(d: int, record: tuple[int, ...], label: int) -> Array:
    table = np.zeros((2,) * (d + 1), np.int64)
    table[(*record, label)] = 1
    return table


CLASSES = [threshold_functions(3), threshold_functions(2, intercept=True), threshold_functions(4), lattice_net(3, 5)]


@pytest.mark.parametrize("candidates", CLASSES, ids=["d=3", "d=2 and intercept", "d=4", "net"])
@pytest.mark.parametrize(("outer", "inner"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_no_change_of_attributes_costs_more_than_claimed(candidates: Any, outer: int, inner: int) -> None:
    """Bounded range 2aΔ for every pair of records, every label, with and without undoing the response's bias."""
    loss, d, rate = ClippedLoss(outer, inner), candidates.features, Fraction(1, 4)
    rest = table_of(d, 6, outer)
    reached = 0.0
    for keep in (Fraction(1), Fraction(2, 3)):
        for a, b in neighbours(d):
            m = sum(i != j for i, j in zip(a, b, strict=True))
            for label in (0, 1):
                tables = (unbiased(rest + one_row(d, r, label), keep) for r in (a, b))
                one, two = (candidates.scores(table, loss).astype(np.int64) for table in tables)
                allowed = unbiased_sensitivity(loss, keep, m) if keep < 1 else loss.sensitivity(m)
                assert np.abs(one - two).max() <= allowed
                gap = log_law(one, rate) - log_law(two, rate)
                assert gap.max() - gap.min() <= 2 * float(rate) * allowed + 1e-9
                reached = max(reached, float(gap.max() - gap.min()) / (2 * float(rate) * allowed))
    assert reached > 0.999


def renyi(p: Array, q: Array, order: float) -> float:
    return math.log(math.fsum(np.exp(order * p + (1 - order) * q))) / (order - 1)


def test_the_concentrated_cost_of_a_change() -> None:
    candidates, loss, rate = threshold_functions(3), ClippedLoss(2, 1), Fraction(1, 2)
    rest = table_of(3, 4, 1)
    for a, b in neighbours(3):
        laws = [log_law(candidates.scores(rest + one_row(3, r, 1), loss), rate) for r in (a, b)]
        m = sum(i != j for i, j in zip(a, b, strict=True))
        for order in (1.01, 2.0, 8.0, 50.0):
            assert renyi(laws[0], laws[1], order) <= order * (float(rate) * loss.sensitivity(m)) ** 2 / 2 + 1e-12


def test_the_label_costs_the_whole_width_unless_it_is_randomized() -> None:
    candidates, loss = threshold_functions(3), ClippedLoss(2, 0)
    scores = [candidates.scores(one_row(3, (1, 1, 1), label), loss).astype(np.int64) for label in (0, 1)]
    assert np.abs(scores[0] - scores[1]).max() == loss.width


# ---- draws ---------------------------------------------------------------------------------------------------------


def test_a_bucketed_draw_has_exactly_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probability of every outcome, from the weights that were handed over and the chance to be kept."""
    scores, rate = np.array([7, 3, 3, 900, 12, 40, 41, 3000]), Fraction(1, 37)
    seen: dict[int, Fraction] = {}

    class Rigged:
        """Picks what it is told, and notes what the probability of that was."""

        def __init__(self, bucket: int, member: int) -> None:
            self.bucket, self.member = bucket, member

        def select(self, _: Any, weights: list[int], count: int) -> Array:
            assert count == 1
            self.weight = weights[self.bucket]
            self.buckets = len(weights)
            return np.array([self.bucket])

        def integers(self, bound: int, size: int) -> Array:
            if size > 1:  # words
                return np.zeros(size, np.int64)
            self.members = bound
            return np.array([self.member])

    class Kept:
        def __init__(self, bits: Any, word: int) -> None: ...

        def below(self, bounds: Any) -> bool:
            low, high = bounds(300)
            assert high - low <= 4 and high <= 1 << 300
            seen[-1] = Fraction(low, 1 << 300)
            return True

    monkeypatch.setattr(choices, "Uniform", Kept)
    bucket = member = 0
    while True:
        rigged = Rigged(bucket, member)
        monkeypatch.setattr(choices, "select", rigged.select)
        index = choices.select_lowest(rigged, scores, rate)  # type: ignore[arg-type]
        seen[index] = Fraction(rigged.weight, rigged.members) * seen[-1]
        bucket, member = (bucket, member + 1) if member + 1 < rigged.members else (bucket + 1, 0)
        if bucket == rigged.buckets:
            break
    del seen[-1]
    assert sorted(seen) == list(range(len(scores)))
    total = sum(seen.values())
    law = log_law(scores, rate)
    for index, weight in seen.items():
        assert math.log(weight.numerator) - math.log(weight.denominator) - math.log(total) == pytest.approx(
            law[index], abs=1e-12
        )


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 5), Fraction(3)])
def test_draws_follow_the_law(rate: Fraction) -> None:
    candidates = threshold_functions(3)
    scores = candidates.scores(table_of(3, 30, 4), ClippedLoss(2, 1))
    noise, count = NoiseSource.seeded(11), 1500
    drawn = np.bincount([noise.select_lowest(scores, rate) for _ in range(count)], minlength=len(scores))
    expected = count * np.exp(log_law(scores, rate))
    assert ((drawn - expected) ** 2 / np.maximum(expected, 1e-9))[expected > 1].sum() < 45  # χ² of 13: 1 in 10⁵
    assert drawn[expected < 1e-3].sum() == 0


def test_far_apart_scores_and_single_candidates() -> None:
    noise = NoiseSource.seeded(1)
    assert noise.select_lowest(np.array([-(1 << 61), 1 << 61]), 1) == 0
    assert noise.select_lowest(np.array([5], np.int32), Fraction(1, 10**9)) == 0
    assert {noise.select_lowest(np.array([0, 1 << 40]), Fraction(1, 1 << 50)) for _ in range(40)} == {0, 1}
    for bad in (np.array([]), np.array([[1]]), np.array([0.5])):
        with pytest.raises(MechanismError):
            noise.select_lowest(bad, 1)


def test_the_promise_holds_on_every_table_tried() -> None:
    """E[score] − lowest ≤ ln|H|/a, exactly worked out, for classes of functions and of a user's own."""
    loss = ClippedLoss(2, 1)
    own = FiniteClass((2, 2, 2), tuple(np.array(s).reshape(2, 2, 2) for s in itertools.product((-1, 1), repeat=8)))
    for candidates in (threshold_functions(3), own):
        for seed, rate in itertools.product(range(5), (Fraction(1, 50), Fraction(1, 4), Fraction(2))):
            table = table_of(3, 60, seed)
            scores = candidates.scores(table, loss)
            excess = float(np.exp(log_law(scores, rate)) @ (scores - scores.min())) / (60 * loss.width)
            assert excess <= Promise(candidates.count, loss, float(rate)).private_excess(60)
