"""Synthesis in a process of its own: ``python -m bench._synthesis_alone TABLE`` or ``… file PATH``; time and memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench._synthesis_data import MODEL_MB, TABLES, adult, made_up
from bench.tables import peak_mib
from nabladp.mechanisms.synthesis.mechanism import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import Rho
from nabladp.tables import open_table

ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
PEER_SCRIPT = Path(__file__).parent / "peers" / "opendp_aim.py"


def alone(*what: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench._synthesis_alone", *what], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def one_run(name: str) -> dict[str, float]:
    """Ours at its defaults and ε0 = 1, the table drawn; the tables' counts are part of it, imports are not."""
    data = TABLES[name]()
    if data is None:
        raise RuntimeError("its file has gone")
    Synthesis(Rho(0.5), rows=1).run(data.rows(np.arange(100)).table, NoiseSource.seeded(0))  # loads what is loaded once
    start = time.perf_counter()
    Synthesis(Rho(0.5)).run(data.table, NoiseSource()).answers  # noqa: B018  (worked out when first asked for)
    return {"seconds": time.perf_counter() - start, "peak_mb": peak_mib() * 1.048576}


def peak(name: str) -> dict[str, float]:
    return dict(alone(name))


def compared_with_opendp(limit: int) -> dict[str, object]:
    """OpenDP's AIM, on mbi, on Adult at ε0 = 1 with the same limit of model size. One that is not done after ``limit``
    seconds is stopped: then the ratio is at most what is told."""
    data = adult()
    if data is None or not PEER_PYTHON.exists():
        print("OpenDP's AIM is left out: it needs Adult and `make peers`", flush=True)
        return {"time_ratio_vs_mbi_aim": None}
    codes = np.stack([data.codes[name] for name in data.schema.names], axis=1)
    sizes = [data.sizes[name] for name in data.schema.names]
    mine = alone("adult")["seconds"]
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, codes=codes, sizes=sizes, rho=0.5, k=2, max_mb=MODEL_MB)
        try:
            subprocess.run([PEER_PYTHON, PEER_SCRIPT, given, out], check=True, timeout=limit, capture_output=True)
        except subprocess.TimeoutExpired:
            return {"time_ratio_vs_mbi_aim": round(mine / limit, 4), "mbi_aim_seconds": f"more than {limit}"}
        with np.load(out) as found:
            seconds, counts = float(found["seconds"]), found["counts"]
    ends = np.cumsum([data.cells(s) for s in data.sets(2)])[:-1]
    pairs = zip(data.counts(2).values(), np.split(counts, ends), strict=True)
    error = statistics.fmean(float(np.abs(a.ravel() - b / b.sum() * data.n).sum()) / (2 * data.n) for a, b in pairs)
    return {
        "time_ratio_vs_mbi_aim": round(mine / seconds, 4),
        "mbi_aim_seconds": round(seconds, 1),
        "mbi_aim_error": round(error, 6),
    }


# Many rows


def many_rows(rows: int) -> dict[str, object]:
    """Ours on a Parquet file, through DuckDB, in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        path = Path(folder) / "rows.parquet"
        write(path, rows)
        found = alone("file", str(path))
    return {"many_rows": rows, "many_rows_peak_mb": round(found["peak_mb"]), "many_rows_seconds": found["seconds"]}


def repair_seconds(rows: int) -> dict[str, object]:
    """Repairing rows of 16 columns, in a fresh process: seconds of the processor, and how far they came."""
    found = alone("repair", str(rows))
    return {f"repair_seconds_{rows // 1_000_000}m": found.pop("seconds"), "repair": found}


def one_repair(rows: int) -> dict[str, object]:
    model = Synthesis(Rho(0.5), rows=1000).run(
        made_up().table, NoiseSource.seeded(0)
    )  # repairs: the loops are compiled
    start = time.process_time()
    replace(model, rows=rows).sampled(NoiseSource.seeded(1))
    sampled = time.process_time()
    quality = replace(model, rows=rows).with_table(NoiseSource.seeded(1)).quality
    both = time.process_time() - sampled
    return {
        "seconds": round(both - (sampled - start), 1),
        "sampling_seconds": round(sampled - start, 1),
        "peak_mb": round(peak_mib() * 1.048576),
        **{name: float(f"{quality[name]:.3g}") for name in ("sampled_from_answers", "rows_from_answers")},
    }


def write(path: Path, rows: int) -> None:
    """The made-up table's rows again and again, each time shuffled, decoded to values."""
    import pyarrow.parquet as pq

    from nabladp.tables import decode

    data, draw = made_up(), np.random.default_rng(1)
    writer = None
    for start in range(0, rows, data.n):
        some = data.rows(draw.integers(0, data.n, min(data.n, rows - start)))
        table = decode(data.schema, some.codes)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


class Timed:
    """A table that keeps the time spent on counting."""

    def __init__(self, table: Any) -> None:
        self.table, self.schema, self.seconds = table, table.schema, 0.0

    @property
    def n(self) -> int:
        return int(self.table.n)

    def marginals(self, sets: Any, progress: Any = None) -> Any:
        start = time.perf_counter()
        counted = self.table.marginals(sets, progress)
        self.seconds += time.perf_counter() - start
        return counted


def one_file(path: str) -> dict[str, object]:
    data = made_up()
    table = Timed(open_table(path, data.schema))
    start = time.perf_counter()
    found = Synthesis(Rho(0.5), rows=100_000).run(table, NoiseSource())  # type: ignore[arg-type]
    learnt = time.perf_counter()
    found.answers  # noqa: B018  (worked out when first asked for)
    end = time.perf_counter()
    split = {"counting": table.seconds, "fitting and drawing": learnt - start - table.seconds, "answers": end - learnt}
    return {"seconds": {name: round(s, 1) for name, s in split.items()}, "peak_mb": peak_mib() * 1.048576}


if __name__ == "__main__":
    what, *more = sys.argv[1:]
    result = one_repair(int(more[0])) if what == "repair" else one_file(more[0]) if what == "file" else one_run(what)
    print(json.dumps(result))
