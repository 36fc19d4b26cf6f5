"""The squared error over many runs: its mean within the bound on the mean, its spread within the other."""

from __future__ import annotations

import numpy as np
import pytest

from nabladp.mechanisms.distribution_estimate import DistributionEstimate
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

D, N, RUNS = 20, 3000, 60
SCHEMA = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(D)))


def table(group: int) -> CodedTable:
    """Groups of equal rows, each of so many: the worst kind of table where that is just too few to be found."""
    draws = np.random.default_rng(group)
    kinds = draws.integers(0, 2, (N // group, D))
    rows = np.repeat(kinds, group, axis=0)
    rows = np.vstack([rows, kinds[: N - len(rows)]])
    return CodedTable(SCHEMA, {f"b{i}": rows[:, i] for i in range(D)})


def squared_errors(mechanism: DistributionEstimate, group: int) -> np.ndarray:
    rows = table(group)
    columns = np.stack(list(rows._rows.columns), axis=1)
    kinds, counts = np.unique(columns, axis=0, return_counts=True)
    truth = {tuple(kind): count / N for kind, count in zip(kinds.tolist(), counts, strict=True)}
    found = []
    for seed in range(RUNS):
        estimate = mechanism.run(rows, NoiseSource.seeded(seed))
        total = sum(share**2 for share in truth.values())
        for codes, p in zip(estimate.codes.tolist(), estimate.probabilities, strict=True):
            share = truth.get(tuple(codes), 0.0)
            total += (p - share) ** 2 - share**2
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("notion", ["cdp", "pure"])
def test_errors_keep_to_their_bounds_and_come_near_them(notion: str) -> None:
    mechanism = DistributionEstimate(CDP(1) if notion == "cdp" else Pure(1), notion=notion)
    error = mechanism.expected_error(SCHEMA, N).error
    assert error is not None
    ratios = []
    for group in (1, error.cut, round(1.3 * error.cut), 10 * error.cut):
        errors = squared_errors(mechanism, group)
        assert errors.mean() <= error.mean + 4 * errors.std() / np.sqrt(RUNS)
        assert np.mean(errors > error.bound) <= 0.05 + 4 * np.sqrt(0.05 / RUNS)
        ratios.append(errors.mean() / error.mean)
    assert max(ratios) > 0.3  # the bound is not idle …
    assert min(ratios) < 0.5  # … and the tables differ
