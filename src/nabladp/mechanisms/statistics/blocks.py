"""What is measured for queries: blocks of integer sums over the same rows and values, and how far one row moves them.

A block holds everything that is measured for one grouping, one filter and one value. Its parts are vectors of whole
numbers, one for each group; a row adds φ(v) to those of its group if it passes the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.errors import DomainTooLarge, QueryError, quote
from nabladp.mechanisms.statistics.grids import FINEST_TOTAL, Bins, Grid, strategy
from nabladp.privacy.universe import Universe
from nabladp.sql.domains import NULL, Domain
from nabladp.sql.expressions import Expression
from nabladp.sql.query import Aggregate, Key, Query

MOST_NUMBERS = 1 << 26  # measured for one release


# ---- parts of a block ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One measured vector. Of its cost, a row that comes or goes takes ``member``, and one that changes its value
    ``change``.

    ``kind``: count (rows), values (rows with a value), sum, squares, cdf, total, distinct, point (a quantile), people,
    or left_out.
    """

    kind: str
    share: int  # of the budget, beside the other parts
    member: Fraction
    change: Fraction
    q: Fraction = Fraction(0)  # the level of a quantile


def linear_parts(kinds: Iterable[str], pure: bool, bins: int) -> list[Part]:
    """Costs by role, as fractions of the part's own: see the table in PROOF.md.

    Shares let a sum and its count cost a key of groups alike: then a mean at either end of its range has the least
    error. The error of Laplace noise falls with the cost itself, not with its root, so squares take less of it.
    """
    wanted = set(kinds)  # [roles]
    parts = []
    if "count" in wanted:
        parts.append(Part("count", 1, Fraction(1, 2), Fraction(0)))
    if "values" in wanted:
        parts.append(Part("values", 1, Fraction(1, 2), Fraction(0)))
    if "squares" in wanted:  # with its sum: b = 2a/K² (Gaussian) or a/(4K) keeps the change at that of the sum
        parts.append(Part("squares", 2 if pure else 4, Fraction(5, 8) if pure else Fraction(3, 8), Fraction(1)))
    elif "sum" in wanted:
        parts.append(Part("sum", 1 if pure else 2, Fraction(1, 2) if pure else Fraction(1, 4), Fraction(1)))
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
    """A quantile by the exponential mechanism with the rank score. Beside a sum it takes half as much again of a
    Gaussian budget: of what it costs, a row that changes its group takes half."""
    larger = max(q, 1 - q)
    member = larger if pure else larger * larger
    most = max(2 * member, Fraction(1))
    return Part("point", 2 if pure else 3, member / most, 1 / most, q)


