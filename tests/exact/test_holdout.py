"""Counts of rows held out, exactly: by margin and label, for every neighbour and every set of attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.learners.halfspaces.holdout import (
    BINS,
    HeldRows,
    HoldoutPlan,
    Labels,
    Margins,
    bin_ends,
    label_count,
    logistic_curve,
    margin_bins,
    reach,
)
from nabladp.mechanisms.learners.halfspaces.robust_distance import Halfspace
from nabladp.mechanisms.mechanism import Law
from nabladp.noise.laws import gaussian_log_pmf
from nabladp.privacy import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema

ABY = Schema(tuple(Attribute(name, "boolean") for name in "aby"))
HALFSPACE = Halfspace((np.array([-70, 70]), np.array([-1, 1])), 1)


class HeldCounts(Auditable):
    """What a holdout publishes of a halfspace that is already known, where all rows are held out."""

    def __init__(self, plan: HoldoutPlan) -> None:
        self.plan = plan

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return self.plan.guarantee()

    def distribution(self, counts: Any) -> Law:
        exact = [*counts.fold(HeldRows(HALFSPACE, ("a", "b"), "y")).tolist(), label_count(counts, "y")]
        scales, rows = [self.plan.scale, *[self.plan.margin_scale] * (2 * BINS), self.plan.label_scale], counts.n
        ends = [round(12 * scale) for scale in scales]
        laws = [
            gaussian_log_pmf(scale, -end - own, rows + end - own)
            for own, scale, end in zip(exact, scales, ends, strict=True)
        ]
        return Law(tuple(laws), 12.0)


def plan(kind: type[HoldoutPlan] = HoldoutPlan) -> HoldoutPlan:
    return kind(Universe.of(ABY), frozenset("aby"), 0.5, UNIT // 2, True, frozenset("y"))


class OneCellMoves(HoldoutPlan):
    def _touch(self, sources: frozenset[str], moved: int, scale: float) -> Guarantee:
        return super()._touch(sources, 1, scale)


class CellsAreFree(HoldoutPlan):
    """The same rows were counted already."""

    def guarantee(self) -> Guarantee:
        return self._touch(self.touched, 1, self.scale) + self._touch(self.label, 1, self.label_scale)


class LabelsAreFree(HoldoutPlan):
    """How frequent a label is says nothing about a person."""

    def guarantee(self) -> Guarantee:
        return self._touch(self.touched, 1, self.scale) + self._touch(self.touched, 2, self.margin_scale)


class LabelsAreChargedToFeatures(HoldoutPlan):
    def _touch(self, sources: frozenset[str], moved: int, scale: float) -> Guarantee:
        return super()._touch(self.touched - self.label if sources == self.label else sources, moved, scale)


def test_counts_by_margin_lose_no_more_than_claimed_and_reach_it() -> None:
    for rows in (1, 2):
        audited = exact_audit(HeldCounts(plan()), ABY, rows)
        assert audited.passed and audited.tightest.tightness > 0.99
    claim = plan().guarantee()
    assert claim.rho(["a", "b", "y"]) == pytest.approx(0.5)  # the whole of the holdout's budget
    assert claim.rho(["a", "b"]) == pytest.approx(0.45)  # features pay nothing for the label's count


@pytest.mark.parametrize("fault", [OneCellMoves, CellsAreFree, LabelsAreFree, LabelsAreChargedToFeatures])
def test_counts_by_margin_that_are_charged_too_little_are_refuted(fault: type[HoldoutPlan]) -> None:
    assert not exact_audit(HeldCounts(plan(fault)), ABY, 1).passed


def test_every_margin_has_one_bin_and_signs_are_kept_apart() -> None:
    most = reach(HALFSPACE)
    sums = np.arange(-most, most + 1)
    bins, ends = margin_bins(sums, most), bin_ends(most)
    assert most == 72 and len(ends) == BINS and ends[0][0] == -most and ends[-1][1] == most
    assert (np.diff(bins) >= 0).all() and set(bins.tolist()) == set(range(BINS))
    assert ((bins >= BINS // 2) == (sums >= 0)).all()
    for own, chosen in zip(sums.tolist(), bins.tolist(), strict=True):
        low, high = ends[chosen]
        assert low - 1 <= own <= high + 1  # ends are not whole
    assert margin_bins(np.zeros(3, np.int64), 0).tolist() == [BINS // 2] * 3


def test_a_probability_is_as_often_true_as_it_says() -> None:
    """Labels drawn from a logistic curve over many margins, and from no curve at all over three."""
    draws = np.random.default_rng(4)
    many = draws.normal(0, 9, 400_000).astype(np.int64).clip(-72, 72)
    few = np.array([-72, -18, 20])[draws.integers(3, size=400_000)]
    for sums, true in ((many, 1 / (1 + np.exp(-(0.2 * many - 0.7)))), (few, np.where(few > 0, 0.99, 0.25))):
        second = draws.random(len(sums)) < true
        bins = margin_bins(sums, 72)
        cells = np.bincount(2 * bins + second, minlength=2 * BINS).reshape(BINS, 2)
        noisy = cells + np.rint(draws.normal(0, 30, cells.shape)).astype(int)
        margins = Margins(72, tuple(map(tuple, noisy.tolist())), 30.0)
        for chosen in np.unique(bins):
            inside = bins == chosen
            if inside.sum() > 2000:
                assert abs(margins.probability(sums[inside]).mean() - true[inside].mean()) < 0.03
        assert (np.diff(margins.shares) >= 0).all() and (margins.shares > 0).all() and (margins.shares < 1).all()
        assert Margins.from_json({"most": 72, "counts": noisy.tolist(), "scale": 30.0}) == margins
        assert isinstance(margins.table(), pa.Table)


def test_the_curve_is_the_likeliest_where_undamped_steps_swing_to_and_fro() -> None:
    middles, counts = np.array([-0.75, -0.375, 0.375]), np.array([[900.0, 0.0], [1500.0, 500.0], [0.0, 900.0]])
    slope, start = logistic_curve(middles, counts)
    shares = 1 / (1 + np.exp(-(slope * middles + start)))
    np.testing.assert_allclose(shares, [0, 0.25, 1], atol=0.02)


@pytest.mark.parametrize("counts", [np.zeros((BINS, 2)), -np.ones((BINS, 2)), np.eye(BINS)[:, :2] * 1e9])
def test_the_curve_is_finite_whatever_the_noise(counts: Any) -> None:
    middles = np.linspace(-1, 1, BINS)
    assert np.isfinite(logistic_curve(middles, counts)).all()


def test_the_share_of_the_more_frequent_label_is_never_below_a_half() -> None:
    for second, code, share in ((30, 0, 0.7), (70, 1, 0.7), (-3, 0, 1.0), (50, 1, 0.5), (104, 1, 1.0)):
        labels = Labels(100, second, 2.0)
        low, high = labels.interval()
        assert (labels.more_frequent, labels.majority) == (code, share) and 0.5 <= low <= share <= high <= 1
        assert Labels.from_json({"rows": 100, "second": second, "scale": 2.0}) == labels


def test_the_label_is_counted_without_noise_where_it_is_public() -> None:
    free = HoldoutPlan(Universe.of(ABY), frozenset("ab"), 0.5, UNIT // 2)
    assert free.label_scale == 0.0 and free.scale == pytest.approx(1.0)  # all of the budget is for right answers
    assert [use.what for use in free.noise_uses(10)] == ["the rows held out", "the number of right predictions"]
