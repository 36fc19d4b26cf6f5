"""Attacks on a PostgreSQL ledger, as somebody who may only connect, as auditor, as curator and as grantor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from illegal_entries import (
    COST,
    FORGERIES,
    LARGE,
    PEOPLE,
    SMALL,
    Entries,
    append_to_server,
    fill,
    is_reported,
    uses_that_go_on,
)
from postgres_server import PASSWORD, Server, running_server
from psycopg.sql import SQL, Identifier, Literal

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy import Guarantee, Ledger, Rho

OWNER, GRANTOR, CURATOR, AUDITOR, STRANGER = "office", "board", "clerk", "court", "stranger"
DENIED = psycopg.errors.InsufficientPrivilege
COUNTER = itertools.count()
# All of it is the caller's own: types whose casts note under whose name they run and, if that is the owner, take the
# triggers down, delete what was spent and put an entry into its place. This emptied a ledger of version 0.6.
TRAP = """
CREATE TEMP TABLE caught (who name);
CREATE TEMP TABLE next (seq integer, hash text);
GRANT ALL ON caught, next TO PUBLIC;
CREATE TYPE pg_temp.number AS (x integer);
CREATE TYPE pg_temp.word AS (x text);
CREATE FUNCTION pg_temp.spring() RETURNS void LANGUAGE plpgsql AS $trap$ BEGIN
    INSERT INTO pg_temp.caught VALUES (current_user);
    IF EXISTS (SELECT FROM pg_temp.next) THEN RETURN; END IF;
    INSERT INTO pg_temp.next SELECT seq + 1, hash FROM public.head;
    EXECUTE 'ALTER TABLE public.entries DISABLE TRIGGER ALL';
    DELETE FROM public.entries WHERE kind = 'reserve';
    INSERT INTO public.entries SELECT seq, 'bind', 'x', NULL, '', '{}', '{}', hash, 'y' FROM pg_temp.next;
EXCEPTION WHEN insufficient_privilege THEN NULL; END $trap$;
CREATE FUNCTION pg_temp.bait(pg_temp.number) RETURNS integer LANGUAGE plpgsql AS
    $trap$ BEGIN PERFORM pg_temp.spring(); RETURN (SELECT seq FROM pg_temp.next); END $trap$;
CREATE FUNCTION pg_temp.bait(pg_temp.word) RETURNS text LANGUAGE plpgsql AS
    $trap$ BEGIN PERFORM pg_temp.spring(); RETURN (SELECT hash FROM pg_temp.next); END $trap$;
CREATE CAST (pg_temp.number AS integer) WITH FUNCTION pg_temp.bait(pg_temp.number) AS IMPLICIT;
CREATE CAST (pg_temp.word AS text) WITH FUNCTION pg_temp.bait(pg_temp.word) AS IMPLICIT;
CREATE TEMP TABLE mine (seq pg_temp.number, kind text, name text, ref pg_temp.number, previous pg_temp.word, hash text);
INSERT INTO mine VALUES (ROW(1), 'bind', 'bound', ROW(2), ROW('x'), 'y');
"""


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[Server]:
    with running_server(program("postgres")) as server:
        for role in (OWNER, GRANTOR, CURATOR, AUDITOR, STRANGER):
            server.run(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(PASSWORD)))
        server.run(f"CREATE DATABASE filled OWNER {OWNER}")
        with Ledger.create(server.address("filled", OWNER), PEOPLE, LARGE) as ledger:
            fill(ledger)
        statements = Ledger.role_statements([CURATOR], [AUDITOR], [GRANTOR])
        server.run("\n".join(statements), database="filled", user=OWNER)
        yield server


@pytest.fixture
def office(server: Server) -> str:
    """The name of a database with a ledger of its own, in which every role is given."""
    name = f"office{next(COUNTER)}"
    server.run(f"CREATE DATABASE {name} TEMPLATE filled OWNER {OWNER}")
    return name


def entries(server: Server, office: str) -> list[Any]:
    return server.run("SELECT * FROM entries ORDER BY seq", database=office, user=OWNER)


def our_functions(server: Server, office: str) -> list[str]:
    query = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
    return [name for (name,) in server.run(query, database=office, user=OWNER)]


def spring(server: Server, office: str, user: str, function: str) -> list[str]:
    """Set the trap with this function as a trigger; under whose names the caller's code ran."""
    with server.connect(office, user) as connection:
        connection.execute(TRAP)
        try:
            connection.execute(
                f"CREATE TRIGGER t BEFORE INSERT OR UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION {function}"
            )
        except psycopg.errors.Error as error:
            return [] if isinstance(error, DENIED | psycopg.errors.InvalidObjectDefinition) else [str(error)]
        for statement in ("INSERT INTO mine SELECT * FROM mine", "UPDATE mine SET name = 'x'"):
            try:
                connection.execute(statement)
            except psycopg.errors.Error:
                continue  # what ran before the error is gone with it, and so is what it did
        return [who for (who,) in connection.execute("SELECT who FROM caught").fetchall()]


