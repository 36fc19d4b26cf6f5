"""Finding frequent combinations level by level, from the leaves to the root (`alg:priv-tree`, mended).

A node's candidates are the product of its children's lists, numbered through in mixed radix. Counted are only those
that can be frequent: a combination is at most as frequent as each of its parts, so its parts must be frequent, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Integers
from nabladp.mechanisms.heavy_hitters.engine import limits
from nabladp.mechanisms.heavy_hitters.engine.counting import Rows, frequent
from nabladp.mechanisms.heavy_hitters.engine.limits import cells_at_once
from nabladp.mechanisms.heavy_hitters.engine.limits import check as check
from nabladp.mechanisms.heavy_hitters.engine.numbering import (
    LOOKED_UP,
    Column,
    Listed,
    Part,
    Product,
    Whole,
    listed_strings,
)
from nabladp.mechanisms.heavy_hitters.engine.packing import Packed
from nabladp.mechanisms.heavy_hitters.engine.passing import (
    MOST_IN_64_BITS,
    Candidates,
    Codes,
    Passed,
    Rule,
    decide,
    let_through,
)
from nabladp.mechanisms.heavy_hitters.engine.sifting import Frequent
from nabladp.mechanisms.heavy_hitters.planning.search import MEMORY
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.noise import NoiseSource
from nabladp.tables import Counts

LARGEST_GROUP = 1 << 16  # cells of a node above free leaves whose attributes are packed into one number
ALL_FOUND = 1 << 14  # or candidates of a level that occur
ALL_COUNTED = 1 << 21  # up to so many candidates of a level are all counted, if that saves a second look at some


@dataclass(frozen=True, eq=False)
class Found:
    """The lists of all nodes, and the noisy counts of the root's list. All of it may be published.

    ``lists[i]`` has a row for every string of node i, in increasing order: of a leaf, its mixed-radix value; of a node
    above, for each child, the string's place in that child's list.
    """

    tree: Tree
    lists: tuple[Integers, ...]
    counts: Integers

    @property
    def strings(self) -> Integers:
        """The strings found: a row each, with a code for every attribute."""
        return self.strings_of(len(self.tree.nodes) - 1)

    def strings_of(self, position: int) -> Integers:
        """The strings of any node, with a code for each of its attributes."""
        node, rows = self.tree.nodes[position], self.lists[position]
        if node.children:
            return np.hstack([self.strings_of(child)[rows[:, i]] for i, child in enumerate(node.children)])
        sizes = tuple(self.tree.sizes[attribute] for attribute in node.attributes)
        return np.stack(np.unravel_index(rows[:, 0], sizes), axis=1).astype(np.int64)


def find(counts: Counts, names: Sequence[str], settings: Settings, noise: NoiseSource, memory: float = MEMORY) -> Found:
    """The lists of all nodes and the root's noisy counts, with exactly the law of drawing noise for every candidate."""
    names = tuple(names)
    check(settings, counts.schema.sizes(names), counts.n, memory)
    search = _Search(counts, names, settings, noise, memory / 4)
    levels = settings.tree.levels
    for level, positions in enumerate(levels):
        counts.working("level", level, len(levels))
        search.list_level(positions)
    found = Found(settings.tree, tuple(search.lists), search.released_counts())
    counts.working("level", len(levels), len(levels))
    return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Some strings of a child: how rows are numbered by them, and their places in the child's list."""

    strings: Whole | Listed
    places: Integers


