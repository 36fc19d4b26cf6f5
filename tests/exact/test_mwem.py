"""MWEM against the truth: picks against full enumeration, whole runs against the claim for every set of attributes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.mwem.round_plan import Prices
from nabladp.mechanisms.mwem.round_run import RunSetup
from nabladp.privacy import CDP, Guarantee, Rho
from nabladp.privacy.units import UNIT
from nabladp.privacy.values import limit_units
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions, LinearQueries, LinearQuery, Marginals, Parities


def bits(d: int, **options: Any) -> Schema:
    return Schema(tuple(Attribute(name, "boolean", **options) for name in "abcdefgh"[:d]))


def machine_of(mechanism: MWEM, schema: Schema, n: int) -> RunSetup:
    return mechanism._machine(schema, n)


# ---- picks ---------------------------------------------------------------------------------------------------------


def enumerated(machine: RunSetup, scores: np.ndarray[Any, Any], count: int) -> dict[tuple[int, ...], float]:
    """Every choice of ``count`` queries with disjoint attributes, P ∝ exp(Σ scores), without any recursion."""
    queries = machine.queries
    found: dict[tuple[int, ...], float] = {}
    for chosen in itertools.combinations(range(len(queries)), count):
        names = [name for q in chosen for name in queries.attributes(q)]
        if len(set(names)) == len(names):
            found[chosen] = math.fsum(scores[q] for q in chosen)
    peak = max(found.values())
    total = math.fsum(math.exp(value - peak) for value in found.values())
    return {chosen: math.exp(value - peak) / total for chosen, value in found.items()}


CASES = [
    (d, k, count, signed)
    for signed, widest in ((False, 6), (True, 4))  # beyond, there are too many choices to enumerate
    for d in range(1, widest + 1)
    for k in range(1, min(d, 3) + 1)
    for count in range(1, d // k + 1)
]


@pytest.mark.parametrize(("d", "k", "count", "signed"), CASES)
def test_joint_picks_have_the_enumerated_probabilities(d: int, k: int, count: int, signed: bool) -> None:
    draws = np.random.default_rng(100 * d + 10 * k + count)
    workload = (
        Conjunctions(k, signed=signed) + 0.5 * Conjunctions(k, signed=signed) if k == 1 else Conjunctions(k, signed)
    )
    budgets = {name: CDP(float(draws.uniform(0.5, 3))) for name in bits(d).names}  # unequal weights
    mechanism = MWEM(CDP(2), workload, per_round=count, rounds=1, budgets=budgets)
    machine = machine_of(mechanism, bits(d), 40)
    truth = draws.integers(0, 41, len(machine.queries))
    scores = machine.scores.of(truth, draws.random(len(machine.queries)))
    (selector,) = machine.selectors(0)
    law = {tuple(sorted(chosen)): math.exp(chance) for chosen, chance in selector.law(scores)}
    wanted = enumerated(machine, scores, count)
    assert law.keys() == wanted.keys()
    assert max(abs(law[chosen] - wanted[chosen]) for chosen in wanted) < 1e-9
    assert abs(math.fsum(law.values()) - 1) < 1e-9


@pytest.mark.parametrize(("budgets", "reached"), [({}, 0.999), ({"a": CDP(0.4)}, 0.84)])
def test_a_change_of_any_set_moves_the_pick_within_its_price(budgets: Any, reached: float) -> None:
    """The log ratio of a pick's probabilities has range at most 2·(sum of the m largest e_j), and comes close."""
    schema, n = bits(4), 10
    mechanism = MWEM(CDP(1), Conjunctions(1), per_round=2, rounds=1, budgets=budgets)
    machine = machine_of(mechanism, schema, n)
    (selector,) = machine.selectors(0)
    price = {name: machine.plan.prices.selection[name] / UNIT for name in schema.names}
    closest = 0.0
    for size in range(1, 5):
        for moved in itertools.combinations(range(4), size):
            for signs in itertools.product((-1, 1), repeat=size):
                truth = np.array([9, 9, 9, 9])
                other = truth.copy()
                other[list(moved)] += signs
                guess = np.zeros(4)
                one, two = (dict(selector.law(machine.scores.of(t, guess))) for t in (truth, other))
                ratios = [one[pick] - two[pick] for pick in one]
                allowed = 2 * sum(sorted((price[schema.names[i]] for i in moved), reverse=True)[:2])
                assert max(ratios) - min(ratios) <= allowed + 1e-9
                closest = max(closest, (max(ratios) - min(ratios)) / allowed)
    assert closest > reached


