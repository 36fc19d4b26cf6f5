"""Ledgers of an older format: read as they are, brought up to date in one step, never guessed at."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from earlier_formats import EARLIER, LENGTH, rows, write_file
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import LedgerError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho
from nabladp.privacy.ledger.entry import FIRST, FORMAT, TEST, Draft, Row

NAMES = ("age", "income")
COST = Guarantee.touch(NAMES, ["age"], Rho(0.125))
BUDGETS = {1: Budget(per_attribute=Rho(2)), 2: Budget(per_attribute=Rho(2), sets={"age+income": Rho(3)})}


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def old(earlier: int, tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    write_file(path, earlier)
    return path


def run(path: Path, *statements: str) -> list[Any]:
    database = sqlite3.connect(path)
    try:
        with database:
            return [database.execute(statement).fetchall() for statement in statements][-1]
    finally:
        database.close()


def layout(path: Path) -> list[Any]:
    found = run(path, "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return [(*names, " ".join(sql.split())) for *names, sql in found]


def test_an_older_ledger_is_read_as_it_is_and_not_written_to(old: Path, earlier: int) -> None:
    before = old.read_bytes()
    with Ledger.read(old) as ledger:
        assert ledger.format == earlier and ledger.head.seq == LENGTH[earlier] and ledger.verify() == []
        assert ledger.spent_on(["age"]).rho == 0.875 and [e.name for e in ledger.unfinished()] == ["third"]
    for call in (lambda: Ledger.open(old), lambda: Ledger.open(old, NAMES, BUDGETS[earlier])):
        with pytest.raises(LedgerError, match=f"older format {earlier}") as caught:
            call()
        assert "nabladp ledger migrate" in caught.value.fix
    assert old.read_bytes() == before


def figures(ledger: Ledger) -> tuple[Any, ...]:
    """Everything that a ledger answers with, but for its format."""
    spent = [line.to_json() for line in ledger.spent()]
    waiting = [entry.name for entry in ledger.unfinished()]
    return ledger.id, ledger.test, ledger.budget, ledger.universe, spent, waiting, ledger.guarantee()


def test_it_is_brought_up_to_date_and_goes_on(old: Path, earlier: int, tmp_path: Path) -> None:
    length = LENGTH[earlier]
    with Ledger.read(old) as ledger:
        before = figures(ledger)
    assert Ledger.migrate(old) == earlier
    with Ledger.open(old, NAMES, BUDGETS[earlier]) as ledger:
        assert ledger.format == FORMAT and ledger.verify() == [] and figures(ledger) == before
        *_, last = ledger.entries()
        assert (last.seq, last.kind) == (length + 1, "format")
        assert (last.payload["from"], last.payload["format"]) == (earlier, FORMAT)
        kept = run(old, f"SELECT * FROM entries WHERE seq <= {length}")
        assert kept == rows(earlier)["entries"], "no entry was touched"
        assert ledger.bind("third", "digest").seq == length + 2 and ledger.reserve(COST, "fourth").seq == length + 3
        assert ledger.spent_on(["age"]).rho == 1.0 and ledger.verify() == []
    Ledger.create(tmp_path / "new.db", NAMES, Budget(per_attribute=Rho(2)))
    assert layout(old) == layout(tmp_path / "new.db"), "it is like one that was made today"


def test_twice_changes_nothing(old: Path) -> None:
    Ledger.migrate(old)
    before = old.read_bytes()
    assert Ledger.migrate(old) == FORMAT and old.read_bytes() == before


def test_two_at_once(old: Path, earlier: int) -> None:
    found: list[int] = []
    both = [threading.Thread(target=lambda: found.append(Ledger.migrate(old))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    with Ledger.read(old) as ledger:
        assert sorted(found) == [earlier, FORMAT] and ledger.head.seq == LENGTH[earlier] + 1 and ledger.verify() == []


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from nabladp.privacy import Ledger
import nabladp.privacy.ledger.store

def die(*_):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)

for point in range(100):
    path = Path(shutil.copy(sys.argv[1], Path(sys.argv[2]) / f"{point}.db"))
    left = iter(range(point))
    child = os.fork()
    if not child:
        event.listen(Engine, "before_cursor_execute", die)
        event.listen(Engine, "commit", die)
        Ledger.migrate(path)
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        break
"""


def test_killed_at_every_step(old: Path, earlier: int, tmp_path: Path) -> None:
    """It has happened, or nothing has."""
    (tmp_path / "copies").mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(old), str(tmp_path / "copies")], check=True)
    *killed, last = sorted((tmp_path / "copies").glob("*.db"), key=lambda path: int(path.stem))
    assert len(killed) > 20
    for path in killed:
        with Ledger.read(path) as ledger:
            assert (ledger.format, ledger.head.seq) == (earlier, LENGTH[earlier]) and ledger.verify() == []
    assert Ledger.migrate(killed[-1]) == earlier and Ledger.migrate(last) == FORMAT


def test_a_program_of_the_first_version_cannot_write_to_it_any_more(tmp_path: Path) -> None:
    """It was running all the while, and moves the head itself, as it used to. (Later versions look at the format.)"""
    old = tmp_path / "old.db"
    write_file(old, 1)
    Ledger.migrate(old)
    with pytest.raises(sqlite3.IntegrityError, match="the head only moves"):
        run(
            old,
            "INSERT INTO entries SELECT seq + 1, 'bind', 'third', 8, time, payload, totals, hash, 'x' "
            "FROM entries WHERE seq = 9",
            "UPDATE head SET seq = 10, hash = 'x'",
        )
    with Ledger.read(old) as ledger:
        assert ledger.head.seq == 9 and ledger.verify() == []


