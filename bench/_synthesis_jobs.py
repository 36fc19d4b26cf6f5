"""Independent jobs in a pool of processes with one thread each; every result is written down as it comes.

A run that is stopped, or out of time, goes on where it was: what the same code has measured is not measured again. The
files are under ``.bench-cache`` (or NABLADP_BENCH_CACHE), named by the code that measures: what is compared with
does not know our strategies, and outlives a change of them. How figures are put together may change.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nabladp.mechanisms.synthesis.strategy import ROOM

ROOT = Path(__file__).resolve().parents[1]
SPARE = 15.0  # seconds before the end in which nothing is started
ALONE = 180.0  # seconds that a job alone may need: it cannot be given up


@dataclass(frozen=True)
class Job:
    """A function of this package by name, and what it is called with; ``alone``: while nothing else runs."""

    function: str
    given: tuple[Any, ...]
    alone: bool = False
    baseline: bool = False  # of the code that is shared with what we are compared with, and of no other

    @property
    def key(self) -> str:
        return json.dumps([self.function, *self.given])

    def __call__(self) -> Any:
        import importlib

        module, name = self.function.rsplit(".", 1)
        return getattr(importlib.import_module(f"bench.{module}"), name)(*self.given)


@dataclass
class Kept:
    """Results by job, in two files: those of baselines, and all others."""

    files: dict[bool, Path]
    results: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str) -> Kept:
        folder = Path(os.environ.get("NABLADP_BENCH_CACHE", ROOT / ".bench-cache"))
        folder.mkdir(parents=True, exist_ok=True)
        kept = cls({own: folder / f"{name}-{_digest(own)}.jsonl" for own in (True, False)})
        for file in kept.files.values():
            for line in file.read_text().splitlines() if file.exists() else ():
                if line.endswith("}"):  # one that was cut off is measured again
                    entry = json.loads(line)
                    kept.results[entry["job"]] = entry["result"]
        return kept

    def add(self, job: Job, result: Any) -> None:
        self.results[job.key] = result
        with self.files[job.baseline].open("a") as out:
            out.write(json.dumps({"job": job.key, "result": result}) + "\n")


def _digest(baseline: bool) -> str:
    """Of the code that decides what a job finds."""
    bench, synthesis = Path(__file__).parent, ROOT / "src/nabladp/mechanisms/synthesis"
    sources = [bench / f"_synthesis_{part}.py" for part in ("baselines", "cells", "data", "shapes")]
    if baseline:
        sources += [*(synthesis / "inference").rglob("*.py"), *synthesis.glob("repair*.py")]
    else:
        sources += [*bench.glob("_synthesis*.py"), *synthesis.rglob("*.py")]
    code = b"".join(path.read_bytes() for path in sorted({*sources}))
    return hashlib.sha256(code + f"{baseline}, {ROOM}".encode()).hexdigest()[:12]


def work_through(jobs: Sequence[Job], kept: Kept, workers: int, end: float) -> int:
    """Do what is not known yet until ``end`` (of the monotonic clock); how many jobs are left."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    missing = [job for job in jobs if job.key not in kept.results]
    print(
        f"{len(jobs) - len(missing)} of {len(jobs)} jobs are known: {', '.join(map(str, kept.files.values()))}",
        flush=True,
    )
    for job in [job for job in missing if job.alone]:
        if time.monotonic() + ALONE < end:
            one_alone(job, kept)
    together = [job for job in missing if not job.alone]
    pooled(together, kept, workers, end)
    return sum(job.key not in kept.results for job in jobs)


def one_alone(job: Job, kept: Kept) -> None:
    start = time.monotonic()
    kept.add(job, job())
    print(f"{job.key}: {time.monotonic() - start:.1f} s", flush=True)


def pooled(jobs: Sequence[Job], kept: Kept, workers: int, end: float) -> None:
    """Few jobs wait in the pool, so that stopping is a matter of one job's time; what is still running near the end
    is given up."""
    waiting, running, done = list(reversed(jobs)), dict[Future[Any], tuple[Job, float]](), 0
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    longest = Longest()
    try:
        while waiting or running:
            while waiting and len(running) < workers and time.monotonic() + longest(waiting[-1].function) + SPARE < end:
                job = waiting.pop()
                running[pool.submit(job)] = job, time.monotonic()
            if not running or time.monotonic() > end - SPARE / 2:
                break
            finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                job, started = running.pop(future)
                kept.add(job, future.result())
                longest.saw(job.function, time.monotonic() - started)
                done += 1
                if done % 50 == 0:
                    print(f"{done} of {len(jobs)} done", flush=True)
    finally:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=not running, cancel_futures=True)
        for process in processes if running else ():
            process.terminate()


def _end_with_parent() -> None:
    """A worker whose parent was killed would compute on for nobody."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Longest(dict[str, float]):
    """The longest time that a job of a function has taken."""

    def __call__(self, function: str) -> float:
        return self.get(function, 0.0)

    def saw(self, function: str, seconds: float) -> None:
        self[function] = max(self(function), seconds)
