"""A ledger in a PostgreSQL database, which many machines may share.

Every transaction has a connection of its own, so that nothing is carried over a fork or a restart of the server, and
no prepared statement outlives the session that knows it. Writers take the row of the head first and read afterwards.
One after the other, they need no stricter isolation than READ COMMITTED, under which each statement sees all that was
committed before. Readers see one moment (REPEATABLE READ).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from nabladp.errors import MissingPart, NablaDPError, SourceError
from nabladp.privacy.ledger import guards
from nabladp.privacy.ledger.address import label_of, read_address, unreadable
from nabladp.privacy.ledger.dialect import WAIT, WRITE, locked, refused

_BUSY = ("40001", "40P01", "55P03")  # a conflict, a deadlock, a lock that was waited for too long
_GONE = ("57P01", "57P02", "57P03", "57P05", "25P03", "53300")  # shut down, starting up, idle too long, too many
_IDLE_MS = 60_000  # a writer that falls silent for this long is shut out, and its lock goes to the next
_UNSAFE = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"


class Postgres:
    shared = True
    locked_head = f"SELECT seq, hash FROM {guards.LOCKED_HEAD}"

    def __init__(self, address: str) -> None:
        options = read_address(address)
        self.label = label_of(options)
        self._connect = _connector(options)

    def check(self, *, write: bool, create: bool) -> None:
        """Nothing to see before the server is asked."""

    def exists(self) -> bool:
        return True

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
        for statement in guards.postgres(_schema(connection)):
            connection.exec_driver_sql(statement)

    def unguard(self, connection: Connection) -> None:
        """With a function go the triggers that call it."""
        for name in guards.FUNCTIONS:
            connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {name} CASCADE")

    def switched_off(self, connection: Connection) -> list[str]:
        """Settings without which the server cannot promise that a commit survives a power cut."""
        return list(connection.execute(text(_UNSAFE)).scalars())

    def busy(self, error: DBAPIError) -> bool:
        return _state(error) in _BUSY

    def lost(self, error: DBAPIError) -> bool:
        """The connection broke, or the server is not there just now. No state: it was never told one."""
        state = _state(error)
        silent = not state and isinstance(error, OperationalError)
        return error.connection_invalidated or silent or state.startswith("08") or state in _GONE

    def explain(self, error: DBAPIError) -> NablaDPError:
        state = _state(error)
        if self.busy(error):
            return locked(self.label)
        if state == "25006":
            return SourceError(f"The ledger {self.label!r} is on a server that only reads.", fix="Use the main server.")
        if state == "42501":
            return SourceError(
                f"This user has no right to do that in the ledger {self.label!r}.",
                fix="Ask the owner of the ledger for it: `nabladp ledger roles` says how.",
            )
        if state.startswith("53") and state not in _GONE:
            return SourceError(
                f"The server of the ledger {self.label!r} is full.",
                fix="Free some space and try again; nothing was booked.",
            )
        if not state or self.lost(error) or state.startswith(("28", "3D")):
            return SourceError(
                f"The ledger {self.label!r} cannot be reached.",
                fix="Check the server, the database, the user and the password.",
            )
        return refused(self.label, state)


def _connector(options: dict[str, str]) -> Callable[[], Any]:
    """Opens connections. Only options of the server's own library are let through: the driver has some that would
    change what a transaction is."""
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
        raise unreadable()
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
    """The quoted name of the one that new tables go to."""
    return str(connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one())


def _state(error: DBAPIError) -> str:
    original: Any = error.orig
    return str(getattr(original, "sqlstate", None) or "")
