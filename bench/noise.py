"""Draws per second of the integer noise, beside OpenDP's samplers in the same run and at the same scale."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

SECONDS = {"full": 15, "quick": 4}
SCALE = 10.0


def run(quick: bool) -> dict[str, object]:
    from nabladp.noise import NoiseSource

    noise = NoiseSource()
    ours, theirs = (200_000, 20_000) if quick else (2_000_000, 100_000)
    repeats = 2 if quick else 3
    rates = {
        "gaussian": _rate(lambda: noise.discrete_gaussian(SCALE, ours), ours, repeats),
        "laplace": _rate(lambda: noise.discrete_laplace(SCALE, ours), ours, repeats),
    }
    zeros = np.zeros(theirs, np.int64)
    peers = {kind: _rate(lambda m=m: m(zeros), theirs, repeats) for kind, m in _opendp().items()}
    result: dict[str, object] = {}
    for kind, rate in rates.items():
        result[f"{kind}_per_second"] = round(rate)
        result[f"{kind}_opendp_per_second"] = round(peers[kind])
        result[f"{kind}_speedup_vs_opendp"] = round(rate / peers[kind], 2)
    return {**result, "scale": SCALE, "samples": ours, "samples_opendp": theirs, "threads": 1}


def _rate(call: Callable[[], Any], count: int, repeats: int) -> float:
    """Draws per second in the best of a few runs, after one that warms up."""
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return count / best


def _opendp() -> dict[str, Callable[[Any], Any]]:
    import opendp.prelude as dp
    from opendp.core import as_array

    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return {
        "gaussian": dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=SCALE) >> as_array(),
        "laplace": dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=SCALE) >> as_array(),
    }
