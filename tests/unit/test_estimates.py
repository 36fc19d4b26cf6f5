"""Intervals around estimates reach as far as bins and noise do, to both sides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nabladp.mechanisms.noisy_marginals import MarginalTables, NoisyMarginal
from nabladp.mechanisms.noisy_marginals.output import MarginalError
from nabladp.noise import gaussian_log_pmf
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("age", "integer", low=0, high=3), Attribute("pay", "real", edges=(0, 10, 30))))


def tables(name: str, counts: list[int], scale: float) -> MarginalTables:
    return MarginalTables((NoisyMarginal((name,), np.array(counts), "gaussian", scale, SCHEMA),), sum(counts), SCHEMA)


def test_a_mean_lies_in_the_middle_of_what_noise_allows() -> None:
    noisy, quiet = (
        tables("age", [100, 200, 300, 400], 20.0).mean("age"),
        tables("age", [100, 200, 300, 400], 0.01).mean("age"),
    )
    assert noisy.high - noisy.value == pytest.approx(noisy.value - noisy.low) and noisy.high > quiet.high
    pay = tables("pay", [300, 100], 5.0).mean("pay")
    assert pay.low < (300 * 0 + 100 * 10) / 400 and pay.high > (300 * 10 + 100 * 30) / 400  # type: ignore[operator]


def test_a_mean_never_leaves_its_domain() -> None:
    """Noisy counts below zero pull it out; every true mean is inside, so the interval is cut there as well."""
    for counts, edge in (([-90, 10, 10, 270], 3.0), ([270, 10, 10, -90], 0.0)):
        found = tables("age", counts, 10.0).mean("age")
        assert found.value == edge and 0 <= found.low <= edge <= found.high <= 3  # type: ignore[operator]
        assert found.note == "clamped to the domain, 0 to 3"
    inside = tables("age", [100, 100, 100, 100], 10.0).mean("age")
    assert inside.value == 1.5 and inside.note == ""


@pytest.mark.parametrize(("q", "low", "high"), [(0.5, 0, 10), (0.9, 10, 30)])
def test_a_quantile_of_a_real_attribute_is_somewhere_in_its_bin(q: float, low: float, high: float) -> None:
    found = tables("pay", [300, 100], 0.01).quantile("pay", q)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize("scale", [0.5, 2.0, 60.0])
def test_the_expected_error_is_that_of_the_law(scale: float) -> None:
    points = np.arange(-2000, 2001)
    law = np.exp(gaussian_log_pmf(scale, -2000, 2000))
    error = MarginalError.of(("age",), 4, "gaussian", scale, 1000)
    assert error.mean_absolute == pytest.approx(float(law @ np.abs(points)), rel=1e-3)
    assert error.deviation == pytest.approx(math.sqrt(float(law @ points**2)), rel=1e-6)
    assert float(law[np.abs(points) <= error.half_width].sum()) >= 0.95
    assert error.share == pytest.approx(error.deviation * 4 / 1000)
