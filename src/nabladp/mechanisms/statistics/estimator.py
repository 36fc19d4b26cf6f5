"""From released numbers to estimates: every aggregate of every grouping, with its interval. Post-processing only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.intervals import Interval, quantile_of_noise
from nabladp.mechanisms.pooling import Pool, Table
from nabladp.mechanisms.statistics import estimates, sampling
from nabladp.mechanisms.statistics.blocks import Block, Part
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.estimates import Measured
from nabladp.mechanisms.statistics.grids import Bins, strategy
from nabladp.noise import variance
from nabladp.sql.query import Aggregate, Query

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
        if name == (("", ""), "", "count") and not any(block.once for block in self.calibration.plan.blocks):
            tables.append(Table((), np.array([float(self.n)]), np.zeros(1)))  # the number of all rows is public
        return Pool(tables)

    def _table(self, number: int, index: int) -> Table:
        block, scales = self.calibration.plan.blocks[number], self.calibration.scales(number, index, self.n)
        values = np.asarray(self.numbers[number][index], dtype=np.float64)
        noise = {scale: self._variance(scale) for scale in set(scales or ())}
        variances = [0.0 if scales is None else noise[scales[i]] for i in range(values.shape[1])]
        return Table(tuple(key.text for key in block.keys), values.reshape((*block.shape, -1)), np.array(variances))

    def _variance(self, scale: float) -> float:
        return variance("laplace" if self.calibration.pure else "gaussian", scale)

    def expected(self, number: int, grouping: tuple[int, ...], index: int, level: float) -> Interval:
        """As if every group had the average number of rows, and every value lay in the middle of its range."""
        return self._average.interval(number, grouping, index, level)

    @cached_property
    def _average(self) -> Estimator:
        return replace(self, numbers=_Average(self.calibration, self.n))

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
        self._known: dict[int, list[Floats]] = {}

    def __len__(self) -> int:
        return len(self.calibration.plan.blocks)

    def __getitem__(self, number: Any) -> Any:
        block = self.calibration.plan.blocks[number]
        rows = self.n / block.cells
        if number not in self._known:
            self._known[number] = [np.tile(self._row(block, part, rows), (block.cells, 1)) for part in block.parts]
        return self._known[number]

    def _row(self, block: Block, part: Part, rows: float) -> Floats:
        if part.kind in ("count", "values") or (part.kind == "people" and block.value is None):
            return np.array([rows])
        if part.kind == "left_out":  # half of all that there may be, so that no end is near
            return np.array([rows * block.left_out / 2])
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
    def sampled(self) -> bool:
        """Whether intervals are about the population."""
        return self.estimator.calibration.plan.sampling_error

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
    found = estimates.count(asked.counts, asked.z, float(asked.estimator.n))
    return sampling.count(asked.counts, found, asked.z, asked.estimator.n) if asked.sampled else found


def _distinct(asked: _Asked) -> Interval:
    """A sample says nothing about the values that it lacks."""
    most = float(asked.bins.count)
    found = estimates.count(asked.part("distinct"), asked.z, most)
    return found._replace(high=np.full(len(found.high), most)) if asked.sampled else found


def _people(asked: _Asked) -> Interval:
    """Everybody has a row, so that there are no more people than rows."""
    return estimates.count(asked.part("people"), asked.z, float(asked.estimator.n))


def _left_out(asked: _Asked) -> Interval:
    """Who has rows that are left out has a row in use, too."""
    return estimates.count(asked.part("left_out"), asked.z, float(asked.estimator.n * asked.aggregate.left_out))


def _total_of_people(asked: _Asked) -> Interval:
    return estimates.total(asked.part("people"), asked.grid("people"), asked.z)


def _sum(asked: _Asked) -> Interval:
    if "total" in asked.places:
        return estimates.total(asked.part("total"), asked.grid("total"), asked.z)
    if not asked.sampled:
        return estimates.sum_from_mean(asked.part("sum"), asked.counts, asked.grid("sum"), asked.z)
    found = estimates.sum_from_mean(asked.part("squares"), asked.counts, asked.grid("squares"), asked.z)
    average, spread = _noise_mean(asked), _noise_variance(asked)
    return sampling.total(found, average, spread, asked.counts, asked.z, asked.estimator.n)


def _noise_mean(asked: _Asked) -> Interval:
    kind = "sum" if "sum" in asked.places else "squares"
    return estimates.mean(asked.part(kind), asked.counts, asked.grid(kind), asked.z)


def _mean(asked: _Asked) -> Interval:
    found = _noise_mean(asked)
    if not asked.sampled:
        return found
    grid = asked.grid("squares")
    ends = (grid.origin + grid.step * end for end in (grid.low, grid.high))
    return sampling.mean(found, _noise_variance(asked, sample=True), asked.counts, asked.level, *ends)


def _noise_variance(asked: _Asked, sample: bool = False) -> Interval:
    z = quantile_of_noise((1 + asked.level) / 2, asked.estimator.calibration.pure)
    sums, squares = asked.part("squares"), asked.part("squares", 1)
    return estimates.variance(sums, squares, asked.counts, asked.grid("squares"), z, sample)


def _variance(sample: bool, roots: bool) -> Callable[[_Asked], Interval]:
    def estimate(asked: _Asked) -> Interval:
        found = _noise_variance(asked, sample)
        if asked.sampled:
            found = sampling.variance(found, _noise_mean(asked), asked.counts, asked.grid("squares"), asked.z)
        return Interval(*map(np.sqrt, found)) if roots else found

    return estimate


def _quantile(asked: _Asked) -> Interval:
    if "point" in asked.places:
        return _point(asked)
    answers, variances = asked.estimator.sums(asked.places["cdf"], "cdf", asked.query, asked.grouping)
    chosen = strategy(asked.bins.count, asked.estimator.calibration.pure)
    q, prefix = float(asked.aggregate.q or 0), estimates.prefix_sums(answers, chosen)
    doubts = np.broadcast_to((chosen.deviations**2 * variances[0])[None, :], prefix.shape)
    if asked.sampled:
        doubts = doubts + sampling.rank_variance(asked.counts, q)[:, None]
    return estimates.quantile(prefix, np.sqrt(doubts), asked.counts, asked.bins, q, asked.z)


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
    "count_people": _people,
    "sum_per_person": _total_of_people,
    "rows_left_out": _left_out,
    "sum": _sum,
    "avg": _mean,
    "var_pop": _variance(sample=False, roots=False),
    "var_samp": _variance(sample=True, roots=False),
    "stddev_pop": _variance(sample=False, roots=True),
    "stddev_samp": _variance(sample=True, roots=True),
    "quantile": _quantile,
}
