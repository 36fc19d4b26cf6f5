"""Plans as they are typed: misspelt, of the wrong type, beyond reason. Refused before anything is read or made."""

from __future__ import annotations

import json
from typing import Any

import pytest

Change = tuple[str, str]
TYPOS: dict[str, tuple[Change, str, str, str]] = {
    "section": (("[table]", "[tabel]"), "PlanError", "'tabel'", "'table'"),
    "section missing": (("[budget]", "[report]"), "PlanError", "no [budget]", "[budget]"),
    "key of table": (("source =", "sorce ="), "PlanError", "'sorce'", "'source'"),
    "key of budget": (("per_attribute =", "per_atribute ="), "PlanError", "'per_atribute'", "'per_attribute'"),
    "key of release": (("sets = [[", "set = [["), "PlanError", "'set'", "'sets'"),
    "key of adversary": (("attributes = [", "attribute = ["), "PlanError", "'attribute'", "'attributes'"),
    "mechanism": (('"NoisyMarginals"', '"NoisyMarginal"'), "PlanError", "'NoisyMarginal'", "'NoisyMarginals'"),
    "no mechanism": (('mechanism = "NoisyMarginals"\n', ""), "PlanError", "number 1", "mechanism ="),
    "unknown in sets": (('["health"]]', '["helth"]]'), "UnknownAttribute", "'helth'", "'health'"),
    "unknown adversary": (('"income", "health"]\n', '"incom"]\n'), "UnknownAttribute", "'incom'", "'income'"),
    "unknown in budget": (('"age+income"', '"age+incme"'), "UnknownAttribute", "'incme'", "'income'"),
    "unknown attribute limit": (
        ('sets = { "age+income"', 'attributes = { regoin = { cdp = 1 } }\nsets = { "age+income"'),
        "UnknownAttribute",
        "'regoin'",
        "'region'",
    ),
    "toml": (("[table]", "[table"), "PlanError", "not valid TOML", "line"),
    "schema missing": (('"schema.toml"', '"shema.toml"'), "SourceError", "shema.toml", "nabladp init"),
    "source of another type": (('source = "people.csv"', "source = 5"), "PlanError", "'source'", "people.csv"),
    "ledger of another type": (('ledger = "ledger.db"', "ledger = 5"), "PlanError", "'ledger'", "ledger.db"),
    "ledger in memory": (('ledger = "ledger.db"', 'ledger = ""'), "PlanError", "'ledger'", "ledger.db"),
    "rows": (('source = "people.csv"', 'source = "people.csv"\nrows = 0'), "PlanError", "above zero", "rows = 1000"),
    "rows of another type": (
        ('source = "people.csv"', 'source = "people.csv"\nrows = "many"'),
        "PlanError",
        "'rows'",
        "",
    ),
    "release once": (("[[release]]", "[release]"), "PlanError", "[release]", "[[release]]"),
    "releases nothing": (("[[release]]", "[[adversary]]"), "PlanError", "", ""),
    "release of another type": (("[table]", "release = [5]\n[table]"), "PlanError", "not valid TOML", ""),
    "adversary without attributes": (('attributes = ["income", "health"]', ""), "PlanError", "adversary", ""),
    "sets of another type": (
        ('sets = [["region", "income"], ["health"]]', "sets = 5"),
        "MechanismError",
        "'sets'",
        "sets =",
    ),
    "k of another type": (
        ('sets = [["region", "income"], ["health"]]', 'k = "two"'),
        "MechanismError",
        "whole number",
        "k = 2",
    ),
    "k with a fraction": (
        ('sets = [["region", "income"], ["health"]]', "k = 2.5"),
        "MechanismError",
        "whole number",
        "k = 2",
    ),
    "budgets of another type": (("budget = {", "budgets = 5\nbudget = {"), "BudgetError", "'budgets'", "budgets ="),
    "budget of an attribute": (
        ("budget = {", "budgets = { age = { cdp = 0 } }\nbudget = {"),
        "BudgetError",
        "budget of 'age': CDP(eps0) must be above zero, and is 0",
        "do not name it",
    ),
    "weights by name": (
        ("budget = {", "weights = { region = 2 }\nbudget = {"),
        "MechanismError",
        "'weights'",
        "weights = [",
    ),
    "option of another type": (
        (
            'NoisyMarginals"\nsets = [["region", "income"], ["health"]]',
            'HeavyHitters"\nfailure = 0.1\nover = [["region"]]',
        ),
        "MechanismError",
        "'over' holds a list, which is not a name",
        "over = [",
    ),
    "weights of another type": (("budget = {", "weights = ['a', 'b']\nbudget = {"), "BudgetError", "weight", "number"),
    "k too large": (('sets = [["region", "income"], ["health"]]', "k = 5"), "MechanismError", "5-way", "1 to 4"),
    "sets and k": (("sets = [[", "k = 2\nsets = [["), "MechanismError", "Both", "Keep"),
    "no sets": (('sets = [["region", "income"], ["health"]]', ""), "MechanismError", "Neither", "Write sets"),
    "empty set": (('["health"]]', "[]]"), "MechanismError", "at least one", "empty"),
    "twice in a set": (('["health"]]', '["age", "age"]]'), "MechanismError", "twice", "once"),
    "set twice": (('["health"]]', '["income", "region"]]'), "MechanismError", "twice", ""),
    "folder name": (('name = "pairs"', 'name = "../pairs"'), "PlanError", "not a valid folder name", "letters"),
    "hidden folder": (('name = "pairs"', 'name = "."'), "PlanError", "not a valid folder name", "letters"),
    "line break in a name": (('name = "pairs"', 'name = "a\\nb"'), "PlanError", "not a valid folder name", "letters"),
    "longest name": (('name = "pairs"', f'name = "{"x" * 300}"'), "PlanError", "not a valid folder name", "letters"),
    "folder of another type": (("[[release]]", "[report]\nfolder = 5\n[[release]]"), "PlanError", "'folder'", ""),
    "delta": (("[[release]]", "[report]\ndelta = 0\n[[release]]"), "BudgetError", "delta", "1e-6"),
    "delta of another type": (("[[release]]", '[report]\ndelta = "x"\n[[release]]'), "BudgetError", "delta", "1e-6"),
    "noise": (("budget = {", 'noise = "gausian"\nbudget = {'), "MechanismError", "'gausian'", "gaussian"),
    "laplace with cdp": (("budget = {", 'noise = "laplace"\nbudget = {'), "BudgetError", "Laplace", "Pure"),
}


