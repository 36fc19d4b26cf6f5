"""Tiny schemas, and tables over them to try: two that differ in one row, and there only on a set of attributes.

The row that differs comes from the mechanism's own ``hard_pairs`` and from random changes; the other rows are all like
it, all like its neighbour, half and half, or random. A derived column is the sum of its sources' codes, as far as its
values reach: a promise has to hold whatever the column is, and this one notices every single change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nabladp.arrays import Integers
from nabladp.errors import AuditError
from nabladp.mechanisms import Auditable
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema

Record = Mapping[str, int]
Rows = Sequence[Record]
CodedRows = tuple[tuple[int, ...], ...]  # codes of all attributes, row by row
Pair = tuple[CodedRows, CodedRows]
Pairs = Iterable[tuple[Rows, Rows]] | Callable[[tuple[str, ...]], Iterable[tuple[Rows, Rows]]]
Derive = Mapping[str, Callable[[Mapping[str, int]], int]]
_RANDOM = 2
MOST_PAIRS = 24


# ---- pairs of tables -------------------------------------------------------------------------------------------------


def derived_code(schema: Schema, name: str) -> Callable[[Mapping[str, int]], int]:
    """The code of a made-up derived column: the sum of its sources' codes, modulo how many values it has. A level is
    what it is in every table."""
    levels = known_levels(schema)
    if name in levels:
        return levels[name]
    sources, size = schema.derived[name], schema[name].size
    return lambda record: sum(record[source] for source in sources) % size


def known_levels(schema: Schema) -> dict[str, Callable[[Mapping[str, int]], int]]:
    """The code of each level of a source attribute."""

    def code_of(column: str, codes: Integers) -> Callable[[Mapping[str, int]], int]:
        return lambda record: int(codes[record[column]])

    return {name: code_of(*level) for name, level in schema.levels.items() if level[0] in schema.roots}


class PairMaker:
    """Pairs of tables of ``rows`` rows for any set of source attributes."""

    def __init__(
        self, mechanism: Auditable, schema: Schema, rows: int, noise: NoiseSource, derive: Derive | None = None
    ):
        self.mechanism, self.schema, self.rows, self.noise = mechanism, schema, rows, noise
        self.derive = {name: derived_code(schema, name) for name in schema.derived} | dict(derive or {})

    def pairs(self, attributes: Sequence[str]) -> list[Pair]:
        """Pairs of neighbouring tables that differ on this set of attributes, the likeliest to show a loss first."""
        changeable = [name for name in attributes if self.schema[name].size > 1]
        results: dict[Pair, None] = {}
        for one, other in self._records(changeable):
            for rest in self._backgrounds(one, other):
                pair = self._table([*rest, one]), self._table([*rest, other])
                if pair[0] != pair[1]:
                    results.setdefault(pair)
        return list(results)[:MOST_PAIRS]

    def given(self, pairs: Iterable[tuple[Rows, Rows]], attributes: Sequence[str]) -> list[Pair]:
        """Those of a user's pairs of neighbouring tables that differ within the set."""
        results = []
        for one, other in pairs:
            pair = self._table([self._whole(row) for row in one]), self._table([self._whole(row) for row in other])
            differing = self._differing(*pair)
            if differing and differing <= set(attributes):
                results.append(pair)
        return results

    def _records(self, attributes: Sequence[str]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        if not attributes:
            return
        ends = {name: self.schema[name].size - 1 for name in attributes}
        yield from self._hard(attributes)
        yield self._whole({}), self._whole(ends)
        if len(attributes) > 1:
            for name in attributes:  # who differs on less differs within the set, too
                yield from self._hard([name])
        for _ in range(_RANDOM):
            one = {name: self._draw_below(self.schema[name].size) for name in self.schema.roots}
            step = {name: 1 + self._draw_below(ends[name]) for name in attributes}
            other = {name: (one[name] + step[name]) % self.schema[name].size for name in attributes}
            yield self._whole(one), self._whole(one | other)

    def _hard(self, attributes: Sequence[str]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        for one, other in self.mechanism.hard_pairs(list(attributes)):
            kept = {name: code for name, code in other.items() if name in attributes}
            yield self._whole(one), self._whole({**one, **dict.fromkeys(attributes, 0), **kept})

    def _backgrounds(self, one: dict[str, int], other: dict[str, int]) -> Iterator[list[dict[str, int]]]:
        left = self.rows - 1
        yield [one] * left
        yield [other] * left
        yield [one] * (left // 2) + [other] * (left - left // 2)
        yield [self._whole({name: self._draw_below(self.schema[name].size) for name in self.schema.roots})] * left
        yield [self._whole({n: self._draw_below(self.schema[n].size) for n in self.schema.roots}) for _ in range(left)]

    def _whole(self, record: Record) -> dict[str, int]:
        """A whole record: all codes, 0 where unnamed, cut to the values there are; derived columns follow."""
        codes = {name: min(int(record.get(name, 0)), self.schema[name].size - 1) for name in self.schema.roots}
        return codes | {name: self.derive[name](codes) for name in self.schema.derived}

    def _table(self, rows: Iterable[Record]) -> CodedRows:
        return tuple(sorted(tuple(row[name] for name in self.schema.names) for row in rows))

    def _draw_below(self, bound: int) -> int:
        return int(self.noise.uniform_integers(bound, 1)[0]) if bound > 1 else 0

    def _differing(self, one: CodedRows, other: CodedRows) -> set[str]:
        """The source attributes on which the one differing row of two tables differs."""
        if len(one) != len(other):
            raise AuditError("A pair's tables have different numbers of rows.", fix="Change one row, add none.")
        apart = _without(one, other), _without(other, one)
        if len(apart[0]) > 1:
            raise AuditError("A pair's tables differ in several rows.", fix="Change one row only.")
        changed = zip(self.schema.names, *(part[0] for part in apart), strict=True) if apart[0] else ()
        return {name for name, a, b in changed if a != b and name in self.schema.roots}


def _without(one: Sequence[tuple[int, ...]], other: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    left = list(one)
    for row in other:
        if row in left:
            left.remove(row)
    return left


def default_sets(claim: Any, reads: Sequence[str], schema: Schema, most: int = 7) -> list[tuple[str, ...]]:
    """The sets of attributes to audit: the whole person, one that is not read, the costliest that are, the costliest
    pairs."""
    universe = claim.universe
    sources = universe.sources(reads)
    read = [name for name in universe.protected if name in sources]
    idle = [name for name in universe.protected if name not in sources and schema[name].size > 1]
    read.sort(key=lambda name: -claim.rho((name,)))
    pairs = sorted(itertools.combinations(read[:8], 2), key=lambda pair: -claim.rho(pair))
    chosen = [tuple(name for name in universe.protected if name in read)]
    chosen += [(name,) for name in idle[:1]]
    chosen += [(name,) for name in read[: max(1, most - 2 - len(chosen))]] + pairs[:2]
    result = dict.fromkeys(tuple(sorted(c, key=universe.protected.index)) for c in chosen if c)
    return list(result)[:most]


# ---- a tiny schema for the same mechanism ----------------------------------------------------------------------------
# Names, sources and what is public stay. Attributes that the mechanism reads keep their first two values, one of them
# three, as long as there are few records in all; the others keep one value, but for one that keeps two, to see that it
# costs nothing. Many faults show on so few values; those that need large domains or many attributes do not.

ONLY = "only"


def tiny_schema(
    mechanism: Auditable, schema: Schema, most: int = 64, *, also: Iterable[str] = (), whole: bool = False
) -> tuple[Schema, Derive]:
    """A tiny schema for audits, of at most about ``most`` records, and a function for each derived column.

    ``also``: attributes to be kept as if they were read. ``whole``: what is read keeps all its values, for a mechanism
    whose parameters speak of each of them, such as a weight for every value.
    """
    read = {*mechanism.reads(schema), *also}
    sizes = _sizes(mechanism.two_valued(), read, schema, most)
    if whole:
        sizes |= {name: schema[name].size for name in [*_behind(read, schema), *schema.derived] if name in schema}
    kept = tuple(  # a formula says what rows are made, not what they cost; a rule needs all values that it compares
        rule.text for rule in schema.inequalities if all(sizes[name] >= schema[name].size for name in rule.names)
    )
    small = Schema(tuple(shrink_attribute(replace(a, formula=""), sizes[a.name]) for a in schema), kept)
    return small, {name: derived_code(small, name) for name in small.derived}


def _behind(names: Iterable[str], schema: Schema) -> set[str]:
    return {root for name in names for root in schema.derived.get(name, (name,))}


def _sizes(labels: Sequence[str], read: Iterable[str], schema: Schema, most: int) -> dict[str, int]:
    behind = _behind(read, schema)
    order = sorted(schema.roots, key=lambda name: (name not in labels, name not in behind))
    idle = [name for name in order if name not in behind and name not in schema.public]
    sizes = dict.fromkeys(schema.roots, 1) | {name: min(2, schema[name].size) for name in schema.derived}
    for name in order:
        grown = min(2, schema[name].size)
        if (name in behind or name in idle[:1]) and math.prod(sizes[r] for r in schema.roots) * grown <= most:
            sizes[name] = grown
    for name in order:
        if name in behind and name not in labels and schema[name].size > 2 and sizes[name] == 2:
            if math.prod(sizes[r] for r in schema.roots) * 3 <= 2 * most:
                sizes[name] = 3
            break
    return sizes


def shrink_attribute(attribute: Attribute, size: int) -> Attribute:
    """An attribute cut to its first ``size`` values, for a tiny schema."""
    if attribute.is_computed:  # its source is cut as well: in a tiny schema any function of it will do
        attribute = replace(attribute, kind="ordered", level="", prefix=None)
    if size >= attribute.size:
        return attribute
    plain = replace(attribute, null="refuse", null_values=(), unknown="refuse")
    if size < 2:
        whole = Attribute(attribute.name, "categorical", values=(ONLY,))
        return replace(whole, derived_from=attribute.derived_from, public=attribute.public)
    if plain.ordered_size <= size:
        return plain
    if plain.kind == "integer" and plain.low is not None:
        return replace(plain, high=plain.low + size - 1)
    if plain.kind == "real":
        decode = plain.decode if isinstance(plain.decode, str) else plain.decode[:size]
        return replace(plain, edges=plain.edges[: size + 1], decode=decode)
    return replace(plain, values=plain.values[:size])
