"""A ledger in a SQLite file, on a local disk."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy.ledger.entry import NoLedger, no_ledger
from nabladp.privacy.ledger.store import WAIT, WRITE, Database, locked_ledger, refused_request

_ONLY_GROWS = "the ledger only grows"
# The part of the rules (state.py) that SQL can see; the rest is checked by every client.
_LAWFUL = (
    "CASE "
    "WHEN NEW.seq = 1 OR NEW.kind = 'open' THEN NEW.seq = 1 AND NEW.kind = 'open' AND NEW.ref IS NULL "
    "WHEN NEW.kind IN ('format', 'schema', 'person', 'budget', 'reserve', 'external') THEN NEW.ref IS NULL "
    "WHEN NEW.kind IN ('bind', 'failed', 'void') THEN EXISTS (SELECT 1 FROM entries AS referred "
    "WHERE referred.seq = NEW.ref AND referred.name = NEW.name AND (referred.kind = 'reserve' "
    "OR (referred.kind = 'failed' AND NEW.kind = 'void'))) "
    "ELSE 0 END"
)
_GUARDS = (
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END"
        for table, verb in (
            ("entries", "UPDATE"),
            ("entries", "DELETE"),
            ("meta", "UPDATE"),
            ("meta", "DELETE"),
            ("head", "DELETE"),
        )
    ),
    # INSERT OR REPLACE deletes silently whatever is in its way, so that is refused before it can
    *(
        f"CREATE TRIGGER {table}_no_second BEFORE INSERT ON {table} WHEN EXISTS (SELECT 1 FROM {table}) "
        f"BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END"
        for table in ("meta", "head")
    ),
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NOT EXISTS (SELECT 1 FROM head WHERE seq = NEW.seq - 1 AND hash = NEW.previous) "
    "OR EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq OR ref = NEW.ref) "
    "OR (NEW.kind IN ('reserve', 'external') AND EXISTS "
    "(SELECT 1 FROM entries WHERE name = NEW.name AND kind IN ('reserve', 'external'))) "
    f"BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END",
    f"CREATE TRIGGER entries_lawful BEFORE INSERT ON entries WHEN NOT ({_LAWFUL}) "
    "BEGIN SELECT RAISE(ABORT, 'this entry is not allowed here'); END",
    "CREATE TRIGGER head_in_step BEFORE UPDATE ON head WHEN NEW.seq <> OLD.seq + 1 "
    "OR NOT EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) "
    "BEGIN SELECT RAISE(ABORT, 'the head only moves to the next entry'); END",
    "CREATE TRIGGER head_follows AFTER INSERT ON entries BEGIN UPDATE head SET seq = NEW.seq, hash = NEW.hash; END",
)


class SQLite(Database):
    shared = False
    locked_head = "SELECT seq, hash FROM head"  # BEGIN IMMEDIATE has locked the file already

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.label = str(path)

    def check(self, *, write: bool, create: bool) -> None:
        """Refuse a SQLite file at once where the file system can say why, before SQLite says it less clearly."""
        folder = self.path.parent
        try:
            os.fsencode(self.path)  # half of a surrogate pair is in no file name
            there = self.path.exists()
            self._check_file(folder, there, create)
        except (OSError, ValueError) as error:
            if isinstance(error, NablaDPError):
                raise
            raise SourceError(
                f"{self.label!r} cannot be the path of a ledger.", fix="Give a short path, such as 'ledger.db'."
            ) from None
        target = self.path if there else folder
        if not os.access(target, os.R_OK):
            raise SourceError(f"The ledger {self.label!r} may not be read.", fix="Ask for permission to read it.")
        if write and not (os.access(target, os.W_OK) and os.access(folder, os.W_OK)):
            raise self._read_only_ledger()

    def _check_file(self, folder: Path, there: bool, create: bool) -> None:
        if not folder.is_dir():
            raise NoLedger(
                f"The folder of the ledger {self.label!r} does not exist.",
                fix="Check the path, and that its disk is mounted; create the folder for a new ledger.",
            )
        if self.path.is_dir():
            raise SourceError(f"The ledger {self.label!r} is a folder.", fix="Give the path of a file.")
        if there and not self.path.is_file():
            raise SourceError(f"The ledger {self.label!r} is not a regular file.", fix="Give the path of a file.")
        if not there and not create:
            raise no_ledger(self.label)

    def exists(self) -> bool:
        try:
            return self.path.exists()
        except (OSError, ValueError):
            return False

    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine:
        # Only creation may make a file: a ledger deleted while in use must not come back empty.
        address = f"file:{quote(os.fsencode(self.path))}?mode={'rwc' if create else 'rw'}"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(address, uri=True, timeout=min(patience, WAIT), isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = EXTRA")  # a commit is on the disk, its folder entry too
                connection.execute(f"PRAGMA query_only = {int(read_only)}")
            except UnicodeDecodeError:  # SQLite's own message repeats the damaged bytes of the file
                raise sqlite3.DatabaseError("damaged") from None
            return connection

        # A connection lives for one transaction: none is carried across a fork, where SQLite's locks would be lost.
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine

    def guard(self, connection: Connection) -> None:
        for statement in _GUARDS:
            connection.exec_driver_sql(statement)

    def unguard(self, connection: Connection) -> list[str]:
        for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
            connection.exec_driver_sql('DROP TRIGGER "{}"'.format(name.replace('"', '""')))
        return []

    def busy(self, error: DBAPIError) -> bool:
        return _code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def explain(self, error: DBAPIError) -> NablaDPError:
        name = _code(error)
        if self.busy(error):
            return locked_ledger(self.label)
        if name == "SQLITE_NOTADB":
            return LedgerError(
                f"{self.label!r} is not a ledger: it is not a SQLite file.",
                fix="Give the path of a ledger; a plan names its own in [budget].",
            )
        if name.startswith("SQLITE_CORRUPT"):
            return LedgerError(f"The ledger {self.label!r} is damaged.", fix="Restore it from a backup.")
        if name.startswith("SQLITE_READONLY"):
            return self._read_only_ledger()
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
        return refused_request(self.label, name)

    def _read_only_ledger(self) -> SourceError:
        return SourceError(
            f"The ledger {self.label!r} is read-only.", fix="Allow writing to the file and to its folder (the journal)."
        )


def _begin(connection: Connection) -> None:
    # The write lock is taken before the first read, so that what is checked is what is written upon.
    writing = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _code(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlite_errorname", ""))  # only errors that SQLite itself raised have it
