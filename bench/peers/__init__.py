"""Other libraries beside ours: same rows, same machine, same run, each run in a process of its own (``make peers``).

A peer states one figure per person, and can promise an attribute no less. Held equal are, one after the other: what an
attribute pays (then a person pays more with ours; ``person`` tells how much), what a person pays, and the number a
person is told where neighbours differ. Who is compared with which of ours was fixed before the full run, after first
looks at one seed (``COUNTERPARTS``, the first of them); all other pairs are told as well. The full run can be taken up
again: what was found with the same code is kept under ``.bench-cache`` (or NABLADP_BENCH_CACHE). Modules that are not
imported here are scripts for other environments; of several repeats, each takes its share of the time of one process.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from bench.peers import classification, marginals
from bench.peers.comparing import ATTRIBUTE, PERSON, SAME_NUMBER, STRICT, WORDS, Row, by_pair, ratios, worst
from bench.peers.processes import ROOT, Library, Runner

SECONDS = {"full": 1200, "quick": 60}
COUNTERPARTS = {**marginals.COUNTERPARTS, **classification.COUNTERPARTS}
PURE = (marginals.MWEM.name, classification.DIFFPRIVLIB.name)
PACKAGES = {
    ".venv-peers": ("opendp", "mbi"),
    ".venv-peers-diffprivlib": ("diffprivlib",),
    ".venv-peers-mbi": ("mbi",),
    ".venv-peers-smartnoise": ("smartnoise-synth",),
}


def run(quick: bool) -> dict[str, object]:
    kept = Path(os.environ.get("NABLADP_BENCH_CACHE", ROOT / ".bench-cache")) / "peers"
    runner = Runner(None if quick else kept)
    found = [*classification.rows(runner, quick), *marginals.rows(runner, quick)]
    show(found)
    return {**compared(found), "versions": versions(), "rows": [row.told() for row in found]}


def compared(found: list[Row]) -> dict[str, object]:
    first = [(ours[0], peer) for peer, ours in COUNTERPARTS.items()]
    every = [(each, peer) for peer, ours in COUNTERPARTS.items() for each in ours]
    pure = [(ours, peer) for ours, peer in first if peer in PURE]
    person = worst(ratios(found, PERSON, first))
    return {
        "person_equal_ratio_max": person[0],
        "person_equal_ratio_where": person[1],
        "person_equal_ratios": by_pair(ratios(found, PERSON, every)),
        "attribute_equal_ratios": by_pair(ratios(found, ATTRIBUTE, every)),
        "same_number_ratios": by_pair(ratios(found, SAME_NUMBER, every)),
        "same_epsilon_delta_ratios": by_pair(ratios(found, STRICT, pure)),
        "not_finished": {f"{row.task}, {row.who}": row.why for row in found if row.error is None},
    }


def show(found: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "ε0", "who", "held equal", "error", "runs", "s", "MB", "person")
    for row in found:
        peer = row.who in COUNTERPARTS
        cells = [row.task, f"{row.epsilon:g}", row.who, "" if peer else WORDS[row.equal]]
        if row.error is None:
            table.add_row(*cells, row.why, str(row.runs))
        else:
            person = f"{row.person:.2f}" if row.person else ""
            table.add_row(
                *cells, f"{row.error:.5f}", str(row.runs), f"{row.processor:.1f}", f"{row.peak_mb:.0f}", person
            )
    Console(width=160).print(table)
    print("s: processor time without loading packages; person: ρ of a person over the ρ that is held equal")


def versions() -> dict[str, Any]:
    """Of every library that was there."""
    told: dict[str, Any] = {"nabladp": importlib.metadata.version("nabladp")}
    for environment, packages in PACKAGES.items():
        library = Library(environment, "", environment)
        if library.there:
            ask = f"import json, importlib.metadata as m; print(json.dumps({{p: m.version(p) for p in {packages!r}}}))"
            done = subprocess.run([library.python, "-c", ask], check=True, capture_output=True, text=True)
            told[environment] = json.loads(done.stdout)
    return told
