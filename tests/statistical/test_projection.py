"""Projection on real draws: noise of the stated size, intervals that cover before and after, a bound on the whole error
that holds, and the theorem's bound on its mean. Noise ×0.7 and ×1.3 is rejected."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from spreads import check_unit_spread

from nabladp.mechanisms.projection import ProjectedAnswers, Projection
from nabladp.noise import NoiseSource, variance
from nabladp.privacy import CDP, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities

BITS = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(8)))
WIDE = Schema(tuple(Attribute(f"x{i}", "boolean") for i in range(13)))
MIXED = Schema(
    (
        Attribute("age", "integer", low=0, high=11),
        Attribute("income", "real", edges=(0, 10, 20, 50, 90), null="category"),
        Attribute("sick", "boolean"),
        Attribute("region", "categorical", values=tuple("abcdef")),
    )
)
LINEAR = LinearQueries((LinearQuery(("age",), tuple(i / 11 for i in range(12))), LinearQuery(("sick",), (0.25, 0.8))))
REQUESTS: dict[str, tuple[Schema, Projection]] = {
    "unsigned": (BITS, Projection(CDP(0.4), Conjunctions(3))),
    "signed": (BITS, Projection(CDP(0.05), Conjunctions(2, signed=True))),
    "parities": (BITS, Projection(CDP(0.02), Parities(2))),
    "unequal": (MIXED, Projection(Rho(0.1), Marginals(2) + 2 * LINEAR, budgets={"sick": Rho(0.004)})),
    "blocks": (WIDE, Projection(CDP(0.1), Conjunctions(2), hull="blocks")),
}
each = pytest.mark.parametrize("name", REQUESTS)
RUNS = 30


def people(schema: Schema, rows: int = 700) -> CodedTable:
    draws = NoiseSource.seeded(8)
    codes = {}
    for number, attribute in enumerate(schema):
        tosses = np.full(rows, attribute.size - 1)
        codes[attribute.name] = draws.binomial(tosses, 0.1 + 0.6 * (number % 3) / 2)
    return CodedTable(schema, codes)


@lru_cache
def runs(name: str) -> tuple[np.ndarray[Any, Any], list[ProjectedAnswers]]:
    schema, mechanism = REQUESTS[name]
    table = people(schema)
    noise = NoiseSource.seeded(2026)
    found = [mechanism.run(table, noise) for _ in range(RUNS)]
    queries = found[0].queries
    return queries.counts(table) / (queries.grids * table.n), found


@each
def test_noise_is_as_large_as_stated(name: str) -> None:
    truth, found = runs(name)
    spread = found[0].deviations * np.sqrt([variance("gaussian", s) / s**2 for s in found[0].scales]).repeat(
        np.diff(found[0].queries.starts)
    )
    residual = np.concatenate([(output.noisy_answers - truth) / spread for output in found])
    check_unit_spread(residual)


@each
def test_intervals_cover_as_often_as_stated(name: str) -> None:
    truth, found = runs(name)
    for level in (0.5, 0.95):
        before = after = total = 0
        for output in found:
            low, high = output.interval(projected=False, level=level)
            before += int(((low <= truth) & (truth <= high)).sum())
            low, high = output.interval(level=level)
            after += int(((low <= truth) & (truth <= high)).sum())
            total += len(truth)
        lowest, highest = stats.binom.ppf([1e-9, 1 - 1e-9], total, level)
        assert lowest <= before <= highest + 0.06 * total  # whole numbers can only cover a little more
        assert after >= before


@each
def test_the_whole_error_keeps_to_its_bound_and_never_rises(name: str) -> None:
    truth, found = runs(name)
    kept = 0
    for output in found:
        weights = output.deviations**-2
        before, after = (float(weights @ (y - truth) ** 2) for y in (output.noisy_answers, output.answers))
        assert after <= before - output.hull.moved + output.hull.gap + 1e-6
        kept += after / weights.sum() <= output.error_bound()
    assert kept >= stats.binom.ppf(1e-6, RUNS, 0.95)


@pytest.mark.parametrize("name", [name for name in REQUESTS if name != "blocks"])
def test_the_mean_error_keeps_to_the_theorem(name: str) -> None:
    schema, mechanism = REQUESTS[name]
    truth, found = runs(name)
    bound = mechanism.expected_error(schema, found[0].n).attribute.least
    errors = np.array([((output.answers - truth) ** 2).mean() for output in found])
    assert bound is not None
    assert errors.mean() - 3 * errors.std() / math.sqrt(RUNS) <= bound
