"""People with many rows: a release that uses at most five rows of each, against the same release without an ID.

Also a program: ``python -m bench.many_rows ENGINE BOUND FILE OUT`` releases from one file in a fresh process and prints
what it took; BOUND is ``none``, ``order`` (of the rows) or ``row_id``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bench.scale import HEAP, MASTER, OPTIONS, peak_mib
from bench.tables import timed

SECONDS = {"full": 600, "quick": 150}
MOST, EACH = 5, 5  # rows of a person that are used, and that there are on average
WARDS, SEXES = tuple("abcdefgh"), ("female", "male")
RANGES = {"age": 100, "days": 60, "diagnosis": 40}
PAIRS = tuple(combinations(("age", "ward", "sex", "days", "diagnosis", "emergency"), 2))


def run(quick: bool) -> dict[str, object]:
    small, large = (200_000, 2_000_000) if quick else (1_000_000, 10_000_000)
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    counted: dict[tuple[str, str, int], np.ndarray] = {}
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        for rows in (small, large):
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows)
            for _ in range(3):  # in turns, so that a busy moment of the machine meets all
                for bound in ("none", "order", "row_id"):
                    measure("duckdb", bound, path, found, counted)
            for engine in ("arrow", "spark"):
                measure(engine, "row_id", path, found, counted)
            measure("arrow", "order", path, found, counted)
            if rows == small:
                counted["polars", "row_id", rows] = third_opinion(path, "visit")
                counted["polars", "order", rows] = third_opinion(path, "")
            path.unlink()
    seconds = {bound: found["duckdb", bound, large]["seconds"] for bound in ("none", "order", "row_id")}
    ratios = {bound: seconds[bound] / seconds["none"] for bound in ("order", "row_id")}
    rss = {bound: ratio(found, "rss_mib", bound, large, small) for bound in ("order", "row_id")}
    return {
        "time_ratio_vs_plain": round(max(ratios.values()), 2),
        "rss_ratio_10x": round(max(rss.values()), 3),
        "counts_equal": all(
            np.array_equal(counts, counted["duckdb", bound, rows]) for (_, bound, rows), counts in counted.items()
        ),
        **{f"time_ratio_{bound}": round(value, 2) for bound, value in ratios.items()},
        **{f"time_ratio_10x_{bound}": round(ratio(found, "seconds", bound, large, small), 2) for bound in seconds},
        "rows": large,
        "people": large // EACH,
        "rows_used": int(counted["duckdb", "row_id", large][0]),
        "seconds_each": {bound: round(value, 2) for bound, value in seconds.items()},
        "rss_mib": {" ".join(map(str, key)): round(own["rss_mib"]) for key, own in found.items()},
        "seconds_spark": round(found["spark", "row_id", large]["seconds"], 1),
    }


def ratio(found: dict[tuple[str, str, int], dict[str, float]], what: str, bound: str, many: int, few: int) -> float:
    return found["duckdb", bound, many][what] / found["duckdb", bound, few][what]


def schema() -> Any:
    from nabladp.schema import Attribute, Schema

    numbers = [Attribute(name, "integer", low=0, high=size - 1) for name, size in RANGES.items()]
    texts = [Attribute("ward", "categorical", values=WARDS), Attribute("sex", "categorical", values=SEXES)]
    return Schema((*numbers, *texts, Attribute("emergency", "boolean")))


def write(path: Path, rows: int) -> None:
    """Visits in no order: a person's rows are all over the file, a chunk at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, writer = np.random.default_rng(rows), None
    numbers = draw.permutation(rows)
    for start in range(0, rows, 1 << 18):
        own = min(1 << 18, rows - start)
        made: dict[str, Any] = {"patient": draw.integers(0, rows // EACH, own), "visit": numbers[start : start + own]}
        made |= {name: draw.integers(0, size, own, dtype=np.int16) for name, size in RANGES.items()}
        made |= {"ward": np.array(WARDS)[draw.integers(0, 8, own)], "sex": np.array(SEXES)[draw.integers(0, 2, own)]}
        table = pa.table({**made, "emergency": draw.integers(0, 2, own).astype(bool)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measure(
    engine: str,
    bound: str,
    path: Path,
    found: dict[tuple[str, str, int], dict[str, float]],
    counted: dict[tuple[str, str, int], np.ndarray],
) -> None:
    """Shortest time and highest memory of fresh processes."""
    out = path.with_suffix(".npy")
    command = [sys.executable, "-m", "bench.many_rows", engine, bound, str(path), str(out)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    told, key = json.loads(done.stdout.splitlines()[-1]), (engine, bound, int(path.stem))
    before = found.get(key, told)
    found[key] = {
        "seconds": min(told["seconds"], before["seconds"]),
        "rss_mib": max(told["rss_mib"], before["rss_mib"]),
    }
    counted[key] = np.load(out)


def third_opinion(path: Path, order: str) -> np.ndarray:
    """The rows used and their pairs, by polars."""
    import polars as pl

    frame = pl.read_parquet(path)
    used = (frame.sort(order) if order else frame).group_by("patient", maintain_order=True).head(MOST)
    from nabladp.tables import open_table

    return counts_of(open_table(used, schema()))


def counts_of(table: Any) -> np.ndarray:
    return np.concatenate([[table.n], *(array.ravel() for array in table.marginals(PAIRS))])


# In a process of its own


def release_file(engine: str, bound: str, path: str, out: str) -> None:
    import pyarrow.parquet as pq

    from nabladp.mechanisms.noisy_marginals import NoisyMarginals
    from nabladp.person import Person
    from nabladp.privacy import Budget, Rho
    from nabladp.release import Session

    people = {"none": Person(), "order": Person("patient", MOST), "row_id": Person("patient", MOST, "visit")}
    pairs = NoisyMarginals(Rho(0.01), sets=PAIRS)

    def release(source: Any, folder: str, name: str) -> Any:
        ledger = Path(folder) / f"{name}.db"
        session = Session(source, schema(), Budget(person=Rho(1000)), ledger, person=people[bound], new_ledger=True)
        session.release(pairs)
        return session.table

    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark() if engine == "spark" else None
        write(Path(folder) / "few.parquet", 1000)

        def source(file: str) -> Any:
            if spark is not None:
                return spark.read.parquet(file)
            return pq.read_table(file) if engine == "arrow" else file

        release(source(f"{folder}/few.parquet"), folder, "few")  # what is loaded once is not part of the time
        seconds, table = timed(lambda: release(source(path), folder, "all"))
        told = {"seconds": seconds, "rss_mib": peak_mib()}
    np.save(out, counts_of(table))
    print(json.dumps(told))


def start_spark() -> Any:
    from nabladp.tables.spark.reading import session

    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings = {"spark.driver.memory": HEAP, "spark.driver.extraJavaOptions": OPTIONS, "spark.ui.enabled": False}
    return session(MASTER, {**loopback, **settings, "spark.sql.shuffle.partitions": 8})


if __name__ == "__main__":
    release_file(*sys.argv[1:])
