"""One made-up table for tests of SQL: as nabladp reads it, and the same rows in DuckDB."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.counting import BatchRows
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from nabladp.sql.expressions import Expression
from nabladp.tables import open_table
from nabladp.tables.encode import Encoder, grid_column

DAYS = tuple((dt.date(2025, 11, 3) + dt.timedelta(days=13 * i)).isoformat() for i in range(30))
SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("north", "south", "east", "west"), unknown="other", null="category"),
        Attribute("sex", "categorical", values=("f", "m")),
        Attribute("education", "ordered", values=("none", "primary", "secondary", "degree"), null="category"),
        Attribute("age", "integer", low=0, high=99),
        Attribute("score", "integer", low=-20, high=20, unknown="other", null="category"),
        Attribute("steps", "integer", low=0, high=30_000, null="category"),
        Attribute("income", "real", edges=(0.0, 10_000.0, 50_000.0, 200_000.0), unknown="clamp", null="category"),
        Attribute("balance", "real", edges=(-500.0, 0.0, 500.0)),
        Attribute("rate", "categorical", values=(0.5, 1, 1.5, 2.5), null="category"),
        Attribute("employed", "boolean", null="category"),
        Attribute("day", "categorical", values=DAYS),
    )
)
TYPES = {
    "age": "BIGINT",
    "score": "BIGINT",
    "steps": "BIGINT",
    "income": "DOUBLE",
    "balance": "DOUBLE",
    "rate": "DOUBLE",
    "employed": "BOOLEAN",
    "education": "edu",
    "day": "DATE",
}


def random_rows(n: int, seed: int) -> pa.Table:
    """Values that the schema declares, their ends among them, and NULL where it may be."""
    rng = np.random.default_rng(seed)

    def gaps(values: Sequence[Any], share: float) -> list[Any]:
        return [None if gap else value for value, gap in zip(values, rng.random(n) < share, strict=True)]

    income = np.round(np.clip(rng.lognormal(10, 1, n), 0, 200_000), 2)
    income[rng.random(n) < 0.3] = rng.choice([0, 10_000, 50_000, 25_000, 200_000])
    return pa.table(
        {
            "region": gaps(rng.choice(["north", "south", "east", "west", "other"], n).tolist(), 0.1),
            "sex": rng.choice(["f", "m"], n).tolist(),
            "education": gaps(rng.choice(["none", "primary", "secondary", "degree"], n).tolist(), 0.1),
            "age": rng.integers(0, 100, n).tolist(),
            "score": gaps(rng.integers(-20, 21, n).tolist(), 0.15),
            "steps": gaps(rng.integers(0, 30_001, n).tolist(), 0.1),
            "income": gaps(income.tolist(), 0.1),
            "balance": np.round(rng.uniform(-500, 500, n), 1).tolist(),
            "rate": gaps(rng.choice([0.5, 1, 1.5, 2.5], n).tolist(), 0.1),
            "employed": gaps(rng.choice([True, False], n).tolist(), 0.1),
            "day": rng.choice(DAYS, n).tolist(),
        }
    )


def in_duckdb(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """As the table ``people``, with education as a type in its declared order."""
    connection = duckdb.connect()
    connection.execute("CREATE TYPE edu AS ENUM ('none', 'primary', 'secondary', 'degree')")
    connection.register("arrow_rows", table)
    columns = ", ".join(f"CAST({name} AS {TYPES.get(name, 'VARCHAR')}) AS {name}" for name in table.column_names)
    connection.execute(f"CREATE TABLE people AS SELECT {columns} FROM arrow_rows")
    connection.unregister("arrow_rows")
    return connection


def as_rows(table: pa.Table) -> BatchRows:
    """The rows as expressions read them."""
    reals = [grid_column(own.name) for own in SCHEMA.attributes if own.kind == "real"]
    encoder = Encoder(SCHEMA, (*SCHEMA.names, *reals))
    return BatchRows(encoder.encode(table.combine_chunks().to_batches()[0]))


def values_of(expression: Expression, rows: BatchRows) -> list[Any]:
    """What an expression gives on every row, in Python."""
    cells = expression.evaluate(rows)
    data = (
        [expression.domain.values[int(own)] for own in cells.data] if expression.domain.is_text else cells.data.tolist()
    )
    return [None if gap else value for value, gap in zip(data, cells.is_null().tolist(), strict=True)]


class NoNoise(NoiseSource):
    """Draws zeros, and selects the best: answers are then exact."""

    def discrete_gaussian(self, scale: Any, size: Any) -> Any:
        return np.zeros(size, np.int64)

    def discrete_laplace(self, scale: Any, size: Any) -> Any:
        return np.zeros(size, np.int64)

    def select_exponential(self, scores: Any, scale: Any) -> int:
        return int(np.argmax(scores))


def answer_exactly(sql: str, table: pa.Table) -> list[dict[str, Any]]:
    """The rows of the answer without noise."""
    mechanism = Statistics(CDP(1e6), sql)
    return list(mechanism.run(open_table(table, SCHEMA), NoNoise()).answer.rows)


def plain(value: Any) -> Any:
    """One form for values of both: dates as text, numbers as floats, integers of any kind alike."""
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat().removesuffix("T00:00:00")
    if value is None or isinstance(value, (bool, str)):
        return value
    return float(value)


def close(one: Any, other: Any, tolerance: float = 1e-9) -> bool:
    one, other = plain(one), plain(other)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and one == other