@pytest.mark.parametrize("user", [STRANGER, AUDITOR, CURATOR, GRANTOR])
def test_no_function_of_ours_can_be_attached_to_a_table_of_the_callers(server: Server, office: str, user: str) -> None:
    before = entries(server, office)
    assert len(our_functions(server, office)) == 7
    for function in our_functions(server, office):
        assert spring(server, office, user, function) == []
    assert entries(server, office) == before


@pytest.mark.parametrize("user", [STRANGER, CURATOR])
def test_even_with_the_right_to_execute_nothing_runs_as_the_owner(server: Server, office: str, user: str) -> None:
    """Somebody may grant too much, or restore a backup without its rights."""
    before = entries(server, office)
    server.run("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC", database=office, user=OWNER)
    for function in our_functions(server, office):
        assert OWNER not in spring(server, office, user, function)
    assert entries(server, office) == before
    query = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    assert server.run(query, database=office, user=OWNER) == [(0,)]
    with Ledger.read(server.address(office, AUDITOR)) as ledger:
        found = {problem.text for problem in ledger.verify() if problem.what == "rights"}
    assert len(found) == 7 and all("Everybody (PUBLIC) has the right EXECUTE" in text for text in found)


GRANTS = {
    "GRANT SELECT ON entries TO PUBLIC": "Everybody (PUBLIC) has the right SELECT on entries",
    f"GRANT INSERT ON entries TO {AUDITOR}": f"'{AUDITOR}' has the right INSERT on entries, which no auditor has",
    f"GRANT UPDATE ON entries TO {CURATOR}": f"'{CURATOR}' has the right UPDATE on entries, which no curator has",
    f"GRANT TRIGGER ON entries TO {GRANTOR}": f"'{GRANTOR}' has the right TRIGGER on entries, which no grantor has",
    f"GRANT UPDATE (hash) ON entries TO {CURATOR}": f"'{CURATOR}' has the right UPDATE on entries.hash",
    f"GRANT SELECT ON head TO {STRANGER}": f"'{STRANGER}' has the right SELECT on head, which goes with no role",
    f"GRANT EXECUTE ON FUNCTION ledger_lawful() TO {CURATOR}": f"'{CURATOR}' has the right EXECUTE on ledger_lawful()",
    "GRANT EXECUTE ON FUNCTION ledger_grantor() TO PUBLIC": "Everybody (PUBLIC) has the right EXECUTE on ledger_grant",
    "ALTER TABLE entries DISABLE TRIGGER entries_lawful": "The trigger entries_lawful is missing or turned off.",
    "DROP TRIGGER head_in_step ON head": "The trigger head_in_step is missing or turned off.",
    "ALTER FUNCTION ledger_head_follows() SECURITY DEFINER": "ledger_head_follows() runs with the rights of its owner",
}


@pytest.mark.parametrize("statement", GRANTS)
def test_verify_reports_rights_beyond_the_roles(server: Server, office: str, statement: str) -> None:
    with Ledger.read(server.address(office, AUDITOR)) as ledger:
        assert ledger.verify() == []
        server.run(statement, database=office, user=OWNER)
        (problem,) = ledger.verify()
    assert problem.what == "rights" and GRANTS[statement] in problem.text


def test_who_spends_is_not_who_grants(server: Server, office: str) -> None:
    with Ledger.open(server.address(office, CURATOR)) as ledger:
        ledger.bind("unfinished", "d" * 64)
        entry = ledger.reserve(COST, "second")
        acts: list[Callable[[], object]] = [
            lambda: ledger.void("second", "I would like it back"),
            lambda: ledger.change_budget(LARGE, "more for me"),
            lambda: ledger.record_external(COST, "mine", "me"),
        ]
        for act in acts:
            with pytest.raises(SourceError, match="no right"):
                act()
        (failed,) = ledger.fail_all([entry], "a value outside its domain")
        assert failed.kind == "failed" and ledger.verify() == []
    with Ledger.open(server.address(office, GRANTOR)) as ledger:
        for act in (lambda: ledger.reserve(COST, "own"), lambda: ledger.bind("derived", "d" * 64)):
            with pytest.raises(SourceError, match="no right"):
                act()
        ledger.void("second", "nothing was published")
        ledger.record_external(COST, "elsewhere", "an office")
        ledger.change_budget(LARGE, "the board agreed")
        assert ledger.verify() == []
    with Ledger.open(server.address(office, AUDITOR)) as ledger, pytest.raises(SourceError, match="no right"):
        ledger.reserve(COST, "own")
    with pytest.raises(NablaDPError, match=r"no right|no ledger"):
        Ledger.read(server.address(office, STRANGER)).spent()


