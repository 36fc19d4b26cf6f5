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
from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.heavy_hitters.candidates import (
    MOST_IN_64_BITS,
    Candidates,
    Codes,
    PackedRows,
    Passed,
    Rows,
    Rule,
    decide,
    draw_survivors,
    frequent,
)
from nabladp.mechanisms.heavy_hitters.certificate import (
    CELL_BYTES,
    MOST_CELLS,
    Shape,
    Sieve,
    caution,
    list_bounds,
    list_bytes,
)
from nabladp.mechanisms.heavy_hitters.hash_filter import Frequent
from nabladp.mechanisms.heavy_hitters.numbering import (
    LOOKED_UP,
    Column,
    Listed,
    Part,
    Product,
    Whole,
    listed_strings,
)
from nabladp.mechanisms.heavy_hitters.planner import MEMORY
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import noise_scale
from nabladp.noise.tails import WIDEST
from nabladp.tables import Counts

# ---- limits: what a run may need at most, and what is refused before any row is read ---------------------------------

LEAST_CELLS = 1 << 15  # counted at a time, however little memory there is

# Where :func:`check` lets settings by, only luck worse than the certificate has room for (a millionth of the failure
# probability, which was taken off it) makes a list, or candidates that pass by their noise, so many that they are cut.
LONGEST = 1 << 20  # strings in a list
MOST_DRAWN = 1 << 24  # candidates of a node that pass without being frequent


def check(settings: Settings, sizes: Sequence[int], n: int | None = None, memory: float = MEMORY) -> None:
    """Refuse HeavyHitters settings that cannot be run, before any row is read; with n, also those that might take too
    long.

    No list of a plan's settings comes near these limits. Settings made by hand might.
    """
    tree = settings.tree
    if tuple(sizes) != tree.sizes:
        raise MechanismError("The settings are for other attributes.", fix="Plan for the attributes that are counted.")
    if (settings.notion == "pure") == (settings.count_scale is None):
        fix = "Give a noise scale for the counts in the pure version, and none in the concentrated one."
        raise MechanismError("The settings do not say which counts to release.", fix=fix)
    for scale in (*(level.scale for level in settings.levels), settings.count_scale or 1.0):
        noise_scale(scale)  # refuses what cannot be drawn
    if settings.notion == "cdp" and max(level.scale for level in settings.levels) > WIDEST:
        raise MechanismError("The Gaussian noise is too wide.", fix="Allow a larger budget.", widest=WIDEST)
    for node in tree.nodes:
        children = [tree.nodes[child] for child in node.children]
        if any(child.thresholded for child in children):
            continue  # how much it has to do depends on lists
        cells = tree.cells(node)
        longest = LONGEST if not node.thresholded else cells if children else MOST_IN_64_BITS
        if cells > longest or (node.thresholded and passing_many(settings, settings.level_of(node), cells)):
            fix = "Use narrower leaves or a smaller fan-out, or declare coarser domains."
            raise DomainTooLarge("A node of the tree has too many values.", fix=fix, cells=cells)
    if n is not None:
        _check_lists(settings, n, memory)


def _check_lists(settings: Settings, n: int, memory: float) -> None:
    """Refuse settings whose lists might get too long, by bounds that hold with near certainty for any data."""
    shape = Shape.of(settings.tree)
    listed, candidates = list_bounds(shape, Sieve.of(settings).rates(n), caution(shape, settings.failure))
    if not shape.lowest:
        candidates[shape.levels[0]] *= shape.thresholded
    many = any(
        passing_many(settings, level, max(1, float(candidates[kinds].max())))
        for level, kinds in zip(settings.levels, shape.levels[shape.lowest :], strict=True)
    )
    if many or listed.max() > LONGEST or 2 * list_bytes(shape, listed) > memory:
        fix = "Raise the thresholds or lower the noise, use a smaller fan-out, or let the planner choose."
        raise MechanismError("With these settings lists might get too long.", fix=fix, strings=float(listed.max()))


def passing_many(settings: Settings, level: Level, candidates: float) -> bool:
    """Whether more candidates are expected to pass the threshold by noise alone than memory should hold (an upper
    bound)."""
    chance = settings.mu / level.scale if settings.notion == "pure" else (level.threshold / level.scale) ** 2 / 2
    return math.log(candidates) - chance > math.log(MOST_DRAWN)


