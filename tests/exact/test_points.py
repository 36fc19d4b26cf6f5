"""PointLearner: everything its hypothesis is made from, for every neighbour and every set of features and label."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.distribution_estimate.squared_error import Chances
from nabladp.mechanisms.heavy_hitters.output_distribution import exact_law
from nabladp.mechanisms.heavy_hitters.settings import Level, Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree
from nabladp.mechanisms.learners.points import PointLearner
from nabladp.mechanisms.mechanism import Branch, Law
from nabladp.privacy import CDP, Pure, Rho
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable


def bits(*names: str) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in names))


TWO, THREE = bits("a", "y"), bits("a", "b", "y")
DERIVED = Schema(
    (
        Attribute("age", "integer", low=0, high=2),
        Attribute("old", "boolean", derived_from=("age",)),
        Attribute("y", "boolean"),
    )
)


def tiny(sizes: tuple[int, ...], notion: Notion, levels: list[tuple[int, float]], free: int = 2) -> Settings:
    """A tree of single attributes with these thresholds and scales."""
    tree = Tree.build(sizes, 2, 2, free_cells=free)
    mu, beta = (1, 1.3) if notion == "pure" else (0, None)
    return Settings(notion, tree, mu, tuple(Level(*level) for level in levels), beta, 1, 0, 1, 0.05, 1.0, 1)


RUNS: dict[str, tuple[PointLearner, Schema, int]] = {
    "cdp": (PointLearner(Rho(9), "y", settings=tiny((2, 2), "cdp", [(1, 1.2)])), TWO, 3),
    "cdp, thresholds at leaves": (
        PointLearner(Rho(9), "y", settings=tiny((2, 2), "cdp", [(1, 1.5), (1, 1.2)], free=1)),
        TWO,
        2,
    ),
    "cdp, two features": (
        PointLearner(Rho(9), "y", settings=tiny((2, 2, 2), "cdp", [(1, 1.1), (1, 1.4)])),
        THREE,
        2,
    ),
    "pure": (PointLearner(Pure(9), "y", notion="pure", settings=tiny((2, 2), "pure", [(1, 1.5)])), TWO, 3),
    "pure, two features": (
        PointLearner(Pure(9), "y", notion="pure", settings=tiny((2, 2, 2), "pure", [(1, 1.5), (2, 1.5)])),
        THREE,
        2,
    ),
    "label first": (PointLearner(CDP(3), "a", over=("y", "b")), THREE, 2),
    "planned": (PointLearner(CDP(4), "y"), THREE, 2),
    "planned, pure": (PointLearner(Pure(16), "y", notion="pure"), TWO, 2),
    "unequal budgets": (PointLearner(CDP(4), "y", budgets={"y": CDP(3)}), TWO, 3),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_set_of_features_and_label_loses_more_than_claimed(name: str) -> None:
    learner, schema, n = RUNS[name]
    audit = exact_audit(learner, schema, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.3
    assert {row.attributes for row in audit.rows} == {
        chosen for size in range(len(schema) + 1) for chosen in itertools.combinations(schema.names, size)
    }
    label = next(row for row in audit.rows if row.attributes == (learner.label,))
    assert label.true_rho > 0  # the label is an attribute like any other


def test_derived_features_are_charged_to_their_source() -> None:
    learner = PointLearner(CDP(4), "y", over=("age", "old"))
    audit = exact_audit(learner, DERIVED, 2, derive={"old": lambda record: int(record["age"] == 2)})
    assert audit.passed and learner.guarantee(DERIVED, 2).rho("age") <= 8


def test_what_is_not_a_feature_costs_nothing() -> None:
    learner = PointLearner(CDP(4), "y", over=("a",))
    assert learner.reads(THREE) == ("a", "y") and learner.guarantee(THREE, 5).rho("b") == 0
    assert exact_audit(learner, THREE, 1).passed


# ---- the chances behind the promise --------------------------------------------------------------------------------


def listed_counts(law: Law, chance: float = 0.0) -> Any:
    """Every way through the branches, with its log chance and the parts at the root."""
    if len(law.parts) == 1 and isinstance(law.parts[0], Branch):
        branch = law.parts[0]
        for log_chance, which in zip(branch.outcomes, branch.which, strict=True):
            yield from listed_counts(branch.then[which], chance + float(log_chance))
    else:
        yield chance, law.parts


@pytest.mark.parametrize("notion", ["cdp", "pure"])
@pytest.mark.parametrize("cut", [2, 3, 5])
def test_what_is_shown_is_as_likely_as_the_bounds_say(notion: Notion, cut: int) -> None:
    """The expected number of combinations in no row that are shown, and the chance that a frequent one is not."""
    levels = [(1, 1.5), (2, 1.5)] if notion == "pure" else [(1, 1.5), (1, 1.2)]
    settings, n = tiny((2, 2), notion, levels, free=1), 6
    table = CodedTable(TWO, {"a": np.ones(n, np.int64), "y": np.ones(n, np.int64)})
    chances = Chances(settings, n)
    low = -math.ceil(14 * 1.3) if notion == "pure" else settings.levels[-1].threshold + 1  # of the law's windows
    shown_empty = shown_full = 0.0
    for chance, parts in listed_counts(exact_law(settings, TWO.names, table)):
        above = [math.exp(chance) * float(np.exp(part[1:])[max(0, cut - low) :].sum()) for part in parts]
        # (1, 1), if a candidate, is the last one
        has_full = parts and np.exp(parts[-1][0]) < 0.3
        shown_full += above[-1] if has_full else 0.0
        shown_empty += sum(above[:-1] if has_full else above)
    assert 0 < shown_empty <= chances.empty_shown(cut)
    assert 1 - shown_full <= float(chances.hidden(np.array([float(n)]), cut)[0]) + 1e-12
    assert 1 - shown_full > 0.2 * float(chances.hidden(np.array([float(n)]), cut)[0])
