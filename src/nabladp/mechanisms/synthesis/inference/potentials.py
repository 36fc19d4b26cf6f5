"""Log potentials on a junction tree, and the distribution they stand for: P(u) ∝ exp(Σ_S θ_S(u_S)).

``SubTable`` and ``SubTables`` index small tables inside a cluster's large one: how they are added to it and summed from
it. Where a cluster holds many, they go by way of a few tables of middle size, each of which holds several of them: so
each touches the cells of a middle one instead of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters as _LETTERS

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Zeros, spread

# ---- sub-tables: small tables inside a large one ---------------------------------------------------------------------

Shape = tuple[int, ...]
_MANY = 1 << 18  # cells touched by all tables together: below, a detour is not worth planning
_MIDDLE = 0.6  # a middle table has at most this power of the large one's cells


@dataclass(frozen=True)
class SubTable:
    """Where a table on some attributes of a larger one lies."""

    names: Names  # in the larger one's order
    shape: Shape  # of the table
    spread: Shape  # the same with an axis of length 1 for every other attribute
    others: tuple[int, ...]  # axes of the larger one to sum over

    @classmethod
    def of(cls, names: Iterable[str], held: Names, sizes: Mapping[str, int]) -> SubTable:
        chosen = set(names)
        kept = tuple(name for name in held if name in chosen)
        return cls(
            kept,
            tuple(sizes[name] for name in kept),
            tuple(sizes[name] if name in chosen else 1 for name in held),
            tuple(k for k, name in enumerate(held) if name not in chosen),
        )

    @cached_property
    def letters(self) -> str:
        count = len(self.spread)
        return f"{_LETTERS[:count]}->{''.join(_LETTERS[k] for k in range(count) if k not in self.others)}"

    def add(self, small: Floats, table: Floats) -> None:
        table += small.reshape(self.spread)

    def sum(self, table: Floats) -> Floats:
        if not self.others:
            return table
        if 0 in self.others:
            return np.asarray(table.sum(axis=self.others))
        return np.asarray(np.einsum(self.letters, table))  # quicker when the first axis stays


@dataclass(frozen=True)
class Stage:
    """A middle table, and the small ones that go by way of it: their numbers, and where they lie in it."""

    middle: SubTable
    members: tuple[tuple[int, SubTable], ...]


class SubTables:
    """Tables on ``sets`` of attributes inside one on ``held``, in that order."""

    def __init__(self, held: Names, sizes: Mapping[str, int], sets: Sequence[Names]) -> None:
        self.direct = [(i, SubTable.of(names, held, sizes)) for i, names in enumerate(sets)]
        self.stages: list[Stage] = []
        cells = float(np.prod([float(sizes[name]) for name in held]))
        if cells * len(sets) < _MANY:
            return
        groups = _groups(held, sizes, sets, cells**_MIDDLE)
        for names, members in groups:
            if len(members) > 1:
                middle = SubTable.of(names, held, sizes)
                inside = tuple((i, SubTable.of(sets[i], middle.names, sizes)) for i in members)
                self.stages.append(Stage(middle, inside))
        gone = {i for stage in self.stages for i, _ in stage.members}
        self.direct = [(i, sub_table) for i, sub_table in self.direct if i not in gone]

    def add(self, small: Sequence[Floats], table: Floats) -> None:
        for i, sub_table in self.direct:
            sub_table.add(small[i], table)
        for stage in self.stages:
            gathered = np.zeros(stage.middle.shape)
            for i, sub_table in stage.members:
                sub_table.add(small[i], gathered)
            stage.middle.add(gathered, table)

    def sums(self, table: Floats) -> dict[int, Floats]:
        results = {i: sub_table.sum(table) for i, sub_table in self.direct}
        for stage in self.stages:
            middle = stage.middle.sum(table)
            results |= {i: sub_table.sum(middle) for i, sub_table in stage.members}
        return results


def _groups(
    held: Names, sizes: Mapping[str, int], sets: Sequence[Names], most: float
) -> list[tuple[set[str], list[int]]]:
    """Groups of attributes with at most so many cells each, and the sets of potentials inside.

    Each group begins with a set that has none yet and takes in, one by one, the attribute with which it holds most of
    the others.
    """
    inside = np.array([[name in names for name in held] for names in sets])
    lengths = np.array([float(sizes[name]) for name in held])
    waiting = np.ones(len(sets), bool)
    groups = []
    while waiting.any():
        chosen = inside[int(waiting.argmax())].copy()
        while True:
            missing = inside[waiting] & ~chosen
            fitting = ~chosen & (lengths * np.prod(lengths[chosen]) <= most)
            if not fitting.any():
                break
            # sets that lack an attribute count the more, the fewer they lack
            gain = (missing / 4.0 ** missing.sum(axis=1, keepdims=True)).sum(axis=0)
            best = int(np.where(fitting, gain, -1.0).argmax())
            if gain[best] <= 0:
                break
            chosen[best] = True
        members = waiting & ~(inside & ~chosen).any(axis=1)
        waiting &= ~members
        groups.append(({name for name, c in zip(held, chosen, strict=True) if c}, np.flatnonzero(members).tolist()))
    return groups


# ---- potentials ------------------------------------------------------------------------------------------------------


class Network:
    """Potentials on some sets, each at home in a cluster; their axes are in the order of ``sub_tables[i].names``."""

    def __init__(self, tree: JunctionTree, sets: Iterable[Names], zeros: Iterable[Zeros] = ()) -> None:
        self.tree = tree
        self.shapes = [tuple(tree.sizes[name] for name in cluster.names) for cluster in tree.clusters]
        wanted = list(sets)
        homes = [self._home(names) for names in wanted]
        held = [cluster.names for cluster in tree.clusters]
        self.sub_tables = [
            SubTable.of(names, held[home], tree.sizes) for names, home in zip(wanted, homes, strict=True)
        ]
        self._inside = [[i for i, home in enumerate(homes) if home == c] for c in range(len(held))]
        self._tables = [
            SubTables(names, tree.sizes, [self.sub_tables[i].names for i in inside])
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
        """Empty tables for the log beliefs of every cluster."""
        return [np.empty(shape) for shape in self.shapes]

    def beliefs(self, potentials: Sequence[Floats], room: list[Floats] | None = None) -> tuple[float, list[Floats]]:
        """Belief propagation: the logarithm of the normaliser and every cluster's probabilities, from the potentials.

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
            self._tables[c].add([potentials[i] for i in self._inside[c]], table)
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
        """The marginal on every potential's set, from the clusters' probabilities."""
        result = [_NOTHING] * len(self.sub_tables)
        for c, inside in enumerate(self._inside):
            for k, table in self._tables[c].sums(beliefs[c]).items():
                result[inside[k]] = table
        return result


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
        shared = SubTable.of(cluster.shared, held, tree.sizes)
        self.spread, self.sum = shared.spread, shared.sum
