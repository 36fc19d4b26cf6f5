"""Learners from a plan file: what a curator writes, gets, and is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from plans import plan_text

from nabladp import Release

HALFSPACES = plan_text(
    "per_attribute = { cdp = 9.0 }",
    """
[[release]]
name = "vote"
mechanism = "HalfspaceLearner"
label = "health"
encode = { age = 4 }
budget = { cdp = 2.0 }
label_epsilon = 1.5
holdout = 0.2

[[release]]
name = "sturdy"
mechanism = "HalfspaceLearner"
method = "robust"
label = "health"
over = ["region", "income"]
gamma = 0.5
gamma_prime = 0.0
budget = { cdp = 2.0 }
""",
)


def test_halfspaces_from_cost_to_files(desk: Any) -> None:
    desk.plan(text=HALFSPACES)
    desk.priced("Expected error of vote", "the label", "rows held out", "Expected error of sturdy", "candidates")
    assert desk.run("release", "plan.toml").code == 0
    folder = desk.folder / "plan-release"
    vote = Release.load(folder / "vote").output
    assert vote.holdout.rows == 12 and set(vote.predict({"region": ["north"], "age": [3], "income": [5.0]})) <= {0, 1}
    weights = pq.read_table(folder / "vote" / "values.parquet")
    assert {"column", "attribute", "value", "low", "high"} < set(weights.column_names)
    assert np.allclose(weights["value"].to_numpy(), vote.weights)
    assert pq.read_table(folder / "vote" / "holdout.parquet").num_rows == 1
    assert pq.read_table(folder / "sturdy" / "contributions.parquet").num_rows == 6
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0


def test_halfspaces_without_a_number_of_rows(desk: Any) -> None:
    desk.plan(("rows = 60\n", ""), text=HALFSPACES)
    assert desk.run("cost", "plan.toml").code == 0
    assert desk.run("release", "plan.toml").code == 0


@pytest.mark.parametrize(
    ("old", "new", "error", "word"),
    [
        ('label = "health"', 'label = "region"', "MechanismError", "3 values"),
        ('label = "health"\n', "", "PlanError", "needs a label"),
        ("holdout = 0.2", "holdout = 2", "MechanismError", "share"),
        ("holdout = 0.2", "holdot = 0.2", "PlanError", "holdout"),
        ("gamma_prime = 0.0", "gamma_prime = 0.5", "MechanismError", "larger than γ'"),
        ("gamma_prime = 0.0", "", "MechanismError", "gamma_prime"),
        ('method = "robust"', 'method = "exact"', "MechanismError", "every feature here has two"),
        ("label_epsilon = 1.5", 'label_treatment = "none"', "MechanismError", '"response", "gaussian"'),
        ("label_epsilon = 1.5", "budgets = { health = { pure = 1 } }", "BudgetError", "does not support"),
        ("rows = 60", "rows = 1", "MechanismError", "At least two rows"),
    ],
)
def test_what_is_wrong_with_a_halfspace_is_named_and_nothing_is_spent(
    desk: Any, old: str, new: str, error: str, word: str
) -> None:
    desk.plan((old, new), text=HALFSPACES)
    desk.refused_plan(error, word, "release")
