"""Queries in SQL: errors beside other libraries, time beside DuckDB, memory, coverage, engines.

How peers are compared is said in ``_sql_errors``. Peers run in environments of their own (``make peers``); one that is
not there is left out, and ``no_answer`` says so.
"""

from __future__ import annotations

from bench import _sql_coverage, _sql_engines, _sql_errors, _sql_speed

SECONDS = {"full": 1500, "quick": 170}


def run(quick: bool) -> dict[str, object]:
    speed = announce(_sql_speed.measure(quick))  # first: nothing of this process competes with it
    engines = announce(_sql_engines.measure(quick))
    coverage = announce(_sql_coverage.measure(quick))
    errors = _sql_errors.compare(list(_sql_errors.rows(quick)))
    return {**errors, **speed, **coverage, **engines, "counts_equal": both_equal(speed, engines)}


def both_equal(speed: dict[str, object], engines: dict[str, object]) -> bool:
    return bool(speed["parquet_counts_equal"]) and bool(engines["counts_equal"])


def announce(found: dict[str, object]) -> dict[str, object]:
    print(", ".join(f"{name}: {value}" for name, value in found.items()), flush=True)
    return found
