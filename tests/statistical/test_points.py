"""A run of the point learner draws what its exact law says, and errs no more often than promised."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.noise import NoiseSource, gaussian_log_pmf
from nabladp.privacy import CDP, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema((Attribute("a", "categorical", values=("p", "q", "r")), Attribute("y", "boolean")))
TABLE = np.array([[9, 4], [6, 6], [2, 1]])  # rows by a and y
ROWS = CodedTable(
    SCHEMA, dict(zip("ay", np.repeat(np.indices((3, 2)).reshape(2, -1), TABLE.ravel(), axis=1), strict=True))
)
SETTINGS = Settings("cdp", Tree.build((3, 2), 3, 2, 3), 0, (Level(2, 2.0),), None, 1, 0, 1, 0.1, 6.0, 1)
LEARNER = PointLearner(Rho(9), "y", settings=SETTINGS)
RUNS = 600  # enough to tell 30% more or less noise


def law(scale: float, cut: int) -> dict[tuple[int, bool], float]:
    """(point, drawn by lot) with its chance; every cell is a candidate and has noise of its own."""
    reach = 60
    counts = np.arange(cut, cut + reach)
    chances = np.array([np.exp(gaussian_log_pmf(scale, cut - f, cut + reach - 1 - f)) for f in TABLE.ravel()])
    shown, found = chances.sum(axis=1).reshape(3, 2), {}
    for u in range(3):  # the largest count wins, among equals the first point
        total = 0.0
        for i in range(len(counts)):
            beaten = 1.0
            for v in set(range(3)) - {u}:
                over = chances[2 * v + 1][i + 1 :].sum() + (chances[2 * v + 1][i] if v < u else 0.0)
                beaten *= 1 - over
            total += chances[2 * u + 1][i] * beaten
        found[u, False] = float(total)
    none = float(np.prod(1 - shown[:, 1]))
    for taken in itertools.product((0, 1), repeat=3):
        chance = none * float(np.prod(np.where(taken, shown[:, 0], 1 - shown[:, 0])))
        left = [u for u in range(3) if not taken[u]]
        for u in left:
            found[u, True] = found.get((u, True), 0.0) + chance / len(left)
    return found  # where all are taken the outcome depends on counts: left out, and so are such runs


def test_hypotheses_follow_their_law() -> None:
    cut = LEARNER.promise(SCHEMA, ROWS.n).cut
    noise = NoiseSource.seeded(17)
    models = [LEARNER.run(ROWS, noise) for _ in range(RUNS)]
    seen = Counter((model.point[0], model.count is None) for model in models)

    def p_value(scale: float) -> float:
        known = {outcome: chance for outcome, chance in law(scale, cut).items() if chance * RUNS > 3}
        rest = RUNS - sum(seen[outcome] for outcome in known)
        expected = [RUNS * chance for chance in known.values()]
        return float(
            chisquare([*(seen[o] for o in known), rest + 1e-9], [*expected, RUNS - sum(expected) + 1e-9]).pvalue
        )

    assert p_value(2.0) > 1e-4
    assert max(p_value(1.4), p_value(2.6)) < 1e-4  # and the test can tell


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_the_promised_error_is_kept_at_the_mass_that_is_hardest(notion: str) -> None:
    """A point just above the promised error: missing it breaks the promise, which may happen in a tenth of the runs."""
    d, n = 24, 400
    schema = Schema((*(Attribute(f"b{i}", "boolean") for i in range(d)), Attribute("y", "boolean")))
    learner = PointLearner(CDP(1) if notion == "cdp" else Pure(1), "y", notion=notion)
    error = learner.promise(schema, n).error
    assert error is not None
    draws, runs = np.random.default_rng(5), 120

    def missed(mass: float, seed: int) -> bool:
        point, x = draws.integers(0, 2, d), draws.integers(0, 2, (n, d))
        x[draws.random(n) < mass] = point
        codes = {f"b{i}": x[:, i] for i in range(d)} | {"y": (x == point).all(axis=1).astype(np.int64)}
        model = learner.run(CodedTable(schema, codes), NoiseSource.seeded(seed))
        return model.point != tuple(point)

    failures = sum(missed(1.001 * error, seed) for seed in range(runs))
    assert binomtest(failures, runs, 0.1, alternative="greater").pvalue > 1e-3
    lighter = sum(missed(0.5 * error, seed) for seed in range(30))
    assert lighter > 10  # the promise is not far from the truth


def test_more_noise_than_planned_for_breaks_the_law() -> None:
    louder = replace(SETTINGS, levels=(Level(2, 4.0),))
    assert PointLearner(Rho(9), "y", settings=louder).promise(SCHEMA, ROWS.n).cut > LEARNER.promise(SCHEMA, ROWS.n).cut
