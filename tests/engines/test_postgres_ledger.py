"""The ledger on a real PostgreSQL server, which the tests start as its own user (it refuses root)."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from nabladp.errors import BudgetExceeded, LedgerError, SourceError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho

NAMES = ("age", "income")
BUDGET = Budget(per_attribute=Rho(1))


def cost(rho: float) -> Guarantee:
    return Guarantee.touch(NAMES, ["age"], Rho(rho))


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[str]:
    """The address of a fresh server in a temporary folder; TCP on loopback only."""
    home = Path(program("postgres")).parent
    folder = Path(tempfile.mkdtemp(prefix="nabladp-postgres-"))
    as_server: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        as_server = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(*command: str) -> None:
        subprocess.run(
            [*as_server, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    data = str(folder / "data")
    run(str(home / "initdb"), "-D", data, "-U", "curator", "-A", "trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c max_connections=60"
    run(str(home / "pg_ctl"), "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql://curator:secret-word@127.0.0.1:{port}"
    finally:
        run(str(home / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def address(server: str, request: pytest.FixtureRequest) -> str:
    """A database of its own for each test."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)[:50].lower()
    engine = create_engine(
        server.replace("postgresql://", "postgresql+psycopg://") + "/postgres", isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    engine.dispose()
    return f"{server}/{name}"


def test_a_life_of_a_ledger(address: str) -> None:
    with Ledger.open(address, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.4), "first")
        ledger.bind("first", "digest")
        ledger.reserve(cost(0.3), "second")
        assert [e.name for e in ledger.unfinished()] == ["second"]
        with pytest.raises(BudgetExceeded) as caught:
            ledger.reserve(cost(0.5), "third")
        assert caught.value.fields["limit"] == "age"
        ledger.void("second", "never ran")
        ledger.record_external(cost(0.1), "theirs", who="another office")
        with pytest.raises(LedgerError):
            ledger.void("first", "too late")
    with Ledger.read(address) as again:
        assert again.spent_on(["age"]).rho == pytest.approx(0.5) and again.verify() == []
        assert "secret-word" not in again.label


def race(address: str, name: str, done: Any) -> None:
    try:
        with Ledger.open(address, NAMES, BUDGET) as ledger:
            ledger.reserve(cost(0.099), name)
        done.put(name)
    except BudgetExceeded:
        done.put(None)


def test_sixteen_processes_never_overspend(address: str) -> None:
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=race, args=(address, f"r{i}", done)) for i in range(16)]
    for worker in workers:
        worker.start()
    booked = [done.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(name is not None for name in booked) == 10
    with Ledger.read(address) as ledger:
        assert ledger.verify() == [] and ledger.spent_on(["age"]).rho == pytest.approx(0.99)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET name = 'x'",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "DELETE FROM head",
        "UPDATE head SET seq = 1",
    ],
)
def test_nothing_is_changed_or_deleted(address: str, statement: str) -> None:
    with Ledger.open(address, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.1), "first")
    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.raises(DBAPIError), engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    with Ledger.read(address) as ledger:
        assert ledger.verify() == []


def test_an_unreachable_server_is_named_without_its_password(server: str) -> None:
    for address in (server.rsplit(":", 1)[0] + ":1/ledger", f"{server}/no_such_database"):
        with pytest.raises((SourceError, LedgerError)) as caught:
            Ledger.open(address, NAMES, BUDGET)
        assert "secret-word" not in str(caught.value) and caught.value.fix
