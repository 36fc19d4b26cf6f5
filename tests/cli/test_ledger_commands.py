"""What a curator does with a ledger, and what a ledger refuses."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from nabladp.release.publish import Pending


@pytest.fixture
def stopped(desk: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A desk whose first release broke after its reservation; the name of that reservation."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("nabladp.tables.Table.marginals", fail)
        said = desk.run("release", "plan.toml", "--json")
    [name] = desk.unfinished()
    assert said.code == 1 and said.json["error"] == "Unexpected"
    assert any(f"nabladp ledger void {desk.ledger} {name} " in command for command in said.json["commands"])
    assert desk.spent() and desk.hidden() == []
    return str(name)


def test_an_unfinished_release_is_shown_with_what_can_be_done(desk: Any, stopped: str) -> None:
    shown = desk.run("ledger")
    assert shown.code == 0 and "UNFINISHED" in shown.words and f"Unfinished: {stopped}" in shown.words
    assert f"nabladp ledger void ledger.db {stopped} --reason" in shown.out, "a command to copy is never broken"
    assert "nabladp ledger recover ledger.db .plan-release.pending-" in shown.out
    answer = desk.run("ledger", "--json").json
    assert [entry["name"] for entry in answer["unfinished"]] == [stopped]


def test_void(desk: Any, stopped: str) -> None:
    assert desk.run("ledger", "void", "ledger.db", stopped).code == 2, "a reason is needed"
    desk.refused("ledger", "void", "ledger.db", stopped, "--reason", " ", error="LedgerError")
    answer = desk.refused("ledger", "void", "ledger.db", "nobody", "--reason", "x", error="LedgerError")
    assert "'nobody'" in answer["message"]
    assert desk.spent()
    voided = desk.run("ledger", "void", "ledger.db", stopped, "--reason", "the machine ran out of memory", "--json")
    assert voided.code == 0 and voided.json["kind"] == "void"
    assert desk.spent() == {} and desk.unfinished() == []
    assert "the machine" in desk.run("ledger").words
    desk.refused("ledger", "void", "ledger.db", stopped, "--reason", "again", error="LedgerError")
    assert "The chain holds" in desk.run("ledger", "verify").words


def test_a_release_that_got_out_cannot_be_voided(desk: Any) -> None:
    name = desk.run("release", "plan.toml", "--json").json["releases"][0]["name"]
    spent = desk.spent()
    answer = desk.refused("ledger", "void", "ledger.db", name, "--reason", "I want it back", error="LedgerError")
    assert "already bound" in answer["message"] and desk.spent() == spent


def test_recover_refuses_what_is_no_finished_release(desk: Any, stopped: str) -> None:
    recover = ("ledger", "recover", "ledger.db")
    assert "no folder 'gone'" in desk.refused(*recover, "gone", error="ReleaseError")["message"]
    assert "no finished release" in desk.refused(*recover, ".", error="ReleaseError")["message"]
    (desk.folder / ".plan-release.pending-00000000").mkdir()
    desk.write(".plan-release.pending-00000000/digests.txt", "")
    desk.refused(*recover, ".plan-release.pending-00000000", error="ReleaseError")
    assert "plan-release" not in desk.names() and desk.unfinished() == [stopped]


KILLED = """
import os, signal
from nabladp.release.publish import Pending
Pending.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_recover_cleans_up_after_a_kill(desk: Any) -> None:
    assert desk.process("release", "plan.toml", before=KILLED).code == -9
    [hidden], [name] = desk.hidden(), desk.unfinished()
    spent = desk.spent()
    (desk.folder / ".other.pending-0a0b").mkdir()
    (desk.folder / ".mine.pending-0a0b").write_text("a file of the user's own")
    found = desk.run("ledger", "recover", "ledger.db", "--json")
    assert found.json == {"published": [], "removed": [".other.pending-0a0b", hidden], "unfinished": [name]}
    assert desk.hidden() == [".mine.pending-0a0b"] and desk.spent() == spent
    assert "There is no unfinished release" in desk.run("ledger", "recover", "ledger.db").words


