"""The answer to a query: a row for each group, every number with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.statistics import estimates
from nabladp.mechanisms.statistics.blocks import Block, Part
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.estimates import Interval, Measured, quantile_of_noise
from nabladp.mechanisms.statistics.grids import Bins, strategy
from nabladp.mechanisms.statistics.pooling import Pool, Table
from nabladp.noise import variance
from nabladp.sql.query import Aggregate, Query
from nabladp.sql.released import Estimates, Groups, Released
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
        """One number of a part for every group."""
        values, variances = self.sums(number, kind, query, grouping)
        return Measured(values[:, column], math.sqrt(variances[column]))

    def sums(self, number: int, kind: str, query: Query, grouping: tuple[int, ...]) -> tuple[Floats, Floats]:
        """The numbers of a part, a row for every group, and the variance of each column: from all tables of these
        sums."""
        name = self._same_sums(self.calibration.plan.blocks[number], kind)
        if name not in self._pools:
            self._pools[name] = self._pool(name, kind)
        return self._pools[name].estimate([query.keys[i].text for i in grouping])

    @cached_property
    def _pools(self) -> dict[Any, Pool]:
        return {}

    def _same_sums(self, block: Block, kind: str) -> Any:
        """Blocks of the same filter and value measure the same sums by other keys; numbers of rows need no value."""
        keys, filters, value, apart = block.identity
        return (keys, filters, value, apart, kind) if apart else (filters, "" if kind == "count" else value, kind)

    def _pool(self, name: Any, kind: str) -> Pool:
        tables = []
        for number, block in enumerate(self.calibration.plan.blocks):
            for index, part in enumerate(block.parts):
                if part.kind == kind and self._same_sums(block, kind) == name:
                    tables.append(self._table(number, index))
        if name == (("", ""), "", "count"):
            tables.append(Table((), np.array([float(self.n)]), np.zeros(1)))  # the number of all rows is public
        return Pool(tables)

    def _table(self, number: int, index: int) -> Table:
        block, scales = self.calibration.plan.blocks[number], self.calibration.scales(number, index, self.n)
        values = np.asarray(self.numbers[number][index], dtype=np.float64)
        variances = [0.0 if scales is None else self._variance(scales[i]) for i in range(values.shape[1])]
        return Table(tuple(key.text for key in block.keys), values.reshape((*block.shape, -1)), np.array(variances))

    def _variance(self, scale: float) -> float:
        return variance("laplace" if self.calibration.pure else "gaussian", scale)

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
    answers, variances = asked.estimator.sums(asked.places["cdf"], "cdf", asked.query, asked.grouping)
    chosen = strategy(asked.bins.count, asked.estimator.calibration.pure)
    doubts = chosen.deviations * math.sqrt(variances[0])
    prefix = estimates.prefix_sums(answers, chosen)
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


@dataclass(frozen=True, eq=False)
class _Groups(Groups):
    """Groups of a query: the code of each key (−1 where it is summed over), and an interval for each aggregate."""

    labels: Sequence[Sequence[Any]]  # by key and code
    codes: Integers  # a row for each key
    intervals: Mapping[int, Interval]

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    def key(self, index: int) -> list[Any]:
        shown = (*self.labels[index], None)  # which -1 finds
        return [shown[code] for code in self.codes[index].tolist()]

    def is_summed(self, index: int) -> list[bool]:
        return [code < 0 for code in self.codes[index].tolist()]

    def aggregate(self, index: int) -> Estimates:
        return Estimates(*map(_numbers, self.intervals[index]))

    def select(self, chosen: Sequence[int]) -> _Groups:
        kept = np.asarray(chosen, dtype=np.int64)
        intervals = {i: Interval(*(part[kept] for part in own)) for i, own in self.intervals.items()}
        return replace(self, codes=self.codes[:, kept], intervals=intervals)

    def names(self) -> Iterator[str]:
        """Each group by its keys, without those that are summed over."""
        for codes in self.codes.T.tolist():
            yield " · ".join(str(own[code]) for own, code in zip(self.labels, codes, strict=True) if code >= 0)


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
        names = tuple(self.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    @cached_property
    def columns(self) -> dict[str, Sequence[Any]]:
        """Every column of the rows that HAVING and LIMIT leave, in order."""
        groups = self.groups
        if self.query.having is not None:
            groups = groups.select([i for i, holds in enumerate(self.query.having.values(groups)) if holds is True])
        for released, descending, nulls_first in reversed(self.query.order):
            groups = groups.select(_sort(released.values(groups), descending, nulls_first))
        if self.query.limit is not None:
            groups = groups.select(range(min(self.query.limit, len(groups))))
        columns: dict[str, Sequence[Any]] = {}
        for name, released in self.query.columns:
            if released.aggregates():
                found = released.estimates(groups)
                columns |= {name: found.values, f"{name}_low": found.lows, f"{name}_high": found.highs}
            else:
                columns[name] = released.values(groups)
        return columns

    @cached_property
    def groups(self) -> _Groups:
        """All declared groups, whatever HAVING and LIMIT leave of them."""
        shared = max((len(released.aggregates()) for _, released in self.query.columns), default=1)
        level = 1 - (1 - self.level) / max(1, shared)  # several aggregates in one column share its doubt
        codes = np.concatenate([self._codes(grouping) for grouping in self.query.grouping], axis=1)
        intervals = {}
        for index in range(len(self.query.aggregates)):
            found = [self.estimator.interval(self.number, own, index, level) for own in self.query.grouping]
            intervals[index] = Interval(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        return _Groups([key.labels for key in self.query.keys], codes, intervals)

    def _codes(self, grouping: tuple[int, ...]) -> Integers:
        shape = [self.query.keys[i].size for i in grouping]
        codes = np.full((len(self.query.keys), math.prod(shape)), -1, dtype=np.int64)
        if grouping:
            codes[list(grouping)] = np.indices(shape).reshape(len(shape), -1)
        return codes

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

        return pa.table({name: _column(values) for name, values in self.columns.items()})

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
        labels = tuple(self.groups.names())
        for name, released in self.query.columns:
            if released.aggregates():
                own, true = (released.estimates(side.groups) for side in (self, truth))
                interval = [_floats(own.lows), _floats(own.highs)]
                known = np.isfinite(interval[0]).all() and np.isfinite(interval[1]).all()
                values, exact = _floats(own.values), _floats(true.values)
                yield Compared.of(title + name, "number", values, exact, interval if known else None, labels=labels)

    def expected_half_width(self, released: Released) -> float | None:
        """Half of the interval in a group of average size with values in the middle of their range."""
        grouping = self.query.grouping[0]
        level = 1 - (1 - self.level) / max(1, len(released.aggregates()))
        middle = {i: self.estimator.expected(self.number, grouping, i, level) for i in released.aggregates()}
        one = _Groups([()] * len(self.query.keys), np.full((len(self.query.keys), 1), -1), middle)
        found = released.estimates(one.select([0]))
        low, high = found.lows[0], found.highs[0]
        return None if low is None or high is None or not math.isfinite(high - low) else (high - low) / 2

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Answer({len(self)} rows: {', '.join(self._names)})"


def _floats(values: Sequence[Any]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _numbers(values: Floats) -> list[float | None]:
    """NaN, the only number that differs from itself, is none."""
    return [value if value == value else None for value in values.tolist()]


def _sort(values: Sequence[Any], descending: bool, nulls_first: bool) -> list[int]:
    """The order of these values, as row indices; equal ones stay as they are."""
    present = [i for i, value in enumerate(values) if value is not None]
    absent = [i for i, value in enumerate(values) if value is None]
    ordered = sorted(present, key=values.__getitem__, reverse=descending)
    return [*absent, *ordered] if nulls_first else [*ordered, *absent]


def _column(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)
