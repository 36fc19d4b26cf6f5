"""One run of one library, in a process of its own and the environment of its own, stopped when it takes too long."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


@dataclass(frozen=True)
class Library:
    """A script beside this file, and the environment that runs it: "" for ours."""

    name: str
    script: str
    environment: str = ""

    @property
    def python(self) -> Path:
        return ROOT / self.environment / "bin" / "python" if self.environment else Path(sys.executable)

    @property
    def there(self) -> bool:
        return self.python.exists()

    def code(self) -> Iterator[bytes]:
        """What a run hangs on, so that a change starts afresh."""
        yield from ((HERE / name).read_bytes() for name in (self.script, "_measured.py"))
        if self.environment:
            yield from (path.read_bytes() for path in sorted(HERE.glob("requirements*.txt")))
        else:
            yield from (path.read_bytes() for path in sorted((ROOT / "src/nabladp/mechanisms").rglob("*.py")))


@dataclass(frozen=True, eq=False)
class Outcome:
    """``found`` is None where it was stopped, or could not do it: then ``why`` says so."""

    found: dict[str, Any] | None
    why: str = ""
    seconds: float | None = None
    processor: float | None = None
    peak_mb: float | None = None

    @classmethod
    def of(cls, file: Path) -> Outcome:
        with np.load(file) as opened:
            found = dict(opened)
        if "why" in found:
            return cls(None, str(found["why"]))
        times = {name: float(found[name]) for name in ("seconds", "processor")}
        return cls(found, **times, peak_mb=float(found["peak_mib"]) * 1.048576)


@dataclass(frozen=True)
class Runner:
    """Runs libraries, and keeps what they found under ``kept``: a run of half an hour can be taken up again."""

    kept: Path | None = None

    def alone(self, library: Library, limit: int, **given: Any) -> Outcome:
        """Stopped after ``limit`` seconds of processor time, which other work on the machine does not eat into;
        ``seconds`` and ``processor`` leave out what it takes to start and to load packages, the limit does not."""
        with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
            source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
            if self.kept is not None:
                self.kept.mkdir(parents=True, exist_ok=True)
                target = self.kept / f"{fingerprint(library, limit, given)}.npz"
                if target.exists():
                    return Outcome.of(target)
            np.savez(source, **given)
            part = Path(folder) / "part.npz"
            why = stopped(library, limit, source, part)
            if why:
                np.savez(part, why=why)
            shutil.move(part, target)
            return Outcome.of(target)


def fingerprint(library: Library, limit: int, given: dict[str, Any]) -> str:
    found = hashlib.sha256(b"".join(library.code()))
    for name, value in sorted({**given, "limit": limit}.items()):
        found.update(name.encode())
        found.update(np.ascontiguousarray(value).tobytes())
    return f"{library.script.removesuffix('.py')}-{found.hexdigest()[:16]}"


def stopped(library: Library, limit: int, source: Path, target: Path) -> str:
    """Why it did not come to its end; "" where it did."""
    done = subprocess.run(
        [str(library.python), str(HERE / library.script), str(source), str(target)],
        capture_output=True,
        text=True,
        env={**os.environ, **ONE_THREAD},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"more than {limit} s"
    return (done.stderr.strip().splitlines() or ["it failed"])[-1] if done.returncode else ""
