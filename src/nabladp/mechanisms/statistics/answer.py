"""The answer to a query: a row for each group, every number with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.mechanisms.intervals import Interval
from nabladp.mechanisms.statistics.estimator import Estimator
from nabladp.sql.query import Query
from nabladp.sql.released import Estimates, Groups, KeyValue, Released
from nabladp.views.compared import Compared
from nabladp.views.exports import Exported

if TYPE_CHECKING:
    import pyarrow as pa

LEVEL = 0.95


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
class Answer(Exported):
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
    def headings(self) -> dict[str, str]:
        """The titles, with units, of columns that are attributes of the schema."""
        return {
            name: column.attribute.heading
            for name, released in self.query.columns
            if isinstance(released, KeyValue)
            and (column := self.query.keys[released.index].column) is not None
            and column.attribute.name == name
        }

    @property
    def _names(self) -> list[str]:
        names: list[str] = []
        for name, released in self.query.columns:
            names += [name, f"{name}_low", f"{name}_high"] if released.aggregates() else [name]
        return names

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: as_column(values) for name, values in self.columns.items()})

    def numbers_by_row(self) -> Iterator[tuple[dict[str, Any], str, Any, Any, Any]]:
        """Each number by itself: the keys of its group, its column, value, low, high."""
        for row in self.rows:
            group = {name: row[name] for name in self.key_columns}
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


def as_column(values: Sequence[Any]) -> pa.Array:
    """The values of a column of an answer in Arrow's form; of several types they become numbers or texts."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)
