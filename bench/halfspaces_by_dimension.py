"""Accuracy against the number of features d: labels private or public, a budget per attribute or per person.

Tables of ±1 with a label that a halfspace gives and one label in twenty turned, so that nobody can be right more often
than 95%. With constant margin every row has exactly d/4 more votes for its label than against it. Uniform rows lie
close to the halfspace, the closer the larger d is. All learners see the same tables.

The record-level side is favoured: its learner and settings are those that did best on the test rows. It has one line
only, as a public label does not help these learners: a person's features alone move their sums as far.

What the full run prints last is ``docs/halfspaces_by_dimension.json``, which ``docs/make_halfspace_figures.py`` draws.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench._record_level import LEARNERS, SignedRows
from nabladp import HalfspaceLearner
from nabladp.mechanisms.learners.halfspaces.model import HalfspaceModel
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SECONDS = {"full": 360, "quick": 25}
TABLES = {16: 8, 64: 6, 256: 4, 1024: 3}  # how many for each d: large ones take long, small ones differ more
QUICK = {16: 1, 256: 1}
ROWS, TEST_ROWS, EPS0, TURNED, MARGIN = 20_000, 10_000, 0.1, 0.05, 0.25

Signs = NDArray[np.int8]
Curve = list[dict[str, float]]


# Tables


def uniform(d: int, n: int, draw: np.random.Generator) -> tuple[Signs, Signs]:
    """Every row is as likely as any other; the weights of the halfspace are normal."""
    x = 2 * draw.integers(0, 2, (n, d), dtype=np.int8) - 1
    votes = x.astype(np.float32) @ draw.standard_normal(d, dtype=np.float32)
    return x, np.where(votes >= 0, np.int8(1), np.int8(-1))


def constant_margin(d: int, n: int, draw: np.random.Generator, margin: float = MARGIN) -> tuple[Signs, Signs]:
    """Weights are ±1, and in every row the same number of features, drawn by lot, vote for the label."""
    y = 2 * draw.integers(0, 2, n, dtype=np.int8) - 1
    weights = 2 * draw.integers(0, 2, d, dtype=np.int8) - 1
    lots = draw.random((n, d))
    votes = round((1 + margin) / 2 * d)
    last = np.partition(lots, votes - 1, axis=1)[:, votes - 1, None]
    return np.where(lots <= last, weights, -weights) * y[:, None], y


KINDS: dict[str, Callable[[int, int, np.random.Generator], tuple[Signs, Signs]]] = {
    "constant_margin": constant_margin,
    "uniform": uniform,
}


@dataclass(frozen=True, eq=False)
class Made:
    """Rows to learn from, with noisy labels, and rows to test on, with the halfspace's own."""

    x: Signs
    y: Signs
    test_x: Signs
    test_y: Signs

    @classmethod
    def of(cls, kind: str, d: int, draw: np.random.Generator) -> Made:
        x, y = KINDS[kind](d, ROWS + TEST_ROWS, draw)
        turned = np.where(draw.random(ROWS) < TURNED, -y[:ROWS], y[:ROWS])
        return cls(x[:ROWS], turned, x[ROWS:], y[ROWS:])

    def accuracy(self, said: NDArray[np.generic]) -> float:
        """How often it would be right on labels as noisy as those learned from, in expectation over their noise."""
        right = float(np.mean(said == self.test_y))
        return right * (1 - TURNED) + (1 - right) * TURNED


# Learners


def non_private(made: Made) -> float:
    from sklearn.linear_model import LogisticRegression

    return made.accuracy(LogisticRegression(max_iter=1000).fit(made.x.astype(np.float32), made.y).predict(made.test_x))


def signs_schema(d: int, public: bool) -> Schema:
    """The features x0, x1, … and the label y, public or not."""
    return Schema((*(Attribute(f"x{i}", "boolean") for i in range(d)), Attribute("y", "boolean", public=public)))


