"""Log potentials on a junction tree, and the distribution they stand for: P(u) ∝ exp(Σ_S θ_S(u_S))."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters as _LETTERS

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, spread

Floats = NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where a table on some of a cluster's attributes lies in the cluster's own."""

    home: int
    names: Names  # in the cluster's order
    shape: Shape  # of the table
    spread: Shape  # the same with an axis of length 1 for every other attribute
    others: tuple[int, ...]  # axes of the cluster to sum over

    @cached_property
    def letters(self) -> str:
        count = len(self.spread)
        return f"{_LETTERS[:count]}->{''.join(_LETTERS[k] for k in range(count) if k not in self.others)}"

    def sum(self, table: Floats) -> Floats:
        if not self.others:
            return table
        if 0 in self.others:
            return np.asarray(table.sum(axis=self.others))
        return np.asarray(np.einsum(self.letters, table))  # quicker when the first axis stays


class Network:
    """Potentials on some sets, each at home in a cluster; their axes are in the order of ``places[i].names``."""

    def __init__(self, tree: JunctionTree, sets: Iterable[Names], zeros: Iterable[Zeros] = ()) -> None:
        self.tree = tree
        self.shapes = [tuple(tree.sizes[name] for name in cluster.names) for cluster in tree.clusters]
        self.places = [self._place(names) for names in sets]
        self._inside: list[list[int]] = [[] for _ in tree.clusters]
        for i, place in enumerate(self.places):
            self._inside[place.home].append(i)
        self._possible: list[Floats | None] = [None] * len(tree.clusters)
        for z in zeros:
            place = self._place(z.attributes)
            held = tree.clusters[place.home].names
            mask = np.where(spread(z.forbidden, z.attributes, held), -np.inf, 0.0)
            before = self._possible[place.home]
            self._possible[place.home] = mask if before is None else before + mask
        self._links = [_Link(tree, c) for c in range(len(tree.clusters))]

    def _place(self, names: Names) -> Place:
        home = self.tree.home(names)
        if home is None:
            raise ValueError("a potential outside all clusters")
        held = self.tree.clusters[home].names
        sizes = self.tree.sizes
        kept = tuple(name for name in held if name in names)
        return Place(
            home,
            kept,
            tuple(sizes[name] for name in kept),
            tuple(sizes[name] if name in kept else 1 for name in held),
            tuple(k for k, name in enumerate(held) if name not in kept),
        )

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
            for i in self._inside[c]:
                table += potentials[i].reshape(self.places[i].spread)
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

    def marginal(self, beliefs: Sequence[Floats], i: int) -> Floats:
        """Of potential i, from the clusters' probabilities."""
        place = self.places[i]
        return place.sum(beliefs[place.home])


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
        self.spread = tuple(tree.sizes[name] if name in cluster.shared else 1 for name in held)
        others = tuple(k for k, name in enumerate(held) if name not in cluster.shared)
        self.sum = Place(cluster.parent, (), (), self.spread, others).sum
