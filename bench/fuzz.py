"""Bad input: files, sources and calls of every public name, half of them small changes of right ones.

``foreign``   inputs answered by an exception that is not ours (or by a process that dies)
``hung``      inputs that take more than 10 s
``over_1gb``  inputs that take more than 1 GB of memory
``leaks``     errors, messages, logs or files that show a value of the data

``python -m bench.fuzz --only KIND [--number N] [--seed S] [--count C]`` tries one kind, or one input of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
import traceback
from pathlib import Path

from bench._fuzz_kind import Kind
from bench._fuzz_watchdog import run_jobs, tell
from bench._fuzz_worker import Job

SECONDS = {"full": 2300, "quick": 150}
SEED = 1
WORKERS = 2
BATCH = 5000


def kinds() -> dict[str, Kind]:
    from bench import _fuzz_files, _fuzz_flows, _fuzz_ledgers, _fuzz_mechanisms, _fuzz_privacy, _fuzz_tables

    modules = (_fuzz_privacy, _fuzz_mechanisms, _fuzz_files, _fuzz_ledgers, _fuzz_tables, _fuzz_flows)
    return {kind.name: kind for module in modules for kind in module.KINDS}


def run(quick: bool, only: str = "", count: int = 0, seed: int = SEED) -> dict[str, object]:
    start = time.monotonic()
    known = {name: kind for name, kind in kinds().items() if only in name}
    jobs = []
    for name, kind in known.items():
        total = count or (kind.quick if quick else kind.full)
        jobs += [Job(name, first, min(BATCH, total - first)) for first in range(0, total, BATCH)]
    random.Random(0).shuffle(jobs)  # so that slow kinds do not meet
    found = run_jobs(jobs, kinds, seed, WORKERS)
    tell(found.findings, seed)
    return {
        "inputs": sum(found.inputs.values()),
        "inputs_min": min(found.inputs.values()),
        "kinds": dict(sorted(found.inputs.items())),
        **found.faults,
        "seed": seed,
        "fuzz_seconds": round(time.monotonic() - start, 1),
    }


def again(name: str, number: int, seed: int) -> None:
    """One input in this process, with its whole traceback."""
    kind = kinds()[name]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        scene = kind.prepare(Path(folder))
        try:
            kind.once(random.Random(f"{seed}/{name}/{number}"), scene)
        except BaseException:
            traceback.print_exc()
        os.chdir("/")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--number", type=int, help="one input of the kind, with its traceback")
    parser.add_argument("--count", type=int, default=0, help="inputs of each kind")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    if chosen.number is not None:
        again(chosen.only, chosen.number, chosen.seed)
    else:
        print(json.dumps(run(chosen.quick, chosen.only, chosen.count, chosen.seed)))


if __name__ == "__main__":
    main()
