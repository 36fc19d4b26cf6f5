"""For the scripts beside it, each run alone by the Python of its own environment: what is given, what was found."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def given(path: str) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


class Clock:
    """Starts when the work starts, so that loading packages is not part of it."""

    def __init__(self) -> None:
        self.start, self.end = (time.perf_counter(), time.process_time()), None

    def stop(self) -> None:
        """What comes later is not part of the work."""
        self.end = time.perf_counter(), time.process_time()

    def keep(self, path: str, parts: int = 1, **found: Any) -> None:
        """Writes what was found, the seconds that each of equal parts took, and the most memory this process held."""
        if self.end is None:
            self.stop()
        wall, processor = ((end - start) / parts for start, end in zip(self.start, self.end, strict=True))
        np.savez(path, seconds=wall, processor=processor, peak_mib=peak_mib(), **found)


def seconds_of(call: Callable[[], Any], calls: int) -> float:
    """The median of whole calls, after a first one that loaded what is needed."""
    taken = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def keep(path: str, seconds: float, found: dict[str, Any]) -> None:
    """What was found, and what one call took."""
    np.savez(path, seconds=seconds, processor=seconds, peak_mib=peak_mib(), **found)


def peak_mib() -> float:
    """The process's own mark, as in ``bench.tables``, which these environments cannot import."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
