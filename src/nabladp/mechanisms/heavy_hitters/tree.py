"""The tree of attribute groups along which frequent combinations are put together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, groupby, pairwise
from typing import Any

from nabladp.errors import MechanismError


@dataclass(frozen=True)
class Node:
    """A group of consecutive attributes; its candidates are the product of its children's lists.

    A leaf's candidates are the product of its attributes' domains. A node that is not ``thresholded`` (a "free" leaf)
    lists all of them and learns nothing from the data.
    """

    attributes: tuple[int, ...]
    children: tuple[int, ...]  # positions in ``Tree.nodes``; none for a leaf
    level: int  # 0 for leaves; above every child's, by more than one where the child had no siblings to join
    thresholded: bool


@dataclass(frozen=True)
class Tree:
    """Children stand before their parents, the root last. The root is always thresholded."""

    sizes: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        """What the proof takes for granted: nodes are nested or disjoint, and there is one root."""
        if not self._is_a_tree():  # [nested]
            raise MechanismError("The nodes do not make up a tree.", fix="Build it with Tree.build.")

    def _is_a_tree(self) -> bool:
        if not self.nodes or any(type(size) is not int or size < 1 for size in self.sizes):
            return False
        everything, root = tuple(range(len(self.sizes))), len(self.nodes) - 1
        leaves = [node.attributes for node in self.nodes if not node.children]
        children = sorted(child for node in self.nodes for child in node.children)
        return (
            tuple(chain.from_iterable(leaves)) == everything == self.nodes[root].attributes
            and all(leaves)
            and children == list(range(root))  # all but the root have one parent
            and self.nodes[root].thresholded
            and all(self._joins_its_children(position) for position in range(root + 1))
        )

    def _joins_its_children(self, position: int) -> bool:
        node = self.nodes[position]
        if not node.children:
            return node.level == 0
        below = [self.nodes[child] for child in node.children]
        return (
            node.thresholded
            and max(node.children) < position
            and node.attributes == tuple(chain.from_iterable(child.attributes for child in below))
            and node.level > max(child.level for child in below)
        )

    @classmethod
    def build(cls, sizes: Sequence[int], leaf_cells: int, fan_out: int, free_cells: int) -> Tree:
        """A HeavyHitters tree with leaves as wide as ``leaf_cells`` allows (one attribute at least), free if of ≤
        ``free_cells`` values.

        Every node above joins up to ``fan_out`` neighbours of the level below. A node that would have one child is
        that child, with no second threshold.
        """
        sizes = tuple(int(size) for size in sizes)
        if not sizes or min(sizes) < 1:
            raise MechanismError(
                "A tree needs at least one attribute, each with at least one value.", fix="Give the sizes of some."
            )
        if fan_out < 2:
            raise MechanismError("A node joins at least two others.", fix="Give a fan-out of at least 2.")
        groups = leaf_groups(sizes, leaf_cells)
        alone = len(groups) == 1
        nodes = [Node(tuple(range(first, last)), (), 0, alone or cells > free_cells) for first, last, cells in groups]
        current, level = list(range(len(nodes))), 0
        while len(current) > 1:
            level += 1
            current = [
                _join_children(nodes, current[start : start + fan_out], level)
                for start in range(0, len(current), fan_out)
            ]
        return cls(sizes, tuple(nodes))

    def to_json(self) -> dict[str, Any]:
        """The tree as JSON: the attributes per leaf, which leaves have a threshold, and how many neighbours are
        joined."""
        if any(len(node.children) == 1 for node in self.nodes):
            raise MechanismError("A node with one child cannot be written down.", fix="Write the tree it came from.")
        leaves = [self.nodes[position] for position in self.levels[0]]
        current, joins = list(self.levels[0]), []
        for level in self.levels[1:]:
            parent = {child: position for position in level for child in self.nodes[position].children}
            held = [(key, len(list(same))) for key, same in groupby(parent.get(child, child) for child in current)]
            joins.append([many for _, many in held])
            current = [key for key, _ in held]
        return {
            "sizes": list(self.sizes),
            "leaves": [len(leaf.attributes) for leaf in leaves],
            "thresholded": [leaf.thresholded for leaf in leaves],
            "joins": joins,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tree:
        ends = list(accumulate(data["leaves"], initial=0))
        leaves = zip(pairwise(ends), data["thresholded"], strict=True)
        nodes = [Node(tuple(range(*span)), (), 0, bool(thresholded)) for span, thresholded in leaves]
        current = list(range(len(nodes)))
        for level, groups in enumerate(data["joins"], 1):
            spans = pairwise(accumulate(groups, initial=0))
            current = [_join_children(nodes, current[i:j], level) for i, j in spans]
        return cls(tuple(int(size) for size in data["sizes"]), tuple(nodes))

    @property
    def root(self) -> Node:
        return self.nodes[-1]

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the tree nodes of every level, leaves first."""
        rows: list[list[int]] = [[] for _ in range(self.root.level + 1)]
        for position, node in enumerate(self.nodes):
            rows[node.level].append(position)
        return tuple(tuple(row) for row in rows)

    @cached_property
    def lowest(self) -> int:
        """The lowest level of the tree with a threshold: 0, or 1 where all leaves are free."""
        return min(node.level for node in self.nodes if node.thresholded)

    @property
    def thresholded_levels(self) -> int:
        return self.root.level - self.lowest + 1

    @cached_property
    def lowest_nodes(self) -> tuple[int, ...]:
        """For every attribute, the lowest thresholded node that holds it; attributes with the same one share a path."""
        result = [-1] * len(self.sizes)
        for position, node in enumerate(self.nodes):  # children come first
            if node.thresholded:
                for attribute in node.attributes:
                    result[attribute] = position if result[attribute] < 0 else result[attribute]
        return tuple(result)

    @cached_property
    def path_lengths(self) -> tuple[int, ...]:
        """For every attribute, the number of thresholded tree nodes that hold it."""
        lengths = [0] * len(self.sizes)
        for node in self.nodes:
            if node.thresholded:
                for attribute in node.attributes:
                    lengths[attribute] += 1
        return tuple(lengths)

    def path_length(self, attribute: int) -> int:
        return self.path_lengths[attribute]

    @property
    def depth(self) -> int:
        return max(self.path_lengths)

    def cells(self, node: Node) -> int:
        """The number of strings over a tree node's attributes."""
        return math.prod(self.sizes[attribute] for attribute in node.attributes)


def leaf_groups(sizes: Sequence[int], leaf_cells: int) -> list[tuple[int, int, int]]:
    """The attributes of each leaf, first … last − 1, and the product of their sizes: at most ``leaf_cells``, or a
    single attribute."""
    groups: list[tuple[int, int, int]] = []
    first, cells = 0, 1
    for attribute, size in enumerate(sizes):
        if attribute > first and cells * size > leaf_cells:
            groups.append((first, attribute, cells))
            first, cells = attribute, 1
        cells *= size
    groups.append((first, len(sizes), cells))
    return groups


def _join_children(nodes: list[Node], children: list[int], level: int) -> int:
    """The position of the tree node that joins these children, added to ``nodes`` unless there is only one child."""
    if len(children) == 1:
        return children[0]
    attributes = tuple(attribute for child in children for attribute in nodes[child].attributes)
    nodes.append(Node(attributes, tuple(children), level, True))
    return len(nodes) - 1
