"""Randomized response by the place of a row: the same answer whenever the row is read, and the right chance."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nabladp.errors import NablaDPError
from nabladp.noise import NoiseSource
from nabladp.noise.source import BLOCK
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable, Kernel, PartOfRows

KEEP = Fraction(3, 4)


def test_answers_go_by_place_however_the_rows_are_read() -> None:
    response = NoiseSource.seeded(1).row_response(KEEP)
    labels = NoiseSource.seeded(2).uniform_integers(2, 3 * BLOCK + 17)
    whole = response(labels, 0)
    for first, last in ((0, 1), (5, 90), (BLOCK - 1, BLOCK + 1), (BLOCK, 2 * BLOCK), (100, 3 * BLOCK + 17), (7, 7)):
        again = pickle.loads(pickle.dumps(response))
        np.testing.assert_array_equal(again(labels[first:last], first), whole[first:last])
    assert set(np.unique(whole)) == {0, 1}
    np.testing.assert_array_equal(response(1 - labels, 0), 1 - whole)  # who is turned does not depend on the label


@pytest.mark.parametrize("source", [NoiseSource(), NoiseSource.seeded(7)], ids=["system", "seeded"])
def test_each_label_is_kept_with_the_chance_that_was_asked_for(source: NoiseSource) -> None:
    rows = 40 * BLOCK
    kept = int(source.row_response(KEEP)(np.ones(rows, np.uint8), 3).sum())

    def chance(keep: float) -> float:
        return float(stats.binomtest(kept, rows, keep).pvalue)

    assert chance(0.75) > 1e-7
    assert chance(0.75 * 1.3) < 1e-7 and chance(0.75 * 0.7) < 1e-7


def test_answers_of_different_rows_and_responses_are_independent() -> None:
    source, ones = NoiseSource.seeded(3), np.ones(20 * BLOCK, np.int64)
    one, other = (source.row_response(Fraction(1, 2) + Fraction(1, 4096))(ones, 0) for _ in range(2))
    for left, right in ((one, other), (one[:-1], one[1:]), (one[:-BLOCK], one[BLOCK:])):
        assert stats.binomtest(int((left == right).sum()), len(left), 0.5).pvalue > 1e-7


def test_the_key_is_not_shown_and_wrong_chances_are_refused() -> None:
    response = NoiseSource.seeded(4).row_response(KEEP)
    assert "key" not in repr(response) and len(response.key) == 32
    for keep in (0.2, 1.5):
        with pytest.raises(NablaDPError):
            NoiseSource().row_response(keep)
    assert NoiseSource().row_response(1)(np.array([0, 1, 1]), 9).tolist() == [0, 1, 1]


class Firsts(Kernel):
    """Where the rows of each batch stand, and how many there are."""

    by_row_index = True
    attributes = ("a",)

    def __call__(self, batch: Any) -> Any:
        raise AssertionError("a row index is needed")

    def at(self, batch: Any, first: int) -> Any:
        found = np.zeros(100, np.int64)
        found[first : first + batch.num_rows] += 1
        return found


@pytest.mark.parametrize("inside", [True, False])
def test_a_part_of_the_rows_numbers_its_own(inside: bool) -> None:
    table = CodedTable(Schema((Attribute("a", "boolean"),)), {"a": np.zeros(100, np.int64)}, batch_rows=7)
    part = PartOfRows(table, np.array([3, 4, 6, 7, 50, 99]), inside)
    np.testing.assert_array_equal(part.fold(Firsts()), np.arange(100) < part.n)
