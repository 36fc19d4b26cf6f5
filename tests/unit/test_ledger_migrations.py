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
from first_format import rows, write_file
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import LedgerError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho
from nabladp.privacy.ledger.entry import FIRST, FORMAT, TEST, Draft, Row

NAMES = ("age", "income")
COST = Guarantee.touch(NAMES, ["age"], Rho(0.125))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "first.db"
    write_file(path)
    return path


@pytest.fixture
def old(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(first, tmp_path / "old.db"))


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


def test_an_older_ledger_is_read_as_it_is_and_not_written_to(old: Path) -> None:
    before = old.read_bytes()
    with Ledger.read(old) as ledger:
        assert ledger.format == 1 and ledger.head.seq == 8 and ledger.verify() == []
        assert ledger.spent_on(["age"]).rho == 0.875 and [e.name for e in ledger.unfinished()] == ["third"]
    for call in (lambda: Ledger.open(old), lambda: Ledger.open(old, NAMES, Budget(per_attribute=Rho(2)))):
        with pytest.raises(LedgerError, match="older format 1") as caught:
            call()
        assert "nabladp ledger migrate" in caught.value.fix
    assert old.read_bytes() == before


def test_it_is_brought_up_to_date_and_goes_on(old: Path, tmp_path: Path) -> None:
    assert Ledger.migrate(old) == 1
    with Ledger.open(old, NAMES, Budget(per_attribute=Rho(2))) as ledger:
        assert ledger.format == FORMAT and ledger.verify() == []
        *_, last = ledger.entries()
        assert (last.seq, last.kind) == (9, "format")
        assert (last.payload["from"], last.payload["format"]) == (1, FORMAT)
        assert run(old, "SELECT * FROM entries WHERE seq < 9") == rows()["entries"], "no entry was touched"
        assert ledger.bind("third", "digest").seq == 10 and ledger.reserve(COST, "fourth").seq == 11
        assert ledger.spent_on(["age"]).rho == 1.0 and ledger.verify() == []
    Ledger.open(tmp_path / "new.db", NAMES, Budget(per_attribute=Rho(2)))
    assert layout(old) == layout(tmp_path / "new.db"), "it is like one that was made today"


def test_twice_changes_nothing(old: Path) -> None:
    Ledger.migrate(old)
    before = old.read_bytes()
    assert Ledger.migrate(old) == FORMAT and old.read_bytes() == before


def test_two_at_once(old: Path) -> None:
    found: list[int] = []
    both = [threading.Thread(target=lambda: found.append(Ledger.migrate(old))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    with Ledger.read(old) as ledger:
        assert sorted(found) == [1, FORMAT] and ledger.head.seq == 9 and ledger.verify() == []


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


def test_killed_at_every_step(first: Path, tmp_path: Path) -> None:
    """It has happened, or nothing has."""
    subprocess.run([sys.executable, "-c", KILLED, str(first), str(tmp_path)], check=True)
    *killed, last = sorted(tmp_path.glob("*.db"), key=lambda path: int(path.stem))
    assert len(killed) > 20
    for path in killed:
        with Ledger.read(path) as ledger:
            assert (ledger.format, ledger.head.seq) == (1, 8) and ledger.verify() == []
    assert Ledger.migrate(killed[-1]) == 1 and Ledger.migrate(last) == FORMAT


def test_a_program_of_the_old_version_cannot_write_to_it_any_more(old: Path) -> None:
    """It was running all the while, and moves the head itself, as it used to."""
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
def test_what_the_first_format_let_through_is_refused(old: Path, tmp_path: Path, statement: str) -> None:
    """SQLite's REPLACE deletes without asking the triggers for deletion."""
    copy = Path(shutil.copy(old, tmp_path / "copy.db"))
    run(copy, statement)
    with Ledger.read(copy) as ledger:
        assert ledger.verify() != []
    Ledger.migrate(old)
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        run(old, statement)
    with Ledger.read(old) as ledger:
        assert ledger.verify() == []


def test_a_test_ledger_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with Ledger.open(tmp_path / "model.db", NAMES, Budget(per_attribute=Rho(1)), test=True) as model:
        opening = next(model.entries())
    payload = {name: value for name, value in opening.payload.items() if name != "ticket"} | {"format": 1}
    row = Row.seal(Draft("open", "ledger", payload), 1, opening.time, opening.totals, FIRST)
    write_file(path)
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


def test_the_command(old: Path, tmp_path: Path) -> None:
    def said(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["ledger", *arguments])

    assert "third" in said("show", str(old)).output
    assert "has format 2; it had format 1." in " ".join(said("migrate", str(old)).output.split())
    assert "already" in said("migrate", str(old)).output and "format" in said("show", str(old)).output
    refused = said("migrate", str(tmp_path / "none.db"))
    assert refused.exit_code == 1 and not (tmp_path / "none.db").exists()
