"""The ledger's tables, the few statements that touch them, and short transactions that are tried again where the
database was busy or went away for a while."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy.ledger.entry import FIRST, FORMAT, Row, broken_ledger, check_format

T = TypeVar("T")
PAGE = 500  # rows or names in one statement
WRITE = "ledger_write"  # the execution option that marks a transaction as a writing one
WAIT = 5.0  # the longest single wait inside the database; the store tries again until its own patience ends
_PAUSE, _LONGEST_PAUSE = 0.02, 1.0

_tables = MetaData()
meta = Table(
    "meta",
    _tables,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("ledger", Text, nullable=False),
    Column("created", Text, nullable=False),
)
entries = Table(
    "entries",
    _tables,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("ref", Integer),
    Column("time", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("totals", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
head = Table(
    "head",
    _tables,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)
_SPENDING = text("kind IN ('reserve', 'external')")  # spelled alike in index and query, so that the index is used
Index("entry_names", entries.c.name, unique=True, sqlite_where=_SPENDING, postgresql_where=_SPENDING)
Index("entry_ends", entries.c.ref, unique=True)  # an entry is referred to at most once
Index("entry_kinds", entries.c.kind, entries.c.seq)
TABLES = frozenset(_tables.tables)


class Database(ABC):
    """What differs between a SQLite file and a PostgreSQL server.

    Both promise the same: one writer at a time, a commit that has reached the disk, rows that cannot be changed. Labels
    and messages never hold a connection string, which may carry a password.
    """

    label: str  # safe to print
    shared: bool  # a server: tables of other programs may stand beside ours
    locked_head: str  # the query for the last entry that also keeps other writers out

    def check(self, *, write: bool, create: bool) -> None:
        """Refuse at once a database that can be seen to be no ledger without a connection."""
        return

    def exists(self) -> bool:
        """Whether there is a database to connect to."""
        return True

    @abstractmethod
    def engine(self, *, patience: float, create: bool = False, read_only: bool = False) -> Engine: ...

    def lock_creation(self, connection: Connection) -> None:
        """Keep others from creating the same ledger."""
        return

    def lock_tables(self, connection: Connection) -> None:
        """Keep every writer out of the ledger's tables."""
        return

    @abstractmethod
    def guard(self, connection: Connection) -> None:
        """Make the triggers, by which the database itself refuses to change the ledger's past."""

    @abstractmethod
    def unguard(self, connection: Connection) -> list[str]:
        """Remove the ledger's triggers of every format; returns the statements that give users their rights anew."""

    def may_void(self, connection: Connection) -> bool:
        """Whether this database user may take away the cost of a reservation."""
        return True

    def rights_problems(self, connection: Connection) -> list[str]:
        """Rights on the ledger that somebody has beyond the roles."""
        return []

    def unsafe_settings(self, connection: Connection) -> list[str]:
        """Database settings without which a commit may not survive a power cut."""
        return []

    @abstractmethod
    def busy(self, error: DBAPIError) -> bool: ...

    def is_lost(self, error: DBAPIError) -> bool:
        """Whether the database connection broke, or the server is not there just now."""
        return False

    @abstractmethod
    def explain(self, error: DBAPIError) -> NablaDPError: ...


