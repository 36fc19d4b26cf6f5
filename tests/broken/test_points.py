"""Planted faults in the point learner's claim that the exact audit must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.heavy_hitters.settings import Level, Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.mechanism import Law
from nabladp.noise import laplace_log_pmf
from nabladp.privacy import CDP, Guarantee, Pure, Rho
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "boolean"), Attribute("y", "boolean")))


def tiny(notion: Notion, scale: float, beta: float | None = None) -> Settings:
    tree = Tree.build((2, 2), 2, 2, free_cells=2)
    mu = 1 if notion == "pure" else 0
    return Settings(notion, tree, mu, (Level(1, scale),), beta, 1, 0, 1, 0.05, 1.0, 1)


CDP_LEARNER = PointLearner(Rho(9), "y", settings=tiny("cdp", 1.2))
PURE_LEARNER = PointLearner(Pure(9), "y", notion="pure", settings=tiny("pure", 2.0, 1.5))
both = pytest.mark.parametrize("learner", [CDP_LEARNER, PURE_LEARNER], ids=["cdp", "pure"])


def refuted(learner: Any, **more: Any) -> bool:
    return not exact_audit(learner, SCHEMA, 2, **more).passed


@both
def test_the_sound_learner_passes(learner: PointLearner) -> None:
    assert not refuted(learner)


@both
def test_a_label_left_out_of_the_guarantee(learner: PointLearner) -> None:
    """The histogram of the features alone would cost this much; the label is read, too."""
    if learner.notion == "pure":
        claim = Guarantee.linear(SCHEMA, {"a": Pure(9)})
    else:
        claim = Guarantee.touch(SCHEMA, ["a"], Rho(9))
    assert refuted(learner, guarantee=claim)
    assert exact_audit(learner, SCHEMA, 2, guarantee=claim).refuted[0].attributes == ("y",)


def test_sensitivity_one_where_a_row_moves_two_counts() -> None:
    scale = 1.2
    assert refuted(CDP_LEARNER, guarantee=Guarantee.touch(SCHEMA, ["a", "y"], Rho(1 / (2 * scale**2))))
    counts_dear = replace(PURE_LEARNER, settings=tiny("pure", 6.0, 0.5))
    claim = Guarantee.linear(SCHEMA, {name: Pure(2 / 6.0) for name in SCHEMA.names})
    claim += Guarantee.touch(SCHEMA, SCHEMA.names, Pure(1 / 0.5))  # should be 2/β − 1/λ
    assert not refuted(counts_dear) and refuted(counts_dear, guarantee=claim)


@both
def test_thirty_percent_less_noise(learner: PointLearner) -> None:
    claim = learner.guarantee(SCHEMA, 2)
    assert learner.settings is not None
    (level,) = learner.settings.levels
    quieter = replace(learner.settings, levels=(Level(level.threshold, 0.7 * level.scale),))
    assert refuted(replace(learner, settings=quieter), guarantee=claim)


class Looks(Auditable):
    """A learner that counts its point once more, with noise, and does not say so."""

    def __init__(self, learner: PointLearner) -> None:
        self.learner = learner

    def guarantee(self, schema: Any, n: int) -> Any:
        raise AssertionError("the claim is handed in")

    def distribution(self, counts: Any) -> Law:
        law = self.learner.distribution(counts)
        exact = int(counts.marginals([("a", "y")])[0][1, 1])
        again = laplace_log_pmf(0.8, -40 - exact, 40 - exact)
        return Law((*law.parts, np.asarray(again)), law.largest_order)


@both
def test_a_second_look_that_is_not_charged(learner: PointLearner) -> None:
    assert refuted(Looks(learner), guarantee=learner.guarantee(SCHEMA, 2))


def test_budgets_of_the_other_notion_are_refused() -> None:
    for budget, notion in ((Pure(1), "cdp"), (CDP(1), "pure")):
        with pytest.raises(ValueError, match="notion"):
            PointLearner(budget, "y", notion=notion)
