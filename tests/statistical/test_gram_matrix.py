"""GramMatrix on real draws: noise of the stated size, intervals that cover, a norm that holds. ×0.7 and ×1.3 fail."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spreads import check_unit_spread

from nabladp.mechanisms.gram_matrix import GramMatrix, NoisyGram
from nabladp.noise import NoiseSource, variance
from nabladp.privacy import CDP, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        *(Attribute(f"x{i}", "boolean") for i in range(10)),
        Attribute("age", "integer", low=0, high=39),
        Attribute("region", "categorical", values=tuple("abcde"), null="category"),
        Attribute("sick", "boolean"),
    )
)
REQUESTS = {
    "plain": GramMatrix(CDP(0.4)),
    "unequal": GramMatrix(Rho(0.1), budgets={"region": Rho(0.004), "x0": Rho(0.5)}),
    "label": GramMatrix(Rho(0.05), label="sick", budgets={"sick": Rho(0.5)}, encode={"age": "thermometer"}),
}
each = pytest.mark.parametrize("name", REQUESTS)
RUNS = 30


def people(rows: int = 3000) -> dict[str, Any]:
    draws = NoiseSource.seeded(8)
    codes = {a.name: draws.binomial(np.full(rows, a.size - 1), 0.2 + 0.6 * (i % 3) / 2) for i, a in enumerate(SCHEMA)}
    worse = codes["x0"] + codes["x1"] + (codes["age"] > 20) + draws.uniform_integers(2, rows)
    return codes | {"sick": (worse > 1).astype(np.int64)}


@lru_cache
def runs(name: str) -> tuple[np.ndarray[Any, Any], list[NoisyGram]]:
    codes, mechanism, noise = people(), REQUESTS[name], NoiseSource.seeded(2026)
    table = CodedTable(SCHEMA, codes)
    signs = mechanism.calibration(SCHEMA).columns.matrix(codes).astype(np.int64)
    return signs.T @ signs, [mechanism.run(table, noise) for _ in range(RUNS)]


@each
def test_noise_is_as_large_as_stated(name: str) -> None:
    truth, found = runs(name)
    above = np.triu_indices(len(truth), 1)
    scales = found[0].scales[above]
    spread = np.sqrt([4 * variance("gaussian", s / 2) for s in scales])
    residual = np.concatenate([(gram.matrix - truth)[above] / spread for gram in found])
    check_unit_spread(residual)


@each
def test_entries_are_independent_above_the_diagonal_and_mirrored_below(name: str) -> None:
    truth, found = runs(name)
    for gram in found[:3]:
        assert (gram.matrix == gram.matrix.T).all() and (gram.entries % 2 == gram.n % 2).all()
    above = np.triu_indices(len(truth), 1)
    residual = np.array([(gram.matrix - truth)[above] / gram.scales[above] for gram in found])
    neighbours = (residual[:, 1:] * residual[:, :-1]).ravel()
    assert abs(neighbours.mean()) < 5 * neighbours.std() / math.sqrt(len(neighbours))


@each
def test_intervals_cover_as_often_as_stated(name: str) -> None:
    truth, found = runs(name)
    above = np.triu_indices(len(truth), 1)
    for level in (0.5, 0.95):
        covered = total = 0
        for gram in found:
            low, high = gram.interval(level)
            covered += int(((low <= truth) & (truth <= high))[above].sum())
            total += len(above[0])
        lowest, highest = stats.binom.ppf([1e-9, 1 - 1e-9], total, level)
        assert lowest <= covered <= highest + 0.06 * total  # whole numbers can only cover a little more


@each
def test_the_norm_of_the_noise_stays_near_what_is_stated(name: str) -> None:
    truth, found = runs(name)
    shares = [np.linalg.norm(gram.matrix - truth, 2) / gram.noise_norm for gram in found]
    assert 0.5 < np.mean(shares) < 1.05 and max(shares) < 1.2


@each
def test_intervals_of_coefficients_cover_the_fit_without_noise(name: str) -> None:
    truth, found = runs(name)
    covered = []
    for gram in found:
        fitted = gram.regress("sick")
        places = list(fitted.features)
        shrunk = truth[np.ix_(places, places)] + fitted.ridge * np.eye(len(places))
        exact = np.linalg.solve(shrunk, truth[places, fitted.target])
        low, high = fitted.interval()
        covered.append(((low <= exact) & (exact <= high)).mean())
    assert 0.91 < np.mean(covered) < 0.99  # the effect of the noise is taken to first order


def test_regression_finds_what_matters() -> None:
    _, found = runs("label")
    low, _ = found[0].regress("sick").interval()
    ahead = dict(zip(found[0].regress("sick").names, low, strict=True))
    assert ahead["x0 = true"] > 0.1 and ahead["x1 = true"] > 0.1 and abs(ahead["x5 = true"]) < 0.1
