"""``nabladp sql``: a query about a plan's table, its dry run, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.release import Release

PLAN = """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 400

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 2 }

[[release]]
name = "ages"
mechanism = "NoisyMarginals"
sets = [["age"]]
budget = { cdp = 0.1 }
"""
SCHEMA = """
[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south"]

[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 99
"""
QUERY = "SELECT region, COUNT(*) AS people, AVG(age) FROM people WHERE age >= 18 GROUP BY region ORDER BY region"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rows = "".join(f"{'north' if i % 3 else 'south'},{i % 100}\n" for i in range(400))
    (tmp_path / "people.csv").write_text("region,age\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["sql", "plan.toml", *arguments])


def test_a_query_is_answered_booked_and_published(folder: Path) -> None:
    done = run(QUERY, "--budget", "cdp=0.5", "--new-ledger", "--to", "out")
    assert done.exit_code == 0, done.output
    assert "north" in done.output and "group" in done.output and "entry" in done.output
    assert (folder / "out" / "report.html").exists() and (folder / "ledger.db").exists()


def test_a_plan_for_queries_needs_no_releases(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN[: PLAN.index("[[release]]")])
    assert CliRunner().invoke(app, ["ledger", "create", "plan.toml"]).exit_code == 0
    assert run(QUERY, "--budget", "cdp=0.5").exit_code == 0
    for command in ("cost", "release", "audit"):
        said = CliRunner().invoke(app, [command, "plan.toml"])
        assert said.exit_code == 1 and "releases nothing" in said.output and "nabladp sql" in said.output


def test_for_programs(folder: Path) -> None:
    done = run(QUERY, "--budget", "cdp=0.5", "--budget", "age:cdp=0.2", "--new-ledger", "--json")
    answer = json.loads(done.stdout)
    assert [row["region"] for row in answer["answers"][0]] == ["north", "south"]
    assert {line["attribute"]: line["role"] for line in answer["bill"]} == {"age": "value", "region": "group"}
    lines = run(QUERY, "--budget", "cdp=0.1", "--csv").stdout.splitlines()
    assert lines[0].startswith('"region","people","people_low"') and len(lines) == 3


def test_the_dry_run_spends_and_creates_nothing(folder: Path) -> None:
    done = run(QUERY, "--budget", "cdp=0.5", "--dry-run")
    assert done.exit_code == 0 and "Nothing was spent." in done.output and "± " in done.output
    assert not (folder / "ledger.db").exists()
    beyond = run(QUERY, "--budget", "cdp=5", "--dry-run", "--json")
    assert beyond.exit_code == 1 and json.loads(beyond.stdout)["fits"] is False


def test_groups_are_listed(folder: Path) -> None:
    done = run(QUERY, "--budget", "cdp=0.5", "--groups", "region=north", "--new-ledger", "--json")
    assert [row["region"] for row in json.loads(done.stdout)["answers"][0]] == ["north", "OTHER"]


def test_several_queries_have_one_bill(folder: Path) -> None:
    other = "SELECT region, STDDEV(age) AS spread FROM people WHERE age >= 18 GROUP BY region"
    answer = json.loads(run(QUERY, other, "--budget", "cdp=0.5", "--new-ledger", "--json").stdout)
    assert len(answer["answers"]) == 2 and list(answer["answers"][1][0])[:2] == ["region", "spread"]
    assert {line["attribute"] for line in answer["bill"]} == {"age", "region"} and len(answer["bill"]) == 2
    assert any("spread (query 2)" in line["pays_for"] for line in answer["bill"])


def test_sampling_error_widens_intervals(folder: Path) -> None:
    done = run(QUERY, "--budget", "cdp=0.5", "--sampling-error", "--new-ledger")
    assert done.exit_code == 0 and "about the noise and the sampling of rows" in " ".join(done.output.split())


def test_a_plan_gives_a_query_by_its_parts(folder: Path) -> None:
    text = (folder / "plan.toml").read_text()
    start = text.index("[[release]]")
    parts = """[[release]]
name = "ages"
mechanism = "Statistics"
by = "region"
where = "age >= 18"
count = true
mean = ["age"]
budget = { cdp = 0.5 }
"""
    (folder / "parts.toml").write_text(text[:start] + parts)
    assert CliRunner().invoke(app, ["release", "parts.toml", "--new-ledger", "--to", "out"]).exit_code == 0
    (row, _) = Release.load(folder / "out" / "ages").output.answer.rows
    assert list(row)[:2] == ["region", "count"] and "mean_age" in row
    (folder / "parts.toml").write_text(text[:start] + parts.replace('mean = ["age"]', 'mean = ["agee"]'))
    done = CliRunner().invoke(app, ["cost", "parts.toml"])
    assert done.exit_code != 0 and "mean = 'agee': There is no column 'agee'." in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((QUERY.replace("age", "agee"), "--budget", "cdp=1"), "no column 'agee'"),
        ((QUERY, "--budget", "0.5"), "is not a budget"),
        ((QUERY, "--budget", "cdp=much"), "is not a budget"),
        ((QUERY, "--budget", "cdp=1", "--budget", "cdp=2"), "given twice"),
        ((QUERY, "--budget", "age:cdp=1"), "is missing"),
        ((QUERY, "--budget", "cdp=1", "--quantiles", "all"), "quantiles"),
        ((QUERY, "--budget", "cdp=1", "--groups", "region"), "is not a list of groups"),
        ((QUERY, "--budget", "cdp=1", "--groups", "region=nort"), "Did you mean 'north'?"),
        ((QUERY, "--budget", "cdp=1"), "no ledger"),
        (("SELECT * FROM people", "--budget", "cdp=1"), "never released"),
        ((QUERY.replace("age", "agee"), "--budget", "cdp=1", "--new-ledger"), "no column 'agee'"),
        ((QUERY, "--budget", "cdp=5", "--new-ledger"), "would break the limit"),
    ],
)
def test_what_is_wrong_is_refused(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments, "--json")
    assert done.exit_code != 0
    told = json.loads(done.stdout)
    assert said in told["message"] + told["fix"], told
    assert not (folder / "ledger.db").exists()


def test_what_a_small_change_costs(folder: Path) -> None:
    query = "SELECT AVG(age) FROM people"
    done = run(query, "--budget", "cdp=0.5", "--dry-run", "--within", "age=1", "--json")
    small, *shown = json.loads(done.stdout)["small_changes"]
    whole = {line["attribute"]: line["cost"] for line in json.loads(done.stdout)["bill"]}["age"]
    assert (small["attribute"], small["distance"]) == ("age", 1.0)
    assert small["cost"] == pytest.approx(whole / 99**2)  # one step of 99
    assert [line["distance"] for line in shown] == [9.0]
    assert "a change by at most 9" in run(query, "--budget", "cdp=0.5", "--dry-run").output


@pytest.mark.parametrize("within", ["age", "age=x", "agee=1", "region=1", "age=-1", "age=nan"])
def test_a_wrong_distance_spends_nothing(within: str, folder: Path) -> None:
    done = run("SELECT AVG(age) FROM people", "--budget", "cdp=0.5", "--new-ledger", "--within", within)
    if within == "region=1":  # no number, and never read: a change costs nothing, whatever its size
        assert done.exit_code == 0
        return
    assert done.exit_code == 1 and not (folder / "ledger.db").exists(), done.output
