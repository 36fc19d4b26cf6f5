"""Files that are no ledger, folders that cannot be written, databases that stay locked: clear refusals, no change."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger, NoLedger
from nabladp.privacy.ledger.entry import FORMAT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho

PEOPLE = Universe(("age", "race"))
BUDGET = Budget(person=Rho(1))
COST = Guarantee.touch(PEOPLE, ["age"], Rho(0.01))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with Ledger.create(path, PEOPLE, BUDGET) as ledger:
        ledger.reserve(COST, "first")
    return path


def both(path: Path | str) -> list[Callable[[], Ledger]]:
    return [lambda: Ledger.open(path, PEOPLE, BUDGET), lambda: Ledger.read(path)]


@pytest.mark.parametrize("content", [b"age,race\n1,2\n", b"xy", b"SQLite format 3\0" + b"junk" * 300, b"\0" * 5000])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(content)
    for call in both(file):
        with pytest.raises(LedgerError) as caught:
            call()
        assert caught.value.fix and "people.csv" in str(caught.value)
    assert file.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["people.csv"]


def test_a_database_of_something_else(tmp_path: Path) -> None:
    for table in ("customers", "entries"):
        file = tmp_path / f"{table}.db"
        with sqlite3.connect(file) as raw:
            raw.execute(f"CREATE TABLE {table} (id INTEGER)")
        raw.close()
        before = file.read_bytes()
        for call in both(file):
            with pytest.raises(LedgerError, match="something else"):
                call()
        assert file.read_bytes() == before


@pytest.mark.parametrize(("written", "text"), [(0, "older format 0"), (FORMAT + 1, f"newer format {FORMAT + 1}")])
def test_another_format_is_refused(path: Path, written: int, text: str) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER meta_no_UPDATE")
        raw.execute("UPDATE meta SET format = ?", [written])
    raw.close()
    before = path.read_bytes()
    for call in both(path):
        with pytest.raises(LedgerError, match=text):
            call()
    assert path.read_bytes() == before


def test_reading_never_creates(tmp_path: Path) -> None:
    """Nor does opening: a mistyped path or an unmounted disk must not bring a fresh budget."""
    for path in (tmp_path / "none.db", tmp_path / "no folder" / "ledger.db", tmp_path / "empty.db"):
        if path.stem == "empty":  # what a creation leaves behind that was cut short
            path.touch()
        before = sorted(tmp_path.rglob("*"))
        for call in (*both(path), lambda path=path: Ledger.open(path), lambda path=path: Ledger.migrate(path)):
            with pytest.raises(NoLedger, match=r"There is no ledger|does not exist") as caught:
                call()
            assert "Check the path, and that its disk is mounted" in caught.value.fix
        assert not Ledger.exists(path) and sorted(tmp_path.rglob("*")) == before
    assert path.stat().st_size == 0
    Ledger.create(path, PEOPLE, BUDGET).reserve(COST, "first")


def test_creating_never_opens(path: Path) -> None:
    before = path.read_bytes()
    for budget in (BUDGET, Budget(person=Rho(2))):
        with pytest.raises(LedgerError, match=r"There is a ledger .* already") as caught:
            Ledger.create(path, PEOPLE, budget)
        assert "--new-ledger" in caught.value.fix
    assert path.read_bytes() == before


def test_a_budget_that_does_not_fit_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(NablaDPError):
        Ledger.create(tmp_path / "l.db", PEOPLE, Budget(attributes={"height": Rho(1)}))
    assert list(tmp_path.iterdir()) == []


def test_folders(tmp_path: Path) -> None:
    for make in (Ledger.create, Ledger.open):
        with pytest.raises(SourceError, match="is a folder"):
            make(tmp_path, PEOPLE, BUDGET)
        with pytest.raises(SourceError, match="does not exist"):
            make(tmp_path / "no" / "l.db", PEOPLE, BUDGET)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("where", ["", ":memory:"])
def test_a_ledger_must_outlive_the_process(where: str) -> None:
    for make in (Ledger.create, Ledger.open):
        with pytest.raises(LedgerError, match="outlive"):
            make(where, PEOPLE, BUDGET)


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "what?mode=memory", "#1.db", "ünïcode.db"])
def test_odd_file_names(tmp_path: Path, name: str) -> None:
    Ledger.create(str(tmp_path / name), PEOPLE, BUDGET).reserve(COST, "x")
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert Ledger.read(tmp_path / name).entry("x").seq == 2


def test_the_path_is_kept_when_the_process_moves(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open("ledger.db", PEOPLE, BUDGET)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert ledger.reserve(COST, "second").seq == 3


def test_reading_does_not_write(path: Path) -> None:
    before = path.read_bytes()
    with Ledger.read(path) as ledger:
        for call in (
            lambda: ledger.reserve(COST, "x"),
            lambda: ledger.void("first", "why"),
            lambda: ledger.bind("first", "d"),
            lambda: ledger.change_budget(Budget(person=Rho(2)), "why"),
        ):
            with pytest.raises(LedgerError, match="opened for reading"):
                call()
    assert path.read_bytes() == before


def test_a_ledger_removed_while_in_use_does_not_come_back_empty(path: Path) -> None:
    ledger = Ledger.open(path, PEOPLE, BUDGET)
    path.unlink()
    with pytest.raises(SourceError, match="cannot be opened"):
        ledger.reserve(COST, "x")
    assert not path.exists()
    Ledger.create(path, PEOPLE, BUDGET)
    with pytest.raises(LedgerError, match="replaced by another"):
        ledger.reserve(COST, "x")


def test_a_lock_held_too_long(path: Path) -> None:
    ledger = Ledger.open(path, PEOPLE, BUDGET, patience=0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for call in (lambda: ledger.reserve(COST, "x"), lambda: ledger.spent()):
        with pytest.raises(LedgerError, match="stayed locked"):
            call()
    holder.execute("ROLLBACK")
    assert ledger.reserve(COST, "x").seq == 3
    holder.close()


@contextmanager
def on_connect(statement: str) -> Iterator[None]:
    def listen(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(statement)

    event.listen(Engine, "connect", listen)
    try:
        yield
    finally:
        event.remove(Engine, "connect", listen)


def test_a_full_disk(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(path, PEOPLE, BUDGET)
    before = path.read_bytes()
    with on_connect("PRAGMA max_page_count = 1"), pytest.raises(SourceError, match=r"full.*nothing was booked"):
        ledger.reserve(COST, "x" * 200, {"note": "y" * 20000})
    assert path.read_bytes() == before and ledger.verify() == []
    with on_connect("PRAGMA max_page_count = 1"), pytest.raises(SourceError, match="full"):
        Ledger.create(tmp_path / "new.db", PEOPLE, BUDGET)
    Ledger.create(tmp_path / "new.db", PEOPLE, BUDGET).reserve(COST, "x")


LIMITED = """
import resource, sys
from nabladp.errors import SourceError
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.values import Rho
ledger = Ledger.open(sys.argv[1])
cost = Guarantee.touch(ledger.universe, ["age"], Rho(0.01))
size = __import__("os").path.getsize(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
try:
    ledger.reserve(cost, "too large", {"note": "y" * 50000})
except SourceError as error:
    print("refused", error)
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    """The operating system itself refuses the write half-way through the transaction."""
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True)
    assert done.stdout.startswith("refused"), done.stderr
    with Ledger.open(path, PEOPLE, BUDGET) as ledger:
        assert [e.name for e in ledger.entries()] == ["ledger", "first"]
        assert ledger.verify() == []
        ledger.reserve(COST, "second")


