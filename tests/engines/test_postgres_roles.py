"""Who may do what, enforced by the server: auditors read, curators spend, grantors grant, nobody updates or deletes."""

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
from nabladp.privacy.ledger.entry import FORMAT
from nabladp.privacy.universe import Universe

NAMES = ("age", "income")
BUDGET = Budget(per_attribute=Rho(1))
COST = Guarantee.touch(NAMES, ["age"], Rho(0.1))
CURATOR, AUDITOR = 'cl"erk; DROP TABLE head', "bo'ard\\ of $$ Überwachung"
OWNER, GRANTOR, STRANGER = "office", "$roles; granter", "stranger"
DENIED = psycopg.errors.InsufficientPrivilege


@dataclass(frozen=True)
class Office:
    """A ledger whose owner is no superuser, with a grantor, a curator, an auditor and a stranger beside."""

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
        for role in (OWNER, GRANTOR, CURATOR, AUDITOR, STRANGER):
            server.run(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(PASSWORD)))
        yield server


def opened(server: Server, name: str) -> Office:
    server.run(f"CREATE DATABASE {name} OWNER {OWNER}")
    office = Office(server, name)
    with Ledger.create(office.address(OWNER), NAMES, BUDGET) as ledger:
        ledger.reserve(COST, "first")
    return office


@pytest.fixture(scope="module")
def office(server: Server) -> Office:
    office = opened(server, "books")
    for _ in range(2):  # asked again, it changes nothing
        office.give_roles("--grantor", GRANTOR, "--curator", CURATOR, "--auditor", AUDITOR)
    return office


def test_a_curator_spends_and_a_grantor_grants(server: Server) -> None:
    """Nobody who may have seen an output can take its cost away, and nobody who spends can raise the limit."""
    office = opened(server, "kept")
    office.give_roles("--curator", CURATOR, "--grantor", GRANTOR)
    wider = Universe(NAMES, {"age_band": ("age",)})
    with Ledger.open(office.address(CURATOR), wider, BUDGET) as curator:
        curator.bind("first", "digest")
        curator.reserve(Guarantee.touch(wider, ["age_band"], Rho(0.1)), "second")  # learns a derived column, too
        curator.reserve(COST, "third")
        spent = curator.spent()
        (failed,) = curator.fail_all(["second"], "a value was outside its domain")
        assert (failed.kind, failed.name) == ("failed", "second") and curator.spent() == spent, "it still counts"
        assert curator.failed() == [failed] and [entry.name for entry in curator.unfinished()] == ["third"]
        granting: tuple[Callable[[Ledger], Any], ...] = (
            lambda ledger: ledger.record_external(COST, "theirs", who="another office"),
            lambda ledger: ledger.change_budget(Budget(per_attribute=Rho(2)), "the board agreed"),
            lambda ledger: ledger.void("second", "it failed"),
            lambda ledger: ledger.void("third", "never ran"),
        )
        for act in granting:
            with pytest.raises(SourceError, match="no right") as caught:
                act(curator)
            assert caught.value.fields == {"right": False} and "grantor" in caught.value.fix
        assert curator.head.seq == 7

        with Ledger.open(office.address(GRANTOR)) as grantor:
            for act in granting:
                act(grantor)
            spending: tuple[Callable[[Ledger], Any], ...] = (
                lambda ledger: ledger.reserve(COST, "fourth"),
                lambda ledger: ledger.bind(curator.reserve(COST, "fourth"), "digest"),
            )
            for spend in spending:
                with pytest.raises(SourceError, match="no right"):
                    spend(grantor)
        assert curator.failed() == [] and curator.head.seq == 12 and curator.verify() == []


def test_one_user_may_have_two_roles(server: Server) -> None:
    office = opened(server, "two_roles")
    office.give_roles("--curator", CURATOR, "--grantor", CURATOR)
    with Ledger.open(office.address(CURATOR)) as ledger:
        ledger.reserve(COST, "second")
        (voided,) = ledger.fail_all(["second"], "a value was outside its domain")
        assert voided.kind == "void" and ledger.verify() == []


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
    "UPDATE head SET id = id",
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
MOVES = (
    "UPDATE head SET seq = seq",
    "UPDATE head SET seq = seq - 1",
    "UPDATE head SET seq = seq + 1",
    "UPDATE head SET hash = 'x'",
    "UPDATE head SET seq = 1, hash = (SELECT hash FROM entries WHERE seq = 1)",
)
APPEND = "INSERT INTO entries SELECT 3, kind, 'x', ref, time, payload, totals, hash, 'x' FROM entries WHERE seq = 2"
LOCK = "SELECT * FROM head FOR UPDATE"  # every writer begins with it


@pytest.mark.parametrize("statement", CHANGES)
def test_neither_may_change_anything(office: Office, statement: str) -> None:
    for user in (GRANTOR, CURATOR, AUDITOR, STRANGER):
        with pytest.raises(DENIED):
            office.run(statement, user)


