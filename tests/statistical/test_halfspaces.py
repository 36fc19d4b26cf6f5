"""HalfspaceLearner on real draws: noise as large as stated, no bias from randomized labels, picks by their law."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spreads import check_unit_spread

from nabladp.mechanisms.learners.halfspaces import HalfspaceLearner, HalfspaceModel
from nabladp.mechanisms.learners.halfspaces.descent import LEVELS, Descent
from nabladp.mechanisms.learners.halfspaces.gradient import ROW_GRID, Gradient, TanhSums
from nabladp.mechanisms.learners.halfspaces.gram import RADIUS
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        *(Attribute(f"x{i}", "boolean") for i in range(12)),
        Attribute("region", "categorical", values=tuple("abcde")),
        Attribute("sick", "boolean"),
    )
)
ROWS, RUNS = 2000, 60
REQUESTS = {
    "gaussian": HalfspaceLearner(CDP(0.6), "sick", method="average", label_treatment="gaussian"),
    "response": HalfspaceLearner(CDP(1.5), "sick", method="average", label_treatment="response"),
    "response, unequal": HalfspaceLearner(
        CDP(0.5), "sick", method="average", label_treatment="response", label_epsilon=1.0, feature_epsilon=0.2
    ),
}
each = pytest.mark.parametrize("name", REQUESTS)


@lru_cache
def people(rows: int = ROWS, seed: int = 8) -> dict[str, Any]:
    draws = NoiseSource.seeded(seed)
    codes = {a.name: draws.uniform_integers(a.size, rows) for a in SCHEMA}
    worse = codes["x0"] + codes["x1"] + (codes["region"] > 2) + draws.uniform_integers(2, rows)
    return codes | {"sick": (worse > 1).astype(np.int64)}


def signs(learner: HalfspaceLearner) -> Any:
    return learner.task(SCHEMA, ROWS).columns.matrix(people()).astype(np.int64)


@lru_cache
def runs(name: str) -> list[HalfspaceModel]:
    table, noise = CodedTable(SCHEMA, people()), NoiseSource.seeded(2027)
    return [REQUESTS[name].run(table, noise) for _ in range(RUNS)]


@each
def test_averages_are_unbiased_with_the_stated_deviation(name: str) -> None:
    truth = signs(REQUESTS[name]).T @ (2 * people()["sick"] - 1) / ROWS
    residual = np.array([(model.weights - truth) / model.deviations for model in runs(name)])
    # Answers are shared by all columns of a run, so runs are what is independent.
    means = residual.mean(axis=1)
    assert abs(means.mean()) < 5 * means.std() / math.sqrt(RUNS)
    check_unit_spread(np.sqrt((residual**2).mean(axis=1)))


def test_a_gram_fit_of_answers_finds_the_weights_of_labels() -> None:
    learner = HalfspaceLearner(CDP(3), "sick", label_treatment="response", ridge=300.0)
    x, y = signs(learner), 2 * people()["sick"] - 1
    exact = np.linalg.solve(x.T @ x + 300.0 * np.eye(x.shape[1]), x.T @ y)
    noise, table = NoiseSource.seeded(5), CodedTable(SCHEMA, people())
    models = [learner.run(table, noise) for _ in range(40)]
    residual = np.array([(model.weights - exact) / model.deviations for model in models])
    assert abs(residual.mean()) < 0.2 and 0.8 < (residual**2).mean() < 1.2
    covered = np.mean([((m.interval()[0] <= exact) & (exact <= m.interval()[1])).mean() for m in models])  # type: ignore[index]
    assert 0.9 < covered < 0.99


def test_picks_follow_their_law() -> None:
    schema = Schema(tuple(Attribute(name, "boolean") for name in "aby"))
    learner = HalfspaceLearner(CDP(1.5), "y", method="exact", gamma=0.5, gamma_prime=0.0)
    table = CodedTable(schema, {"a": np.array([0, 1, 1, 0]), "b": np.array([1, 1, 0, 0]), "y": np.array([1, 1, 1, 0])})
    (law,) = learner.distribution(table).parts
    candidates: Any = learner.learner(schema, 4).candidates  # type: ignore[attr-defined]
    number = {tuple(candidates.weights(i)): i for i in range(candidates.count)}
    noise, count = NoiseSource.seeded(12), 800
    drawn = np.bincount(
        [number[tuple(learner.run(table, noise).integers)] for _ in range(count)], minlength=len(number)
    )
    _, p_value = stats.chisquare(drawn, count * np.exp(law))
    assert p_value > 1e-4
    assert stats.chisquare(drawn, np.full(len(number), count / len(number))).pvalue < 1e-6  # not merely uniform


def test_held_out_accuracy_is_that_of_new_people() -> None:
    learner = HalfspaceLearner(CDP(1), "sick", holdout=0.25, holdout_budget=Rho(0.02))
    table, noise = CodedTable(SCHEMA, people()), NoiseSource.seeded(4)
    models, others = [learner.run(table, noise) for _ in range(RUNS)], people(20_000, 9)
    gaps, covered = [], []
    for model in models:
        codes = np.stack([others[name] for name in model.features], axis=1)
        whole = float(((model.halfspace.predict(codes) > 0) == (others["sick"] == 1)).mean())
        assert model.holdout is not None
        gaps.append(model.holdout.accuracy - whole)
        low, high = model.holdout.interval(0.95)
        covered.append(low <= whole <= high)
    assert abs(np.mean(gaps)) < 0.02 and np.mean(covered) > 0.85  # all of one table
    spread = models[0].holdout.scale / models[0].holdout.rows  # type: ignore[union-attr]
    assert spread == pytest.approx(math.sqrt(1 / 0.032) / 500, rel=1e-6)  # a fifth of the budget counts the label


Seen = list[tuple[float, Any]]


def watched() -> tuple[NoiseSource, Seen]:
    seen: Seen = []

    class Watched(NoiseSource):
        def discrete_gaussian(self, scale: Any, size: Any) -> Any:
            seen.append((scale, super().discrete_gaussian(scale, size)))
            return seen[-1][1]

    return Watched.seeded(3), seen


def test_descent_draws_fresh_noise_of_the_stated_scale_for_every_step() -> None:
    learner = HalfspaceLearner(CDP(1), "sick", method="descent", steps=40)
    method = learner.learner(SCHEMA, ROWS)
    assert isinstance(method, Descent)
    noise, seen = watched()
    fitted = method.run(CodedTable(SCHEMA, people()), noise)
    kinds = len(np.unique(method.calibration.scales))  # a draw for each kind of entry of the Gram matrix comes first
    ((scale, own),) = seen[kinds:]
    assert own.shape == (40, 18) and scale / fitted.facts["noise_scale"] > LEVELS * RADIUS * 0.99
    assert fitted.facts["noise_scale"] == pytest.approx(2 * math.sqrt(40 / (2 * 0.5)), rel=1e-6)  # 2 rows' lengths
    drawn = own.ravel() / scale
    assert stats.kstest(drawn, "norm").pvalue > 1e-4 > stats.kstest(0.7 * drawn, "norm").pvalue
    assert len({step.tobytes() for step in own}) == 40


def test_steps_draw_the_noise_they_are_charged_for() -> None:
    learner = HalfspaceLearner(CDP(1), "sick", method="gradient", steps=40)
    method = learner.learner(SCHEMA, ROWS)
    assert isinstance(method, Gradient)
    table = CodedTable(SCHEMA, people())
    noise, seen = watched()
    method.run(table, noise)
    assert len(seen) == 41 and all(scale == method.scale for scale, _ in seen[1:])
    drawn = np.concatenate([own for _, own in seen[1:]]) / method.scale

    def fits(shrink: float) -> bool:
        return bool(stats.kstest(shrink * drawn, "norm").pvalue > 1e-4)

    assert fits(1.0) and not fits(0.7) and not fits(1.3)
    assert len({own.tobytes() for _, own in seen}) == 41  # fresh in every step
    assert table.fold(TanhSums(method.task.columns, np.zeros(method.task.width, np.int64))).tolist() == [0] * 18
    assert method.scale / ROW_GRID > 1
