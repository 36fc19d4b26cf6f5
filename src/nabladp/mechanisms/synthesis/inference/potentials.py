"""Log potentials on a junction tree, and the distribution they stand for: P(u) ∝ exp(Σ_S θ_S(u_S))."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, spread
from nabladp.mechanisms.synthesis.inference.places import Place, Places


class Network:
    """Potentials on some sets, each at home in a cluster; their axes are in the order of ``places[i].names``."""

    def __init__(self, tree: JunctionTree, sets: Iterable[Names], zeros: Iterable[Zeros] = ()) -> None:
        self.tree = tree
        self.shapes = [tuple(tree.sizes[name] for name in cluster.names) for cluster in tree.clusters]
        wanted = list(sets)
        homes = [self._home(names) for names in wanted]
        held = [cluster.names for cluster in tree.clusters]
        self.places = [Place.of(names, held[home], tree.sizes) for names, home in zip(wanted, homes, strict=True)]
        self._inside = [[i for i, home in enumerate(homes) if home == c] for c in range(len(held))]
        self._placed = [
            Places(names, tree.sizes, [self.places[i].names for i in inside])
            for names, inside in zip(held, self._inside, strict=True)
        ]
        self._possible: list[Floats | None] = [None] * len(tree.clusters)
        for z in zeros:
            home = self._home(z.attributes)
            mask = np.where(spread(z.forbidden, z.attributes, held[home]), -np.inf, 0.0)
            before = self._possible[home]
            self._possible[home] = mask if before is None else before + mask
        self._links = [_Link(tree, c) for c in range(len(tree.clusters))]

    def _home(self, names: Names) -> int:
        home = self.tree.home(names)
        if home is None:
            raise ValueError("a potential outside all clusters")
        return home

    def empty(self) -> list[Floats]:
        """Room for every cluster's table."""
        return [np.empty(shape) for shape in self.shapes]

    def beliefs(self, potentials: Sequence[Floats], room: list[Floats] | None = None) -> tuple[float, list[Floats]]:
        """The logarithm of the normaliser and every cluster's probabilities.

        Children tell their parent what they add up to for each combination of shared values; coming back, the parent
        tells how likely that combination is. Each such row has its own peak, so nothing that matters can vanish.
        """
        tables = self.empty() if room is None else room
        for table in tables:
            table.fill(0.0)
        totals: list[Floats] = [_NOTHING] * len(tables)
        log_total = 0.0
        for c in range(len(tables) - 1, -1, -1):
            table, link = tables[c], self._links[c]
            self._placed[c].add([potentials[i] for i in self._inside[c]], table)
            mask = self._possible[c]
            if mask is not None:
                table += mask
            rows = table.reshape(link.matrix)
            peak = rows.max(axis=link.along, keepdims=True)
            if mask is not None or not math.isfinite(peak.min()):
                peak[peak == -np.inf] = 0.0  # a row in which nothing is possible
            rows -= peak
            np.exp(rows, out=rows)
            total = totals[c] = rows.sum(axis=link.along, keepdims=True)
            with np.errstate(divide="ignore"):
                message = np.log(total)
            message += peak
            if link.parent >= 0:
                parent = tables[link.parent]
                parent += message.reshape(link.sizes).transpose(link.to_parent).reshape(link.spread)
            else:
                log_total = float(message.item())
        for c, table in enumerate(tables):
            link = self._links[c]
            rows, total = table.reshape(link.matrix), totals[c]
            if link.parent < 0:
                rows /= max(total.item(), math.ulp(0.0))  # nothing at all may be possible
                continue
            chance = link.sum(tables[link.parent]).transpose(link.from_parent).reshape(total.shape)
            rows *= np.divide(chance, total, out=np.zeros_like(total), where=total > 0)
        return log_total, tables

    def marginals(self, beliefs: Sequence[Floats]) -> list[Floats]:
        """Of every potential's set, from the clusters' probabilities."""
        found = [_NOTHING] * len(self.places)
        for c, inside in enumerate(self._inside):
            for k, table in self._placed[c].sums(beliefs[c]).items():
                found[inside[k]] = table
        return found


_NOTHING = np.empty(0)


class _Link:
    """How a cluster and its parent talk about what they share."""

    def __init__(self, tree: JunctionTree, c: int) -> None:
        cluster = tree.clusters[c]
        counts = tree.cells(cluster.shared), tree.cells(cluster.rest)
        self.matrix = counts if cluster.shared_first else counts[::-1]
        self.along = 1 if cluster.shared_first else 0  # the axis of what is not shared
        self.parent = cluster.parent
        self.sizes = [tree.sizes[name] for name in cluster.shared]
        held = tree.clusters[cluster.parent].names if cluster.parent >= 0 else ()
        self.to_parent = sorted(range(len(cluster.shared)), key=lambda k: held.index(cluster.shared[k]))
        self.from_parent = [self.to_parent.index(k) for k in range(len(cluster.shared))]
        shared = Place.of(cluster.shared, held, tree.sizes)
        self.spread, self.sum = shared.spread, shared.sum
