"""Classes of halfspaces: how many there are, that none is missing or double, and that their scores are right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.learners.halfspaces.finite_classes import (
    COUNTS,
    SignOrbits,
    lattice_net,
    lattice_size,
    net_radius,
    threshold_functions,
)
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, Halfspace, distance_to_flip


def random_table(d: int, n: int, seed: int) -> np.ndarray[Any, Any]:
    draws = np.random.default_rng(seed)
    return draws.multinomial(n, draws.dirichlet(np.full(2 << d, 0.4))).reshape((2,) * (d + 1))


def score_by_rows(halfspace: Halfspace, table: np.ndarray[Any, Any], loss: ClippedLoss) -> int:
    records = np.indices(table.shape).reshape(table.ndim, -1).T
    distances = halfspace.distance(records[:, :-1], 2 * records[:, -1] - 1)
    return int((loss.scores(distances) * table.reshape(-1)).sum())


@pytest.mark.parametrize(("d", "count"), [(1, 2), (2, 4), (3, 14), (4, 104), (5, 1882), (6, 94572), (7, 15028134)])
def test_number_of_threshold_functions(d: int, count: int) -> None:
    found = threshold_functions(d)
    assert found.count == COUNTS[d] == count  # counted from the symmetries of the weights, not of the functions
    assert threshold_functions(d - 1, intercept=True).count == count if d > 1 else True
    assert (found.representatives.sum(axis=1) % 2).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_every_function_is_there_once(d: int) -> None:
    cube = np.array(list(itertools.product((-1, 1), repeat=d)))
    found = threshold_functions(d)
    weights = np.array([found.weights(i) for i in range(found.count)])
    sums = weights @ cube.T
    assert (sums != 0).all()
    assert len({row.tobytes() for row in sums > 0}) == found.count


def test_every_function_is_found_by_brute_force_too() -> None:
    cube = np.array(list(itertools.product((-1, 1), repeat=4)))
    every = np.array([w for w in itertools.product(range(-3, 4), repeat=4) if sum(w) % 2])
    assert len({row.tobytes() for row in every @ cube.T > 0}) == threshold_functions(4).count


CLASSES: dict[str, SignOrbits] = {
    "functions 3": threshold_functions(3),
    "functions 4": threshold_functions(4),
    "functions 5": threshold_functions(5),
    "functions 1 and intercept": threshold_functions(1, intercept=True),
    "functions 3 and intercept": threshold_functions(3, intercept=True),
    "functions 4 and intercept": threshold_functions(4, intercept=True),
    "net": lattice_net(4, 5),
    "net and intercept": lattice_net(3, 5, intercept=True),
    "wide net": lattice_net(9, 3),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(("outer", "inner"), [(1, 0), (2, 1), (3, 0)])
def test_scores_are_those_of_the_rows(name: str, outer: int, inner: int) -> None:
    candidates, loss = CLASSES[name], ClippedLoss(outer, inner)
    table = random_table(candidates.features, 50, outer)
    table[(0,) * table.ndim] -= 30  # of either sign
    scores = candidates.scores(table, loss)
    assert len(scores) == candidates.count
    for i in range(0, candidates.count, max(1, candidates.count // 80)):
        assert scores[i] == score_by_rows(candidates.halfspace(i), table, loss)


@pytest.mark.parametrize("kwargs", [{"features": 7}, {"features": 6, "intercept": True}])
def test_scores_of_fifteen_million(kwargs: dict[str, Any]) -> None:
    candidates, loss = threshold_functions(**kwargs), ClippedLoss(3, 1)
    table = random_table(kwargs["features"], 3000, 5)
    scores = candidates.scores(table, loss)
    assert len(scores) == 15028134 and scores.dtype == np.int32
    for i in np.random.default_rng(1).integers(0, len(scores), 100).tolist():
        assert scores[i] == score_by_rows(candidates.halfspace(i), table, loss)


def test_long_scores_are_exact() -> None:
    candidates, loss = threshold_functions(3), ClippedLoss(2, 0)
    table = random_table(3, 100, 1)
    huge = candidates.scores(table * (1 << 45), loss)
    assert huge.dtype == np.int64 and (huge == candidates.scores(table, loss).astype(np.int64) << 45).all()
    with pytest.raises(DomainTooLarge):
        candidates.scores(table * (1 << 50), loss)


@pytest.mark.parametrize(("d", "resolution"), [(1, 1), (2, 5), (3, 7), (4, 5), (5, 3), (6, 1)])
def test_the_net_is_all_of_the_sphere(d: int, resolution: int) -> None:
    wanted = {w for w in itertools.product(range(-resolution, resolution + 1), repeat=d) if norm(w) == resolution}
    net = lattice_net(d, resolution)
    found = [tuple(net.weights(i).tolist()) for i in range(net.count)]
    assert len(found) == len(set(found)) == lattice_size(d, resolution)
    assert set(found) == wanted


def norm(w: tuple[int, ...]) -> int:
    return sum(map(abs, w))


def test_the_net_is_as_dense_as_it_says() -> None:
    net = lattice_net(3, 5)
    points = np.array([net.weights(i) for i in range(net.count)])
    reals = np.random.default_rng(0).normal(size=(500, 3))
    reals *= 5 / np.abs(reals).sum(axis=1, keepdims=True)
    farthest = np.abs(reals[:, None] - points[None]).sum(axis=2).min(axis=1).max() / 5
    assert 0.8 * net_radius(3, 5) < farthest <= net_radius(3, 5)


def test_predicted_size() -> None:
    assert lattice_size(6, 41) == 62_157_804


def test_what_does_not_fit_is_refused_before_it_is_made() -> None:
    with pytest.raises(DomainTooLarge, match="8,378,070,864"):
        threshold_functions(8)
    with pytest.raises(DomainTooLarge, match="counted as one"):
        threshold_functions(7, intercept=True)
    with pytest.raises(DomainTooLarge, match="bytes") as caught:
        lattice_net(15, 41)
    assert caught.value.fix and int(caught.value.fields["candidates"]) == lattice_size(15, 41)
    with pytest.raises(DomainTooLarge, match="allowed"):
        threshold_functions(5).scores(random_table(5, 10, 1), ClippedLoss(2, 1), memory=1000)


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold_functions(0),
        lambda: lattice_net(4, 4),
        lambda: lattice_net(30, 3),
        lambda: SignOrbits(np.array([[1, 2]])),
        lambda: SignOrbits(np.array([[1, 1]])),
        lambda: SignOrbits(np.array([[1, -2]])),
        lambda: threshold_functions(3).scores(np.ones((2, 2)), ClippedLoss(1, 0)),
        lambda: threshold_functions(3).scores(np.ones((2, 2, 2), int), ClippedLoss(1, 0)),
    ],
)
def test_refusals(call: Any) -> None:
    with pytest.raises(MechanismError) as caught:
        call()
    assert caught.value.fix


def test_weights_of_a_halfspace_decide_as_the_halfspace() -> None:
    net = lattice_net(3, 5, intercept=True)
    cube = np.array(list(itertools.product((-1, 1), repeat=3)))
    for i in range(0, net.count, 17):
        w = net.weights(i)
        assert (net.halfspace(i).sums((cube + 1) // 2) == cube @ w[:3] + w[3]).all()
        wanted = distance_to_flip(cube, np.ones(8), w[:3], int(w[3]))
        assert (net.halfspace(i).distance((cube + 1) // 2, np.ones(8)) == wanted).all()
