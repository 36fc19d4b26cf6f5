"""Where a ledger lives: a SQLite file or a PostgreSQL database. All that differs between the two stands here.

Both promise the same: one writer at a time, a commit that has reached the disk, rows that cannot be changed. Labels
and messages never hold a connection string, which may carry a password.
"""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from nabladp.errors import LedgerError, NablaDPError, SourceError

WRITE = "ledger_write"  # the execution option that marks a transaction as a writing one
_WAIT = 5.0  # the longest single wait inside the database; the store tries again until its own patience ends


class Place(Protocol):
    label: str  # safe to print
    shared: bool  # whether tables of other programs may stand beside ours
    triggers: tuple[str, ...]

    def check(self, *, write: bool, create: bool) -> None: ...
    def exists(self) -> bool: ...
    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine: ...
    def lock_creation(self, connection: Connection) -> None: ...
    def busy(self, error: DBAPIError) -> bool: ...
    def explain(self, error: DBAPIError) -> NablaDPError: ...


def place_of(where: str | Path) -> Place:
    if isinstance(where, str) and "://" in where:
        return Postgres(where)
    if str(where) in ("", ".", ":memory:"):
        raise LedgerError("A ledger must outlive the process.", fix="Give it a file, e.g. 'ledger.db'.")
    return SQLite(Path(where))


class SQLite:
    shared = False
    triggers = (
        *(
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
            for table, verb in (
                ("entries", "UPDATE"),
                ("entries", "DELETE"),
                ("meta", "UPDATE"),
                ("meta", "DELETE"),
                ("head", "DELETE"),
            )
        ),
        # INSERT OR REPLACE would delete silently, so a number that is taken is refused before it can
        "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
        "WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END",
        "CREATE TRIGGER head_in_step BEFORE UPDATE ON head WHEN NEW.seq <> OLD.seq + 1 "
        "OR NOT EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) "
        "BEGIN SELECT RAISE(ABORT, 'the head only moves to the next entry'); END",
    )

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.label = str(path)

    def check(self, *, write: bool, create: bool) -> None:
        """What the file system can say at once, before SQLite says it less clearly."""
        folder = self.path.parent
        if not folder.is_dir():
            raise SourceError(
                f"The folder of the ledger {self.label!r} does not exist.", fix="Create the folder first."
            )
        if self.path.is_dir():
            raise SourceError(f"The ledger {self.label!r} is a folder.", fix="Give the path of a file.")
        if not self.path.exists() and not create:
            raise SourceError(
                f"There is no ledger {self.label!r}.",
                fix="Check the path; a release creates the ledger, and so does Ledger.open with a schema and a budget.",
            )
        target = self.path if self.path.exists() else folder
        if not os.access(target, os.R_OK):
            raise SourceError(f"The ledger {self.label!r} may not be read.", fix="Ask for permission to read it.")
        if write and not (os.access(target, os.W_OK) and os.access(folder, os.W_OK)):
            raise self._read_only()

    def exists(self) -> bool:
        return self.path.exists()

    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine:
        # Only creation may make a file: a ledger deleted while in use must not come back empty.
        address = f"file:{quote(os.fsencode(self.path))}?mode={'rwc' if create else 'rw'}"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(address, uri=True, timeout=min(patience, _WAIT), isolation_level=None)
            connection.execute("PRAGMA synchronous = EXTRA")  # a commit is on the disk, its folder entry too
            connection.execute(f"PRAGMA query_only = {int(read_only)}")
            return connection

        # A connection lives for one transaction: none is carried across a fork, where SQLite's locks would be lost.
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine

    def lock_creation(self, connection: Connection) -> None:
        """BEGIN IMMEDIATE already holds the only write lock."""

    def busy(self, error: DBAPIError) -> bool:
        return _sqlite_name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def explain(self, error: DBAPIError) -> NablaDPError:
        name = _sqlite_name(error)
        if self.busy(error):
            return LedgerError(
                f"The ledger {self.label!r} stayed locked by another process.",
                fix="Try again when the other release is done.",
            )
        if name == "SQLITE_NOTADB":
            return LedgerError(
                f"{self.label!r} is not a ledger: it is not a SQLite file.",
                fix="Give the path of a ledger or a new file.",
            )
        if name.startswith("SQLITE_CORRUPT"):
            return LedgerError(f"The ledger {self.label!r} is damaged.", fix="Restore it from a backup.")
        if name.startswith("SQLITE_READONLY"):
            return self._read_only()
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM")):
            return SourceError(
                f"The ledger {self.label!r} cannot be opened.",
                fix="The file must exist, and its folder be writable for the journal.",
            )
        if name == "SQLITE_FULL":
            return SourceError(
                f"The disk of the ledger {self.label!r} is full.",
                fix="Free some space and try again; nothing was booked.",
            )
        if name.startswith("SQLITE_IOERR"):
            return SourceError(
                f"The disk of the ledger {self.label!r} is full or failing.",
                fix="Mend that, then see what `nabladp ledger` shows before trying again.",
            )
        return _refused(self.label, name)

    def _read_only(self) -> SourceError:
        return SourceError(
            f"The ledger {self.label!r} is read-only.", fix="Allow writing to the file and to its folder (the journal)."
        )


