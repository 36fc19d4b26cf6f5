"""A refusal names the largest budget that would still be accepted, and it is accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nabladp.errors import BudgetExceeded
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Approx, Budget, Pure, Rho
from nabladp.privacy.values import as_value
from nabladp.release import Plan, Session, other_budgets
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "integer", low=0, high=3), Attribute("b", "boolean")))
ROWS = pd.DataFrame({"a": [0, 1, 2, 3] * 5, "b": [True, False] * 10})


def session(folder: Path, budget: Budget, **more: Any) -> Session:
    return Session(ROWS, SCHEMA, budget, folder / "l.db", noise=NoiseSource.seeded(1), new_ledger=True, **more)


def marginals(budget: Any, noise: str = "gaussian", **more: Any) -> NoisyMarginals:
    return NoisyMarginals(budget, sets=(("a",), ("a", "b")), noise=noise, **more)


CASES: dict[str, tuple[Budget, Mechanism, str]] = {
    "cdp": (Budget(per_attribute=CDP(0.5)), marginals(CDP(0.7)), "CDP(0.5)"),
    "three digits, rounded down": (Budget(per_attribute=Rho(0.01)), marginals(CDP(0.7)), "CDP(0.141)"),
    "rho": (Budget(per_attribute=Rho(0.01)), marginals(Rho(0.7)), "Rho(0.01)"),
    "the person is tighter": (Budget(per_attribute=CDP(9.0), person=Rho(0.02)), marginals(CDP(0.7)), "CDP(0.2)"),
    "approx": (Budget(per_attribute=Rho(0.01)), marginals(Approx(2.0, 1e-6)), "Approx("),
    "pure": (Budget(per_attribute=Pure(0.3)), marginals(Pure(2.0), "laplace"), "Pure(0.3)"),
    "pure noise, concentrated limit": (Budget(per_attribute=Rho(0.02)), marginals(Pure(2.0), "laplace"), "Pure(0.282)"),
    "a planner": (Budget(per_attribute=CDP(0.5)), HeavyHitters(CDP(3.0), failure=0.1), "CDP("),
}


@pytest.mark.parametrize("case", CASES)
def test_the_budget_that_is_named_is_accepted_and_a_larger_one_is_not(case: str, tmp_path: Path) -> None:
    budget, mechanism, words = CASES[case]
    s = session(tmp_path, budget)
    with pytest.raises(BudgetExceeded) as told:
        s.release(mechanism, "it")
    assert f"The largest budget that still fits is {words}" in str(told.value)
    named = told.value.fields["largest_budget"]["budgets"]["it"]["budget"]
    fits = replace(mechanism, budget=as_value(named))  # type: ignore[type-var]
    key = next(name for name in named if name != "delta")
    more = replace(mechanism, budget=as_value(named | {key: named[key] * 1.011}))  # type: ignore[type-var]
    assert s.cost(fits).fits and not s.cost(more).fits and s.ledger.head.seq == 1
    offered = s.cost(mechanism).to_json()["largest_budget"]["budgets"]
    assert list(offered.values()) == [{"budget": named}]
    s.release(fits, "it")


def test_what_is_left_counts_and_nothing_left_is_said(tmp_path: Path) -> None:
    s = session(tmp_path, Budget(per_attribute=Rho(0.02)), rows_per_person=2)
    with pytest.raises(BudgetExceeded) as told:
        s.release(marginals(Rho(0.5)))
    assert "Rho(0.005)." in told.value.fix
    s.release(marginals(Rho(0.005)))
    with pytest.raises(BudgetExceeded, match=r"Nothing is left of the limit 'a', so no budget fits. Leave out") as told:
        s.release(marginals(Rho(0.5)))
    assert told.value.fields["largest_budget"] is None


def test_several_releases_share_a_factor(tmp_path: Path) -> None:
    s = session(tmp_path, Budget(per_attribute=Rho(0.02)))
    parts = [("first", marginals(CDP(0.3))), ("second", marginals(CDP(0.4), budgets={"b": CDP(0.2)}))]
    with pytest.raises(BudgetExceeded, match=r"are 0.4 times these: 'first' CDP\(0.12\);") as told:
        s.release_all(parts, to=tmp_path / "out")
    found = told.value.fields["largest_budget"]
    assert found["factor"] == 0.4 and found["budgets"]["second"] == {
        "budget": {"cdp": 0.16},
        "budgets": {"b": {"cdp": 0.08}},
    }
    assert "'second' CDP(0.16), budgets.b CDP(0.08). Or leave out 'a'." in str(told.value)


def test_no_factor_helps_where_there_is_no_bound(tmp_path: Path) -> None:
    s = session(tmp_path, Budget(per_attribute=Pure(1.0)))
    with pytest.raises(BudgetExceeded) as told:
        s.release(marginals(CDP(0.1)))
    assert "largest" not in str(told.value) and "largest_budget" not in told.value.fields
    assert s.cost(marginals(CDP(0.1))).largest is None


def test_a_slow_mechanism_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def guarantee(self: NoisyMarginals, schema: Schema, n: int, whole: Any = NoisyMarginals.guarantee) -> Any:
        tried.append(self.budget)
        return whole(replace(self, budget=Rho(0.5)), schema, n)  # whatever the budget

    monkeypatch.setattr(NoisyMarginals, "guarantee", guarantee)
    s = session(tmp_path, Budget(per_attribute=Rho(0.02)))
    assert s.cost(marginals(CDP(0.7))).largest is None and len(tried) <= 1 + 12
    tried.clear()
    monkeypatch.setattr(other_budgets, "_MOST_SECONDS", -1.0)
    assert s.cost(marginals(CDP(0.7))).largest is None and len(tried) == 2


def test_a_suggestion_never_hides_the_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_budgets, "largest_budget", lambda *_: 1 / 0)
    with pytest.raises(BudgetExceeded, match="would break the limit"):
        session(tmp_path, Budget(per_attribute=Rho(0.02))).release(marginals(CDP(0.7)))


PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 20
[budget]
ledger = "ledger.db"
per_attribute = { rho = 0.02 }
[[release]]
name = "ages"
mechanism = "NoisyMarginals"
sets = [["a"]]
budget = { cdp = 0.7 }
"""


def test_so_does_a_plan_before_there_is_a_ledger(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "people.csv", index=False)
    SCHEMA.save(tmp_path / "schema.toml")
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = Plan.load(tmp_path / "plan.toml")
    assert plan.cost().to_json()["largest_budget"] == {"factor": 0.285, "budgets": {"ages": {"budget": {"cdp": 0.2}}}}
    with pytest.raises(BudgetExceeded, match=r"The largest budget that still fits is CDP\(0.2\)"):
        plan.run(new_ledger=True)
    assert not (tmp_path / "ledger.db").exists()
    (tmp_path / "plan.toml").write_text(PLAN.replace("0.7", "0.2"))
    assert Plan.load(tmp_path / "plan.toml").cost().to_json()["largest_budget"] is None
