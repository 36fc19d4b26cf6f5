"""The law of all lists of a tiny tree, written down without any of the shortcuts of the library."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from nabladp.mechanisms.heavy_hitters.settings import Level
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree

Row = tuple[int, ...]


@cache
def masses(notion: str, scale: float) -> tuple[np.ndarray, int]:
    """Normalised probabilities of the noise on −reach … reach."""
    reach = math.ceil(60 * scale) + 400
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(z) / scale) if notion == "pure" else np.exp(-((z / scale) ** 2) / 2)
    return weights / weights.sum(), reach


@cache
def pass_fail(notion: str, level: Level, mu: int, f: int) -> tuple[float, float]:
    """Pr[pass], Pr[fail] of a candidate with count f, each summed on its own so that neither loses digits."""
    x = max(f - level.threshold, -mu) if notion == "pure" else f - level.threshold
    law, reach = masses(notion, level.scale)
    cut = max(reach - x + 1, 0)  # position of Z = 1 − x
    if x > reach or -x > reach:
        raise ValueError("The window of the noise is too small for this count.")
    return float(law[cut:].sum()), float(law[:cut].sum())


class Lists:
    """All outcomes of a tree for one table: every tuple of lists, with its probability."""

    def __init__(self, tree: Tree, levels: Sequence[Level], mu: int, notion: str, rows: Sequence[Row]) -> None:
        self.tree, self.levels, self.mu, self.notion, self.rows = tree, levels, mu, notion, rows
        self.counts = [Counter(self.part(node, row) for row in rows) for node in tree.nodes]

    @staticmethod
    def part(node: Node, row: Row) -> Row:
        return tuple(row[attribute] for attribute in node.attributes)

    def candidates(self, node: Node, lists: Sequence[tuple[Row, ...]]) -> list[Row]:
        if not node.children:
            return list(itertools.product(*(range(self.tree.sizes[attribute]) for attribute in node.attributes)))
        return [sum(parts, ()) for parts in itertools.product(*lists)]

    def outcomes(self, position: int) -> Iterator[tuple[dict[int, tuple[Row, ...]], float]]:
        """Every outcome of the subtree, with its log probability, always in the same order."""
        node = self.tree.nodes[position]
        for below in itertools.product(*(list(self.outcomes(child)) for child in node.children)):
            lists: dict[int, tuple[Row, ...]] = {}
            for one, _ in below:
                lists |= one
            log = math.fsum(value for _, value in below)
            candidates = self.candidates(node, [lists[child] for child in node.children])
            if not node.thresholded:
                yield lists | {position: tuple(candidates)}, log
                continue
            level = self.levels[node.level - self.tree.lowest]
            tests = [pass_fail(self.notion, level, self.mu, self.counts[position][s]) for s in candidates]
            for chosen in itertools.product((0, 1), repeat=len(candidates)):
                passed = tuple(s for s, out in zip(candidates, chosen, strict=True) if not out)
                factors = (math.log(test[out]) for test, out in zip(tests, chosen, strict=True))
                yield lists | {position: passed}, log + math.fsum(factors)

    def law(self) -> tuple[list[dict[int, tuple[Row, ...]]], np.ndarray]:
        found = list(self.outcomes(len(self.tree.nodes) - 1))
        return [lists for lists, _ in found], np.array([value for _, value in found])


def largest_loss(
    tree: Tree, levels: Sequence[Level], mu: int, beta: float | None, rows: Sequence[Row], old: Row, new: Row
) -> float:
    """The exact D_∞ when one of ``rows``, ``old``, becomes ``new`` (lists, and counts with scale β on the root's).

    All strings but the two that lose and gain the row have the same factors on both sides: what remains is whether
    these two are listed at each node. Exact for trees and tables of any size.
    """
    root = len(tree.nodes) - 1

    def best(position: int) -> dict[tuple[bool, bool], float]:
        node = tree.nodes[position]
        one, other = Lists.part(node, old), Lists.part(node, new)
        if one == other:  # the same string with the same count, listed or not
            return {(True, True): 0.0} if not node.thresholded else {(True, True): 0.0, (False, False): 0.0}
        below: dict[tuple[bool, bool], float] = {(True, True): 0.0}
        for child in node.children:
            joined: dict[tuple[bool, bool], float] = {}
            for (a, b), value in below.items():
                for (c, d), more in best(child).items():
                    key = a and c, b and d
                    joined[key] = max(joined.get(key, -math.inf), value + more)
            below = joined
        if not node.thresholded:
            return below
        level = levels[node.level - tree.lowest]
        falls = sum(Lists.part(node, row) == one for row in rows)
        rises = sum(Lists.part(node, row) == other for row in rows)
        result: dict[tuple[bool, bool], float] = {}
        for (a, b), value in below.items():
            for first, second in itertools.product((0, 1) if a else (1,), (0, 1) if b else (1,)):
                total = value
                if a:
                    total += _ratio(level, mu, falls, falls - 1, first)
                if b:
                    total += _ratio(level, mu, rises, rises + 1, second)
                if position == root and beta is not None:
                    total += ((1 - first) + (1 - second)) / beta
                key = first == 0, second == 0
                result[key] = max(result.get(key, -math.inf), total)
        return result

    return max(best(root).values())


def _ratio(level: Level, mu: int, before: int, after: int, out: int) -> float:
    return math.log(pass_fail("pure", level, mu, before)[out] / pass_fail("pure", level, mu, after)[out])


def neighbours(records: Sequence[Row], n: int, renamed: bool = False) -> Iterator[tuple[tuple[Row, ...], Row, Row]]:
    """All tables of n rows with one of their rows and what it may become: (rows, old, new).

    Nothing depends on how values are named: with ``renamed`` the old row is always the first record.
    """
    for rest in itertools.combinations_with_replacement(records, n - 1):
        for old in records[:1] if renamed else records:
            for new in records:
                if new != old:
                    yield (*rest, old), old, new


def records_of(sizes: Sequence[int]) -> list[Row]:
    return list(itertools.product(*(range(size) for size in sizes)))


def differing(old: Row, new: Row) -> frozenset[int]:
    return frozenset(j for j, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
