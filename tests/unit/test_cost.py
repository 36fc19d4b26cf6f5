"""A request against the limits before it is made: the same rule as the ledger's, to the last unit."""

from __future__ import annotations

import math
import re

import pytest
from every_mechanism import INSTANCES, SCHEMA

from nabladp.mechanisms import MECHANISMS
from nabladp.mechanisms.gram_matrix import GramMatrix
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import CDP, Approx, Budget, Guarantee, Pure, Rho
from nabladp.privacy.budget import Limit
from nabladp.privacy.ledger import Spending
from nabladp.privacy.ledger.limits import LimitRequest, limit_requests
from nabladp.privacy.units import UNIT
from nabladp.release.cost import Cost, default_delta, figure, figures, finite, format_cost
from nabladp.release.other_budgets import request_cost
from nabladp.release.verdict import budget_lines, delta_warnings, left_in_every_measure, noise_verdicts, typed_budgets
from nabladp.schema import Attribute, Schema

NAMES = ("a", "b", "c")
ONE = Limit.of("a", ["a"], Rho(1))


@pytest.mark.parametrize(
    ("spent", "requested", "fits"),
    [
        (0, UNIT, True),
        (0, UNIT + 1, False),
        (UNIT // 2, UNIT // 2, True),
        (UNIT // 2, UNIT // 2 + 1, False),
        (UNIT, 0, True),
        (2 * UNIT, 0, True),  # exceeded already, but this request leaves it alone
        (2 * UNIT, 1, False),
        (None, 0, True),
        (None, 1, False),
        (0, None, False),
        (None, None, False),
    ],
)
def test_a_line_fits_to_the_last_unit(spent: int | None, requested: int | None, fits: bool) -> None:
    line = LimitRequest(Spending(ONE, spent), requested)
    assert line.fits is fits and line.to_json()["fits"] is fits
    free = LimitRequest(Spending(ONE, 0), 0)
    assert Cost(Guarantee.none(NAMES), (), (free, line)).fits is fits


def test_every_limit_is_asked_in_its_own_measure() -> None:
    budget = Budget(attributes={"a": Pure(2), "b": Rho(3)}, sets={"a+b": Rho(4)}, person=Rho(5))
    g = Guarantee.touch(NAMES, "a", Pure(1)) + Guarantee.touch(NAMES, "b", Rho(1)) + Guarantee.touch(NAMES, "c", CDP(2))
    lines = limit_requests([Spending(limit, 0) for limit in budget.limits(NAMES)], g)
    assert {line.standing.limit.name: line.requested for line in lines} == {
        "a": UNIT,
        "b": UNIT,
        "a+b": 3 * UNIT // 2,
        "person": 7 * UNIT // 2,
    }


def test_figures_of_people_and_adversaries_and_what_has_no_bound() -> None:
    g = Guarantee.touch(NAMES, [*"ab"], Rho(0.5)) + Guarantee.touch(NAMES, "c", Pure(1))
    told = figures(g, {"neighbour": ("a", "c")}, 1e-6)
    assert told["attributes"]["a"]["rho"] == 0.5 and told["attributes"]["a"]["pure_epsilon"] is None
    assert told["attributes"]["c"]["pure_epsilon"] == 1
    assert told["adversaries"][0]["rho"] == told["person"]["rho"] == 1
    for chosen, row in [(["a"], told["attributes"]["a"]), ([*"ac"], told["adversaries"][0])]:
        assert row["epsilon"] == g.epsilon(chosen, 1e-6) < row["epsilon_paper"] == g.epsilon(chosen, 1e-6, "paper")
    assert set(figure(g.with_public("a"), ["a"], 1e-6).values()) == {None}
    assert finite(math.inf) is None and finite(1.5) == 1.5


def test_costs_are_shown_rounded_up_unless_told_otherwise() -> None:
    assert (format_cost(0.123449), format_cost(0.123449, up=False), format_cost(None)) == (
        "0.1235",
        "0.1234",
        "no bound",
    )


def verdict(rows: int | None, budget: CDP | Pure, person: bool = True, **options: object) -> tuple[str, ...]:
    schema = Schema(tuple(Attribute(name, "integer", low=0, high=9) for name in NAMES))
    noise = "laplace" if budget.pure else "gaussian"
    named = [("pairs", NoisyMarginals(budget, sets=[["a", "b"], ["c"]], noise=noise))]
    limits = Budget(per_attribute=Rho(1e6), person=Rho(1e6) if person else None).limits(schema)
    return request_cost(named, schema, rows, 1, [Spending(limit, 0) for limit in limits]).verdict


@pytest.mark.parametrize("budget", [CDP(0.05), Pure(0.05)])
def test_a_verdict_names_a_budget_at_which_it_is_better(budget: CDP | Pure) -> None:
    (sentence,) = verdict(1000, budget)
    assert "noise is larger than an average count in 1 of 2 tables" in sentence and "fewer tables" in sentence
    kind, advised = re.search(r"Raise it to (\w+)\(([0-9.]+)\)", sentence).groups()  # type: ignore[union-attr]
    (better, *_) = verdict(1000, type(budget)(float(advised)))
    assert kind == type(budget).__name__ and "the noise is small" in better
    (worse, *_) = verdict(1000, type(budget)(0.8 * float(advised)))
    assert "the noise is visible" in worse


def test_a_verdict_needs_the_number_of_rows() -> None:
    assert verdict(None, CDP(0.05)) == (
        "'pairs': give rows = … in [table] to see how large the noise is beside an average count.",
    )


def test_every_mechanism_has_a_verdict() -> None:
    """Small at a million rows; a budget that is named reaches what it is said to reach."""
    names = set()
    for mechanism in INSTANCES:
        name = type(mechanism).__name__
        if name in names:
            continue
        names.add(name)
        (unknown,) = noise_verdicts([(name, mechanism)], {name: mechanism.expected_error(SCHEMA, 0)}, 0)
        assert "give rows = …" in unknown
        (many,) = noise_verdicts([(name, mechanism)], {name: mechanism.expected_error(SCHEMA, 10**6)}, 10**6)
        assert "is small" in many or "in a group of average size" in many, many
    assert names == set(MECHANISMS)


def test_a_verdict_on_a_matrix_names_a_budget() -> None:
    weak = GramMatrix(CDP(0.01), over=("region", "age", "sick"))
    (sentence,) = noise_verdicts([("m", weak)], {"m": weak.expected_error(SCHEMA, 100)}, 100)
    assert sentence.startswith("'m': the error is too large to be useful. Noise in the matrix")
    (advised,) = re.findall(
        r"Raise it to CDP\(([0-9.]+)\) for an error of 0.1, or ask about fewer attributes", sentence
    )
    better = GramMatrix(CDP(float(advised)), over=("region", "age", "sick"))
    assert "is small" in noise_verdicts([("m", better)], {"m": better.expected_error(SCHEMA, 100)}, 100)[0]


def test_a_large_figure_of_a_person_is_a_warning() -> None:
    for limited, fix in ((True, "Lower the budgets."), (False, "Limit it with person = ")):
        _, warning = verdict(10**5, CDP(1), limited)
        assert warning.startswith("The figure for all protected attributes is large: ε = 7.") and fix in warning
        assert "A belief of 50% can rise to at most " in warning
    assert len(verdict(10**6, CDP(0.3))) == 1


def test_delta_follows_the_rows_and_is_never_above_a_tenth_of_one_over_them() -> None:
    expected = {None: 1e-6, 1: 1e-6, 10**5: 1e-6, 10**5 + 1: 1e-7, 10**6: 1e-7, 10**7: 1e-8, 3 * 10**7: 1e-9}
    assert {rows: default_delta(rows) for rows in expected} == expected
    assert all(10 * rows * delta <= 1 + 1e-9 for rows, delta in expected.items() if rows)


def test_a_delta_that_is_not_below_one_over_the_rows_is_a_warning() -> None:
    (warning,) = delta_warnings(1e-3, 1000)
    assert "δ = 0.001 is not below 1/rows (1,000 rows)" in warning and "Set delta = 1e-06" in warning
    assert not delta_warnings(0.99e-3, 1000) and not delta_warnings(0.5, None)


def test_every_budget_is_shown_in_every_measure() -> None:
    named = [("pairs", NoisyMarginals(CDP(0.2), k=1, budgets={"a": Rho(0.5)}))]
    budget = Budget(per_attribute=Pure(0.3), sets={"a+b": Approx(1, 1e-6)}, person=CDP(2))
    shown = {own["name"]: own for own in typed_budgets(budget, named, 1e-6)}
    assert list(shown) == ["limit: per_attribute", "limit: a+b", "limit: person", "pairs: budget", "pairs: a"]
    assert shown["limit: per_attribute"] == {
        "name": "limit: per_attribute",
        "epsilon": 0.3,
        "rho": 0.045,
        "cdp": 0.3,
        "pure": 0.3,
    }
    assert shown["limit: a+b"]["epsilon"] == pytest.approx(1, rel=1e-6) and shown["pairs: a"]["cdp"] == 1
    two = Guarantee.touch(NAMES, "a", CDP(2)).figure("a")
    assert (shown["limit: person"]["rho"], shown["limit: person"]["epsilon"]) == (
        two.rho,
        pytest.approx(two.epsilon(1e-6)),
    )


def test_what_is_left_is_shown_in_every_measure() -> None:
    lines = [{"limit": "a", "measure": "ρ", "left": 0.125}, {"limit": "b", "measure": "pure ε", "left": 0.5}]
    rho, pure = left_in_every_measure(lines, 1e-6)
    assert (rho["name"], rho["rho"], rho["cdp"], rho["pure"]) == ("a", 0.125, 0.5, None)
    assert 2.4 < rho["epsilon"] < 2.44  # 2.438 by the conversion of the paper
    assert pure == {"name": "b", "epsilon": 0.5, "rho": 0.125, "cdp": 0.5, "pure": 0.5}
    empty = left_in_every_measure([{"limit": "a", "measure": "ρ", "left": 0.0}], 1e-6)
    assert empty == [{"name": "a", "epsilon": 0.0, "rho": 0.0, "cdp": 0.0, "pure": None}]


def test_a_stored_budget_is_written_in_every_measure() -> None:
    options = {"k": 1, "budget": {"cdp": 0.3}, "budgets": {"age": {"pure": 0.2}}}
    assert budget_lines(options, 1e-6) == [
        "budget: ε = 1.391 (δ = 1e-06), ρ = 0.045, cdp = 0.3",
        "age: ε = 0.2, ρ = 0.02, cdp = 0.2",
    ]
    assert budget_lines({"k": 1}, 1e-6) == []