NEXT = "e.time, e.payload, e.totals, h.hash, 'x' FROM entries e, head h WHERE e.seq = h.seq"
REPLACED = (
    "INSERT OR REPLACE INTO head VALUES (1, 1, 'x')",
    "INSERT OR REPLACE INTO meta SELECT 1, format, 'x', created FROM meta",
    f"INSERT OR REPLACE INTO entries SELECT e.seq + 1, 'reserve', 'first', NULL, {NEXT}",
    f"INSERT OR REPLACE INTO entries SELECT e.seq + 1, 'void', 'first', 2, {NEXT}",
)


@pytest.mark.parametrize("statement", REPLACED)
def test_what_the_first_format_let_through_is_refused(tmp_path: Path, statement: str) -> None:
    """SQLite's REPLACE deletes without asking the triggers for deletion."""
    old = tmp_path / "old.db"
    write_file(old, 1)
    refused(old, tmp_path / "copy.db", statement, "only grows")


# In format 2 each of these was appended without a complaint, hash and all
UNLAWFUL = (
    f"INSERT INTO entries SELECT e.seq + 1, 'open', 'ledger', NULL, {NEXT}",
    f"INSERT INTO entries SELECT e.seq + 1, 'void', 'theirs', 6, {NEXT}",
    f"INSERT INTO entries SELECT e.seq + 1, 'void', 'third', NULL, {NEXT}",
    f"INSERT INTO entries SELECT e.seq + 1, 'gift', 'third', 9, {NEXT}",
    f"INSERT INTO entries SELECT e.seq + 1, 'budget', 'budget', 9, {NEXT}",
)


@pytest.mark.parametrize("statement", UNLAWFUL)
def test_what_the_second_format_let_through_is_refused(tmp_path: Path, statement: str) -> None:
    old = tmp_path / "old.db"
    write_file(old, 2)
    refused(old, tmp_path / "copy.db", statement, "not allowed here")


def refused(old: Path, copy: Path, statement: str, why: str) -> None:
    """Where it went through, the ledger is of no use any more, and cannot be brought up to date."""
    shutil.copy(old, copy)
    run(copy, statement)
    with Ledger.read(copy) as ledger:
        assert ledger.verify() != []
        with pytest.raises(LedgerError, match=r"broken|replaced"):
            ledger.spent()
    with pytest.raises(LedgerError, match=r"broken|replaced"):
        Ledger.migrate(copy)
    Ledger.migrate(old)
    with pytest.raises(sqlite3.IntegrityError, match=why):
        run(old, statement)
    with Ledger.read(old) as ledger:
        assert ledger.verify() == []


def test_a_test_ledger_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with Ledger.create(tmp_path / "model.db", NAMES, Budget(per_attribute=Rho(1)), test=True) as model:
        opening = next(model.entries())
    payload = {name: value for name, value in opening.payload.items() if name != "ticket"} | {"format": 1}
    row = Row.seal(Draft("open", "ledger", payload), 1, opening.time, opening.totals, FIRST)
    write_file(path, 1)
    triggers = run(path, "SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    names = run(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
    run(
        path,
        *(f"DROP TRIGGER {name}" for (name,) in names),
        "DELETE FROM entries",
        f"INSERT INTO entries VALUES (1, 'open', 'ledger', NULL, '{row.time}', '{row.payload}', '{row.totals}', "
        f"'{row.previous}', '{row.hash}')",
        f"UPDATE head SET seq = 1, hash = '{row.hash}'",
        f"UPDATE meta SET ledger = '{opening.payload['ledger']}'",
        *(sql for (sql,) in triggers),
    )
    assert Ledger.migrate(path) == 1
    with Ledger.open(path, test=True) as ledger:
        assert [entry.payload["stamp"] for entry in ledger.entries()] == [TEST, TEST] and ledger.verify() == []


def test_a_newer_ledger_is_refused(old: Path) -> None:
    Ledger.migrate(old)
    run(old, "DROP TRIGGER meta_no_UPDATE", f"UPDATE meta SET format = {FORMAT + 1}")
    for call in (Ledger.open, Ledger.read, Ledger.migrate):
        with pytest.raises(LedgerError, match=f"newer format {FORMAT + 1}") as caught:
            call(old)
        assert caught.value.fix == "Update nabladp."


def test_a_ledger_that_becomes_newer_while_open_is_written_to_no_more(old: Path) -> None:
    Ledger.migrate(old)
    with Ledger.open(old) as ledger:
        run(old, "DROP TRIGGER meta_no_UPDATE", f"UPDATE meta SET format = {FORMAT + 1}")
        with pytest.raises(LedgerError, match="newer format"):
            ledger.reserve(COST, "fourth")


def test_the_command(old: Path, earlier: int, tmp_path: Path) -> None:
    def said(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["ledger", *arguments])

    assert "third" in said("show", str(old)).output
    assert f"has format {FORMAT}; it had format {earlier}." in " ".join(said("migrate", str(old)).output.split())
    assert "already" in said("migrate", str(old)).output and "format" in said("show", str(old)).output
    refused = said("migrate", str(tmp_path / "none.db"))
    assert refused.exit_code == 1 and not (tmp_path / "none.db").exists()
