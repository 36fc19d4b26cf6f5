"""How large an installation is and how long it takes to import: of the core, with ``learn``, with all optional parts.

Sizes are those of the files that the packages of this environment brought, without compiled Python; nabladp's own are
left out where it is installed from a checkout. Times are processor time of a new interpreter, less one that imports
nothing.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

USES = {
    "core": "from nabladp import Session",
    "learn": "from nabladp import Session, LinearRegressor",
    "all": "from nabladp import *",  # every public name; other packages are loaded where they are first needed
}
EXTRAS: dict[str, tuple[str, ...]] = {"core": (), "learn": ("learn",), "all": ("all",)}
REPEATS = 5


def installed() -> dict[str, object]:
    nothing = seconds("pass")
    return {
        "install_megabytes": {name: round(megabytes("nabladp", extras)) for name, extras in EXTRAS.items()},
        "import_seconds": {name: round(seconds(code) - nothing, 2) for name, code in USES.items()},
        "import_nabladp_seconds": round(seconds("import nabladp") - nothing, 3),
    }


def megabytes(name: str, extras: Iterable[str]) -> float:
    """The files of a distribution's dependencies, all the way down; fails where one is not installed."""
    waiting, seen = [(name, frozenset(extras))], set[tuple[str, frozenset[str]]]()
    sizes: dict[str, int] = {}
    while waiting:
        chosen = waiting.pop()
        if chosen in seen:
            continue
        seen.add(chosen)
        own, wanted = chosen
        distribution = metadata.distribution(own)
        sizes[distribution.name] = sum(_bytes(Path(str(distribution.locate_file(f)))) for f in distribution.files or ())
        for needed in map(Requirement, distribution.requires or ()):
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted | {""}):
                waiting.append((needed.name, frozenset(needed.extras)))
    return sum(sizes.values()) / 1e6


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() and path.suffix != ".pyc" else 0


def seconds(code: str) -> float:
    found = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


if __name__ == "__main__":
    print(installed())
