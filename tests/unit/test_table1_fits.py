"""The fits behind ``bench table1``: exponents with intervals, straightness, crossings."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
XS = [4.0, 8.0, 16.0, 32.0, 64.0]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench._table1_fits")


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5])
def test_a_power_law_has_its_exponent_and_no_interval(fits: ModuleType, power: float) -> None:
    slope, low, high = fits.exponent(XS, [3 * x**power for x in XS], [0.0] * len(XS))
    assert (slope, low, high) == pytest.approx((power, power, power), abs=1e-9)


def test_what_is_no_power_law_has_a_wide_interval(fits: ModuleType) -> None:
    _, low, high = fits.exponent(XS, [max(1.0, x / 16) for x in XS], [0.0] * len(XS))
    assert low < 0.2 and high > 0.6


def test_the_interval_follows_the_errors_of_two_points(fits: ModuleType) -> None:
    slope, low, high = fits.exponent([1, math.e], [1.0, 1.0], [0.1, 0.1])
    assert slope == pytest.approx(0) and high - slope == pytest.approx(1.96 * math.sqrt(0.02)) == slope - low


def test_the_interval_holds_the_truth_as_often_as_it_says(fits: ModuleType) -> None:
    draw = np.random.default_rng(0)
    spread = 0.05
    held = 0
    for _ in range(1000):
        means = [x**0.5 * (1 + spread * draw.standard_normal()) for x in XS]
        _, low, high = fits.exponent(XS, means, [spread * mean for mean in means])
        held += low <= 0.5 <= high
    assert held >= 950


def test_straightness(fits: ModuleType) -> None:
    assert fits.r2([1, 2, 3], [5, 7, 9]) == pytest.approx(1)
    assert fits.r2([1, 2, 3, 4], [1, -1, -1, 1]) == pytest.approx(0)


def test_points_and_curves(fits: ModuleType) -> None:
    one = fits.point(4, [1.0, 3.0], 8.0)
    assert one == {"x": 4, "mean": 2.0, "error": 1.0, "bound": 8.0}
    points = [fits.point(x, [x**0.5], x) for x in XS]
    drawn = fits.curve("name", "person", "mechanism", "d", "error", {"k": 2}, points, "1/2")
    assert drawn["exponent"]["paper"] == "1/2"
    assert fits.summary(drawn) == pytest.approx({"measured": 0.5, "predicted": 1.0, "low": 0.5, "high": 0.5}, abs=2e-3)
    unbounded = fits.curve("name", "none", "mechanism", "d", "error", {}, [fits.point(x, [1.0]) for x in XS], "0")
    assert unbounded["exponent"]["predicted"] is None


def test_the_least_number(fits: ModuleType) -> None:
    for truth in (0.3, 7.0, 12_345.0):
        assert fits.least(lambda x, truth=truth: x >= truth, 100.0) == pytest.approx(truth, rel=1e-5)
