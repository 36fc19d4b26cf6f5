"""The ledger's tables and the few statements that touch them, in SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
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

from nabladp.privacy.ledger.dialect import Place
from nabladp.privacy.ledger.entry import FIRST, FORMAT, Row
from nabladp.privacy.ledger.formats import check_format, statements_from
from nabladp.privacy.ledger.standing import broken

_PAGE = 500

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
TABLES = frozenset(_tables.tables)


class Transaction:
    """The statements of one transaction."""

    def __init__(self, connection: Connection, place: Place) -> None:
        self._connection = connection
        self._place = place

    def identity(self) -> tuple[int, str]:
        """Format and id of the ledger."""
        row = self._connection.execute(select(meta.c.format, meta.c.ledger)).first()
        return (int(row[0]), str(row[1])) if row else (0, "")

    def head(self, *, lock: bool = False) -> tuple[int, str]:
        """Number and hash of the last entry; ``lock`` keeps other writers out until the transaction ends."""
        query = text(self._place.locked_head) if lock else select(head.c.seq, head.c.hash)
        row = self._connection.execute(query).first()
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
        """The head follows by itself; where it does not, the triggers are gone, and nothing is written."""
        if rows:
            self._connection.execute(insert(entries), [vars(row) for row in rows])
            if self.head() != (rows[-1].seq, rows[-1].hash):
                raise broken(self._place.label)

    def tables(self) -> set[str]:
        return set(inspect(self._connection).get_table_names())

    def lock_creation(self) -> None:
        self._place.lock_creation(self._connection)

    def create(self, ledger: str, created: str) -> None:
        _tables.create_all(self._connection)
        self._connection.execute(insert(meta).values(id=1, format=FORMAT, ledger=ledger, created=created))
        self._connection.execute(insert(head).values(id=1, seq=0, hash=FIRST))
        self._place.guard(self._connection)

    def migrate(self) -> int:
        """Make the tables those of our format; returns the format they had."""
        self._place.lock_tables(self._connection)
        written, _ = self.identity()
        check_format(written, self._place.label, older=True)
        if written != FORMAT:
            self._place.unguard(self._connection)
            for statement in statements_from(written):
                self._connection.exec_driver_sql(statement)
            self._connection.execute(update(meta).values(format=FORMAT))
            self._place.guard(self._connection)
        return written

    def switched_off(self) -> list[str]:
        return self._place.switched_off(self._connection)

    def _first(self, query: Select[Any]) -> Row | None:
        found = self._connection.execute(query).first()
        return Row(*found) if found else None

    def _all(self, query: Select[Any]) -> list[Row]:
        return [Row(*found) for found in self._connection.execute(query)]


def _rows() -> Select[Any]:
    return select(*entries.c)
