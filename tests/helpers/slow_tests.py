"""Which tests ``make check`` leaves out: writes tests/slow_tests.txt from the output of a whole run.

    pytest -n 2 -vv --durations=0 > durations.log; python tests/helpers/slow_tests.py durations.log

A test is slow if one of its cases takes longer than SLOW seconds. Others are run by everyone, every day.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SLOW = 0.15  # of a busy machine
LIST = Path(__file__).resolve().parents[1] / "slow_tests.txt"
_LINE = re.compile(r"\s*([\d.]+)s (?:call|setup)\s+(tests/\S+?::[^\[\s]+)")


def slow_tests(log: str) -> list[str]:
    times = ((float(match[1]), match[2]) for match in map(_LINE.match, log.splitlines()) if match)
    return sorted({name for seconds, name in times if seconds > SLOW})


if __name__ == "__main__":
    LIST.write_text("\n".join(slow_tests(Path(sys.argv[1]).read_text())) + "\n")
