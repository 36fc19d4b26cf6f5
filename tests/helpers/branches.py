"""Branches taken by the tests, by room: reads the JSON of coverage.py and fails below the share asked for.

coverage json -q -o - | python tests/helpers/branches.py 95
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any


def by_room(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Room → (branches taken, branches there are)."""
    taken: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for path, file in report["files"].items():
        room = path.replace("\\", "/").split("src/nabladp/")[-1].split("/")[0]
        taken[room] += file["summary"]["covered_branches"]
        there[room] += file["summary"]["num_branches"]
    return {room: (taken[room], there[room]) for room in sorted(there)}


def main(least: float) -> int:
    rooms = by_room(json.load(sys.stdin))
    short = []
    for room, (taken, there) in rooms.items():
        share = 100 * taken / max(there, 1)
        print(f"{room:<12}{taken:>6} of {there:>5} branches{share:>8.1f} %")
        if share < least:
            short.append(room)
    if short or not rooms:
        print(f"below {least:g} %: {', '.join(short) or 'nothing was measured'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
