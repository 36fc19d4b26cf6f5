"""Every command once as it is meant, and once in a way a newcomer would try it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nabladp
from nabladp import Release
from nabladp.mechanisms import ExpectedError

HEAVY = ("opendp", "numba", "sklearn", "pandas", "polars", "jax", "pyspark", "altair")


def test_from_table_to_release(desk: Any) -> None:
    (desk.folder / "schema.toml").unlink()
    drafted = desk.run("init", "people.csv")
    assert drafted.code == 0 and "4 columns" in drafted.words and "plan.toml exists already" in drafted.words
    marked = desk.refused("check", "people.csv", error="SchemaError")
    assert "FILL IN" in marked["message"] and "region" in marked["message"]
    desk.lay_out()
    assert "matches its schema" in desk.run("check", "people.csv").words
    assert "Nothing was spent." in desk.run("cost", "plan.toml").words
    assert not desk.ledger.exists()
    released = desk.run("release", "plan.toml")
    assert released.code == 0 and released.err == ""
    record = Release.load(desk.folder / "plan-release" / "pairs")
    assert record.stamp is None and record["region", "income"].counts.shape == (3, 3)
    assert desk.spent() == {"region": 0.02, "income": 0.02, "health": 0.02, "age+income": 0.02, "person": 0.04}
    assert desk.unfinished() == [] and desk.hidden() == []
    shown = desk.run("ledger")
    assert shown.code == 0 and record.name in shown.words and "UNFINISHED" not in shown.words
    assert "The chain holds: 3 entries" in desk.run("ledger", "verify").words


def test_from_table_to_release_for_machines(desk: Any) -> None:
    assert desk.run("init", "people.csv", "--schema", "draft.toml", "--json").json == {
        "schema": "draft.toml",
        "plan": None,
        "columns": 4,
        "to_fill_in": ["region", "age", "income"],
        "to_confirm": [],
    }
    assert desk.run("check", "people.csv", "--json").json == {"ok": True, "findings": []}
    cost = desk.run("cost", "plan.toml", "--json").json
    assert cost["fits"] and cost["person"]["rho"] == 0.04 and cost["adversaries"][0]["name"] == "a neighbour"
    released = desk.run("release", "plan.toml", "--to", "out", "--json").json
    record = Release.load(desk.folder / "out" / "pairs")
    assert released["releases"][0]["digest"] == record.digest and released["folder"] == "out"
    shown = desk.run("ledger", "--json").json
    assert [entry["kind"] for entry in shown["entries"]] == ["open", "reserve", "bind"]
    assert shown["entries"][2]["payload"]["digest"] == record.digest
    assert desk.run("ledger", "verify", "--json").json["head"] == shown["head"]["hash"]


def test_demo(desk: Any) -> None:
    said = desk.run("demo", "made up", "--people", "2000", "--json")
    assert said.code == 0
    answer = said.json
    assert set(answer["figures"]["attributes"]) >= {"region", "age", "race", "ethnicity", "income", "disability"}
    assert len(answer["figures"]["adversaries"]) == 2 and answer["figures"]["person"]["epsilon"] > 0
    assert {"predicted", "actual"} <= set(answer["errors"][0])
    again = desk.refused("demo", "made up", "--people", "2000", error="ReleaseError")
    assert "not empty" in again["message"]
    assert "1,000" in desk.refused("demo", "few", "--people", "5", error="ReleaseError")["message"]
    desk.refused("demo", "people.csv/below", "--people", "2000", error="ReleaseError")


def test_demo_says_why_its_release_failed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = "nabladp.release.demo.PLAN"
    monkeypatch.setattr(plan, "[tabel]\n# {people}")
    answer = desk.run("demo", "broken", "--people", "1000", "--json").json
    assert answer["error"] == "ReleaseError" and "'tabel'" in answer["message"]


def test_init_never_overwrites(desk: Any) -> None:
    before = (desk.folder / "schema.toml").read_bytes()
    assert "exists already" in desk.refused("init", "people.csv", error="SchemaError")["message"]
    assert (desk.folder / "schema.toml").read_bytes() == before


def test_init_asks_about_a_first_line_of_values(desk: Any) -> None:
    desk.csv("rows.csv", [["north", "55", "1"], ["south", "56", "2"]])
    refused = desk.refused("init", "rows.csv", "--schema", "draft.toml", error="SchemaError")
    assert "may be a row" in refused["message"] and "--no-header" in refused["fix"]
    assert "north" not in str(refused) and "55" not in str(refused)
    assert desk.run("init", "rows.csv", "--schema", "draft.toml", "--header").code == 0


def test_a_file_without_a_header_becomes_a_release(desk: Any) -> None:
    (desk.folder / "plan.toml").unlink()
    desk.csv("rows.csv", [["north", "55", "1"], ["south", "56", "2"], ["north", "20", "1"]])
    assert desk.run("init", "rows.csv", "--schema", "draft.toml", "--no-header").code == 0
    text = (desk.folder / "draft.toml").read_text()
    assert "north" not in text and "55" not in text, "its first row is no name"
    ends = text.replace('"FILL IN: smallest"', "0").replace('"FILL IN: largest"', "99")
    desk.write("draft.toml", ends.replace('["FILL IN: every value"]', '["north", "south", "east"]'))
    assert "matches its schema" in desk.run("check", "plan.toml").words
    assert desk.run("cost", "plan.toml").code == 0 and desk.run("release", "plan.toml").code == 0
    record = Release.load(desk.folder / "plan-release" / "one-way")
    assert record.n == 3 and record.schema.names == ("column_1", "column_2", "column_3")


def test_a_code_book_and_the_drafts_lead_to_a_release(desk: Any) -> None:
    """What a person types between the draft and the accepted plan: one line for the income, and one for the ages."""
    (desk.folder / "plan.toml").unlink()
    book = {
        "region": {"description": "Region", "values": {"north": "The North", "south": "", "east": ""}},
        "age": {"description": "Age", "values": {"min": 0, "max": 99}},
        "income": {"description": "Income", "values": {"min": 0, "max": 91023}},
        "health": {"description": "Ill?", "type": "boolean"},
    }
    desk.write("book.json", json.dumps(book))
    said = desk.run("init", "people.csv", "--schema", "book.toml", "--codebook", "book.json")
    assert said.code == 0 and "income" in said.words and "Confirm" in said.words and "Fill in" not in said.words
    draft = (desk.folder / "book.toml").read_text()
    assert "91023 may have been" in draft
    finished = [line for line in draft.splitlines(keepends=True) if not line.startswith("confirm")]
    assert len(draft.splitlines()) - len(finished) == 1
    desk.write("book.toml", "".join(finished))
    for command in ("check", "cost", "release"):
        assert desk.run(command, "plan.toml").code == 0
    record = Release.load(desk.folder / "plan-release" / "one-way")
    assert (
        record.schema["region"].code_labels == ("The North", "south", "east") and record.schema.title(["age"]) == "Age"
    )


def test_release_refuses_a_folder_that_exists_before_spending(desk: Any) -> None:
    assert desk.run("release", "plan.toml").code == 0
    spent = desk.spent()
    assert "'plan-release' exists already" in desk.refused("release", "plan.toml", error="ReleaseError")["message"]
    desk.refused("release", "plan.toml", "--to", ".", error="ReleaseError")
    desk.refused("release", "plan.toml", "--to", "people.csv", error="ReleaseError")
    (desk.folder / "nowhere").symlink_to("gone")
    desk.refused("release", "plan.toml", "--to", "nowhere", error="ReleaseError")
    assert desk.spent() == spent and desk.unfinished() == [] and desk.hidden() == []


def test_cost_that_does_not_fit(desk: Any) -> None:
    desk.plan(("budget = { cdp = 0.2 }", "budget = { cdp = 0.9 }"))
    text = desk.run("cost", "plan.toml")
    assert text.code == 1 and "OVER" in text.out and "This plan exceeds the budget for" in text.words and text.err == ""
    answer = desk.run("cost", "plan.toml", "--json")
    assert answer.code == 1 and not answer.json["fits"]
    refused = desk.refused("release", "plan.toml", error="BudgetExceeded")
    assert refused["limit"] == "region" and refused["requested"] == 0.405 and refused["left"] == 0.125
    assert not desk.ledger.exists(), "a budget that was never used should not be on record"
    assert desk.names() == {"schema.toml", "plan.toml", "people.csv"}


def test_cost_shows_the_error_of_any_mechanism(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Summed(ExpectedError):
        def to_json(self) -> dict[str, Any]:
            return {"summary": {"mean squared error": 0.0123456, "rounds": 40}, "per_query": [1.5]}

    monkeypatch.setattr("nabladp.mechanisms.noisy_marginals.NoisyMarginals.expected_error", lambda *_: Summed())
    text = desk.run("cost", "plan.toml")
    assert text.code == 0 and "of a cell" not in text.words and "per_query" not in text.words
    assert "Expected error of pairs mean squared error 0.01235 rounds 40 There is no ledger yet, so" in text.words
    assert text.words.endswith("Nothing was spent.")
    told = desk.run("cost", "plan.toml", "--json").json["expected_error"]
    assert told == {"pairs": Summed().to_json()}
    assert desk.run("release", "plan.toml").code == 0
    assert Release.load(desk.folder / "plan-release" / "pairs").expected_error == Summed().to_json()


def test_cost_agrees_with_the_ledger_to_the_last_unit(desk: Any) -> None:
    """A limit that is used up exactly fits; one more unit does not."""
    used_up = (
        ("budget = { cdp = 0.2 }", "budget = { cdp = 0.3 }"),
        ("per_attribute = { cdp = 0.5 }", "per_attribute = { cdp = 0.3 }"),
    )
    desk.plan(*used_up)
    assert desk.run("cost", "plan.toml", "--json").json["fits"]
    assert desk.run("release", "plan.toml").code == 0
    assert not desk.run("cost", "plan.toml", "--json").json["fits"]
    assert desk.refused("release", "plan.toml", "--to", "more", error="BudgetExceeded")["left"] < 1e-15


def test_gaussian_noise_under_a_pure_limit_has_no_bound(desk: Any) -> None:
    desk.plan(("person = { rho = 1.0 }", "person = { pure = 1.0 }"))
    cost = desk.run("cost", "plan.toml", "--json")
    line = next(line for line in cost.json["limits"] if line["limit"] == "person")
    assert cost.code == 1 and line["requested"] is None and not line["fits"]
    text = desk.run("cost", "plan.toml")
    assert "no bound" in text.words and "OVER" in text.words
    assert "Laplace" in desk.refused("release", "plan.toml", error="BudgetExceeded")["fix"]


def test_a_seeded_release_says_so_and_never_enters_a_private_ledger(desk: Any) -> None:
    desk.plan(('ledger = "ledger.db"', 'ledger = "test.db"'))
    said = desk.run("release", "plan.toml", "--test-seed", "7")
    assert said.code == 0 and "TEST — NOT PRIVATE" in said.words
    assert "TEST — NOT PRIVATE" in desk.run("ledger", "test.db").words
    desk.plan()
    assert desk.run("release", "plan.toml", "--to", "private").code == 0
    spent = desk.spent()
    desk.refused("release", "plan.toml", "--to", "seeded", "--test-seed", "7", error="LedgerError")
    assert desk.spent() == spent and "seeded" not in desk.names()


@pytest.mark.parametrize(
    "arguments", [["release"], ["release", "--tp", "x"], ["frobnicate"], ["ledger", "void"], ["demo", "--people", "x"]]
)
def test_wrong_use_is_answered_in_json_too(desk: Any, arguments: list[str]) -> None:
    text = desk.run(*arguments)
    assert text.code == 2 and text.out == "" and "Usage" in text.err
    said = desk.run(*arguments, "--json")
    assert said.code == 2 and said.json["error"] == "UsageError" and said.json["message"]


def test_help_and_version(desk: Any) -> None:
    assert "release" in desk.run("--help").out
    assert desk.run("--version").out.strip() == nabladp.__version__
    for command in ("init", "check", "cost", "release", "ledger", "demo"):
        assert "--help" in desk.run(command, "--help").out


def test_import_is_light() -> None:
    code = "import sys, nabladp, nabladp.cli.app; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not [name for name in (*HEAVY, "duckdb", "pyarrow", "sqlalchemy", "numpy", "scipy") if f"'{name}'" in loaded]


def test_works_with_assertions_off(desk: Any) -> None:
    said = desk.process("release", "plan.toml", "--json", options=["-O"])
    assert said.code == 0 and said.json["folder"] == str(desk.folder / "plan-release")
    assert Release.load(desk.folder / "plan-release" / "pairs").n == 60


def test_unexpected_errors_hide_their_text(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CANARY-7391")

    monkeypatch.setattr("nabladp.release.Plan.load", fail)
    monkeypatch.delenv("NABLADP_DEBUG", raising=False)
    answer = desk.refused("cost", "plan.toml", error="Unexpected")
    assert "RuntimeError" in answer["message"] and "CANARY" not in json.dumps(answer)
    monkeypatch.setenv("NABLADP_DEBUG", "1")
    for arguments in (["cost", "plan.toml"], ["cost", "plan.toml", "--json"]):
        with pytest.raises(RuntimeError, match="CANARY"):
            desk.run(*arguments)


def test_a_reader_that_leaves_and_a_full_disk_behind_stdout(desk: Any) -> None:
    desk.run("release", "plan.toml")
    command = [sys.executable, "-m", "nabladp", "ledger", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    left = subprocess.run(command, cwd=desk.folder, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert left.returncode == 1 and left.stderr == ""
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            said = subprocess.run(command, cwd=desk.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert said.returncode == 1 and "Traceback" not in said.stderr