@dataclass(frozen=True)
class Block:
    """``keys`` are the columns of its table of groups; ``value`` is None where only rows are counted.

    With ``of_people``, a person adds one number to every group with rows of theirs: 1, or the sum of their values,
    clamped to ``bounds``. With ``left_out``, it is the number of their rows that are not used, up to this; then any
    attribute may decide, and ``decided_by`` names all. With ``once``, positions of keys, only a person's first row in
    each group of these keys is looked at.
    """

    keys: tuple[Key, ...]
    filters: tuple[Expression, ...]
    value: Expression | None
    parts: tuple[Part, ...]
    identity: Identity
    of_people: bool = False
    bounds: tuple[float, float] | None = None
    once: tuple[int, ...] = ()
    left_out: int = 0
    decided_by: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(key.size for key in self.keys)

    @cached_property
    def bins(self) -> Bins:
        """None where nothing is counted by value."""
        kinds = {part.kind for part in self.parts}
        if not kinds & {"cdf", "point", "distinct"}:
            return Bins(np.empty(0), np.empty(0))
        return Bins.of_distinct(self.domain) if "distinct" in kinds else Bins.of(self.domain)

    @property
    def domain(self) -> Domain:
        """Of the value."""
        return NULL if self.value is None else self.value.domain

    @property
    def total_domain(self) -> Domain:
        """Of what is added up, which is not always the value of a row."""
        return self.domain if self.bounds is None else clamped(self.domain, self.bounds)

    @property
    def by_person(self) -> bool:
        """Whether all rows of a person are needed together."""
        return self.of_people or bool(self.once)

    @property
    def groups_of_one(self) -> int:
        """In how many groups one person can be at most, whatever the number of rows."""
        return math.prod(self.keys[i].size for i in self.once) if self.once else self.cells

    @property
    def deciding_columns(self) -> set[str]:
        """The columns that decide which of a person's rows are looked at: those of the keys of ``once``, also where
        WHERE leaves a key a single value. Rows with other values are a group of their own there, which nobody sees."""
        return {name for i in self.once for name in self.keys[i].expression.columns}  # [deciding]

    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Of the group keys, of the filter, of the value. A key of a single group moves no row to another; where it
        decides which row is looked at, it is a condition."""
        groups = {name for key in self.keys if key.size > 1 for name in key.expression.columns}
        filters = {name for condition in self.filters for name in condition.columns}
        filters |= self.deciding_columns - groups | {*self.decided_by}  # [left-out]
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
        the count of rows, as a row would that is filtered out: the worse of the two."""
        listed = tuple(parts)  # [null]
        amounts = (1,) * len(listed) if units is None else tuple(units)
        change = sum((part.change * own for part, own in zip(listed, amounts, strict=True)), Fraction(0))
        if not self.domain.nullable or self.value is None:
            return change
        pairs = zip(listed, amounts, strict=True)
        return max(change, sum((part.member * own for part, own in pairs if part.kind != "count"), Fraction(0)))


def clamped(domain: Domain, bounds: tuple[float, float]) -> Domain:
    """The numbers between these bounds; whole ones, if those of the domain and the bounds are."""
    whole = domain.whole and all(float(bound).is_integer() for bound in bounds)
    low, high = (int(bound) if whole else float(bound) for bound in bounds)
    return Domain("number", domain.nullable, None, low, high, whole)


# ---- from queries to blocks ------------------------------------------------------------------------------------------

_APART = (
    "distinct",
    "point",
    "people",
    "left_out",
)  # measured for each grouping by itself: they do not add up over groups
Identity = tuple[tuple[str, ...], tuple[str, str], str, str]  # keys, filters, value, and what is measured apart


@dataclass(frozen=True, eq=False)
class Plan:
    """All blocks of some queries, and for each query, grouping and aggregate, where its parts are measured."""

    queries: tuple[Query, ...]
    blocks: tuple[Block, ...]
    places: dict[tuple[int, tuple[int, ...], int], dict[str, int]]
    sampling_error: bool = False  # whether intervals are about the population


def part_size(block: Block, part: Part, pure: bool) -> int:
    """Numbers of a part in every group."""
    if part.kind == "squares":
        return 2
    if part.kind == "cdf":
        return strategy(block.bins.count, pure).rows
    return 1


def plan_blocks(
    queries: Sequence[Query], quantiles: str, pure: bool, sampling_error: bool = False, once: Sequence[str] = ()
) -> Plan:
    builder = _Builder(queries, quantiles, pure, sampling_error, tuple(once))
    builder.add_all()
    plan = builder.plan(tuple(queries))
    numbers = sum(part_size(block, part, pure) * block.cells for block in plan.blocks for part in block.parts)
    if numbers > MOST_NUMBERS:
        raise DomainTooLarge(
            f"The queries take {numbers:,} noisy numbers; at most {MOST_NUMBERS:,} are measured.",
            fix="Group coarser, or ask for fewer quantiles by group.",
        )
    return plan


def check_once(names: Sequence[str], queries: Sequence[Query]) -> None:
    """Refuse a key by which not all groups are made: a person would have several rows in one of them."""
    for name in names:
        for query in queries:
            for grouping in query.grouping:
                if not any(query.keys[i].is_named(name) for i in grouping):
                    raise QueryError(
                        f"'one_row_per' names {quote(name)}, by which the query does not group everywhere.",
                        fix=f"Write GROUP BY {name}, without ROLLUP over it.",
                    )


