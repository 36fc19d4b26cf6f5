"""Which tests ``make check`` leaves out: writes tests/slow_tests.txt from the output of a whole run.

    pytest -n 2 -vv --durations=0 > durations.log; python tests/helpers/slow_tests.py durations.log

A test is slow if one of its cases takes longer than SLOW seconds. Others are run by everyone, every day. Beside the
name stand the seconds of all its cases: where several processes share the tests, they start with the longest.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

SLOW = 0.15  # of a busy machine
LIST = Path(__file__).resolve().parents[1] / "slow_tests.txt"
_LINE = re.compile(r"\s*([\d.]+)s (?:call|setup)\s+(tests/\S+?::[^\[\s]+)")


def slow_tests(log: str) -> dict[str, float]:
    """Their seconds, by name."""
    times = defaultdict[str, list[float]](list)
    for match in filter(None, map(_LINE.match, log.splitlines())):
        times[match[2]].append(float(match[1]))
    return {name: round(sum(times[name]), 1) for name in sorted(times) if max(times[name]) > SLOW}


def listed() -> dict[str, float]:
    lines = (line.split() for line in LIST.read_text().splitlines())
    return {name: float(seconds) for name, seconds in lines}


if __name__ == "__main__":
    found = slow_tests(Path(sys.argv[1]).read_text())
    LIST.write_text("".join(f"{name} {seconds}\n" for name, seconds in found.items()))
