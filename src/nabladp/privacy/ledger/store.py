"""Short transactions, tried again where the database was busy or went away for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from nabladp.errors import LedgerError, NablaDPError, SourceError
from nabladp.privacy.ledger.dialect import WRITE, Place, place_of
from nabladp.privacy.ledger.formats import check_format
from nabladp.privacy.ledger.transaction import TABLES, Transaction

T = TypeVar("T")
_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class Store:
    """Each transaction has a connection of its own; waits for other writers, and for a server that it has once reached
    to come back, up to ``patience`` seconds."""

    def __init__(self, place: Place, *, read_only: bool, patience: float) -> None:
        self.place = place
        self.read_only = read_only
        self._patience = patience
        self._reached = False
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
        """The ledger's id, once its format is known to be ours, or one that we can read if that is all we want."""
        written, ledger = self.read(lambda transaction: transaction.identity())
        check_format(written, self.label, older=self.read_only)
        return ledger

    def check_durable(self) -> None:
        """Refuse a server that says "booked" before it is on the disk."""
        if self.place.shared and (off := self.read(lambda transaction: transaction.switched_off())):
            raise LedgerError(
                f"The server of the ledger {self.label!r} runs with {' and '.join(off)} off: "
                "a power cut could undo what it says is booked.",
                fix="Turn it on; only a test ledger may do without.",
            )

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._transact(self._engine, work, write=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """All of ``work`` is committed and on the disk when this returns. If it raises, none of it ever happened,
        unless the error says that this is not known: ``outcome`` is then "unknown".

        ``work`` may be called again after a commit that was not answered, and must then look whether it stands.
        """
        if self.read_only:
            raise LedgerError(f"The ledger {self.label!r} was opened for reading.", fix="Use Ledger.open to write.")
        return self._transact(self._engine, work, write=True)

    def create(self, ledger: str, created: str, first: Callable[[Transaction], T]) -> T | None:
        """Tables, triggers and first entry in one transaction; None if another process was faster."""

        def work(transaction: Transaction) -> T | None:
            transaction.lock_creation()
            if self.present(transaction):
                return None
            transaction.create(ledger, created)
            return first(transaction)

        engine = self.place.engine(patience=self._patience, create=True)
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
                    result = work(Transaction(connection, self.place))
                    done = True  # but for the commit
                return result
            except DBAPIError as error:
                busy, lost = self.place.busy(error), self.place.lost(error)
                problem = self.place.explain(error)
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
        """Whether a ledger is here. An empty database (a creation cut short) is none; a foreign one is refused."""
        found = transaction.tables()
        if found >= TABLES:
            return True
        if found & TABLES or (found and not self.place.shared):
            raise LedgerError(
                f"{self.label!r} is a database of something else.", fix="Give the path of a ledger or a new file."
            )
        return False
