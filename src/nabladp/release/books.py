"""What a curator does with a ledger that exists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabladp.errors import BudgetError
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Pure, Rho
from nabladp.privacy.budget import members
from nabladp.privacy.ledger import Entry
from nabladp.schema import Schema


def open_existing(where: str | Path, schema: Schema | None = None, budget: Budget | None = None) -> Ledger:
    """Open for writing, as the private or test ledger that it is; never creates one."""
    with Ledger.read(where) as ledger:
        test = ledger.test
    return Ledger.open(where, schema, budget, test=test)


def spent_on(ledger: Ledger, sets: Sequence[str], delta: float) -> list[dict[str, Any]]:
    """What everything booked tells about sets written "a+b". Nothing is composed when no set is asked for."""
    from nabladp.release.explain import explain

    if not sets:
        return []
    standing = ledger.guarantee()
    return [explain(standing, members(standing.universe, text), delta) for text in sets]


def book_external(
    where: str | Path,
    name: str,
    who: str,
    attributes: Sequence[str],
    pure: float | None = None,
    rho: float | None = None,
    cdp: float | None = None,
    note: str = "",
) -> Entry:
    """Book a release made elsewhere: differentially private per person at this cost, reading these attributes only."""
    given = [kind(value) for kind, value in ((Pure, pure), (Rho, rho), (CDP, cdp)) if value is not None]
    if len(given) != 1:
        raise BudgetError("An external release has one cost.", fix="Give exactly one of pure, rho and cdp.")
    (cost,) = given
    with open_existing(where) as ledger:
        return ledger.record_external(Guarantee.touch(ledger.universe, attributes, cost), name, who, note)
