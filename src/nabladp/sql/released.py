"""What a query makes of released values: arithmetic and conditions over aggregates and keys. Free, as the noise is in.

Every value comes with an interval; those of an expression follow from those of the aggregates in it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Value = Any  # a number, a text, a truth value, or None for NULL
Range = tuple[float, float]
Ends = Callable[..., Range | None]


@dataclass(frozen=True)
class Estimate:
    """A released number with an interval; ``value`` is None where the noise hides it. Keys and constants are exact."""

    value: Value
    low: float | None = None
    high: float | None = None

    @classmethod
    def exact(cls, value: Value) -> Estimate:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls(value, float(value), float(value))
        return cls(value)


class Cell(ABC):
    """One group of an answer."""

    @abstractmethod
    def key(self, index: int) -> Value: ...

    @abstractmethod
    def aggregate(self, index: int) -> Estimate: ...


# ---- expressions over released values --------------------------------------------------------------------------------


class Released(ABC):
    """An expression over released values."""

    @abstractmethod
    def estimate(self, cell: Cell) -> Estimate: ...

    @abstractmethod
    def aggregates(self) -> frozenset[int]:
        """The aggregates that it depends on."""

    def value(self, cell: Cell) -> Value:
        return self.estimate(cell).value


@dataclass(frozen=True)
class KeyValue(Released):
    """A key as it is shown."""

    index: int

    def estimate(self, cell: Cell) -> Estimate:
        return Estimate.exact(cell.key(self.index))

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class KeyMeaning(Released):
    """A function of a key by its labels: its value in expressions, or its rank in an order. NULL for other labels."""

    index: int
    meaning: Mapping[Any, Value]

    def estimate(self, cell: Cell) -> Estimate:
        return Estimate.exact(self.meaning.get(cell.key(self.index)))

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class AggregateValue(Released):
    index: int

    def estimate(self, cell: Cell) -> Estimate:
        return cell.aggregate(self.index)

    def aggregates(self) -> frozenset[int]:
        return frozenset((self.index,))


@dataclass(frozen=True)
class ConstantValue(Released):
    constant: Value

    def estimate(self, cell: Cell) -> Estimate:
        return Estimate.exact(self.constant)

    def aggregates(self) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class Computed(Released):
    """A function of others. ``ends``: its interval from theirs, None where it has none."""

    arguments: tuple[Released, ...]
    compute: Callable[..., Value]
    ends: Ends

    def estimate(self, cell: Cell) -> Estimate:
        estimates = [argument.estimate(cell) for argument in self.arguments]
        value = self.compute(*(estimate.value for estimate in estimates))
        ranges = [(own.low, own.high) for own in estimates if own.low is not None and own.high is not None]
        interval = self.ends(*ranges) if len(ranges) == len(estimates) else None
        if interval is None or any(math.isnan(end) for end in interval):
            return Estimate(value)
        return Estimate(value, *interval)

    def aggregates(self) -> frozenset[int]:
        return frozenset().union(*(argument.aggregates() for argument in self.arguments))


@dataclass(frozen=True)
class SortKey(Released):
    """Something to sort by: numbers come before text, so that any two values can be compared."""

    released: Released

    def estimate(self, cell: Cell) -> Estimate:
        value = self.released.value(cell)
        return Estimate(None if value is None else (isinstance(value, str), value))

    def aggregates(self) -> frozenset[int]:
        return self.released.aggregates()
