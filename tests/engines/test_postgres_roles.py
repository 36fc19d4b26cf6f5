"""Who may do what, enforced by the server: auditors read, curators append, nobody updates or deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from postgres_server import PASSWORD, Server, running_server
from psycopg.sql import SQL, Identifier, Literal
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import LedgerError, SourceError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho

NAMES = ("age", "income")
BUDGET = Budget(per_attribute=Rho(1))
COST = Guarantee.touch(NAMES, ["age"], Rho(0.1))
CURATOR, AUDITOR = 'cl"erk; DROP TABLE head', "bo'ard\\ of $$ Überwachung"
OWNER, STRANGER = "office", "stranger"
DENIED = psycopg.errors.InsufficientPrivilege


@dataclass(frozen=True)
class Office:
    """A ledger whose owner is no superuser, with a curator, an auditor and a stranger beside."""

    server: Server
    name: str

    def address(self, user: str) -> str:
        return self.server.address(self.name, user)

    def run(self, statement: Any, user: str) -> list[Any]:
        return self.server.run(statement, database=self.name, user=user)

    def give_roles(self, *options: str) -> str:
        """What the command prints, run by the owner."""
        printed = CliRunner().invoke(app, ["ledger", "roles", *options])
        assert printed.exit_code == 0, printed.output
        self.run(printed.stdout, OWNER)
        return printed.stdout


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[Server]:
    with running_server(program("postgres")) as server:
        for role in (OWNER, CURATOR, AUDITOR, STRANGER):
            server.run(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(PASSWORD)))
        yield server


def opened(server: Server, name: str) -> Office:
    server.run(f"CREATE DATABASE {name} OWNER {OWNER}")
    office = Office(server, name)
    with Ledger.open(office.address(OWNER), NAMES, BUDGET) as ledger:
        ledger.reserve(COST, "first")
    return office


@pytest.fixture(scope="module")
def office(server: Server) -> Office:
    office = opened(server, "books")
    for _ in range(2):  # asked again, it changes nothing
        office.give_roles("--curator", CURATOR, "--auditor", AUDITOR)
    return office


def test_a_curator_keeps_the_books(server: Server) -> None:
    office = opened(server, "kept")
    office.give_roles("--curator", CURATOR)
    with Ledger.open(office.address(CURATOR), NAMES, BUDGET) as ledger:
        ledger.bind("first", "digest")
        ledger.reserve(COST, "second")
        ledger.void("second", "never ran")
        ledger.record_external(COST, "theirs", who="another office")
        ledger.change_budget(Budget(per_attribute=Rho(2)), "the board agreed")
        assert ledger.head.seq == 7 and ledger.verify() == []


def test_an_auditor_reads_everything_and_writes_nothing(office: Office) -> None:
    with Ledger.read(office.address(AUDITOR)) as ledger:
        assert ledger.verify() == [] and ledger.entry("first").guarantee == COST
    with Ledger.open(office.address(AUDITOR)) as ledger, pytest.raises(SourceError, match="no right") as caught:
        ledger.reserve(COST, "second")
    assert "ledger roles" in caught.value.fix


CHANGES = (
    "UPDATE entries SET name = 'x'",
    "DELETE FROM entries",
    "TRUNCATE entries",
    "UPDATE head SET seq = seq",
    "SELECT * FROM head FOR UPDATE",
    "DELETE FROM head",
    "TRUNCATE head",
    "INSERT INTO head VALUES (2, 1, 'x')",
    "UPDATE meta SET format = 9",
    "DELETE FROM meta",
    "INSERT INTO meta SELECT * FROM meta",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "DROP TRIGGER head_follows ON entries",
    "DROP TABLE entries",
    "DROP FUNCTION ledger_head_follows() CASCADE",
    "CREATE TRIGGER mine BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION ledger_only_grows()",
    "CREATE RULE mine AS ON INSERT TO entries DO INSTEAD NOTHING",
    "SET session_replication_role = replica",
)
APPEND = "INSERT INTO entries SELECT 3, kind, 'x', ref, time, payload, totals, hash, 'x' FROM entries WHERE seq = 2"
LOCK = "SELECT * FROM ledger_locked_head()"


@pytest.mark.parametrize("statement", CHANGES)
def test_neither_may_change_anything(office: Office, statement: str) -> None:
    for user in (CURATOR, AUDITOR, STRANGER):
        with pytest.raises(DENIED):
            office.run(statement, user)


def test_who_may_append_and_who_may_read(office: Office) -> None:
    for user in (AUDITOR, STRANGER):
        for statement in (APPEND, LOCK):
            with pytest.raises(DENIED):
                office.run(statement, user)
    with pytest.raises(DENIED):
        office.run("SELECT * FROM entries", STRANGER)
    with pytest.raises(SourceError, match="no right"):
        Ledger.read(office.address(STRANGER))


def test_tables_of_ones_own_do_not_mislead_the_triggers(office: Office) -> None:
    """The functions run with the owner's rights, on the ledger's own tables, whatever the session puts before them."""
    office.run(f"GRANT TEMPORARY ON DATABASE {office.name} TO PUBLIC", OWNER)
    with office.server.connect(office.name, CURATOR) as session:
        session.execute("CREATE TEMP TABLE head AS SELECT 1 AS id, 76 AS seq, 'x' AS hash")
        assert session.execute("SELECT seq FROM head").fetchall() == [(76,)]
        assert session.execute("SELECT seq FROM ledger_locked_head()").fetchall() == [(2,)]
        with pytest.raises(psycopg.errors.RaiseException, match="only grows"):
            session.execute(
                "INSERT INTO public.entries SELECT 77, kind, 'x', ref, time, payload, totals, 'x', 'y' "
                "FROM public.entries WHERE seq = 2"
            )


def test_a_right_can_be_taken_back(server: Server) -> None:
    office = opened(server, "taken")
    office.give_roles("--curator", CURATOR)
    office.run("GRANT ALL ON entries, head TO " + STRANGER, OWNER)
    office.give_roles("--auditor", CURATOR, "--auditor", STRANGER)
    for user in (CURATOR, STRANGER):
        for statement in (APPEND, LOCK, "UPDATE head SET seq = seq"):
            with pytest.raises(DENIED):
                office.run(statement, user)
        assert len(office.run("SELECT * FROM entries", user)) == 2


def test_the_owner_keeps_the_rights_that_the_triggers_need(server: Server) -> None:
    office = opened(server, "owned")
    with pytest.raises(psycopg.errors.RaiseException, match="the owner"):
        office.give_roles("--curator", OWNER)
    with Ledger.open(office.address(OWNER)) as ledger:
        ledger.reserve(COST, "second")


def test_only_the_owner_migrates(office: Office) -> None:
    with pytest.raises(SourceError, match="no right"):
        Ledger.migrate(office.address(CURATOR))
    assert Ledger.migrate(office.address(OWNER)) == 2


@pytest.mark.parametrize("name", ["public", "none", "", "x" * 64, "ü" * 32, "two\nlines", "nul\0", "$roles$"])
def test_names_that_would_be_read_otherwise(name: str) -> None:
    """To PostgreSQL even a quoted "public" is everybody, and a long name is a shorter one."""
    with pytest.raises(LedgerError, match="cannot be the name"):
        Ledger.role_statements([name])
    assert CliRunner().invoke(app, ["ledger", "roles", "--auditor", name]).exit_code == 1
    assert CliRunner().invoke(app, ["ledger", "roles"]).exit_code == 1


def test_the_schema_is_quoted_too() -> None:
    printed = "\n".join(Ledger.role_statements(auditors=["a"], schema='x"; y'))
    assert 'SCHEMA "x""; y" TO "a"' in printed and "INSERT" not in printed
