"""Workers that try inputs, and a watchdog over them: one that hangs, grows or dies stops no other."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from bench._fuzz_kind import Kind
from bench._fuzz_values import CANARIES
from nabladp.errors import NablaDPError

LONGEST = 10.0  # seconds of the processor that an input may take; on the clock three times as many
MOST_BYTES = 1 << 30  # memory an input may add
BATCH_SECONDS = 2.0
_PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Job:
    kind: str
    first: int
    count: int


@dataclass
class Finding:
    """What is wrong with one input: ``foreign``, ``hung``, ``over_1gb`` or ``leaks``."""

    fault: str
    kind: str
    number: int
    detail: str = ""

    def told(self, seed: int) -> str:
        again = f"python -m bench.fuzz --only {self.kind!r} --number {self.number} --seed {seed}"
        return f"{self.fault}: {self.detail}\n    {again}"


@dataclass
class Tally:
    inputs: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("foreign", "hung", "over_1gb", "leaks"), 0))
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        self.faults[finding.fault] += 1
        self.findings.append(finding)


# ---- one input -----------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """Everything that was said while an input was tried."""

    text: io.StringIO = field(default_factory=io.StringIO)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        handler = logging.StreamHandler(self.text)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            with contextlib.redirect_stdout(self.text), contextlib.redirect_stderr(self.text):
                yield
        finally:
            root.removeHandler(handler)

    def empty(self) -> str:
        said = self.text.getvalue()
        self.text.seek(0)
        self.text.truncate()
        return said


def try_input(kind: Kind, scene: Any, number: int, seed: int, heard: Heard) -> Iterator[Finding]:
    """One input, and what is wrong with how it was answered."""
    rng = random.Random(f"{seed}/{kind.name}/{number}")
    said = ""
    try:
        kind.once(rng, scene)
    except NablaDPError as error:
        said = "".join(traceback.format_exception(error)) + repr(error) + json.dumps(error.to_json(), default=repr)
    except (KeyboardInterrupt, SystemExit):
        pass
    except BaseException as error:
        kinds = {"MemoryError": "over_1gb", "Leak": "leaks"}
        fault = kinds.get(type(error).__name__, "foreign")
        yield Finding(fault, kind.name, number, _place(error))
        said = ""
    said += heard.empty()
    if any(canary in said for canary in CANARIES):
        where = next(line for line in said.splitlines() if any(canary in line for canary in CANARIES))
        yield Finding("leaks", kind.name, number, where[:300])


def _place(error: BaseException) -> str:
    """The error's kind, and the innermost places of our own code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/nabladp/" in f.filename]
    shown = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames[-3:]))
    return f"{type(error).__name__}: {_said(error)} at {shown or 'no code of ours'}"


def _said(error: BaseException) -> str:
    try:
        return str(error)[:120].replace("\n", " ")
    except Exception:
        return "…"


# ---- a worker ------------------------------------------------------------------------------------------------------


def work(pipe: Connection, progress: Any, kinds: Callable[[], dict[str, Kind]], seed: int, folder: str) -> None:
    """Take jobs until there are none; ``progress`` holds when the current input began, and its number."""
    warnings.simplefilter("ignore")
    os.chdir(folder)
    known = kinds()
    scenes: dict[str, Any] = {}
    heard = Heard()
    while (job := pipe.recv()) is not None:
        kind = known[job.kind]
        place = Path(folder) / job.kind.replace(" ", "-").replace("/", "-")
        if job.kind not in scenes:
            place.mkdir(exist_ok=True)
            scenes[job.kind] = kind.prepare(place)
            _warm_up(kind, scenes[job.kind], heard)
        for found in _worked(kind, scenes[job.kind], job, progress, seed, heard):
            pipe.send(found)
        progress[0] = 0.0
        pipe.send(_leaking_files(kind, place, job))


def _warm_up(kind: Kind, scene: Any, heard: Heard) -> None:
    """Libraries load and loops compile before time and memory are watched."""
    with heard.listening():
        kind.warm(scene)
        for number in range(-3, 0):
            list(try_input(kind, scene, number, 0, heard))


def _worked(kind: Kind, scene: Any, job: Job, progress: Any, seed: int, heard: Heard) -> Iterator[Finding | int]:
    """Findings, and last how many inputs were tried: a batch ends when its time is over."""
    base = _peak()
    ends, number = time.monotonic() + BATCH_SECONDS, job.first
    with heard.listening():
        for number in range(job.first, job.first + job.count):
            progress[2] = time.process_time()
            progress[0], progress[1] = time.monotonic(), number
            yield from try_input(kind, scene, number, seed, heard)
            if _peak() - base > MOST_BYTES:
                base = _peak()
                yield Finding("over_1gb", kind.name, number, "memory grew by more than 1 GB")
            if time.monotonic() > ends:
                break
    yield number - job.first + 1


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _leaking_files(kind: Kind, place: Path, job: Job) -> list[Finding]:
    """Files that hold a canary although they are neither the data nor published on purpose."""
    found = []
    for path in place.rglob("*"):
        if "data" in path.parts or kind.permitted(path) or not path.is_file():
            continue
        with contextlib.suppress(OSError):
            content = path.read_bytes() if path.stat().st_size < MOST_BYTES >> 6 else b""
            if any(canary.encode() in content for canary in CANARIES):
                found.append(Finding("leaks", kind.name, job.first, f"the file {path.name}"))
    return found


# ---- the watchdog --------------------------------------------------------------------------------------------------


class Worker:
    """A process, what it is doing, and how large it was when it began."""

    def __init__(self, kinds: Callable[[], dict[str, Kind]], seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.progress = context.Array("d", [0.0, 0.0, 0.0], lock=False)
        self.folder = tempfile.mkdtemp(prefix="fuzz-")
        self.process = context.Process(target=work, args=(theirs, self.progress, kinds, seed, self.folder), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.base = 0

    def give(self, job: Job | None) -> None:
        self.job, self.base = job, self._rss()
        self.pipe.send(job)

    def _rss(self) -> int:
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE
        return 0

    def _processor(self) -> float:
        """Seconds of the processor so far. Others may be using it, too, so the clock alone says little."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def fault(self) -> str | None:
        """What the watchdog has to stop it for."""
        began = self.progress[0]
        took = time.monotonic() - began
        if began and took > LONGEST and (self._processor() - self.progress[2] > LONGEST or took > 3 * LONGEST):
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
    return Job(job.kind, job.first + found, job.count - found)


def _stopped(worker: Worker, tally: Tally) -> Job | None:
    """What is left of a job whose worker had to be stopped, or died; None where it simply works on."""
    fault, job = worker.fault(), worker.job
    if fault is None or job is None:
        return None
    number = int(worker.progress[1]) if worker.progress[0] else job.first
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
