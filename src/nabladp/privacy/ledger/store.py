"""The ledger's tables and the few statements that touch them, in SQLAlchemy Core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
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
    bindparam,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from nabladp.errors import LedgerError
from nabladp.privacy.ledger.dialect import WRITE, Place, place_of
from nabladp.privacy.ledger.entry import FIRST, FORMAT, Row

T = TypeVar("T")
_PAGE = 500
_PAUSE = 0.02

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
Index("entry_ends", entries.c.ref, unique=True)  # a reservation is bound or voided, once
Index("entry_kinds", entries.c.kind, entries.c.seq)


class Transaction:
    """The statements of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def identity(self) -> tuple[int, str]:
        """Format and id of the ledger."""
        row = self._connection.execute(select(meta.c.format, meta.c.ledger)).first()
        return (int(row[0]), str(row[1])) if row else (0, "")

    def head(self, *, lock: bool = False) -> tuple[int, str]:
        """Number and hash of the last entry; ``lock`` keeps other writers out until the transaction ends."""
        query = select(head.c.seq, head.c.hash)
        row = self._connection.execute(query.with_for_update() if lock else query).first()
        return (int(row[0]), str(row[1])) if row else (0, "")

    def highest(self) -> int:
        return int(self._connection.execute(select(func.coalesce(func.max(entries.c.seq), 0))).scalar_one())

    def at(self, seq: int) -> Row | None:
        return self._first(_rows().where(entries.c.seq == seq))

    def named(self, name: str) -> Row | None:
        """The reservation or external release of this name."""
        return self._first(_rows().where(_SPENDING, entries.c.name == name))

    def end_of(self, seq: int) -> Row | None:
        """What bound or voided this reservation."""
        return self._first(_rows().where(entries.c.ref == seq))

    def taken(self, names: Sequence[str]) -> set[str]:
        """Those of the names that are in use."""
        found: set[str] = set()
        for start in range(0, len(names), _PAGE):
            asked = entries.c.name.in_(names[start : start + _PAGE])
            found.update(self._connection.execute(select(entries.c.name).where(_SPENDING, asked)).scalars())
        return found

    def beginning_with(self, stem: str) -> int:
        """How many names in use begin with this."""
        alike = entries.c.name.startswith(stem, autoescape=True)
        query = select(func.count()).select_from(entries).where(_SPENDING, alike)
        return int(self._connection.execute(query).scalar_one())

    def unfinished(self) -> list[Row]:
        ends = entries.alias("ends")
        query = _rows().outerjoin(ends, ends.c.ref == entries.c.seq).order_by(entries.c.seq)
        return self._all(query.where(entries.c.kind == "reserve", ends.c.seq.is_(None)))

    def page(self, after: int) -> list[Row]:
        return self._all(_rows().where(entries.c.seq > after).order_by(entries.c.seq).limit(_PAGE))

    def walk(self) -> Iterator[Row]:
        """Every entry in order, a page at a time."""
        after = 0
        while rows := self.page(after):
            yield from rows
            after = rows[-1].seq

    def append(self, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.execute(insert(entries), [vars(row) for row in rows])
            move = update(head).values(seq=bindparam("to"), hash=bindparam("by"))
            self._connection.execute(move, [{"to": row.seq, "by": row.hash} for row in rows])

    def tables(self) -> set[str]:
        return set(inspect(self._connection).get_table_names())

    def create(self, place: Place, ledger: str, created: str) -> None:
        _tables.create_all(self._connection)
        self._connection.execute(insert(meta).values(id=1, format=FORMAT, ledger=ledger, created=created))
        self._connection.execute(insert(head).values(id=1, seq=0, hash=FIRST))
        for trigger in place.triggers:
            self._connection.exec_driver_sql(trigger)

    def _first(self, query: Select[Any]) -> Row | None:
        found = self._connection.execute(query).first()
        return Row(*found) if found else None

    def _all(self, query: Select[Any]) -> list[Row]:
        return [Row(*found) for found in self._connection.execute(query)]


def _rows() -> Select[Any]:
    return select(*entries.c)


class Store:
    """Short transactions, each on a connection of its own; waits for other writers up to ``patience`` seconds."""

    def __init__(self, place: Place, *, read_only: bool, patience: float) -> None:
        self.place = place
        self.read_only = read_only
        self._patience = patience
        self._engine = place.engine(patience=patience, read_only=read_only)

    @classmethod
    def at(cls, where: str | Path, *, read_only: bool, create: bool, patience: float) -> Store:
        place = place_of(where)
        place.check(write=not read_only, create=create)
        return cls(place, read_only=read_only, patience=patience)

    @property
    def label(self) -> str:
        return self.place.label

    def close(self) -> None:
        self._engine.dispose()

    def exists(self) -> bool:
        return self.place.exists() and self.read(self.present)

    def identity(self) -> str:
        """The ledger's id, once its format is known to be ours."""
        written, ledger = self.read(lambda transaction: transaction.identity())
        if written != FORMAT:
            age, fix = ("newer", "Update nabladp.") if written > FORMAT else ("older", "Use the version that wrote it.")
            raise LedgerError(f"The ledger {self.label!r} has the {age} format {written}, not {FORMAT}.", fix=fix)
        return ledger

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._transact(self._engine, work, write=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """All of ``work`` is committed and on the disk when this returns, or none of it ever happened."""
        if self.read_only:
            raise LedgerError(f"The ledger {self.label!r} was opened for reading.", fix="Use Ledger.open to write.")
        return self._transact(self._engine, work, write=True)

    def create(self, ledger: str, created: str, first: Callable[[Transaction], T]) -> T | None:
        """Tables, triggers and first entry in one transaction; None if another process was faster."""

        def work(transaction: Transaction) -> T | None:
            if self.present(transaction):
                return None
            transaction.create(self.place, ledger, created)
            return first(transaction)

        engine = self.place.engine(patience=self._patience, create=True)
        try:
            return self._transact(engine, work, write=True, creating=True)
        finally:
            engine.dispose()

    def _transact(self, engine: Engine, work: Callable[[Transaction], T], *, write: bool, creating: bool = False) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                with engine.connect().execution_options(**{WRITE: write}) as connection, connection.begin():
                    if creating:
                        self.place.lock_creation(connection)
                    return work(Transaction(connection))
            except DBAPIError as error:
                if not self.place.busy(error) or time.monotonic() >= deadline:
                    raise self.place.explain(error) from None
            time.sleep(_PAUSE)

    def present(self, transaction: Transaction) -> bool:
        """Whether a ledger is here. An empty database (a creation cut short) is none; a foreign one is refused."""
        found, ours = transaction.tables(), set(_tables.tables)
        if ours <= found:
            return True
        if found & ours or (found and not self.place.shared):
            raise LedgerError(
                f"{self.label!r} is a database of something else.", fix="Give the path of a ledger or a new file."
            )
        return False
