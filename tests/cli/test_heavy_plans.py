"""Heavy hitters from a plan file: what a curator writes, gets, and is refused."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from nabladp import Release

PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 60

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 9.0 }

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
"""


def lay_out(desk: Any, plan: str = PLAN) -> None:
    desk.lay_out()
    (desk.folder / "plan.toml").write_text(plan)


def test_from_cost_to_files(desk: Any) -> None:
    lay_out(desk)
    told = desk.run("cost", "plan.toml")
    assert told.code == 0 and not desk.ledger.exists()
    for words in ("Expected error of frequent", "Expected error of pure", "rows is found", "its count is within"):
        assert words in told.words, words
    expected = desk.run("cost", "plan.toml", "--json").json["expected_error"]
    assert desk.run("release", "plan.toml").code == 0
    folder = desk.folder / "plan-release"
    for name in ("frequent", "pure"):
        output = Release.load(folder / name).output
        assert output.certified == expected[name]["certificate"]["certified"]
        table = pq.read_table(folder / name / "values.parquet")
        assert table.column_names[-3:] == ["count", "low", "high"] and table.num_rows == len(output) > 0
    assert pq.read_table(folder / "frequent" / "lists.parquet").column_names == ["node", "attributes", "codes"]
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0


def test_without_rows_the_cost_says_what_is_missing(desk: Any) -> None:
    lay_out(desk, PLAN.replace("rows = 60\n", ""))
    assert "until the number of rows is known" in desk.run("cost", "plan.toml").words


@pytest.mark.parametrize(
    ("old", "new", "error", "word"),
    [
        ("failure = 0.1", "failure = 0", "MechanismError", "failure"),
        ("failure = 0.1", "frequency = 1.0", "MechanismError", "frequency"),
        ("failure = 0.1", "failur = 0.1", "PlanError", "failure"),
        ('over = ["region", "income", "health"]', "over = []", "MechanismError", "list of attributes"),
        ('over = ["region", "income", "health"]', 'over = ["regoin"]', "UnknownAttribute", "region"),
        ('notion = "pure"', 'notion = "cdp"', "BudgetError", "cannot be bought"),
        ("budget = { pure = 4.0 }", "budget = { pure = 0.01 }", "MechanismError", "Nothing can be certified"),
        ("lists = true", "settings = { mu = 1 }", "MechanismError", "no settings"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_spent(desk: Any, old: str, new: str, error: str, word: str) -> None:
    assert old in PLAN
    lay_out(desk, PLAN.replace(old, new, 1))
    for command in ("cost", "release"):
        refused = desk.refused(command, "plan.toml", error=error)
        assert word in refused["message"] + refused["fix"]
    assert not desk.ledger.exists()
