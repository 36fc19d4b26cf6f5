"""Marginals of a junction tree on any attributes, also across its clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import DomainTooLarge, UnknownAttribute
from nabladp.mechanisms.synthesis.inference.junction_tree import BYTES_A_CELL, JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, summed

Floats = NDArray[np.float64]
Table = tuple[Names, Floats]
MOST_BYTES = 1 << 30


class Answers:
    """Keeps what marginals have in common: for each cluster and each set of attributes below it,
    their distribution given what the cluster shares with its parent."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Floats], most_bytes: int = MOST_BYTES) -> None:
        self.tree, self.beliefs, self.most_bytes = tree, beliefs, most_bytes
        clusters = tree.clusters
        self.children: list[list[int]] = [[] for _ in clusters]
        self.below: list[frozenset[str]] = [frozenset(c.names) for c in clusters]
        for i in range(len(clusters) - 1, 0, -1):
            parent = clusters[i].parent
            self.children[parent].append(i)
            self.below[parent] |= self.below[i]
        self._given: dict[tuple[int, Names], Table] = {}
        self._parts: dict[tuple[int, Names, bool], Table] = {}

    def marginal(self, names: Names) -> Floats:
        for name in names:
            if name not in self.tree.sizes:
                raise UnknownAttribute.named(name, self.tree.sizes)
        self._check(names)
        top = 0
        while True:  # down to the lowest cluster with all of them in or below it
            lower = [c for c in self.children[top] if self.below[c].issuperset(names)]
            if not lower:
                break
            top = lower[0]
        found = self._joint(top, frozenset(names), given=False)
        return summed(found[1], found[0], names)

    def _joint(self, c: int, wanted: frozenset[str], given: bool) -> Table:
        """P(wanted), or P(wanted, shared | shared) of cluster c; all wanted ones are in or below it."""
        cluster = self.tree.clusters[c]
        own = wanted & frozenset(cluster.names)
        shared = frozenset(cluster.shared) if given else frozenset()
        branches = []
        for child in self.children[c]:
            part = (wanted - own) & self.below[child]
            if part:
                branches.append((child, part))
        needed = own | shared
        for child, _ in branches:
            low = self.tree.clusters[child]
            needed |= frozenset(low.shared)
        table = self._part(c, needed, given)
        for k, (child, part) in enumerate(branches):
            later = frozenset().union(*(self.tree.clusters[x].shared for x, _ in branches[k + 1 :]))
            table = self._product(table, self._below(child, part), wanted | shared | later)
        return table

    def _below(self, c: int, wanted: frozenset[str]) -> Table:
        key = c, tuple(sorted(wanted))
        if key not in self._given:
            self._given[key] = self._joint(c, wanted, given=True)
        return self._given[key]

    def _part(self, c: int, needed: frozenset[str], given: bool) -> Table:
        """A cluster's probabilities of some of its attributes, given the shared ones if asked."""
        cluster = self.tree.clusters[c]
        names = tuple(name for name in cluster.shared + cluster.rest if name in needed)
        key = c, names, given
        if key not in self._parts:
            table = summed(self.beliefs[c], cluster.names, names)
            if given:
                rows = table.reshape(self.tree.cells(cluster.shared), -1)
                total = rows.sum(axis=1, keepdims=True)
                cut = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)
                table = cut.reshape(table.shape)
            self._parts[key] = names, table
        return self._parts[key]

    def _product(self, left: Table, right: Table, kept: frozenset[str]) -> Table:
        """The product of two tables, summed over what is not kept."""
        a, b = left[0], right[0]
        both = [name for name in a if name in b]
        batch = [name for name in both if name in kept]
        gone = [name for name in both if name not in kept]
        mine = [name for name in a if name not in both and name in kept]
        theirs = [name for name in b if name not in both and name in kept]
        out = (*batch, *mine, *theirs)
        self._check(out)
        x = summed(left[1], a, (*batch, *mine, *gone)).reshape(*map(self.tree.cells, (batch, mine, gone)))
        y = summed(right[1], b, (*batch, *gone, *theirs)).reshape(*map(self.tree.cells, (batch, gone, theirs)))
        return out, np.matmul(x, y).reshape([self.tree.sizes[name] for name in out])

    def _check(self, names: Sequence[str]) -> None:
        needed = BYTES_A_CELL * math.prod(self.tree.sizes[name] for name in names)
        if needed > self.most_bytes:
            raise DomainTooLarge(
                f"A table of {'+'.join(names)} would take {needed / 1e6:,.0f} MB.",
                fix="Ask for fewer or coarser attributes at once.",
                attributes=list(names),
                needed_bytes=needed,
                limit_bytes=self.most_bytes,
            )
