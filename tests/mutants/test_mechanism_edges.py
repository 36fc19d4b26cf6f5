"""Refusals of mechanisms' parts that no plan comes near: they guard what the proofs take for granted."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.errors import BudgetError, MechanismError, SourceError
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.heavy_hitters.output import HeavyList, after_passing
from nabladp.mechanisms.heavy_hitters.privacy_loss import least_path_lambda
from nabladp.mechanisms.heavy_hitters.tree import Node, Tree
from nabladp.mechanisms.learners.columns import column
from nabladp.mechanisms.learners.halfspaces.finite_classes import SignOrbits, partitions
from nabladp.mechanisms.learners.halfspaces.holdout import Holdout
from nabladp.mechanisms.learners.halfspaces.robust_distance import ClippedLoss
from nabladp.mechanisms.learners.halfspaces.selection import log_law
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.mechanisms.mwem.round_plan import Prices
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.projection import hull
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Pure
from nabladp.privacy.units import UNIT, half_square
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

HALF = np.log([0.5, 0.5])
SCHEMA = Schema((Attribute("a", "integer", low=0, high=2), Attribute("b", "boolean")))


def found() -> tuple[HeavyHitters, HeavyList]:
    table = CodedTable(SCHEMA, {"a": np.zeros(500, np.int64), "b": np.ones(500, np.int64)})
    mechanism = HeavyHitters(CDP(1))
    return mechanism, mechanism.run(table, NoiseSource.seeded(1))


def test_a_branch_leads_from_every_outcome_to_a_law_it_holds() -> None:
    follow = (Law((HALF,)), Law((HALF,)))
    assert Branch(HALF, np.array([0, 1]), follow).then == follow
    for which in (np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(MechanismError, match="for each outcome"):
            Branch(HALF, which, follow)
    for which in (np.array([0, 2]), np.array([-1, 0])):
        with pytest.raises(MechanismError, match="does not hold"):
            Branch(HALF, which, follow)


@pytest.mark.parametrize("values", ["abc", 5, [[1], [2]]])
def test_a_column_is_a_flat_list(values: Any) -> None:
    with pytest.raises(SourceError, match="column"):
        column(values)


def test_margins_are_whole_numbers() -> None:
    assert ClippedLoss(3, 1).inner == 1
    for outer, inner in ((3, True), (3.0, 1), (3, 1.0)):
        with pytest.raises(MechanismError, match="numbers of attributes"):
            ClippedLoss(outer, inner)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0, 1, -0.5, 2])
def test_a_level_lies_strictly_between_0_and_1(level: float) -> None:
    with pytest.raises(MechanismError, match="between 0 and 1"):
        Holdout(10, 7, 1.0).interval(level)
    with pytest.raises(MechanismError, match="between 0 and 1"):
        after_passing(np.array([5]), 3, 1.0, 10, level)


def test_scores_are_a_list_of_integers_that_lie_within_reach_of_each_other() -> None:
    assert np.allclose(log_law(np.array([3, 3]), 1), HALF)
    for scores in ([], [0.5], [[1, 2]]):
        with pytest.raises(MechanismError, match="at least one integer"):
            log_law(scores, 1)
    with pytest.raises(MechanismError, match="within"):
        log_law(np.array([-(1 << 62), 1 << 62]), 1)


def test_numbers_are_split_into_none_only_where_nothing_is_split() -> None:
    assert list(partitions(0, 0, 5)) == [[]] and list(partitions(1, 0, 5)) == []
    assert list(partitions(3, 2, 2)) == [[2, 1]]


# Heavy hitters


def test_budgets_map_attributes() -> None:
    with pytest.raises(ValueError, match="table of budgets by attribute"):
        HeavyHitters(CDP(1), budgets=[("a", CDP(1))])  # type: ignore[arg-type]


def test_a_tree_is_over_domains_and_has_one_root() -> None:
    leaf, other = Node((0,), (), 0, True), Node((1,), (), 0, True)
    assert Tree((2,), (leaf,)).sizes == (2,)
    for sizes, nodes in (((0,), (leaf,)), ((2.0,), (leaf,)), ((2,), ()), ((2, 2), (leaf, other)), ((2, 2), (leaf,))):
        with pytest.raises(MechanismError, match="tree"):
            Tree(sizes, nodes)


def test_a_path_has_thresholds_that_do_not_fall_and_an_epsilon() -> None:
    assert least_path_lambda([1, 2], 0, 1.0) >= 2
    for thresholds in ([], [2, 1]):
        with pytest.raises(ValueError, match="threshold"):
            least_path_lambda(thresholds, 0, 1.0)
    for epsilon in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive and finite"):
            least_path_lambda([1], 0, epsilon)


def test_a_list_has_a_count_for_every_combination_and_finite_noise() -> None:
    _, heavy = found()
    told = heavy.to_json()
    assert len(heavy.counts) >= 1 and HeavyList.from_json(told, SCHEMA).to_json() == told
    with pytest.raises(MechanismError, match="as many counts"):
        HeavyList.from_json({**told, "counts": [*told["counts"], 1]}, SCHEMA)
    assert heavy.settings is not None
    level = replace(heavy.settings.levels[0], scale=math.inf)
    with pytest.raises(ValueError, match="finite"):
        replace(heavy.settings, levels=(level, *heavy.settings.levels[1:]))


# Marginals, MWEM, projection


def test_marginals_are_asked_for_in_one_way_and_bought_with_fitting_budgets() -> None:
    for given in ({"noise": "cauchy", "k": 1}, {"noise": "gaussian"}, {"noise": "gaussian", "k": 1, "sets": [["a"]]}):
        with pytest.raises(MechanismError, match=r"noise|Neither|Both"):
            NoisyMarginals(CDP(1), **given)
    for noise, budget in (("gaussian", Pure(1)), ("laplace", CDP(1))):
        with pytest.raises(BudgetError, match="does not support"):
            NoisyMarginals(budget, k=1, noise=noise)


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 100), Fraction(99, 100)])
def test_all_rounds_together_never_cost_more_than_the_budget(share: Fraction) -> None:
    units = UNIT // 3
    prices = Prices.any_rounds({"a": units}, share)
    assert half_square(prices.selection["a"]) + prices.answers["a"] <= units
    with pytest.raises(BudgetError, match="'a'"):
        Prices.any_rounds({"a": 1 << 16}, share)


@pytest.mark.parametrize("rank", [40, 300])
def test_many_vectors_are_inverted_as_few_are(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """300 vectors in a space of so many dimensions: as many are kept either way, and their Gram matrix is inverted."""
    vectors = np.random.default_rng(1).normal(size=(300, rank))
    gram = vectors @ vectors.T
    for many in (256, 1000):
        monkeypatch.setattr(hull, "_MANY", many)
        kept, inverse = hull._invert(gram, np.diag(gram).copy())
        assert len(kept) == rank and list(kept) == sorted(set(kept.tolist()))
        assert np.allclose(inverse @ gram[np.ix_(kept, kept)], np.eye(rank), atol=1e-5)


def test_a_learner_is_refused_what_leaves_it_nothing_to_work_with() -> None:
    with pytest.raises(MechanismError, match="never rise"):
        SignOrbits(np.array([[1, 2, 0]]))
    with pytest.raises(MechanismError, match="at most"):
        SignOrbits(np.ones((1, 22), np.int64))
