"""A distribution over all attributes, held as potentials on a junction tree: its marginals, and rows sampled from it.

Marginals are answered on any attributes, also across clusters; pairs of attributes all at once, in one pass from the
leaves of the tree to its root.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, is_whole, stored
from nabladp.errors import DomainTooLarge, UnknownAttribute
from nabladp.mechanisms.synthesis.inference.junction_tree import BYTES_A_CELL, JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Table, Zeros, arrange, given, product, sum_to
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.noise import NoiseSource

# ---- marginals of a junction tree ------------------------------------------------------------------------------------
# Pairs of attributes are answered all at once: one pass from the leaves of the tree to its root.

# ---- all pairs at once -----------------------------------------------------------------------------------------------

_ROW = ""  # the name of an axis along which the values of several attributes follow each other


@dataclass(frozen=True, eq=False)
class _Stack:
    """For several attributes, one after the other: the joint probabilities of each one's values and ``shared``."""

    attributes: list[str]
    table: Floats  # values of all attributes by cells of ``shared``
    shared: Names
    lengths: list[int]  # of the axes of ``shared``


def all_pairs(tree: JunctionTree, beliefs: Sequence[Floats], wanted: Iterable[Names]) -> dict[Names, Floats]:
    """The model's probabilities of pairs of attributes that are in no cluster together.

    A cluster hands to its parent, for all attributes below it together, their joint probabilities with what the two
    share. Two attributes meet at the lowest cluster above both.
    """
    pairs = {frozenset(names): names for names in wanted}
    used = {name for names in pairs for name in names}
    results: dict[Names, Floats] = {}
    stacks: list[list[_Stack]] = [[] for _ in tree.clusters]
    for c in range(len(tree.clusters) - 1, -1, -1):
        cluster = tree.clusters[c]
        belief: Table = cluster.names, beliefs[c]
        upward = [_own(tree, belief, [name for name in cluster.rest if name in used], cluster.shared)]
        conditionals = [_conditional(tree, stack) for stack in stacks[c]]
        for k, (stack, conditional) in enumerate(zip(stacks[c], conditionals, strict=True)):
            for name, block in _join_with(conditional, stack, belief, [name for name in cluster.rest if name in used]):
                _collect(tree, results, pairs, stack.attributes, [name], block)
            for other, theirs in zip(stacks[c][k + 1 :], conditionals[k + 1 :], strict=True):
                met = _carry_to(conditional, stack, belief, other.shared) @ theirs.T
                _collect(tree, results, pairs, stack.attributes, other.attributes, met)
            carried = _carry_to(conditional, stack, belief, cluster.shared)
            upward.append(_Stack(stack.attributes, carried, cluster.shared, _lengths(tree, cluster.shared)))
        stacks[c] = []  # no longer needed
        if cluster.parent >= 0:
            together = [name for stack in upward for name in stack.attributes]
            if together:
                table = np.concatenate([stack.table for stack in upward])
                stacks[cluster.parent].append(_Stack(together, table, cluster.shared, upward[0].lengths))
    return results


def _lengths(tree: JunctionTree, names: Names) -> list[int]:
    return [tree.sizes[name] for name in names]


def _own(tree: JunctionTree, belief: Table, names: list[str], shared: Names) -> _Stack:
    parts = [np.empty((0, tree.cells(shared)))]
    if names:
        rows = _rows(belief, shared, names)
        parts += [each.T for _, each in _one_by_one(rows, names)]
    return _Stack(names, np.concatenate(parts), shared, _lengths(tree, shared))


def _conditional(tree: JunctionTree, stack: _Stack) -> Floats:
    """A stack's probabilities given what is shared: each attribute's values add up to one. In place, as these tables
    are the largest."""
    total = stack.table[: tree.sizes[stack.attributes[0]]].sum(axis=0)
    np.divide(stack.table, total, out=stack.table, where=total > 0)  # where it is zero, so are its parts
    return stack.table


def _rows(belief: Table, shared: Names, names: list[str]) -> Floats:
    """A cluster's belief as rows: cells of what is shared by the values of each of the names, which are axes of their
    own."""
    table = arrange(belief, (*shared, *names))
    return table.reshape(math.prod(table.shape[: len(shared)]), *table.shape[len(shared) :])


def _join_with(conditional: Floats, stack: _Stack, belief: Table, names: list[str]) -> Iterator[tuple[str, Floats]]:
    """Joint probabilities of the stack's values and each of the names, all of the cluster it has reached."""
    known = [name for name in stack.shared if name in names]
    others = [name for name in names if name not in stack.shared]
    if known:
        joint = (conditional * arrange(belief, stack.shared).ravel()).reshape(-1, *stack.lengths)
        yield from _one_by_one(arrange(((_ROW, *stack.shared), joint), (_ROW, *known)), known)
    if others:
        rows = _rows(belief, stack.shared, others)
        yield from ((name, conditional @ each) for name, each in _one_by_one(rows, others))


