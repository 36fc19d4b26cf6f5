"""Rows that a halfspace did not learn from: how many it predicts right, and how probable a label is at which margin.

Beside them, how many rows of the table have the label's second value: an accuracy says little unless one knows how
often the more frequent value is right.

Which rows is drawn at random. Were it every tenth, then in a table sorted by age a change of one age would shift whole
stretches of rows from one side to the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, is_whole
from nabladp.errors import MechanismError
from nabladp.mechanisms.allocation import least_scale
from nabladp.mechanisms.learners.halfspaces.robust_distance import Halfspace
from nabladp.mechanisms.learners.halfspaces.task import FEWEST_UNITS
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import confidence
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho
from nabladp.tables import Counts, Kernel, PartOfRows
from nabladp.views.view import Series, View, count_of, format_figure, value_column

HALVINGS = 6  # of the largest possible margin: the bins are narrowest where predictions change
BINS = 2 * (HALVINGS + 1)
LABEL_PART = 5  # of the budget of the right answers, this part is for the label's count, which needs less of it
_MOST = 1 << 62


# ---- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HoldoutPlan:
    """``share`` of the rows; ``units`` of ρ for every protected source in ``touched``, half of them for the counts by
    margin where these are asked for. ``label`` are the sources of the label, which alone pay for its count."""

    universe: Universe
    touched: frozenset[str]
    share: float
    units: int
    by_margin: bool = False
    label: frozenset[str] = frozenset()

    def rows(self, n: int) -> int:
        return min(max(1, math.floor(self.share * n)), n - 1) if n else 0

    @cached_property
    def scale(self) -> float:
        """The noise scale of the holdout's count of right predictions, which any change in a row moves by at most
        one."""
        return self._scale(self._of_right_answers - self._of_label, 1)  # [holdout]

    @cached_property
    def label_scale(self) -> float:
        """The noise scale of the number of rows with the label's second value, which a change of the label moves by at
        most one, and no other change at all."""
        return self._scale(self._of_label, 1) if self.label else 0.0  # [majority]

    @property
    def _of_right_answers(self) -> int:
        return self.units - self.units // 2 if self.by_margin else self.units

    @property
    def _of_label(self) -> int:
        return self._of_right_answers // LABEL_PART if self.label else 0

    @cached_property
    def margin_scale(self) -> float:
        """The noise scale of the counts by margin and label: a row that changes leaves one cell for another."""
        return self._scale(self.units // 2, 2) if self.by_margin else 0.0  # [margins]

    def _scale(self, units: int, moved: int) -> float:
        if not self.touched:
            return 0.0
        if units < FEWEST_UNITS:
            raise MechanismError("The budget of the holdout is too small.", fix="Raise 'holdout_budget'.")
        return least_scale("gaussian", units, moved)

    def _touch(self, sources: frozenset[str], moved: int, scale: float) -> Guarantee:
        if not sources or not scale:
            return Guarantee.none(self.universe)
        return Guarantee.touch(self.universe, sorted(sources), Rho(moved / (2 * Fraction(scale) ** 2)))

    def guarantee(self) -> Guarantee:
        counts = self._touch(self.touched, 1, self.scale) + self._touch(self.touched, 2, self.margin_scale)
        return counts + self._touch(self.label, 1, self.label_scale)

    def noise_uses(self, n: int) -> list[NoiseUse]:
        """The noise of a holdout: which rows are held out, and noise on how many of them are predicted right; where
        asked for, on how many have which margin and label; and on how many rows of the table have which label."""
        uses = [NoiseUse.exactly("the rows held out", "uniform_subset", self.rows(n))]
        for what, numbers, moved, scale, sources in (
            ("the number of right predictions", 1, 1, self.scale, self.touched),
            ("the rows of each margin and label", 2 * BINS, 2, self.margin_scale, self.touched),
            ("the rows of each label", 1, 1, self.label_scale, self.label),
        ):
            if scale:
                charge = Charge.of_each(self._touch(sources, moved, scale), sources, moved)
                uses.append(NoiseUse.exactly(what, "discrete_gaussian", numbers, charge))
        return uses

    def split(self, counts: Counts, noise: NoiseSource) -> tuple[Counts, Counts]:
        """The table split into rows to learn from, and rows held out."""
        indices = noise.uniform_subset(counts.n, self.rows(counts.n))  # [row-indices]
        return PartOfRows(counts, indices, inside=False), PartOfRows(counts, indices)

    def measure(
        self, counts: Counts, rows: Counts, halfspace: Halfspace, features: tuple[str, ...], label: str, noise: Any
    ) -> Holdout:
        """The noisy counts of a learned halfspace on the rows held out, and of the label in the whole table."""
        kernel = HeldRows(halfspace, features, label) if self.by_margin else RightAnswers(halfspace, features, label)
        exact, margins = rows.fold(kernel), None
        right = int(exact[0]) + _noise(noise, self.scale, 1)[0]
        if self.by_margin:
            cells = exact[1:] + np.array(_noise(noise, self.margin_scale, 2 * BINS))
            margins = Margins(reach(halfspace), tuple(map(tuple, cells.reshape(BINS, 2).tolist())), self.margin_scale)
        second = label_count(counts, label) + _noise(noise, self.label_scale, 1)[0]
        return Holdout(rows.n, right, self.scale, margins, Labels(counts.n, second, self.label_scale))


def label_count(counts: Counts, label: str) -> int:
    """The number of rows with the label's second value."""
    return int(counts.marginals([(label,)])[0][1])