class _Builder:
    def __init__(
        self, queries: Sequence[Query], quantiles: str, pure: bool, sampling_error: bool, once: tuple[str, ...]
    ) -> None:
        self.queries, self.quantiles, self.pure, self.sampling_error = queries, quantiles, pure, sampling_error
        self.once = once
        self.kinds: dict[Identity, dict[Any, None]] = {}  # by block, what it has to give
        self.made: dict[Identity, Block] = {}  # without its parts
        self.places: dict[tuple[int, tuple[int, ...], int], dict[str, Identity]] = {}
        self.orders: dict[frozenset[str], tuple[str, ...]] = {}  # one order for the same keys in any
        self.coarse: set[Identity] = set()  # measured beside finer groups, whose sums tell most of it
        self.finest: set[Identity] = set()

    def add_all(self) -> None:
        """First what has a value; then counts of rows, which join one of these blocks."""
        asked = [
            (number, grouping, index)
            for number, query in enumerate(self.queries)
            for grouping in query.grouping
            for index in range(len(query.aggregates))
        ]
        for number, grouping, index in asked:
            query, own = self.queries[number], dict[str, Identity]()
            for kind in self._kinds(query, query.aggregates[index]):
                if kind != "count":
                    own[kind] = self._need(query, grouping, query.aggregates[index], kind)
            self.places[number, grouping, index] = own
        for number, grouping, index in asked:
            query = self.queries[number]
            if "count" in self._kinds(query, query.aggregates[index]):
                self.places[number, grouping, index]["count"] = self._count(query, grouping, query.aggregates[index])

    def _kinds(self, query: Query, aggregate: Aggregate) -> tuple[str, ...]:
        """What an aggregate is made of. Rows with a value are all rows where it cannot be NULL."""
        rows = "values" if aggregate.value is not None and aggregate.value.domain.nullable else "count"
        if aggregate.function == "quantile":
            return ("point",) if self.quantiles == "point" else (rows, "cdf")
        if aggregate.function in ("sum", "avg") and self.sampling_error:
            return (rows, "squares")  # the variance of the values decides
        if aggregate.function == "sum":
            return (rows, "sum") if self._is_averaged(query, aggregate) else ("total",)
        known = {"count": (rows,), "count_distinct": ("distinct",), "avg": (rows, "sum")}
        known |= {"count_people": ("people",), "sum_per_person": ("people",), "rows_left_out": ("left_out",)}
        return known.get(aggregate.function, (rows, "squares"))

    def _is_averaged(self, query: Query, aggregate: Aggregate) -> bool:
        """Whether the mean or the variance of the same value is asked for: its sum then follows from these."""
        return any(
            other.function.startswith(("avg", "var", "stddev")) and other.identity[1:3] == aggregate.identity[1:3]
            for alike in self.queries
            if (alike.where_text, _key_texts(alike)) == (query.where_text, _key_texts(query))
            for other in alike.aggregates
        )

    def _count(self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate) -> Identity:
        """Rows are counted once for each grouping and filter, in the first block that has these. The number of all rows
        is public."""
        if not grouping and query.where is None and aggregate.filter is None:
            return self._need(query, grouping, replace(aggregate, value=None, value_text=""), "count", apart=True)
        measured = measured_for(query, grouping)
        wanted = self._identity(query, measured, aggregate, "count")[:2]
        alike = [identity for identity in self.kinds if identity[:2] == wanted and identity[3] == ""]
        holding = next((identity for identity in alike if "count" in self.kinds[identity]), None)
        chosen = holding or next(iter(alike), None)
        if chosen is None:
            return self._need(query, grouping, replace(aggregate, value=None, value_text=""), "count")
        self.kinds[chosen]["count"] = None
        self._sort(chosen, query, measured)
        return chosen

    def _sort(self, identity: Identity, query: Query, measured: tuple[int, ...]) -> None:
        if identity[3] or measured == finest(query, measured):
            self.finest.add(identity)
        else:
            self.coarse.add(identity)

    def _identity(self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate, kind: str) -> Identity:
        keys = tuple(query.keys[i].text for i in grouping)
        keys = self.orders.setdefault(frozenset(keys), keys)
        own = kind if kind in _APART else ""
        return (keys, (query.where_text, aggregate.filter_text), aggregate.value_text, own)

    def _need(
        self, query: Query, grouping: tuple[int, ...], aggregate: Aggregate, kind: str, apart: bool = False
    ) -> Identity:
        measured = grouping if apart or kind in _APART else measured_for(query, grouping)
        identity = self._identity(query, measured, aggregate, kind)
        self._sort(identity, query, measured)
        filters = tuple(condition for condition in (query.where, aggregate.filter) if condition is not None)
        named = {query.keys[i].text: query.keys[i] for i in measured}
        keys = tuple(named[text] for text in identity[0])
        once = tuple(i for i, key in enumerate(keys) if any(key.is_named(name) for name in self.once))
        of_people = kind in ("people", "left_out")
        more = (aggregate.bounds, once, aggregate.left_out, aggregate.decided_by)
        block = Block(keys, filters, aggregate.value, (), identity, of_people, *more)
        self.made.setdefault(identity, block)
        own = (kind, aggregate.q) if kind == "point" else kind
        self.kinds.setdefault(identity, {})[own] = None
        return identity

    def plan(self, queries: tuple[Query, ...]) -> Plan:
        position = {identity: i for i, identity in enumerate(self.made)}
        blocks = tuple(self._block(identity) for identity in self.made)
        places = {key: {kind: position[own] for kind, own in place.items()} for key, place in self.places.items()}
        return Plan(queries, blocks, places, self.sampling_error)

    def _block(self, identity: Identity) -> Block:
        block = self.made[identity]
        kinds, value = self.kinds[identity], block.value
        bins = Bins.of(value.domain).count if value is not None and "cdf" in kinds else 1
        parts = linear_parts([kind for kind in kinds if isinstance(kind, str)], self.pure, bins)
        if "total" in kinds and value is not None:
            parts.append(total_part(Grid.from_zero(value.domain, FINEST_TOTAL), self.pure))
        if "people" in kinds and value is not None:
            parts.append(
                replace(total_part(Grid.from_zero(block.total_domain, FINEST_TOTAL), self.pure), kind="people")
            )
        elif "people" in kinds:
            parts.append(Part("people", 1, Fraction(1, 2), Fraction(0)))
        if "left_out" in kinds:
            parts.append(Part("left_out", 1, Fraction(1, 2), Fraction(0)))
        if "distinct" in kinds:
            parts.append(Part("distinct", 1, Fraction(1, 2), Fraction(1, 2)))
        parts += [point_part(kind[1], self.pure) for kind in kinds if isinstance(kind, tuple)]
        times = self._times(identity)
        return replace(block, parts=tuple(replace(part, share=times * part.share) for part in parts))

    def _times(self, identity: Identity) -> int:
        """Sums over finer groups tell most of the coarser ones, which take a small share for themselves."""
        coarse = self.coarse - self.finest
        if not coarse or identity in coarse:
            return 1
        return max(9, 3 * len({keys for keys, *_ in coarse}))


def _key_texts(query: Query) -> set[frozenset[str]]:
    """The keys of all its groupings."""
    return {frozenset(query.keys[i].text for i in grouping) for grouping in query.grouping}


_FEW_CHILDREN = 4  # up to so many groups, their sum is as good as a measurement of its own


def measured_for(query: Query, grouping: tuple[int, ...]) -> tuple[int, ...]:
    """The grouping itself; or where its finest groups are few, these, over which it is summed."""
    chosen = finest(query, grouping)
    return grouping if query.cells(chosen) > _FEW_CHILDREN * query.cells(grouping) else chosen


def finest(query: Query, grouping: tuple[int, ...]) -> tuple[int, ...]:
    """The finest grouping of the query over whose groups this one can be summed."""
    larger = [other for other in query.grouping if set(other) >= set(grouping)]
    maximal = [other for other in larger if not any(set(more) > set(other) for more in query.grouping)]
    return min(maximal, key=lambda chosen: (query.cells(chosen), chosen))
