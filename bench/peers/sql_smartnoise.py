"""Run by .venv-peers-smartnoise-sql: ``python sql_smartnoise.py IN.npz OUT.npz``: SmartNoise SQL over a pandas frame.

IN and OUT: as for ``sql_opendp.py``; pure ε only. ``Privacy.epsilon`` is of each aggregate, so it is set such that
``get_privacy_cost`` of the query is ``amount``. COUNT(age) stands for COUNT(*), which is the same where nobody's age is
missing: then its AVG shares the count. It has no MEDIAN: of that query its SUM is asked, at half of the budget. Copies
get their noise from exact sums that are counted once, which ``execute`` takes as ``pre_aggregated``.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pandas as pd
from _measured import given, keep, seconds_of
from _sql_public import BOUNDS, KEYS, LABELS, LEAST_EDUCATION, MEAN, MEDIAN, READS, arrays
from snsql import Privacy, from_connection

SQL = {
    MEAN: f"SELECT {{keys}}, AVG(age) AS avg_age, COUNT(age) AS people FROM db.people "
    f"WHERE education_num >= {LEAST_EDUCATION} GROUP BY {{keys}}",
    MEDIAN: "SELECT {keys}, SUM(hours) AS sum_hours FROM db.people GROUP BY {keys}",
}


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")
    data = given(source)
    query, copies, amount = str(data["query"]), int(data["copies"]), float(data["amount"])
    if query not in SQL:
        raise SystemExit("it has no quantiles")
    if str(data["notion"]) != "pure":
        raise SystemExit("it has no zero-concentrated budgets")
    if query == MEDIAN:
        amount /= 2
    frame = pd.DataFrame({name: data[name] for name in READS[query]})
    text = SQL[query].format(keys=", ".join(KEYS[query]))
    reader = reader_of(frame, text, amount)
    counted = reader.reader.execute(str(reader._rewrite(text)[0]))
    rows = [(copy, *row) for copy in range(copies) for row in answer(reader, text, query, counted)]
    seconds = seconds_of(lambda: answer(reader_of(frame, text, amount), text, query), int(data["calls"]))
    keep(target, seconds, arrays(query, copies, rows))


def reader_of(frame: pd.DataFrame, text: str, amount: float) -> Any:
    metadata = describe(frame)
    per_aggregate = from_connection(frame, metadata=metadata, privacy=Privacy(epsilon=1.0))
    total, _ = per_aggregate.get_privacy_cost(text)
    return from_connection(frame, metadata=metadata, privacy=Privacy(epsilon=amount / float(total)))


def answer(reader: Any, text: str, query: str, counted: Any = None) -> list[list[Any]]:
    rows = reader.execute(text, pre_aggregated=counted)[1:]
    if query == MEAN:
        low, high = BOUNDS["age"]
        rows = [[*row[:-2], min(max(row[-2], low), high), row[-1]] for row in rows]
    return [[*row, float("nan")] for row in rows] if query == MEDIAN else rows


def describe(frame: pd.DataFrame) -> dict[str, Any]:
    """Rows are people; groups are declared, so none is censored."""
    numbers = {name: {"type": "int", "lower": low, "upper": high} for name, (low, high) in BOUNDS.items()}
    texts = {name: {"type": "string", "cardinality": len(labels)} for name, labels in LABELS.items()}
    options = {"row_privacy": True, "censor_dims": False, "clamp_counts": False, "rows": len(frame)}
    return {"": {"db": {"people": {**options, **numbers, **texts}}}}


if __name__ == "__main__":
    main(*sys.argv[1:])
