"""Synthetic tables of up to 500 columns: memory and time as told before anything is spent, and as they come out.

Each table in a process of its own; time is that of the processor for the whole release, published and with its report.
The error is the mean total variation over all pairs, beside that of the noise alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.tables import peak_mib
from nabladp import CDP, Attribute, Budget, Schema, Session, Synthesis
from nabladp.tables import Table, decode, open_table

SECONDS = {"full": 300, "quick": 30}
ROWS = 20_000
CASES = {"40 columns of 5 values": (40, 5, 1.0), "100 of 2": (100, 2, 1.0), "200 of 2": (200, 2, 1.0)}
CASES |= {"200 of 2, little budget": (200, 2, 0.02), "500 of 2": (500, 2, 1.0)}
QUICK = ("40 columns of 5 values",)


def run(quick: bool) -> dict[str, object]:
    found = {}
    for name in QUICK if quick else CASES:
        found[name] = alone(name)
        print(name, found[name], flush=True)
    ratios = {part: [each[part] / each[f"told_{part}"] for each in found.values()] for part in ("mb", "seconds")}
    return {
        "memory_over_told_max": round(max(ratios["mb"]), 2),
        "time_over_told_max": round(max(ratios["seconds"]), 2),
        "columns_max": max(CASES[name][0] for name in found),
        **{f"wide_500_{part}": found["500 of 2"][part] for part in ("seconds", "mb") if "500 of 2" in found},
        "cases": found,
    }


def alone(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.synthesis_wide", name],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(columns: int, values: int) -> Table:
    """Every column follows one hidden kind of person in two of five rows."""
    schema = Schema(tuple(Attribute(f"c{i}", "categorical", values=tuple("abcde"[:values])) for i in range(columns)))
    draw = np.random.default_rng(1)
    kind = draw.integers(0, values, ROWS)
    follows = ((draw.random(ROWS) < 0.4, draw.integers(0, values, ROWS)) for _ in range(columns))
    codes = {f"c{i}": np.where(own, (kind + i) % values, other) for i, (own, other) in enumerate(follows)}
    return open_table(decode(schema, codes), schema)


def one(name: str) -> dict[str, object]:
    columns, values, epsilon = CASES[name]
    people, mechanism = table(columns, values), Synthesis(CDP(epsilon))
    told = mechanism.expected_error(people.schema, ROWS)
    start = time.process_time()
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        budget = Budget(per_attribute=CDP(epsilon))
        session = Session(people, people.schema, budget, ledger=f"{folder}/ledger.db", new_ledger=True)
        released = session.release(mechanism, "wide", to=f"{folder}/wide")
    spent, mb = time.process_time() - start, peak_mib() * 1.048576
    answers = released.output.answers
    truth = people.marginals([answer.attributes for answer in answers])
    apart = [np.abs(a.counts - own).sum() / (2 * ROWS) for a, own in zip(answers, truth, strict=True)]
    return {
        "strategy": told.strategy,
        "pairs": len(answers),
        "told_mb": round(told.memory_mb),
        "mb": round(mb),
        "told_seconds": round(told.seconds, 1),
        "seconds": round(spent, 1),
        "error": float(f"{np.mean(apart):.4g}"),
        "noise_alone": float(f"{told.noise_error:.4g}"),
    }


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1])))