UNPRIVILEGED = """
import os, sys
from nabladp.errors import NablaDPError
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.values import Rho
Ledger.read(sys.argv[1]).spent()  # loads everything while it may
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(len(list(Ledger.read(sys.argv[1]).entries())))
for place in sys.argv[1:]:
    try:
        make = Ledger.open if place == sys.argv[1] else Ledger.create
        ledger = make(place, ["age", "race"], Budget(person=Rho(1)))
        ledger.reserve(Guarantee.touch(["age", "race"], ["age"], Rho(0.01)), "x")
    except NablaDPError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only(what: str) -> None:
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    path = folder / "ledger.db"
    try:
        Ledger.create(path, PEOPLE, BUDGET).reserve(COST, "first")
        before = path.read_bytes()
        path.chmod(0o444 if what == "file" else 0o666)
        folder.chmod(0o777 if what == "file" else 0o555)
        new = [str(folder / "new.db")] if what == "folder" else []
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(path), *new],
            capture_output=True, text=True, cwd="/", env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        lines = done.stdout.splitlines()
        assert lines[0] == "2", done.stderr  # reading still works
        assert len(lines) == 2 + len(new), done.stderr
        assert all(line.startswith("SourceError") and "read-only" in line for line in lines[1:])
        assert path.read_bytes() == before
        assert [p.name for p in folder.iterdir()] == ["ledger.db"]
    finally:
        folder.chmod(0o777)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://clerk:geheim@host/db",
        "postgresql://clerk:geheim@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=clerk&password=geheim",
        "postgresql://clerk:geheim@:port/",
        "sqlite:///ledger.db?password=geheim",
        "geheim://",
    ],
)
def test_passwords_never_appear(address: str) -> None:
    for call in (*both(address), lambda: Ledger.create(address, PEOPLE, BUDGET)):
        with pytest.raises(NablaDPError) as caught:
            call()
        shown = f"{caught.value} {caught.value.to_json()} {caught.value.__cause__} {caught.value.__suppress_context__}"
        assert caught.value.fix
        if address != "geheim://":
            assert "geheim" not in shown
