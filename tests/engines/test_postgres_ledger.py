"""The ledger on a real PostgreSQL server: the same books as in a file, kept by the database itself."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from earlier_formats import EARLIER, LENGTH, give_roles_of_format_2, write_postgres
from many_rows import booked_by_one_kind
from postgres_server import PASSWORD, Server
from psycopg.sql import SQL, Identifier, Literal

from nabladp.errors import BudgetExceeded, LedgerError, SourceError
from nabladp.privacy import Budget, Guarantee, Ledger, Rho
from nabladp.privacy.ledger import rights
from nabladp.privacy.ledger.entry import FORMAT
from nabladp.privacy.ledger.history import problems
from nabladp.privacy.ledger.store import Transaction

NAMES = ("age", "income")
BUDGET = Budget(per_attribute=Rho(1))


def cost(rho: float) -> Guarantee:
    return Guarantee.touch(NAMES, ["age"], Rho(rho))


@pytest.fixture(scope="module")
def kept(server: Server) -> str:
    """A ledger of two entries that stays as it is."""
    address = server.database()
    with Ledger.create(address, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.1), "first")
    return address


def test_a_life_of_a_ledger(address: str) -> None:
    with Ledger.create(address, NAMES, BUDGET) as ledger:
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


def test_a_server_with_other_habits(server: Server, address: str) -> None:
    """What a transaction needs it says itself: isolation, writing, durability."""
    name = address.rsplit("/", 1)[1]
    for habit in (
        "default_transaction_isolation = serializable",
        "default_transaction_read_only = on",
        "synchronous_commit = off",
        "standard_conforming_strings = off",
    ):
        server.run(f"ALTER DATABASE {name} SET {habit}")
    with Ledger.create(address, NAMES, Budget(per_attribute=Rho(100))) as ledger:
        threads = [
            threading.Thread(target=lambda i=i: [ledger.reserve(cost(0.01), f"{i}:{j}") for j in range(5)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.head.seq == 21 and ledger.verify() == []


def test_plans_that_disagree_on_people_are_refused(address: str) -> None:
    booked_by_one_kind(address)


def test_a_schema_of_its_own(server: Server, address: str) -> None:
    """The address may name it; a table of the same name elsewhere is not in the way."""
    server.run('CREATE SCHEMA "our ledger"', "CREATE TABLE entries (x int)", database=address.rsplit("/", 1)[1])
    own = f'{address}?options=-csearch_path%3D"our\\ ledger"'
    with Ledger.create(own, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.1), "first")
        assert ledger.verify() == []
    with pytest.raises(LedgerError, match="something else"):
        Ledger.read(address)


def test_a_server_that_may_forget_is_refused(server: Server, address: str) -> None:
    try:
        server.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        while server.run("SHOW fsync") != [("off",)]:
            pass
        with pytest.raises(LedgerError, match="fsync off"):
            Ledger.create(address, NAMES, BUDGET)
        assert not Ledger.exists(address), "nor is one made"
        Ledger.create(server.database(), NAMES, BUDGET, test=True).reserve(cost(0.1), "first")
    finally:
        server.run("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
    while server.run("SHOW fsync") != [("on",)]:
        pass
    Ledger.create(address, NAMES, BUDGET).reserve(cost(0.1), "first")


def test_a_writer_that_falls_silent_loses_the_lock(
    server: Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is asleep or cut off, with the head locked. The others go on; it finds out and tries again."""
    monkeypatch.setattr("nabladp.privacy.ledger.postgres._IDLE_MS", 300)
    held, go_on = threading.Event(), threading.Event()
    with Ledger.create(address, NAMES, BUDGET) as silent, Ledger.open(address) as other:
        state = type(silent._follower).state

        def locked(follower: Any, *arguments: Any, **named: Any) -> Any:
            found = state(follower, *arguments, **named)
            if follower is silent._follower and named.get("lock") and not held.is_set():
                held.set()
                go_on.wait(60)
            return found

        monkeypatch.setattr(type(silent._follower), "state", locked)
        asleep = threading.Thread(target=lambda: silent.reserve(cost(0.1), "silent"))
        asleep.start()
        held.wait(60)
        assert other.reserve(cost(0.1), "other").seq == 2
        go_on.set()
        asleep.join()
        assert other.entry("silent").seq == 3 and other.verify() == []


