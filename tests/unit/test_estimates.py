"""Estimates of drafts are what the plan itself would say; least budgets reach their goal, and no lower one does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from every_mechanism import INSTANCES, SCHEMA

from nabladp import CDP, Budget, NoisyMarginals, Session, Statistics
from nabladp.errors import NablaDPError
from nabladp.mechanisms import Mechanism
from nabladp.privacy import Ledger
from nabladp.release import Plan, estimates
from nabladp.release.estimates import Estimates
from nabladp.release.exactness import exactness, least_budget

ROWS = 500
SCHEMA_TOML = """\
[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 9
[[attribute]]
name = "sick"
kind = "boolean"
[[attribute]]
name = "income"
kind = "integer"
low = 0
high = 1000
"""
BLOCKS: list[dict[str, Any]] = [
    {"name": "ages", "mechanism": "NoisyMarginals", "sets": [["age"]], "budget": {"cdp": 0.2}},
    {"mechanism": "Statistics", "by": ["sick"], "mean": ["income"], "count": True, "budget": {"cdp": 0.3}},
    {"name": "rows", "mechanism": "NoisyMarginals", "k": 2, "budget": {"pure": 0.1}, "noise": "laplace"},
]


def plan_in(folder: Path, blocks: list[dict[str, Any]] = BLOCKS, **table: Any) -> Plan:
    (folder / "schema.toml").write_text(SCHEMA_TOML)
    data = {
        "table": {"source": "people.csv", "schema": "schema.toml", "rows": ROWS, **table},
        "budget": {"ledger": "ledger.db", "per_attribute": {"cdp": 1.0}, "person": {"rho": 1.0}},
        "adversary": [{"name": "boss", "attributes": ["age", "sick"]}],
        "release": blocks,
    }
    return Plan.of(data, folder)


@pytest.mark.parametrize("table", [{}, {"rows_per_person": 3}], ids=["one row", "three rows"])
def test_a_draft_costs_what_the_plan_costs(tmp_path: Path, table: dict[str, Any]) -> None:
    plan = plan_in(tmp_path, **table)
    drafted = Estimates().draft(replace(plan, releases=()), BLOCKS)
    assert drafted.cost.to_json() == {**plan.cost().to_json(), "largest_budget": None}
    assert drafted.cost.guarantee == plan.cost().guarantee and drafted.fault is None
    assert [name for name, _ in drafted.releases] == [name for name, _ in plan.releases]
    for (_, priced), (_, mechanism) in zip(drafted.releases, plan.releases, strict=True):
        assert priced.mechanism == mechanism and priced.sentence and priced.figures and priced.fault is None
        alone = mechanism.guarantee(plan.schema, ROWS).for_rows(plan.rows_per_person)
        assert dict(priced.epsilons) == {
            name: alone.epsilon(name, plan.delta) for name in plan.schema.names if alone.rho(name)
        }


def test_a_draft_costs_what_a_session_would_book(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    people = pd.DataFrame({"age": [1, 2] * 250, "sick": [True, False] * 250, "income": [10, 900] * 250})
    session = Session(people, plan.schema, plan.budget, tmp_path / "other.db", new_ledger=True, rows=ROWS)
    cost = session.cost(*(mechanism for _, mechanism in plan.releases))
    drafted = Estimates().draft(plan, BLOCKS).cost
    assert drafted.guarantee == cost.guarantee
    assert [line.to_json() for line in drafted.lines] == [line.to_json() for line in cost.lines]


def test_only_what_changed_is_priced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, made = plan_in(tmp_path), Estimates()
    made.draft(plan, BLOCKS)
    asked: list[str] = []
    true = NoisyMarginals.guarantee
    monkeypatch.setattr(NoisyMarginals, "guarantee", lambda *a: asked.append("guarantee") or true(*a))  # type: ignore[func-returns-value]
    changed = [{**BLOCKS[0], "budget": {"cdp": 0.4}}, *BLOCKS[1:]]
    again = made.draft(plan, changed)
    assert asked == ["guarantee"]
    assert again.cost.to_json() == {**plan_in(tmp_path, changed).cost().to_json(), "largest_budget": None}
    asked.clear()
    made.draft(plan_in(tmp_path, rows=ROWS + 1), changed)
    assert len(asked) == 2  # another number of rows is another price


def test_what_is_known_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "MOST_KEPT", 3)
    plan, made = plan_in(tmp_path), Estimates()
    for number in range(6):
        made.price(plan, {**BLOCKS[0], "budget": {"cdp": 0.1 + number}})
    assert len(made._kept) == 3


def test_a_release_with_a_fault_is_named_and_hides_no_other(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    faulty = [BLOCKS[0], {"mechanism": "NoisyMarginals", "k": 1}, {"mechanism": "Nothing"}, {}, BLOCKS[1]]
    drafted = Estimates().draft(plan, faulty)
    faults = [priced.fault.message if priced.fault else "" for _, priced in drafted.releases]
    assert [text == "" for text in faults] == [True, False, False, False, True]
    assert "needs a budget" in faults[1] and "no mechanism" in faults[2] and "names no mechanism" in faults[3]
    assert drafted.cost.guarantee == Estimates().draft(plan, [BLOCKS[0], BLOCKS[1]]).cost.guarantee


def test_what_is_spent_counts_and_another_ledger_is_named(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.create_ledger().close()
    with Ledger.open(plan.ledger, plan.schema, plan.budget) as ledger:
        ledger.record_external(plan.cost().guarantee, "before", "me", "")
    line = Estimates().draft(plan, BLOCKS).cost.lines[0]
    assert line.standing.spent_units == line.requested
    other = replace(plan, budget=Budget(per_attribute=CDP(2.0)))
    drafted = Estimates().draft(other, BLOCKS)
    assert drafted.fault is not None and "another budget" in drafted.fault.message


# ---- what is left ----------------------------------------------------------------------------------------------------


def test_the_largest_budget_beside_the_others_just_fits(tmp_path: Path) -> None:
    plan, made = plan_in(tmp_path), Estimates()
    for index in range(len(BLOCKS)):
        largest = made.largest(plan, BLOCKS, index)
        assert largest is not None and largest.budgets is not None
        ((_, budgets),) = largest.budgets.items()
        (key,) = budgets["budget"]
        raised = {**BLOCKS[index], **budgets}
        more = {**BLOCKS[index], "budget": {key: budgets["budget"][key] * 1.02}}
        blocks = [own if i != index else raised for i, own in enumerate(BLOCKS)]
        above = [own if i != index else more for i, own in enumerate(BLOCKS)]
        assert made.draft(plan, blocks).cost.fits and not made.draft(plan, above).cost.fits


def test_nothing_left_is_said(tmp_path: Path) -> None:
    full = {**BLOCKS[0], "budget": {"cdp": 1.0}}
    largest = Estimates().largest(plan_in(tmp_path), [full, BLOCKS[0]], 1)
    assert largest is not None and largest.used_up == "age"


# ---- the least budget ------------------------------------------------------------------------------------------------

QUICK = [own for own in INSTANCES if not hasattr(own, "settings")]


@pytest.mark.parametrize("mechanism", QUICK, ids=lambda m: type(m).__name__)
def test_the_least_budget_reaches_the_goal_and_a_lower_one_does_not(mechanism: Mechanism) -> None:
    n = 100_000
    now = exactness(mechanism, SCHEMA, n)
    if now.value is None:
        with pytest.raises(NablaDPError):
            least_budget(mechanism, 1e-9, SCHEMA, n)
        return
    goal = now.value * 1.4
    found = least_budget(mechanism, goal, SCHEMA, n)
    options = {**mechanism.to_json(), **found.budgets}
    made = type(mechanism).from_plan(json.loads(json.dumps(options)))
    assert found.reached == exactness(made, SCHEMA, n) and found.reached.reaches(goal) and found.reached.of
    lower = estimates_lower(options)
    assert not exactness(type(mechanism).from_plan(lower), SCHEMA, n).reaches(goal)


def estimates_lower(options: dict[str, Any]) -> dict[str, Any]:
    from nabladp.release.cost import scale_budgets

    return scale_budgets(options, 0.8)


def test_percent_means_what_is_said() -> None:
    table = NoisyMarginals(CDP(1), sets=(("age",),))
    found = least_budget(table, 0.05, SCHEMA, 10_000)
    (error,) = NoisyMarginals(CDP(found.budgets["budget"]["cdp"]), sets=(("age",),)).expected_error(SCHEMA, 10_000)
    assert error.half_width <= 0.05 * 10_000 / 10
    query = Statistics(CDP(1), by="sick", count=True, mean="age")
    least = least_budget(query, 0.05, SCHEMA, 10_000).budgets["budget"]["cdp"]
    widths = Statistics(CDP(least), by="sick", count=True, mean="age").expected_error(SCHEMA, 10_000)
    assert widths.half_width("count") <= 0.05 * 5_000 and widths.half_width("mean_age") <= 0.05 * 9


@pytest.mark.parametrize(
    ("mechanism", "goal", "n", "says"),
    [
        (NoisyMarginals(CDP(1), k=1), 0.0, 10, "share above 0"),
        (NoisyMarginals(CDP(1), k=1), 0.05, 0, "number of rows is not known"),
        (Statistics(CDP(1), median="income"), 1e-9, 10, "No budget makes"),
    ],
)
def test_a_goal_that_means_nothing_is_refused(mechanism: Mechanism, goal: float, n: int, says: str) -> None:
    with pytest.raises(NablaDPError, match=says):
        least_budget(mechanism, goal, SCHEMA, n)
