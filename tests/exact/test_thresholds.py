"""ThresholdLearner against the truth: the law of a whole run, for every neighbour and every set of attributes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.heavy_hitters import Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.mechanisms.learners.thresholds import ThresholdLearner
from nabladp.mechanisms.learners.thresholds.design import Design
from nabladp.privacy import Pure, Rho
from nabladp.schema import Attribute, Schema

LABEL = Attribute("y", "boolean")


def bits(d: int) -> Schema:
    return Schema((*(Attribute(name, "boolean") for name in "abc"[:d]), LABEL))


def lists(notion: Notion, tree: Tree, *levels: tuple[int, float]) -> Settings:
    pure = notion == "pure"
    found = tuple(Level(*level) for level in levels)
    return Settings(notion, tree, 1 if pure else 0, found, 1.0 if pure else None, 1, 0, 1, 0.05, 1.0, 1)


def learner(design: Design, over: tuple[str, ...] | None = None) -> ThresholdLearner:
    budget = Pure(60) if design.notion == "pure" else Rho(60)
    return ThresholdLearner(budget, "y", over, design.notion, design=design)


def two(notion: Notion, search: str = "probes", **changed: Any) -> ThresholdLearner:
    """Two features; a prefix has none or one."""
    tree = Tree.build((2,), 2, 2, free_cells=1)
    scales = {"select_scale": 2.0, "search_scale": 1.5, "ones_scale": 1.7} | changed
    return learner(Design(notion, (2, 2), (0, 1), search=search, lists=lists(notion, tree, (1, 2.0)), few=0, **scales))


def three(notion: Notion, search: str, tree: Tree, *levels: tuple[int, float]) -> ThresholdLearner:
    """Three features; a prefix has none, one or two."""
    design = Design(notion, (2, 2, 2), (0, 1, 2), 2.0, search, 1.5, 2.0, lists(notion, tree, *levels), target=1)
    return learner(design)


FREE, LEAVES = (Tree.build((2, 2), 2, 2, free_cells=cells) for cells in (2, 1))
MIXED = Schema((Attribute("a", "ordered", values=("l", "m", "h")), Attribute("b", "boolean"), LABEL))
WIDE = Design("cdp", (3, 2), (0, 1), 1.2, "pick", 1.4, 1.5, lists("cdp", Tree.build((3,), 2, 2, 1), (1, 1.1)), few=0)

CASES: list[tuple[str, ThresholdLearner, Schema, int]] = [
    ("pure, probes", two("pure"), bits(2), 3),
    ("pure, pick", two("pure", "pick"), bits(2), 2),
    ("pure, the search dear", two("pure", search_scale=0.5), bits(2), 2),
    ("pure, the last pick dear", two("pure", select_scale=0.7), bits(2), 2),
    ("pure, two probes", three("pure", "probes", LEAVES, (1, 1.6), (2, 1.6)), bits(3), 1),
    ("pure, one of three cuts", three("pure", "pick", FREE, (1, 1.6)), bits(3), 1),
    ("cdp, probes", two("cdp"), bits(2), 2),
    ("cdp, pick", two("cdp", "pick"), bits(2), 2),
    ("cdp, the search dear", two("cdp", search_scale=0.5), bits(2), 2),
    ("cdp, ones dear", two("cdp", ones_scale=0.6), bits(2), 2),
    ("cdp, two probes", three("cdp", "probes", FREE, (1, 1.2)), bits(3), 1),
    ("cdp, thresholds at leaves", three("cdp", "pick", LEAVES, (1, 1.6), (0, 1.3)), bits(3), 1),
    ("cdp, three values", learner(WIDE), MIXED, 2),
    ("cdp, features the other way round", replace(two("cdp"), over=("b", "a")), bits(2), 2),
    ("pure, nothing to search", learner(Design("pure", (2, 2), (0,), 1.5)), bits(2), 3),
    ("cdp, nothing to search", learner(Design("cdp", (3, 2), (0,), 1.5)), MIXED, 2),
    ("pure, as planned", ThresholdLearner(Pure(2), "y", notion="pure"), bits(2), 3),
    ("cdp, as planned", ThresholdLearner(Rho(1), "y"), bits(2), 3),
]
every = pytest.mark.parametrize(("mechanism", "schema", "n"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])


@every
def test_no_set_of_attributes_loses_more_than_claimed(mechanism: ThresholdLearner, schema: Schema, n: int) -> None:
    audit = exact_audit(mechanism, schema, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.2  # it compares laws that differ


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize("part", ["ones_scale", "search_scale"])
def test_every_noisy_step_needs_what_it_is_charged(notion: Notion, part: str) -> None:
    """With one step much dearer than all others, the claim is nearly met."""
    quiet = {"select_scale": 9.0, "search_scale": 9.0, "ones_scale": 4.0} | {part: 0.3}
    mechanism = two(notion, **quiet)
    assert mechanism.design is not None
    calm = replace(mechanism.design, lists=lists(notion, Tree.build((2,), 2, 2, 1), (1, 9.0)), few=-5)
    audit = exact_audit(learner(calm), bits(2), 2)
    assert audit.passed and audit.tightest.tightness > 0.6


def test_the_label_alone_pays_for_the_number_of_ones() -> None:
    quiet = two("cdp", search_scale=1e6, select_scale=1e6, ones_scale=0.5)
    cost = quiet.guarantee(bits(2), 3)
    assert cost.rho("y") == pytest.approx(2.0, rel=1e-6)
    assert cost.rho("a") == pytest.approx(1 / 4, rel=1e-6) and cost.rho("b") < 1e-9  # the last feature is in no list


@pytest.mark.parametrize("notion", ["pure", "cdp"])
@pytest.mark.parametrize(("d", "sizes"), [(40, 2), (3, 30)])
def test_no_attribute_pays_more_than_its_budget(notion: Notion, d: int, sizes: int) -> None:
    names = [f"x{i}" for i in range(d)]
    schema = Schema((*(Attribute(name, "integer", low=0, high=sizes - 1) for name in names), LABEL))
    budget, search = (Pure(0.7), "pick") if notion == "pure" else (Rho(0.3), "probes")
    for search in ("pick", "probes"):
        mechanism = ThresholdLearner(budget, "y", notion=notion, search=search, budgets={"x1": budget})
        assert mechanism.plan(schema, 5000).many
        cost, booked = mechanism.guarantee(schema, 5000), mechanism.guarantee(schema, 0)
        for name in schema.names:
            paid = cost.pure_units(name) if notion == "pure" else cost.rho_units(name)
            limit = booked.pure_units(name) if notion == "pure" else booked.rho_units(name)
            assert paid is not None and limit is not None and paid <= limit
        sets = [("x0", "y"), ("x1", "x2", "y"), tuple(names[:5]), schema.names]
        assert all(cost.rho_units(s) <= booked.rho_units(s) for s in sets)  # type: ignore[operator]
        assert cost.rho(names[-1]) < cost.rho(names[0])


def test_columns_of_one_source_share_its_budget() -> None:
    schema = Schema(
        (
            Attribute("a", "integer", low=0, high=400),
            Attribute("old", "boolean", derived_from=("a",)),
            Attribute("b", "integer", low=0, high=400),
            Attribute("c", "integer", low=0, high=400),
            Attribute("y", "boolean", derived_from=("a", "c")),
        )
    )
    mechanism = ThresholdLearner(Rho(0.5), "y", over=("old", "a", "b", "c"))
    assert mechanism.plan(schema, 4000).many
    for name in "abc":
        assert mechanism.guarantee(schema, 4000).rho(name) <= 0.5 * (1 + 1e-12)


def test_derived_columns_are_charged_to_their_source() -> None:
    schema = Schema(
        (Attribute("a", "boolean"), Attribute("b", "boolean"), Attribute("y", "boolean", derived_from=("a",)))
    )
    audit = exact_audit(two("cdp"), schema, 2, derive={"y": lambda record: 1 - record["a"]})
    assert audit.passed and audit.tightest.tightness > 0.2


def test_polarization_moves_by_one_at_most_and_matches_its_definition() -> None:
    """Over all tables of two rows: the definition, spelled out, and its change when one row does."""
    from nabladp.audit.exact import _table
    from nabladp.mechanisms.learners.thresholds.search import polarization

    schema, records = bits(3), list(itertools.product((0, 1), repeat=4))
    design = replace(three("cdp", "pick", FREE, (1, 1.2)).design, target=1)  # type: ignore[type-var]

    def polar(rows: Any) -> Any:
        return polarization(_table(schema, rows), ("a", "b", "c"), "y", design)

    def defined(rows: Any) -> list[int]:
        found = []
        for length in (1, 2):
            both = [
                [sum(r[:length] == p and r[3] == y for r in rows) for y in (0, 1)] for p in {r[:length] for r in rows}
            ]
            found.append(max(map(min, both)))
        return found

    for rest in itertools.combinations_with_replacement(records, 2):
        known = {row: polar((*rest, row)) for row in records}
        assert all(known[row].tolist() == defined((*rest, row)) for row in records)
        assert max(int(np.abs(a - b).max()) for a in known.values() for b in known.values()) <= 1


def test_the_searches_laws_are_distributions() -> None:
    from nabladp.mechanisms.learners.thresholds.search import search_law

    for search, notion in itertools.product(("probes", "pick"), ("pure", "cdp")):
        tree = Tree.build((2,) * 6, 2, 2, 2)
        levels = [(1, 1.5)] * tree.thresholded_levels
        settings = lists(notion, tree, *levels)  # type: ignore[arg-type]
        design = Design(notion, (2,) * 7, tuple(range(7)), 1.0, search, 1.3, lists=settings, target=3, search_error=2)  # type: ignore[arg-type]
        law = search_law(design, np.array([9, 7, 7, 4, 1, 1]))
        assert math.fsum(np.exp(law)) == pytest.approx(1, abs=1e-12)
        assert int(np.argmax(law)) in (3, 4)
