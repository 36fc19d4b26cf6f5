"""The answer to a query: a row for each group, every number with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.statistics import estimates
from nabladp.mechanisms.statistics.blocks import Block, Part
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.estimates import Interval, Measured, quantile_of_noise
from nabladp.mechanisms.statistics.grids import Bins, strategy
from nabladp.noise import variance
from nabladp.sql.query import Aggregate, Query
from nabladp.sql.released import Cell, Estimate, Released
from nabladp.views.compared import Compared

if TYPE_CHECKING:
    import pyarrow as pa

LEVEL = 0.95
Numbers = Sequence[Sequence[Any]]  # by block and part: an array with a row for each group


@dataclass(frozen=True, eq=False)
class Estimator:
    """Turns the released numbers of one release into estimates, grouping by grouping."""

    calibration: Calibration
    numbers: Numbers
    n: int

    def measured(self, number: int, kind: str, query: Query, grouping: tuple[int, ...], column: int = 0) -> Measured:
        """One number of a part for every group, summed over finer groups where the part was measured for these."""
        block = self.calibration.plan.blocks[number]
        index = next(i for i, part in enumerate(block.parts) if part.kind == kind)
        values = np.asarray(self.numbers[number][index], dtype=np.float64)[:, column].reshape(block.shape)
        scales = self.calibration.scales(number, index, self.n)
        summed, merged = self._sum(values, number, query, grouping)
        deviation = 0.0 if scales is None else self._deviation(scales[column])
        return Measured(summed.ravel(), deviation * math.sqrt(merged))

    def _deviation(self, scale: float) -> float:
        return math.sqrt(variance("laplace" if self.calibration.pure else "gaussian", scale))

    def _sum(self, values: Floats, number: int, query: Query, grouping: tuple[int, ...]) -> tuple[Floats, int]:
        keys = self.calibration.plan.blocks[number].keys
        kept = {query.keys[i].text for i in grouping}
        axes = tuple(i for i, key in enumerate(keys) if key.text not in kept)
        merged = math.prod(keys[i].size for i in axes)
        return np.asarray(values.sum(axis=axes)), merged

    def expected(self, number: int, grouping: tuple[int, ...], index: int, level: float) -> Interval:
        """As if every group had the average number of rows, and every value lay in the middle of its range."""
        return replace(self, numbers=_Average(self.calibration, self.n)).interval(number, grouping, index, level)

    def interval(self, query_number: int, grouping: tuple[int, ...], index: int, level: float) -> Interval:
        plan = self.calibration.plan
        query = plan.queries[query_number]
        aggregate, places = query.aggregates[index], plan.places[query_number, grouping, index]
        z = quantile_of_noise(level, self.calibration.pure)
        return _ESTIMATES[aggregate.function](_Asked(self, query, grouping, aggregate, places, z, level))


class _Average(Sequence[Sequence[Any]]):
    """Numbers to expect: rows spread evenly over groups, values in the middle of their range, or spread over it."""

    def __init__(self, calibration: Calibration, n: int) -> None:
        self.calibration, self.n = calibration, n

    def __len__(self) -> int:
        return len(self.calibration.plan.blocks)

    def __getitem__(self, number: Any) -> Any:
        block = self.calibration.plan.blocks[number]
        rows = self.n / block.cells
        return [np.tile(self._row(block, part, rows), (block.cells, 1)) for part in block.parts]

    def _row(self, block: Block, part: Part, rows: float) -> Floats:
        if part.kind in ("count", "values"):
            return np.array([rows])
        if part.kind == "distinct":
            return np.array([min(rows, block.bins.count)])
        if part.kind == "squares":
            reach = self.calibration.grid(block, part, self.n).reach
            return np.array([0.0, -rows * reach**2 / 3])
        if part.kind == "cdf":
            chosen = strategy(block.bins.count, self.calibration.pure)
            return np.asarray(chosen.matrix @ np.full(block.bins.count, rows / block.bins.count))
        if part.kind == "point":
            return np.array([block.bins.count // 2])
        return np.zeros(1)


@dataclass(frozen=True)
class _Asked:
    """One aggregate of one grouping."""

    estimator: Estimator
    query: Query
    grouping: tuple[int, ...]
    aggregate: Aggregate
    places: Mapping[str, int]
    z: float
    level: float

    def part(self, kind: str, column: int = 0) -> Measured:
        own = kind
        block = self.estimator.calibration.plan.blocks[self.places[kind]]
        if kind == "sum" and not any(part.kind == "sum" for part in block.parts):
            own = "squares"  # which holds the sum, too
        return self.estimator.measured(self.places[kind], own, self.query, self.grouping, column)

    @property
    def counts(self) -> Measured:
        return self.part("values" if "values" in self.places else "count")

    def grid(self, kind: str) -> Any:
        calibration = self.estimator.calibration
        block = calibration.plan.blocks[self.places[kind]]
        kinds = [part.kind for part in block.parts]
        own = kind if kind in kinds else "squares"
        return calibration.grid(block, block.parts[kinds.index(own)], self.estimator.n)

    @property
    def bins(self) -> Bins:
        kind = next(iter(set(self.places) & {"cdf", "point", "distinct"}))
        return self.estimator.calibration.plan.blocks[self.places[kind]].bins


def _count(asked: _Asked) -> Interval:
    return estimates.count(asked.counts, asked.z, float(asked.estimator.n))


def _distinct(asked: _Asked) -> Interval:
    return estimates.count(asked.part("distinct"), asked.z, float(asked.bins.count))


def _sum(asked: _Asked) -> Interval:
    if "total" in asked.places:
        return estimates.total(asked.part("total"), asked.grid("total"), asked.z)
    return estimates.sum_from_mean(asked.part("sum"), asked.counts, asked.grid("sum"), asked.z)


def _mean(asked: _Asked) -> Interval:
    return estimates.mean(asked.part("sum"), asked.counts, asked.grid("sum"), asked.z)


def _variance(sample: bool, roots: bool) -> Callable[[_Asked], Interval]:
    def estimate(asked: _Asked) -> Interval:
        z = quantile_of_noise((1 + asked.level) / 2, asked.estimator.calibration.pure)
        sums, squares = asked.part("squares"), asked.part("squares", 1)
        return estimates.variance(sums, squares, asked.counts, asked.grid("squares"), z, sample, roots)

    return estimate


def _quantile(asked: _Asked) -> Interval:
    if "point" in asked.places:
        return _point(asked)
    estimator, number = asked.estimator, asked.places["cdf"]
    calibration = estimator.calibration
    block = calibration.plan.blocks[number]
    index = next(i for i, part in enumerate(block.parts) if part.kind == "cdf")
    chosen = strategy(asked.bins.count, calibration.pure)
    scales = calibration.scales(number, index, estimator.n)
    deviation = 0.0 if scales is None else estimator._deviation(scales[0])
    answers = np.asarray(estimator.numbers[number][index], dtype=np.float64).reshape((*block.shape, -1))
    kept = {asked.query.keys[i].text for i in asked.grouping}
    axes = tuple(i for i, key in enumerate(block.keys) if key.text not in kept)
    merged = math.prod(block.keys[i].size for i in axes)
    summed = answers.sum(axis=axes).reshape(-1, chosen.rows)
    doubts = chosen.deviations * deviation * math.sqrt(merged)
    prefix = estimates.prefix_sums(summed, chosen)
    return estimates.quantile(prefix, doubts, asked.counts, asked.bins, float(asked.aggregate.q or 0), asked.z)


def _point(asked: _Asked) -> Interval:
    """The chosen value; the exponential mechanism gives no interval."""
    number = asked.places["point"]
    block = asked.estimator.calibration.plan.blocks[number]
    index = next(i for i, part in enumerate(block.parts) if part.q == asked.aggregate.q)
    chosen = np.asarray(asked.estimator.numbers[number][index])[:, 0]
    values = np.array([sum(asked.bins.bounds(int(k))) / 2 for k in chosen])
    nothing = np.full(len(values), np.nan)
    return Interval(values, nothing, nothing)


_ESTIMATES: dict[str, Callable[[_Asked], Interval]] = {
    "count": _count,
    "count_distinct": _distinct,
    "sum": _sum,
    "avg": _mean,
    "var_pop": _variance(sample=False, roots=False),
    "var_samp": _variance(sample=True, roots=False),
    "stddev_pop": _variance(sample=False, roots=True),
    "stddev_samp": _variance(sample=True, roots=True),
    "quantile": _quantile,
}


# ---- rows of an answer -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group(Cell):
    """One group: its keys by position in the query (None where it is summed over), its estimates by aggregate."""

    keys: Mapping[int, Any]
    estimates: Mapping[int, Estimate]

    def key(self, index: int) -> Any:
        return self.keys.get(index)

    def aggregate(self, index: int) -> Estimate:
        return self.estimates[index]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a query releases. ``rows`` has a dictionary for each group: every column, and for numbers ``…_low`` and
    ``…_high``, which hold the true value with probability ``level`` over the noise, each taken by itself."""

    query: Query
    estimator: Estimator
    number: int
    level: float = LEVEL

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        groups = self.groups
        if self.query.having is not None:
            groups = [group for group in groups if self.query.having.value(group) is True]
        for released, descending, nulls_first in reversed(self.query.order):
            groups = _sort(groups, released.value, descending, nulls_first)
        return [self._row(group) for group in groups[: self.query.limit]]

    @cached_property
    def groups(self) -> list[_Group]:
        """All declared groups, whatever HAVING and LIMIT leave of them."""
        shared = max((len(released.aggregates()) for _, released in self.query.columns), default=1)
        level = 1 - (1 - self.level) / max(1, shared)  # several aggregates in one column share its doubt
        return [group for grouping in self.query.grouping for group in self._groups(grouping, level)]

    def _groups(self, grouping: tuple[int, ...], level: float) -> Iterator[_Group]:
        intervals = [
            self.estimator.interval(self.number, grouping, index, level) for index in range(len(self.query.aggregates))
        ]
        labels = [self.query.keys[i].labels for i in grouping]
        for cell, codes in enumerate(np.ndindex(*(len(own) for own in labels))):
            keys = {i: labels[axis][code] for axis, (i, code) in enumerate(zip(grouping, codes, strict=True))}
            yield _Group(keys, {i: _estimate(interval, cell) for i, interval in enumerate(intervals)})

    def _row(self, group: _Group) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, released in self.query.columns:
            estimate = released.estimate(group)
            row[name] = estimate.value
            if released.aggregates():
                row[f"{name}_low"], row[f"{name}_high"] = estimate.low, estimate.high
        return row

    @property
    def key_columns(self) -> list[str]:
        return [name for name, released in self.query.columns if not released.aggregates()]

    @property
    def _names(self) -> list[str]:
        names: list[str] = []
        for name, released in self.query.columns:
            names += [name, f"{name}_low", f"{name}_high"] if released.aggregates() else [name]
        return names

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: _column([row[name] for row in self.rows]) for name in self._names})

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def numbers_by_row(self) -> Iterator[tuple[str, str, Any, Any, Any]]:
        """Each number by itself: its group, its column, value, low, high."""
        for row in self.rows:
            group = ", ".join(f"{name} = {row[name]}" for name in self.key_columns)
            for name, released in self.query.columns:
                if released.aggregates():
                    yield group, name, row[name], row[f"{name}_low"], row[f"{name}_high"]

    def compare(self, truth: Answer, title: str) -> Iterator[Compared]:
        """Every column for all declared groups, beside the same answer without noise."""
        labels = tuple(" · ".join(str(value) for value in group.keys.values()) for group in self.groups)
        for name, released in self.query.columns:
            if released.aggregates():
                own, true = ([released.estimate(group) for group in side.groups] for side in (self, truth))
                interval = [[_number(one.low) for one in own], [_number(one.high) for one in own]]
                known = np.isfinite(interval[0]).all() and np.isfinite(interval[1]).all()
                yield Compared.of(
                    title + name,
                    "number",
                    [_number(one.value) for one in own],
                    [_number(one.value) for one in true],
                    interval if known else None,
                    labels=labels,
                )

    def expected_half_width(self, released: Released) -> float | None:
        """Half of the interval in a group of average size with values in the middle of their range."""
        grouping = self.query.grouping[0]
        level = 1 - (1 - self.level) / max(1, len(released.aggregates()))
        middle = {
            i: _estimate(self.estimator.expected(self.number, grouping, i, level), 0) for i in released.aggregates()
        }
        estimate = released.estimate(_Group({}, middle))
        if estimate.low is None or estimate.high is None or not math.isfinite(estimate.high - estimate.low):
            return None
        return (estimate.high - estimate.low) / 2

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Answer({len(self.rows)} rows: {', '.join(self._names)})"


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _estimate(interval: Interval, cell: int) -> Estimate:
    value, low, high = (float(part[cell]) for part in interval)
    return Estimate(
        None if math.isnan(value) else value, None if math.isnan(low) else low, None if math.isnan(high) else high
    )


def _sort(groups: list[_Group], value: Callable[[_Group], Any], descending: bool, nulls_first: bool) -> list[_Group]:
    present = [group for group in groups if value(group) is not None]
    absent = [group for group in groups if value(group) is None]
    ordered = sorted(present, key=value, reverse=descending)
    return [*absent, *ordered] if nulls_first else [*ordered, *absent]


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)
