"""What a query makes of released values: arithmetic and conditions over aggregates and keys. Free, as the noise is in.

Every value comes with an interval; those of an expression follow from those of the aggregates in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = Any  # a number, a text, a truth value, or None for NULL
Range = tuple[float, float]
Ends = Callable[..., Range | None]


@dataclass(frozen=True)
class Estimates:
    """Released numbers, one for each group, with their intervals. A value is None where the noise hides it; an end
    where there is no interval. Keys and constants are exact."""

    values: Sequence[Value]
    lows: Sequence[float | None]
    highs: Sequence[float | None]

    @classmethod
    def exact(cls, values: Sequence[Value]) -> Estimates:
        ends = [
            float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
            for value in values
        ]
        return cls(values, ends, ends)


class Groups(ABC):
    """Groups of an answer, in order: each method has an entry for every one."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def key(self, index: int) -> Sequence[Value]: ...

    @abstractmethod
    def is_summed(self, index: int) -> Sequence[bool]:
        """Whether this key is summed over: in the totals of ROLLUP, CUBE and GROUPING SETS."""

    @abstractmethod
    def aggregate(self, index: int) -> Estimates: ...


# ---- expressions over released values --------------------------------------------------------------------------------


class Released(ABC):
    """An expression over released values."""

    @abstractmethod
    def estimates(self, groups: Groups) -> Estimates: ...

    @abstractmethod
    def aggregates(self) -> frozenset[int]:
        """The aggregates that it depends on."""

    def values(self, groups: Groups) -> Sequence[Value]:
        return self.estimates(groups).values


@dataclass(frozen=True)
class KeyValue(Released):
    """A key as it is shown."""

    index: int

    def estimates(self, groups: Groups) -> Estimates:
        return Estimates.exact(self.values(groups))

    def values(self, groups: Groups) -> Sequence[Value]:
        return groups.key(self.index)

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class KeyMeaning(Released):
    """A function of a key by its labels: its value in expressions, or its rank in an order. NULL for other labels."""

    index: int
    meaning: Mapping[Any, Value]

    def estimates(self, groups: Groups) -> Estimates:
        return Estimates.exact([self.meaning.get(label) for label in groups.key(self.index)])

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class GroupingValue(Released):
    """GROUPING(a, b): a bit for each key, 1 where it is summed over; the first key has the highest."""

    indices: tuple[int, ...]

    def estimates(self, groups: Groups) -> Estimates:
        bits = [0] * len(groups)
        for index in self.indices:
            bits = [2 * own + summed for own, summed in zip(bits, groups.is_summed(index), strict=True)]
        return Estimates.exact(bits)

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class AggregateValue(Released):
    index: int

    def estimates(self, groups: Groups) -> Estimates:
        return groups.aggregate(self.index)

    def aggregates(self) -> frozenset[int]:
        return frozenset((self.index,))


@dataclass(frozen=True)
class ConstantValue(Released):
    constant: Value

    def estimates(self, groups: Groups) -> Estimates:
        return Estimates.exact([self.constant] * len(groups))

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class Computed(Released):
    """A function of others. ``ends``: its interval from theirs, None where it has none."""

    arguments: tuple[Released, ...]
    compute: Callable[..., Value]
    ends: Ends

    def estimates(self, groups: Groups) -> Estimates:
        parts = [argument.estimates(groups) for argument in self.arguments]
        values = [self.compute(*own) for own in zip(*(part.values for part in parts), strict=True)]
        ranges = [zip(part.lows, part.highs, strict=True) for part in parts]
        intervals = [self._interval(own) for own in zip(*ranges, strict=True)]
        return Estimates(values, [own[0] for own in intervals], [own[1] for own in intervals])

    def _interval(self, ranges: Sequence[tuple[float | None, float | None]]) -> tuple[float | None, float | None]:
        if any(low is None or high is None for low, high in ranges):
            return None, None
        interval = self.ends(*ranges)
        return (None, None) if interval is None or any(math.isnan(end) for end in interval) else interval

    def aggregates(self) -> frozenset[int]:
        return frozenset().union(*(argument.aggregates() for argument in self.arguments))


@dataclass(frozen=True)
class SortKey(Released):
    """Something to sort by: numbers come before text, so that any two values can be compared."""

    released: Released

    def estimates(self, groups: Groups) -> Estimates:
        values = self.released.values(groups)
        return Estimates.exact([None if value is None else (isinstance(value, str), value) for value in values])

    def aggregates(self) -> frozenset[int]:
        return self.released.aggregates()
