"""``python tests/helpers/seeded_releases.py ROOT [OTHER_ROOT]``: are the seeded outputs of two versions the same?

For every instance of every mechanism in ROOT/tests/mechanisms: digests of the parameters, the guarantee, the figures of
the expected error (not the words of its summary) and the output under a fixed seed. With one root they are printed as
JSON; with two, the differences are, and the exit code says whether there are any.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def digests(root: Path) -> dict[str, str]:
    """Of this version; the process must have been started for it."""
    sys.path[:0] = [str(root / "src"), str(root / "tests" / "helpers")]
    from every_mechanism import INSTANCES, SCHEMA, codes, values  # type: ignore[import-not-found,unused-ignore]

    from nabladp.noise import NoiseSource
    from nabladp.tables import CodedTable

    table = CodedTable(SCHEMA, codes())
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for mechanism in INSTANCES:
        kind = type(mechanism).__name__
        seen[kind] += 1
        name = f"{kind} {seen[kind]}"
        found[f"{name} parameters"] = _digest(mechanism.to_json())
        found[f"{name} guarantee"] = _digest(mechanism.guarantee(SCHEMA, table.n).to_json())
        found[f"{name} expected error"] = _digest(_plain(mechanism.expected_error(SCHEMA, table.n)))
        found[f"{name} output"] = _digest(json.loads(values(mechanism.run(table, NoiseSource.seeded(7)))))
    return found


def _plain(error: Any) -> Any:
    if isinstance(error, tuple):
        return [_plain(part) for part in error]
    summary = error.to_json().get("summary", {})
    figures = {name: value for name, value in error.to_json().items() if name != "summary"}
    return figures | {"summary": [value for value in summary.values() if not isinstance(value, str)]}


def _digest(value: Any) -> str:
    """Floats to ten digits: a sum may be taken in another order."""
    return hashlib.sha256(json.dumps(_rounded(value), sort_keys=True).encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _of_another(root: str) -> dict[str, str]:
    done = subprocess.run([sys.executable, __file__, root], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(digests(Path(sys.argv[1]).resolve())))
    else:
        before, after = map(_of_another, sys.argv[1:3])
        shared = before.keys() & after.keys()
        differ = sorted(key for key in shared if before[key] != after[key])
        print(json.dumps({"compared": len(shared), "only_in_one": len(before.keys() ^ after.keys()), "differ": differ}))
        sys.exit(bool(differ))
