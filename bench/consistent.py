"""What it gains to make overlapping tables consistent: all pairs and triples of six columns, many releases.

``pairs_yes_no`` …         root mean square error of the cells as measured, over that once tables agree: of all tables
                           together, the least and the most of one table; columns of two values, or of two to ten
``coverage_min``           the least share of intervals of consistent cells that hold the true count
``seconds_60``, ``mb_60``  all 1,770 pairs of 60 columns of eight values: seconds, and memory beyond the counts
"""

from __future__ import annotations

import itertools
import time
import tracemalloc
from typing import Any

import numpy as np

from nabladp import CDP, Attribute, NoisyMarginals, Schema
from nabladp.noise import NoiseSource
from nabladp.tables import CodedTable

SECONDS = {"full": 60, "quick": 15}
ROWS = 10_000
DOMAINS = {"yes_no": (2,) * 6, "mixed": (2, 3, 4, 5, 8, 10)}


def _schema(sizes: tuple[int, ...]) -> Schema:
    return Schema(tuple(Attribute(f"c{i}", "integer", low=0, high=size - 1) for i, size in enumerate(sizes)))


def _people(schema: Schema) -> CodedTable:
    draws = NoiseSource.seeded(1)
    return CodedTable(schema, {own.name: draws.uniform_integers(own.size, ROWS) for own in schema})


def _gain(sizes: tuple[int, ...], k: int, runs: int) -> dict[str, Any]:
    schema, noise = _schema(sizes), NoiseSource.seeded(2)
    people = _people(schema)
    sets = list(itertools.combinations(schema.names, k))
    truth = people.marginals(sets)
    before, after = np.zeros(len(sets)), np.zeros(len(sets))
    inside = [np.zeros(own.shape) for own in truth]
    for _ in range(runs):
        for i, table in enumerate(NoisyMarginals(CDP(1), k=k).run(people, noise)):
            before[i] += ((table.counts - truth[i]) ** 2).mean()
            after[i] += ((table.values - truth[i]) ** 2).mean()
            low, high = table.interval()
            inside[i] += (low <= truth[i]) & (truth[i] <= high)
    each = np.sqrt(before / after)
    return {
        "all": round(float((before.sum() / after.sum()) ** 0.5), 2),
        "least": round(float(each.min()), 2),
        "most": round(float(each.max()), 2),
        "covered": float(np.concatenate([own.ravel() for own in inside]).mean() / runs),
    }


def _wide() -> tuple[float, float]:
    schema = _schema((8,) * 60)
    output = NoisyMarginals(CDP(1), k=2).run(_people(schema), NoiseSource.seeded(3))
    start = time.perf_counter()
    for table in output:
        table.half_width()
    seconds = time.perf_counter() - start
    tracemalloc.start()
    for table in output.raw:
        table.half_width()
    for table in type(output)(output.tables, output.n, output.schema):
        table.half_width()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, most / 1e6


def run(quick: bool) -> dict[str, Any]:
    found = {
        f"{'pairs' if k == 2 else 'triples'}_{name}": _gain(sizes, k, 20 if quick else 100)
        for k in (2, 3)
        for name, sizes in DOMAINS.items()
    }
    seconds, megabytes = _wide()
    covered = min(own.pop("covered") for own in found.values())
    return {**found, "coverage_min": round(covered, 4), "seconds_60": round(seconds, 2), "mb_60": round(megabytes, 1)}