@pytest.mark.parametrize("case", TYPOS)
def test_a_mistake_in_a_plan_is_named_with_its_fix(desk: Any, case: str) -> None:
    change, error, message, fix = TYPOS[case]
    desk.plan(change)
    before = desk.names()
    for command in ("cost", "release"):
        answer = desk.refused(command, "plan.toml", error=error)
        assert message in answer["message"] and fix in answer["fix"], answer
    assert desk.names() == before, "nothing was made, no ledger either"


BUDGETS = {
    "bare": ("0.5", "must say what it measures"),
    "negative": ("{ cdp = -0.5 }", "above zero"),
    "zero": ("{ cdp = 0 }", "above zero"),
    "nan": ("{ rho = nan }", "finite"),
    "infinite": ("{ rho = inf }", "finite"),
    "text": ('{ rho = "0.5" }', "must be a number"),
    "truth": ("{ rho = true }", "must be a number"),
    "unknown measure": ("{ eps = 1 }", "has no entry 'eps'"),
    "two measures": ("{ rho = 1, cdp = 1 }", "has several measures: cdp, rho"),
    "epsilon alone": ("{ epsilon = 1 }", "delta is missing"),
    "delta of zero": ("{ epsilon = 1, delta = 0 }", "between 0 and 1"),
    "list": ("[1]", "must say what it measures"),
}


