"""What a studio does with the files of its folder, without a browser: edits and undo, work in the background, and what
becomes of it when it is stopped, or killed."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bench._studio_attacks import OUTSIDE, PLAN, SCHEMA, WORD, Target, served
from nabladp.privacy import Ledger
from nabladp.release import Plan
from nabladp.schema import Schema
from nabladp.studio.documents import PlanDocument, SchemaDocument
from nabladp.studio.jobs import PROCESS, Jobs
from nabladp.studio.workspace import OutsideFolder, StaleForm, Workspace

AGE = {"name": "age", "kind": "integer", "low": "0", "high": "120", "null": "refuse", "unknown": "refuse"}
SLOW = PLAN.replace('mechanism = "NoisyMarginals"\nk = 1', 'mechanism = "Synthesis"')


def amounts(target: Target) -> dict[str, str]:
    """What somebody confirms who releases the plan as it stands."""
    text = target.page("/release").text
    found = {name: re.search(rf'name="{name}" value="([^"]+)"', text) for name in ("amounts", "stamp")}
    return {name: match[1] for name, match in found.items() if match} | {"confirm": "yes"}


# ---- edits -----------------------------------------------------------------------------------------------------------


def test_an_edit_changes_what_it_is_about_and_nothing_else(studio: Target, folder: Path) -> None:
    answer = studio.post("/columns/save", **AGE)
    assert (answer.status, answer.headers["location"]) == (303, "/columns")
    assert (folder / "schema.toml").read_text() == SCHEMA.replace("high = 99", "high = 120")
    assert "Saved age; all are declared." in studio.page("/columns").text
    assert studio.post("/undo", page="columns").status == 303
    assert (folder / "schema.toml").read_text() == SCHEMA
    assert studio.post("/redo", page="columns").headers["location"] == "/columns"
    assert Schema.load(folder / "schema.toml")["age"].high == 120


def test_what_a_loader_refuses_is_not_written(studio: Target, folder: Path) -> None:
    answer = studio.post("/columns/save", **{**AGE, "low": "200"})
    assert answer.status == 422 and "age" in answer.text and 'value="200"' in answer.text, "the form is shown again"
    assert (folder / "schema.toml").read_text() == SCHEMA
    preview = studio.post("/columns/preview", **{**AGE, "low": "200"})
    assert preview.status == 200 and "&#39;age&#39;" in preview.text


def test_several_columns_are_edited_together(studio: Target, folder: Path) -> None:
    fields = [*studio.fields().items(), ("name", "age"), ("name", "income"), ("kind", "real"), ("shape", "edges")]
    fields += [("edges", "0, 10, 50, 6000"), ("null", "category"), ("next", "list")]
    from urllib.parse import urlencode

    own = {**studio.own(), "Content-Type": "application/x-www-form-urlencoded"}
    assert studio.ask("POST", "/columns/save", urlencode(fields), own).status == 303
    schema = Schema.load(folder / "schema.toml")
    assert schema["age"].edges == schema["income"].edges == (0, 10, 50, 6000)
    assert "# in years" in (folder / "schema.toml").read_text()


def test_two_studios_of_one_folder_do_not_overwrite_each_other(tmp_path: Path) -> None:
    first, second = Workspace(tmp_path), Workspace(tmp_path)
    stamp = first.stamp()
    first.change("a", {"plan.toml": "a = 1\n"}, stamp)
    with pytest.raises(StaleForm, match="edited since"):
        second.change("b", {"plan.toml": "b = 1\n"}, stamp)
    second.change("b", {"plan.toml": "b = 1\n"}, second.stamp())
    assert [first.undo(None), first.undo(None)] == ["b", "a"] and first.read("plan.toml") is None
    with pytest.raises(StaleForm, match="no edit"):
        first.undo(None)
    assert second.redo(None) == "a" and second.last_edit() == "a" and second.last_edit("undone") == "b"
    (tmp_path / "plan.toml").write_text("by = 'hand'\n")
    with pytest.raises(StaleForm, match="outside of the studio"):
        first.undo(None)


def test_paths_stay_in_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "inside").mkdir()
    (home / "good").symlink_to(home / "inside")
    (home / "bad").symlink_to(tmp_path)
    workspace = Workspace(home)
    assert workspace.path("good/x.csv") == home / "inside" / "x.csv"
    for name in ("..", "bad", "bad/x", "good/../../x", "/etc/passwd", ".nabladp/x", "", "a\0b", "x\n", "inside/../.."):
        with pytest.raises(OutsideFolder):
            workspace.path(name)
    for source in ("SELECT 1", "FROM 'people.csv'", "inside/*.csv", {"spark": "table", "name": "x"}):
        workspace.check_source(source)


def test_documents_keep_every_comment(tmp_path: Path) -> None:
    text = (
        "# head\nrules = []\n\n# about a\n[[attribute]] # here\nname = 'a' # a\nkind = 'boolean' # truth\n# below a\n\n"
        "# about many\n[[attribute]]\nnames = 'q{1..4}'\nkind = 'integer' # alike\nlow = 0\nhigh = 9\n# end\n"
    )
    document = SchemaDocument(text)
    assert document.text() == text
    document.declare(["q2"], {"high": 5})
    document.declare(["a"], {"public": True, "labels": {"true": "Yes", "false": "No"}})
    document.declare(["new"], {"kind": "boolean"})
    document.check()
    schema = Schema.parse(document.text())
    assert {name: schema[name].high for name in ("q1", "q2", "q3", "q4")} == {"q1": 9, "q2": 5, "q3": 9, "q4": 9}
    assert schema["a"].public and schema["new"].kind == "boolean"
    for comment in re.findall("#.*", text):
        assert comment in document.text()
    document.drop(["a", "q1", "q3", "q4"])
    assert list(Schema.parse(document.text()).names) == ["q2", "new"] and "# head" in document.text()
    plan = PlanDocument(PLAN)
    plan.edit("budget", {"attributes": {"age": {"cdp": 0.2}}})
    plan.add("adversary", {"name": "x", "attributes": ["age"]})
    assert plan.text().startswith("# a plan\n") and plan.facts("adversary") == [{"name": "x", "attributes": ["age"]}]


# ---- from a table to a release ---------------------------------------------------------------------------------------


def test_from_a_bare_table_to_a_release_and_no_value_is_ever_said(studio: Target, folder: Path) -> None:
    for name in ("schema.toml", "plan.toml"):
        (folder / name).unlink()
    assert studio.page("/table").status == 200 and studio.page("/columns").status == 409
    # the error of a query may hold a value
    query = "SELECT CAST(region AS INTEGER) AS a, error(region) AS b FROM 'people.csv'"
    assert studio.post("/table/open", **{"from": "query", "query": query}).status == 303
    assert studio.wait("look")["state"] == "failed"
    assert studio.post("/table/open", **{"from": "file", "file": "people.csv"}).status == 303
    assert studio.wait("look")["state"] == "done"
    page = studio.page("/table").text
    assert "301" in page and all(name in page for name in ("age", "region", "income"))
    assert studio.post("/columns/save", **AGE).status == 303
    assert "1 of 3 declared" in studio.page("/columns").text
    assert studio.page("/release").status == 409
    region = {"name": "region", "kind": "categorical", "values": "north = North\nsouth", "unknown": "refuse"}
    income = {"name": "income", "kind": "real", "low": "0", "high": "5000", "bins": "5"}
    assert all(studio.post("/columns/save", **own).status == 303 for own in (region, income))
    assert studio.post("/columns/check").status == 303
    assert [own["column"] for own in studio.wait("check")["answer"]["findings"]] == ["region"]
    page = studio.page("/columns").text
    assert "holds values outside its declared domain" in page and "make other values a category of their own" in page
    studio.post("/release/start", **amounts(studio), folder="first")
    failed = studio.wait("release")
    assert failed["state"] == "failed" and "Nothing was spent" in failed["error"]["note"]
    assert studio.post("/columns/save", **{**region, "unknown": "other"}).status == 303
    studio.post("/release/start", **amounts(studio), folder="first")
    assert studio.wait("release")["state"] == "done"
    assert "Published in" in studio.page("/release").text and "published" in studio.page("/ledger").text
    assert "The release is unchanged" in studio.page("/ledger/verify?folder=first").text
    report = studio.page("/published/first/report.html")
    assert report.status == 200 and report.headers["content-security-policy"].startswith("sandbox")
    Plan.load(folder / "plan.toml").cost()
    kept = [path.read_text() for path in (folder / ".nabladp").rglob("*") if path.is_file()]
    for text in [*studio.answers, *kept]:
        assert WORD not in text and OUTSIDE not in text


# ---- work that does not end well -------------------------------------------------------------------------------------


def begin(target: Target, folder: Path) -> Jobs:
    """Begin a release that takes a while; returns once its budget is reserved."""
    (folder / "plan.toml").write_text(SLOW)
    assert target.post("/release/start", **amounts(target), folder="slow").status == 303
    jobs, end = Jobs(Workspace(folder)), time.monotonic() + 60
    while time.monotonic() < end:
        job: Any = jobs.latest("release")
        assert job.runs, job
        if Ledger.exists(folder / "ledger.db"):
            with Ledger.read(folder / "ledger.db") as book:
                if list(book.unfinished()):
                    return jobs
        time.sleep(0.005)
    raise TimeoutError


def test_a_killed_release_stays_spent_and_can_be_recovered_and_voided(folder: Path) -> None:
    with served(folder) as first:
        jobs = begin(first, folder)
        job: Any = jobs.latest("release")
        os.kill(int((folder / ".nabladp" / "jobs" / job.id / PROCESS).read_text()), signal.SIGKILL)
    with served(folder) as studio:  # the studio was started again as well
        assert studio.wait("release")["state"] == "died"
        assert "stays spent" in studio.page("/release").text
        page = studio.page("/ledger").text
        name = str(re.search(r'name="name" value="(slow[^"]+)"', page)[1])  # type: ignore[index]
        assert "Not ended" in page and "Recover" in page
        assert studio.post("/ledger/recover").status == 303
        assert studio.wait("recover")["state"] == "done"
        assert not list(folder.glob(".slow.pending-*"))
        refused = studio.post("/ledger/void", name=name, reason="it was killed")
        assert refused.status == 422 and "not confirmed" in refused.text
        assert studio.post("/ledger/void", name=name, reason="it was killed", confirm="yes").status == 303
        assert "Not ended" not in studio.page("/ledger").text
        with Ledger.read(folder / "ledger.db") as book:
            assert book.verify() == [] and all(line.spent_units == 0 for line in book.spent())


def test_a_stopped_release_says_what_it_spent_and_outlives_the_studio(folder: Path) -> None:
    with served(folder) as first:
        jobs = begin(first, folder)
        job: Any = jobs.latest("release")
        process = int((folder / ".nabladp" / "jobs" / job.id / PROCESS).read_text())
        os.kill(process, signal.SIGSTOP)  # it waits, so that it cannot end too soon
    assert jobs.find(job.id).runs, "the work goes on without the studio"  # type: ignore[union-attr]
    with served(folder) as studio:
        page = studio.page("/release").text
        assert f"/jobs/{job.id}/stop" in page, "and is found again"
        assert studio.post(f"/jobs/{job.id}/stop", page="release").headers["location"] == "/release"
        os.kill(process, signal.SIGCONT)
        ended = studio.wait("release")
        assert ended["state"] == "stopped" and re.search("stays? reserved", ended["error"]["note"]), ended
        page = studio.page("/release").text
        assert re.search("stays? reserved", page) and "Spent, unless the ledger voids it: at most ρ" in page
        assert "Not ended" in studio.page("/ledger").text
