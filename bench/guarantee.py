"""ε of a random subset in a ledger of 10,000 terms over 100 attributes, against a numpy scan of the terms' bits.

The scan is the strongest plain numpy version: terms packed into two 64-bit words, one vectorised test, one dot product,
in floating point (ours is exact). Both then convert ρ to ε in the same way.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.values import Rho

SECONDS = {"full": 15, "quick": 5}
ATTRIBUTES, TERMS, DELTA = 100, 10_000, 1e-6


def run(quick: bool) -> dict[str, object]:
    rng = random.Random(7)
    names = [f"a{i}" for i in range(ATTRIBUTES)]
    chosen = [
        (rng.sample(range(ATTRIBUTES), rng.randint(1, 4)), Fraction(rng.randint(1, 1000), 10**6)) for _ in range(TERMS)
    ]
    whole = Guarantee.compose(names, [Guarantee.touch(names, [names[i] for i in s], Rho(r)) for s, r in chosen])

    words = np.zeros((TERMS, 2), dtype=np.uint64)
    for row, (support, _) in enumerate(chosen):
        for i in support:
            words[row, i // 64] |= np.uint64(1 << (i % 64))
    costs = np.array([float(r) for _, r in chosen])
    position = {name: i for i, name in enumerate(names)}

    def scan(subset: list[str]) -> float:
        mask = [0, 0]
        for name in subset:
            i = position[name]
            mask[i // 64] |= 1 << (i % 64)
        hit = ((words[:, 0] & np.uint64(mask[0])) | (words[:, 1] & np.uint64(mask[1]))) != 0
        return epsilon_from_rho(float(hit @ costs), DELTA)

    def ours(subset: list[str]) -> float:
        return whole.epsilon(subset, DELTA)

    subsets = [rng.sample(names, rng.randint(1, ATTRIBUTES)) for _ in range(200 if quick else 2000)]
    gap = max(abs(ours(s) - scan(s)) for s in subsets[:100])  # also warms both up
    times = {"ours": 0.0, "scan": 0.0}
    rounds: dict[str, list[float]] = {"ours": [], "scan": []}
    contenders: dict[str, Callable[[list[str]], float]] = {"ours": ours, "scan": scan}
    for _ in range(5):
        for name, ask in contenders.items():
            start = time.perf_counter()
            for subset in subsets:
                ask(subset)
            rounds[name].append((time.perf_counter() - start) / len(subsets))
    times = {name: statistics.median(values) for name, values in rounds.items()}
    return {
        "microseconds": round(times["ours"] * 1e6, 2),
        "scan_microseconds": round(times["scan"] * 1e6, 2),
        "ratio_vs_scan": round(times["ours"] / times["scan"], 3),
        "largest_gap": gap,
        "terms": TERMS,
        "attributes": ATTRIBUTES,
    }
