"""Point functions over d bits: how often the learner keeps its promise, and how many rows it needs."""

from __future__ import annotations

import numpy as np

from nabladp.mechanisms.learners.points import PointLearner
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

ALPHA = 0.1
LEARNERS = {"cdp": PointLearner(CDP(1), "y"), "pure": PointLearner(Pure(1), "y", notion="pure")}


def bits(d: int) -> Schema:
    return Schema((*(Attribute(f"b{i}", "boolean") for i in range(d)), Attribute("y", "boolean")))


def success_rates(quick: bool) -> dict[str, float]:
    """The share of runs with test error at most α at the planned n, where that is hard.

    The point has 1.1·α of the mass: who misses it errs by more than α. All else is spread out. A point of less mass
    would be missed more often, but that would be no error beyond α; one of more mass would be found more often.
    """
    return {
        f"{notion}_{d}": _success_rate(learner, d, 20 if quick else 50)
        for notion, learner in LEARNERS.items()
        for d in (32, 128)
    }


def _success_rate(learner: PointLearner, d: int, runs: int) -> float:
    schema, good = bits(d), 0
    n = learner.needed_rows(schema, ALPHA)
    for seed in range(runs):
        draw = np.random.default_rng([d, seed])
        point = draw.integers(0, 2, d)
        rows, tested = (_rows(draw, point, size) for size in (n, 20_000))
        codes = {f"b{i}": rows[:, i] for i in range(d)} | {"y": (rows == point).all(axis=1).astype(np.int64)}
        model = learner.run(CodedTable(schema, codes), NoiseSource.seeded(seed))
        wrong = (tested == np.array(model.point)).all(axis=1) != (tested == point).all(axis=1)
        good += bool(wrong.mean() <= ALPHA)
    return good / runs


def _rows(draw: np.random.Generator, point: np.ndarray, n: int) -> np.ndarray:
    rows = draw.integers(0, 2, (n, len(point)), dtype=np.int64)
    rows[draw.random(n) < 1.1 * ALPHA] = point
    return rows


def needed_n(quick: bool) -> dict[str, dict[int, int]]:
    """Rows needed for error α, by notion and d. With fewer bits there is no tree, and the lot matters: left out."""
    dims = (32, 128, 512) if quick else (32, 64, 128, 256, 512, 1024)
    return {notion: {d: learner.needed_rows(bits(d), ALPHA) for d in dims} for notion, learner in LEARNERS.items()}
