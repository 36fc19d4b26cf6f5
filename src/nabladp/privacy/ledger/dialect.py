"""Where a ledger lives: a SQLite file (here) or a PostgreSQL database. All that differs is behind ``Place``.

Both promise the same: one writer at a time, a commit that has reached the disk, rows that cannot be changed. Labels
and messages never hold a connection string, which may carry a password.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy.ledger import guards
from nabladp.privacy.ledger.address import is_address

WRITE = "ledger_write"  # the execution option that marks a transaction as a writing one
WAIT = 5.0  # the longest single wait inside the database; the store tries again until its own patience ends


class Place(Protocol):
    label: str  # safe to print
    shared: bool  # a server: tables of other programs may stand beside ours
    locked_head: str  # the query for the last entry that also keeps other writers out

    def check(self, *, write: bool, create: bool) -> None: ...
    def exists(self) -> bool: ...
    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine: ...
    def lock_creation(self, connection: Connection) -> None: ...
    def lock_tables(self, connection: Connection) -> None: ...
    def guard(self, connection: Connection) -> None: ...
    def unguard(self, connection: Connection) -> None: ...
    def switched_off(self, connection: Connection) -> list[str]: ...
    def busy(self, error: DBAPIError) -> bool: ...
    def lost(self, error: DBAPIError) -> bool: ...
    def explain(self, error: DBAPIError) -> NablaDPError: ...


def place_of(where: str | Path) -> Place:
    if isinstance(where, str) and is_address(where):
        from nabladp.privacy.ledger.postgres import Postgres

        return Postgres(where)
    if str(where) in ("", ".", ":memory:"):
        raise LedgerError("A ledger must outlive the process.", fix="Give it a file, e.g. 'ledger.db'.")
    return SQLite(Path(where))


class SQLite:
    shared = False
    locked_head = "SELECT seq, hash FROM head"  # BEGIN IMMEDIATE has locked the file already

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
            connection = sqlite3.connect(address, uri=True, timeout=min(patience, WAIT), isolation_level=None)
            connection.execute("PRAGMA synchronous = EXTRA")  # a commit is on the disk, its folder entry too
            connection.execute(f"PRAGMA query_only = {int(read_only)}")
            return connection

        # A connection lives for one transaction: none is carried across a fork, where SQLite's locks would be lost.
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine

    def lock_creation(self, connection: Connection) -> None:
        """BEGIN IMMEDIATE already holds the only write lock."""

    def lock_tables(self, connection: Connection) -> None:
        """Likewise."""

    def guard(self, connection: Connection) -> None:
        for statement in guards.SQLITE:
            connection.exec_driver_sql(statement)

    def unguard(self, connection: Connection) -> None:
        for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
            connection.exec_driver_sql('DROP TRIGGER "{}"'.format(name.replace('"', '""')))

    def switched_off(self, connection: Connection) -> list[str]:
        """Nothing that makes a commit durable: ``connect`` turns it on."""
        return []

    def busy(self, error: DBAPIError) -> bool:
        return _sqlite_name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def lost(self, error: DBAPIError) -> bool:
        """A file does not go away for a while."""
        return False

    def explain(self, error: DBAPIError) -> NablaDPError:
        name = _sqlite_name(error)
        if self.busy(error):
            return locked(self.label)
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
        return refused(self.label, name)

    def _read_only(self) -> SourceError:
        return SourceError(
            f"The ledger {self.label!r} is read-only.", fix="Allow writing to the file and to its folder (the journal)."
        )


def _begin(connection: Connection) -> None:
    # The write lock is taken before the first read, so that what is checked is what is written upon.
    writing = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _sqlite_name(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlite_errorname", ""))


def locked(label: str) -> LedgerError:
    return LedgerError(
        f"The ledger {label!r} stayed locked by another process.", fix="Try again when the other release is done."
    )


def refused(label: str, code: str) -> LedgerError:
    reason = f" ({code})" if code else ""
    return LedgerError(
        f"The database refused what was asked of the ledger {label!r}{reason}.",
        fix="Run `nabladp ledger` to see its state; nothing was booked.",
        code=code,
    )