def test_verification_sees_one_moment(address: str) -> None:
    """Another client goes on while the chain is walked."""
    with Ledger.create(address, NAMES, BUDGET) as ledger, Ledger.read(address) as reader:

        def walk(transaction: Transaction) -> list[Any]:
            before = transaction.head()
            ledger.reserve(cost(0.1), "first")
            assert transaction.head() == before != ledger.head
            return list(problems(transaction))

        assert reader._store.read(walk) == [] and reader.head.seq == 2


def layout(server: Server, address: str) -> list[Any]:
    """Triggers and functions as the server knows them."""
    name = address.rsplit("/", 1)[1]
    triggers = "SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1"
    functions = "SELECT proname, proacl, pg_get_functiondef(oid) FROM pg_proc WHERE proname ~ '^ledger_' ORDER BY 1"
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY 1, 2"
    )
    indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
    return [server.run(query, database=name) for query in (triggers, functions, columns, indexes)]


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_older_ledger_is_brought_up_to_date(server: Server, address: str, kept: str, earlier: int) -> None:
    with server.connect(address.rsplit("/", 1)[1]) as connection:
        write_postgres(connection, earlier)
    with Ledger.read(address) as ledger:
        before, figures = list(ledger.entries()), (ledger.spent(), ledger.guarantee())
        assert ledger.format == earlier and len(before) == LENGTH[earlier]
        assert {problem.what for problem in ledger.verify()} == {"rights"}, "what the old guards lack"
    with pytest.raises(LedgerError, match=f"older format {earlier}") as caught:
        Ledger.open(address)
    assert "nabladp ledger migrate" in caught.value.fix
    assert Ledger.migrate(address) == earlier and Ledger.migrate(address) == FORMAT
    with Ledger.open(address, NAMES) as ledger:
        *same, last = ledger.entries()
        assert same == before and last.kind == "format"
        assert (ledger.spent(), ledger.guarantee()) == figures and ledger.verify() == []
        assert ledger.reserve(cost(0.125), "fourth").seq == LENGTH[earlier] + 2
        assert ledger.spent_on(["age"]).rho == 1.0 and ledger.verify() == []
    assert layout(server, address) == layout(server, kept), "it is like one that was made today"


def test_a_ledger_of_format_2_keeps_its_figures_and_roles_and_loses_the_hole(server: Server) -> None:
    """As version 0.6.0 left it: functions with the owner's rights, one of them for everybody to execute."""
    owner, curators, auditors, stranger = "office", ["clerk", 'cl"erk two'], ["board"], "stranger"
    for role in (owner, *curators, *auditors, stranger):
        server.run(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), Literal(PASSWORD)))
    server.run(f"CREATE DATABASE second_format OWNER {owner}")
    with server.connect("second_format", owner) as connection:
        write_postgres(connection, 2)
        give_roles_of_format_2(connection, curators, auditors)
    address = server.address("second_format", owner)
    with Ledger.read(address) as ledger:
        before = list(ledger.entries()), ledger.spent(), ledger.guarantee(), ledger.unfinished()
        told = {problem.text for problem in ledger.verify()}
    assert "Everybody (PUBLIC) has the right EXECUTE on ledger_head_follows(), which goes with no role." in told
    assert "The function ledger_locked_head() runs with the rights of its owner." in told
    assert Ledger.migrate(address) == 2

    with Ledger.read(address) as ledger:
        entries = list(ledger.entries())
        assert (entries[:-1], ledger.spent(), ledger.guarantee(), ledger.unfinished()) == before
        assert ledger.verify() == [] and ledger.format == FORMAT
    functions = "SELECT oid, prosecdef FROM pg_proc WHERE proname ~ '^ledger_'"
    found = server.run(functions, database="second_format")
    for function, with_owners_rights in found:
        allowed = f"SELECT has_function_privilege('{stranger}', {function}::oid, 'EXECUTE')"
        assert not with_owners_rights and server.run(allowed, database="second_format") == [(False,)]
    assert found

    for number, curator in enumerate(curators):
        with Ledger.open(server.address("second_format", curator), NAMES) as ledger:
            ledger.reserve(cost(0.0625), f"by {number}")
            for call in (
                lambda ledger=ledger: ledger.void("third", "x"),
                lambda ledger=ledger: ledger.change_budget(Budget(per_attribute=Rho(9)), "x"),
                lambda ledger=ledger: ledger.record_external(cost(0.1), "x", who="x"),
            ):
                with pytest.raises(SourceError, match="no right"):
                    call()
    with Ledger.open(server.address("second_format", auditors[0])) as ledger:
        assert ledger.spent_on(["age"]).rho == 1.0 and ledger.verify() == []
        with pytest.raises(SourceError, match="no right"):
            ledger.reserve(cost(0.1), "x")
    with pytest.raises(SourceError, match="no right"):
        Ledger.read(server.address("second_format", stranger))


