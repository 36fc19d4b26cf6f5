"""What a data curator does besides releasing: check a table against its schema, look after a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabladp.errors import BudgetError
from nabladp.privacy import CDP, Budget, Guarantee, Ledger, Pure, Rho
from nabladp.privacy.budget import members
from nabladp.privacy.ledger import Entry
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.tables import Finding, Table, check_table, open_table
from nabladp.tables import values_at_fault as values_at_fault  # for the command line

# ---- before the first release ----------------------------------------------------------------------------------------


def check_source(source: Any, schema: Schema | str | Path) -> list[Finding]:
    """Check a source against a schema: every column that breaks a rule, with the rule and the fix; an empty list when
    all is well."""
    return check_opened(open_for_check(source, schema))


def open_for_check(source: Any, schema: Schema | str | Path) -> Table:
    return open_table(source, schema if isinstance(schema, Schema) else Schema.load(schema))


def check_opened(table: Table) -> list[Finding]:
    """The same for a table that is open; one without rows is refused."""
    findings = list(check_table(table))
    if not findings:
        table.n  # noqa: B018  (refuses a table without rows)
    return findings


# ---- with a ledger that exists ---------------------------------------------------------------------------------------


def open_existing(where: str | Path, schema: Schema | None = None, budget: Budget | None = None) -> Ledger:
    """Open a ledger for writing, as the private or test ledger that it is; never creates one."""
    with Ledger.read(where) as ledger:
        test = ledger.test
    return Ledger.open(where, schema, budget, test=test)


def spent_on(ledger: Ledger, sets: Sequence[str], delta: float) -> list[dict[str, Any]]:
    """What everything booked in a ledger tells about sets written "a+b". Nothing is composed when no set is asked
    for."""
    from nabladp.release.cost import explain

    if not sets:
        return []
    standing = ledger.guarantee()
    return [explain(standing, members(standing.universe, text), delta) for text in sets]


def external_cost(pure: float | None = None, rho: float | None = None, cdp: float | None = None) -> BudgetValue:
    """The cost of an external release, given in one of three measures."""
    given = [kind(value) for kind, value in ((Pure, pure), (Rho, rho), (CDP, cdp)) if value is not None]
    if len(given) != 1:
        raise BudgetError("An external release has one cost.", fix="Give exactly one of pure, rho and cdp.")
    return given[0]


def book_external(
    where: str | Path,
    name: str,
    who: str,
    attributes: Sequence[str],
    cost: BudgetValue,
    note: str = "",
) -> Entry:
    """Book a release made elsewhere in a ledger: differentially private per person at this cost, reading these
    attributes only."""
    with open_existing(where) as ledger:
        return ledger.record_external(Guarantee.touch(ledger.universe, attributes, cost), name, who, note)
