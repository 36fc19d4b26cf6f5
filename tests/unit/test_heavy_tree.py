"""Trees of attribute groups, and what their certificates depend on."""

from __future__ import annotations

import numpy as np
import pytest

from nabladp.mechanisms.heavy_hitters.certificate import Shape
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree, leaf_groups


def random_tree(draws: np.random.Generator) -> tuple[list[int], tuple[int, int, int], Tree]:
    sizes = draws.integers(1, 9, size=draws.integers(1, 40)).tolist()
    arguments = int(draws.integers(1, 65)), int(draws.integers(2, 6)), int(draws.integers(1, 65))
    return sizes, arguments, Tree.build(sizes, *arguments)


def test_every_tree_is_what_it_says() -> None:
    draws = np.random.default_rng(1)
    for _ in range(200):
        sizes, (leaf_cells, fan_out, free_cells), tree = random_tree(draws)
        assert tree.root.attributes == tuple(range(len(sizes))) and tree.root.thresholded
        parents = [0] * len(tree.nodes)
        for position, node in enumerate(tree.nodes):
            assert node.attributes == tuple(range(node.attributes[0], node.attributes[-1] + 1))
            if node.children:
                assert 2 <= len(node.children) <= fan_out and node.thresholded
                assert max(node.children) < position and node.level > max(tree.nodes[c].level for c in node.children)
                assert node.attributes == sum((tree.nodes[c].attributes for c in node.children), ())
                for child in node.children:
                    parents[child] += 1
            else:
                assert node.level == 0 and (tree.cells(node) <= leaf_cells or len(node.attributes) == 1)
                assert node.thresholded == (tree.cells(node) > free_cells or len(tree.nodes) == 1)
        assert parents == [1] * (len(tree.nodes) - 1) + [0]


def test_path_lengths_count_thresholded_nodes() -> None:
    draws = np.random.default_rng(2)
    for _ in range(50):
        sizes, _, tree = random_tree(draws)
        for j in range(len(sizes)):
            assert tree.path_length(j) == sum(node.thresholded and j in node.attributes for node in tree.nodes)
        assert tree.depth == max(tree.path_lengths) >= 1
        assert tree.depth <= tree.thresholded_levels
        assert [p for level in tree.levels for p in level] == list(range(len(tree.nodes)))
        assert tree.lowest == min(node.level for node in tree.nodes if node.thresholded)


def test_a_power_of_two_gives_the_tree_of_the_paper() -> None:
    tree = Tree.build([2] * 16, 2, 2, 2)
    assert [len(level) for level in tree.levels] == [16, 8, 4, 2, 1]
    assert tree.path_lengths == (4,) * 16 and tree.lowest == 1


def test_a_node_without_siblings_is_promoted_without_a_second_threshold() -> None:
    tree = Tree.build([2] * 5, 2, 2, 2)
    assert tree.root.children == (7, 4) and tree.nodes[4].attributes == (4,)
    assert tree.path_lengths == (3, 3, 3, 3, 1)


def test_wide_leaves_hold_as_many_attributes_as_fit() -> None:
    assert leaf_groups([2, 3, 4, 100, 5, 5], 24) == [(0, 3, 24), (3, 4, 100), (4, 5, 5), (5, 6, 5)]
    assert leaf_groups([2, 3, 4, 100, 5, 5], 25) == [(0, 3, 24), (3, 4, 100), (4, 6, 25)]
    tree = Tree.build([2, 10_000_000, 3], 16, 2, 4096)
    assert [node.thresholded for node in tree.nodes] == [False, True, False, True, True]
    assert tree.path_lengths == (2, 3, 1)


@pytest.mark.parametrize(("sizes", "fan_out"), [([], 2), ([2, 0], 2), ([2, 2], 1)])
def test_impossible_trees_are_refused(sizes: list[int], fan_out: int) -> None:
    with pytest.raises(ValueError):
        Tree.build(sizes, 2, fan_out, 2)


def test_shapes_are_those_of_the_trees() -> None:
    draws = np.random.default_rng(3)
    for _ in range(200):
        sizes, (leaf_cells, fan_out, free_cells), tree = random_tree(draws)
        cells = np.array([float(cells) for _, _, cells in leaf_groups(sizes, leaf_cells)])
        one, other = Shape.of(tree), Shape.build(cells, fan_out, free_cells)
        assert np.array_equal(one.cells, other.cells) and np.array_equal(one.thresholded, other.thresholded)
        assert len(one.joins) == len(other.joins) and one.lowest == other.lowest == tree.lowest
        for ours, theirs in zip(one.joins, other.joins, strict=True):
            assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1])
        assert np.array_equal(one.copies, other.copies) and one.copies.sum() == len(tree.nodes)
        counts = [sum(tree.nodes[p].thresholded for p in level) for level in tree.levels[tree.lowest :]]
        assert one.nodes.tolist() == counts


def settings(tree: Tree, **changes: object) -> Settings:
    values = {"notion": "pure", "tree": tree, "mu": 3, "levels": (Level(3, 1.0), Level(5, 1.0)), "count_scale": 1.0,
              "certified": 9, "count_error": 3, "unlisted": 9, "failure": 0.05, "expected_list": 10.0,
              "memory": 1000}  # fmt: skip
    return Settings(**(values | changes))  # type: ignore[arg-type]


def test_settings_that_the_proof_does_not_cover_are_refused() -> None:
    tree = Tree.build([2] * 4, 2, 2, 2)
    good = settings(tree)
    assert good.level_of(tree.root) == Level(5, 1.0) and good.level_of(tree.nodes[4]) == Level(3, 1.0)
    for changes in (
        {"levels": (Level(3, 1.0),)},
        {"levels": (Level(5, 1.0), Level(3, 1.0))},
        {"levels": (Level(2, 1.0), Level(5, 1.0))},
        {"levels": (Level(3, 1.0), Level(5, 2.0))},
        {"mu": 0},
        {"count_scale": 0.0},
        {"notion": "cdp", "mu": 0, "levels": (Level(-1, 1.0), Level(5, 1.0))},
    ):
        with pytest.raises(ValueError):
            settings(tree, **changes)
    settings(tree, notion="cdp", mu=0, levels=(Level(5, 1.0), Level(3, 2.0)), count_scale=None)
