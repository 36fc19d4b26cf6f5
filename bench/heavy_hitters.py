"""Heavy hitters: what is certified, what is found, the lower bound's hard instance, real tables, time and memory.

Also a program: ``python -m bench.heavy_hitters FILE NOTION`` makes one release and prints how much memory that took.
What the full run prints last is ``docs/heavy_hitters.json``, which ``docs/make_heavy_figures.py`` draws.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench._heavy import BUDGETS, NOTIONS, OneHot, Planted, Real, booleans, mechanism, real_tables
from bench.tables import peak_mib
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema

SECONDS = {"full": 180, "quick": 70}
SIZES = (16, 64, 256, 1024, 4096)
N, EPS0, FAILURE, DELTA = 100_000, 1.0, 0.05, 1e-6
RUNGS, STRINGS = [share / 20 for share in range(6, 21)], 20  # counts, as shares of the certified one; strings at each
PARTS, HARD_N = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25), 2000
WIDE = 256


def run(quick: bool) -> dict[str, object]:
    return {
        **growth(2 if quick else 5),
        **hard_instance(256, 10 if quick else 60),
        **real(range(1 if quick else 5)),
        **speed(1_000_000, 2 if quick else 5),
        **memory(20_000 if quick else 100_000),
        "n": N,
        "eps0": EPS0,
        "failure": FAILURE,
    }


# Certified and found, by the number of attributes


def growth(runs: int) -> dict[str, object]:
    """Random noise with strings planted at counts up to the certified one, found or not in some runs each."""
    rows = {notion: [found_at(d, notion, runs) for d in SIZES] for notion in NOTIONS}
    slopes = {notion: line([row["certified"] for row in rows[notion]]) for notion in NOTIONS}
    ratios = [c["certified"] / p["certified"] for c, p in zip(rows["cdp"], rows["pure"], strict=True)]
    over = {
        notion: max(row["smallest_found"] / row["certified"] for row in of_notion) for notion, of_notion in rows.items()
    }
    return {
        "recall_at_certificate": min(row["recall"] for of_notion in rows.values() for row in of_notion),
        "empirical_over_certified": {notion: round(value, 3) for notion, value in over.items()},
        "slope_log_d": {notion: round(slope, 2) for notion, (slope, _) in slopes.items()},
        "r2_log_d": round(min(r2 for _, r2 in slopes.values()), 4),
        "r2_log_d_each": {notion: round(r2, 4) for notion, (_, r2) in slopes.items()},
        "cdp_over_pure": round(max(ratios), 3),
        "cdp_over_pure_each": dict(zip(map(str, SIZES), (round(ratio, 3) for ratio in ratios), strict=True)),
        "standard_dp": [round(d / EPS0) for d in SIZES],
        "by_d": rows,
        "runs": runs,
    }


def found_at(d: int, notion: str, runs: int) -> dict[str, Any]:
    ours = mechanism(notion, EPS0)
    expected = ours.expected_error(booleans(d), N)
    certified = ours.plan(booleans(d), N).certified
    counts = sorted({math.ceil(rung * certified) for rung in RUNGS})
    planted = Planted.make(d, N, np.repeat(counts, STRINGS).tolist(), seed=d)
    table = planted.table
    found = np.mean([planted.found(ours.run(table, NoiseSource.seeded(seed)).codes) for seed in range(runs)], axis=0)
    shares = [float(found[planted.counts == count].mean()) for count in counts]
    rarely = [count for count, share in zip(counts, shares, strict=True) if share < 1 - FAILURE]
    always = [count for count in counts if not rarely or count > rarely[-1]]
    return {
        "d": d,
        "certified": certified,
        "count_error": ours.plan(booleans(d), N).count_error,
        "recall": round(shares[-1], 4),
        "smallest_found": always[0] if always else math.inf,
        "standard_dp": round(d / EPS0),
        "per_person": expected.person,
    }


def line(certified: list[int]) -> tuple[float, float]:
    """Slope against log2 d, and the share of the variance that a straight line explains."""
    x, y = np.log2(SIZES), np.array(certified, float)
    slope, start = np.polyfit(x, y, 1)
    left = y - (slope * x + start)
    return float(slope), float(1 - left @ left / ((y - y.mean()) @ (y - y.mean())))


# The hard instance


def hard_instance(d: int, runs: int) -> dict[str, object]:
    """How often the right one of d attributes is named, from below what any algorithm needs to above what ours does."""
    told: dict[str, Any] = {"d": d, "n": HARD_N, "runs": runs}
    for notion in NOTIONS:
        instance = OneHot(d, HARD_N, notion, EPS0)
        bound, certified = instance.bound, instance.certified
        counts = sorted({1, 2, bound - 1, bound, 2 * bound, *(math.ceil(part * certified) for part in PARTS)})
        curve = [{"count": count, "success": round(instance.success(count, runs), 4)} for count in counts]
        told[notion] = {
            "bound": bound,
            "certified": certified,
            "below_bound": max(point["success"] for point in curve if point["count"] < bound),
            "from_certified": min(point["success"] for point in curve if point["count"] >= certified),
            "respects_bound": all(
                consistent(point["success"], runs, instance.most_success(int(point["count"]))) for point in curve
            ),
            "curve": curve,
            "ceiling": [round(instance.most_success(count), 4) for count in range(2 * bound + 1)],
        }
    each = [told[notion] for notion in NOTIONS]
    return {
        "hard_success_below_bound": max(of["below_bound"] for of in each),
        "hard_success_from_certified": min(of["from_certified"] for of in each),
        "hard_respects_bound": all(of["respects_bound"] for of in each),
        "hard_instance": told,
    }


def consistent(share: float, runs: int, most: float) -> bool:
    """Whether so many successes have a chance above one in 1,000 if each has a chance of at most ``most``."""
    from scipy.stats import binom

    return bool(binom.sf(round(share * runs) - 1, runs, min(most, 1.0)) > 1e-3)


# Real tables


def real(seeds: range) -> dict[str, object]:
    tables = list(real_tables())
    cases = [(one, notion, eps0) for one in tables for notion in NOTIONS for eps0 in (0.1, 1.0)]
    pages = [one for one in tables if one.name == "msnbc"]
    return {
        "real": [compare(*case, seeds) for case in cases] or None,
        "msnbc_epsilon": repeated(pages[0]) if pages else None,
    }


def compare(one: Real, notion: str, eps0: float, seeds: range) -> dict[str, Any]:
    """Recall of all that is as frequent as certified, and precision of what is shown to be (by its noisy count).

    ``sure`` is what was listed with a 95% interval above zero, ``sure_and_real`` the part of it that is in some row.
    """
    ours = mechanism(notion, eps0)
    settings = ours.plan(one.schema, one.table.n)
    certified = settings.certified
    heavy = {row for row, count in one.truth.items() if count >= certified}
    figures: dict[str, list[float]] = {}
    for seed in seeds:
        found = ours.run(one.table, NoiseSource.seeded(seed))
        listed = {row.tobytes() for row in found.codes.astype(np.uint8)}
        shown = one.true_counts(found.at_least(certified).codes)
        sure = one.true_counts(found.codes[found.interval()[0] > 0])
        for name, value in {
            "recall": len(heavy & listed) / len(heavy) if heavy else math.nan,
            "precision": share(shown >= certified),
            "shown": len(shown),
            "listed": len(found),
            "sure": len(sure),
            "sure_and_real": share(sure > 0),
        }.items():
            figures.setdefault(name, []).append(value)
    facts = {"table": one.name, "notion": notion, "eps0": eps0, "rows": one.table.n, "attributes": len(one.schema)}
    facts |= {"certified": certified, "count_error": settings.count_error, "heavy": len(heavy)}
    return facts | {name: mean(values) for name, values in figures.items()}


def share(holds: Any) -> float:
    return float(holds.mean()) if len(holds) else math.nan


def mean(values: list[float]) -> float | None:
    """Of those that there are."""
    known = [value for value in values if not math.isnan(value)]
    return round(float(np.mean(known)), 4) if known else None


def repeated(pages: Real) -> dict[str, Any]:
    """Sixteen columns that all say what the same visitor looked at: each by itself, and all together (δ = 1e-6)."""
    told: dict[str, Any] = {}
    for notion in NOTIONS:
        guarantee = mechanism(notion, EPS0).guarantee(pages.schema, pages.table.n)
        delta = DELTA if notion == "cdp" else None
        one, all_of_them = (guarantee.epsilon(names, delta) for names in (pages.schema.names[0], pages.schema.names))
        told[notion] = {"one_column": round(one, 3), "all_sixteen": round(all_of_them, 3)}
        if notion == "cdp":
            told[notion] |= {
                "rho_one_column": round(guarantee.rho(pages.schema.names[0]), 4),
                "rho_all_sixteen": round(guarantee.rho(pages.schema.names), 4),
            }
    return told


# Time


def speed(rows: int, repeats: int) -> dict[str, object]:
    """A whole run, planning included, over one sum of the same bytes."""
    told: dict[str, Any] = {}
    for notion in NOTIONS:
        ours = mechanism(notion, EPS0)
        planning, settings = timed(ours.plan, booleans(WIDE), rows)
        planted = Planted.make(WIDE, rows, [settings.certified] * 100, seed=1)
        table, array = planted.table, planted.columns
        ours.run(Planted.make(WIDE, 1000, [900], seed=2).table, NoiseSource.seeded(0))  # compiles
        running = summing = math.inf
        for seed in range(repeats):  # in turns, so that a busy moment of the machine meets both
            running = min(running, timed(ours.run, table, NoiseSource.seeded(seed))[0])
            summing = min(summing, timed(array.sum)[0])
        told[notion] = {"ratio": round((planning + running) / summing, 2), "seconds": round(planning + running, 3)}
        told[notion] |= {"planning": round(planning, 3), "sum": round(summing, 4)}
    return {"pass_ratio": max(of["ratio"] for of in told.values()), "pass_ratio_each": told, "pass_rows": rows}


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


# Memory


def memory(rows: int) -> dict[str, object]:
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        small, large = (write(Path(folder) / f"{many}.parquet", many) for many in (rows, 10 * rows))
        for notion in NOTIONS:
            few, many = (in_fresh_process(path, notion) for path in (small, large))
            told[notion] = {"ratio": round(many["rss_mib"] / few["rss_mib"], 3)}
            told[notion] |= {"rss_mib": round(few["rss_mib"], 1), "rss_mib_10x": round(many["rss_mib"], 1)}
            told[notion] |= {"seconds": round(few["seconds"], 2), "seconds_10x": round(many["seconds"], 2)}
    return {"rss_ratio_10x": max(of["ratio"] for of in told.values()), "rss_each": told, "rss_rows": rows}


def write(path: Path, rows: int) -> Path:
    """In parts, so that the table never has to fit into memory; in each, twenty strings have 1% of the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names, part = small_integers().names, min(rows, 50_000)
    strings = Planted.make(WIDE, 20, [1] * 20, seed=0).strings
    with pq.ParquetWriter(path, pa.schema([(name, pa.uint8()) for name in names])) as writer:
        for seed in range(rows // part):
            planted = Planted.make(WIDE, part, [part // 100] * 20, seed + 1, strings)
            writer.write_table(pa.table(list(planted.columns), names=list(names)))
    return path


def small_integers() -> Schema:
    return Schema(tuple(Attribute(f"b{i}", "integer", low=0, high=1) for i in range(WIDE)))


def in_fresh_process(path: Path, notion: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.heavy_hitters", str(path), notion]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def release(path: str, notion: str) -> None:
    from nabladp import Budget, Session

    with tempfile.TemporaryDirectory(prefix="nabladp-bench-") as folder:
        budget = Budget(per_attribute=BUDGETS[notion](2 * EPS0))
        session = Session(path, small_integers(), budget, ledger=os.path.join(folder, "ledger.db"), new_ledger=True)
        seconds, _ = timed(session.release, mechanism(notion, EPS0), "heavy")
    print(json.dumps({"seconds": seconds, "rss_mib": peak_mib()}))


if __name__ == "__main__":
    release(*sys.argv[1:])
