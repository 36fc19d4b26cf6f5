"""How time and memory grow with the rows, on DuckDB and on Spark, and what of a table reaches Spark's driver.

Also a program: ``python -m bench.scale ENGINE FILE OUT`` counts one file in fresh processes and prints what it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.tables import COLUMNS, NAMES, PAIRS, check_equal, columns, schema, timed, write

SECONDS = {"full": 290, "quick": 200}
ENGINES = ("duckdb", "spark")
MASTER, HEAP = "local[2]", "640m"
OPTIONS = "-XX:+UseSerialGC -XX:MaxDirectMemorySize=256m"  # a heap that grows only when it must


def run(quick: bool) -> dict[str, object]:
    sizes = (200_000, 2_000_000, 6_000_000) if quick else (1_000_000, 10_000_000, 30_000_000)
    found: dict[str, dict[int, dict[str, float]]] = {engine: {} for engine in ENGINES}
    equal = True
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        for rows in sizes:
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows)
            counts = {engine: measure(engine, path, 2 if rows < sizes[-1] else 1, found[engine]) for engine in ENGINES}
            equal &= bool(np.array_equal(counts["duckdb"], counts["spark"])) and agrees(path, counts["spark"])
            path.unlink()
    small, large, largest = sizes
    spark = found["spark"][largest]
    return {
        "time_ratio_10x": worse(found, "seconds", large, small),
        "rss_ratio_10x": worse(found, "rss_mib", large, small),
        "time_ratio_3x": worse(found, "seconds", largest, large),
        "rss_ratio_3x": worse(found, "rss_mib", largest, large),
        "spark_over_duckdb": round(found["spark"][large]["seconds"] / found["duckdb"][large]["seconds"], 2),
        "driver_bytes_per_row": round(spark["driver_bytes"] / largest, 5),
        "driver_bytes": {rows: int(found["spark"][rows]["driver_bytes"]) for rows in sizes},
        "shuffle_bytes": {rows: int(found["spark"][rows]["shuffle_bytes"]) for rows in sizes},
        "counts_bytes": int(spark["counts_bytes"]),
        "counts_equal": equal,
        "attributes": COLUMNS,
        "marginals": len(PAIRS),
        **{f"seconds_{e}": {rows: round(found[e][rows]["seconds"], 2) for rows in sizes} for e in ENGINES},
        **{f"rss_mib_{e}": {rows: round(found[e][rows]["rss_mib"]) for rows in sizes} for e in ENGINES},
    }


def worse(found: dict[str, dict[int, dict[str, float]]], what: str, many: int, few: int) -> float:
    return round(max(own[many][what] / own[few][what] for own in found.values()), 3)


def measure(engine: str, path: Path, repeats: int, told: dict[int, dict[str, float]]) -> np.ndarray:
    """Shortest time and highest memory of several fresh processes; answers with the counts."""
    out = path.with_suffix(".npy")
    command = [sys.executable, "-m", "bench.scale", engine, str(path), str(out)]
    runs = []
    for _ in range(repeats):
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    told[int(path.stem)] = {**runs[-1], "seconds": min(r["seconds"] for r in runs)}
    told[int(path.stem)]["rss_mib"] = max(r["rss_mib"] for r in runs)
    return np.load(out)


def agrees(path: Path, counted: np.ndarray) -> bool:
    """With a third opinion, on some of the marginals."""
    import polars as pl

    for i in range(0, len(PAIRS), 60):
        check_equal(counted[i], pl.scan_parquet(path).group_by(PAIRS[i]).len().collect())
    return True


# In a process of its own


def count_file(engine: str, path: str, out: str) -> None:
    told = (count_with_spark if engine == "spark" else count_with_duckdb)(path, out)
    print(json.dumps({**told, "rss_mib": peak_mib()}))


def count_with_duckdb(path: str, out: str) -> dict[str, float]:
    import pyarrow as pa

    from nabladp.tables import open_table

    open_table(pa.table(columns(10, seed=0)), schema()).marginals(PAIRS)  # what is loaded once is not part of the time
    table = open_table(path, schema())
    table.n  # noqa: B018  (known before anything is counted)
    seconds, counted = timed(lambda: table.marginals(PAIRS))
    np.save(out, np.array(counted))
    return {"seconds": seconds}


def count_with_spark(path: str, out: str) -> dict[str, float]:
    from nabladp.tables import Marginals, open_table
    from nabladp.tables.spark.reading import session

    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings = {"spark.driver.memory": HEAP, "spark.driver.extraJavaOptions": OPTIONS, "spark.ui.enabled": False}
    spark = session(MASTER, {**loopback, **settings, "spark.sql.shuffle.partitions": 2})
    few = spark.range(0, 1000, 1, 2).selectExpr(*(f"cast(id % 8 as short) as {name}" for name in NAMES))
    for _ in range(2):  # starts the workers, and lets Java compile what will be used
        open_table(few, schema()).marginals(PAIRS)
    before = transferred(spark)
    table = open_table(spark.read.parquet(path), schema())
    table.n  # noqa: B018
    seconds, counted = timed(lambda: table.marginals(PAIRS))
    driver, shuffled = (now - then for now, then in zip(transferred(spark), before, strict=True))
    np.save(out, np.array(counted))
    cells = Marginals(schema(), PAIRS).bounds[-1]
    return {"seconds": seconds, "driver_bytes": driver, "shuffle_bytes": shuffled, "counts_bytes": 8 * cells}


def transferred(spark: Any) -> tuple[int, int]:
    """Bytes of results sent to the driver so far, and bytes written for other executors, by Spark's own account."""
    java = spark.sparkContext._gateway
    stages = (
        spark.sparkContext._jsc.sc()
        .statusStore()
        .stageList(None, False, False, java.new_array(java.jvm.double, 0), None)
    )
    every = [stages.apply(i) for i in range(stages.size())]
    return sum(int(s.resultSize()) for s in every), sum(int(s.shuffleWriteBytes()) for s in every)


def peak_mib() -> float:
    """The most that this process and those it started have held, each at its own peak."""
    return sum(_high_water(folder) for folder in _family()) / 1024


def _family() -> Iterator[Path]:
    parents: dict[str, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:  # it has just ended
                continue
            parents.setdefault(parent, []).append(folder.name)
    waiting = [str(Path("/proc/self").resolve().name)]
    while waiting:
        own = waiting.pop()
        waiting += parents.get(own, [])
        yield Path("/proc") / own


def _high_water(folder: Path) -> int:
    try:
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    count_file(*sys.argv[1:])
