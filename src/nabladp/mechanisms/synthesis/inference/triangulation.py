"""From sets of attributes that must stay together to clusters that form a tree: greedy elimination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import UnknownAttribute
from nabladp.kernels import compiled

Bits = NDArray[np.uint8]


class Graph:
    """Attributes, and which of them must share a cluster; grows by cliques."""

    def __init__(self, sizes: Mapping[str, int], cliques: Iterable[Sequence[str]] = ()) -> None:
        self.names = tuple(sizes)
        self._place = {name: i for i, name in enumerate(self.names)}
        self._sizes = np.array(list(sizes.values()), np.float64)
        self._near = np.zeros((len(self.names), len(self.names)), np.uint8)
        self._add(self._near, cliques)

    def _places(self, clique: Sequence[str]) -> list[int]:
        for name in clique:
            if name not in self._place:
                raise UnknownAttribute.named(name, self.names)
        return [self._place[name] for name in clique]

    def _add(self, near: Bits, cliques: Iterable[Sequence[str]]) -> None:
        for clique in cliques:
            places = self._places(clique)
            near[np.ix_(places, places)] = 1

    def holds(self, clique: Sequence[str]) -> bool:
        """Whether these attributes are connected to each other already."""
        places = self._places(clique)
        return bool(self._near[np.ix_(places, places)].all())

    def add(self, clique: Sequence[str]) -> None:
        self._add(self._near, [clique])

    def cells(self, *more: Sequence[str]) -> float:
        """Of all clusters together, with some cliques more."""
        near = self._near.copy()
        self._add(near, more)
        return min(found for _, found in self._both(near))

    def clusters(self) -> list[tuple[str, ...]]:
        """No cluster lies inside another."""
        found = min(self._both(self._near), key=lambda each: each[1])[0]
        return [tuple(self.names[i] for i in np.flatnonzero(row)) for row in found]

    def _both(self, near: Bits) -> list[tuple[Bits, float]]:
        """By two rules, neither of which is always the better one."""
        return [compiled(_eliminate)(self._sizes, near.copy(), own) for own in (True, False)]


def _eliminate(sizes: Floats, near: Bits, own: bool) -> tuple[Bits, float]:
    """Attributes go one by one; each leaves its neighbours connected. Next is always the one whose cluster (``own``),
    or what the cluster leaves behind, has the fewest cells."""
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
