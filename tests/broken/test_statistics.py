"""A slip in Statistics that no audit can see, as it makes answers wrong and not less private: the corpus of queries,
answered as DuckDB answers them, finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faults import Patches
from sql_answers import answer, compare
from sql_tables import SCHEMA, in_duckdb, random_rows

from nabladp.mechanisms.statistics import counting
from nabladp.tables import open_table

ROWS = random_rows(400, 3)
QUERY = "SELECT sex, COUNT(*), SUM(age) FROM people WHERE age < 50 GROUP BY sex"


class ClampedRows:
    """Rows of people of at most 49 years."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.count, self.grid = rows, rows.count, rows.grid

    def codes(self, name: str) -> Any:
        return np.minimum(self.rows.codes(name), 49) if name == "age" else self.rows.codes(name)


def filter_after_clamping(patches: Patches) -> None:
    """Values are clamped to the range that the filter leaves, and only then is the filter evaluated: all rows pass."""
    true = counting.passes
    patches.set(counting, "passes", lambda filters, rows: true(filters, ClampedRows(rows)))


def answers_differ() -> bool:
    expected = in_duckdb(ROWS).execute(QUERY).fetchall()
    try:
        compare(answer(QUERY, open_table(ROWS, SCHEMA)), expected)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("planted", [True, False])
def test_a_filter_evaluated_after_clamping_is_noticed(planted: bool) -> None:
    with Patches() as patches:
        if planted:
            filter_after_clamping(patches)
        assert answers_differ() is planted
