"""Synthesis against the truth: picks against full enumeration, whole runs against the claim for every set."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.synthesis import Synthesis, strategy
from nabladp.mechanisms.synthesis.design import Design
from nabladp.mechanisms.synthesis.rounds import Course, State
from nabladp.mechanisms.synthesis.selection import UNABLE, combined_law, distance
from nabladp.noise.packings import AnyPackings, fineness
from nabladp.privacy import CDP, Rho
from nabladp.schema import Attribute, Schema
from tests.helpers.opinions import give_opinions, pick_loss, two_choices


def bits(d: int, **options: Any) -> Schema:
    return Schema(tuple(Attribute(name, "boolean", **options) for name in "abcdefgh"[:d]))


# ---- picks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(d, k) for d in range(1, 6) for k in range(1, min(d, 3) + 1)])
def test_packings_of_any_size_have_the_enumerated_probabilities(d: int, k: int) -> None:
    draws = np.random.default_rng(10 * d + k)
    masks = [
        sum(1 << i for i in chosen) for size in range(1, k + 1) for chosen in itertools.combinations(range(d), size)
    ]
    masks.append(masks[-1])  # two marginals may read the same sources
    weights = draws.uniform(-4, 4, len(masks))
    law = dict(AnyPackings(masks, d, weights, fineness(100)).law())
    wanted = {}
    for size in range(d + 1):
        for chosen in itertools.combinations(range(len(masks)), size):
            if (
                sum(masks[i].bit_count() for i in chosen)
                == np.bitwise_or.reduce([0, *(masks[i] for i in chosen)]).bit_count()
            ):
                wanted[chosen] = math.exp(sum(weights[list(chosen)]))
    total = math.fsum(wanted.values())
    assert law.keys() == wanted.keys()
    assert max(abs(math.exp(law[chosen]) - wanted[chosen] / total) for chosen in wanted) < 1e-12


def design_of(mechanism: Synthesis, schema: Schema, n: int) -> Design:
    return mechanism.design(schema, n)


# With one-way marginals a change moves one score of each packing, or none: half of what pairs can do.
PICKS: dict[str, tuple[Synthesis, int, float]] = {
    "packed": (Synthesis(CDP(1), 1, strategy="packed", rounds=1), 3, 0.499),
    "packed pairs": (Synthesis(CDP(1), strategy="packed", rounds=2), 4, 0.98),
    "single": (Synthesis(CDP(1), 1, strategy="single", rounds=1), 3, 0.999),
    "unequal": (Synthesis(CDP(1), 1, strategy="packed", rounds=1, budgets={"a": CDP(0.4)}), 3, 0.499),
    "unequal, single": (Synthesis(CDP(1), 1, strategy="single", rounds=1, budgets={"a": CDP(0.4)}), 3, 0.999),
    "unequal pairs": (Synthesis(CDP(1), strategy="packed", rounds=1, budgets={"a": CDP(0.4)}), 4, 0.9),
    "weights": (Synthesis(CDP(1), 1, strategy="packed", rounds=1, weights=(3.0, 1.0, 0.5)), 3, 0.499),
    "set limit": (Synthesis(CDP(1), strategy="packed", rounds=1, sets={"a+b": Rho(0.2)}), 4, 0.9),
    "person": (Synthesis(person=Rho(1), strategy="packed", rounds=1), 4, 0.98),
}


@pytest.mark.parametrize("name", PICKS)
@pytest.mark.parametrize("strength", [1, 2])
def test_a_change_of_any_set_moves_the_pick_within_its_price(name: str, strength: int) -> None:
    """The log ratio of a pick's probabilities has range at most 2·√(2ρ), ρ that of the pick for this set."""
    mechanism, d, reached = PICKS[name]
    design = design_of(mechanism, bits(d), 10)
    (selector,) = design.selectors(0)
    cost = selector.block.guarantee(design.limits.universe, design.price)
    sets = [frozenset(names) for names in design.wanted.candidates]
    start = 40 * strategy.GRID * np.ones(len(sets), np.int64)
    closest = 0.0
    for size in range(1, d + 1):
        for moved in itertools.combinations("abcdefgh"[:d], size):
            met = [i for i, names in enumerate(sets) if names & set(moved)]
            allowed = 2 * strength * math.sqrt(2 * cost.rho(moved))
            for signs in itertools.product((-1, 1), repeat=len(met)):
                other = start.copy()
                other[met] += 2 * strategy.GRID * np.array(signs)
                one, two = (dict(combined_law([selector], excess, strength)) for excess in (start, other))
                ratios = [one[pick] - two[pick] for pick in one]
                assert max(ratios) - min(ratios) <= allowed * (1 + 1e-9)
                closest = max(closest, (max(ratios) - min(ratios)) / allowed)
    assert closest > reached


