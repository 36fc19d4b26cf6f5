"""Query workloads from a plan file: what a curator writes, gets, and is refused."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from plans import plan_text

from nabladp import Release

PLAN = plan_text(
    """
per_attribute = { cdp = 0.9 }
person = { rho = 3.0 }
""",
    """
[[release]]
name = "answers"
mechanism = "Projection"
workload = { queries = "conjunctions", k = 2, over = ["region", "income", "health"] }
budget = { cdp = 0.3 }

[[release]]
name = "model"
mechanism = "MWEM"
workload = [
  { queries = "marginals", k = 1, over = ["region", "income", "health"] },
  { queries = "parities", k = 2, over = ["region", "health"], weight = 2.0 },
  { queries = "linear", each = [{ attributes = ["income"], values = [0, 0.5, 1], name = "wealth" }] },
]
budget = { cdp = 0.5 }
rounds = 3
rows = 40
""",
)


def test_both_mechanisms_from_cost_to_files(desk: Any) -> None:
    desk.plan(text=PLAN)
    heads = ("Expected error of answers", "Expected error of model", "rounds", "at the same budget per person")
    cost = desk.priced(*heads)
    assert cost["expected_error"]["model"]["rounds"] == 3
    assert (
        cost["expected_error"]["answers"]["per_attribute"]["scale"]
        < cost["expected_error"]["answers"]["per_person"]["scale"]
    )
    assert desk.run("release", "plan.toml").code == 0
    folder = desk.folder / "plan-release"
    answers, model = Release.load(folder / "answers"), Release.load(folder / "model")
    asked = pq.read_table(folder / "answers" / "values.parquet")["query"].to_pylist()
    assert len(asked) == 8 and {f"region = {r}, health = true" for r in ("south", "east")} < set(asked)
    assert len(answers["region", "health"]) == 2
    assert "wealth" in model["income"] and model.output.synthetic.num_rows == 40
    assert pq.read_table(folder / "model" / "synthetic.parquet").column_names == ["region", "income", "health"]
    assert pq.read_table(folder / "model" / "distribution.parquet").num_rows == 18
    assert desk.run("ledger", "verify", "--release", "plan-release").code == 0


def test_a_changed_synthetic_table_is_noticed(desk: Any) -> None:
    desk.plan(text=PLAN)
    assert desk.run("release", "plan.toml").code == 0
    found = desk.folder / "plan-release" / "model" / "synthetic.parquet"
    found.write_bytes(found.read_bytes()[:-1] + b"x")
    desk.refused("ledger", "verify", "--release", "plan-release", error="ReleaseError")


@pytest.mark.parametrize(
    ("old", "new", "error", "word"),
    [
        ('queries = "conjunctions"', 'queries = "conjunction"', "MechanismError", "conjunctions"),
        (
            'k = 2, over = ["region", "income"',
            'k = 4, over = ["region", "income"',
            "MechanismError",
            "4-way",
        ),
        ("values = [0, 0.5, 1]", "values = [0, 0.5, 1.5]", "MechanismError", "outside [0, 1]"),
        ("values = [0, 0.5, 1]", "values = [0, 0.5]", "MechanismError", "2 values for the 3"),
        ('attributes = ["income"]', 'attributes = ["incme"]', "UnknownAttribute", "income"),
        ("rounds = 3", "rounds = 3\nper_round = 4", "MechanismError", "at most 3"),
        ("rounds = 3", "round = 3", "PlanError", "rounds"),
        ("budget = { cdp = 0.5 }", "budget = { pure = 0.5 }", "BudgetError", "Gaussian"),
        ("budget = { cdp = 0.3 }", 'budget = { cdp = 0.3 }\nhull = "box"', "MechanismError", "blocks"),
        ("workload = [\n", "workload = []\nother = [\n", "PlanError", "other"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_spent(desk: Any, old: str, new: str, error: str, word: str) -> None:
    desk.plan((old, new), text=PLAN)
    desk.refused_plan(error, word)


def test_an_empty_workload_is_refused(desk: Any) -> None:
    start = PLAN.index("workload = [\n")
    end = PLAN.index("]\nbudget = { cdp = 0.5 }")
    desk.plan(text=PLAN[:start] + "workload = [" + PLAN[end:])
    assert "empty" in desk.refused("release", "plan.toml", error="MechanismError")["message"]
    assert not desk.ledger.exists()


def test_overlapping_sets_asked_to_be_disjoint(desk: Any) -> None:
    sets = 'workload = { queries = "marginals", sets = [["region", "health"], ["health", "income"]] }\nper_round = 2\n'
    start, end = PLAN.index("workload = [\n"), PLAN.index("budget = { cdp = 0.5 }")
    desk.plan(text=PLAN[:start] + sets + PLAN[end:])
    refused = desk.refused("release", "plan.toml", error="MechanismError")
    assert "overlap" in refused["message"] and "at most 1" in refused["message"]
    assert not desk.ledger.exists()


def test_a_domain_of_two_to_the_forty_is_refused_with_what_to_use(desk: Any) -> None:
    desk.plan(text=PLAN)
    names = [f"b{i}" for i in range(40)]
    text = "".join(f'[[attribute]]\nname = "{name}"\nkind = "boolean"\n' for name in names)
    (desk.folder / "schema.toml").write_text(text)
    (desk.folder / "people.csv").write_text(",".join(names) + "\n" + ",".join(["true"] * 40) + "\n")
    start, end = PLAN.index("[[release]]"), PLAN.index("budget = { cdp = 0.5 }")
    plan = PLAN[:start] + '[[release]]\nmechanism = "MWEM"\nworkload = { queries = "parities", k = 2 }\n' + PLAN[end:]
    (desk.folder / "plan.toml").write_text(plan.replace("rows = 60", "rows = 1"))
    refused = desk.refused("release", "plan.toml", error="DomainTooLarge")
    assert "about 10^12 of them" in refused["message"] and "Synthesis" in refused["fix"]
    assert not desk.ledger.exists()
