"""Ours, run like the others: ``python sql_nabladp.py IN.npz OUT.npz``: queries through a session.

IN: as for ``sql_opendp.py``, but ``amount`` is for a replaced row, and ``unit`` says for whom: person or attribute.
OUT: a table for each column of the answer, the seconds of a call, and figures of the guarantee: ``person``, and the
largest of an attribute, ``attribute``. Each copy is a run of its own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from _measured import given, keep, seconds_of
from _sql_public import BOUNDS, COLUMNS, KEYS, LABELS, LEAST_EDUCATION, LEVELS, MEAN, MEDIAN, QUANTILES, arrays

from nabladp import Budget, Pure, Rho, Session, Statistics
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import open_table

SQL = {
    MEAN: "SELECT sex, AVG(age) AS avg_age, COUNT(*) AS people FROM people "
    f"WHERE education_num >= {LEAST_EDUCATION} GROUP BY sex",
    MEDIAN: "SELECT sex, race, income, SUM(hours) AS sum_hours, MEDIAN(age) AS median_age FROM people "
    "GROUP BY sex, race, income",
    QUANTILES: "SELECT sex, "
    + ", ".join(f"QUANTILE_DISC(hours, {level / 100}) AS hours_{level}" for level in LEVELS)
    + " FROM people GROUP BY sex",
}
SCHEMA = Schema(
    (
        *(Attribute(name, "categorical", values=labels) for name, labels in LABELS.items()),
        *(Attribute(name, "integer", low=low, high=high) for name, (low, high) in BOUNDS.items()),
    )
)


def main(source: str, target: str) -> None:
    data = given(source)
    query, copies = str(data["query"]), int(data["copies"])
    budget = (Pure if str(data["notion"]) == "pure" else Rho)(float(data["amount"]))
    options: dict[str, Any] = {"quantiles": "point" if query == MEDIAN else "cdf"}
    if str(data["unit"]) == "person":
        options["person"] = budget
    frame = pd.DataFrame({name: data[name] for name in SCHEMA.names})
    mechanism = Statistics(budget, SQL[query], **options)  # type: ignore[arg-type]
    table, noise = open_table(frame, SCHEMA), NoiseSource()
    names = (*KEYS[query], *COLUMNS[query])
    rows = [
        (copy, *(row[name] for name in names))
        for copy in range(copies)
        for row in mechanism.run(table, noise).answer.rows
    ]
    seconds = seconds_of(lambda: answer(frame, query, budget, options), int(data["calls"]))
    guarantee = mechanism.guarantee(SCHEMA, table.n)
    each = guarantee.per_attribute().values()
    figures = {
        "person": cost(guarantee.per_person(), budget.pure),
        "attribute": max(cost(figure, budget.pure) for figure in each),
    }
    keep(target, seconds, {**arrays(query, copies, rows), **figures})


def answer(frame: pd.DataFrame, query: str, budget: Any, options: dict[str, Any]) -> Any:
    """A whole call: a session with a new ledger, the release, and its answer."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.db"
        session = Session(frame, SCHEMA, Budget(per_attribute=budget), ledger, new_ledger=True)
        return session.sql(SQL[query], budget, **options).rows


def cost(figure: Any, pure: bool) -> float:
    return float(figure.pure if pure else figure.rho)


if __name__ == "__main__":
    main(*sys.argv[1:])
