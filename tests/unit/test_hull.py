"""The nearest point of a hull: against brute force, with an honest gap, and never further from any truth."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

from nabladp.errors import DomainTooLarge
from nabladp.mechanisms.projection import hull as hull_module
from nabladp.mechanisms.projection import relaxation
from nabladp.mechanisms.projection.hull import Hull, Nearest
from nabladp.mechanisms.projection.relaxation import (
    BLOCK_CELLS,
    HULL_CELLS,
    Piece,
    Pieces,
    _simplex,
    pieces_of,
    project,
    set_by_set,
)
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities, Queries, Workload

Floats = Any


def schema(*sizes: int) -> Schema:
    return Schema(tuple(Attribute(f"x{i}", "integer", low=0, high=size - 1) for i, size in enumerate(sizes)))


def all_corners(queries: Queries) -> Floats:
    sizes = queries.schema.sizes(queries.names)
    codes = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    return queries.at_records(dict(zip(queries.names, codes, strict=True)))


def brute_force(corners: Floats, target: Floats, metric: Floats) -> float:
    """The least squared distance, by non-negative least squares with a heavy row for weights that add up to 1."""
    heavy = 1e4 * float(metric.max())
    matrix = np.vstack([metric[:, None] * corners, np.full((1, corners.shape[1]), heavy)])
    weights, _ = nnls(matrix, np.append(metric * target, heavy), maxiter=10_000)
    beyond = metric * (corners @ (weights / weights.sum()) - target)
    return float(beyond @ beyond)


def squared(metric: Floats, apart: Floats) -> float:
    return float(((metric * apart) ** 2).sum())


mixed = schema(2, 3, 2, 4)
fractional = LinearQueries(
    (
        LinearQuery(("x0", "x1"), (0, 0.2, 0.4, 0.5, 0.7, 1), "rising"),
        LinearQuery(("x1", "x3"), tuple(np.linspace(0, 1, 12)), "average"),
        LinearQuery(("x2",), (1, 0)),
    )
)
WORKLOADS: dict[str, tuple[Schema, Workload]] = {
    "marginals": (mixed, Marginals(2)),
    "signed": (schema(2, 2, 2, 2, 2), Conjunctions(3, signed=True)),
    "unsigned": (schema(2, 2, 2, 2, 2), Conjunctions(2)),
    "unsigned-mixed": (mixed, Conjunctions(2)),
    "parities": (schema(2, 2, 2, 2, 2), Parities(2)),
    "fractional": (mixed, fractional),
    "union": (mixed, Marginals(1) + 2 * Parities(3)),
    "one value": (schema(1, 2, 3), Marginals(2)),
}
each = pytest.mark.parametrize("name", WORKLOADS)


def case(name: str, seed: int, noise: float = 0.3) -> tuple[Queries, Floats, Floats, Floats]:
    """Queries, the answers of some table, the same with noise, and a metric with unequal scales."""
    rng = np.random.default_rng(seed)
    kind, workload = WORKLOADS[name]
    queries = workload.bind(kind)
    rows = {n: rng.integers(0, kind[n].size, 1 + seed % 5) for n in queries.names}
    truth = queries.on_rows(rows)
    scales = noise * np.exp(rng.normal(0, 0.5 * (seed % 2), len(queries.groups)))[queries.group_of]
    return queries, truth, truth + scales * rng.normal(size=len(truth)), 1 / scales


@each
@pytest.mark.parametrize("listed", [True, False])
def test_nearest_is_as_near_as_brute_force_says(name: str, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not listed:
        monkeypatch.setattr(hull_module, "_LISTED_NUMBERS", 0)
    for seed, noise in itertools.product(range(4), (0.02, 0.3, 5.0)):
        queries, truth, noisy, metric = case(name, seed, noise)
        found = Hull(queries, metric).nearest(noisy, 1e-6)
        assert found.finished and found.gap <= max(1e-6, 1e-12 * float(metric @ metric))
        least = brute_force(all_corners(queries), noisy, metric)
        assert found.moved == pytest.approx(squared(metric, found.point - noisy))
        assert found.moved - found.gap <= least * (1 + 1e-6) + 1e-9
        assert found.moved <= least + found.gap + 1e-5 * (1 + least)
        assert squared(metric, found.point - truth) <= squared(metric, noisy - truth) - found.moved + found.gap + 1e-9


@each
@pytest.mark.parametrize("tolerance", [1e-6, 1.0, 1e3])
def test_the_gap_is_honest_however_early_the_search_ends(name: str, tolerance: float) -> None:
    for seed in range(6):
        queries, _, noisy, metric = case(name, seed)
        found = Hull(queries, metric).nearest(noisy, tolerance)
        corners = all_corners(queries)
        farthest = max(2 * float((metric * (found.point - v)) @ (metric * (found.point - noisy))) for v in corners.T)
        assert farthest <= found.gap <= farthest + 1e-6 * (1 + found.moved)
        for corner in corners.T:
            before, after = squared(metric, noisy - corner), squared(metric, found.point - corner)
            assert after <= before - found.moved + found.gap + 1e-9


@each
def test_a_point_of_the_hull_stays_where_it_is(name: str) -> None:
    queries, _, _, metric = case(name, 3)
    corners = all_corners(queries)
    inside = corners @ np.random.default_rng(5).dirichlet(np.ones(corners.shape[1]))
    found = Hull(queries, metric).nearest(inside, 1e-8)
    assert found.moved <= found.gap <= 1e-8
    corner = Hull(queries, metric).nearest(corners[:, 1], 1e-8)
    assert corner.moved == pytest.approx(0, abs=1e-8)


def test_listed_corners_and_the_transform_score_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WORKLOADS:
        queries, _, noisy, metric = case(name, 1)
        listed = Hull(queries, metric)
        monkeypatch.setattr(hull_module, "_LISTED_NUMBERS", 0)
        transformed = Hull(queries, metric)
        monkeypatch.undo()
        assert listed._listed is not None and transformed._cube is not None
        np.testing.assert_allclose(listed.scores(noisy), transformed.scores(noisy), atol=1e-9)
        np.testing.assert_allclose(listed.middle(), transformed.middle(), atol=1e-9)
        some = np.array([0, 1, queries.cells - 1])
        made = transformed.corners(some).toarray()
        np.testing.assert_allclose(listed.corners(some).toarray(), made)
        np.testing.assert_allclose(made, metric[:, None] * all_corners(queries)[:, some])


@pytest.mark.parametrize(("n", "scale"), [(1, 1e6), (7, 40.0), (10**4, 3.0), (10**9, 1.0), (10**9, 1e-6)])
def test_extreme_noise_is_no_trouble(n: int, scale: float) -> None:
    rng = np.random.default_rng(9)
    for workload in (Conjunctions(2), Marginals(2), Parities(3)):
        queries = workload.bind(schema(2, 2, 3, 2, 2))
        truth = queries.on_rows({name: rng.integers(0, 2, 50) for name in queries.names})
        noisy = truth + scale / n * rng.normal(size=len(truth))
        metric = np.full(len(truth), n / scale)
        found = Hull(queries, metric).nearest(noisy, 1e-3)
        assert np.isfinite(found.point).all() and found.gap >= 0
        before, after = squared(metric, noisy - truth), squared(metric, found.point - truth)
        assert after <= before - found.moved + found.gap + 1e-9 * before


def test_the_search_repeats_itself() -> None:
    queries, _, noisy, metric = case("unsigned", 2)
    one, other = (Hull(queries, metric).nearest(noisy, 1e-6) for _ in range(2))
    assert np.array_equal(one.point, other.point) and one.gap == other.gap


# ---- pieces ---------------------------------------------------------------------------------------------------------


def test_the_simplex_is_met_exactly() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 5, 40):
        target = rng.normal(0.3, 0.5, size)
        point = _simplex(target)
        assert point.min() >= 0 and point.sum() == pytest.approx(1)
        beyond = target - point
        assert (beyond - point @ beyond).max() <= 1e-12  # no corner lies beyond


def nothing(done: int, total: int) -> None:
    return


def projected(queries: Queries, noisy: Floats, metric: Floats, pieces: Pieces) -> Any:
    return project(queries, noisy, metric, pieces, nothing)


def test_columns_that_nothing_ties_together_are_projected_apart_and_exactly() -> None:
    kind = schema(2, 3, 2, 2)
    workload = Marginals(sets=(("x0", "x1"), ("x2",), ("x3",))) + Conjunctions(2, over=("x2", "x3"))
    queries = workload.bind(kind)
    pieces = pieces_of(queries, "exact")
    assert pieces.exact and sorted(piece.records for piece in pieces.pieces) == [4, 6]
    rng = np.random.default_rng(4)
    noisy = rng.normal(0.3, 0.4, len(queries))
    metric = np.ones(len(queries))
    apart, whole = projected(queries, noisy, metric, pieces), Hull(queries, metric).nearest(noisy, 1e-9)
    np.testing.assert_allclose(apart.answers, whole.point, atol=0.05)
    assert apart.moved == pytest.approx(whole.moved, abs=2 * (apart.gap + whole.gap) + 1e-9)


def test_single_attributes_are_exact_however_many() -> None:
    queries = Marginals(1).bind(schema(*[5] * 60))
    pieces = pieces_of(queries, "exact")
    assert pieces.exact and len(pieces.pieces) == 60
    rng = np.random.default_rng(4)
    result = projected(queries, rng.normal(0.2, 0.3, 300), np.ones(300), pieces)
    np.testing.assert_allclose(result.answers.reshape(60, 5).sum(axis=1), 1)
    assert result.answers.min() >= 0


def test_blocks_are_small_and_hold_every_set() -> None:
    queries = (Conjunctions(2) + Marginals(sets=(("x0", "x1", "x2"),))).bind(schema(*[2] * 20, 3, 50))
    pieces = pieces_of(queries, "auto")
    assert not pieces.exact and pieces.largest <= BLOCK_CELLS
    for piece in pieces.pieces:
        names = {name for number in piece.groups for name in queries.groups[number].attributes}
        assert queries.schema.cells(names) <= piece.records <= BLOCK_CELLS
        inside = [n for n, group in enumerate(queries.groups) if names >= set(group.attributes)]
        assert set(inside) == set(piece.groups)
    assert {number for piece in pieces.pieces for number in piece.groups} == set(range(len(queries.groups)))
    assert pieces_of(queries, "auto") == pieces


def test_an_exact_hull_too_large_is_refused_and_says_what_to_do() -> None:
    queries = Conjunctions(2).bind(schema(*[2] * 40))
    with pytest.raises(DomainTooLarge, match=r"about 10\^12 records") as caught:
        pieces_of(queries, "exact")
    assert "blocks" in caught.value.fix and "bytes" in str(caught.value)
    assert HULL_CELLS == 1 << 22


LARGE: dict[str, tuple[Schema, Workload]] = {
    "pairs": (schema(*[2] * 16), Conjunctions(2)),
    "signed pairs": (schema(*[2] * 15), Conjunctions(2, signed=True)),
    "mixed": (schema(4, 5, 6, 7, 3, 4), Marginals(2)),
    "a large set": (schema(80, 70, 2, 2), Marginals(sets=(("x0", "x1"), ("x0", "x2"), ("x1", "x3")))),
    "large linear": (
        schema(80, 70, 2),
        LinearQueries((LinearQuery(("x0", "x1"), tuple(np.linspace(0, 1, 5600))),)) + Marginals(sets=(("x0", "x2"),)),
    ),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("noise", [0.003, 0.1, 3.0])
def test_blocks_never_make_answers_worse(name: str, noise: float) -> None:
    kind, workload = LARGE[name]
    queries = workload.bind(kind)
    pieces = pieces_of(queries, "blocks")
    assert not pieces.exact
    for seed in range(2):
        rng = np.random.default_rng(seed)
        some = {n: rng.integers(0, kind[n].size if seed else 1, 30) for n in queries.names}
        truth = queries.on_rows(some)
        scales = noise * np.exp(rng.normal(0, 0.3, len(queries.groups)))[queries.group_of]
        noisy, metric = truth + scales * rng.normal(size=len(truth)), 1 / scales
        result = projected(queries, noisy, metric, pieces)
        before, after = squared(metric, noisy - truth), squared(metric, result.answers - truth)
        assert after <= before - result.moved + result.gap + 1e-9 * before
        if noise == 3.0:
            assert after < before / 2


def test_a_search_cut_short_is_told_and_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Marginals(2).bind(schema(4, 4, 4, 4))
    rng = np.random.default_rng(6)
    truth = queries.on_rows({n: rng.integers(0, 4, 500) for n in queries.names})
    noisy, metric = truth + 0.01 * rng.normal(size=len(truth)), np.full(len(truth), 100.0)
    pieces = pieces_of(queries, "exact")
    whole = projected(queries, noisy, metric, pieces)
    monkeypatch.setattr(hull_module, "_HELD_NUMBERS", 1)
    cut = projected(queries, noisy, metric, pieces)
    assert whole.unfinished == 0 and cut.unfinished == 1
    for result in (whole, cut):
        before, after = squared(metric, noisy - truth), squared(metric, result.answers - truth)
        assert after <= before - result.moved + result.gap + 1e-9
    np.testing.assert_array_equal(cut.answers, set_by_set(list(queries.groups), noisy, metric).point)


def test_gaps_add_up_and_what_nobody_touched_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks share a set: the second cycle looks again at the first block only, as only that was changed."""
    queries = Marginals(sets=(("x0", "x1"), ("x1", "x2"), ("x2", "x3"))).bind(schema(2, 2, 2, 2))
    pieces = Pieces(False, (Piece((0, 1), 8), Piece((1, 2), 8)))
    looked: list[int] = []

    def nearest(queries: Queries, piece: Piece, target: Floats, metric: Floats, exact: bool) -> Nearest:
        looked.append(piece.groups[0])
        return Nearest(target + (piece.groups[0] == 1 and len(looked) == 2) * 0.01, 0.5, 0.25)

    monkeypatch.setattr(relaxation, "_nearest", nearest)
    result = projected(queries, np.full(12, 0.25), np.ones(12), pieces)
    assert looked == [0, 1, 0]
    assert (result.moved, result.gap) == (1.5, 0.75)


def test_progress_is_told_piece_by_piece() -> None:
    queries = Marginals(1).bind(schema(3, 3, 3))
    told: list[tuple[int, int]] = []
    project(queries, np.full(9, 0.3), np.ones(9), pieces_of(queries, "auto"), lambda d, t: told.append((d, t)))
    assert told == [(0, 3), (1, 3), (2, 3)]