class _Search:
    """The lists so far, each with the exact counts of its strings, which never leave.

    A count that is not above the rule's floor may stand as 0 (see :meth:`list_level`). The strings of free leaves were
    never counted.
    """

    def __init__(
        self, counts: Counts, names: tuple[str, ...], settings: Settings, noise: NoiseSource, held: float
    ) -> None:
        """Rows stay in memory, packed, where they take at most ``held`` bytes."""
        self.counts, self.names, self.settings, self.noise = counts, names, settings, noise
        self.nodes, self.tree, self.pure = settings.tree.nodes, settings.tree, settings.notion == "pure"
        self.longest = math.ceil(min(limits.LONGEST, settings.longest_list))
        none = np.empty(0, np.int64)
        self.lists: list[Integers] = [np.empty((0, max(1, len(node.children))), np.int64) for node in self.nodes]
        self.exact: list[Integers | None] = [none for _ in self.nodes]
        self.root = Passed(none, none, None if self.pure else none)
        self.rows, self.groups = self._packed(held)

    def _packed(self, most: float) -> tuple[Rows, dict[int, Part]]:
        """What is counted, and by which part every group of attributes is numbered there.

        Groups are leaves, or nodes of few cells above free leaves. Rows are packed if they are read more than once.
        """
        groups: dict[int, Part] = {}
        for position, node in enumerate(self.nodes):
            small = node.children and self.tree.cells(node) <= min(LARGEST_GROUP, ALL_COUNTED, LOOKED_UP)
            if not node.children or (small and not any(self.nodes[child].thresholded for child in node.children)):
                groups = {group: part for group, part in groups.items() if group not in node.children}
                groups[position] = Whole(self._attributes(node))
        named = {str(position): part for position, part in groups.items()}
        several = self.tree.thresholded_levels > 1
        packed = Packed.of(self.counts, named, most) if several else None
        if packed is None:
            return self.counts, groups
        return packed, {position: Column(str(position), part.axis) for position, part in groups.items()}

    def list_level(self, positions: Sequence[int]) -> None:
        """The lists of all nodes of a level, in one pass over the rows where what has to be counted fits into memory.

        Only candidates above the rule's limit must be counted, and all their parts are above it, too. The others get
        their count when they are let through. Counts up to the floor make no difference here nor, as thresholds (hence
        floors) never fall on the way up, anywhere above.
        """
        for position in positions:
            if not self.nodes[position].thresholded:
                self.lists[position] = np.arange(self.tree.cells(self.nodes[position]), dtype=np.int64)[:, None]
                self.exact[position] = None
        live = [p for p in positions if self.nodes[p].thresholded and min(self._sizes(p)) > 0]
        if not live:
            return
        level = self.settings.level_of(self.nodes[live[0]])
        for position in live:
            self._bound_candidates(position)
        size = sum(math.prod(self._sizes(position)) for position in live)
        rule = Rule.of(self.settings, level, size, len(live) * self.counts.n)
        least = 0 if self._root in live else rule.floor  # [counts] the root's must be exact, however small
        above = least if self._few_occur(live, rule, least) else max(least, rule.limit)
        candidates = self._candidates(live, rule, above)
        some = let_through(candidates, rule, self.noise)
        if above == least:
            known = [those.counts_of(codes) for those, codes in zip(candidates, some, strict=True)]
        else:
            known = self._exact_counts(live, some)
        for position, passed in zip(live, decide(candidates, some, known, rule, self.noise), strict=True):
            if len(passed.codes) > self.longest:  # [only-bits] by lot among those that passed, never by their noise
                passed = passed.take(self.noise.uniform_subset(len(passed.codes), self.longest))
            self.lists[position] = _rows(passed.codes, self._sizes(position))
            self.exact[position] = passed.counts
            if position == self._root:
                self.root = passed

    def released_counts(self) -> Integers:
        """Of the root's list. Concentrated: the noisy counts by which it passed. Pure: with noise of their own."""
        if self.root.noisy is not None:
            return self.root.noisy
        # [counts] fresh noise: that of the lists is never released
        return self.root.counts + self.noise.discrete_laplace(self.settings.count_scale or 0, len(self.root.codes))

    @property
    def _root(self) -> int:
        return len(self.nodes) - 1

    def _sizes(self, position: int) -> tuple[int, ...]:
        """How many strings each child lists, or a leaf has: their product is the number of candidates."""
        node = self.nodes[position]
        return tuple(len(self.lists[child]) for child in node.children) or (self.tree.cells(node),)

    def _bound_candidates(self, position: int) -> None:
        """By very bad luck too many candidates would pass: halve the children's lists, by lot, until that is over."""
        node = self.nodes[position]
        level = self.settings.level_of(node)
        while node.children and limits.passing_many(self.settings, level, math.prod(self._sizes(position))):
            longest = max(node.children, key=lambda child: len(self.lists[child]))
            many, exact = len(self.lists[longest]), self.exact[longest]
            kept = self.noise.uniform_subset(many, many // 2)
            self.lists[longest] = self.lists[longest][kept]
            self.exact[longest] = None if exact is None else exact[kept]

    def _few_occur(self, live: Sequence[int], rule: Rule, above: int) -> bool:
        """So few candidates may occur more often that counting them all is less work than a second look at some."""
        axes = [[len(self._chosen(child, rule, above)) + 1 for child in self.nodes[p].children] for p in live]
        if sum(math.prod(a or self._sizes(p)) for p, a in zip(live, axes, strict=True)) <= ALL_COUNTED:
            return True
        return sum(self._most_occurring(position, rule, above) for position in live) <= ALL_FOUND

    def _most_occurring(self, position: int, rule: Rule, above: int) -> int:
        """How many candidates may occur more often, at most: rows that hold one hold a listed string of every child."""
        rows = self.counts.n
        for child in self.nodes[position].children:
            exact = self.exact[child]
            if exact is not None and above >= rule.floor:
                rows = min(rows, int(exact[exact > above].sum()))
        return rows // (above + 1)

    def _chosen(self, position: int, rule: Rule, above: int) -> Integers:
        """The listed strings that may have a count above. Below the floor counts may not be known."""
        exact = self.exact[position]
        if exact is None or above < rule.floor:
            return np.arange(len(self.lists[position]))
        return np.flatnonzero(exact > above)

    def _candidates(self, live: Sequence[int], rule: Rule, above: int) -> list[Candidates]:
        """Those with a count above, counted."""
        parts = {p: self._parts(p, rule, above) for p in live if not self._is_whole(p)}
        products = [
            Product(tuple(part.strings for part in parts[p]) if p in parts else (Whole(self._columns(p)),))
            for p in live
        ]
        results = []
        for position, (rows, counts) in zip(live, self._frequent(products, above), strict=True):
            sizes = self._sizes(position)
            codes = _codes(_places(parts[position], rows), sizes) if position in parts else rows[:, 0]
            results.append(Candidates(math.prod(sizes), codes, counts))
        return results

    def _is_whole(self, position: int) -> bool:
        """All strings over the node's attributes are candidates, and can be counted as such."""
        node, cells = self.nodes[position], self.tree.cells(self.nodes[position])
        return not node.children or (cells <= ALL_COUNTED and math.prod(self._sizes(position)) == cells)

    def _frequent(self, products: Sequence[Product], above: int) -> list[Frequent]:
        return frequent(self.rows, products, above, cells_at_once(self.settings))

    def _columns(self, position: int) -> Product:
        """All strings over a node's attributes, by its groups."""
        return Product(tuple(self._groups_of(position)))

    def _groups_of(self, position: int) -> Iterator[Part]:
        if position in self.groups:
            yield self.groups[position]
        else:
            for child in self.nodes[position].children:
                yield from self._groups_of(child)

    def _attributes(self, node: Node) -> Product:
        return Product(tuple(Column(self.names[j], self.tree.sizes[j]) for j in node.attributes))

    def _parts(self, position: int, rule: Rule, above: int) -> list[_Part]:
        """The strings of every child that may have a count above."""
        chosen = [(child, self._chosen(child, rule, above)) for child in self.nodes[position].children]
        return [_Part(self._numbered(child, self.lists[child][places]), places) for child, places in chosen]

    def _numbered(self, position: int, rows: Integers) -> Whole | Listed:
        """How to number a table's rows by strings of a node: by their values, or its children's joined one by one."""
        children = self.nodes[position].children
        if not children or self.tree.cells(self.nodes[position]) <= LOOKED_UP:
            columns = self._columns(position)
            return Whole(columns) if len(rows) == columns.size else Listed(columns, self._values(position, rows))
        used = [np.unique(column, return_inverse=True) for column in rows.T]
        parts = [self._numbered(child, self.lists[child][u]) for child, (u, _) in zip(children, used, strict=True)]
        numbers = [place.reshape(-1) + part.first for part, (_, place) in zip(parts, used, strict=True)]
        return listed_strings(parts, np.stack(numbers, axis=1))

    def _values(self, position: int, rows: Integers) -> Integers:
        """Strings of a node in mixed radix over its attributes."""
        values = np.zeros(len(rows), np.int64)
        for column, child in enumerate(self.nodes[position].children):
            values *= self.tree.cells(self.nodes[child])
            values += self._values(child, self.lists[child][rows[:, column]])
        return values if self.nodes[position].children else rows[:, 0]

    def _exact_counts(self, live: Sequence[int], some: Sequence[Codes]) -> list[Integers]:
        """The counts of some candidates of every node."""
        rows = [_rows(codes, self._sizes(position)) for position, codes in zip(live, some, strict=True)]
        products = [Product((self._numbered(position, its),)) for position, its in zip(live, rows, strict=True)]
        results = [np.zeros(len(codes), np.int64) for codes in some]
        for result, product, (numbers, counts) in zip(results, products, self._frequent(products, 0), strict=True):
            result[numbers[:, 0] - product.parts[0].first] = counts
        return results


def _places(parts: Sequence[_Part], rows: Integers) -> Integers:
    """The places in the children's lists that rows of the parts' numbers stand for."""
    return np.stack([part.places[column - part.strings.first] for part, column in zip(parts, rows.T, strict=True)], 1)


def _codes(rows: Integers, sizes: Sequence[int]) -> Codes:
    """Rows of places as numbers in mixed radix, the last column fastest."""
    codes: Codes = np.zeros(len(rows), np.int64 if math.prod(sizes) <= MOST_IN_64_BITS else object)
    for column, size in zip(rows.T, sizes, strict=True):
        codes = codes * size + column
    return codes


def _rows(codes: Codes, sizes: Sequence[int]) -> Integers:
    columns = []
    for size in reversed(sizes):
        columns.append((codes % size).astype(np.int64))
        codes = codes // size
    return np.stack(columns[::-1], axis=1)