def test_recover_leaves_a_running_release_alone(desk: Any) -> None:
    assert desk.run("ledger", "create", "plan.toml").code == 0
    pending = Pending(desk.folder / "plan-release", "00000000", [""])
    answer = desk.refused("ledger", "recover", "ledger.db", str(pending.folder), error="ReleaseError")
    assert "may be in use" in answer["message"] and pending.folder.is_dir()
    pending.discard()
    assert not pending.folder.exists()
    pending.folder.mkdir()  # as if that process had been killed
    said = desk.run("ledger", "recover", "ledger.db", str(pending.folder))
    assert said.code == 0 and "not complete" in said.words and not pending.folder.exists()


def test_change_budget(desk: Any) -> None:
    assert desk.run("release", "plan.toml").code == 0
    desk.plan(("person = { rho = 1.0 }", "person = { rho = 2.0 }"))
    for command in ("cost", "release"):
        answer = desk.refused(
            command, "plan.toml", *(["--to", "x"] if command == "release" else []), error="LedgerError"
        )
        assert answer["limit"] == "person" and "another budget" in answer["message"]
    assert desk.run("ledger", "change-budget", "plan.toml").code == 2, "a reason is needed"
    changed = desk.run("ledger", "change-budget", "plan.toml", "--reason", "the board agreed", "--json")
    assert changed.code == 0 and changed.json["kind"] == "budget"
    limits = {line["limit"]: line for line in desk.run("ledger", "--json").json["limits"]}
    assert limits["person"]["allowed"] == 2.0 and limits["person"]["spent"] == 0.04
    assert desk.run("release", "plan.toml", "--to", "more").code == 0


def test_a_ledger_from_another_schema(desk: Any) -> None:
    assert desk.run("release", "plan.toml").code == 0
    spent = desk.spent()
    schema = (desk.folder / "schema.toml").read_text()
    desk.write("schema.toml", schema + '[[attribute]]\nname = "smoker"\nkind = "boolean"\n')
    desk.csv("people.csv", [["region", "age", "income", "health", "smoker"], ["north", "1", "2", "true", "no"]])
    for arguments in (["cost", "plan.toml"], ["release", "plan.toml", "--to", "x"]):
        answer = desk.refused(*arguments, error="LedgerError")
        assert "another schema" in answer["message"] and "'smoker'" in answer["message"]
    assert desk.spent() == spent and "x" not in desk.names() and desk.hidden() == []


def test_record_external(desk: Any) -> None:
    assert desk.run("release", "plan.toml").code == 0
    before = desk.spent()
    book = ("ledger", "record-external", "ledger.db", "survey", "--who", "the hospital", "--attribute")
    assert "'income'" in desk.refused(*book, "incom", "--rho", "0.1", error="UnknownAttribute")["fix"]
    desk.refused(*book, "income", error="BudgetError")
    desk.refused(*book, "income", "--rho", "0.1", "--pure", "1", error="BudgetError")
    for amount in ("-1", "0", "nan", "inf"):
        desk.refused(*book, "income", "--rho", amount, error="BudgetError")
    assert desk.spent() == before
    booked = desk.run(*book, "income", "--attribute", "age", "--rho", "0.5")
    assert booked.code == 0 and "Now exceeded: age, income, age+income" in booked.words
    assert desk.spent()["income"] == 0.52 and desk.spent()["region"] == before["region"]
    desk.refused(*book, "income", "--rho", "0.1", error="LedgerError")  # a name is given once
    assert "'income'" in desk.refused("release", "plan.toml", "--to", "x", error="BudgetExceeded")["message"]
    assert "the hospital" in desk.run("ledger").words


def test_verify_reports_what_was_changed(desk: Any) -> None:
    assert desk.run("release", "plan.toml").code == 0
    with sqlite3.connect(desk.ledger) as database:
        database.execute("DROP TRIGGER entries_no_UPDATE")
        database.execute("UPDATE entries SET payload = replace(payload, 'pending', 'changed') WHERE seq = 2")
    database.close()
    said = desk.run("ledger", "verify")
    assert said.code == 1 and said.err == "" and "broken: Entry 2 was changed" in said.words
    answer = desk.run("ledger", "verify", "--json")
    assert answer.code == 1 and not answer.json["ok"] and answer.json["problems"][0]["seq"] == 2


