"""Synthetic tables from a plan file: from the price to the files, and what is refused before anything is spent."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow.parquet as pq
import pytest
from plans import plan_text

from nabladp import Release

PLAN = plan_text(
    """
per_attribute = { cdp = 2.0 }
sets = { "income+health" = { rho = 1.5 } }
person = { rho = 9.0 }
""",
    """
[[release]]
name = "table"
mechanism = "Synthesis"
budget = { cdp = 1.0 }
budgets = { region = { cdp = 0.5 } }
sets = { "income+health" = { rho = 0.6 } }
person = { rho = 1.0 }
strategy = "packed"
rounds = 3
rows = 25
""",
)


def test_from_cost_to_files(desk: Any) -> None:
    desk.plan(text=PLAN)
    cost = desk.priced("Expected error of table", "packed: asked for", "memory, MB", "time, seconds")
    assert cost["expected_error"]["table"]["rounds"] == 3
    assert desk.run("release", "plan.toml").code == 0
    folder = desk.folder / "plan-release" / "table"
    drawn = pq.read_table(folder / "synthetic.parquet")
    assert drawn.num_rows == 25
    values = pq.read_table(folder / "values.parquet")
    assert {"value", "low", "high", "predicted_error"} < set(values.column_names)
    release = Release.load(folder)
    assert release.guarantee.rho(["income", "health"]) <= 0.6 and release.guarantee.per_person().rho <= 1
    assert release.output.quality["why"] == "asked for"
    assert release["income", "health"].counts.sum() == pytest.approx(60)
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0
    terms = {term["shape"] for term in json.loads((folder / "release.json").read_text())["guarantee"]["terms"]}
    assert "capped" in terms


def test_a_limit_of_the_budget_is_not_broken(desk: Any) -> None:
    desk.plan(("person = { rho = 9.0 }", "person = { rho = 0.5 }"), text=PLAN)
    desk.refused("release", "plan.toml", error="BudgetExceeded")
    assert not (desk.folder / "plan-release").exists()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('strategy = "packed"', 'strategy = "best"', "MechanismError"),
        ("rows = 25", "rows = 0", "MechanismError"),
        ("rounds = 3", "round = 3", "PlanError"),
        ("rounds = 3", 'workload = [["income", "helth"]]', "UnknownAttribute"),
        ("region = { cdp = 0.5 }", "region = { cdp = 0 }", "BudgetError"),
        ("region = { cdp = 0.5 }", "region = { pure = 0.5 }", "BudgetError"),
        ('"income+health" = { rho = 0.6 }', '"income+helth" = { rho = 0.6 }', "UnknownAttribute"),
    ],
)
def test_bad_plans_cost_nothing(desk: Any, old: str, new: str, error: str) -> None:
    desk.plan((old, new), text=PLAN)
    desk.refused("release", "plan.toml", error=error)
    assert not desk.ledger.exists()


def test_a_fit_that_mbi_could_not_make_is_refused_by_cost_and_release(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = 'rounds = 3\nback_end = "mbi"\nzeros = [{ income = { below = 1 }, health = { not = "(null)" } }]'
    desk.plan(("rounds = 3", zeros), text=PLAN)
    desk.refused_plan("MechanismError", "mbi knows no declared zeros")
    monkeypatch.setitem(sys.modules, "mbi", None)
    desk.plan(("rounds = 3", 'rounds = 3\nback_end = "mbi"'), text=PLAN)
    desk.refused_plan("MissingPart", "Install nabladp[synthesis]")
