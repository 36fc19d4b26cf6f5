"""What a curator does with a ledger that exists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nabladp.errors import BudgetError
from nabladp.privacy import Budget, Guarantee, Ledger, Pure, Rho
from nabladp.privacy.ledger import Entry
from nabladp.schema import Schema


def open_existing(where: str | Path, schema: Schema | None = None, budget: Budget | None = None) -> Ledger:
    """Open for writing, as the private or test ledger that it is; never creates one."""
    with Ledger.read(where) as ledger:
        test = ledger.test
    return Ledger.open(where, schema, budget, test=test)


def book_external(
    where: str | Path,
    name: str,
    who: str,
    attributes: Sequence[str],
    pure: float | None = None,
    rho: float | None = None,
    note: str = "",
) -> Entry:
    """Book a release made elsewhere: differentially private per person at this cost, reading these attributes only."""
    if (pure is None) == (rho is None):
        raise BudgetError("An external release has a pure ε or a ρ.", fix="Give exactly one of pure and rho.")
    cost = Rho(rho) if rho is not None else Pure(pure if pure is not None else 0)
    with open_existing(where) as ledger:
        return ledger.record_external(Guarantee.touch(ledger.universe, attributes, cost), name, who, note)