def test_a_migration_that_fails_half_way_leaves_nothing(
    server: Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.connect(address.rsplit("/", 1)[1]) as connection:
        write_postgres(connection, 1)
    before = layout(server, address)
    guards = rights.guards
    with monkeypatch.context() as patch:
        more = ("ALTER TABLE head ADD x int", "SELECT 1 / 0")
        patch.setattr(rights, "guards", lambda schema: (*guards(schema), *more))
        with pytest.raises(LedgerError, match="refused"):
            Ledger.migrate(address)
    assert layout(server, address) == before
    with Ledger.read(address) as ledger:
        assert ledger.format == 1 and ledger.head.seq == 8
        assert {problem.what for problem in ledger.verify()} == {"rights"}
    assert Ledger.migrate(address) == 1


FORGED = (
    "INSERT INTO entries SELECT {seq}, 'reserve', '{name}', NULL, time, payload, totals, {previous}, 'forged' "
    "FROM entries WHERE seq = 2"
)
HEAD = "(SELECT hash FROM head)"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET name = 'x'",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "TRUNCATE entries, head, meta",
        "INSERT INTO entries SELECT * FROM entries WHERE seq = 2 ON CONFLICT (seq) DO UPDATE SET name = 'x'",
        FORGED.format(seq=3, name="second", previous="previous"),
        FORGED.format(seq=4, name="second", previous=HEAD),
        FORGED.format(seq=3, name="first", previous=HEAD),
        "DELETE FROM head",
        "TRUNCATE head",
        "UPDATE head SET seq = 1",
        "UPDATE head SET seq = seq + 1",
        "INSERT INTO head VALUES (2, 1, 'x')",
        "INSERT INTO head VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET seq = 1",
        "UPDATE meta SET format = 9",
        "DELETE FROM meta",
        "SET session_replication_role = replica; UPDATE entries SET name = 'x'",
        "SET session_replication_role = replica; DELETE FROM entries",
    ],
)
def test_nothing_is_changed_or_deleted_by_the_owner(server: Server, kept: str, statement: str) -> None:
    """Who owns the tables here may do anything on this server; short of removing the triggers, nothing helps."""
    with pytest.raises(psycopg.Error):
        server.run(statement, database=kept.rsplit("/", 1)[1])
    with Ledger.read(kept) as ledger:
        assert ledger.verify() == [] and ledger.head.seq == 2


def test_a_row_that_conflicts_does_not_move_the_head(server: Server, address: str) -> None:
    with Ledger.create(address, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.1), "first")
        forged = FORGED.format(seq=3, name="first", previous=HEAD) + " ON CONFLICT DO NOTHING"
        server.run(forged, database=address.rsplit("/", 1)[1])
        assert ledger.head.seq == 2 and ledger.reserve(cost(0.1), "second").seq == 3


def test_a_backup_is_a_ledger_again(server: Server, kept: str) -> None:
    copy = server.database()
    server.copy(kept, copy)
    with Ledger.open(copy) as ledger, Ledger.read(kept) as first:
        assert (ledger.id, ledger.head) == (first.id, first.head)
        assert ledger.reserve(cost(0.1), "second").seq == 3 and ledger.verify() == []
    with pytest.raises(psycopg.Error):
        server.run("DELETE FROM entries", database=copy.rsplit("/", 1)[1])


def test_without_its_triggers_a_ledger_takes_nothing(server: Server, address: str) -> None:
    with Ledger.create(address, NAMES, BUDGET) as ledger:
        ledger.reserve(cost(0.1), "first")
        server.run("ALTER TABLE entries DISABLE TRIGGER ALL", database=address.rsplit("/", 1)[1])
        with pytest.raises(LedgerError, match="broken"):
            ledger.reserve(cost(0.1), "second")
        assert {problem.what for problem in ledger.verify()} == {"rights"} and ledger.head.seq == 2