def _one_by_one(table: Floats, names: list[str]) -> Iterator[tuple[str, Floats]]:
    """The belief as rows by the values of each name alone; halves are summed first, so that what is large is summed
    twice only."""
    if len(names) == 1:
        yield names[0], table
        return
    half, shape = len(names) // 2, table.shape
    parted = table.reshape(shape[0], math.prod(shape[1 : half + 1]), -1)
    yield from _one_by_one(parted.sum(axis=2).reshape(shape[: half + 1]), names[:half])
    yield from _one_by_one(parted.sum(axis=1).reshape(shape[0], *shape[half + 1 :]), names[half:])


def _carry_to(conditional: Floats, stack: _Stack, belief: Table, target: Names) -> Floats:
    """Joint probabilities of the stack's values and other attributes of the cluster it has reached."""
    union = tuple(name for name in belief[0] if name in stack.shared or name in target)
    rows: Table = (_ROW, *stack.shared), conditional.reshape(-1, *stack.lengths)
    names, table = product(rows, (union, arrange(belief, union)), (_ROW, *target))
    return arrange((names, table), (_ROW, *target)).reshape(len(conditional), -1)


def _collect(
    tree: JunctionTree,
    out: dict[Names, Floats],
    pairs: dict[frozenset[str], Names],
    down: list[str],
    across: list[str],
    block: Floats,
) -> None:
    """Cut a block of joint probabilities into the attribute pairs that are wanted."""
    rows = _starts(tree, down)
    columns = _starts(tree, across)
    for i, a in enumerate(down):
        for j, b in enumerate(across):
            names = pairs.get(frozenset((a, b)))
            if names is not None:
                cut = block[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
                out[names] = cut if names == (a, b) else cut.T


def _starts(tree: JunctionTree, names: list[str]) -> list[int]:
    starts = [0]
    for name in names:
        starts.append(starts[-1] + tree.sizes[name])
    return starts


# ---- any set of attributes -------------------------------------------------------------------------------------------

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
                raise UnknownAttribute.with_suggestion(name, self.tree.sizes)
        homes = {names: self.tree.home(names) for names in sets}
        across = [names for names in sets if len(names) == 2 and homes[names] is None]
        pairs = all_pairs(self.tree, self.beliefs, across) if len(across) > self._many(across) else {}
        results = []
        for names in sets:
            self._check(names)
            home = homes[names]
            if home is not None:
                results.append(sum_to(self.beliefs[home], self.tree.clusters[home].names, names))
            elif names in pairs:
                results.append(pairs[names])
            else:
                results.append(self._across(names))
        return results

    def _many(self, pairs: Sequence[Names]) -> float:
        """The number of pairs from which on it pays to answer them all together: about a third of all there are."""
        used = len({name for names in pairs for name in names})
        return max(_MANY, used * (used - 1) / 6)

    def _across(self, names: Names) -> Floats:
        top = 0
        while True:  # down to the lowest cluster with all of them in or below it
            lower = next((c for c in self.children[top] if self.below[c].issuperset(names)), None)
            if lower is None:
                break
            top = lower
        try:
            result = self._joint(top, frozenset(names), frozenset())
        except DomainTooLarge:  # of a table on the way, and a release that is paid for does not fail: as if independent
            return functools.reduce(np.multiply.outer, self.marginals([(name,) for name in names]))
        return sum_to(result[1], result[0], names)

    def _joint(self, c: int, wanted: frozenset[str], shared: frozenset[str]) -> Table:
        """The model's P(wanted) or, if ``shared`` with the parent, P(wanted, shared | shared); all wanted are in or
        below cluster c."""
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
            table = sum_to(self.beliefs[c], cluster.names, names)
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


# ---- sampling rows ---------------------------------------------------------------------------------------------------

_GOLDEN = (5**0.5 - 1) / 2


def sample_rows(
    tree: JunctionTree, beliefs: Sequence[Floats], rows: int, noise: NoiseSource
) -> dict[str, NDArray[Any]]:
    """Rows sampled from the model, as codes of each attribute.

    Every cell of a cluster gets its expected count, given the rows of its parent's cells, rounded up or down.
    """
    codes: dict[str, NDArray[Any]] = {}
    for cluster, belief in zip(tree.clusters, beliefs, strict=True):
        shape = tree.cells(cluster.shared), tree.cells(cluster.rest)
        chances = belief.reshape(shape) if cluster.shared_first else belief.reshape(shape[::-1]).T
        group = np.zeros(rows, np.int64)
        for name in cluster.shared:
            group = group * tree.sizes[name] + codes[name]
        counts = np.bincount(group, minlength=shape[0])
        occurring = np.flatnonzero(counts)
        times = _round_counts(chances[occurring], counts[occurring], noise).ravel()
        cells = np.repeat(np.tile(np.arange(shape[1]), len(occurring)), times)
        key = (group << 32) | noise.uniform_integers(1 << 32, rows)  # any order within a group
        drawn = np.empty(rows, np.int64)
        drawn[np.argsort(key)] = cells
        sizes = [tree.sizes[name] for name in cluster.rest]
        for name, part in zip(cluster.rest, np.unravel_index(drawn, sizes), strict=True):
            codes[name] = part.astype(_smallest(tree.sizes[name]))
    return {name: codes[name] for name in tree.sizes}


def _round_counts(chances: Floats, counts: Integers, noise: NoiseSource) -> Integers:
    """Round expected counts to whole sampled rows: row i shares out counts[i] among its cells in proportion, right on
    average.

    A cell gets the whole numbers between the running sums before and after it, shifted by a uniform number; the shifts
    of neighbouring rows are spread evenly, so that what many rows round up in one cell is balanced.
    """
    ends = np.cumsum(chances, axis=1)
    last = ends[:, -1:]
    shift = (noise.uniform_integers(1 << 53, 1)[0] * 2.0**-53 + _GOLDEN * np.arange(len(counts))) % 1.0
    share = np.divide(ends, last, out=np.zeros_like(ends), where=last > 0)
    marks = np.floor(share * counts[:, None] + shift[:, None]).astype(np.int64)
    marks[:, -1] = counts  # shift < 1: the last mark is the count itself
    return np.asarray(np.diff(marks, axis=1, prepend=0))


def _smallest(size: int) -> type[np.unsignedinteger]:
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


# ---- the model -------------------------------------------------------------------------------------------------------


class Model:
    """Expected counts of ``total`` rows; ``gap`` says how far the fit was from its optimum, in noise deviations."""

    def __init__(
        self,
        network: Network,
        total: float,
        tables: Sequence[Floats],
        *,
        zeros: Sequence[Zeros] = (),
        cliques: Iterable[Names] = (),
        gap: float = 0.0,
        converged: bool = True,
        steps: int = 0,
    ) -> None:
        self.network, self.total = network, total
        self._tables, self.zeros = list(tables), tuple(zeros)
        self.cliques = tuple(tuple(clique) for clique in cliques)
        self.gap, self.converged, self.steps = gap, converged, steps

    @property
    def sizes(self) -> dict[str, int]:
        return self.network.tree.sizes

    @property
    def tree(self) -> JunctionTree:
        return self.network.tree

    def potentials(self) -> list[tuple[Names, Floats]]:
        return [
            (sub_table.names, table) for sub_table, table in zip(self.network.sub_tables, self._tables, strict=True)
        ]

    @cached_property
    def beliefs(self) -> list[Floats]:
        """The probabilities of every cluster of the model."""
        return self.network.beliefs(self._tables)[1]

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.tree, self.beliefs)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        """The model's expected counts of every cell, one axis per attribute, whether or not a cluster holds them
        all."""
        return self.marginals([attributes])[0]

    def marginals(self, sets: Iterable[Sequence[str]]) -> list[Floats]:
        """The model's marginals for many sets at once: most of the work is shared."""
        return [table * self.total for table in self._answers.marginals([tuple(names) for names in sets])]

    def draw(self, rows: int, noise: NoiseSource) -> dict[str, NDArray[Any]]:
        """Rows sampled from the model: codes, each attribute in the smallest unsigned type that holds them."""
        return sample_rows(self.tree, self.beliefs, rows, noise)

    def to_json(self) -> dict[str, Any]:
        return {
            "sizes": self.sizes,
            "total": self.total,
            "cliques": [list(clique) for clique in self.cliques],
            "potentials": [{"attributes": list(n), "values": t.ravel().tolist()} for n, t in self.potentials()],
            "zeros": [
                {"attributes": list(z.attributes), "cells": np.flatnonzero(z.forbidden).tolist()} for z in self.zeros
            ],
            "gap": self.gap,
            "converged": self.converged,
            "steps": self.steps,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        sizes = {str(name): int(size) for name, size in data["sizes"].items()}
        if not all(is_whole(size, 1, 1 << 32) for size in data["sizes"].values()):
            raise damaged("sizes")
        stored(data, "total", lambda total: is_number(total) and 1 <= total < 1 << 62)
        cliques = [tuple(clique) for clique in data["cliques"]]
        zeros = []
        for entry in data["zeros"]:
            names = tuple(entry["attributes"])
            forbidden = np.zeros(tuple(sizes[name] for name in names), np.bool_)
            forbidden.ravel()[entry["cells"]] = True
            zeros.append(Zeros(names, forbidden))
        sets = [tuple(entry["attributes"]) for entry in data["potentials"]]
        network = Network(JunctionTree(sizes, cliques), sets, zeros)
        tables = []
        for i, entry in enumerate(data["potentials"]):
            shape = tuple(sizes[name] for name in sets[i])
            values = np.array(entry["values"], float).reshape(shape)
            if not np.isfinite(values).all():
                raise damaged("potentials")
            tables.append(sum_to(values, sets[i], network.sub_tables[i].names))
        return cls(
            network, float(data["total"]), tables, zeros=zeros, cliques=cliques,
            gap=float(data["gap"]), converged=bool(data["converged"]), steps=int(data["steps"]),
        )  # fmt: skip
