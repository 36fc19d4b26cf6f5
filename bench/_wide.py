"""The report of a wide Synthesis, alone, in a process of its own: 22 columns, one of them of 9,999 values."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.displayed import register_report
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 40)  # of the columns beside the long one
LONG, ROWS, QUICK = 9_999, 20_000, 6  # columns beside the long one in a quick run
ALONE = """import json, re, sys, time  # the peak of this process alone: that of getrusage includes its parent's
start = time.perf_counter()
from nabladp.report import write
page = write(sys.argv[1])
peak = int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps([time.perf_counter() - start, time.process_time(), peak, page.stat().st_size]))"""


def wide_report(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        published = _publish(Path(folder), SIZES[:QUICK] if quick else SIZES)
        told = subprocess.run([sys.executable, "-c", ALONE, published], check=True, capture_output=True).stdout
    seconds, computing, megabytes, size = json.loads(told)
    taken = {"wide_seconds": round(seconds, 1), "wide_cpu_seconds": round(computing, 1)}
    return {**taken, "wide_mb": round(megabytes), "wide_bytes": size}


def _publish(folder: Path, sizes: tuple[int, ...]) -> Path:
    import pyarrow as pa

    draws = np.random.default_rng(1)
    texts = {f"column {i}": np.char.add("value ", draws.integers(0, s, ROWS).astype(str)) for i, s in enumerate(sizes)}
    schema = Schema(
        (
            *(
                Attribute(name, "categorical", values=tuple(f"value {j}" for j in range(size)))
                for name, size in zip(texts, sizes, strict=True)
            ),
            Attribute("long", "integer", low=1, high=LONG),
        )
    )
    table = pa.table({**texts, "long": draws.integers(1, LONG + 1, ROWS)})
    session = Session(table, schema, Budget(person=Rho(100)), folder / "ledger.db", new_ledger=True)
    register_report(lambda releases, goal, stage: goal, lambda: ["en"])  # it is written below
    session.release(Synthesis(CDP(1)), to=folder / "published")
    session.ledger.close()
    return folder / "published"