def _noise(noise: NoiseSource, scale: float, numbers: int) -> list[int]:
    return noise.discrete_gaussian(scale, numbers).tolist() if scale else [0] * numbers


class RightAnswers(Kernel):
    """A kernel: on how many rows a halfspace gives the label."""

    def __init__(self, halfspace: Halfspace, features: tuple[str, ...], label: str) -> None:
        self.halfspace, self.features, self.label = halfspace, features, label
        self.attributes = (*features, label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        return self._counts(*self._sums(batch))

    def _sums(self, batch: pa.RecordBatch) -> tuple[Integers, Integers]:
        codes = np.stack([batch.column(name).to_numpy().astype(np.int64) for name in self.features], axis=1)
        return self.halfspace.sums(codes), (batch.column(self.label).to_numpy() == 1).astype(np.int64)

    def _counts(self, sums: Integers, second: Integers) -> Integers:
        return np.array([np.count_nonzero((sums >= 0) == second)], dtype=np.int64)


class HeldRows(RightAnswers):
    """A kernel: the right answers, and then how many rows have which margin and label."""

    def _counts(self, sums: Integers, second: Integers) -> Integers:
        cells = 2 * margin_bins(sums, reach(self.halfspace)) + second
        return np.concatenate([super()._counts(sums, second), np.bincount(cells, minlength=2 * BINS)])


# ---- margins: bins that the halfspace alone decides ------------------------------------------------------------------


def reach(halfspace: Halfspace) -> int:
    """The largest margin that any row could have."""
    return abs(halfspace.intercept) + sum(int(np.abs(table).max()) for table in halfspace.tables)


def margin_bins(sums: Integers, most: int) -> Integers:
    """The bin of each margin: first those below 0, outermost first, then those from 0 up."""
    far = sum((np.abs(sums) > most >> halved for halved in range(1, HALVINGS + 1)), np.zeros(len(sums), np.int64))
    return np.where(sums >= 0, HALVINGS + 1 + far, HALVINGS - far)


def bin_ends(most: int) -> list[tuple[float, float]]:
    """The lowest and highest margin of each bin."""
    above = [0.0, *(most / 2**halved for halved in range(HALVINGS, -1, -1))]
    right = list(itertools.pairwise(above))
    return [*((-high, -low) for low, high in reversed(right)), *right]


@dataclass(frozen=True)
class Margins:
    """Noisy counts of rows held out, by the bin of their margin: (first, second) value of the label."""

    most: int
    counts: tuple[tuple[int, int], ...]
    scale: float

    @cached_property
    def shares(self) -> Floats:
        """The probability of the label's second value in each range of margins: its share in the noisy counts, pulled
        towards a logistic curve through all of them where noise hides it, and never falling as the margin grows."""
        from scipy.optimize import isotonic_regression

        counts = np.array(self.counts, dtype=np.float64)
        middles = np.array([(low + high) / 2 for low, high in bin_ends(self.most)]) / max(self.most, 1)
        slope, start = logistic_curve(middles, counts)
        rows = np.clip(counts.sum(axis=1), 0, None)
        weight = self.scale + 1  # of the curve, in rows: what noise could as well have made of an empty range
        shares = (np.clip(counts[:, 1], 0, rows) + weight * _share(slope * middles + start)) / (rows + weight)
        rising: Floats = isotonic_regression(shares, weights=rows + weight).x
        return rising

    def probability(self, sums: Integers | Floats) -> Floats:
        """The probability of the label's second value at these margins."""
        values: Floats = self.shares[margin_bins(np.asarray(sums), self.most)]
        return values

    def table(self) -> pa.Table:
        """A row for each bin; margins are in steps of the integer weights."""
        low, high = (np.array(ends) for ends in zip(*bin_ends(self.most), strict=True))
        first, second = zip(*self.counts, strict=True)
        columns = {"margin_from": low, "margin_to": high, "first": first, "second": second}
        return pa.table({**columns, "scale": [self.scale] * BINS, "probability": self.shares})

    def view(self, label: str, values: Sequence[str]) -> View:
        """The counts of both labels and the probability, by margin."""
        shown = self.table().select(["first", "second", "probability"]).to_pydict()
        ranges = [f"{low:,.6g} … {high:,.6g}" for low, high in bin_ends(self.most)]
        return View(
            title="how probable, by margin",
            kind="bars",
            columns=[
                value_column("margin"),
                *(value_column(f"{label} = {value}", "count", i) for i, value in enumerate(values, 1)),
                value_column("probability", "share", 3),
            ],
            rows=[list(row) for row in zip(ranges, *shown.values(), strict=True)],
            summary=count_of(BINS, "range"),
            facts=[("noise in a count", f"scale {format_figure(self.scale)}")],
            notes=["The probability is the share of rows held out; where noise hides it, other ranges decide, too."],
            series=[Series("probability", 3)],
            caption=f"The probability of {label} = {values[1]}",
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Margins:
        counts = [tuple(pair) for pair in data["counts"]]
        whole = all(len(pair) == 2 and all(is_whole(own, -_MOST, _MOST) for own in pair) for pair in counts)
        if not (whole and len(counts) == BINS and is_whole(data["most"], 0, _MOST) and _is_scale(data)):
            raise damaged("margins")
        return cls(data["most"], tuple((first, second) for first, second in counts), data["scale"])


STEPS, SHORTEST = 60, 1e-9


def logistic_curve(middles: Floats, counts: Floats) -> tuple[float, float]:
    """Slope and start of the logistic curve through noisy counts: Newton's steps on their likelihood, each halved until
    it helps. A range of which noise made a negative number has no weight; a little weight on a flat curve keeps the fit
    finite where margins separate the labels without error."""
    rows = np.clip(counts.sum(axis=1), 0, None)
    second = np.clip(counts[:, 1], 0, rows)
    if not rows.any():
        return 0.0, 0.0
    unit = math.sqrt(float(rows @ middles**2 / rows.sum())) or 1.0
    design = np.column_stack([middles / unit, np.ones(len(middles))])

    def loss(weights: Floats) -> float:
        values = design @ weights
        return float(rows @ np.logaddexp(0, values) - second @ values + weights @ weights / 2)

    weights = np.zeros(2)
    for _ in range(STEPS):
        chance = _share(design @ weights)
        slope = design.T @ (second - rows * chance) - weights
        curvature = design.T @ (design * (rows * chance * (1 - chance))[:, None]) + np.eye(2)
        step, part = np.linalg.solve(curvature, slope), 1.0
        while part > SHORTEST and loss(weights + part * step) > loss(weights) - part * float(slope @ step) / 10_000:
            part /= 2
        if part <= SHORTEST:
            break
        weights = weights + part * step
    return float(weights[0] / unit), float(weights[1])


def _share(values: Any) -> Any:
    return 0.5 * (1 + np.tanh(np.asarray(values) / 2))


# ---- how frequent the label's values are -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """Of ``rows`` rows of the table, about ``second`` have the label's second value; the count has noise of this
    scale."""

    rows: int
    second: int
    scale: float

    @property
    def more_frequent(self) -> int:
        """The code of the label's more frequent value."""
        return int(2 * self.second >= self.rows)

    @property
    def majority(self) -> float:
        """The share of rows with the more frequent value: how often it is right to predict nothing else."""
        return min(max(self.second, self.rows - self.second) / self.rows, 1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of this share for new people, from noise and sampling; it is never below a half."""
        low, high = share_interval(self.majority, self.rows, self.scale, level)
        return max(low, 0.5), high

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Labels:
        if not (is_whole(data["rows"], 1, _MOST) and is_whole(data["second"], -_MOST, _MOST) and _is_scale(data)):
            raise damaged("labels")
        return cls(data["rows"], data["second"], data["scale"])


def share_interval(value: float, rows: int, scale: float, level: float) -> tuple[float, float]:
    """The interval of a share of rows that were counted with noise of this scale, on new people, by a normal
    approximation."""
    confidence(level)
    share = (value * rows + 2) / (rows + 4)  # keeps some spread where all or none are counted
    spread = math.sqrt(share * (1 - share) / rows + (scale / rows) ** 2)
    width = NormalDist().inv_cdf((1 + level) / 2) * spread
    return max(value - width, 0.0), min(value + width, 1.0)


# ---- what a release keeps --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holdout:
    """Of ``rows`` rows held out, about ``right`` were predicted right; the count has noise of this scale. ``labels``
    says how frequent the label's values are; releases of earlier versions have none."""

    rows: int
    right: int
    scale: float
    margins: Margins | None = None
    labels: Labels | None = None

    @property
    def accuracy(self) -> float:
        return min(max(self.right / self.rows, 0.0), 1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the halfspace's accuracy on new people, from noise and sampling of the holdout."""
        return share_interval(self.accuracy, self.rows, self.scale, level)

    def counted(self) -> dict[str, Any]:
        return {"rows": self.rows, "right": self.right, "scale": self.scale}

    def to_json(self) -> dict[str, Any]:
        parts = {"margins": self.margins, "labels": self.labels}
        return self.counted() | {name: asdict(part) for name, part in parts.items() if part is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Holdout:
        if not (is_whole(data["rows"], 1, _MOST) and is_whole(data["right"], -_MOST, _MOST) and _is_scale(data)):
            raise damaged("holdout")
        margins = None if data.get("margins") is None else Margins.from_json(data["margins"])
        labels = None if data.get("labels") is None else Labels.from_json(data["labels"])
        return cls(data["rows"], data["right"], data["scale"], margins, labels)


def _is_scale(data: Mapping[str, Any]) -> bool:
    return is_number(data["scale"]) and 0 <= data["scale"] < _MOST
