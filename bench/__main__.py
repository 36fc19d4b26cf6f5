"""``python -m bench NAME [--quick]``: states its time first, prints one JSON object last."""

from __future__ import annotations

import argparse
import importlib
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
    chosen = parser.parse_args()
    module = importlib.import_module(f"bench.{chosen.name}")
    print(f"bench {chosen.name}: about {module.SECONDS['quick' if chosen.quick else 'full']} s", flush=True)
    start = time.perf_counter()
    measured = module.run(chosen.quick)
    print(
        json.dumps(
            {"bench": chosen.name, "quick": chosen.quick, **measured, "seconds": round(time.perf_counter() - start, 1)}
        )
    )


if __name__ == "__main__":
    main()
