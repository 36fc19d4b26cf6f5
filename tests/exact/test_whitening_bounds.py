"""method="descent": whitened rows stay within what doubles and 64 bits hold, whatever the noisy Gram matrix was."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.mechanisms.gram_matrix import NoisyGram, SignedColumns
from nabladp.mechanisms.learners.halfspaces.descent import Vectors, hinge_sums
from nabladp.mechanisms.learners.halfspaces.gram import (
    LARGEST_INVERSE,
    LARGEST_RADIUS,
    Whitening,
    longest_step,
)
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        Attribute("c", "categorical", values=tuple("uvw")),
        Attribute("t", "integer", low=0, high=3),
        Attribute("a", "boolean"),
        Attribute("y", "boolean"),
    )
)
COLUMNS = SignedColumns.of(SCHEMA, ("c", "t", "a"), {"t": "thermometer"})
RECORDS = list(itertools.product(*(range(a.size) for a in SCHEMA)))


def nearly_singular(rows: int) -> NoisyGram:
    """With the least ridge, the smallest eigenvalue is about 1/rows: all products between columns are as negative."""
    width = COLUMNS.width
    pairs = width * (width - 1) // 2
    entry = -math.floor(1.1 * rows / (width - 1)) + 1
    return NoisyGram(COLUMNS, rows, np.full(pairs, entry), np.zeros(width, np.int64), np.zeros((1, 1)))


def test_a_matrix_that_is_nearly_not_positive_gets_a_larger_ridge() -> None:
    made = Whitening.of(nearly_singular(10**13))
    assert made.ridge > 0.1 and made.radius < LARGEST_RADIUS
    assert int(np.abs(made.matrix).max()) <= LARGEST_INVERSE << 13
    usual = Whitening.of(nearly_singular(1000))
    assert usual.ridge == 0.1 and usual.radius >= 1 << 13


@pytest.mark.parametrize(("entry", "radius"), [(1, LARGEST_RADIUS), (1, 0), (1 << 39, 9)])
def test_maps_beyond_the_bounds_of_the_proof_are_refused(entry: int, radius: int) -> None:
    with pytest.raises(MechanismError, match="too long"):
        Whitening(np.full((4, 4), entry), radius, 0.1)


def due_radius(matrix: Integers) -> int:
    return math.isqrt(int(longest_step(matrix, COLUMNS))) + 1 + math.isqrt(len(matrix)) + 2


def hard_map(seed: int) -> Whitening:
    """Values of an attribute lie close together, but all rows are far out: a large part is common to all of them."""
    draw = np.random.default_rng(seed)
    matrix = draw.integers(-40, 41, (COLUMNS.width, COLUMNS.width))
    matrix[:, 0] = (
        draw.integers(-(1 << 28), 1 << 28, COLUMNS.width) if seed % 2 else draw.integers(-900, 900, len(matrix))
    )
    return Whitening(matrix, due_radius(matrix), 0.1)


def images(made: Whitening) -> dict[tuple[int, ...], Integers]:
    table = CodedTable(SCHEMA, dict(zip(SCHEMA.names, np.array(RECORDS).T, strict=True)))
    found = Vectors(COLUMNS, "y", made).of(table._rows).astype(np.int64)
    return dict(zip(RECORDS, found.T, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_no_row_is_longer_and_no_feature_moves_one_farther_than_the_radius(seed: int) -> None:
    """In whole numbers, for all records; rows are cut by a factor of up to 10⁶."""
    made = hard_map(seed)
    found = images(made)
    lengths = {record: int((image**2).sum()) for record, image in found.items()}
    assert max(lengths.values()) <= made.radius**2
    assert max(lengths.values()) > 0.8 * made.radius**2  # they are cut to it, not below
    for one, other in itertools.combinations(RECORDS, 2):
        if one[-1] == other[-1] and sum(i != j for i, j in zip(one, other, strict=True)) == 1:
            assert int(((found[one] - found[other]) ** 2).sum()) <= made.radius**2


def test_the_radius_leaves_room_for_rounding_towards_zero_and_needs_it() -> None:
    """Two rows whose exact images are D apart may come to lie up to D + √p apart: never more, and more than D."""
    farther = 0
    for seed in range(0, 40, 2):
        made = hard_map(seed)
        found, apart = images(made), longest_step(made.matrix, COLUMNS)
        for one, other in itertools.combinations(RECORDS, 2):
            if one[-1] == other[-1] and sum(i != j for i, j in zip(one, other, strict=True)) == 1:
                exact = [made.matrix @ COLUMNS.matrix(codes(r))[0].astype(np.int64) for r in (one, other)]
                cut = [v * min(1.0, made.radius / math.sqrt(float((v**2).sum()))) for v in exact]
                ideal = math.sqrt(float(((cut[0] - cut[1]) ** 2).sum()))
                moved = math.sqrt(float(((found[one] - found[other]) ** 2).sum()))
                assert moved <= ideal + math.sqrt(len(made.matrix)) + 1 and ideal <= math.sqrt(apart) + 1e-6
                farther += moved > ideal + 0.5
    assert farther


def codes(record: tuple[int, ...]) -> dict[str, Integers]:
    return {name: np.array([code]) for name, code in zip("cta", record, strict=False)}


def test_inner_products_are_exact_at_the_largest_radius_and_weights() -> None:
    """2²⁷·√p·r stays below 2⁵³: a row's share does not depend on the order in which its columns are added."""
    width, radius = 2048, LARGEST_RADIUS - 1
    assert (1 << 27) * math.isqrt(width) * radius < 1 << 53
    draw = np.random.default_rng(3)
    vectors = draw.integers(-radius // 46, radius // 46, (width, 5)).astype(np.int32)
    weights = draw.integers(-(1 << 27), 1 << 27, width)
    order = draw.permutation(width)
    forward, shuffled = hinge_sums(vectors, weights, radius), hinge_sums(vectors[order], weights[order], radius)
    assert (forward[order] == shuffled).all()