def test_a_missing_ledger_is_never_created_on_the_way(desk: Any) -> None:
    """A mistyped path or an unmounted disk must not bring a fresh budget."""
    before = desk.names()
    commands: list[list[str]] = [
        ["release", "plan.toml"],
        ["release", "plan.toml", "--test-seed", "1"],
        ["ledger"],
        ["ledger", "verify"],
        ["ledger", "migrate", "ledger.db"],
        ["ledger", "void", "ledger.db", "x", "--reason", "y"],
        ["ledger", "recover", "ledger.db", "x"],
        ["ledger", "change-budget", "plan.toml", "--reason", "y"],
        ["ledger", "record-external", "ledger.db", "x", "--who", "y", "--attribute", "age", "--rho", "0.1"],
    ]
    for arguments in commands:
        for style in ([], ["--json"]):
            said = desk.typed(*arguments, *style)
            assert said.code == 1 and "There is no ledger" in said.words, arguments
            assert "nabladp ledger create plan.toml" in said.words
    assert desk.run("cost", "plan.toml").code == 0 and desk.names() == before


@pytest.mark.parametrize("command", [["ledger", "create", "plan.toml"], ["release", "plan.toml", "--new-ledger"]])
def test_creating_is_an_act_of_its_own(desk: Any, command: list[str]) -> None:
    assert desk.typed(*command).code == 0
    spent = desk.spent()
    assert bool(spent) == (command[0] == "release")
    for again in (["ledger", "create", "plan.toml"], ["release", "plan.toml", "--to", "x", "--new-ledger"]):
        answer = desk.refused(*again, error="LedgerError")
        assert "There is a ledger" in answer["message"] and "--new-ledger" in answer["fix"]
    assert desk.spent() == spent and "x" not in desk.names()
    assert desk.typed("release", "plan.toml", "--to", "next").code == 0


def test_a_test_ledger_is_created_for_seeded_releases(desk: Any) -> None:
    said = desk.run("ledger", "create", "plan.toml", "--test", "--json")
    assert said.code == 0 and said.json["test"] and said.json["head"]["entry"] == 1
    assert "test ledger" in desk.refused("release", "plan.toml", error="LedgerError")["message"]
    assert desk.typed("release", "plan.toml", "--test-seed", "1").code == 0
    assert "TEST" in desk.run("ledger").words


def test_a_plan_beyond_its_budget_creates_no_ledger(desk: Any) -> None:
    """Which would put that budget on record for good."""
    desk.plan(("person = { rho = 1.0 }", "person = { rho = 0.01 }"))
    for command in (["ledger", "create", "plan.toml"], ["release", "plan.toml", "--new-ledger"]):
        assert desk.refused(*command, error="BudgetExceeded")["limit"] == "person"
    assert not desk.ledger.exists()


def test_ledgers_that_are_none(desk: Any) -> None:
    assert "'none.db'" in desk.refused("ledger", "none.db", error="NoLedger")["message"]
    for command in (["show"], ["verify"], ["void", "x", "--reason", "y"], ["recover", "x"]):
        arguments = ["ledger", command[0], "people.csv", *command[1:]]
        assert "not a ledger" in desk.refused(*arguments, error="LedgerError")["message"]
    desk.refused("ledger", ".", error="LedgerError")
    desk.refused("ledger", str(desk.folder), error="SourceError")
    with sqlite3.connect(desk.folder / "other.db") as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    database.close()
    assert "something else" in desk.refused("ledger", "other.db", error="LedgerError")["message"]
    desk.plan(('"ledger.db"', '"other.db"'))
    desk.refused("release", "plan.toml", error="LedgerError")
    assert desk.names() == {"people.csv", "schema.toml", "plan.toml", "other.db"}


def test_a_password_in_an_address_is_never_shown(desk: Any) -> None:
    address = "postgresql://curator:CANARY-7391@localhost:1/nowhere"
    desk.plan(('"ledger.db"', f'"{address}"'))
    desk.plan(('"people.csv"', f'"{address}"'), name="table.toml")
    for arguments in (
        ["ledger", address],
        ["ledger", "verify", address],
        ["cost", "plan.toml"],
        ["release", "plan.toml"],
        ["release", "table.toml"],
        ["init", address],
        ["check", address],
    ):
        for style in ([], ["--json"]):
            said = desk.run(*arguments, *style)
            assert said.code == 1 and "CANARY" not in said.words
    assert not desk.spent()
