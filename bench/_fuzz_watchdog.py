"""A watchdog over workers: one that hangs, grows or dies stops no other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from bench._fuzz_kind import Kind
from bench._fuzz_worker import LONGEST, MOST_BYTES, Finding, Job, Tally, work

_PAGE = resource.getpagesize()


class Worker:
    """A process, what it is doing, and how large it was when it began."""

    def __init__(self, kinds: Callable[[], dict[str, Kind]], seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.progress = context.Array("d", [0.0, 0.0], lock=False)
        self.folder = tempfile.mkdtemp(prefix="fuzz-")
        self.process = context.Process(target=work, args=(theirs, self.progress, kinds, seed, self.folder), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.base, self.given = 0, time.monotonic()

    def give(self, job: Job | None) -> None:
        self.job, self.base, self.given = job, self._rss(), time.monotonic()
        self.pipe.send(job)

    def _rss(self) -> int:
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE
        return 0

    def fault(self) -> str | None:
        """What the watchdog has to stop it for."""
        began = self.progress[0]
        if began and time.monotonic() - began > LONGEST:
            return "hung"
        if began and self._rss() - self.base > 2 * MOST_BYTES:  # before the machine suffers
            return "over_1gb"
        return None if self.process.is_alive() else "foreign"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_jobs(jobs: Sequence[Job], kinds: Callable[[], dict[str, Kind]], seed: int, workers: int) -> Tally:
    """All jobs, each to its end. An input that seemed to hang is tried once more when nothing else runs."""
    tally = _run(jobs, kinds, seed, workers)
    slow = [finding for finding in tally.findings if finding.fault == "hung"]
    tally.findings = [finding for finding in tally.findings if finding.fault != "hung"]
    tally.faults["hung"] = 0
    for finding in _run([Job(one.kind, one.number, 1) for one in slow], kinds, seed, 1).findings:
        tally.add(finding)
    return tally


def _run(jobs: Sequence[Job], kinds: Callable[[], dict[str, Kind]], seed: int, workers: int) -> Tally:
    """All jobs, each to its end, whatever happens on the way."""
    tally, waiting = Tally(), list(reversed(jobs))
    crew = [Worker(kinds, seed) for _ in range(min(workers, len(waiting)))]
    for worker in crew:
        worker.give(waiting.pop())
    while any(worker.job for worker in crew):
        wait([worker.pipe for worker in crew if worker.job], timeout=0.2)
        for place, worker in enumerate(crew):
            if worker.job is None:
                continue
            rest = _answered(worker, tally) if worker.pipe.poll() else _stopped(worker, tally)
            if rest is None:
                continue
            if rest.count:
                waiting.append(rest)
            if worker.pipe.closed:
                crew[place] = worker = Worker(kinds, seed)
            worker.give(waiting.pop() if waiting else None)
    for worker in crew:
        worker.stop()
    return tally


def _answered(worker: Worker, tally: Tally) -> Job | None:
    """What is left of a job whose batch is done."""
    job = worker.job
    assert job is not None
    try:
        found = worker.pipe.recv()
        if isinstance(found, Finding):
            tally.add(found)
            return None
        for finding in worker.pipe.recv():
            tally.add(finding)
    except EOFError:
        worker.process.join()
        return _stopped(worker, tally)
    tally.inputs[job.kind] = tally.inputs.get(job.kind, 0) + found
    tally.seconds[job.kind] = tally.seconds.get(job.kind, 0) + time.monotonic() - worker.given
    if os.environ.get("FUZZ_VERBOSE"):
        print(f"{job.kind}: {found} in {time.monotonic() - worker.given:.1f} s", file=sys.stderr, flush=True)
    return Job(job.kind, job.first + found, job.count - found)


def _stopped(worker: Worker, tally: Tally) -> Job | None:
    """What is left of a job whose worker had to be stopped, or died; None where it simply works on."""
    fault, job = worker.fault(), worker.job
    if fault is None or job is None:
        return None
    number = max(int(worker.progress[1]), job.first) if worker.progress[0] else job.first
    detail = f"the worker ended with {worker.process.exitcode}" if fault == "foreign" else "stopped"
    tally.add(Finding(fault, job.kind, number, detail))
    tried = number - job.first + 1
    tally.inputs[job.kind] = tally.inputs.get(job.kind, 0) + tried
    worker.stop()
    return Job(job.kind, job.first + tried, job.count - tried)


def tell(findings: Sequence[Finding], seed: int, most: int = 40) -> None:
    """The first findings of each place, for whoever mends them."""
    seen: dict[str, int] = {}
    for finding in findings:
        key = f"{finding.fault} {finding.kind} {finding.detail.partition(' at ')[2] or finding.detail}"
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 1 and len(seen) <= most:
            print(f"[{finding.kind}] {finding.told(seed)}", file=sys.stderr)
    if len(seen) > most:
        print(f"… and {len(seen) - most} more places", file=sys.stderr)