def test_a_joint_pick_nearly_loses_what_it_claims() -> None:
    """Two ways to pair off four attributes, both far better than all else; two attributes move all four pairs."""
    mechanism = Synthesis(CDP(0.4), (("a", "b"), ("c", "d"), ("b", "c"), ("a", "d")), strategy="packed", rounds=1)
    design = design_of(mechanism, bits(4), 1000)
    (selector,) = design.selectors(0)
    start = np.full(4, 900 * strategy.GRID)
    loss = pick_loss(selector, start, start + 2 * strategy.GRID * np.array([1, 1, -1, -1]))
    claim = selector.block.guarantee(design.limits.universe, design.price)
    assert 0.97 < loss / claim.rho(["a", "c"]) <= 1


def test_one_row_moves_a_distance_by_at_most_two_rows_on_its_grid() -> None:
    draws = np.random.default_rng(3)
    largest = 0
    for _ in range(2000):
        truth = draws.integers(0, 4, 6)
        guess = draws.choice([0.0, 0.03, 0.5, 1.5, 1.46875, 2.5], 6)
        start, end = draws.choice(6, 2, replace=False)
        truth[start] += 1
        other = truth.copy()
        other[start] -= 1
        other[end] += 1
        largest = max(largest, abs(distance(truth, guess) - distance(other, guess)))
    assert largest == 2 * strategy.GRID


def test_who_cannot_be_paid_is_not_picked() -> None:
    design = design_of(PICKS["packed"][0], bits(3), 10)
    (selector,) = design.selectors(0)
    excess = np.array([160, UNABLE, 320])
    assert {c for pick, _ in combined_law([selector], excess, 1) for c in pick} == {0, 2}
    assert list(combined_law([selector], np.full(3, UNABLE), 1)) == [((), 0.0)]


# ---- whole runs ----------------------------------------------------------------------------------------------------

