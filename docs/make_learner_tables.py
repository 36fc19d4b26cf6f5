"""Fills in the measured tables of ``points.md`` and ``thresholds.md``.

The numbers are measured; they stand in ``learners.json``, the last line of a full run of the benchmark::

    python -m bench learners | tail -n 1 > docs/learners.json
    python docs/make_learner_tables.py
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).with_name("learners.json")
PAGES = {kind: MEASURED.with_name(f"{kind}.md") for kind in ("points", "thresholds")}
NAMES = {"cdp": "concentrated", "pure": "pure"}


def measured() -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def tables(kind: str, found: Mapping[str, Any]) -> dict[str, list[Sequence[Any]]]:
    """Rows with their heads."""
    grown, rates, share = found["needed"][kind], found["success_rates"][kind], found["alpha"] * found["epsilon"]
    needed = {
        notion: found.get("needed_one_pick", {}).get(kind, {}).get(notion, {}) | grown[notion]["n"] for notion in NAMES
    }
    dims = sorted(map(int, needed["cdp"]))
    by_d = [
        [d, *(needed[notion][str(d)] for notion in NAMES), math.ceil(math.sqrt(d) / share), math.ceil(d / share)]
        for d in dims
    ]
    fits = [
        [NAMES[notion], f"+ {of['slope_log_d']:g}", f"{of['r2_log_d']:.3f}", f"d^{of['power_of_d']:.2f}"]
        for notion, of in grown.items()
    ]
    tried = sorted({int(key.split("_")[1]) for key in rates})
    kept = [[NAMES[notion], *(f"{rates[f'{notion}_{d}']:.0%}" for d in tried)] for notion in NAMES]
    person = "whole person, up to a constant: concentrated, √d/(α·ε0)"
    return {
        "needed": [("yes/no features", *NAMES.values(), person, "pure, d/(α·ε)"), *by_d],
        "growth": [("", "rows, each time d doubles", "r² of that line", "as a power of d"), *fits],
        "kept": [("", *(f"d = {d:,}" for d in tried)), *kept],
    }


def filled(page: str, kind: str, found: Mapping[str, Any]) -> str:
    """Each table stands between a comment with its name and the next empty line."""
    for name, rows in tables(kind, found).items():
        head, *body = ["| " + " | ".join(map(shown, row)) + " |" for row in rows]
        block = "\n".join([f"<!-- measured: {name} -->", head, "|---" * len(rows[0]) + "|", *body]) + "\n"
        page = re.sub(rf"<!-- measured: {name} -->\n(?:\|.*\n)*", block, page)
    return page


def shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    for kind, page in PAGES.items():
        page.write_text(filled(page.read_text(encoding="utf-8"), kind, measured()), encoding="utf-8")
