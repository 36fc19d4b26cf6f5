"""Marginals of a junction tree on any attributes, also across its clusters.

Pairs of attributes are answered all at once: one pass from the leaves of the tree to its root."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats
from nabladp.errors import DomainTooLarge, UnknownAttribute
from nabladp.mechanisms.synthesis.inference.junction_tree import BYTES_A_CELL, JunctionTree
from nabladp.mechanisms.synthesis.inference.measurement import Names, Table, arranged, given, product, summed

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
    """Probabilities of pairs of attributes that are in no cluster together.

    A cluster hands to its parent, for all attributes below it together, their joint probabilities with what the two
    share. Two attributes meet at the lowest cluster above both.
    """
    pairs = {frozenset(names): names for names in wanted}
    used = {name for names in pairs for name in names}
    found: dict[Names, Floats] = {}
    stacks: list[list[_Stack]] = [[] for _ in tree.clusters]
    for c in range(len(tree.clusters) - 1, -1, -1):
        cluster = tree.clusters[c]
        belief: Table = cluster.names, beliefs[c]
        upward = [_own(tree, belief, [name for name in cluster.rest if name in used], cluster.shared)]
        conditionals = [_conditional(tree, stack) for stack in stacks[c]]
        for k, (stack, conditional) in enumerate(zip(stacks[c], conditionals, strict=True)):
            for name, block in _met(conditional, stack, belief, [name for name in cluster.rest if name in used]):
                _collect(tree, found, pairs, stack.attributes, [name], block)
            for other, theirs in zip(stacks[c][k + 1 :], conditionals[k + 1 :], strict=True):
                met = _carried(conditional, stack, belief, other.shared) @ theirs.T
                _collect(tree, found, pairs, stack.attributes, other.attributes, met)
            carried = _carried(conditional, stack, belief, cluster.shared)
            upward.append(_Stack(stack.attributes, carried, cluster.shared, _lengths(tree, cluster.shared)))
        stacks[c] = []  # no longer needed
        if cluster.parent >= 0:
            together = [name for stack in upward for name in stack.attributes]
            if together:
                table = np.concatenate([stack.table for stack in upward])
                stacks[cluster.parent].append(_Stack(together, table, cluster.shared, upward[0].lengths))
    return found


def _lengths(tree: JunctionTree, names: Names) -> list[int]:
    return [tree.sizes[name] for name in names]


def _own(tree: JunctionTree, belief: Table, names: list[str], shared: Names) -> _Stack:
    parts = [np.empty((0, tree.cells(shared)))]
    if names:
        rows = _rows(belief, shared, names)
        parts += [each.T for _, each in _one_by_one(rows, names)]
    return _Stack(names, np.concatenate(parts), shared, _lengths(tree, shared))


def _conditional(tree: JunctionTree, stack: _Stack) -> Floats:
    """Given what is shared: each attribute's values add up to one. In place: the largest tables of all are here."""
    total = stack.table[: tree.sizes[stack.attributes[0]]].sum(axis=0)
    np.divide(stack.table, total, out=stack.table, where=total > 0)  # where it is zero, so are its parts
    return stack.table


def _rows(belief: Table, shared: Names, names: list[str]) -> Floats:
    """Cells of what is shared by the values of each of the names, which are axes of their own."""
    table = arranged(belief, (*shared, *names))
    return table.reshape(math.prod(table.shape[: len(shared)]), *table.shape[len(shared) :])


def _met(conditional: Floats, stack: _Stack, belief: Table, names: list[str]) -> Iterator[tuple[str, Floats]]:
    """Joint probabilities of the stack's values and each of the names, all of the cluster it has reached."""
    known = [name for name in stack.shared if name in names]
    others = [name for name in names if name not in stack.shared]
    if known:
        joint = (conditional * arranged(belief, stack.shared).ravel()).reshape(-1, *stack.lengths)
        yield from _one_by_one(arranged(((_ROW, *stack.shared), joint), (_ROW, *known)), known)
    if others:
        rows = _rows(belief, stack.shared, others)
        yield from ((name, conditional @ each) for name, each in _one_by_one(rows, others))


def _one_by_one(table: Floats, names: list[str]) -> Iterator[tuple[str, Floats]]:
    """Rows by the values of each name alone. Halves are summed first, so that what is large is summed twice only."""
    if len(names) == 1:
        yield names[0], table
        return
    half, shape = len(names) // 2, table.shape
    parted = table.reshape(shape[0], math.prod(shape[1 : half + 1]), -1)
    yield from _one_by_one(parted.sum(axis=2).reshape(shape[: half + 1]), names[:half])
    yield from _one_by_one(parted.sum(axis=1).reshape(shape[0], *shape[half + 1 :]), names[half:])


def _carried(conditional: Floats, stack: _Stack, belief: Table, target: Names) -> Floats:
    """Joint probabilities of the stack's values and other attributes of the cluster it has reached."""
    union = tuple(name for name in belief[0] if name in stack.shared or name in target)
    rows: Table = (_ROW, *stack.shared), conditional.reshape(-1, *stack.lengths)
    names, table = product(rows, (union, arranged(belief, union)), (_ROW, *target))
    return arranged((names, table), (_ROW, *target)).reshape(len(conditional), -1)


def _collect(
    tree: JunctionTree,
    found: dict[Names, Floats],
    pairs: dict[frozenset[str], Names],
    down: list[str],
    across: list[str],
    block: Floats,
) -> None:
    """Cut a block of values by values into the pairs that are wanted."""
    rows = _starts(tree, down)
    columns = _starts(tree, across)
    for i, a in enumerate(down):
        for j, b in enumerate(across):
            names = pairs.get(frozenset((a, b)))
            if names is not None:
                cut = block[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
                found[names] = cut if names == (a, b) else cut.T


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