@pytest.mark.parametrize("statement", MOVES)
def test_nobody_moves_the_head_by_hand(office: Office, statement: str) -> None:
    """Whoever appends may update it, and a trigger refuses every move but the one to the next entry."""
    for user in (OWNER, GRANTOR, CURATOR):
        with pytest.raises(psycopg.errors.RaiseException, match="only moves to the next entry"):
            office.run(statement, user)
    for user in (AUDITOR, STRANGER):
        with pytest.raises(DENIED):
            office.run(statement, user)
    with Ledger.read(office.address(AUDITOR)) as ledger:
        assert ledger.head.seq == 2 and ledger.verify() == []


def test_who_may_append_and_who_may_read(office: Office) -> None:
    for user in (AUDITOR, STRANGER):
        for statement in (APPEND, LOCK):
            with pytest.raises(DENIED):
                office.run(statement, user)
    for user in (CURATOR, GRANTOR):
        assert len(office.run(LOCK, user)) == 1
    with pytest.raises(DENIED, match="may not write an entry of this kind"):
        office.run(APPEND, GRANTOR)  # which reserves
    with pytest.raises(DENIED):
        office.run("SELECT * FROM entries", STRANGER)
    with pytest.raises(SourceError, match="no right"):
        Ledger.read(office.address(STRANGER))


def test_tables_of_ones_own_do_not_mislead_the_triggers(office: Office) -> None:
    """They look at the ledger's own tables, whatever the session puts before them."""
    office.run(f"GRANT TEMPORARY ON DATABASE {office.name} TO PUBLIC", OWNER)
    with office.server.connect(office.name, CURATOR) as session:
        session.execute("CREATE TEMP TABLE head AS SELECT 1 AS id, 76 AS seq, 'x' AS hash")
        assert session.execute("SELECT seq FROM head").fetchall() == [(76,)]
        with pytest.raises(psycopg.errors.RaiseException, match="only grows"):
            session.execute(
                "INSERT INTO public.entries SELECT 77, kind, 'x', ref, time, payload, totals, 'x', 'y' "
                "FROM public.entries WHERE seq = 2"
            )
        session.execute("CREATE TEMP TABLE entries AS SELECT * FROM public.entries WHERE false")
        session.execute("INSERT INTO pg_temp.entries VALUES (3, 'reserve', 'x', NULL, '', '', '', '', 'y')")
        with pytest.raises(psycopg.errors.RaiseException, match="only moves to the next entry"):
            session.execute("UPDATE public.head SET seq = 3, hash = 'y'")


def test_a_right_can_be_taken_back(server: Server) -> None:
    office = opened(server, "taken")
    office.give_roles("--curator", CURATOR)
    office.run("GRANT ALL ON entries, head TO " + STRANGER, OWNER)
    with Ledger.read(office.address(OWNER)) as ledger:
        found = ledger.verify()
        assert {problem.what for problem in found} == {"rights"} and all(STRANGER in p.text for p in found)
    office.give_roles("--auditor", CURATOR, "--auditor", STRANGER)
    for user in (CURATOR, STRANGER):
        for statement in (APPEND, LOCK, *MOVES):
            with pytest.raises(DENIED):
                office.run(statement, user)
        assert len(office.run("SELECT * FROM entries", user)) == 2
    with Ledger.read(office.address(OWNER)) as ledger:
        assert ledger.verify() == []


def test_the_owner_keeps_its_rights(server: Server) -> None:
    office = opened(server, "owned")
    for role in ("--grantor", "--curator", "--auditor"):
        with pytest.raises(psycopg.errors.RaiseException, match="the owner"):
            office.give_roles(role, OWNER)
    with Ledger.open(office.address(OWNER)) as ledger:
        ledger.reserve(COST, "second")


def test_only_the_owner_migrates(office: Office) -> None:
    for user in (CURATOR, GRANTOR, AUDITOR):
        with pytest.raises(SourceError, match="no right"):
            Ledger.migrate(office.address(user))
    assert Ledger.migrate(office.address(OWNER)) == FORMAT


@pytest.mark.parametrize("name", ["public", "none", "", "x" * 64, "ü" * 32, "two\nlines", "nul\0", "$roles$"])
def test_names_that_would_be_read_otherwise(name: str) -> None:
    """To PostgreSQL even a quoted "public" is everybody, and a long name is a shorter one."""
    for role in ("grantor", "curator", "auditor"):
        with pytest.raises(LedgerError, match="cannot be the name"):
            Ledger.role_statements(**{f"{role}s": [name]})
        assert CliRunner().invoke(app, ["ledger", "roles", f"--{role}", name]).exit_code == 1
    assert CliRunner().invoke(app, ["ledger", "roles"]).exit_code == 1


def test_the_schema_is_quoted_too() -> None:
    printed = "\n".join(Ledger.role_statements(auditors=["a"], schema='x"; y'))
    assert 'SCHEMA "x""; y" TO "a"' in printed and "INSERT" not in printed and "UPDATE" not in printed
