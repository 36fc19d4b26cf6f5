"""Counting marginals: against polars in memory, and how memory and time grow with a file.

Also a program: ``python -m bench.tables FILE OUT`` counts one file in a fresh process and prints what it took.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = {"full": 50, "quick": 20}
COLUMNS, VALUES, CHUNK = 20, 8, 1 << 18
NAMES = tuple(f"c{i}" for i in range(COLUMNS))
PAIRS = tuple(combinations(NAMES, 2))


def run(quick: bool) -> dict[str, object]:
    rows = 200_000 if quick else 1_000_000
    return {**grow(rows, repeats=3), **race(rows, repeats=4)}


def schema() -> Any:
    from nabladp.schema import Attribute, Schema

    return Schema(tuple(Attribute(name, "integer", low=0, high=VALUES - 1) for name in NAMES))


def columns(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Random columns of bytes; each follows its neighbour half of the time, so that pairs differ."""
    draw = np.random.default_rng(seed)
    made = {NAMES[0]: draw.integers(0, VALUES, rows, dtype=np.uint8)}
    for before, name in pairwise(NAMES):
        fresh = draw.integers(0, VALUES, rows, dtype=np.uint8)
        made[name] = np.where(draw.integers(0, 2, rows, dtype=np.uint8), fresh, made[before])
    return made


# In memory, against polars


def race(rows: int, repeats: int) -> dict[str, object]:
    import polars as pl
    import pyarrow as pa

    from nabladp.tables import open_table

    data = columns(rows, seed=1)
    frame = pl.DataFrame(data)
    table = open_table(pa.table(data), schema())
    encode, _ = timed(lambda: table.marginals([NAMES[:1]]))  # reads and encodes; from here on all is in memory
    ours = theirs = float("inf")
    for _ in range(repeats):  # in turns, so that a busy moment of the machine meets both
        took, counted = timed(lambda: table.marginals(PAIRS))
        ours = min(ours, took)
        took, grouped = timed(lambda: [frame.group_by(pair).len() for pair in PAIRS])
        theirs = min(theirs, took)
    for found, groups in zip(counted, grouped, strict=True):
        check_equal(found, groups)
    return {
        "speedup_vs_polars": round(theirs / ours, 2),
        "speedup_with_encoding": round(theirs / (ours + encode), 2),
        "seconds_ours": round(ours, 4),
        "seconds_polars": round(theirs, 4),
        "seconds_encoding": round(encode, 4),
        "marginals": len(PAIRS),
        "counts_equal": True,
    }


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def check_equal(found: np.ndarray, groups: Any) -> None:
    wanted = np.zeros_like(found)
    wanted[tuple(groups[:, axis].to_numpy() for axis in range(found.ndim))] = groups["len"].to_numpy()
    if not np.array_equal(found, wanted):
        raise AssertionError("counts differ from polars")


# On disk, at ten times the rows


def grow(rows: int, repeats: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        small = measure(Path(folder), rows, repeats)
        large = measure(Path(folder), 10 * rows, repeats)
    return {
        "rss_ratio_10x": round(large["rss_mib"] / small["rss_mib"], 3),
        "time_ratio_10x": round(large["seconds"] / small["seconds"], 3),
        "rows": rows,
        "rss_mib": round(small["rss_mib"], 1),
        "rss_mib_10x": round(large["rss_mib"], 1),
        "file_seconds": round(small["seconds"], 3),
        "file_seconds_10x": round(large["seconds"], 3),
    }


def measure(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Shortest time and highest memory of several fresh processes; counts checked against polars."""
    import polars as pl

    path, out = folder / f"{rows}.parquet", folder / "counts.npy"
    write(path, rows)
    command = [sys.executable, "-m", "bench.tables", str(path), str(out)]
    runs = []
    for _ in range(repeats):
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
        runs.append(json.loads(done.stdout))
    counted = np.load(out)
    for i in range(0, len(PAIRS), 30):
        check_equal(counted[i], pl.scan_parquet(path).group_by(PAIRS[i]).len().collect())
    path.unlink()
    return {"seconds": min(r["seconds"] for r in runs), "rss_mib": max(r["rss_mib"] for r in runs)}


def write(path: Path, rows: int) -> None:
    """A chunk at a time, so that the table never has to fit into memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = pa.schema([(name, pa.uint8()) for name in NAMES])
    with pq.ParquetWriter(path, fields) as writer:
        for start in range(0, rows, CHUNK):
            writer.write_table(pa.table(columns(min(CHUNK, rows - start), seed=start), schema=fields))


def count_file(path: str, out: str) -> None:
    import pyarrow as pa

    from nabladp.tables import open_table

    open_table(pa.table(columns(10, seed=0)), schema()).marginals(PAIRS)  # what is loaded once is not part of the time
    table = open_table(path, schema())
    table.n  # noqa: B018  (known before anything is counted)
    seconds, counted = timed(lambda: table.marginals(PAIRS))
    np.save(out, np.array(counted))
    print(json.dumps({"seconds": seconds, "rss_mib": peak_mib()}))


def peak_mib() -> float:
    """The most memory this process held. Linux keeps in ``ru_maxrss`` what its parent held before it, so ask first for
    the process's own mark."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    count_file(*sys.argv[1:])