# ---- whole runs ----------------------------------------------------------------------------------------------------

DERIVED = Schema(
    (
        Attribute("age", "integer", low=0, high=2),
        Attribute("old", "boolean", derived_from=("age",)),
        Attribute("sick", "boolean"),
    )
)
MIXED = Schema((Attribute("a", "categorical", values=("x", "y", "z")), Attribute("b", "boolean")))
RUNS: dict[str, tuple[MWEM, Schema, int]] = {
    "two rounds, all at once": (MWEM(CDP(2), Conjunctions(1), rounds=2), bits(2), 2),
    "two rounds, paper": (MWEM(CDP(3), Conjunctions(1), rounds=2, update="paper"), bits(2), 2),
    "two rounds, signed, one pick": (MWEM(CDP(2), Conjunctions(1, signed=True), rounds=2, per_round=1), bits(2), 2),
    "classic": (MWEM(CDP(2), Conjunctions(1), rounds=2, per_round=1), bits(3), 1),
    "pairs": (MWEM(CDP(2), Conjunctions(2), rounds=1), bits(4), 1),
    "two of three": (MWEM(CDP(2), Conjunctions(1), rounds=1, per_round=2), bits(3), 2),
    "unequal budgets": (MWEM(CDP(2), Conjunctions(2), rounds=1, budgets={"a": CDP(0.7)}), bits(4), 1),
    "unequal, two rounds": (MWEM(CDP(2), Conjunctions(1), rounds=2, budgets={"a": Rho(0.3)}), bits(2), 1),
    "weights": (MWEM(CDP(2), Conjunctions(1) + 3 * Parities(2), rounds=1), bits(3), 1),
    "mixed domains": (MWEM(CDP(2), Marginals(1), rounds=1), MIXED, 2),
    "mostly selection": (MWEM(CDP(2), Conjunctions(1), rounds=1, per_round=1, selection=0.95), bits(3), 1),
    "listed sets": (MWEM(CDP(2), Marginals(sets=[("a", "b"), ("b", "c"), ("d",)]), rounds=1), bits(4), 1),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_set_of_attributes_loses_more_than_claimed(name: str) -> None:
    mechanism, schema, n = RUNS[name]
    audit = exact_audit(mechanism, schema, n)
    assert audit.passed, audit.refuted
    assert audit.tightest.tightness > 0.3  # the instance is no triviality


def test_the_claim_is_nearly_met_where_picks_can_tell_the_most() -> None:
    audit = exact_audit(*RUNS["classic"])
    assert audit.passed and audit.tightest.tightness > 0.85


def test_derived_columns_are_charged_to_their_source() -> None:
    mechanism = MWEM(CDP(2), Marginals(1, over=("age", "old", "sick")), rounds=1)
    audit = exact_audit(mechanism, DERIVED, 1, derive={"old": lambda record: int(record["age"] == 2)})
    assert audit.passed
    assert mechanism.expected_error(DERIVED, 5).per_round == 2  # age and old are never picked together


def test_fractional_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.workloads.linear.GRID", 4)
    workload = LinearQueries([LinearQuery("a", [0, 0.5]), LinearQuery(("b", "c"), [0, 0.25, 0.75, 1])])
    assert exact_audit(MWEM(CDP(2), workload, rounds=1), bits(3), 1).passed


def test_public_attributes_limit_nothing() -> None:
    schema = Schema((Attribute("a", "boolean", public=True), Attribute("b", "boolean")))
    mechanism = MWEM(CDP(1), Marginals(2), rounds=1, budgets={"a": CDP(0.001)})
    assert exact_audit(mechanism, schema, 2).passed
    assert mechanism.expected_error(schema, 10).scale < 3


def test_blocks_cost_what_their_partition_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.mechanisms.mwem.round_plan.WIDEST_BLOCK", 2)
    mechanism = MWEM(CDP(2), Conjunctions(1), rounds=1)
    audit = exact_audit(mechanism, bits(4), 1)
    assert audit.passed
    claim, joint = mechanism.guarantee(bits(4), 1), 0.25 * (16 + 4) * 4
    person = claim.per_person().rho
    assert person == pytest.approx(2 * 0.25 * (4 + 2) * 4, rel=1e-9) and person < joint


# ---- the set function ----------------------------------------------------------------------------------------------


def test_a_set_of_m_attributes_pays_a_quarter_of_m_squared_plus_m() -> None:
    schema, eps0 = bits(8), 0.6
    claim = MWEM(CDP(eps0), Conjunctions(2), rounds=17).guarantee(schema, 1000)
    for m in range(1, 9):
        counted = min(m, 4)
        wanted = 0.25 * (counted**2 + counted) * eps0**2
        assert claim.rho(schema.names[:m]) == pytest.approx(wanted, rel=1e-6)
        assert claim.rho(schema.names[:m]) <= wanted
    assert claim.per_person().rho < 0.5 * (4 * eps0) ** 2  # what the theorem says


@pytest.mark.parametrize("eps0", [0.01, 0.3, 1.7, 25.0])
def test_no_number_of_rounds_costs_more_than_is_booked_before_it_is_known(eps0: float) -> None:
    schema = bits(5)
    budgets = {"b": CDP(eps0 / 3), "c": CDP(eps0 * 0.77)}
    any_rounds = MWEM(CDP(eps0), Conjunctions(2), budgets=budgets).guarantee(schema, 0)
    for rounds in (1, 2, 3, 7, 26, 100, 1009):
        claim = MWEM(CDP(eps0), Conjunctions(2), rounds=rounds, budgets=budgets).guarantee(schema, 10)
        for size in range(1, 6):
            for chosen in itertools.combinations(schema.names, size):
                assert claim.rho_units(chosen) <= any_rounds.rho_units(chosen)
        for name, limit in {"a": eps0, "b": eps0 / 3, "c": eps0 * 0.77}.items():
            assert any_rounds.rho_units(name) <= limit_units(CDP(limit))


def test_blocks_cost_no_more_than_is_booked_before_rounds_are_known() -> None:
    schema = Schema(tuple(Attribute(f"b{i}", "boolean") for i in range(20)))
    any_rounds = MWEM(CDP(0.5), Conjunctions(2)).guarantee(schema, 0)
    claim = MWEM(CDP(0.5), Conjunctions(2), rounds=12).guarantee(schema, 100)
    draws = np.random.default_rng(4)
    for _ in range(200):
        chosen = [name for name in schema.names if draws.random() < draws.random()] or ["b3"]
        assert claim.rho_units(chosen) <= any_rounds.rho_units(chosen)
    assert claim.per_person().rho < 0.6 * any_rounds.per_person().rho


def test_the_round_is_linear_plus_squares() -> None:
    schema = bits(4)
    prices = Prices.of(dict.fromkeys(schema.roots, UNIT // 50), 3, Fraction(1, 4))
    mechanism = MWEM(Rho(Fraction(1, 50)), Conjunctions(2), rounds=3, selection=Fraction(1, 4))
    picks = {name: CDP(Fraction(units, UNIT)) for name, units in prices.selection.items()}
    answers = {name: Rho(Fraction(units, UNIT)) for name, units in prices.answers.items()}
    one = Guarantee.linear(schema, picks, limit=2) + Guarantee.squares(schema, answers, limit=2)
    assert mechanism.guarantee(schema, 9) == one + one + one