MIXED = Schema((Attribute("a", "categorical", values=("x", "y", "z")), Attribute("b", "boolean")))
DERIVED = Schema(
    (
        Attribute("age", "integer", low=0, high=2),
        Attribute("old", "boolean", derived_from=("age",)),
        Attribute("sick", "boolean"),
    )
)
SHARING = (("a", "b"), ("b", "c"), ("c", "a"))  # who is left out in one round has saved up for the next
PACKED: dict[str, Any] = {"strategy": "packed", "one_way": 0}
SINGLE: dict[str, Any] = {"strategy": "single", "one_way": 0}
AGAIN: dict[str, Any] = {"strategy": "refined", "one_way": 0}
RUNS: dict[str, tuple[Synthesis, Schema, int]] = {
    "all at once": (Synthesis(CDP(2), strategy="all"), bits(3), 1),
    "all at once, a set and a person": (
        Synthesis(CDP(2), strategy="all", sets={"a+b": Rho(2.4)}, person=Rho(2.6)),
        bits(3),
        1,
    ),
    "packed": (Synthesis(CDP(3), 1, **PACKED, rounds=1, selection=0.3), bits(3), 1),
    "packed pairs": (Synthesis(CDP(2), **PACKED, rounds=1, selection=0.3), bits(4), 1),
    "packed, half for selection": (Synthesis(CDP(4), SHARING, **PACKED, rounds=1, selection=0.5), bits(3), 1),
    "single, mostly selection": (Synthesis(CDP(2), SHARING, **SINGLE, rounds=1, selection=0.9), bits(3), 1),
    "packed, two rounds": (Synthesis(CDP(3), 1, **PACKED, rounds=2, selection=0.3), bits(2), 1),
    "packed, saved up": (Synthesis(CDP(3), SHARING, **PACKED, rounds=2, selection=0.3), bits(3), 1),
    "packed, two rows": (Synthesis(CDP(3), (("a", "b"), ("b",)), **PACKED, rounds=1, selection=0.4), bits(2), 2),
    "packed, unequal": (
        Synthesis(CDP(3), 1, **PACKED, rounds=2, selection=0.3, budgets={"a": CDP(1.2)}),
        bits(2),
        1,
    ),
    "packed, unequal pairs": (
        Synthesis(CDP(3), SHARING, **PACKED, rounds=2, selection=0.3, budgets={"a": CDP(1.5), "b": CDP(2)}),
        bits(3),
        1,
    ),
    "packed, weights": (
        Synthesis(CDP(1.5), SHARING, **PACKED, rounds=1, selection=0.7, weights=(3.0, 1.0, 2.0)),
        bits(3),
        1,
    ),
    "packed, a set": (
        Synthesis(CDP(3), (("a",), ("b", "c")), **PACKED, rounds=2, selection=0.3, sets={"a+b": Rho(3)}),
        bits(3),
        1,
    ),
    "packed, a person": (Synthesis(CDP(3), 1, **PACKED, rounds=2, selection=0.2, person=Rho(5)), bits(2), 1),
    "packed, mixed": (Synthesis(CDP(3), 2, **PACKED, rounds=1, selection=0.3), MIXED, 1),
    "one-way first": (Synthesis(CDP(3), strategy="packed", one_way=0.4, rounds=1, selection=0.3), bits(2), 1),
    "single": (Synthesis(CDP(3), 1, **SINGLE, rounds=1, selection=0.7), bits(3), 1),
    "single, saved up": (
        Synthesis(CDP(3), SHARING, **SINGLE, rounds=2, selection=0.3),
        bits(3),
        1,
    ),
    "single, unequal": (
        Synthesis(CDP(3), 1, **SINGLE, rounds=3, selection=0.4, budgets={"b": CDP(1)}),
        bits(2),
        1,
    ),
    "only a person": (Synthesis(person=Rho(4), workload=1, **SINGLE, rounds=2, selection=0.4), bits(2), 1),
    "again": (Synthesis(CDP(3), 1, **AGAIN, rounds=1), bits(2), 1),
    "again and again": (Synthesis(CDP(5), (("a", "b"), ("a",)), **AGAIN, rounds=2), bits(2), 1),
    "again, of two widths": (Synthesis(CDP(4), (("a",), ("b", "c")), **AGAIN, rounds=1), bits(3), 1),
    "again, pairs": (Synthesis(CDP(4), (("a", "b"),), **AGAIN, rounds=1), bits(2), 1),
    "again, overlapping": (Synthesis(CDP(4), (("a", "b"), ("b", "c")), **AGAIN, rounds=1), bits(3), 1),
    "again, sharing": (Synthesis(CDP(5), (("a", "b"), ("a",)), **AGAIN, rounds=1, weights=(2.0, 1.0)), bits(2), 1),
    "again, a person": (Synthesis(person=Rho(9), workload=1, **AGAIN, rounds=1), bits(2), 1),
    "again, a set": (
        Synthesis(CDP(4), (("a",), ("b",)), **AGAIN, rounds=1, sets={"a+b": Rho(10)}),
        bits(2),
        1,
    ),
    "a person and a set": (
        Synthesis(person=Rho(4), sets={"b+c": Rho(2)}, workload=SHARING[:2], **SINGLE, rounds=2, selection=0.4),
        bits(3),
        1,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_set_of_attributes_loses_more_than_claimed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_opinions(monkeypatch)
    mechanism, schema, n = RUNS[name]
    audit = exact_audit(mechanism, schema, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.4  # the instance is no triviality


TWO_CHOICES: dict[str, Synthesis] = {
    "packed": Synthesis(CDP(4), 1, one_way=0.3, rounds=1, selection=0.3),
    "single": Synthesis(person=Rho(6), workload=1, one_way=0.3, rounds=1, selection=0.3),
    "a person": Synthesis(CDP(4), 1, one_way=0.3, rounds=1, selection=0.3, person=Rho(10)),
    "a set": Synthesis(CDP(4), (("a",), ("b",)), one_way=0.3, rounds=1, selection=0.3, sets={"a+b": Rho(12)}),
    "unequal": Synthesis(CDP(4), 1, one_way=0.3, rounds=1, selection=0.3, budgets={"a": CDP(3)}),
}


@pytest.mark.parametrize("name", TWO_CHOICES)
def test_single_columns_decide_how_the_rest_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what they may say leads to rounds that pick, half to marginals that are measured at once and again."""
    give_opinions(monkeypatch)
    two_choices(monkeypatch)
    taken = set()
    together, again, picked = Course.together, Course.again, Course.next_round
    for method, original in (("together", together), ("again", again), ("next_round", picked)):

        def seen(self: Course, state: State, method: str = method, original: Any = original) -> Any:
            taken.add((method, state.choice.strategy))
            return original(self, state)

        monkeypatch.setattr(Course, method, seen)
    audit = exact_audit(TWO_CHOICES[name], bits(2), 1)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.4
    rounds = "single" if name == "single" else "packed"
    assert taken == {("together", "refined"), ("again", "refined"), ("next_round", rounds)}


@pytest.mark.parametrize(
    "mechanism",
    [
        Synthesis(CDP(3), (("a", "b"), ("b",)), **PACKED, rounds=2, selection=0.3),
        Synthesis(CDP(4), (("a", "b"), ("b",)), **AGAIN, rounds=1),
    ],
    ids=lambda mechanism: mechanism.strategy,
)
def test_real_models_are_fitted_on_the_way(mechanism: Synthesis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nabladp.mechanisms.synthesis.output_distribution.learned_counts", lambda counts, n: np.clip(counts, 0, n)
    )
    audit = exact_audit(mechanism, bits(2), 1)
    assert audit.passed and audit.tightest.tightness > 0.4


def test_a_round_that_takes_four_at_once_picks_twice_as_strongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round teaches nothing, as everybody agrees with the model; the second takes all that are left."""
    give_opinions(monkeypatch)
    strengths = []
    drawn = Course.next_round

    def next_round(self: Course, state: State) -> Any:
        found = drawn(self, state)
        strengths.append(found[1])
        return found

    monkeypatch.setattr(Course, "next_round", next_round)
    audit = exact_audit(Synthesis(CDP(3), 1, **SINGLE, rounds=5, selection=0.6), bits(2), 1)
    assert audit.passed and audit.tightest.tightness > 0.4
    assert 2 in strengths


def test_blocks_cost_what_their_partition_says(monkeypatch: pytest.MonkeyPatch) -> None:
    give_opinions(monkeypatch)
    monkeypatch.setattr(strategy, "WIDEST_BLOCK", 2)
    mechanism = Synthesis(CDP(1.5), **PACKED, rounds=2, selection=0.5)
    design = mechanism.design(bits(4), 1)
    assert len({block.attributes for blocks in design.rounds for block in blocks}) > 2  # cut anew in each round
    audit = exact_audit(Synthesis(CDP(1.5), 1, **PACKED, rounds=1, selection=0.7), bits(4), 1)
    assert audit.passed
    joint = 1.5**2 / 2 * 0.7 * 16
    picks = audit.rows[-1].claimed_rho - 0.3 * 4 * 1.5**2 / 2
    assert picks == pytest.approx(joint / 2, rel=1e-6)  # two blocks of two: 2·2² instead of 4²


def test_derived_columns_are_charged_to_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    give_opinions(monkeypatch)
    told = {"old": lambda record: int(record["age"] == 2)}
    sets = (("age",), ("old", "sick"))
    mechanism = Synthesis(CDP(2), sets, **PACKED, rounds=1, selection=0.5)
    audit = exact_audit(mechanism, DERIVED, 1, derive=told)
    assert audit.passed and audit.tightest.tightness > 0.4
    design = mechanism.design(DERIVED, 1)
    assert {pick for block in design.rounds[0] for pick in [block.most]} == {1}  # never both together
    linked = Synthesis(CDP(2), strategy="all")
    assert ("old", "age") in linked.wanted(DERIVED).links and "old" in linked.reads(DERIVED)
    assert exact_audit(linked, DERIVED, 1, derive=told).passed


def test_public_attributes_limit_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    give_opinions(monkeypatch)
    schema = Schema((Attribute("a", "boolean", public=True), Attribute("b", "boolean")))
    for named in ("packed", "single", "all"):
        mechanism = Synthesis(CDP(2), (("a", "b"), ("a",)), strategy=named, one_way=0, rounds=1, selection=0.4)
        audit = exact_audit(mechanism, schema, 1)
        assert audit.passed and audit.tightest.tightness > 0.4
