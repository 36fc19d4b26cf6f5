"""The paper's Table 1, measured: every row, with a budget for each attribute, and with the same for the whole person.

Rows: k-way marginals by average and by maximum error, histograms, robust halfspaces. Each is measured against d, k, n
and ε, as far as the row has them, with our best mechanism for the attribute and the best standard one for the person.
An exponent is a slope on logarithmic axes; beside it stands that of the mechanism's own bound at the same places.

What the full run prints last is ``docs/evidence/table1.json``, from which ``docs/make_table1_figures.py`` makes figures
and tables. Two rows are measured at a time.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from typing import Any

from bench import _table1_halfspaces, _table1_histogram, _table1_marginals
from nabladp import __version__

SECONDS = {"full": 600, "quick": 90}
ROWS = {
    "marginals_avg": _table1_marginals.average,
    "marginals_max": _table1_marginals.maximum,
    "histogram": _table1_histogram.run,
    "halfspaces": _table1_halfspaces.run,
}
JUDGED = ("marginals_avg_d", "marginals_avg_d_few_rows", "marginals_max_d", "halfspace_d")


def run(quick: bool) -> dict[str, object]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return together(list(pool.map(row, ROWS, [quick] * len(ROWS))))


def row(name: str, quick: bool) -> dict[str, Any]:
    return ROWS[name](quick)


def together(rows: list[dict[str, Any]]) -> dict[str, object]:
    told = {key: value for each in rows for key, value in each["summary"].items()}
    return {
        **told,
        "exponent_gap_max": round(max(gap(told[key]) for key in JUDGED), 3),
        "versions": versions(),
        "rows": rows,
    }


def gap(fitted: dict[str, float]) -> float:
    return abs(fitted["measured"] - fitted["predicted"])


def versions() -> dict[str, object]:
    packages = {name: version(name) for name in ("numpy", "scipy")}
    return {"python": platform.python_version(), "nabladp": __version__, **packages, "cores": os.cpu_count()}
