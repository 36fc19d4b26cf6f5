"""``python -m bench NAME [--quick]``: states its time first, prints one JSON object last."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import time

import bench


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=bench.__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--quick", action="store_true", help="smaller, same keys")
    parser.add_argument("--workers", type=int, help="processes at a time, where a benchmark has independent jobs")
    parser.add_argument("--seconds", type=float, help="stop in time, where a benchmark can go on later")
    parser.add_argument("--part", help="one part of a benchmark that has several")
    chosen = parser.parse_args()
    module = importlib.import_module(f"bench.{chosen.name}")
    given = {name: value for name in ("workers", "seconds", "part") if (value := getattr(chosen, name)) is not None}
    if unknown := given.keys() - inspect.signature(module.run).parameters.keys():
        parser.error(f"{chosen.name} has no --{sorted(unknown)[0]}")
    print(f"bench {chosen.name}: about {module.SECONDS['quick' if chosen.quick else 'full']} s", flush=True)
    start = time.perf_counter()
    measured = module.run(chosen.quick, **given)
    print(
        json.dumps(
            {"bench": chosen.name, "quick": chosen.quick, **measured, "seconds": round(time.perf_counter() - start, 1)}
        )
    )


if __name__ == "__main__":
    main()
