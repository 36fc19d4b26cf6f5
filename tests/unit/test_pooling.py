"""Sums of several groupings: pooled as least squares over all cells would, with the variances that these have."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from nabladp.arrays import Floats
from nabladp.mechanisms import pooling
from nabladp.mechanisms.pooling import Pool, Table, overlap

SIZES = {"a": 3, "b": 4, "c": 2}
NAMES = tuple(SIZES)
UNITS = np.eye(24).reshape(24, 3, 4, 2)  # one table for each cell
EXACT = 1e-13  # stands for no variance in the least squares

Keys = tuple[str, ...]
CASES: dict[str, tuple[list[Keys], list[Keys]]] = {  # tables, and those that are exact
    "one table": ([("a", "b", "c")], []),
    "rollup": ([("a", "b", "c"), ("a", "b"), ("a",), ()], []),
    "rollup, total known": ([("c", "b", "a"), ("a", "b"), ("b",), ()], [()]),
    "two parents": ([("a", "b", "c"), ("b",), ("a",)], []),
    "a circle": ([("a", "b"), ("b", "c"), ("a", "c")], []),
    "one key in common": ([("a", "b"), ("c", "b")], []),
    "nothing but the total": ([("a",), ("b",), ("c",)], []),
    "an exact parent": ([("a", "b", "c"), ("a",), ("b",)], [("a",)]),
    "cube": ([keys for r in range(4) for keys in itertools.combinations(NAMES, r)], []),
    "the same keys twice": ([("a", "b"), ("b", "a"), ("a",)], []),
}


def design(keys: Keys) -> Floats:
    """The matrix from cells to sums, with the axes of the sums in the order of the keys."""
    kept = [name for name in NAMES if name in keys]
    summed = UNITS.sum(axis=tuple(i + 1 for i, name in enumerate(NAMES) if name not in keys))
    order = [kept.index(name) + 1 for name in keys]
    return np.asarray(summed.transpose((0, *order)).reshape(24, -1).T)


@pytest.mark.parametrize("case", CASES)
def test_pooled_sums_are_those_of_least_squares(case: str) -> None:
    sets, exact = CASES[case]
    draws = np.random.default_rng(5)
    truth = draws.normal(0, 10, 24)
    variances = [EXACT if keys in exact else float(draws.uniform(0.5, 4)) for keys in sets]
    measured = [
        design(k) @ truth + draws.normal(0, v**0.5, len(design(k))) for k, v in zip(sets, variances, strict=True)
    ]
    weighted = np.vstack([design(keys) / v**0.5 for keys, v in zip(sets, variances, strict=True)])
    solve = np.linalg.pinv(weighted, rcond=1e-12)
    best = solve @ np.concatenate([own / v**0.5 for own, v in zip(measured, variances, strict=True)])
    spread = solve @ solve.T
    pool = Pool(
        [
            Table(keys, own.reshape((*(SIZES[key] for key in keys), 1)), np.array([0.0 if keys in exact else v]))
            for keys, own, v in zip(sets, measured, variances, strict=True)
        ]
    )
    for keys in (own for r in range(4) for own in itertools.permutations(NAMES, r)):
        if any(set(keys) <= set(own) for own in sets):
            values, found = pool.estimate(keys)
            np.testing.assert_allclose(values[:, 0], design(keys) @ best, atol=1e-4)
            np.testing.assert_allclose(found[0], np.diag(design(keys) @ spread @ design(keys).T), atol=1e-5)


def test_columns_are_pooled_each_by_its_own_variance() -> None:
    values = np.array([[0.0, 0.0], [4.0, 4.0]])
    pool = Pool([Table(("a",), values, np.array([1.0, 1.0])), Table((), np.array([8.0, 8.0]), np.array([2.0, 1e9]))])
    total, variances = pool.estimate(())
    np.testing.assert_allclose(total[0], [6.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(variances, [1.0, 2.0], rtol=1e-6)


def test_too_many_tables_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "MOST_SUMS", 1)
    pool = Pool([Table(("a",), np.array([[1.0], [2.0]]), np.ones(1)), Table((), np.array([9.0]), np.ones(1))])
    assert pool.estimate(("a",))[0].ravel().tolist() == [1.0, 2.0] and pool.estimate(())[1].tolist() == [1.0]


@pytest.mark.parametrize("case", ["a circle", "two parents", "one key in common", "cube"])
def test_covariances_of_weighted_sums_are_those_of_least_squares(case: str) -> None:
    sets, draws = CASES[case][0], np.random.default_rng(6)
    variances = [float(draws.uniform(0.5, 4)) for _ in sets]
    weighted = np.vstack([design(keys) / v**0.5 for keys, v in zip(sets, variances, strict=True)])
    solve = np.linalg.pinv(weighted, rcond=1e-12)
    zeros = [np.zeros((*(SIZES[key] for key in keys), 1)) for keys in sets]
    pool = Pool([Table(*own, np.array([v])) for *own, v in zip(sets, zeros, variances, strict=True)])
    for keys in {own for big in sets for r in range(4) for own in itertools.combinations(big, r)}:
        one, other = ({key: draws.normal(size=SIZES[key]) for key in keys} for _ in range(2))
        rows = [design(keys).T @ functools.reduce(np.kron, own.values(), np.ones(1)) for own in (one, other)]
        expected = rows[0] @ solve @ solve.T @ rows[1]
        found = pool.covariance({key: overlap(one[key], other[key]) for key in keys})
        assert found[0] == pytest.approx(expected, abs=1e-8)


def test_tables_of_very_many_keys_are_pooled_by_intersections(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(7)
    sets = CASES["a circle"][0]
    tables = [Table(keys, draws.normal(size=(*(SIZES[key] for key in keys), 1)), np.ones(1)) for keys in sets]
    usual = [own.tolist() for own in Pool(tables).consistent]
    monkeypatch.setattr(pooling, "_MOST_SUBSETS", 1)
    assert [own.tolist() for own in Pool(tables).consistent] == usual
    monkeypatch.setattr(pooling, "MOST_SHARED", 1)
    assert [own.tolist() for own in Pool(tables).consistent] == [own.values.tolist() for own in tables]