class Postgres:
    shared = True
    triggers = (
        "CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the ledger only grows'; END $$",
        *(
            f"CREATE TRIGGER {table}_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows()"
            for table in ("entries", "meta")
        ),
        "CREATE TRIGGER head_stays BEFORE DELETE OR TRUNCATE ON head "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows()",
        "CREATE FUNCTION ledger_head_in_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.seq <> OLD.seq + 1 OR NOT EXISTS "
        "(SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) "
        "THEN RAISE EXCEPTION 'the head only moves to the next entry'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER head_in_step BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION ledger_head_in_step()",
    )

    def __init__(self, address: str) -> None:
        try:
            url = make_url(address)
        except (ArgumentError, ValueError):
            raise LedgerError("The ledger's address cannot be read.", fix="Write postgresql://host/database.") from None
        if not url.drivername.startswith("postgresql"):
            raise LedgerError(
                f"A ledger cannot live in {url.drivername!r}.", fix="Use a file path or postgresql://host/database."
            )
        self._url = url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
        self.label = f"postgresql://{url.host or 'localhost'}/{url.database or ''}"

    def check(self, *, write: bool, create: bool) -> None:
        """Nothing to see before the server is asked."""

    def exists(self) -> bool:
        return True

    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine:
        try:
            engine = create_engine(self._url, poolclass=NullPool, hide_parameters=True)
        except (ImportError, NoSuchModuleError):
            raise LedgerError(
                "The PostgreSQL driver is not installed.", fix="Run: pip install 'nabladp[postgres]'."
            ) from None
        event.listen(engine, "begin", partial(_begin_postgres, int(1000 * min(patience, _WAIT))))
        return engine

    def lock_creation(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('nabladp ledger'))"))

    def busy(self, error: DBAPIError) -> bool:
        return _postgres_state(error) in ("40001", "40P01", "55P03")

    def explain(self, error: DBAPIError) -> NablaDPError:
        state = _postgres_state(error)
        if self.busy(error):
            return LedgerError(
                f"The ledger {self.label!r} stayed locked by another process.",
                fix="Try again when the other release is done.",
            )
        if state in ("25006", "42501"):
            return SourceError(
                f"The ledger {self.label!r} is read-only for this user.", fix="Ask for write permission."
            )
        if state.startswith("53"):
            return SourceError(
                f"The server of the ledger {self.label!r} is full.",
                fix="Free some space and try again; nothing was booked.",
            )
        if not state or state.startswith(("08", "28", "3D", "57")):
            return SourceError(
                f"The ledger {self.label!r} cannot be reached.", fix="Check the server, the database and the password."
            )
        return _refused(self.label, state)


def _begin(connection: Connection) -> None:
    # The write lock is taken before the first read, so that what is checked is what is written upon.
    writing = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _begin_postgres(wait_ms: int, connection: Connection) -> None:
    if not connection.get_execution_options().get(WRITE, False):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{wait_ms}ms'")
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")


def _sqlite_name(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlite_errorname", ""))


def _postgres_state(error: DBAPIError) -> str:
    original: Any = error.orig
    return str(getattr(original, "sqlstate", None) or getattr(original, "pgcode", None) or "")


def _refused(label: str, code: str) -> LedgerError:
    reason = f" ({code})" if code else ""
    return LedgerError(
        f"The database refused what was asked of the ledger {label!r}{reason}.",
        fix="Run `nabladp ledger` to see its state; nothing was booked.",
        code=code,
    )
