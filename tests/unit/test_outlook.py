"""Other budgets than a plan's own: what is scaled, what is priced, what a mechanism refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plans import plan_text, saved_plan

from nabladp.person import Person
from nabladp.privacy import CDP, Guarantee
from nabladp.release import Plan
from nabladp.release.other_budgets import FACTORS, PLANNED, TOGETHER, Outlook, outlook, scale_budgets
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("north", "south", "east")),
        Attribute("income", "integer", low=0, high=9),
        Attribute("sick", "boolean"),
    )
)
PLAN = plan_text(
    """
per_attribute = { cdp = 1.0 }
person = { rho = 2.0 }
""",
    """
[[release]]
name = "pairs"
mechanism = "NoisyMarginals"
k = 2
budget = { cdp = 0.3 }
budgets = { sick = { rho = 0.01 } }
[[release]]
name = "pure"
mechanism = "NoisyMarginals"
k = 1
noise = "laplace"
budget = { pure = 0.2 }
[[release]]
name = "matrix"
mechanism = "GramMatrix"
budget = { epsilon = 1.0, delta = 1e-6 }
""",
    rows=5000,
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return saved_plan(tmp_path, SCHEMA, PLAN)


@pytest.fixture
def found(plan: Plan) -> Outlook:
    return outlook(plan, [("region",), ("region", "income", "sick")])


def test_every_budget_is_scaled_by_its_own_rule() -> None:
    options: dict[str, Any] = {
        "budget": {"cdp": 0.3},
        "budgets": {"a": {"rho": 0.01}, "b": {"pure": 1}},
        "holdout_budget": {"epsilon": 1.0, "delta": 1e-6},
        "label_epsilon": 2,
        "sets": [["a", "b"]],
        "k": 2,
    }
    assert scale_budgets(options, 2.0) == {
        "budget": {"cdp": 0.6},
        "budgets": {"a": {"rho": 0.04}, "b": {"pure": 2.0}},
        "holdout_budget": {"epsilon": 2.0, "delta": 1e-6},
        "label_epsilon": 4.0,
        "sets": [["a", "b"]],
        "k": 2,
    }
    assert scale_budgets({"sets": {"a+b": {"rho": 0.1}}}, 0.5) == {"sets": {"a+b": {"rho": 0.025}}}
    assert scale_budgets({"budget": {"cdp": 0.3}}, 2**0.5) == {
        "budget": {"cdp": 0.4243}
    }  # what is shown is what is priced


def test_the_planned_step_is_the_plan_itself(plan: Plan, found: Outlook) -> None:
    for (name, mechanism), part in zip(plan.releases, found.parts, strict=True):
        step = part.steps[PLANNED]
        assert part.name == name and step is not None
        guarantee = mechanism.guarantee(plan.schema, 5000)
        for chosen, totals in zip(found.sets, step.totals, strict=True):
            assert totals[0] == str(guarantee.rho_units(chosen))


def test_other_steps_are_priced_as_a_plan_with_that_budget_would_be(plan: Plan, found: Outlook) -> None:
    for (_, mechanism), part in zip(plan.releases, found.parts, strict=True):
        for factor, step in zip(FACTORS, part.steps, strict=True):
            assert step is not None
            again = type(mechanism).from_plan(scale_budgets(mechanism.to_json(), factor))
            total = again.guarantee(plan.schema, 5000).total(("region", "income", "sick"))
            assert total is not None
            assert step.totals[1] == (str(total.rho), str(total.pure), str(total.rho_of_rest))


def test_errors_fall_as_budgets_rise(found: Outlook) -> None:
    figures = {part["name"]: {f["label"]: f["values"] for f in part["figures"]} for part in found.to_json()["parts"]}
    assert figures["pairs"][TOGETHER] == sorted(figures["pairs"][TOGETHER], reverse=True)
    assert set(figures["pairs"]) == {TOGETHER, "region + income", "region + sick", "income + sick"}
    scale = figures["matrix"]["noise scale of the noisiest entry"]
    assert scale == sorted(scale, reverse=True) and scale[0] > 10 * scale[-1]


def test_budgets_are_shown_as_a_plan_has_them(found: Outlook) -> None:
    step = found.to_json()["parts"][0]["steps"][PLANNED + 2]
    assert step["budget"] == ["budget = { cdp = 0.6 }", "budgets = { sick = { rho = 0.04 } }"]


def test_what_a_mechanism_refuses_is_left_out(plan: Plan) -> None:
    class Choosy:
        """Refuses any budget but those from 0.3 to 1."""

        def __init__(self, budget: Any) -> None:
            self.inner = plan.releases[0][1].__class__(budget, k=1)

        @classmethod
        def from_plan(cls, options: Any) -> Choosy:
            from nabladp.errors import BudgetError

            if not 0.3 <= options["budget"]["cdp"] <= 1:
                raise BudgetError("no")
            return cls(options["budget"])

        def to_json(self) -> dict[str, Any]:
            return {"budget": self.inner.to_json()["budget"]}

        def guarantee(self, schema: Any, n: int) -> Guarantee:
            return self.inner.guarantee(schema, n)

        def expected_error(self, schema: Any, n: int) -> Any:
            return self.inner.expected_error(schema, n)

    choosy = Plan(**{**vars(plan), "releases": (("one", Choosy(CDP(0.5))),)})
    steps = outlook(choosy, [("region",)]).parts[0].steps
    assert [step is None for step in steps] == [not 0.3 <= 0.5 * factor <= 1.001 for factor in FACTORS]


def test_fixed_settings_have_no_other_budgets(plan: Plan) -> None:
    from nabladp.mechanisms.heavy_hitters import HeavyHitters

    settings = HeavyHitters(CDP(2)).plan(plan.schema, 5000)
    fixed = Plan(**{**vars(plan), "releases": (("one", HeavyHitters(CDP(2), settings=settings)),)})
    steps = outlook(fixed, [("region",)]).parts[0].steps
    assert [i for i, step in enumerate(steps) if step is not None] == [PLANNED]


def test_whoever_waits_is_told(plan: Plan) -> None:
    heard: list[tuple[str, int, int]] = []
    outlook(plan, [("region",)], lambda *told: heard.append(told))
    assert heard[0] == ("pricing, budget", 1, 39) and heard[-1] == ("pricing, budget", 39, 39)


def test_rows_per_person_count(plan: Plan) -> None:
    several = Plan(**{**vars(plan), "person": Person(rows=3)})
    one, three = (outlook(p, [("region",)]).parts[0].steps[PLANNED] for p in (plan, several))
    assert one is not None and three is not None
    assert int(three.totals[0][0] or 0) >= 9 * int(one.totals[0][0] or 0)
