"""Run by .venv-peers-opendp-polars: ``python sql_opendp.py IN.npz OUT.npz``: OpenDP's interface to polars.

IN: columns of the table, ``query``, ``notion`` ("pure" or "rho"), ``amount`` (ε or ρ of one row more or less),
``copies``, ``calls``. OUT: a table for each column of the answer, and the seconds of a call.

A mean is written as a sum over a count that the query asks for anyway: its own ``mean`` would count once more.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import opendp.prelude as dp
import polars as pl
from _measured import given, keep, seconds_of
from _sql_public import BOUNDS, KEYS, LABELS, LEAST_EDUCATION, LEVELS, MEAN, MEDIAN, arrays, copies_of

MOST_ROWS = 100_000_000


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")  # of options that will change their default
    dp.enable_features("contrib")
    data = given(source)
    query, copies = str(data["query"]), int(data["copies"])
    loss = {"epsilon" if str(data["notion"]) == "pure" else "rho": float(data["amount"])}
    one, many = (pl.DataFrame(copies_of(data, query, count)) for count in (1, copies))
    rows = answer(query, many, copies, loss)
    seconds = seconds_of(lambda: answer(query, one, 1, loss), int(data["calls"]))
    keep(target, seconds, arrays(query, copies, rows))


def answer(query: str, frame: pl.DataFrame, copies: int, loss: dict[str, float]) -> list[tuple[Any, ...]]:
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=(), max_length=MOST_ROWS)],
    )
    keys = pl.DataFrame({"copy": range(copies)})
    for name in KEYS[query]:
        keys = keys.join(pl.DataFrame({name: LABELS[name]}), how="cross")
    asked = context.query()
    if query == MEAN:
        asked = asked.filter(pl.col("education_num") >= LEAST_EDUCATION)
    grouped = asked.group_by("copy", *KEYS[query]).agg(*aggregates(query))
    released = grouped.with_keys(keys.lazy()).release().collect()
    if query == MEAN:
        people = pl.col("people").clip(1)
        mean = (pl.col("sum_age") / people).clip(*BOUNDS["age"])
        released = released.select("copy", "sex", mean.alias("avg_age"), "people")
    return released.rows()


def aggregates(query: str) -> list[pl.Expr]:
    if query == MEAN:
        total = pl.col("age").fill_null(0).dp.sum(BOUNDS["age"])
        return [total.alias("sum_age"), dp.len(signed=True).alias("people")]
    if query == MEDIAN:
        total = pl.col("hours").fill_null(0).dp.sum(BOUNDS["hours"])
        middle = pl.col("age").fill_null(0).dp.median(candidates("age"))
        return [total.alias("sum_hours"), middle.alias("median_age")]
    hours = pl.col("hours").fill_null(0)
    return [hours.dp.quantile(level / 100, candidates("hours")).alias(f"hours_{level}") for level in LEVELS]


def candidates(name: str) -> list[int]:
    low, high = BOUNDS[name]
    return list(range(low, high + 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
