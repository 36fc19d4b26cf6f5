"""What is measured for queries: blocks of integer sums over the same rows and values, and how far one row moves them.

A block holds everything that is measured for one grouping, one filter and one value. Its parts are vectors of whole
numbers, one for each group; a row adds φ(v) to those of its group if it passes the filter. [theorem]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.errors import DomainTooLarge
from nabladp.privacy.universe import Universe
from nabladp.sql.domains import Domain
from nabladp.sql.expressions import Expression
from nabladp.sql.query import Aggregate, Key, Query

MOST_NUMBERS = 1 << 26  # measured for one release
MOST_BINS = 1024
FINEST = 32  # bits of the grid of a centred sum
FINEST_TOTAL = 30  # of one from zero, whatever the number of rows: what it costs depends on the grid
FINEST_SQUARES = 20


# ---- grids and bins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Numbers as whole steps u: value = origin + step·u, for low ≤ u ≤ high."""

    origin: float
    step: float
    low: int
    high: int

    @classmethod
    def centred(cls, domain: Domain, bits: int) -> Grid:
        """Steps from the middle of the range, −K … K. Whole numbers take half steps, so that the middle is one."""
        if domain.whole:
            reach = int(domain.high) - int(domain.low)
            return cls((domain.low + domain.high) / 2, 0.5, -reach, reach)
        reach = 1 << bits
        middle = domain.low + (domain.high - domain.low) / 2
        return cls(middle, (domain.high - domain.low) / 2 / reach, -reach, reach)

    @classmethod
    def from_zero(cls, domain: Domain, bits: int) -> Grid:
        """Steps from zero, for sums that are not divided by a count."""
        if domain.whole:
            return cls(0.0, 1.0, min(0, int(domain.low)), max(0, int(domain.high)))
        step = max(abs(domain.low), abs(domain.high)) / (1 << bits) or 1.0
        return cls(0.0, step, math.floor(domain.low / step + 0.5), math.floor(domain.high / step + 0.5))

    @property
    def reach(self) -> int:
        return max(abs(self.low), abs(self.high))

    def steps(self, numbers: NDArray[Any]) -> Integers:
        """Clamped before the cast, so that nothing overflows."""
        if self.step == 0.5 and numbers.dtype.kind in "iu":
            return np.asarray(np.clip(2 * numbers.astype(np.int64) - int(2 * self.origin), self.low, self.high))
        if self.step == 1.0 and not self.origin and numbers.dtype.kind in "iu":
            return np.clip(numbers.astype(np.int64), self.low, self.high)
        scaled = np.floor((numbers.astype(np.float64) - self.origin) / self.step + 0.5)
        return np.asarray(np.clip(np.nan_to_num(scaled), self.low, self.high), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of a value for its quantiles: ``edges[k]`` is the largest value of bin k where values are listed, else its
    upper end."""

    values: Floats | None  # each value its own bin
    edges: Floats  # bins [e0, e1), …

    @classmethod
    def of(cls, domain: Domain) -> Bins:
        if domain.values is not None and len(domain.values) <= MOST_BINS:
            values = np.asarray(domain.values, dtype=np.float64)
            return cls(values, values)
        if domain.whole and domain.high - domain.low < MOST_BINS:
            values = np.arange(domain.low, domain.high + 1, dtype=np.float64)
            return cls(values, values)
        return cls(None, _growing(float(domain.low), float(domain.high)))

    @property
    def count(self) -> int:
        return len(self.edges) if self.values is not None else len(self.edges) - 1

    def index(self, numbers: NDArray[Any]) -> Integers:
        if self.values is not None:
            found = np.searchsorted(self.values, numbers.astype(np.float64), side="left")
        else:
            found = np.searchsorted(self.edges, numbers.astype(np.float64), side="right") - 1
        return np.clip(found, 0, self.count - 1).astype(np.int64)

    def bounds(self, index: int) -> tuple[float, float]:
        """Lowest and highest number of a bin."""
        if self.values is not None:
            return float(self.values[index]), float(self.values[index])
        return float(self.edges[index]), float(self.edges[index + 1])


def _growing(low: float, high: float) -> Floats:
    """Bins that grow away from the end nearest to zero, a thousandfold in all: money and counts need it."""
    if low < 0 < high:
        return np.asarray(np.linspace(low, high, MOST_BINS + 1))
    rate = math.log(1000) / MOST_BINS
    grown = np.expm1(rate * np.arange(MOST_BINS + 1)) / math.expm1(rate * MOST_BINS)
    return np.asarray(low + (high - low) * grown if low >= 0 else high - (high - low) * grown[::-1])


# ---- matrices for quantiles ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Strategy:
    """An integer matrix over the bins whose noisy answers give prefix sums: ``prefix @ answers`` estimates them."""

    matrix: Integers
    prefix: Floats
    member: int  # how far a row that comes moves the answers: squared (Gaussian), or in L1
    change: int  # how far a row that changes its value does

    @property
    def rows(self) -> int:
        return len(self.matrix)

    @cached_property
    def deviations(self) -> Floats:
        """Of each prefix sum, for noise of deviation 1 in each answer."""
        return np.asarray(np.sqrt((self.prefix**2).sum(axis=1)))


@lru_cache(maxsize=32)
def strategy(bins: int, pure: bool) -> Strategy:
    matrix = _tree(bins) if pure else _toeplitz(bins)
    if pure:
        member = int(np.abs(matrix).sum(axis=0).max())
        change = max(int(np.abs(matrix - matrix[:, [j]]).sum(axis=0).max()) for j in range(bins))
    else:
        gram = (matrix.astype(np.float64).T @ matrix).astype(np.int64)  # below 2^53, hence exact
        norms = np.diag(gram)
        member, change = int(norms.max()), int((norms[:, None] + norms[None, :] - 2 * gram).max())
    ones = np.tril(np.ones((bins, bins)))
    prefix = ones @ np.linalg.pinv(matrix.astype(np.float64))
    return Strategy(matrix, prefix, member, change)


def _toeplitz(bins: int) -> Integers:
    """The square root of the matrix of prefix sums, in steps of 1/256."""
    weights = np.ones(bins)
    for k in range(1, bins):
        weights[k] = weights[k - 1] * (2 * k - 1) / (2 * k)
    row, column = np.indices((bins, bins))
    return np.where(row >= column, np.rint(256 * weights)[np.clip(row - column, 0, None)], 0).astype(np.int64)


def _tree(bins: int) -> Integers:
    """Sums over blocks of 1, 4, 16, … bins."""
    rows: list[Integers] = []
    width = 1
    while width < bins or not rows:
        for start in range(0, bins, width):
            row = np.zeros(bins, np.int64)
            row[start : start + width] = 1
            rows.append(row)
        width *= 4
    return np.array(rows)


# ---- parts of a block ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One measured vector. Of its cost, a row that comes or goes takes ``member``, and one that changes its value
    ``change``.

    ``kind``: count (rows), values (rows with a value), sum, squares, cdf, total, distinct, or point (a quantile).
    """

    kind: str
    share: int  # of the budget, beside the other parts
    member: Fraction
    change: Fraction
    q: Fraction | None = None


def linear_parts(kinds: Iterable[str], pure: bool, bins: int) -> list[Part]:
    """Costs by role, as fractions of the part's own: see the table in PROOF.md. [roles]"""
    wanted = set(kinds)
    parts = []
    if "count" in wanted:
        parts.append(Part("count", 1, Fraction(1, 2), Fraction(0)))
    if "values" in wanted:
        parts.append(Part("values", 1, Fraction(1, 2), Fraction(0)))
    if "squares" in wanted:  # with its sum: b = 2a/K² (Gaussian) or a/(4K) keeps the change at that of the sum
        parts.append(Part("squares", 4, Fraction(5, 8) if pure else Fraction(3, 8), Fraction(1)))
    elif "sum" in wanted:
        parts.append(Part("sum", 2, Fraction(1, 2) if pure else Fraction(1, 4), Fraction(1)))
    if "cdf" in wanted:
        chosen = strategy(bins, pure)
        most = max(chosen.change, 2 * chosen.member)
        parts.append(Part("cdf", 2, Fraction(chosen.member, most), Fraction(chosen.change, most)))
    return parts


def total_part(grid: Grid, pure: bool) -> Part:
    """A sum that is not centred."""
    power = 1 if pure else 2
    member, change = grid.reach**power, (grid.high - grid.low) ** power
    most = max(2 * member, change, 1)
    return Part("total", 2, Fraction(member, most), Fraction(change, most))


def point_part(q: Fraction, pure: bool) -> Part:
    """A quantile by the exponential mechanism with the rank score."""
    larger = max(q, 1 - q)
    member = larger if pure else larger * larger
    most = max(2 * member, Fraction(1))
    return Part("point", 1, member / most, 1 / most, q)


@dataclass(frozen=True)
class Block:
    """``keys`` are the columns of its table of groups; ``value`` is None where only rows are counted."""

    keys: tuple[Key, ...]
    filters: tuple[Expression, ...]
    value: Expression | None
    parts: tuple[Part, ...]
    identity: tuple[Any, ...]

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(key.size for key in self.keys)

    @cached_property
    def bins(self) -> Bins | None:
        needs = any(part.kind in ("cdf", "point", "distinct") for part in self.parts)
        return Bins.of(self.value.domain) if self.value is not None and needs else None

    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Of the group keys, of the filter, of the value."""
        groups = {name for key in self.keys for name in key.expression.columns}
        filters = {name for condition in self.filters for name in condition.columns}
        values = self.value.columns if self.value is not None else ()
        return tuple(sorted(groups)), tuple(sorted(filters)), tuple(values)

    def role_costs(self, part: Part, universe: Universe) -> dict[str, Fraction]:
        """What each protected source pays for a part, over its cost: the most among its roles."""
        groups, filters, values = self.columns()
        costs: dict[str, Fraction] = {}
        for names, cost in ((groups, 2 * part.member), (filters, part.member), (values, self.value_cost([part]))):
            for source in universe.sources(names) - universe.public:  # [sources]
                costs[source] = max(costs.get(source, Fraction(0)), cost)
        return {source: cost for source, cost in costs.items() if cost}

    def value_cost(self, parts: Iterable[Part], units: Iterable[int] | None = None) -> Fraction:
        """What a change of the value costs in these parts together. A value that becomes NULL leaves all of them but
        the count of rows, as a row would that is filtered out: the worse of the two. [null]"""
        listed = tuple(parts)
        amounts = (1,) * len(listed) if units is None else tuple(units)
        change = sum((part.change * own for part, own in zip(listed, amounts, strict=True)), Fraction(0))
        if self.value is None or not self.value.domain.nullable:
            return change
        pairs = zip(listed, amounts, strict=True)
        return max(change, sum((part.member * own for part, own in pairs if part.kind != "count"), Fraction(0)))


# ---- from queries to blocks ------------------------------------------------------------------------------------------

_NEEDS = {
    "avg": ("values", "sum"),
    "var_pop": ("values", "squares"),
    "var_samp": ("values", "squares"),
    "stddev_pop": ("values", "squares"),
    "stddev_samp": ("values", "squares"),
    "sum": ("total",),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """All blocks of some queries, and for each query, grouping and aggregate, where its parts are measured."""

    queries: tuple[Query, ...]
    blocks: tuple[Block, ...]
    places: dict[tuple[int, tuple[int, ...], int], dict[str, int]]


def part_size(block: Block, part: Part, pure: bool) -> int:
    """Numbers of a part in every group."""
    if part.kind == "squares":
        return 2
    if part.kind == "cdf" and block.bins is not None:
        return strategy(block.bins.count, pure).rows
    return 1


def plan_blocks(queries: Sequence[Query], quantiles: str, pure: bool) -> Plan:
    builder = _Builder(quantiles, pure)
    for number, query in enumerate(queries):
        builder.add(number, query)
    plan = builder.plan(tuple(queries))
    numbers = sum(part_size(block, part, pure) * block.cells for block in plan.blocks for part in block.parts)
    if numbers > MOST_NUMBERS:
        raise DomainTooLarge(
            f"The queries take {numbers:,} noisy numbers; at most {MOST_NUMBERS:,} are measured.",
            fix="Group coarser, or ask for fewer quantiles by group.",
        )
    return plan


class _Builder:
    def __init__(self, quantiles: str, pure: bool) -> None:
        self.quantiles, self.pure = quantiles, pure
        self.kinds: dict[tuple[Any, ...], dict[Any, None]] = {}  # by block, what it has to give
        self.made: dict[tuple[Any, ...], tuple[tuple[Key, ...], tuple[Expression, ...], Expression | None]] = {}
        self.places: dict[tuple[int, tuple[int, ...], int], dict[str, tuple[Any, ...]]] = {}

    def add(self, number: int, query: Query) -> None:
        for grouping in query.grouping:
            measured = finest(query, grouping)
            values = [aggregate for aggregate in query.aggregates if aggregate.value is not None]
            for index, aggregate in enumerate(query.aggregates):
                self.places[number, grouping, index] = self._place(query, measured, grouping, aggregate, values)

    def _place(
        self,
        query: Query,
        measured: tuple[int, ...],
        grouping: tuple[int, ...],
        aggregate: Aggregate,
        others: Sequence[Aggregate],
    ) -> dict[str, tuple[Any, ...]]:
        if aggregate.function == "count_distinct":
            return {"distinct": self._need(query, grouping, aggregate, ("distinct",), own="distinct")}
        if aggregate.function == "quantile" and self.quantiles == "point":
            return {"point": self._need(query, grouping, aggregate, (("point", aggregate.q),), own="point")}
        if aggregate.value is None or (aggregate.function == "count" and not aggregate.value.domain.nullable):
            return {"count": self._count(query, measured, aggregate)}
        if aggregate.function == "count":
            return {"values": self._need(query, measured, aggregate, ("values",))}
        needs = ("values", "cdf") if aggregate.function == "quantile" else _NEEDS[aggregate.function]
        averaged = any(
            o.function not in ("sum", "count", "quantile", "count_distinct") and o.value_text == aggregate.value_text
            and o.filter_text == aggregate.filter_text for o in others
        )
        if aggregate.function == "sum" and averaged:
            needs = ("values", "sum")
        placed: dict[str, tuple[Any, ...]] = {}
        for kind in needs:
            if kind == "values" and not aggregate.value.domain.nullable:
                placed["count"] = self._count(query, measured, aggregate)
            else:
                placed[kind] = self._need(query, measured, aggregate, (kind,))
        return placed

    def _count(self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate) -> tuple[Any, ...]:
        """Rows are counted once for each grouping and filter; the count joins the first block that has them."""
        wanted = self._identity(query, grouping, aggregate)[:2]
        for identity, kinds in self.kinds.items():
            if identity[:2] == wanted and "count" in kinds:
                return identity
        return self._need(query, grouping, aggregate, ("count",))

    def _identity(self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate, own: str = "") -> tuple[Any, ...]:
        keys = tuple(query.keys[i].text for i in grouping)
        return (keys, (query.where_text, aggregate.filter_text), aggregate.value_text, own)

    def _need(
        self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate, kinds: Sequence[Any], own: str = ""
    ) -> tuple[Any, ...]:
        identity = self._identity(query, grouping, aggregate, own)
        filters = tuple(condition for condition in (query.where, aggregate.filter) if condition is not None)
        keys = tuple(query.keys[i] for i in grouping)
        self.made.setdefault(identity, (keys, filters, aggregate.value))
        self.kinds.setdefault(identity, {}).update(dict.fromkeys(kinds))
        return identity

    def plan(self, queries: tuple[Query, ...]) -> Plan:
        position = {identity: i for i, identity in enumerate(self.made)}
        blocks = tuple(self._block(identity) for identity in self.made)
        places = {key: {kind: position[own] for kind, own in place.items()} for key, place in self.places.items()}
        return Plan(queries, blocks, places)

    def _block(self, identity: tuple[Any, ...]) -> Block:
        keys, filters, value = self.made[identity]
        kinds = self.kinds[identity]
        bins = Bins.of(value.domain).count if value is not None and "cdf" in kinds else 1
        parts = linear_parts([kind for kind in kinds if isinstance(kind, str)], self.pure, bins)
        if "total" in kinds and value is not None:
            parts.append(total_part(Grid.from_zero(value.domain, FINEST_TOTAL), self.pure))
        if "distinct" in kinds:
            parts.append(Part("distinct", 1, Fraction(1, 2), Fraction(1, 2)))
        parts += [point_part(kind[1], self.pure) for kind in kinds if isinstance(kind, tuple)]
        return Block(keys, filters, value, tuple(parts), identity)


def finest(query: Query, grouping: tuple[int, ...]) -> tuple[int, ...]:
    """The grouping that is measured for this one: sums over finer groups need no noise of their own."""
    larger = [other for other in query.grouping if set(other) >= set(grouping)]
    maximal = [other for other in larger if not any(set(more) > set(other) for more in query.grouping)]
    return min(maximal, key=lambda chosen: (query.cells(chosen), chosen))
