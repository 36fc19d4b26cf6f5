"""Whose rows a table holds, and what a report says of itself, are edited in the plan; its comments stay."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from studio_folder import PLAN, SCHEMA

from bench._studio_attacks import served
from nabladp.errors import NablaDPError
from nabladp.release import Plan
from nabladp.schema import Schema
from nabladp.studio import declaring
from nabladp.studio.fields import Fields
from nabladp.studio.pages import ledger, limits, release, table
from nabladp.studio.studio import Studio
from nabladp.studio.tables import look
from nabladp.studio.visit import Page, Visit
from nabladp.studio.workspace import Workspace

VISITS = SCHEMA + '\n[[attribute]]\nname = "patient"\nkind = "integer"\nlow = 0\nhigh = 99\n'


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    (tmp_path / "schema.toml").write_text(VISITS)
    (tmp_path / "plan.toml").write_text(PLAN)
    rows = [f"{('north', 'south')[i % 2]},{i % 90},{i % 3 == 0},{i % 40},{i}" for i in range(120)]
    (tmp_path / "people.csv").write_text("region,age,sick,patient,visit\n" + "\n".join(rows) + "\n")
    return Studio(Workspace(tmp_path), "token")


def change(studio: Studio, page: Page, name: str, **given: str) -> None:
    page.changes[name](Visit(studio, page, Fields(), Fields({**given, "stamp": studio.workspace.stamp()}.items())))


def plan_of(studio: Studio) -> Any:
    return tomllib.loads(studio.plan_text() or "")


def test_a_column_names_people_and_is_no_attribute_from_then_on(studio: Studio) -> None:
    change(studio, table.PAGE, "people", people="named", id="patient", rows="2", row_id="visit")
    plan = Plan.load(studio.workspace.path("plan.toml"))
    assert (plan.person.id, plan.person.rows, plan.person.row_id, plan.rows) == ("patient", 2, "visit", None)
    assert "patient" not in Schema.load(studio.workspace.path("schema.toml"))
    assert "# Our plan; keep this." in (studio.plan_text() or "")
    shown = table.PAGE.show(Visit(studio, table.PAGE))
    assert isinstance(shown, str) and '<option value="patient" selected>' in shown and 'value="2"' in shown
    kept = (studio.plan_text() or "").replace('id = "patient"', 'id = "patient"  # of the hospital')
    studio.workspace.path("plan.toml").write_text(kept.replace("[table]", "[table]\nrows = 80  # counted"))
    change(studio, table.PAGE, "people", people="named", id="patient", rows="2", row_id="visit")
    assert plan_of(studio)["table"]["rows"] == 80, "nothing changed"
    change(studio, table.PAGE, "people", people="named", id="patient", rows="4")
    assert plan_of(studio)["person"] == {"id": "patient", "rows": 4} and "rows" not in plan_of(studio)["table"]
    assert "# of the hospital" in (studio.plan_text() or "")
    change(studio, table.PAGE, "people", people="promised", promised="3")
    assert "person" not in plan_of(studio) and Plan.load(studio.workspace.path("plan.toml")).rows_per_person == 3
    change(studio, table.PAGE, "people", people="one")
    assert "rows_per_person" not in plan_of(studio)["table"]
    for _ in range(3):
        studio.workspace.undo(None)
    assert "# of the hospital" in (studio.plan_text() or "") and plan_of(studio)["table"]["rows"] == 80


def test_people_are_undone(studio: Studio) -> None:
    change(studio, table.PAGE, "people", people="named", id="patient", rows="2", row_id="visit")
    assert [studio.workspace.undo(None) for _ in range(2)] == [
        "whose rows these are",
        "not to use patient as columns",
    ]
    assert studio.plan_text() == PLAN and studio.workspace.read("schema.toml") == VISITS


@pytest.mark.parametrize(
    "given",
    [
        {"people": "named", "rows": "2"},
        {"people": "named", "id": "patient", "rows": "many"},
        {"people": "named", "id": "age", "rows": "2"},  # the plan asks for it
        {"people": "promised", "promised": ""},
    ],
)
def test_people_that_a_plan_refuses_change_nothing(studio: Studio, given: dict[str, str]) -> None:
    with pytest.raises(NablaDPError):
        change(studio, table.PAGE, "people", **given)
    assert studio.plan_text() == PLAN and studio.workspace.read("schema.toml") == VISITS


def test_the_check_counts_the_rows_in_use(studio: Studio) -> None:
    change(studio, table.PAGE, "people", people="named", id="patient", rows="2", row_id="visit")
    with served(studio.workspace.folder) as target:
        assert target.post("/columns/check").status == 303
        assert target.wait("check")["state"] == "done"
        assert "The table matches its schema." in target.page("/columns").text
    assert plan_of(studio)["table"]["rows"] == 80  # 2 of each of 40 people


def test_what_a_report_says_of_itself(studio: Studio) -> None:
    given = {"title": "Our people", "issuer": " The  office\n", "purpose": "A test", "language": "de", "delta": "1e-7"}
    change(studio, release.PAGE, "say", **given)
    plan = Plan.load(studio.workspace.path("plan.toml"))
    assert (plan.imprint.title, plan.imprint.issuer, plan.imprint.language) == ("Our people", "The office", "de")
    assert plan.delta == 1e-7
    shown = release.PAGE.show(Visit(studio, release.PAGE))
    assert isinstance(shown, str) and "Our people, The office" in shown and 'value="A test"' in shown
    change(studio, release.PAGE, "say", title="Ours")
    assert plan_of(studio)["report"] == {"title": "Ours"}
    for wrong in ({"delta": "few"}, {"delta": "2"}, {"logo": "../logo.png"}, {"title": "x" * 3000}, {"language": "xx"}):
        with pytest.raises(NablaDPError):
            change(studio, release.PAGE, "say", **wrong)
    assert plan_of(studio)["report"] == {"title": "Ours"}
    assert studio.workspace.undo(None) == "who publishes, and why"


def test_edges_are_labelled_where_there_is_room() -> None:
    facts = {"name": "income", "kind": "real", "edges": [-9000, 0, 1, 2, 10000, 1400000]}
    drawn = declaring.picture(declaring.attributes(facts)[0])
    assert drawn is not None and not drawn["to_scale"]
    at = [tick["x"] for tick in drawn["ticks"]]
    assert at[0] == 0 and at[-1] == 100 and all(b - a >= 12 for a, b in pairwise(at))
    assert drawn["ticks"][-1]["label"] == "1,400,000" and sum(bin["width"] for bin in drawn["bins"]) == pytest.approx(
        100
    )
    even = declaring.picture(declaring.attributes({**facts, "edges": [0, 10, 20, 60]})[0])
    assert even is not None and even["to_scale"] and [round(bin["width"]) for bin in even["bins"]] == [17, 17, 67]


def test_a_ledger_of_other_people_is_no_matter_of_limits(studio: Studio) -> None:
    with studio.plan().create_ledger() as book:
        book.reserve(studio.plan().cost().guarantee, "first")
    change(studio, table.PAGE, "people", people="promised", promised="3")
    shown = limits.PAGE.show(Visit(studio, limits.PAGE))
    assert isinstance(shown, str) and "The plan cannot be released" in shown and "Put these limits" not in shown
    shown = ledger.PAGE.show(Visit(studio, ledger.PAGE))
    assert isinstance(shown, str) and "does not agree with this ledger" in shown


def test_rows_that_a_query_selects_are_not_counted_unless_they_are_public(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(studio.workspace.folder)
    order = {"source": "SELECT region, age FROM 'people.csv' WHERE age > 30", "draft": True, "header": None}
    before, said = studio.plan_text(), []
    with pytest.raises(NablaDPError, match="decides which rows"):
        look(studio.workspace, order, lambda what, done, total: said.append(what))
    assert studio.plan_text() == before and not said
    sentence = "people above 30 are on a public list"
    found = look(studio.workspace, order | {"population": sentence}, lambda what, done, total: None)
    assert plan_of(studio)["table"] == {
        "source": order["source"],
        "schema": "schema.toml",
        "rows": found["rows"],
        "population": sentence,
    }
