"""Looking at a ledger: entries, what is spent and left, whether the chain still holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple

from nabladp.displayed import Displayed
from nabladp.errors import LedgerError
from nabladp.person import Person
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Figure, Guarantee
from nabladp.privacy.ledger.entry import Entry, Row, broken_ledger
from nabladp.privacy.ledger.history import Follower, Problem, problems
from nabladp.privacy.ledger.limits import Spending
from nabladp.privacy.ledger.people import has_spent, other_person
from nabladp.privacy.ledger.state import State, standing_guarantees
from nabladp.privacy.universe import Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.store import Store, Transaction

Which = Entry | int | str  # a reservation: its entry, its number or its name


class Head(NamedTuple):
    seq: int
    hash: str


class LedgerView(Displayed):
    """Every answer is read afresh from the ledger, which other processes may be writing to, and only after all entries
    were found legal. ``verify``, ``head`` and ``format`` also answer for a broken ledger."""

    displayed_as = "ledger"

    def __init__(self, store: Store, ledger: str) -> None:
        self._store = store
        self._follower = Follower(store.label, ledger)
        self.id = ledger

    def close(self) -> None:
        self._store.close()

    @property
    def test(self) -> bool:
        """Whether this ledger is for tests; then it takes seeded releases, and nothing in it is private."""
        return self._state().test

    @property
    def label(self) -> str:
        """The ledger's location, without any password."""
        return self._store.label

    @property
    def format(self) -> int:
        """The format of the ledger's tables; an older one can be read, and brought up to date."""
        return self._store.read(lambda transaction: transaction.identity())[0]

    @property
    def head(self) -> Head:
        return Head(*self._store.read(lambda transaction: transaction.head()))

    @property
    def universe(self) -> Universe:
        return self._state().universe

    @property
    def budget(self) -> Budget:
        """The ledger's budget in force."""
        budget = self._state().budget
        if budget is None:
            raise broken_ledger(self.label)
        return budget

    @property
    def person(self) -> Person | None:
        """What one person is in the ledger; None where the version that wrote it did not put that on record."""
        return self._state().person

    def check_person(self, person: Person) -> None:
        """Refuse people of another kind than those on whom something was spent."""
        known = self.person
        settled = known is not None and known.agrees(person)
        if not settled and (known is not None or person.id is not None) and has_spent(self.entries()):
            raise other_person(known, person)

    def spent(self) -> list[Spending]:
        """Every limit of the ledger with what is spent and left."""
        return self._state().spending

    def entries(self, last: int | None = None, after: int | None = None) -> Iterator[Entry]:
        """The ledger's entries in order: all, the ``last`` few, or those ``after`` a number.

        Read a page at a time, blocking no writer; entries written meanwhile are left out.
        """
        end = self._state().seq
        start = max(after or 0, 0 if last is None else end - max(last, 0))
        return (row.entry() for row in takewhile(lambda row: row.seq <= end, self._rows(start)))

    def entry(self, name: str) -> Entry:
        """The ledger's reservation or external release of this name."""
        self._state()
        return self._store.read(lambda transaction: self._find(transaction, name))

    def bound(self, name: str) -> str | None:
        """The digest of the release that was bound to this reservation, if one was."""
        self._state()

        def find(transaction: Transaction) -> str | None:
            end = transaction.end_of(self._find(transaction, name).seq)
            return None if end is None else end.entry().digest

        return self._store.read(find)

    def unfinished(self) -> list[Entry]:
        """The ledger's reservations that are not bound, failed or voided: a release under way, or one that crashed."""
        self._state()
        return [row.entry() for row in self._store.read(lambda transaction: transaction.unfinished())]

    def failed(self) -> list[Entry]:
        """Recorded failures in the ledger that nobody has voided yet: they still count."""
        self._state()
        return [row.entry() for row in self._store.read(lambda transaction: transaction.failed())]

    def guarantee(self) -> Guarantee:
        """All guarantees in the ledger that stand, composed: its figure for any set is what was spent on that set."""
        universe = self.universe
        parts = standing_guarantees(self.entries())
        return Guarantee.compose(universe, (Guarantee(universe, part.terms) for part in parts))

    def spent_on(self, names: Iterable[str] | str) -> Figure:
        """What was spent, by the ledger, on any set of attributes, limited or not."""
        return self.guarantee().figure(names)

    def verify(self) -> list[Problem]:
        """Verify the ledger: every entry that was changed, is missing, stands out of order or breaks a rule, and every
        right beyond the roles."""
        return self._store.read(lambda transaction: list(problems(transaction)))

    def _state(self) -> State:
        return self._store.read(self._follower.state)

    def _rows(self, after: int = 0) -> Iterator[Row]:
        while rows := self._store.read(methodcaller("page", after)):
            yield from rows
            after = rows[-1].seq

    def _at(self, transaction: Transaction, seq: int) -> Entry:
        row = transaction.at(seq)
        if row is None:
            raise broken_ledger(self.label) if seq == 1 else _unknown(f"entry {seq}")
        return row.entry()

    def _find(self, transaction: Transaction, which: Which) -> Entry:
        if isinstance(which, Entry):
            entry = self._at(transaction, which.seq)
            if entry.hash != which.hash:
                raise LedgerError(f"The entry {which.name!r} is from another ledger.", fix="Use the ledger it is from.")
            return entry
        if isinstance(which, int):
            return self._at(transaction, which)
        row = transaction.by_name(which)
        if row is None:
            raise _unknown(f"release {which!r}")
        return row.entry()


def _unknown(what: str) -> LedgerError:
    return LedgerError(f"The ledger has no {what}.", fix="Run `nabladp ledger` to see what it has.")
