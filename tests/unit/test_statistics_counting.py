"""Statistics: rows counted by their codes give the sums that rows one by one give; answers of many groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nabladp.mechanisms.statistics import Statistics, counting
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w"), null="category"),
        Attribute("age", "integer", low=0, high=30, unknown="other"),
        Attribute("visits", "integer", low=-3, high=4, unknown="clamp"),
        Attribute("income", "real", edges=(0, 10_000, 200_000), unknown="clamp"),
        Attribute("sick", "boolean"),
    )
)
QUERIES = (
    "SELECT COUNT(*), SUM(age) FROM t",
    "SELECT region, COUNT(*), COUNT(age), AVG(age), VAR_POP(age), SUM(visits) FROM t WHERE age > 4 GROUP BY region",
    "SELECT age, sick, MEDIAN(visits), COUNT(DISTINCT visits) FROM t WHERE region = 's' OR sick GROUP BY 1, 2",
    "SELECT FLOOR(age / 10), SUM(visits * age) FILTER (WHERE NOT sick), STDDEV(age - visits) FROM t GROUP BY 1",
    "SELECT sick, AVG(income), SUM(visits), AVG(CASE WHEN income > 500 THEN age END) FROM t GROUP BY ROLLUP (sick)",
)


@pytest.fixture(scope="module")
def people() -> pa.Table:
    draws, rows = np.random.default_rng(5), 6000
    region = draws.choice(np.array(["n", "s", "w", None], dtype=object), rows)
    return pa.table(
        {
            "region": pa.array(region, pa.string()),
            "age": draws.integers(-5, 40, rows),
            "visits": draws.integers(-9, 9, rows),
            "income": draws.lognormal(6, 2, rows),
            "sick": draws.random(rows) < 0.3,
        }
    )


@pytest.mark.parametrize("quantiles", ["cdf", "point"])
@pytest.mark.parametrize("budget", [Rho(1), Pure(1)])
def test_counts_by_code_give_the_sums_of_rows(
    people: pa.Table, budget: Rho | Pure, quantiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration = Statistics(budget, QUERIES, quantiles=quantiles).calibration(SCHEMA)
    found = {}
    for rows_for_each in (0, 1 << 40):  # all blocks by their codes; none
        monkeypatch.setattr(counting, "_ROWS_FOR_EACH", rows_for_each)
        found[rows_for_each] = counting.exact_numbers(calibration, open_table(people, SCHEMA))
    by_code, by_row = found.values()
    for ours, theirs in zip(by_code, by_row, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype == np.int64
            assert np.array_equal(a, b)


def test_few_codes_are_counted_and_numbers_on_a_grid_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_ROWS_FOR_EACH", 4)
    plan = Statistics(CDP(1), QUERIES[-1:]).plan(SCHEMA)
    for block in plan.blocks:
        few = counting._few_codes(counting.Sums(block, {}), SCHEMA, 100_000)
        read = {name for names in block.columns() for name in names}
        assert (few is None) == (not read or "income" in read)
    assert all(counting._few_codes(counting.Sums(block, {}), SCHEMA, 2) is None for block in plan.blocks)


def test_answers_are_selected_and_sorted_by_column(people: pa.Table) -> None:
    """HAVING, ORDER BY and LIMIT on the columns give the rows that they give on the rows themselves."""
    text = "SELECT age, sick, COUNT(*) AS n, SUM(visits) / COUNT(*) AS r FROM t GROUP BY 1, 2"
    noise, table = NoiseSource.seeded(3), open_table(people, SCHEMA)
    plain = Statistics(Rho(0.5), (text,)).run(table, noise).answer.rows
    chosen = f"{text} HAVING n > 40 ORDER BY sick DESC, r LIMIT 7"
    answer = Statistics(Rho(0.5), (chosen,)).run(table, NoiseSource.seeded(3)).answer
    wanted = sorted((row for row in plain if row["n"] > 40), key=lambda row: (not row["sick"], row["r"]))
    assert answer.rows == wanted[:7]
    assert len(answer) == 7
    assert answer.to_arrow().to_pylist() == answer.rows
