"""The same exact numbers on every engine: a file through DuckDB, Arrow, pandas, polars and Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nabladp import CDP, Statistics
from nabladp.mechanisms.statistics.counting import exact_numbers
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

QUERIES = (
    "SELECT sex, AVG(age), COUNT(*), VAR_POP(age) FROM people WHERE education_num >= 10 GROUP BY sex",
    "SELECT sex, region, SUM(income), MEDIAN(age), COUNT(income) FROM people GROUP BY ROLLUP (sex, region)",
    "SELECT region, QUANTILE_DISC(income, 0.9), COUNT(DISTINCT age) FROM people WHERE income > 1000 GROUP BY region",
    "SELECT FLOOR(age / 10), SUM(income * education_num), AVG(income) FILTER (WHERE sex = 'f') FROM people GROUP BY 1",
)
SCHEMA = Schema(
    (
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("region", "categorical", values=("north", "south", "west"), null="category"),
        Attribute("age", "integer", low=0, high=100, unknown="clamp"),
        Attribute("education_num", "integer", low=1, high=16),
        Attribute("income", "real", edges=(0.0, 10_000.0, 50_000.0, 200_000.0), null="category", unknown="clamp"),
    )
)


def measure(quick: bool) -> dict[str, Any]:
    import pyarrow as pa

    columns = people(20_000 if quick else 200_000)
    mechanism = Statistics(CDP(1.0), QUERIES)
    calibration = mechanism.calibration(SCHEMA)
    found: dict[str, list[Any]] = {}
    left_out = {"SQLite": "nabladp does not read its files"}
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        for engine, source in sources(pa.table(columns), Path(folder)):
            numbers = exact_numbers(calibration, open_table(source, SCHEMA))
            found[engine] = [part for block in numbers for part in block]
    if "Spark" not in found:
        left_out["Spark"] = "there is no Java"
    first, *others = found.values()
    equal = all(np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    return {"counts_equal": equal, "engines": list(found), "engines_left_out": left_out}


def people(rows: int) -> dict[str, Any]:
    """With empty fields, and numbers outside their domain."""
    draw = np.random.default_rng(3)
    income = np.round(draw.lognormal(10, 1, rows), 2).astype(object)
    income[draw.random(rows) < 0.1] = None
    region = draw.choice(np.array(["north", "south", "west", None], dtype=object), rows)
    return {
        "sex": draw.choice(("f", "m"), rows),
        "region": region,
        "age": draw.integers(-2, 110, rows),
        "education_num": draw.integers(1, 17, rows),
        "income": np.array(
            [None if own else value for own, value in zip(draw.random(rows) < 0.1, income, strict=True)]
        ),
    }


def sources(table: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    import polars as pl
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    parquet, text = folder / "people.parquet", folder / "people.csv"
    pq.write_table(table, parquet, row_group_size=7_001)
    csv.write_csv(table, text)
    yield "DuckDB, Parquet", parquet
    yield "DuckDB, CSV", text
    yield "DuckDB, query", f"SELECT * FROM read_parquet('{parquet}') ORDER BY age"
    yield "Arrow", table
    yield "pandas", table.to_pandas()
    yield "polars", pl.from_arrow(table)
    if shutil.which("java"):
        from nabladp.tables.spark.reading import session

        loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        spark = session("local[2]", {**loopback, "spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2})
        yield "Spark", spark.read.parquet(str(parquet))
        spark.stop()
