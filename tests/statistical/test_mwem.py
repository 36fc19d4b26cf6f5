"""A run draws what its exact law says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from nabladp import CDP, MWEM, NoiseSource, Schema
from nabladp.mechanisms.mwem.round_run import update_named
from nabladp.noise import gaussian_log_pmf
from nabladp.schema import Attribute
from nabladp.tables import CodedTable
from nabladp.workloads import Conjunctions

BITS = Schema(tuple(Attribute(name, "boolean") for name in "abcd"))
ROWS = CodedTable(BITS, {"a": [1, 1, 1, 0, 0], "b": [1, 1, 1, 1, 1], "c": [0, 0, 0, 0, 1], "d": [0, 1, 0, 1, 0]})
RUNS = 800


def laws(mechanism: MWEM, louder: float = 1.0) -> dict[tuple[int, ...], float]:
    machine = mechanism._machine(BITS, ROWS.n)
    guess = update_named("fit", machine.cube, 1).answers()
    (selector,) = machine.selectors(0)
    scores = louder * machine.scores.of(machine.queries.counts(ROWS), guess)
    return {tuple(sorted(chosen)): float(np.exp(chance)) for chosen, chance in selector.law(scores)}


@pytest.mark.parametrize("per_round", [1, 2])
def test_picks_and_answers_follow_their_law(per_round: int) -> None:
    mechanism = MWEM(CDP(2), Conjunctions(2), per_round=per_round, rounds=1, rows=0)
    noise = NoiseSource.seeded(11)
    runs = [mechanism.run(ROWS, noise).measured for _ in range(RUNS)]
    seen = Counter(tuple(sorted(m.query.tolist())) for m in runs)

    def p_value(law: dict[tuple[int, ...], float]) -> float:
        return float(chisquare([seen[pick] for pick in law], [RUNS * p for p in law.values()]).pvalue)

    assert seen.keys() <= laws(mechanism).keys()
    assert p_value(laws(mechanism)) > 1e-4
    assert min(p_value(laws(mechanism, 3.0)), p_value(laws(mechanism, -1.0))) < 1e-4  # and the test can tell
    truth = mechanism.queries(BITS).counts(ROWS)
    noises = np.concatenate([m.count - truth[m.query] for m in runs])
    scale = float(runs[0].scale[0])
    seen_noise = np.bincount(np.clip(noises, -2, 2) + 2, minlength=5)

    def noise_p_value(scale: float) -> float:
        law = np.exp(gaussian_log_pmf(scale, -20, 20))
        ends = np.array([law[:19].sum(), *law[19:22], law[22:].sum()])
        return float(chisquare(seen_noise, len(noises) * ends / ends.sum()).pvalue)

    assert noise_p_value(scale) > 1e-4
    assert max(noise_p_value(0.7 * scale), noise_p_value(1.3 * scale)) < 1e-4
