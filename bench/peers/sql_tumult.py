"""Run by .venv-peers-tumult: ``python sql_tumult.py IN.npz OUT.npz``: Tumult Analytics on a local Spark.

IN and OUT: as for ``sql_opendp.py``. Each aggregate is a query of its own: of a query's budget the mean, which is a sum
and a count, takes two thirds and the count one; the sum and the median a half each; ten quantiles a tenth each.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import pandas as pd
from _measured import given, keep, seconds_of
from _sql_public import BOUNDS, COLUMNS, KEYS, LABELS, LEAST_EDUCATION, LEVELS, MEAN, MEDIAN, arrays, copies_of
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, RhoZCDPBudget, Session

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    data = given(source)
    query, copies, amount = str(data["query"]), int(data["copies"]), float(data["amount"])
    kind = PureDPBudget if str(data["notion"]) == "pure" else RhoZCDPBudget
    one, many = (spark.createDataFrame(pd.DataFrame(copies_of(data, query, count))) for count in (1, copies))
    rows = answer(query, many, copies, kind, amount)
    seconds = seconds_of(lambda: answer(query, one, 1, kind, amount), int(data["calls"]))
    keep(target, seconds, arrays(query, copies, rows))


def answer(query: str, frame: Any, copies: int, kind: Any, amount: float) -> list[tuple[Any, ...]]:
    session = Session.from_dataframe(
        privacy_budget=kind(amount), source_id="people", dataframe=frame, protected_change=AddOneRow()
    )
    names = ("copy", *KEYS[query])
    keys = KeySet.from_dict({"copy": list(range(copies)), **{name: list(LABELS[name]) for name in KEYS[query]}})
    found: dict[tuple[Any, ...], list[float]] = {}
    for share, column, asked in parts(query, keys):
        part = session.evaluate(asked, kind(amount * share)).toPandas()
        for *key, value in part[[*names, column]].itertuples(index=False):
            found.setdefault(tuple(key), []).append(value)
    return [(*key, *values) for key, values in found.items()]


def parts(query: str, keys: Any) -> list[tuple[float, str, Any]]:
    """Shares that add up to a little less than one: they are not rounded up past it."""
    people = QueryBuilder("people")
    whole = 1 - 1e-9
    if query == MEAN:
        chosen = people.filter(f"education_num >= {LEAST_EDUCATION}").groupby(keys)
        low, high = BOUNDS["age"]
        mean = chosen.average("age", low=low, high=high, name="avg_age")
        return [(whole * 2 / 3, "avg_age", mean), (whole / 3, "people", chosen.count(name="people"))]
    grouped = people.groupby(keys)
    low, high = BOUNDS["hours"]
    if query == MEDIAN:
        total = grouped.sum("hours", low=low, high=high, name="sum_hours")
        youngest, oldest = BOUNDS["age"]
        middle = grouped.median("age", low=youngest, high=oldest, name="median_age")
        return [(whole / 2, "sum_hours", total), (whole / 2, "median_age", middle)]
    return [
        (whole / len(LEVELS), name, grouped.quantile("hours", quantile=level / 100, low=low, high=high, name=name))
        for name, level in zip(COLUMNS[query], LEVELS, strict=True)
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
