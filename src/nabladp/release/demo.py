"""The demo: a made-up population, the very command a user would run, and a comparison only its maker may see.

The comparison with the truth is possible because nobody in this population exists. It is not part of a release.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee
from nabladp.release.cost import DELTA, figures
from nabladp.release.population import SCHEMA, make_people
from nabladp.release.record import Release
from nabladp.tables import open_table

PEOPLE, SCHEMA_FILE, PLAN_FILE, OUT = "people.parquet", "schema.toml", "plan.toml", "plan-release"
PLAN = """# A plan says what is released from which table under which budget.
[table]
source = "people.parquet"
schema = "schema.toml"
rows = {people}

[budget]
ledger = "ledger.db"
per_attribute = {{ cdp = 0.5 }}
attributes = {{ disability = {{ cdp = 0.3 }} }}
sets = {{ "race+ethnicity" = {{ rho = 0.15 }} }}
person = {{ rho = 1.0 }}

[[release]]
name = "single-columns"
mechanism = "NoisyMarginals"
k = 1
budget = {{ cdp = 0.1 }}

[[release]]
name = "pairs-and-triples"
mechanism = "NoisyMarginals"
sets = [["region", "income"], ["age", "sex"], ["race", "ethnicity"], ["education", "occupation"],
        ["income", "disability"], ["region", "tenure", "marital"], ["occupation", "commute"]]
budget = {{ cdp = 0.25 }}

[[adversary]]
name = "a neighbour curious about income and health"
attributes = ["income", "disability"]

[[adversary]]
name = "an official after origin"
attributes = ["race", "ethnicity"]
"""


def run_demo(folder: Path, people: int, quiet: bool = False) -> dict[str, Any]:
    """Write population, schema and plan, run ``nabladp release plan.toml --new-ledger``, and compare with the truth."""
    write_inputs(folder, people)
    release(folder, quiet)
    return compare(folder)


def write_inputs(folder: Path, people: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if people < 1000:
        raise ReleaseError("The demo needs at least 1,000 people.", fix="Leave --people out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ReleaseError(f"{folder.name!r} is not empty.", fix="Give the demo a new folder.")
        pq.write_table(pa.table(make_people(people)), folder / PEOPLE)
        SCHEMA.save(folder / SCHEMA_FILE)
        (folder / PLAN_FILE).write_text(PLAN.format(people=people), encoding="utf-8")
    except OSError:
        raise ReleaseError(f"Cannot write into {folder.name!r}.", fix="Choose a folder that is writable.") from None


def release(folder: Path, quiet: bool) -> None:
    """The very command a user would run, in a process of its own."""
    command = [sys.executable, "-m", "nabladp", "release", PLAN_FILE, "--new-ledger", *(["--json"] if quiet else [])]
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE if quiet else None)
    if done.returncode:
        said = json.loads(done.stdout)["message"] if quiet else "The message above says why."
        raise ReleaseError(f"The demo's release failed. {said}", fix="Mend that, and give the demo a new folder.")


def compare(folder: Path) -> dict[str, Any]:
    """The figures of the release, and its errors: predicted beside actual."""
    releases = [Release.load(folder / OUT / name) for name in ("single-columns", "pairs-and-triples")]
    whole = Guarantee.compose(SCHEMA, [release.guarantee for release in releases])
    return {
        "folder": str(folder / OUT),
        "figures": figures(whole, releases[0].adversaries, DELTA),
        "errors": [row for release in releases for row in _compared(release, folder / PEOPLE)],
    }


def _compared(release: Release, source: Path) -> list[dict[str, Any]]:
    tables = list(release.output)  # type: ignore[call-overload]
    truth = open_table(source, SCHEMA).marginals([table.attributes for table in tables])
    rows = []
    for table, true, expected in zip(tables, truth, release.expected_error, strict=True):
        gap = np.abs(table.counts - true)
        rows.append(
            {
                "marginal": "+".join(table.attributes),
                "cells": int(gap.size),
                "predicted": expected["mean_absolute"],
                "actual": float(gap.mean()),
                "covered": float((gap <= table.half_width()).mean()),
            }
        )
    return rows