class Transaction:
    """The statements of one transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database

    def identity(self) -> tuple[int, str]:
        """Format and id of the ledger, read in this transaction."""
        row = self._connection.execute(select(meta.c.format, meta.c.ledger)).first()
        return self._number_and_text(row) if row else (0, "")

    def head(self, *, lock: bool = False) -> tuple[int, str]:
        """Number and hash of the ledger's last entry; ``lock`` keeps other writers out until the transaction ends."""
        query = text(self._database.locked_head) if lock else select(head.c.seq, head.c.hash)
        row = self._connection.execute(query).first()
        return self._number_and_text(row) if row else (0, "")

    def _number_and_text(self, row: Any) -> tuple[int, str]:
        number, word = row
        if type(number) is not int or type(word) is not str:  # SQLite keeps any type in any column
            raise broken_ledger(self._database.label)
        return number, word

    def highest(self) -> int:
        return int(self._connection.execute(select(func.coalesce(func.max(entries.c.seq), 0))).scalar_one())

    def at(self, seq: int) -> Row | None:
        return self._first(_rows().where(entries.c.seq == seq))

    def by_name(self, name: str) -> Row | None:
        """The stored reservation or external release of this name."""
        return self._first(_rows().where(_SPENDING, entries.c.name == name))

    def end_of(self, seq: int) -> Row | None:
        """The stored entry that refers to this one."""
        return self._first(_rows().where(entries.c.ref == seq))

    def by_numbers(self, numbers: Sequence[int]) -> list[Row]:
        """The stored entries with these numbers, up to a page of them."""
        return self._all(_rows().where(entries.c.seq.in_(numbers))) if numbers else []

    def referring(self, numbers: Sequence[int], before: int) -> list[Row]:
        """The stored entries with a number below ``before`` that refer to these."""
        query = _rows().where(entries.c.ref.in_(numbers), entries.c.seq < before).order_by(entries.c.seq)
        return self._all(query) if numbers else []

    def names_in_use(self, names: Sequence[str], before: int | None = None) -> set[str]:
        """Those of the names that are in use in the ledger's tables."""
        used: set[str] = set()
        for start in range(0, len(names), PAGE):
            wanted = entries.c.name.in_(names[start : start + PAGE])
            query = select(entries.c.name).where(_SPENDING, wanted)
            used.update(
                self._connection.execute(query if before is None else query.where(entries.c.seq < before)).scalars()
            )
        return used

    def beginning_with(self, stem: str) -> int:
        """The number of names in use in the ledger's tables that begin with this."""
        alike = entries.c.name.startswith(stem, autoescape=True)
        query = select(func.count()).select_from(entries).where(_SPENDING, alike)
        return int(self._connection.execute(query).scalar_one())

    def unfinished(self) -> list[Row]:
        """Stored reservations that are not bound, failed or voided."""
        ends = entries.alias("ends")
        query = _rows().outerjoin(ends, ends.c.ref == entries.c.seq).order_by(entries.c.seq)
        return self._all(query.where(entries.c.kind == "reserve", ends.c.seq.is_(None)))

    def failed(self) -> list[Row]:
        """Stored failures that are not voided: their cost still counts."""
        ends = entries.alias("ends")
        query = _rows().outerjoin(ends, ends.c.ref == entries.c.seq).order_by(entries.c.seq)
        return self._all(query.where(entries.c.kind == "failed", ends.c.seq.is_(None)))

    def page(self, after: int) -> list[Row]:
        """The stored entries that follow this number. A damaged file may hand out the same ones without end."""
        rows = self._all(_rows().where(entries.c.seq > after).order_by(entries.c.seq).limit(PAGE))
        numbers = [after, *(row.seq for row in rows)]
        if not all(isinstance(number, int) for number in numbers) or any(a >= b for a, b in pairwise(numbers)):
            raise broken_ledger(self._database.label)
        return rows

    def walk(self) -> Iterator[Row]:
        """Every stored entry in order, a page at a time."""
        after = 0
        while rows := self.page(after):
            yield from rows
            after = rows[-1].seq

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows to the ledger's tables. The head follows by itself; where it does not, the triggers are gone, and
        nothing is written."""
        if rows:
            self._connection.execute(insert(entries), [vars(row) for row in rows])
            if self.head() != (rows[-1].seq, rows[-1].hash):
                raise broken_ledger(self._database.label)

    def tables(self) -> set[str]:
        return set(inspect(self._connection).get_table_names())

    def create(self, ledger: str, created: str) -> None:
        _tables.create_all(self._connection)
        self._connection.execute(insert(meta).values(id=1, format=FORMAT, ledger=ledger, created=created))
        self._connection.execute(insert(head).values(id=1, seq=0, hash=FIRST))
        self._database.guard(self._connection)

    def lock_creation(self) -> None:
        self._database.lock_creation(self._connection)

    def lock_tables(self) -> None:
        self._database.lock_tables(self._connection)

    def migrate(self) -> None:
        """Migrate the ledger's tables from any format that we can read: they stay, the triggers and rights are made
        anew."""
        rights = self._database.unguard(self._connection)
        self._connection.execute(update(meta).values(format=FORMAT))
        self._database.guard(self._connection)
        for statement in rights:
            self._connection.exec_driver_sql(statement)

    def may_void(self) -> bool:
        return self._database.may_void(self._connection)

    def rights_problems(self) -> list[str]:
        return self._database.rights_problems(self._connection)

    def unsafe_settings(self) -> list[str]:
        return self._database.unsafe_settings(self._connection)

    def _first(self, query: Select[Any]) -> Row | None:
        row = self._connection.execute(query).first()
        return Row(*row) if row else None

    def _all(self, query: Select[Any]) -> list[Row]:
        return [Row(*row) for row in self._connection.execute(query)]


def _rows() -> Select[Any]:
    return select(*entries.c)


class Store:
    """Each transaction has a connection of its own; waits for other writers, and for a server that it has once reached
    to come back, up to ``patience`` seconds."""

    def __init__(self, database: Database, *, read_only: bool, patience: float, create: bool = False) -> None:
        database.check(write=not read_only, create=create)
        self.database = database
        self.read_only = read_only
        self._patience = patience
        self._reached = False
        self._engine = database.engine(patience=patience, read_only=read_only)

    @property
    def label(self) -> str:
        return self.database.label

    def close(self) -> None:
        self._engine.dispose()

    def exists(self) -> bool:
        return self.database.exists() and self.read(self.present)

    def identity(self) -> str:
        """The ledger's id, once its format is known to be ours, or one that we can read if that is all we want."""
        written, ledger = self.read(lambda transaction: transaction.identity())
        check_format(written, self.label, older=self.read_only)
        return ledger

    def check_durable(self) -> None:
        """Refuse a database server that says "booked" before it is on the disk."""
        if self.database.shared and (off := self.read(lambda transaction: transaction.unsafe_settings())):
            raise LedgerError(
                f"The server of the ledger {self.label!r} runs with {' and '.join(off)} off: "
                "a power cut could undo what it says is booked.",
                fix="Turn it on; only a test ledger may do without.",
            )

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._transact(self._engine, work, write=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a write transaction: all of it is committed and on the disk when this returns.

        If it raises, none of it ever happened, unless the error says that this is not known: ``outcome`` is then
        "unknown". ``work`` may be called again after a commit that was not answered, and must then look whether it
        stands.
        """
        if self.read_only:
            raise LedgerError(f"The ledger {self.label!r} was opened for reading.", fix="Use Ledger.open to write.")
        return self._transact(self._engine, work, write=True)

    def create(self, ledger: str, created: str, first: Callable[[Transaction], T]) -> T | None:
        """Create the ledger's tables, triggers and first entry in one transaction; None if a ledger is already
        there."""

        def work(transaction: Transaction) -> T | None:
            transaction.lock_creation()
            if self.present(transaction):
                return None
            transaction.create(ledger, created)
            return first(transaction)

        engine = self.database.engine(patience=self._patience, create=True)
        try:
            return self._transact(engine, work, write=True)
        finally:
            engine.dispose()

    def _transact(self, engine: Engine, work: Callable[[Transaction], T], *, write: bool) -> T:
        deadline, pause = time.monotonic() + self._patience, _PAUSE
        unknown = False
        while True:
            done = False
            try:
                with engine.connect().execution_options(**{WRITE: write}) as connection, connection.begin():
                    self._reached = True
                    result = work(Transaction(connection, self.database))
                    done = True  # but for the commit
                return result
            except DBAPIError as error:
                busy, lost = self.database.busy(error), self.database.is_lost(error)
                problem = self.database.explain(error)
                unknown = (lost and write) if done else unknown
            # Out here the driver's error is gone, and with it the frames that know the address
            if not (busy or (lost and self._reached)) or time.monotonic() >= deadline:
                raise self._unknown() if unknown else problem
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE) if lost else _PAUSE

    def _unknown(self) -> NablaDPError:
        return SourceError(
            f"The server of the ledger {self.label!r} was lost while it booked; whether it did is not known.",
            fix="When it is back, see what `nabladp ledger` shows: what stands there is spent. "
            "Asked again with the same ticket, a reservation is never booked twice.",
            outcome="unknown",
        )

    def present(self, transaction: Transaction) -> bool:
        """Whether a ledger is in the database. An empty one (a creation cut short) has none; a foreign one is
        refused."""
        tables = transaction.tables()
        if tables >= TABLES:
            return True
        if tables & TABLES or (tables and not self.database.shared):
            raise LedgerError(
                f"{self.label!r} is a database of something else.",
                fix="Give the path of a ledger; a plan names its own in [budget].",
            )
        return False


def locked_ledger(label: str) -> LedgerError:
    return LedgerError(
        f"The ledger {label!r} stayed locked by another process.", fix="Try again when the other release is done."
    )


def refused_request(label: str, code: str) -> LedgerError:
    reason = f" ({code})" if code else ""
    return LedgerError(
        f"The database refused what was asked of the ledger {label!r}{reason}.",
        fix="Run `nabladp ledger` to see its state; nothing was booked.",
        code=code,
    )
