"""How often intervals hold the true value: groups of 5 to 100,000 rows, three budgets, Gaussian and Laplace noise.

Groups differ in their number of rows and in where their values lie: spread over the range, in its upper half, or at its
end, and 0 or 1. A condition that every row meets keeps the numbers of rows private. Variances are judged from 20 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabladp import Pure, Rho, Statistics
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

ROWS = (5, 20, 100, 1_000, 10_000, 100_000)
LOW, HIGH = 0, 100
LEVELS = (0.1, 0.5, 0.75)
BUDGETS = {"rho": (0.005, 0.05, 0.5), "pure": (0.1, 0.3, 1.0)}
SELECTED = (
    "COUNT(*) AS people, AVG(v) AS mean, VAR_POP(v) AS var, STDDEV_POP(v) AS stddev",
    "SUM(v) AS total",
    "AVG(CAST(b AS INTEGER)) AS share",
    ", ".join(f"QUANTILE_DISC(v, {q}) AS q{round(100 * q)}" for q in LEVELS),
)
QUERIES = tuple(f"SELECT g, {selected} FROM t WHERE f GROUP BY g" for selected in SELECTED)
FEWEST_ROWS = {"var": 20, "stddev": 20}


def measure(quick: bool) -> dict[str, Any]:
    runs = 60 if quick else 2000
    table, true = people()
    lowest: dict[str, float] = {}
    where, cells = "", 0
    for notion, budgets in BUDGETS.items():
        for budget in budgets:
            amount = (Rho if notion == "rho" else Pure)(budget)
            for query in QUERIES:
                for column, covered in coverage(Statistics(amount, query), table, true, runs).items():  # type: ignore[arg-type]
                    chosen = covered[true["rows"] >= FEWEST_ROWS.get(column, 0)]
                    cells += len(chosen)
                    if chosen.min() < min(lowest.values(), default=2.0):
                        where = f"{column} at {'ρ' if notion == 'rho' else 'ε'} = {budget:g}"
                    lowest[column] = min(lowest.get(column, 1.0), float(chosen.min()))
    return {
        "coverage_min": round(min(lowest.values()), 4),
        "coverage_min_where": where,
        "coverage_min_by_column": {column: round(share, 4) for column, share in lowest.items()},
        "coverage_runs": runs,
        "coverage_cells": cells,
    }


def people() -> tuple[CodedTable, dict[str, Any]]:
    """The table, and the true value of every column in every group."""
    draw = np.random.default_rng(7)
    groups = []
    for rows in ROWS:
        groups.append(draw.integers(LOW, HIGH + 1, rows))
        groups.append(draw.integers(60, 91, rows))
        groups.append(np.where(draw.random(rows) < 0.9, HIGH, HIGH - 10))
    values = np.concatenate(groups)
    index = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    bits = (values > 80).astype(np.int64)
    schema = Schema(
        (
            Attribute("g", "integer", low=0, high=len(groups) - 1),
            Attribute("v", "integer", low=LOW, high=HIGH),
            Attribute("b", "boolean"),
            Attribute("f", "boolean"),
        )
    )
    table = CodedTable(schema, {"g": index, "v": values - LOW, "b": bits, "f": np.ones(len(values), np.int64)})
    true = {
        "rows": [len(own) for own in groups],
        "people": [len(own) for own in groups],
        "mean": [own.mean() for own in groups],
        "var": [own.var() for own in groups],
        "stddev": [own.std() for own in groups],
        "total": [own.sum() for own in groups],
        "share": [(own > 80).mean() for own in groups],
        **{f"q{round(100 * q)}": [np.quantile(own, q, method="inverted_cdf") for own in groups] for q in LEVELS},
    }
    return table, {name: np.array(values, dtype=np.float64) for name, values in true.items()}


def coverage(mechanism: Statistics, table: CodedTable, true: dict[str, Any], runs: int) -> dict[str, Any]:
    """For each column of the answer, the share of runs in which each group's interval holds the true value."""
    noise, hits = NoiseSource(), dict[str, Any]()
    for _ in range(runs):
        columns = mechanism.run(table, noise).answer.columns
        for name in (name for name in columns if f"{name}_low" in columns):
            low, high = (np.array(columns[f"{name}_{end}"], dtype=np.float64) for end in ("low", "high"))
            slack = 1e-9 * np.maximum(1.0, np.abs(true[name]))  # of floating point
            holds = (low - slack <= true[name]) & (true[name] <= high + slack)
            hits[name] = hits.get(name, 0) + holds
    return {name: count / runs for name, count in hits.items()}
