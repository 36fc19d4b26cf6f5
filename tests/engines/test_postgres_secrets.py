"""A password in the address of a ledger is never shown: not in what commands say, releases, logs, errors or reprs."""

from __future__ import annotations

import io
import logging
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plans import changed, plan_text
from postgres_server import PASSWORD, Server, running_server
from typer.testing import CliRunner

from nabladp import Plan, Session
from nabladp.cli.app import app
from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho

NAMES = ("age", "smoker")
BUDGET = Budget(person=Rho(1))
COST = Guarantee.touch(NAMES, ["age"], Rho(0.1))
SECRET = PASSWORD.partition("-")[0]  # the first word of every password here
SCHEMA = """
[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 9

[[attribute]]
name = "smoker"
kind = "boolean"
"""
PLAN = plan_text(
    "person = { rho = 1.0 }",
    """
[[release]]
name = "ages"
mechanism = "NoisyMarginals"
sets = [["age"]]
budget = { cdp = 0.2 }
""",
    rows=None,
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that anybody logs, down to the smallest."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    before = root.level
    logging.getLogger("numba").setLevel(logging.INFO)  # it tells how it compiles, at great length
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,smoker\n" + "3,true\n7,false\n" * 20)
    Path("schema.toml").write_text(SCHEMA)
    return tmp_path


def test_commands_and_releases(server: Server, folder: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NABLADP_DEBUG", "1")
    address = server.database()
    Path("plan.toml").write_text(changed(PLAN, ("ledger.db", address)))
    commands: list[list[str]] = [
        ["cost", "plan.toml"],
        ["release", "plan.toml"],
        ["ledger", "create", "plan.toml"],
        ["ledger", "create", "plan.toml"],
        ["release", "plan.toml"],
        ["release", "plan.toml", "--to", "second"],
        ["ledger", address],
        ["ledger", "show", address, "--set", "age"],
        ["ledger", "verify", address],
        ["ledger", "verify", address, "--release", "second"],
        ["ledger", "migrate", address],
        ["ledger", "record-external", address, "theirs", "--who", "x", "--attribute", "age", "--rho", "0.1"],
        ["ledger", "void", address, "theirs", "--reason", "x"],
        ["ledger", "recover", address, "nowhere"],
        ["ledger", "change-budget", "plan.toml", "--reason", "x"],
    ]
    worked = set()
    for number, command in enumerate(commands):
        for style in ([], ["--json"]) if number % 2 else ([],):
            said = CliRunner().invoke(app, [*command, *style])
            worked |= {" ".join(command[:2])} if said.exit_code == 0 else set()
            assert SECRET not in said.output + "".join(traceback.format_exception(said.exception))
    assert worked >= {"cost plan.toml", "release plan.toml", "ledger show", "ledger verify", "ledger migrate"}
    written = [path for path in folder.rglob("*") if path.is_file() and path.name != "plan.toml"]
    assert len(written) > 6 and not any(SECRET.encode() in path.read_bytes() for path in written)
    assert SECRET not in log.getvalue() and SECRET not in server.log()
    assert not any(SECRET in str(row) for row in server.run("TABLE entries", database=address.rsplit("/", 1)[1]))


def test_objects_in_use(server: Server, folder: Path, log: io.StringIO) -> None:
    address = server.database()
    Path("plan.toml").write_text(changed(PLAN, ("ledger.db", address)))
    plan = Plan.load("plan.toml")
    session = plan.session(new_ledger=True)
    assert isinstance(session, Session)
    ledger = session.ledger
    store: Any = ledger._store
    shown = [plan, session, ledger, ledger.label, store, store.database, store._engine, store._engine.url]
    assert SECRET not in " ".join(f"{thing} {thing!r}" for thing in shown)
    with pytest.raises(LedgerError) as caught:
        ledger.void("nobody", "x")
    everywhere_silent(caught.value, log)


def everywhere_silent(error: NablaDPError, log: io.StringIO) -> None:
    assert error.fix
    shown = [str(error), repr(error), str(error.to_json()), *traceback.format_exception(error), log.getvalue()]
    shown += [str(pickle.dumps(error)), repr(error.__context__), repr(error.__cause__)]
    assert SECRET not in " ".join(shown)


def test_a_server_that_refuses_or_is_not_there(server: Server, log: io.StringIO) -> None:
    right = server.database()
    for address in (
        right.replace(PASSWORD, "CANARY-wrong"),
        right.replace("keeper", "nobody"),
        f"{right}_that_is_not_there",
        right.replace(str(server.port), "1"),
        right.replace("127.0.0.1", "no-such-host.invalid"),
        right.replace(f"keeper:{PASSWORD}@", "") + f"?user=keeper&password={PASSWORD}-wrong",
    ):
        for call in (
            lambda a=address: Ledger.create(a, NAMES, BUDGET),
            lambda a=address: Ledger.open(a, NAMES, BUDGET),
            lambda a=address: Ledger.read(a),
        ):
            with pytest.raises(SourceError, match="cannot be reached") as caught:
                call()
            everywhere_silent(caught.value, log)


def test_a_server_that_dies_meanwhile(program: Callable[[str], str], log: io.StringIO) -> None:
    with running_server(program("postgres")) as server:
        ledger = Ledger.create(server.database(), NAMES, BUDGET, patience=0.1)
        server.kill()
        with pytest.raises(SourceError) as caught:
            ledger.reserve(COST, "first")
    everywhere_silent(caught.value, log)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://clerk:CAN@CANARY@host/db",  # an '@' that should be %40
        "postgresql://clerk:a/CANARY@host/db",
        "postgresql://clerk:a?CANARY@host/db",
        "postgresql://clerk:a#CANARY@host/db",
        "postgresql://host/clerk:CANARY@db",
        "postgresql://host:CANARY/db",
        "postgresql://host/db?port=CANARY",
        "postgresql://host/db?sslmod=CANARY",
        "postgresql://host/db?conninfo=CANARY",
        "postgresql://host/db?autocommit=CANARY",
        "postgresql://clerk:CANARY\udc80@host/db",
        "postgresql://clerk:CANARY\n@host/db",
        f"postgresql://clerk:CANARY@{'x' * 70}/db",
        "postgresql:/clerk:CANARY@host/db",
        "postgresql:clerk:CANARY@host/db",
        "clerk:CANARY@host/db",
        "host=localhost password=CANARY dbname=db",
        "postgres://clerk:CANARY@host/db",
        "postgresql+asyncpg://clerk:CANARY@host/db",
        "jdbc:postgresql://clerk:CANARY@host/db",
    ],
)
def test_addresses_that_cannot_be_read(address: str, tmp_path: Path, log: io.StringIO) -> None:
    """Refused as such: taken for the name of a file or a host they would be shown."""
    for call in (
        lambda: Ledger.create(address, NAMES, BUDGET),
        lambda: Ledger.open(address, NAMES, BUDGET),
        lambda: Ledger.read(address),
    ):
        with pytest.raises((LedgerError, SourceError)) as caught:
            call()
        everywhere_silent(caught.value, log)
    said = CliRunner().invoke(app, ["ledger", address])
    assert said.exit_code == 1 and SECRET not in said.output and os.listdir(tmp_path) == []


def test_options_of_the_driver_cannot_change_what_a_transaction_is(server: Server) -> None:
    """With "autocommit" half a reservation could be booked."""
    address = server.database()
    for option in ("autocommit=1", "prepare_threshold=0", "row_factory=x"):
        with pytest.raises(LedgerError, match="cannot be read"):
            Ledger.create(f"{address}?{option}", NAMES, BUDGET)
    own = f"{address}?application_name=mine&connect_timeout=5&sslmode=prefer"
    Ledger.create(own, NAMES, BUDGET).reserve(COST, "x")


def test_the_password_may_come_from_elsewhere(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment or a password file, as with psql; then no address holds one."""
    address = server.database().replace(f":{PASSWORD}", "")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    Ledger.create(address, NAMES, BUDGET).reserve(COST, "first")
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{server.port}:*:*:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    Ledger.open(address).reserve(COST, "second")
