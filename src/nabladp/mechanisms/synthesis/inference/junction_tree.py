"""Which attributes a graphical model has to hold together, and how much memory that takes. Public facts only.

``Graph`` triangulates: from sets of attributes that must stay together to clusters that form a tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, compile_loop
from nabladp.errors import DomainTooLarge, UnknownAttribute

# ---- triangulation: greedy elimination -------------------------------------------------------------------------------

Bits = NDArray[np.uint8]


class Graph:
    """Attributes, and which of them must share a cluster; grows by cliques."""

    def __init__(self, sizes: Mapping[str, int], cliques: Iterable[Sequence[str]] = ()) -> None:
        self.names = tuple(sizes)
        self._index = {name: i for i, name in enumerate(self.names)}
        self._sizes = np.array(list(sizes.values()), np.float64)
        self._near = np.zeros((len(self.names), len(self.names)), np.uint8)
        self._add(self._near, cliques)

    def _indices(self, clique: Sequence[str]) -> list[int]:
        for name in clique:
            if name not in self._index:
                raise UnknownAttribute.with_suggestion(name, self.names)
        return [self._index[name] for name in clique]

    def _add(self, near: Bits, cliques: Iterable[Sequence[str]]) -> None:
        for clique in cliques:
            indices = self._indices(clique)
            near[np.ix_(indices, indices)] = 1

    def holds(self, clique: Sequence[str]) -> bool:
        """Whether these attributes are already connected to each other in the graph."""
        indices = self._indices(clique)
        return bool(self._near[np.ix_(indices, indices)].all())

    def add(self, clique: Sequence[str]) -> None:
        self._add(self._near, [clique])

    def cells(self, *more: Sequence[str]) -> float:
        """The number of cells of all clusters of the junction tree together, with some cliques added."""
        near = self._near.copy()
        self._add(near, more)
        return min(result for _, result in self._both(near))

    def clusters(self) -> list[tuple[str, ...]]:
        """The clusters of the triangulated graph; none lies inside another."""
        result = min(self._both(self._near), key=lambda each: each[1])[0]
        return [tuple(self.names[i] for i in np.flatnonzero(row)) for row in result]

    def _both(self, near: Bits) -> list[tuple[Bits, float]]:
        """Triangulate by two elimination rules, neither of which is always the better one."""
        return [compile_loop(_eliminate)(self._sizes, near.copy(), own) for own in (True, False)]


def _eliminate(sizes: Floats, near: Bits, own: bool) -> tuple[Bits, float]:
    """Eliminate attributes one by one; each leaves its neighbours connected.

    Next is always the one whose cluster (``own``), or what the cluster leaves behind, has the fewest cells.
    """
    d = len(sizes)
    logs = np.log(sizes)
    costs = np.zeros(d)
    for v in range(d):
        near[v, v] = 0
        for u in range(d):
            costs[v] += near[v, u] * logs[u]
        if own:
            costs[v] += logs[v]
    kept = np.zeros((d, d), np.uint8)
    count = 0
    total = 0.0
    left = np.ones(d, np.uint8)
    around = np.empty(d, np.int64)
    for _ in range(d):
        v = -1
        for u in range(d):
            if left[u] and (v < 0 or costs[u] < costs[v]):
                v = u
        left[v] = 0
        many = 0
        cells = sizes[v]
        for u in range(d):
            if left[u] and near[v, u]:
                around[many] = u
                many += 1
                cells *= sizes[u]
        inside = False  # an earlier cluster
        for k in range(count):
            if kept[k, v]:
                inside = True
                for i in range(many):
                    if not kept[k, around[i]]:
                        inside = False
                        break
                if inside:
                    break
        if not inside:
            kept[count, v] = 1
            for i in range(many):
                kept[count, around[i]] = 1
            count += 1
            total += cells
        for i in range(many):
            a = around[i]
            costs[a] -= logs[v]
            for j in range(i):
                b = around[j]
                if not near[a, b]:
                    near[a, b] = 1
                    near[b, a] = 1
                    costs[a] += logs[b]
                    costs[b] += logs[a]
    return kept[:count], total


# ---- the tree --------------------------------------------------------------------------------------------------------

BYTES_A_CELL = 8
_LONG = 1000  # values
_PATIENCE = 1000  # so many refusals in a row: the model is full
Names = tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """A node of the tree: the attributes it shares with its parent, and the others.

    Its table has the larger part as its last axes, so that whole rows are worked on at once.
    """

    shared: Names
    rest: Names
    parent: int  # its number, or -1 at the root
    shared_first: bool

    @property
    def names(self) -> Names:
        return self.shared + self.rest if self.shared_first else self.rest + self.shared


class JunctionTree:
    """Clusters of attributes, parents before children, such that each clique lies inside one of them.

    Clusters that hold an attribute are connected: what a cluster shares with its parent separates it from the rest.
    """

    def __init__(self, sizes: Mapping[str, int], cliques: Iterable[Sequence[str]]) -> None:
        self.sizes = dict(sizes)
        self.clusters = _as_tree(self.sizes, Graph(sizes, cliques).clusters())

    @cached_property
    def _sets(self) -> list[frozenset[str]]:
        return [frozenset(cluster.names) for cluster in self.clusters]

    @cached_property
    def _holding(self) -> dict[str, list[int]]:
        """The clusters with each attribute."""
        results: dict[str, list[int]] = {}
        for i, held in enumerate(self._sets):
            for name in held:
                results.setdefault(name, []).append(i)
        return results

    def home(self, names: Iterable[str]) -> int | None:
        """The smallest cluster of the junction tree that holds all these attributes, if any does."""
        wanted = frozenset(names)
        some = next(iter(wanted), None)
        near = range(len(self._sets)) if some is None else self._holding.get(some, ())
        results = [i for i in near if wanted <= self._sets[i]]
        return min(results, key=lambda i: self.cells(self.clusters[i].names), default=None)

    def cells(self, names: Iterable[str]) -> int:
        return math.prod(self.sizes[name] for name in names)

    @property
    def bytes(self) -> int:
        return BYTES_A_CELL * sum(self.cells(cluster.names) for cluster in self.clusters)


def model_bytes(sizes: Mapping[str, int], cliques: Iterable[Sequence[str]]) -> int:
    """The memory of the clusters that these cliques need, without building a junction tree."""
    clusters = Graph(sizes, cliques).clusters()
    return BYTES_A_CELL * sum(math.prod(sizes[name] for name in names) for names in clusters)


def admit(
    sizes: Mapping[str, int],
    cliques: Iterable[Sequence[str]],
    limit_bytes: int,
    *,
    always: Iterable[Sequence[str]] = (),
) -> list[Names]:
    """The cliques that a model of this size can hold, taken greedily in the order given; ``always`` come first."""
    held = [tuple(clique) for clique in always]
    refuse_too_large(sizes, held, limit_bytes)
    graph = Graph(sizes, held)
    taken: list[Names] = []
    refused = 0
    for clique in map(tuple, cliques):
        if not graph.holds(clique):
            if refused >= _PATIENCE or BYTES_A_CELL * graph.cells(clique) > limit_bytes:
                refused += 1
                continue
            graph.add(clique)
            refused = 0
        taken.append(clique)
    return taken


def refuse_too_large(sizes: Mapping[str, int], cliques: Sequence[Sequence[str]], limit_bytes: int) -> None:
    needed = model_bytes(sizes, cliques)
    if needed > limit_bytes:
        largest = max(cliques, key=lambda clique: math.prod(sizes[name] for name in clique), default=tuple(sizes))
        raise DomainTooLarge(
            f"The model needs {needed / 1e6:,.1f} MB, the limit is {limit_bytes / 1e6:,.1f} MB.",
            fix=f"Raise the limit, or use fewer or coarser attributes; the largest set is {'+'.join(largest)}.",
            needed_bytes=needed,
            limit_bytes=limit_bytes,
            attributes=list(largest),
        )


def _as_tree(sizes: Mapping[str, int], sets: list[Names]) -> tuple[Cluster, ...]:
    """The junction tree of clusters: a spanning tree with the largest intersections, the largest cluster at the root;
    where an attribute has very many values, one that holds it.

    Parents before children.
    """
    held = [frozenset(names) for names in sets]
    cells = [math.prod(sizes[name] for name in names) for names in sets]
    left = set(range(len(sets)))
    nearest = dict.fromkeys(left, -1)  # the node of the tree each shares most with
    overlap = dict.fromkeys(left, -1)
    number = {-1: -1}
    clusters: list[Cluster] = []
    widest = max(sizes, key=sizes.__getitem__)
    long = sizes[widest] >= _LONG  # answers carry attributes upwards: at the root it is never multiplied by separators
    new = max(left, key=lambda i: (long and widest in held[i], cells[i]))
    while True:
        left.remove(new)
        parent = nearest[new]
        shared = held[new] & held[parent] if parent >= 0 else frozenset()
        number[new] = len(clusters)
        clusters.append(_cluster(sizes, shared, held[new] - shared, number[parent]))
        if not left:
            return tuple(clusters)
        for i in left:
            common = len(held[i] & held[new])
            if common > overlap[i]:
                nearest[i], overlap[i] = new, common
        new = max(left, key=lambda i: overlap[i])


def _cluster(sizes: Mapping[str, int], shared: Iterable[str], rest: Iterable[str], parent: int) -> Cluster:
    """A cluster of the junction tree, with the widest attribute of each part last."""
    order = list(sizes)
    parts = [tuple(sorted(part, key=lambda name: (sizes[name], order.index(name)))) for part in (shared, rest)]
    first = math.prod(sizes[name] for name in parts[0]) <= math.prod(sizes[name] for name in parts[1])
    return Cluster(parts[0], parts[1], parent, first)