def fitted(x: Signs, y: Signs, learner: HalfspaceLearner, public: bool, seed: int) -> HalfspaceModel:
    schema = signs_schema(x.shape[1], public)
    columns = np.asfortranarray(x > 0).view(np.uint8)
    codes = dict(zip(schema.names, (*columns.T, (y > 0).astype(np.uint8)), strict=True))
    return learner.run(CodedTable(schema, codes), NoiseSource.seeded(seed))


def ours(made: Made, method: str, public: bool, seed: int) -> float:
    model = fitted(made.x, made.y, HalfspaceLearner(CDP(EPS0), "y", method=method), public, seed)
    return made.accuracy(model.halfspace.predict((made.test_x > 0).astype(np.uint8)))


def record_level(made: Made, draw: np.random.Generator) -> dict[str, float]:
    """By learner and setting, all at the same ρ, for the whole person."""
    rows, test = SignedRows.of(made.x, made.y), SignedRows.of(made.test_x, made.test_y)
    return {
        f"{name}: {setting}": made.accuracy(np.where(test.z @ weights.astype(np.float32) >= 0, 1, -1))
        for name, learner in LEARNERS.items()
        for setting, weights in learner(rows, EPS0**2 / 2, draw).items()
    }


# Measuring


def run(quick: bool) -> dict[str, object]:
    sizes = QUICK if quick else TABLES
    found = {kind: measure(kind, sizes) for kind in KINDS}
    curves = {kind: of for kind, (of, _) in found.items()}
    means = {
        f"accuracy_{name}": {kind: [at["mean"] for at in of[name]] for kind, of in curves.items()}
        for name in curves["uniform"]
    }
    return {
        **means,
        "d": list(sizes),
        "tables": list(sizes.values()),
        **{"rows": ROWS, "eps0": EPS0, "turned": TURNED, "margin": MARGIN},
        "record_level_chosen": {kind: chosen for kind, (_, chosen) in found.items()},
        "curves": curves,
    }


def measure(kind: str, sizes: dict[int, int]) -> tuple[dict[str, Curve], list[str]]:
    """By learner, a point for each d; and for each d the record-level learner and setting that did best."""
    curves: dict[str, Curve] = {}
    winners = []
    for d, tables in sizes.items():
        found = [everyone(kind, d, seed) for seed in range(tables)]
        chosen = best([settings for _, settings in found])
        winners.append(chosen)
        each = [accuracies | {"record_level": settings[chosen]} for accuracies, settings in found]
        for name in each[0]:
            curves.setdefault(name, []).append({"d": d, **point(one[name] for one in each)})
        told = ", ".join(f"{name} {curve[-1]['mean']}" for name, curve in curves.items())
        print(f"{kind}, d = {d}: {told} ({chosen})", flush=True)
    return curves, winners


def everyone(kind: str, d: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """On one table: accuracies of the learners without settings, and of the record-level ones with theirs."""
    draw = np.random.default_rng([list(KINDS).index(kind), d, seed])
    made = Made.of(kind, d, draw)
    accuracies = {
        "non_private": non_private(made),
        "ours": ours(made, "auto", False, seed),
        "ours_gram": ours(made, "gram", False, seed),
        "ours_average": ours(made, "average", False, seed),
        "ours_public_labels": ours(made, "auto", True, seed),
        "ours_average_public_labels": ours(made, "average", True, seed),
    }
    return accuracies, record_level(made, draw)


def best(found: list[dict[str, float]]) -> str:
    """The record-level setting with the best mean on the test rows."""
    return max(found[0], key=lambda setting: statistics.fmean(one[setting] for one in found))


def point(accuracies: Iterable[float]) -> dict[str, float]:
    """Mean and standard error over tables."""
    all_of_them = list(accuracies)
    spread = statistics.stdev(all_of_them) / len(all_of_them) ** 0.5 if len(all_of_them) > 1 else 0.0
    return {"mean": round(statistics.fmean(all_of_them), 4), "error": round(spread, 4)}
