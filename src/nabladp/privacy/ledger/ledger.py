"""Ledger: what was spent, on which attributes, by which release. Nothing is ever deleted.

The order of a release is: reserve (durable, before a row is read), read, run, write, bind. A crash in between leaves
the reservation unfinished and its cost spent, until it is voided by name with a reason.

SQLAlchemy is loaded when a ledger is opened, not when this is imported.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nabladp.checks import expect
from nabladp.errors import LedgerError
from nabladp.person import Person
from nabladp.privacy.budget import Budget
from nabladp.privacy.ledger.entry import FORMAT, Draft, NoLedger, check_format, no_ledger, now
from nabladp.privacy.ledger.history import Follower
from nabladp.privacy.ledger.limits import check_same_budget, extend_universe
from nabladp.privacy.ledger.state import State
from nabladp.privacy.ledger.writing import Book, Pen, budget_payload
from nabladp.privacy.universe import Attributes, Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Database, Store, Transaction

PATIENCE = 60.0  # seconds to wait for other writers before giving up
_ADDRESS = re.compile(r"://|:[^/\s]*@|\bpassword\s*=|^\s*postgres\w*:", re.IGNORECASE)


class Ledger(Book):
    """Make one with :meth:`create`, open it with :meth:`open`, look at it with :meth:`read`. Safe to use from many
    processes and threads at once."""

    @classmethod
    def create(
        cls,
        where: str | Path,
        attributes: Attributes,
        budget: Budget,
        *,
        person: Person | None = None,
        test: bool = False,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Create a new ledger for these attributes (a schema) and this budget; refused where there is one already.

        All releases of a ledger must agree on what a ``person`` is (default: one row). The first may still decide it.
        Only a ``test`` ledger takes seeded releases, and every entry of it says so. On PostgreSQL the user who creates
        it owns the tables.
        """
        universe = Universe.of(attributes)
        limits = expect(budget, Budget, "The budget of a ledger", "Give Budget(per_attribute=CDP(0.5)).").limits(
            universe
        )
        store = _store(where, patience=patience, create=True)
        if not test:
            store.check_durable()
        ledger = str(uuid.uuid4())
        payload = {
            "ledger": ledger,
            "format": FORMAT,
            "test": test,
            "universe": universe.to_json(),
            "person": (person or Person()).unit,
            **budget_payload(budget, limits),
        }

        def first(transaction: Transaction) -> str:
            pen = Pen(transaction, State(ledger), test=test)
            pen.add(Draft("open", "ledger", payload))
            pen.write_down()
            return ledger

        # Asked again after an answer that was lost, the database may know this very ledger already
        if store.create(ledger, now(), first) is None and store.identity() != ledger:
            raise LedgerError(
                f"There is a ledger {store.label!r} already.",
                fix="Leave out --new-ledger (in Python new_ledger) to use it, or choose another path for a new one.",
            )
        created = cls(store, ledger)
        created._given = universe
        return created

    @classmethod
    def open(
        cls,
        where: str | Path,
        attributes: Attributes | None = None,
        budget: Budget | None = None,
        *,
        person: Person | None = None,
        test: bool = False,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Open an existing ledger; never creates one. Schema, budget and person, where given, must be the recorded
        ones."""
        universe = None if attributes is None else Universe.of(attributes)
        store = _store(where, patience=patience)
        if not test:
            store.check_durable()
        ledger = cls(store, _identity(store))
        try:
            ledger.check_agrees(universe, budget, test=test, person=person)
        except Exception:
            ledger.close()
            raise
        return ledger

    @classmethod
    def read(cls, where: str | Path) -> Ledger:
        """Open an existing ledger to look at; nothing can be written, and no file is ever created."""
        store = _store(where, read_only=True)
        return cls(store, _identity(store))

    @classmethod
    def exists(cls, where: str | Path) -> bool:
        """Whether there is a ledger here. Looks only."""
        try:
            store = _store(where, read_only=True)
        except NoLedger:
            return False
        try:
            return store.exists()
        finally:
            store.close()

    @classmethod
    def label_of(cls, where: str | Path) -> str:
        """The ledger's location, without any password."""
        return _database(where).label

    @classmethod
    def migrate(cls, where: str | Path) -> int:
        """Bring a ledger of an older format up to ours, in one transaction and on record; returns the format it had.

        Entries stay as they are, and must all be legal. On PostgreSQL only the owner of the tables can do it.
        """
        store = _store(where)
        if not store.exists():
            raise no_ledger(store.label)

        def work(transaction: Transaction) -> int:
            transaction.lock_tables()
            written, ledger = transaction.identity()
            check_format(written, store.label, older=True)
            if written != FORMAT:
                state = Follower(store.label, ledger).state(transaction)
                transaction.migrate()
                pen = Pen(transaction, state, test=state.test)
                pen.add(Draft("format", "format", {"from": written, "format": FORMAT}))
                pen.write_down()
            return written

        try:
            return store.write(work)
        finally:
            store.close()

    @staticmethod
    def role_statements(
        curators: Iterable[str] = (),
        auditors: Iterable[str] = (),
        grantors: Iterable[str] = (),
        *,
        schema: str = "public",
    ) -> tuple[str, ...]:
        """SQL that gives users their roles, for the owner of a PostgreSQL ledger to run.

        Grantors change the budget, record external releases and void; curators reserve, bind and record failures;
        auditors read.
        """
        from nabladp.privacy.ledger.rights import role_statements

        members = {"grantor": tuple(grantors), "curator": tuple(curators), "auditor": tuple(auditors)}
        return role_statements(members, schema)

    def check_agrees(
        self, universe: Universe | None, budget: Budget | None, *, test: bool, person: Person | None = None
    ) -> None:
        """Refuse to open a ledger with another schema, another budget, people of another kind, or a private use of a
        test ledger and the reverse."""
        state = self._state()
        if state.test != test:
            kind, other = ("test", "private") if state.test else ("private", "test")
            raise LedgerError(
                f"{self.label!r} is a {kind} ledger and cannot serve as a {other} one.",
                fix="Leave the seed out."
                if test
                else "Give it a seed (--test-seed), or use another ledger for what is private.",
            )
        if person is not None:
            self.check_person(person)
        known = state.universe if universe is None else extend_universe(state.universe, universe)
        self._given = known
        if budget is not None and budget != state.budget:
            check_same_budget(state.limits, budget.limits(known))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _store(where: str | Path, *, read_only: bool = False, patience: float = PATIENCE, create: bool = False) -> Store:
    from nabladp.privacy.ledger.store import Store

    return Store(_database(where), read_only=read_only, patience=patience, create=create)


def _database(where: str | Path) -> Database:
    """The database of a ledger: a PostgreSQL server for an address, a SQLite file for a path.

    An address that is merely misspelled is never taken for a path, because paths are shown.
    """
    if isinstance(where, str) and _ADDRESS.search(where):
        from nabladp.privacy.ledger.postgres import Postgres

        return Postgres(where)
    if not isinstance(where, (str, Path)) or str(where) in ("", ".", ":memory:"):
        raise LedgerError("A ledger must outlive the process.", fix="Give it a file, e.g. 'ledger.db'.")
    from nabladp.privacy.ledger.sqlite import SQLite

    return SQLite(Path(where))


def _identity(store: Store) -> str:
    if not store.exists():
        raise no_ledger(store.label)
    return store.identity()
