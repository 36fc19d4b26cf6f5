"""Heavy hitters from a plan file: what a curator writes, gets, and is refused."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from plans import plan_text

from nabladp import Release

PLAN = plan_text(
    "per_attribute = { cdp = 9.0 }",
    """
[[release]]
name = "frequent"
mechanism = "HeavyHitters"
over = ["region", "income", "health"]
budget = { cdp = 5.0 }
failure = 0.1
lists = true

[[release]]
name = "pure"
mechanism = "HeavyHitters"
over = ["region", "health"]
notion = "pure"
budget = { pure = 4.0 }
count_share = 0.4
""",
)


def test_from_cost_to_files(desk: Any) -> None:
    desk.plan(text=PLAN)
    expected = desk.priced(
        "Expected error of frequent",
        "Expected error of pure",
        "for it to be found",
        "error of the count of such a combination",
    )["expected_error"]
    assert desk.run("release", "plan.toml").code == 0
    folder = desk.folder / "plan-release"
    for name in ("frequent", "pure"):
        output = Release.load(folder / name).output
        assert output.certified == expected[name]["certificate"]["certified"]
        table = pq.read_table(folder / name / "values.parquet")
        assert {"value", "low", "high", "noise_scale"} < set(table.column_names) and table.num_rows == len(output) > 0
    assert pq.read_table(folder / "frequent" / "lists.parquet").column_names == ["node", "attributes", "codes"]
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0


def test_without_rows_the_cost_says_what_is_missing(desk: Any) -> None:
    desk.plan(("rows = 60\n", ""), text=PLAN)
    assert "until the number of rows is known" in desk.run("cost", "plan.toml").words


@pytest.mark.parametrize(
    ("old", "new", "error", "word"),
    [
        ("failure = 0.1", "failure = 0", "MechanismError", "failure"),
        ("failure = 0.1", "frequency = 1.0", "MechanismError", "frequency"),
        ("failure = 0.1", "failur = 0.1", "PlanError", "failure"),
        ('over = ["region", "income", "health"]', "over = []", "MechanismError", "list of attributes"),
        ('over = ["region", "income", "health"]', 'over = ["regoin"]', "UnknownAttribute", "region"),
        ('notion = "pure"', 'notion = "cdp"', "BudgetError", "does not support"),
        ("budget = { pure = 4.0 }", "budget = { pure = 0.01 }", "MechanismError", "Nothing can be certified"),
        ("lists = true", "settings = { mu = 1 }", "MechanismError", "settings of a tree"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_spent(desk: Any, old: str, new: str, error: str, word: str) -> None:
    desk.plan((old, new), text=PLAN)
    desk.refused_plan(error, word)
