"""Run by .venv-peers-pipelinedp: ``python sql_pipelinedp.py IN.npz OUT.npz``: PipelineDP on its local backend.

IN and OUT: as for ``sql_opendp.py``; pure ε only. One row is one person, so contributions are bounded already. Its MEAN
shares its count with COUNT. A sum and a median of different columns are two aggregations of equal weight. Copies are
answered one after the other, as it takes its time for each row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pipeline_dp
from _measured import given, keep, seconds_of
from _sql_public import (
    BOUNDS,
    KEYS,
    LEAST_EDUCATION,
    LEVELS,
    MEAN,
    MEDIAN,
    READS,
    arrays,
    cells,
)

Row = dict[str, Any]
METRICS = pipeline_dp.Metrics


def main(source: str, target: str) -> None:
    data = given(source)
    query, copies, amount = str(data["query"]), int(data["copies"]), float(data["amount"])
    if str(data["notion"]) != "pure":
        raise SystemExit("it has no zero-concentrated budgets")
    rows = rows_of(data, query)
    found = [(copy, *row) for copy in range(copies) for row in answer(query, rows, amount)]
    seconds = seconds_of(lambda: answer(query, rows, amount), int(data["calls"]))
    keep(target, seconds, arrays(query, copies, found))


def rows_of(data: dict[str, Any], query: str) -> list[Row]:
    columns = [data[name].tolist() for name in READS[query]]
    return [dict(zip(READS[query], row, strict=True)) for row in zip(*columns, strict=True)]


def answer(query: str, rows: list[Row], amount: float) -> list[tuple[Any, ...]]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=amount, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    if query == MEAN:
        rows = [row for row in rows if row["education_num"] >= LEAST_EDUCATION]
        asked = [("age", [METRICS.MEAN, METRICS.COUNT])]
    elif query == MEDIAN:
        asked = [("hours", [METRICS.SUM]), ("age", [METRICS.PERCENTILE(50)])]
    else:
        asked = [("hours", [METRICS.PERCENTILE(level) for level in LEVELS])]
    parts = [aggregate(engine, rows, query, column, metrics) for column, metrics in asked]
    accountant.compute_budgets()
    by_key = [dict(part) for part in parts]
    return [(*key, *(value for part in by_key for value in part[key])) for key in cells(query)]


def aggregate(engine: Any, rows: list[Row], query: str, column: str, metrics: list[Any]) -> Iterable[Any]:
    low, high = BOUNDS[column]
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=low,
        max_value=high,
        contribution_bounds_already_enforced=True,
    )
    names = KEYS[query]
    extractors = pipeline_dp.DataExtractors(
        partition_extractor=lambda row: tuple(row[name] for name in names), value_extractor=lambda row: row[column]
    )
    return engine.aggregate(rows, params, extractors, public_partitions=cells(query))


if __name__ == "__main__":
    main(*sys.argv[1:])