@pytest.mark.parametrize("place", ["per_attribute = { cdp = 0.5 }", "{ rho = 0.2 }", "{ rho = 1.0 }", "{ cdp = 0.2 }"])
@pytest.mark.parametrize("case", BUDGETS)
def test_budgets_beyond_reason(desk: Any, place: str, case: str) -> None:
    value, message = BUDGETS[case]
    desk.plan((place, f"per_attribute = {value}" if place.startswith("per_attribute") else value))
    before = desk.names()
    answer = desk.run("cost", "plan.toml", "--json")
    assert answer.code == 1 and answer.json["error"] == "BudgetError", answer.json
    assert message in answer.json["message"] and answer.json["fix"]
    assert desk.run("release", "plan.toml", "--json").json == answer.json
    assert desk.names() == before


def test_a_plan_that_is_no_plan(desk: Any) -> None:
    assert "'nothing.toml'" in desk.refused("cost", "nothing.toml", error="SourceError")["message"]
    desk.refused("release", ".", error="SourceError")
    desk.write("latin.toml", "# café".encode("latin-1"))
    assert "UTF-8" in desk.refused("cost", "latin.toml", error="PlanError")["fix"]
    desk.write("empty.toml", "")
    desk.refused("cost", "empty.toml", error="PlanError")


def test_a_plan_names_the_table_and_the_schema_to_check(desk: Any) -> None:
    def check() -> dict[str, Any]:
        said = desk.run("check", "plan.toml", "--json")
        return dict(json.loads(said.out))

    assert check() == {"ok": True, "findings": []}
    rows = (desk.folder / "people.csv").read_text().splitlines()
    desk.write("people.csv", "\n".join([*rows, *("CANARY" + row for row in rows[1:4])]) + "\n")
    (finding,) = check()["findings"]
    assert (finding["column"], finding["rows"]) == ("region", 3) and "CANARY" not in str(finding)


def test_values_are_shown_on_a_terminal_only(desk: Any) -> None:
    answer = desk.refused("check", "people.csv", "--show-values", error="SourceError")
    assert "terminal" in answer["message"]


def test_names_are_given_once(desk: Any) -> None:
    text = (desk.folder / "plan.toml").read_text()
    desk.write("plan.toml", text + text[text.index("[[adversary]]") :])
    assert "Two adversaries" in desk.refused("cost", "plan.toml", error="PlanError")["message"]
    desk.write("plan.toml", text + text[text.index("[[release]]") : text.index("[[adversary]]")])
    assert "Two releases" in desk.refused("cost", "plan.toml", error="PlanError")["message"]


def test_too_small_a_budget_for_so_many_marginals(desk: Any) -> None:
    desk.plan(("{ cdp = 0.2 }", "{ cdp = 1e-9 }"))
    assert "too small" in desk.refused("release", "plan.toml", error="BudgetError")["message"]
    assert not desk.ledger.exists()


def test_unknown_attributes_in_python_suggest_the_near_name(desk: Any) -> None:
    import nabladp as nd

    schema = nd.Schema.load(desk.folder / "schema.toml")
    table, ledger = desk.folder / "people.csv", desk.folder / "python.db"
    budget = nd.Budget(per_attribute=nd.CDP(1))
    session = nd.Session(table, schema, budget, ledger, new_ledger=True)
    asked = (
        lambda: session.release(nd.NoisyMarginals(nd.CDP(0.1), sets=[("helth",)])),
        lambda: session.cost(nd.NoisyMarginals(nd.CDP(0.1), k=1, over=("helth",))),
        lambda: nd.Session(table, schema, budget, ledger, adversaries={"someone": ["helth"]}),
        lambda: nd.Session(
            table, schema, nd.Budget(attributes={"helth": nd.CDP(1)}), desk.folder / "other.db", new_ledger=True
        ),
        lambda: schema["helth"],
    )
    for ask in asked:
        with pytest.raises(nd.NablaDPError, match="Did you mean 'health'"):
            ask()
    with pytest.raises(nd.NablaDPError, match="must say what it measures"):
        nd.Budget(per_attribute=0.5)  # type: ignore[arg-type]
    assert session.left()["health"] == 0.5 and not (desk.folder / "other.db").exists()
