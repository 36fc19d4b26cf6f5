"""A ledger in a PostgreSQL database, which many machines may share.

Every transaction has a connection of its own, so that nothing is carried over a fork or a restart of the server, and
no prepared statement outlives the session that knows it. Writers take the row of the head first and read afterwards.
One after the other, they need no stricter isolation than READ COMMITTED, under which each statement sees all that was
committed before. Readers see one moment (REPEATABLE READ).

An address is never repeated: it may carry a password. An ambiguous one is refused: a password with a bare '@' in it
would otherwise end up in the host's name, and with it in a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from nabladp.errors import LedgerError, MissingPart, NablaDPError, SourceError
from nabladp.privacy.ledger import rights
from nabladp.privacy.ledger.store import WAIT, WRITE, Database, locked_ledger, refused_request

_BUSY = ("40001", "40P01", "55P03")  # a conflict, a deadlock, a lock that was waited for too long
_GONE = ("57P01", "57P02", "57P03", "57P05", "25P03", "53300")  # shut down, starting up, idle too long, too many
_IDLE_MS = 60_000  # a writer that falls silent for this long is shut out, and its lock goes to the next
_UNSAFE = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
# A server that vanished without a word is noticed within half a minute. What the address says itself comes first.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "fallback_application_name": "nabladp",
}


class Postgres(Database):
    shared = True
    locked_head = "SELECT seq, hash FROM head FOR UPDATE"

    def __init__(self, address: str) -> None:
        options = read_address(address)
        self.label = label_of(options)
        self._connect = _connector(options)

    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine:
        # The engine does not know the address, and so cannot show it
        engine = create_engine("postgresql+psycopg://", creator=self._connect, poolclass=NullPool, hide_parameters=True)
        event.listen(engine, "begin", partial(_begin, int(1000 * min(patience, WAIT))))
        return engine

    def lock_creation(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('nabladp ledger'))"))

    def lock_tables(self, connection: Connection) -> None:
        connection.execute(text("LOCK TABLE head, entries, meta"))  # the head first, as writers do

    def guard(self, connection: Connection) -> None:
        for statement in rights.guards(_schema(connection)):
            connection.exec_driver_sql(statement)

    def unguard(self, connection: Connection) -> list[str]:
        schema = _schema(connection)
        members = rights.earlier_members(connection, schema)
        for statement in rights.removals(schema):
            connection.exec_driver_sql(statement)
        return rights.grants(schema, members) if any(members.values()) else []

    def may_void(self, connection: Connection) -> bool:
        marker = f"{_schema(connection)}.ledger_grantor()"
        query = text("SELECT has_function_privilege(current_user, :marker, 'EXECUTE')")
        return bool(connection.execute(query, {"marker": marker}).scalar_one())

    def rights_problems(self, connection: Connection) -> list[str]:
        return rights.problems(connection, _schema(connection))

    def unsafe_settings(self, connection: Connection) -> list[str]:
        return list(connection.execute(text(_UNSAFE)).scalars())

    def busy(self, error: DBAPIError) -> bool:
        return _state(error) in _BUSY

    def is_lost(self, error: DBAPIError) -> bool:
        """Whether the PostgreSQL connection broke; an error without a state means that the server was never there."""
        state = _state(error)
        silent = not state and isinstance(error, OperationalError)
        return error.connection_invalidated or silent or state.startswith("08") or state in _GONE

    def explain(self, error: DBAPIError) -> NablaDPError:
        state = _state(error)
        if self.busy(error):
            return locked_ledger(self.label)
        if state == "25006":
            return SourceError(f"The ledger {self.label!r} is on a server that only reads.", fix="Use the main server.")
        if state == "42501":
            return SourceError(
                f"This user has no right to do that in the ledger {self.label!r}.",
                fix="Ask a grantor or the owner: `nabladp ledger roles` prints the SQL that gives a role.",
                right=False,
            )
        if state.startswith("53") and state not in _GONE:
            return SourceError(
                f"The server of the ledger {self.label!r} is full.",
                fix="Free some space and try again; nothing was booked.",
            )
        if not state or self.is_lost(error) or state.startswith(("28", "3D")):
            return SourceError(
                f"The ledger {self.label!r} cannot be reached.",
                fix="Check the server, the database, the user and the password.",
            )
        return refused_request(self.label, state)


def read_address(address: str) -> dict[str, str]:
    """The connection options of a PostgreSQL address, by libpq's names."""
    url = _parse(address)
    if url is None or not _certain(address):
        raise _unreadable()
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise LedgerError(
            "A ledger lives in a file or in PostgreSQL.", fix="Give a file path or postgresql://host/database."
        )
    given = {"host": url.host, "port": url.port, "dbname": url.database, "user": url.username, "password": url.password}
    stated = {name: str(value) for name, value in given.items() if value not in (None, "")}
    return _DEFAULTS | {name: ",".join(values) for name, values in url.normalized_query.items()} | stated


def label_of(options: dict[str, str]) -> str:
    """A PostgreSQL ledger's host, port and database only."""
    port = options.get("port", "")
    host = options.get("host", "localhost") + (f":{port}" if port.isdecimal() else "")
    return f"postgresql://{host}/{options.get('dbname', '')}"


def _unreadable() -> LedgerError:
    return LedgerError(
        "The ledger's address cannot be read.",
        fix="Write postgresql://user@host/database, with %40 for an '@' and %2F for a '/' inside a name or password.",
    )


def _parse(address: str) -> URL | None:
    try:
        return make_url(address)
    except (ArgumentError, ValueError):  # it would repeat what it could not read
        return None


def _certain(address: str) -> bool:
    """Whether there is only one way to read a PostgreSQL address: at most one '@', and that before the first '/'."""
    host, *rest = re.split(r"[/?#]", address.split("://", 1)[1])
    return address.isprintable() and host.count("@") < 2 and not any("@" in part for part in rest)


def _connector(options: dict[str, str]) -> Callable[[], Any]:
    """A function that opens PostgreSQL connections.

    Only options of the server's own library are let through: the driver has some that would change what a transaction
    is.
    """
    try:
        import psycopg
        from psycopg.conninfo import make_conninfo
    except ImportError:
        raise MissingPart("Ledgers on PostgreSQL need psycopg.", fix="Install nabladp[postgres].") from None
    try:
        text = make_conninfo("", **options)
        for host in options.get("host", "").split(","):
            host.encode("utf-8" if host.startswith("/") else "idna")  # a folder of sockets, or a name
    except (psycopg.Error, TypeError, ValueError):
        text = ""
    if not text:
        raise _unreadable()
    return lambda: psycopg.connect(text, prepare_threshold=None)


def _begin(wait_ms: int, connection: Connection) -> None:
    if not connection.get_execution_options().get(WRITE, False):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE")
    connection.exec_driver_sql(
        f"SELECT set_config('lock_timeout', '{wait_ms}', true), set_config('synchronous_commit', 'on', true), "
        f"set_config('idle_in_transaction_session_timeout', '{_IDLE_MS}', true)"
    )


def _schema(connection: Connection) -> str:
    """The quoted name of the PostgreSQL schema that holds the ledger, or that a new one goes to."""
    query = (
        "SELECT quote_ident(coalesce((SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = to_regclass('entries')), current_schema()))"
    )
    return str(connection.execute(text(query)).scalar_one())


def _state(error: DBAPIError) -> str:
    original: Any = error.orig
    return str(getattr(original, "sqlstate", None) or "")  # psycopg's errors have it, other drivers' may not
