"""A worker that tries inputs, one after the other, and tells what is wrong with how they were answered."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import random
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench._fuzz_kind import Kind
from bench._fuzz_values import CANARIES
from nabladp.errors import NablaDPError

LONGEST = 10.0  # seconds that an input may take
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
    seconds: dict[str, float] = field(default_factory=dict)  # spent on each kind, preparation included

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
            _warm_up(kind, scenes[job.kind], heard, progress)
        for found in _worked(kind, scenes[job.kind], job, progress, seed, heard):
            pipe.send(found)
        progress[0] = 0.0
        pipe.send(_leaking_files(kind, place, job))


def _warm_up(kind: Kind, scene: Any, heard: Heard, progress: Any) -> None:
    """Libraries load and loops compile before time and memory are watched."""
    with heard.listening():
        kind.warm(scene)
        progress[1], progress[0] = -1, time.monotonic()  # none of these may hang
        for number in range(-3, 0):
            list(try_input(kind, scene, number, 0, heard))


def _worked(kind: Kind, scene: Any, job: Job, progress: Any, seed: int, heard: Heard) -> Iterator[Finding | int]:
    """Findings, and last how many inputs were tried: a batch ends when its time is over."""
    base = _peak()
    ends, number = time.monotonic() + BATCH_SECONDS, job.first
    with heard.listening():
        for number in range(job.first, job.first + job.count):
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
