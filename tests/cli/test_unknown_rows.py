"""Plans that do not say how many rows there are: what waits for that number is not refused before it is known."""

from __future__ import annotations

from typing import Any

import pytest
from plans import plan_text

from nabladp.tables import Table

RELEASES = {  # with a limit for the person between the claim for 60 rows and that for any number of rows
    "Synthesis": ("budget = { cdp = 1.0 }", 2.0),
    "HeavyHitters": ('budget = { cdp = 2.0 }\nover = ["region", "income", "health"]', 3.0),
    "DistributionEstimate": ('budget = { cdp = 3.0 }\nover = ["region", "health"]', 6.0),
    "ThresholdLearner": ('budget = { cdp = 4.0 }\nlabel = "health"\nover = ["region", "income"]', 9.0),
    "PointLearner": ('budget = { cdp = 4.0 }\nlabel = "health"\nover = ["region", "income"]', 9.0),
}


def plan(kind: str, *more: str, rho: float | None = None, rows: int | None = None) -> str:
    options, enough = RELEASES[kind]
    body = f'[[release]]\nname = "waits"\nmechanism = "{kind}"\n{options}\n'
    return plan_text(f"person = {{ rho = {rho or enough} }}", "\n".join((body, *more)), rows)


@pytest.mark.parametrize("kind", RELEASES)
def test_a_new_ledger_waits_for_the_number_of_rows(desk: Any, kind: str) -> None:
    desk.plan(text=plan(kind))
    told = desk.run("cost", "plan.toml")
    assert told.code == 1 and "Add rows = … to [table]" in told.words and "the cost of waits" in told.words
    assert "Without the number of rows, this plan exceeds the budget for" in told.words
    assert desk.run("cost", "plan.toml", "--json").json["any_rows"] == ["waits"] and not desk.ledger.exists()
    first = desk.run("release", "plan.toml")
    assert first.code == 0, first.words
    desk.plan(text=plan(kind, rows=60), name="known.toml")
    priced = desk.run("cost", "known.toml", "--json").json
    assert priced["any_rows"] == [] and desk.spent()["person"] == pytest.approx(priced["person"]["rho"])


def test_beyond_the_budget_at_the_real_number_of_rows_no_ledger_is_made(desk: Any) -> None:
    desk.plan(text=plan("Synthesis", rho=0.4))
    desk.refused_plan("BudgetExceeded", "'person'", "release")
    assert desk.hidden() == [] and "plan-release" not in desk.names()


def test_what_needs_no_number_of_rows_is_refused_before_they_are_counted(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(table: Table) -> int:
        raise AssertionError("the rows were counted")

    monkeypatch.setattr(Table, "n", property(count))
    other = '[[release]]\nname = "dear"\nmechanism = "NoisyMarginals"\nk = 1\nbudget = { cdp = 9.0 }\n'
    desk.plan(text=plan("Synthesis", other))
    desk.refused_plan("BudgetExceeded", "'person'", "release")


def test_the_cost_page_says_it_too(desk: Any) -> None:
    desk.plan(text=plan("PointLearner"))
    assert desk.run("cost", "plan.toml", "--page", "cost.html").code == 1
    assert "is a worst case over all numbers" in (desk.folder / "cost.html").read_text()
    desk.plan(text=plan("PointLearner", rows=60))
    assert desk.run("cost", "plan.toml", "--page", "cost.html").code == 0
    assert "is a worst case over all numbers" not in (desk.folder / "cost.html").read_text()
