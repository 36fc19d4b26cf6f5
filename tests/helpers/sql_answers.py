"""Answers of Statistics beside those of DuckDB: the same rows, and every declared group that is empty besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sql_tables import NoNoise, close, plain

from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.answer import Answer
from nabladp.privacy import CDP
from nabladp.tables import Counts

EXACT, BY_QUANTILE = 2e-6, 0.02  # relative: sums on a grid, and quantiles by bins


def answer(sql: str, table: Counts) -> Answer:
    """Without noise."""
    return Statistics(CDP(1e6), sql).run(table, NoNoise()).answer


def compare(own: Answer, expected: Sequence[Sequence[Any]]) -> None:
    """Every row that DuckDB gives is in the answer, in its order if the query names one; others are empty groups."""
    names = [name for name, _ in own.query.columns]
    rows = [[row[name] for name in names] for row in own.rows]
    tolerances = [_tolerance(own, index) for index in range(len(names))]
    unmatched, last = dict(enumerate(rows)), -1
    for row in map(_flat, expected):
        found = next((i for i, mine in unmatched.items() if _alike(mine, row, tolerances)), None)
        assert found is not None, f"{row} is not among {list(unmatched.values())[:5]}"
        assert not own.query.order or found > last, f"{row} is out of order"
        last = found
        del unmatched[found]
    computed = [i for i, (_, released) in enumerate(own.query.columns) if released.aggregates()]
    for row in unmatched.values():
        assert all(row[i] in (0, None, False) for i in computed), f"{row} is not in DuckDB's answer"


def _tolerance(own: Answer, index: int) -> tuple[float, float]:
    """Relative and absolute. Between two values DuckDB interpolates."""
    aggregates = own.query.columns[index][1].aggregates()
    if any(own.query.aggregates[i].function == "quantile" for i in aggregates):
        return BY_QUANTILE, 1.0
    return EXACT, 1e-6


def _flat(row: Sequence[Any]) -> list[Any]:
    return [part for value in row for part in (value if isinstance(value, list) else [value])]


def _alike(mine: Sequence[Any], row: Sequence[Any], tolerances: Sequence[tuple[float, float]]) -> bool:
    if len(mine) != len(row):
        return False
    return all(_near(one, other, *own) for one, other, own in zip(mine, row, tolerances, strict=True))


def _near(one: Any, other: Any, relative: float, absolute: float) -> bool:
    one, other = plain(one), plain(other)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(absolute, relative * abs(other))
    return close(one, other)
