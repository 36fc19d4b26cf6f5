"""The books as they stand at the last entry: totals, limits and attributes in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nabladp.errors import LedgerError
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import Entry, Row
from nabladp.privacy.ledger.formats import check_format
from nabladp.privacy.ledger.rules import Spending, spending
from nabladp.privacy.ledger.totals import Keys, Tally, Totals, cost_of, keys_of, total_of
from nabladp.privacy.universe import Universe

if TYPE_CHECKING:
    from nabladp.privacy.ledger.transaction import Transaction


@dataclass(frozen=True)
class Standing:
    last: Row
    totals: Totals
    universe: Universe
    budget: Budget
    limits: tuple[Limit, ...]

    @cached_property
    def keys(self) -> Keys:
        return keys_of(self.universe, self.limits)

    @property
    def spending(self) -> list[Spending]:
        return spending(self.limits, self.keys, self.totals)


@dataclass
class Reader:
    """Reads the standing from the last entry. Limits and attributes are kept between calls: entries never change."""

    label: str
    ledger: str
    _limits: dict[int, tuple[Budget, tuple[Limit, ...]]] = field(default_factory=dict)
    _universes: dict[int, Universe] = field(default_factory=dict)

    def standing(self, transaction: Transaction, *, lock: bool = False) -> Standing:
        seq, hash_ = transaction.head(lock=lock)
        written, ledger = transaction.identity()
        if lock:
            check_format(written, self.label, older=False)  # another client may have brought it up to date meanwhile
        if ledger != self.ledger:
            raise LedgerError(
                f"The ledger {self.label!r} was replaced by another one while in use.", fix="Open it again."
            )
        row = transaction.at(seq)
        if row is None or row.hash != hash_ or not row.intact():
            raise broken(self.label)
        totals = Totals.from_json(row.entry().totals)
        budget, limits = self.limits(transaction, totals.budget)
        return Standing(row, totals, self.universe(transaction, totals.schema), budget, limits)

    def limits(self, transaction: Transaction, seq: int) -> tuple[Budget, tuple[Limit, ...]]:
        if seq not in self._limits:
            payload = self._entry(transaction, seq).payload
            limits = tuple(Limit.from_json(limit) for limit in payload["limits"])
            self._limits[seq] = Budget.from_json(payload["budget"]), limits
        return self._limits[seq]

    def universe(self, transaction: Transaction, seq: int) -> Universe:
        if seq not in self._universes:
            self._universes[seq] = Universe.from_json(self._entry(transaction, seq).payload["universe"])
        return self._universes[seq]

    def _entry(self, transaction: Transaction, seq: int) -> Entry:
        row = transaction.at(seq)
        if row is None or not row.intact():
            raise broken(self.label)
        return row.entry()


def broken(label: str) -> LedgerError:
    return LedgerError(
        f"The chain of the ledger {label!r} is broken: an entry was changed or is missing.",
        fix="Run `nabladp ledger verify` to see which, and restore the ledger from a backup.",
    )


def standing_guarantees(entries: Iterable[Entry]) -> list[Guarantee]:
    """What was spent and not given back: reservations and external releases, less the voided."""
    found: dict[int, Guarantee] = {}
    for entry in entries:
        guarantee = entry.guarantee
        if guarantee is not None:
            found[entry.seq] = guarantee
        elif entry.kind == "void" and entry.ref is not None:
            found.pop(entry.ref, None)
    return list(found.values())


def after_budget(totals: Totals, seq: int, old: Keys, new: Keys, replay: Callable[[], Iterable[Guarantee]]) -> Totals:
    """Totals under a new budget: kept for sets that stay, replayed from the guarantees for sets that are new."""
    fresh = {attributes: key for attributes, key in new.items() if attributes not in old}
    kept = {new[attributes] for attributes in new if attributes in old}
    spent: dict[str, Tally] = {key: tally for key, tally in totals.spent.items() if key in kept}
    if fresh:
        spent |= total_of(cost_of(guarantee, fresh) for guarantee in replay())
    return Totals(seq, totals.schema, spent)
