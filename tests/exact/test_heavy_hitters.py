"""HeavyHitters against the truth: the law of all lists and counts, for every neighbour and every set of attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Auditable
from nabladp.mechanisms.heavy_hitters import HeavyHitters, Level, Settings, Tree
from nabladp.mechanisms.heavy_hitters.privacy_loss import least_lambda
from nabladp.mechanisms.heavy_hitters.settings import Notion
from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema


def bits(d: int) -> Schema:
    return Schema(tuple(Attribute(name, "boolean") for name in "abcd"[:d]))


MIXED = Schema((Attribute("a", "boolean"), Attribute("b", "categorical", values=("x", "y", "z"))))


def settings(tree: Tree, notion: Notion, levels: list[tuple[int, float]], mu: int, beta: float | None) -> Settings:
    found = tuple(Level(*level) for level in levels)
    return Settings(notion, tree, mu, found, beta, 1, 0, 1, 0.05, 1.0, 1)


def pure(tree: Tree, thresholds: list[int], mu: int, lam: float, beta: float) -> HeavyHitters:
    chosen = settings(tree, "pure", [(threshold, lam) for threshold in thresholds], mu, beta)
    return HeavyHitters(Pure(40), notion="pure", settings=chosen)


def concentrated(tree: Tree, levels: list[tuple[int, float]]) -> HeavyHitters:
    return HeavyHitters(Rho(40), settings=settings(tree, "cdp", levels, 0, None))


# Leaves of one bit, with no threshold (free) or with one; nodes of two.
FLAT = Tree.build((2, 2), 2, 2, free_cells=2)
LEAVES = Tree.build((2, 2), 2, 2, free_cells=1)
THREE = Tree.build((2, 2, 2), 2, 2, free_cells=2)
THREE_LEAVES = Tree.build((2, 2, 2), 2, 2, free_cells=1)
WIDE = Tree.build((2, 3), 2, 2, free_cells=2)

CASES: list[tuple[str, HeavyHitters, Schema, int]] = [
    ("pure, free leaves", pure(FLAT, [1], 1, 2.0, 3.0), bits(2), 3),
    ("pure, thresholds at leaves", pure(LEAVES, [1, 2], 1, 1.5, 2.0), bits(2), 3),
    ("pure, equal thresholds", pure(LEAVES, [2, 2], 2, 1.0, 1.0), bits(2), 3),
    ("pure, two levels of three bits", pure(THREE, [1, 2], 1, 1.3, 1.1), bits(3), 2),
    ("pure, three values", pure(WIDE, [1, 3], 1, 0.9, 2.5), MIXED, 2),
    ("pure, counts dear", pure(FLAT, [2], 2, 3.0, 0.5), bits(2), 3),
    ("cdp, free leaves", concentrated(FLAT, [(1, 1.5)]), bits(2), 3),
    ("cdp, thresholds at leaves", concentrated(LEAVES, [(1, 2.0), (1, 1.2)]), bits(2), 2),
    ("cdp, thresholds that fall", concentrated(LEAVES, [(2, 1.0), (0, 1.6)]), bits(2), 2),
    ("cdp, two levels of three bits", concentrated(THREE, [(1, 1.1), (1, 1.4)]), bits(3), 2),
    ("cdp, three values", concentrated(WIDE, [(0, 1.3), (1, 1.1)]), MIXED, 2),
]
every = pytest.mark.parametrize(("mechanism", "schema", "n"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])


@every
def test_no_set_of_attributes_learns_more_than_claimed(mechanism: HeavyHitters, schema: Schema, n: int) -> None:
    audit = exact_audit(mechanism, schema, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.3  # it compares laws that differ


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_a_derived_column_is_charged_to_its_source(notion: Notion) -> None:
    """Age moves two columns at once, in three nodes."""
    schema = Schema((Attribute("age", "integer", low=0, high=2), Attribute("old", "boolean", derived_from=("age",))))
    tree = Tree.build((3, 2), 2, 2, free_cells=1)
    chosen = pure(tree, [1, 2], 1, 1.2, 2.0) if notion == "pure" else concentrated(tree, [(1, 1.4), (1, 1.1)])
    mechanism = replace(chosen, over=("age", "old"))
    audit = exact_audit(mechanism, schema, 3, derive={"old": lambda record: int(record["age"] == 2)})
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.3


@pytest.mark.parametrize("notion", ["pure", "cdp"])
def test_a_column_with_a_public_and_a_protected_source_is_charged_to_the_protected_one(notion: Notion) -> None:
    """And a source behind two columns, in different leaves, pays for the lists of both."""
    schema = Schema(
        (
            Attribute("zip", "boolean", public=True),
            Attribute("ill", "boolean"),
            Attribute("mix", "boolean", derived_from=("zip", "ill")),
        )
    )
    tree = Tree.build((2, 2, 2), 2, 3, free_cells=1)
    chosen = pure(tree, [1, 2], 1, 1.2, 2.0) if notion == "pure" else concentrated(tree, [(1, 1.4), (1, 1.1)])
    mechanism = replace(chosen, over=("zip", "ill", "mix"))
    audit = exact_audit(mechanism, schema, 2, derive={"mix": lambda record: record["zip"] ^ record["ill"]})
    assert audit.passed, audit.refuted
    assert audit.tightest.attributes == ("ill",) and audit.tightest.tightness > 0.3
    claim, single = mechanism.guarantee(schema, 2), replace(chosen, over=None).guarantee(bits(3), 2)
    if notion == "cdp":  # the leaves of ill and of mix, and the root
        assert claim.rho("ill") == pytest.approx(2 / 1.4**2 + 1 / 1.1**2)
    else:  # two paths, and the root's counts once
        counted = single.epsilon(["a", "b"]) - single.epsilon("a")
        assert claim.epsilon("ill") == pytest.approx(single.epsilon("a") + counted)


def test_the_claim_for_one_attribute_is_attained() -> None:
    """μ = 1 and equal counts at both thresholds: the chain and one failure, all at their largest."""
    audit = exact_audit(pure(LEAVES, [1, 2], 1, 1.5, 50.0), bits(2), 3)
    assert max(row.tightness for row in audit.rows if len(row.attributes) == 1) > 0.97


def test_a_scale_two_percent_below_the_calibrated_one_breaks_the_claim() -> None:
    """λ is within 2% of the smallest that the exact loss allows. Of the lists alone."""
    epsilon, beta = 1.0, 1e6
    lam = least_lambda(2, 1, epsilon)
    claim = Guarantee.linear(Universe.of(bits(2)), {"a": Pure(epsilon + 2e-6), "b": Pure(epsilon + 2e-6)})
    kept = exact_audit(pure_lists(lam, beta), bits(2), 3, guarantee=claim)
    broken = exact_audit(pure_lists(0.98 * lam, beta), bits(2), 3, guarantee=claim)
    assert kept.passed and not broken.passed


def pure_lists(lam: float, beta: float) -> Any:
    """The law of the lists alone."""
    mechanism = pure(LEAVES, [1, 2], 1, lam, beta)

    class ListsOnly(Auditable):
        def guarantee(self, schema: Any, n: int) -> Any:
            raise AssertionError("the claim is handed in")

        def distribution(self, counts: Any) -> Any:
            from nabladp.mechanisms.heavy_hitters import output_distribution

            return output_distribution.lists_only(
                mechanism.plan(counts.schema, counts.n), mechanism.reads(counts.schema), counts
            )

    return ListsOnly()


def test_any_number_of_rows_costs_at_most_the_budget() -> None:
    """The claim made before the number of rows is known covers every plan for a known one."""
    for mechanism in (HeavyHitters(Pure(1), notion="pure"), HeavyHitters(Rho(0.5))):
        schema = bits(4)
        beforehand = mechanism.guarantee(schema, 0)
        for n in (200, 5000, 10**6):
            known = mechanism.guarantee(schema, n)
            for chosen in ("a", "ab", "abd", "abcd"):
                assert known.rho_units(list(chosen)) <= beforehand.rho_units(list(chosen))  # type: ignore[operator]
                if mechanism.notion == "pure":
                    assert known.epsilon(list(chosen)) <= beforehand.epsilon(list(chosen))
