"""The first query on integer columns of a Parquet file: time beside DuckDB's own query, memory at ten times the rows.

Also a program: ``python -m bench._sql_speed count|call FILE`` does one of the two in a fresh process and prints what it
took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.tables import peak_mib, timed

CHUNK = 1 << 18
QUERY = "SELECT sex, AVG(age) AS avg_age, COUNT(*) AS people FROM {table} WHERE education_num >= 10 GROUP BY sex"
TURNS = 7


def measure(quick: bool) -> dict[str, Any]:
    large, repeats = 10_000_000, 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        files = {rows: Path(folder) / f"{rows}.parquet" for rows in (large // 10, large)}
        for rows, path in files.items():
            write(path, rows)
        counted = alone("count", files[large])
        calls = {rows: [alone("call", path) for _ in range(repeats)] for rows, path in files.items()}
    seconds = {rows: min(run["seconds"] for run in runs) for rows, runs in calls.items()}
    peak = {rows: max(run["rss_mib"] for run in runs) for rows, runs in calls.items()}
    return {
        "time_over_duckdb": round(counted["ours"] / counted["duckdb"], 2),
        "call_over_duckdb": round(seconds[large] / counted["duckdb"], 2),
        "seconds_counting": round(counted["ours"], 3),
        "seconds_duckdb": round(counted["duckdb"], 3),
        "seconds_call": round(seconds[large], 3),
        "rss_ratio_10x": round(peak[large] / peak[large // 10], 3),
        "rss_mib": round(peak[large // 10], 1),
        "rss_mib_10x": round(peak[large], 1),
        "parquet_rows": large,
        "parquet_counts_equal": counted["equal"],
    }


def write(path: Path, rows: int) -> None:
    """A chunk at a time, so that the table never has to fit into memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = pa.schema([(name, pa.int32()) for name in ("sex", "age", "education_num")])
    with pq.ParquetWriter(path, fields) as writer:
        for start in range(0, rows, CHUNK):
            count, draw = min(CHUNK, rows - start), np.random.default_rng(start)
            columns = {
                "sex": draw.integers(0, 2, count),
                "age": np.clip(draw.gamma(6, 6.5, count), 17, 90).astype(np.int64),
                "education_num": draw.integers(1, 17, count),
            }
            writer.write_table(pa.table(columns).cast(fields))


def alone(what: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench._sql_speed", what, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# ---- in a process of its own -----------------------------------------------------------------------------------------


def schema() -> Any:
    from nabladp.schema import Attribute, Schema

    bounds = {"sex": (0, 1), "age": (17, 90), "education_num": (1, 16)}
    return Schema(tuple(Attribute(name, "integer", low=low, high=high) for name, (low, high) in bounds.items()))


def count(path: str) -> dict[str, Any]:
    """In turns, so that a busy moment of the machine meets both; the shortest of each. Nothing is kept in between."""
    import duckdb

    from nabladp import CDP, Statistics
    from nabladp.mechanisms.statistics.counting import exact_numbers
    from nabladp.tables import open_table

    calibration = Statistics(CDP(0.5), QUERY.format(table="people")).calibration(schema())

    def plain() -> list[tuple[Any, ...]]:
        with duckdb.connect() as database:
            return database.sql(QUERY.format(table=f"read_parquet('{path}')")).fetchall()

    ours, theirs = float("inf"), float("inf")
    for _ in range(TURNS):
        taken, ((people, sums),) = timed(lambda: exact_numbers(calibration, open_table(path, schema())))
        ours = min(ours, taken)
        taken, rows = timed(plain)
        theirs = min(theirs, taken)
    middle = (17 + 90) / 2  # sums are of half years from the middle of the range
    found = [[code, middle + sums[code, 0] / 2 / people[code, 0], people[code, 0]] for code in (0, 1)]
    return {"ours": ours, "duckdb": theirs, "equal": bool(np.allclose(sorted(rows), found, rtol=1e-12))}


def call(path: str) -> dict[str, Any]:
    """After a call on a few rows: what is loaded once is no part of the time."""
    import pyarrow as pa

    from nabladp import CDP, Budget, Session

    few = pa.table({attribute.name: [attribute.low] * 10 for attribute in schema()})
    with tempfile.TemporaryDirectory() as folder:

        def release(source: Any, ledger: str) -> Any:
            budget = Budget(per_attribute=CDP(1))
            session = Session(source, schema(), budget, Path(folder) / ledger, new_ledger=True)
            return session.sql(QUERY.format(table="people"), CDP(0.5)).rows

        release(few, "first.db")
        seconds, _ = timed(lambda: release(path, "ledger.db"))
    return {"seconds": seconds, "rss_mib": peak_mib()}


if __name__ == "__main__":
    print(json.dumps({"count": count, "call": call}[sys.argv[1]](sys.argv[2])))