@pytest.mark.parametrize("user", [CURATOR, GRANTOR])
def test_the_head_cannot_be_moved_by_hand(server: Server, office: str, user: str) -> None:
    for move in ("seq = seq", "seq = seq - 1", "seq = 0, hash = repeat('0', 64)", "seq = seq + 1", "hash = 'x'"):
        with pytest.raises(psycopg.errors.RaiseException, match="only moves to the next"):
            server.run(f"UPDATE head SET {move}", database=office, user=user)
    with pytest.raises(DENIED):
        server.run("UPDATE head SET id = 1", database=office, user=user)


REFUSED = {"open", "format", "budget", "external", "void", "refund"}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_curator_writes_only_entries_of_his_own_kinds(server: Server, office: str, name: str) -> None:
    """The database refuses what it can see; the rest stays, and stops every use (below)."""
    with server.connect(office, CURATOR) as connection:
        known = Entries(connection.execute("SELECT * FROM entries ORDER BY seq").fetchall())
        row = known.seal(FORGERIES[name](known))
        refused = row[1] in REFUSED or name in (
            "a binding of an external release",
            "a binding of a voided reservation",
            "a failure of a bound release",
            "a reservation with a name in use",
            "a reservation that refers to another",
        )
        try:
            connection.execute(f"INSERT INTO entries VALUES ({', '.join(['%s'] * 9)})", row)
        except psycopg.errors.Error:
            assert refused
        else:
            assert not refused


@pytest.mark.parametrize("name", [*FORGERIES][::4])
def test_an_illegal_entry_stops_every_use_on_a_server_too(server: Server, office: str, name: str) -> None:
    """All of them are tried by ``python -m bench ledger``."""
    address = server.address(office, OWNER)
    with Ledger.open(address) as opened:
        opened.spent()
        with server.connect(office, OWNER) as connection:
            append_to_server(connection, FORGERIES[name])
        assert uses_that_go_on(address, opened) == []
    assert is_reported(address)


def test_operators_of_the_callers_are_not_used(server: Server, office: str) -> None:
    """Where everybody may create in the ledger's schema, as on older servers."""
    server.run("GRANT CREATE ON SCHEMA public TO PUBLIC", database=office, user=OWNER)
    server.run(
        "CREATE FUNCTION public.yes(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR public.<> (FUNCTION = public.yes, LEFTARG = integer, RIGHTARG = integer)",
        "CREATE FUNCTION public.has_function_privilege(name, text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        database=office,
        user=CURATOR,
    )
    with server.connect(office, CURATOR) as connection:
        connection.execute("SET search_path = public, pg_catalog")
        known = Entries(connection.execute("SELECT * FROM entries ORDER BY seq").fetchall())
        row = known.seal(FORGERIES["a budget that leaves out limits"](known))
        with pytest.raises(DENIED):
            connection.execute(f"INSERT INTO entries VALUES ({', '.join(['%s'] * 9)})", row)


def test_a_member_of_a_group_has_its_role(server: Server, office: str) -> None:
    server.run("CREATE ROLE clerks", f"GRANT clerks TO {STRANGER}")
    server.run("\n".join(Ledger.role_statements(curators=["clerks"])), database=office, user=OWNER)
    with Ledger.open(server.address(office, STRANGER), PEOPLE, SMALL) as ledger:
        ledger.reserve(Guarantee.touch(PEOPLE, ["age"], Rho(0.1)), "by a member")
        with pytest.raises(SourceError, match="no right"):
            ledger.void("by a member", "x")
        assert ledger.verify() == []
    server.run(f"REVOKE clerks FROM {STRANGER}")


def test_the_owner_takes_no_other_role(server: Server, office: str) -> None:
    for role in ("grantors", "curators", "auditors"):
        with pytest.raises(psycopg.errors.RaiseException, match="no other role"):
            server.run("\n".join(Ledger.role_statements(**{role: [OWNER]})), database=office, user=OWNER)
    with pytest.raises(LedgerError, match="No user"):
        Ledger.role_statements()
