"""Ledger: what was spent, on which attributes, by which release. Nothing is ever deleted.

The order of a release is: reserve (durable, before a row is read), read, run, write, bind. A crash in between leaves
the reservation unfinished and its cost spent, until the curator voids it by name with a reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nabladp.errors import LedgerError
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.ledger.entry import FORMAT, Draft, now
from nabladp.privacy.ledger.pen import Pen
from nabladp.privacy.ledger.rules import check_same_budget, widened
from nabladp.privacy.ledger.standing import Reader
from nabladp.privacy.ledger.writing import Book, budget_payload
from nabladp.privacy.universe import HasAttributes, Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Store
    from nabladp.privacy.ledger.transaction import Transaction

PATIENCE = 60.0  # seconds to wait for other writers before giving up


class Ledger(Book):
    """Open with :meth:`open`, look at with :meth:`read`. Safe to use from many processes and threads at once."""

    @classmethod
    def open(
        cls,
        where: str | Path,
        attributes: HasAttributes | Iterable[str] | None = None,
        budget: Budget | None = None,
        *,
        test: bool = False,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Create the ledger, or open it and check that schema, budget and ``test`` are the ones it was made with.

        ``attributes`` (a schema) and ``budget`` may be left out for a ledger that exists. Only a ``test`` ledger
        takes seeded releases, and every entry of it says so.
        """
        from nabladp.privacy.ledger.store import Store

        universe = None if attributes is None else Universe.of(attributes)
        limits = None if universe is None or budget is None else budget.limits(universe)
        may_create = universe is not None and budget is not None
        store = Store.at(where, read_only=False, create=may_create, patience=patience)
        if not test:
            store.check_durable()
        if not store.exists():
            if universe is None or budget is None or limits is None:
                raise LedgerError(
                    f"{store.label!r} holds no ledger yet.", fix="Give a schema and a budget to create one."
                )
            cls._create(store, universe, budget, limits, test)
        ledger = cls(store, store.identity())
        try:
            ledger.check_agrees(universe, budget, test=test)
        except Exception:
            ledger.close()
            raise
        return ledger

    @classmethod
    def read(cls, where: str | Path) -> Ledger:
        """Look at an existing ledger; nothing can be written, and no file is ever created."""
        from nabladp.privacy.ledger.store import Store

        store = Store.at(where, read_only=True, create=False, patience=PATIENCE)
        if not store.exists():
            raise LedgerError(f"{store.label!r} holds no ledger yet.", fix="A release creates it.")
        return cls(store, store.identity())

    @classmethod
    def exists(cls, where: str | Path) -> bool:
        """Whether there is a ledger. Looks only."""
        from nabladp.privacy.ledger.dialect import place_of
        from nabladp.privacy.ledger.store import Store

        if not place_of(where).exists():
            return False
        store = Store.at(where, read_only=True, create=False, patience=PATIENCE)
        try:
            return store.exists()
        finally:
            store.close()

    @classmethod
    def migrate(cls, where: str | Path) -> int:
        """Bring a ledger of an older format up to ours, in one transaction and on record; returns the format it had.
        Entries stay as they are. On PostgreSQL only the owner of the tables can do it."""
        from nabladp.privacy.ledger.store import Store

        store = Store.at(where, read_only=False, create=False, patience=PATIENCE)
        if not store.exists():
            raise LedgerError(f"{store.label!r} holds no ledger yet.", fix="A release creates it.")

        def work(transaction: Transaction) -> int:
            written = transaction.migrate()
            if written != FORMAT:
                standing = Reader(store.label, transaction.identity()[1]).standing(transaction)
                first = transaction.at(1)
                pen = Pen(transaction, standing, test=first is not None and first.entry().test)
                pen.add(Draft("format", "format", {"from": written, "format": FORMAT}))
                pen.write_down()
            return written

        try:
            return store.write(work)
        finally:
            store.close()

    @staticmethod
    def role_statements(
        curators: Iterable[str] = (), auditors: Iterable[str] = (), schema: str = "public"
    ) -> tuple[str, ...]:
        """SQL for the owner of a PostgreSQL ledger to run: curators may read and append, auditors may read."""
        from nabladp.privacy.ledger.roles import statements

        return statements(tuple(curators), tuple(auditors), schema)

    @staticmethod
    def _create(store: Store, universe: Universe, budget: Budget, limits: Sequence[Limit], test: bool) -> None:
        ledger, created = str(uuid.uuid4()), now()
        payload = {
            "ledger": ledger,
            "format": FORMAT,
            "test": test,
            "universe": universe.to_json(),
            **budget_payload(budget, limits),
        }

        def first(transaction: Transaction) -> None:
            pen = Pen(transaction, None, test=test)
            pen.add(Draft("open", "ledger", payload))
            pen.write_down()

        store.create(ledger, created, first)

    def check_agrees(self, universe: Universe | None, budget: Budget | None, *, test: bool) -> None:
        """Refuse another schema, another budget, or a private use of a test ledger and the reverse."""
        if self.test != test:
            kind, other = ("test", "private") if self.test else ("private", "test")
            raise LedgerError(
                f"{self.label!r} is a {kind} ledger and cannot serve as a {other} one.",
                fix="Leave the seed out."
                if test
                else "Give it a seed (--test-seed), or use another ledger for what is private.",
            )
        standing = self._standing()
        known = standing.universe if universe is None else widened(standing.universe, universe)
        self._given = known
        if budget is not None and budget.to_json() != standing.budget.to_json():
            check_same_budget(standing.limits, budget.limits(known))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
