"""Run by .venv-peers-qrlew: ``python sql_qrlew.py IN.npz OUT.npz``: Qrlew rewrites a query, DuckDB runs it.

IN and OUT: as for ``sql_opendp.py``; ρ only. It is asked for ε and δ, and adds Gaussian noise. Its ``dp_event`` has the
same multiplier for each of k aggregates, whatever their number, but the noise in its SQL is k times that (measured for
1 to 4 aggregates): ε is set such that ρ = k/(2·(k·multiplier)²), which is what it does, is ``amount``. It panics at
MEDIAN: of that query its SUM is asked, at half of the budget.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import sqlalchemy
from _measured import given, keep, seconds_of
from _sql_public import BOUNDS, KEYS, LABELS, LEAST_EDUCATION, MEAN, MEDIAN, arrays, copies_of
from pyqrlew import Dataset

DELTA = 1e-6
MOST_COPIES = 50  # with more values of a key it would hide small groups
SQL = {
    MEAN: f"SELECT {{keys}}, AVG(age) AS avg_age, COUNT(age) AS people FROM people "
    f"WHERE education_num >= {LEAST_EDUCATION} GROUP BY {{keys}}",
    MEDIAN: "SELECT {keys}, SUM(hours) AS sum_hours FROM people GROUP BY {keys}",
}


def main(source: str, target: str) -> None:
    data = given(source)
    query, copies, amount = str(data["query"]), int(data["copies"]), float(data["amount"])
    if query not in SQL:
        raise SystemExit("it has no quantiles")
    if str(data["notion"]) != "rho":
        raise SystemExit("it has no pure budgets")
    if query == MEDIAN:
        amount /= 2
    one, many = (Table(copies_of(data, query, count), query) for count in (1, min(copies, MOST_COPIES)))
    epsilon = many.epsilon(amount)
    rows: list[tuple[Any, ...]] = []
    for start in range(0, copies, MOST_COPIES):
        found = many.answer(epsilon, ("copy", *KEYS[query]))
        rows += [(start + copy, *rest) for copy, *rest in found if start + copy < copies]
    seconds = seconds_of(lambda: one.answer(epsilon, KEYS[query]), int(data["calls"]))
    keep(target, seconds, arrays(query, copies, rows))


class Table:
    """Rows in DuckDB, and their description, which Qrlew takes from a table of a database it knows."""

    def __init__(self, columns: dict[str, Any], query: str) -> None:
        self.query = query
        frame = pd.DataFrame(columns)
        frame["copy"] = "c" + frame["copy"].astype(str)
        frame["id"] = [str(i) for i in range(len(frame))]
        self.dataset = describe(frame)
        self.database = duckdb.connect()
        self.database.execute("CREATE TABLE people AS SELECT * FROM frame")

    def epsilon(self, amount: float) -> float:
        relation = self.dataset.relation(SQL[self.query].format(keys=KEYS[self.query][0]))
        low, high = 1e-4, 1e3
        while high / low > 1.001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if rho_of(self._private(relation, middle)) <= amount else (low, middle)
        return low

    def answer(self, epsilon: float, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
        relation = self.dataset.relation(SQL[self.query].format(keys=", ".join(keys)))
        text = self._private(relation, epsilon).relation().to_query()
        rows = self.database.execute(text).fetchall()
        names = [column[0] for column in self.database.description]
        order = [names.index(name) for name in keys]
        values = [names.index(name) for name in ("avg_age", "people", "sum_hours") if name in names]
        return [self._row([row[i] for i in order], [row[i] for i in values], keys) for row in rows]

    def _private(self, relation: Any, epsilon: float) -> Any:
        return relation.rewrite_with_differential_privacy(
            self.dataset, [("people", [], "id")], {"epsilon": epsilon, "delta": DELTA}, 1.0, 1.0, 1
        )

    def _row(self, keys: list[str], values: list[Any], names: tuple[str, ...]) -> tuple[Any, ...]:
        if self.query == MEAN:
            low, high = BOUNDS["age"]
            values = [min(max(values[0], low), high), values[1]]
        else:
            values = [*values, float("nan")]
        return (int(keys[0][1:]), *keys[1:], *values) if names[0] == "copy" else (0, *keys, *values)


def rho_of(private: Any) -> float:
    event = private.dp_event().to_dict()
    parts = event.get("events", [event])
    return sum(1 / (2 * (len(parts) * part["noise_multiplier"]) ** 2) for part in parts)


def describe(frame: pd.DataFrame) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        engine = sqlalchemy.create_engine(f"sqlite:///{Path(folder) / 'people.db'}")
        frame.head(1000).to_sql("people", engine, index=False)
        dataset = Dataset.from_database("adult", engine)
        engine.dispose()
    for name, (low, high) in BOUNDS.items():
        if name in frame:
            dataset = dataset.with_range(None, "people", name, low, high)
    for name, labels in {**LABELS, "copy": tuple(frame["copy"].unique())}.items():
        if name in frame:
            dataset = dataset.with_possible_values(None, "people", name, labels)
    return dataset.with_constraint(None, "people", "id", "_UNIQUE_")


if __name__ == "__main__":
    main(*sys.argv[1:])