def cells_at_once(settings: Settings) -> int:
    """The number of cells counted in one pass over the rows: a quarter of the memory is for that."""
    return min(MOST_CELLS, max(LEAST_CELLS, settings.memory // (4 * CELL_BYTES)))


# ---- finding ---------------------------------------------------------------------------------------------------------

LARGEST_GROUP = 1 << 16  # cells of a node above free leaves whose attributes are packed into one number
ALL_FOUND = 1 << 14  # or candidates of a level that occur
ALL_COUNTED = 1 << 21  # up to so many candidates of a level are all counted, if that saves a second look at some


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The lists of all nodes, and the noisy counts of the root's list. All of it may be published.

    ``lists[i]`` has a row for every string of node i, in increasing order: of a leaf, its mixed-radix value; of a node
    above, for each child, the string's index in that child's list.
    """

    tree: Tree
    lists: tuple[Integers, ...]
    counts: Integers

    @property
    def strings(self) -> Integers:
        """The frequent strings found, one row each, with a code for every attribute."""
        return self.strings_of(len(self.tree.nodes) - 1)

    def strings_of(self, position: int) -> Integers:
        """The strings that one node of the tree listed, with a code for each of its attributes."""
        node, rows = self.tree.nodes[position], self.lists[position]
        if node.children:
            return np.hstack([self.strings_of(child)[rows[:, i]] for i, child in enumerate(node.children)])
        sizes = tuple(self.tree.sizes[attribute] for attribute in node.attributes)
        return np.stack(np.unravel_index(rows[:, 0], sizes), axis=1).astype(np.int64)


def find(
    counts: Counts, names: Sequence[str], settings: Settings, noise: NoiseSource, memory: float = MEMORY
) -> SearchResult:
    """Search the HeavyHitters tree: the lists of all nodes and the root's noisy counts.

    Follows exactly the law of drawing noise for every candidate.
    """
    names = tuple(names)
    check(settings, counts.schema.sizes(names), counts.n, memory)
    search = _Search(counts, names, settings, noise, memory / 4)
    levels = settings.tree.levels
    for level, positions in enumerate(levels):
        counts.working("level", level, len(levels))
        search.list_level(positions)
    result = SearchResult(settings.tree, tuple(search.lists), search.released_counts())
    counts.working("level", len(levels), len(levels))
    return result


@dataclass(frozen=True, eq=False)
class _Part:
    """Some strings of a child: how rows are numbered by them, and their indices in the child's list."""

    strings: Whole | Listed
    indices: Integers


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
        self.longest = math.ceil(min(LONGEST, settings.longest_list))
        none = np.empty(0, np.int64)
        self.lists: list[Integers] = [np.empty((0, max(1, len(node.children))), np.int64) for node in self.nodes]
        self.exact: list[Integers | None] = [none for _ in self.nodes]
        self.root = Passed(none, none, None if self.pure else none)
        self.rows, self.groups = self._pack_rows(held)

    def _pack_rows(self, most: float) -> tuple[Rows, dict[int, Part]]:
        """The rows to count (packed in memory if read more than once), and the part that numbers each group of
        attributes.

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
        packed = PackedRows.of(self.counts, named, most) if several else None
        if packed is None:
            return self.counts, groups
        return packed, {position: Column(str(position), part.axis) for position, part in groups.items()}

    def list_level(self, positions: Sequence[int]) -> None:
        """The lists of all nodes of a tree level, in one pass over the rows where the counts fit into memory.

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
        some = draw_survivors(candidates, rule, self.noise)
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
        """The noisy counts of the root's list. Concentrated: those by which strings passed. Pure: with noise of their
        own."""
        if self.root.noisy is not None:
            return self.root.noisy
        # [counts] fresh noise: that of the lists is never released
        return self.root.counts + self.noise.discrete_laplace(self.settings.count_scale or 0, len(self.root.codes))

    @property
    def _root(self) -> int:
        return len(self.nodes) - 1

    def _sizes(self, position: int) -> tuple[int, ...]:
        """The number of strings that each child lists, or a leaf has; their product is the number of candidates of the
        node."""
        node = self.nodes[position]
        return tuple(len(self.lists[child]) for child in node.children) or (self.tree.cells(node),)

    def _bound_candidates(self, position: int) -> None:
        """Where by very bad luck too many candidates would pass: halve the children's lists at random until they are
        few."""
        node = self.nodes[position]
        level = self.settings.level_of(node)
        while node.children and passing_many(self.settings, level, math.prod(self._sizes(position))):
            longest = max(node.children, key=lambda child: len(self.lists[child]))
            many, exact = len(self.lists[longest]), self.exact[longest]
            kept = self.noise.uniform_subset(many, many // 2)
            self.lists[longest] = self.lists[longest][kept]
            self.exact[longest] = None if exact is None else exact[kept]

    def _few_occur(self, live: Sequence[int], rule: Rule, above: int) -> bool:
        """Whether so few candidates may exceed a count that counting all is less work than a second look at some."""
        axes = [[len(self._strings_above(child, rule, above)) + 1 for child in self.nodes[p].children] for p in live]
        if sum(math.prod(a or self._sizes(p)) for p, a in zip(live, axes, strict=True)) <= ALL_COUNTED:
            return True
        return sum(self._most_occurring(position, rule, above) for position in live) <= ALL_FOUND

    def _most_occurring(self, position: int, rule: Rule, above: int) -> int:
        """An upper bound on the number of candidates that exceed a count: their rows hold a listed string of every
        child."""
        rows = self.counts.n
        for child in self.nodes[position].children:
            exact = self.exact[child]
            if exact is not None and above >= rule.floor:
                rows = min(rows, int(exact[exact > above].sum()))
        return rows // (above + 1)

    def _strings_above(self, position: int, rule: Rule, above: int) -> Integers:
        """The listed strings of a node that may have a count above this; below the floor counts may not be known."""
        exact = self.exact[position]
        if exact is None or above < rule.floor:
            return np.arange(len(self.lists[position]))
        return np.flatnonzero(exact > above)

    def _candidates(self, live: Sequence[int], rule: Rule, above: int) -> list[Candidates]:
        """The candidates of each node with a count above this, counted."""
        parts = {p: self._parts(p, rule, above) for p in live if not self._is_whole(p)}
        products = [
            Product(tuple(part.strings for part in parts[p]) if p in parts else (Whole(self._columns(p)),))
            for p in live
        ]
        results = []
        for position, (rows, counts) in zip(live, self._frequent(products, above), strict=True):
            sizes = self._sizes(position)
            codes = _codes(_list_indices(parts[position], rows), sizes) if position in parts else rows[:, 0]
            results.append(Candidates(math.prod(sizes), codes, counts))
        return results

    def _is_whole(self, position: int) -> bool:
        """Whether all strings over the node's attributes are candidates, and can be counted as such."""
        node, cells = self.nodes[position], self.tree.cells(self.nodes[position])
        return not node.children or (cells <= ALL_COUNTED and math.prod(self._sizes(position)) == cells)

    def _frequent(self, products: Sequence[Product], above: int) -> list[Frequent]:
        return frequent(self.rows, products, above, cells_at_once(self.settings))

    def _columns(self, position: int) -> Product:
        """All strings over a node's attributes, by its groups of attributes."""
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
        """The strings of every child that may have a count above this."""
        chosen = [(child, self._strings_above(child, rule, above)) for child in self.nodes[position].children]
        return [_Part(self._number_rows(child, self.lists[child][indices]), indices) for child, indices in chosen]

    def _number_rows(self, position: int, rows: Integers) -> Whole | Listed:
        """How to number a table's rows by the strings of a node: by their values, or by joining its children's
        numbers."""
        children = self.nodes[position].children
        if not children or self.tree.cells(self.nodes[position]) <= LOOKED_UP:
            columns = self._columns(position)
            return Whole(columns) if len(rows) == columns.size else Listed(columns, self._values(position, rows))
        used = [np.unique(column, return_inverse=True) for column in rows.T]
        parts = [self._number_rows(child, self.lists[child][u]) for child, (u, _) in zip(children, used, strict=True)]
        numbers = [index.reshape(-1) + part.first for part, (_, index) in zip(parts, used, strict=True)]
        return listed_strings(parts, np.stack(numbers, axis=1))

    def _values(self, position: int, rows: Integers) -> Integers:
        """Strings of a node as mixed-radix numbers over its attributes."""
        values = np.zeros(len(rows), np.int64)
        for column, child in enumerate(self.nodes[position].children):
            values *= self.tree.cells(self.nodes[child])
            values += self._values(child, self.lists[child][rows[:, column]])
        return values if self.nodes[position].children else rows[:, 0]

    def _exact_counts(self, live: Sequence[int], some: Sequence[Codes]) -> list[Integers]:
        """The exact counts of some candidates of every node."""
        rows = [_rows(codes, self._sizes(position)) for position, codes in zip(live, some, strict=True)]
        products = [Product((self._number_rows(position, its),)) for position, its in zip(live, rows, strict=True)]
        results = [np.zeros(len(codes), np.int64) for codes in some]
        for result, product, (numbers, counts) in zip(results, products, self._frequent(products, 0), strict=True):
            result[numbers[:, 0] - product.parts[0].first] = counts
        return results


def _list_indices(parts: Sequence[_Part], rows: Integers) -> Integers:
    """Row numbers of the parts as indices into the children's lists."""
    return np.stack([part.indices[column - part.strings.first] for part, column in zip(parts, rows.T, strict=True)], 1)


def _codes(rows: Integers, sizes: Sequence[int]) -> Codes:
    """Rows of list indices as mixed-radix numbers, the last column fastest."""
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
