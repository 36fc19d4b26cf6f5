"""Loops that are compiled do what they say: on small inputs the compiled ones and the plain Python ones agree.

This also lets the coverage of the tests see inside them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.arrays import compile_loop
from nabladp.mechanisms.heavy_hitters import numbering
from nabladp.mechanisms.learners.halfspaces import descent
from nabladp.mechanisms.learners.halfspaces.finite_classes import SignOrbits
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss, distance_to_flip
from nabladp.mechanisms.learners.thresholds.search import count_reached
from nabladp.mechanisms.synthesis.inference.junction_tree import Graph
from nabladp.noise import NoiseSource
from nabladp.noise.packings import AnyPackings, Packings, largest_packing


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def packings() -> Any:
    family = Packings([1, 2, 4, 8, 3, 6, 12, 5, 3], 4, 2)
    weights = np.array([0.1, 2.0, -1.0, 0.5, 3.0, 0.0, 1.0, -2.0, 2.5])
    return family.heaviest(weights), family.log_probability(weights, (0, 1)), largest_packing([3, 6, 12, 1], 4)


def any_packings() -> Any:
    return AnyPackings([1, 2, 4, 3, 6], 3, np.array([0.5, -1.0, 2.0, 1.0, 0.0]), 20).table


def sign_orbits() -> Any:
    table = rng().integers(0, 5, (2, 2, 2, 2))
    free = SignOrbits(np.array([[1, 0, 0], [1, 1, 1], [2, 2, 1]]))
    fixed = SignOrbits(np.array([[1, 0, 0], [1, 1, 1], [2, 2, 1]]), intercept=True)
    return free.scores(table, ClippedLoss(2, 0)), fixed.scores(table[0], ClippedLoss(2, 1))


def distances() -> Any:
    draws = rng()
    rows, labels = draws.choice([-1, 1], (300, 5)).astype(np.int8), draws.choice([-1, 1], 300)
    weights = np.array([3, -2, 1, 0, 5])
    never = distance_to_flip(rows, labels, np.zeros(5, np.int64), 1)
    return distance_to_flip(rows, labels, weights, 1), distance_to_flip(np.asfortranarray(rows), labels, weights), never


def selected() -> Any:
    noise = NoiseSource.seeded(3)
    scores = np.array([5, 0, 7, 0, 40, 1], np.int64)
    return [noise.select_lowest(scores, Fraction(1, 3)) for _ in range(20)]


def ranks() -> Any:
    draws = rng()
    return count_reached([draws.integers(0, 3, 40) for _ in range(2)], np.array([[0, 1], [1, 1], [2, 0]], np.uint32))


def clusters() -> Any:
    names = "abcdefg"
    graph = Graph(dict(zip(names, (2, 3, 4, 2, 5, 2, 3), strict=True)), ["ab", "bc", "cd", "da", "de", "ef", "g"])
    return graph.clusters(), graph.cells("fb"), Graph({"a": 2, "b": 3}, ["a", "ab"]).clusters()


def hinge_sums() -> Any:
    vectors = rng().integers(-50, 50, (3, 300)).astype(np.int32)
    return descent.hinge_sums(vectors, np.array([900, -400, 100]), 40)


USERS: dict[Callable[[], Any], str] = {
    packings: "noise.packings",
    any_packings: "noise.packings",
    sign_orbits: "mechanisms.learners.halfspaces.finite_classes",
    distances: "mechanisms.learners.halfspaces.robust_distance",
    selected: "noise.choices",
    ranks: "mechanisms.learners.thresholds.search",
    clusters: "mechanisms.synthesis.inference.junction_tree",
    hinge_sums: "mechanisms.learners.halfspaces.descent",
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.allclose(one, other, rtol=1e-13, atol=0)) if not isinstance(one, str) else one == other


@pytest.mark.parametrize("use", USERS, ids=lambda use: use.__name__)
def test_what_uses_a_loop_finds_the_same_without_the_compiler(
    use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = use()
    seen: list[str] = []

    def plain(kernel: Callable[..., Any]) -> Callable[..., Any]:
        seen.append(kernel.__name__)
        return kernel

    monkeypatch.setattr(importlib.import_module(f"nabladp.{USERS[use]}"), "compile_loop", plain)
    assert same(fast, use()) and seen


def agree(kernel: Callable[..., Any], *given: Any) -> None:
    """The same of everything given is changed in the same way."""
    fast, plain = ([np.array(x) if isinstance(x, np.ndarray) else x for x in given] for _ in range(2))
    compile_loop(kernel)(*fast)
    with np.errstate(over="ignore"):
        kernel(*plain)
    changed = [not np.array_equal(x, y) for x, y in zip(plain, given, strict=True)]
    assert any(changed) and all(np.array_equal(x, y) for x, y in zip(fast, plain, strict=True))


def numbers(high: int, count: int = 50, kind: Any = np.uint64) -> Any:
    return np.random.default_rng(high).integers(0, high, count).astype(kind)


def test_rows_are_numbered_alike() -> None:
    agree(numbering.append, numbers(9), numbers(4), np.uint64(4))
    agree(
        numbering.append_four, numbers(9), *(numbers(high) for high in (2, 3, 4, 5)), np.array([2, 3, 4, 5], np.uint64)
    )
    agree(numbering.look_up, numbers(9), numbers(100, 9, np.uint32), np.zeros(50, np.uint32))


def test_cells_are_hashed_and_found_again_alike() -> None:
    listed, shift = np.unique(numbers(1 << 40, 12)), np.uint64(64 - 5)
    places, table = np.zeros(32, np.uint64), np.zeros(32, np.uint32)
    agree(numbering.build_hash_table, listed, shift, places, table)
    compile_loop(numbering.build_hash_table)(listed, shift, places, table)
    cells = np.concatenate([listed, numbers(1 << 40, 20)])
    agree(numbering.search, cells, shift, places, table, np.full(len(cells), 99, np.uint32))


def test_rows_are_mixed_and_thrown_alike() -> None:
    mixed = np.ones(50, np.uint64)
    for from_one in (True, False):
        agree(numbering.mix, mixed, numbers(3), from_one)
    compile_loop(numbering.mix)(mixed, numbers(1000), False)
    kept = np.random.default_rng(2).integers(0, 256, (2, 4)).astype(np.uint8)
    agree(numbering.throw, mixed, np.uint64(64 - 5), kept, np.zeros(50, np.uint32))


@pytest.mark.parametrize("cells", [8, numbering.SPREAD + 1])
def test_cells_are_counted_alike(cells: int) -> None:
    agree(numbering.tally, numbers(2 * cells, 51), np.uint64(3), np.zeros(cells, np.int64))


def test_vectors_are_cut_alike() -> None:
    vectors = np.random.default_rng(1).integers(-60, 60, (3, 300)).astype(np.float64)
    labels = np.where(np.arange(300) % 2, 1.0, -1.0)
    agree(descent._cut, vectors, labels, 50.0, np.zeros((3, 300), np.int32))
