"""Marginals of a junction tree on any attributes, also across its clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nabladp.arrays import Floats
from nabladp.errors import DomainTooLarge, UnknownAttribute
from nabladp.mechanisms.synthesis.inference.junction_tree import BYTES_A_CELL, JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, summed
from nabladp.mechanisms.synthesis.inference.pairs import all_pairs
from nabladp.mechanisms.synthesis.inference.tables import Table, given, product

MOST_BYTES = 1 << 30
_MANY = 30  # pairs across clusters: no fewer are answered all together


class Answers:
    """Probabilities on sets of attributes, from the clusters' probabilities. What sets have in common is kept: for a
    cluster and some attributes below it, their distribution given what the cluster shares with its parent."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Floats], most_bytes: int = MOST_BYTES) -> None:
        self.tree, self.beliefs, self.most_bytes = tree, beliefs, most_bytes
        clusters = tree.clusters
        self.children: list[list[int]] = [[] for _ in clusters]
        self.below: list[frozenset[str]] = [frozenset(c.names) for c in clusters]
        for i in range(len(clusters) - 1, 0, -1):
            parent = clusters[i].parent
            self.children[parent].append(i)
            self.below[parent] |= self.below[i]
        self._given: dict[tuple[int, frozenset[str]], Table] = {}
        self._parts: dict[tuple[int, frozenset[str], bool], Table] = {}

    def marginals(self, sets: Sequence[Names]) -> list[Floats]:
        for name in {name for names in sets for name in names}:
            if name not in self.tree.sizes:
                raise UnknownAttribute.named(name, self.tree.sizes)
        homes = {names: self.tree.home(names) for names in sets}
        across = [names for names in sets if len(names) == 2 and homes[names] is None]
        pairs = all_pairs(self.tree, self.beliefs, across) if len(across) > self._many(across) else {}
        found = []
        for names in sets:
            self._check(names)
            home = homes[names]
            if home is not None:
                found.append(summed(self.beliefs[home], self.tree.clusters[home].names, names))
            elif names in pairs:
                found.append(pairs[names])
            else:
                found.append(self._across(names))
        return found

    def _many(self, pairs: Sequence[Names]) -> float:
        """How many pairs make it worth while to answer them all together: about a third of all there are."""
        used = len({name for names in pairs for name in names})
        return max(_MANY, used * (used - 1) / 6)

    def _across(self, names: Names) -> Floats:
        top = 0
        while True:  # down to the lowest cluster with all of them in or below it
            lower = next((c for c in self.children[top] if self.below[c].issuperset(names)), None)
            if lower is None:
                break
            top = lower
        found = self._joint(top, frozenset(names), frozenset())
        return summed(found[1], found[0], names)

    def _joint(self, c: int, wanted: frozenset[str], shared: frozenset[str]) -> Table:
        """P(wanted) or, if ``shared`` with the parent, P(wanted, shared | shared); all wanted are in or below c."""
        clusters = self.tree.clusters
        own = wanted & frozenset(clusters[c].names)
        branches = [(child, part) for child in self.children[c] if (part := (wanted - own) & self.below[child])]
        needed = [frozenset(clusters[child].shared) for child, _ in branches]
        table = self._part(c, own | shared | frozenset().union(*needed), bool(shared))
        for k, (child, part) in enumerate(branches):
            kept = wanted | shared | frozenset().union(*needed[k + 1 :])
            self._check({*table[0], *part} & kept)
            table = product(table, self._below(child, part), kept)
        return table

    def _below(self, c: int, wanted: frozenset[str]) -> Table:
        if (c, wanted) not in self._given:
            self._given[c, wanted] = self._joint(c, wanted, frozenset(self.tree.clusters[c].shared))
        return self._given[c, wanted]

    def _part(self, c: int, needed: frozenset[str], conditional: bool) -> Table:
        """A cluster's probabilities of some of its attributes, given the shared ones if asked."""
        key = c, needed, conditional
        if key not in self._parts:
            cluster = self.tree.clusters[c]
            names = tuple(name for name in cluster.names if name in needed)
            table = summed(self.beliefs[c], cluster.names, names)
            self._parts[key] = names, given(table, names, cluster.shared) if conditional else table
        return self._parts[key]

    def _check(self, names: Iterable[str]) -> None:
        needed = BYTES_A_CELL * math.prod(self.tree.sizes[name] for name in names)
        if needed > self.most_bytes:
            raise DomainTooLarge(
                f"A table of {'+'.join(names)} would take {needed / 1e6:,.0f} MB.",
                fix="Ask for fewer or coarser attributes at once.",
                attributes=list(names),
                needed_bytes=needed,
                limit_bytes=self.most_bytes,
            )
