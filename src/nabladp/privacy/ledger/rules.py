"""What the ledger refuses: a limit broken, another schema, another budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy.budget import Limit
from nabladp.privacy.ledger.totals import NOTHING, Keys, Tally, Totals
from nabladp.privacy.units import UNIT, to_float
from nabladp.privacy.universe import Universe


@dataclass(frozen=True)
class Spending:
    """How one limit stands. ``spent_units`` is None when something without a bound was booked on it."""

    limit: Limit
    spent_units: int | None

    @property
    def left_units(self) -> int:
        return 0 if self.spent_units is None else max(0, self.limit.units - self.spent_units)

    @property
    def exceeded(self) -> bool:
        return self.spent_units is None or self.spent_units > self.limit.units

    @property
    def spent(self) -> float:
        return math.inf if self.spent_units is None else to_float(self.spent_units)

    @property
    def left(self) -> float:
        return float_below(self.left_units)

    def to_json(self) -> dict[str, Any]:
        return {
            "limit": self.limit.name,
            "attributes": sorted(self.limit.attributes),
            "measure": self.limit.measure,
            "value": self.limit.value.to_json(),
            "allowed": float(self.limit.value.amount()),
            "spent": None if self.spent_units is None else self.spent,
            "left": self.left,
            "exceeded": self.exceeded,
        }


def spending(limits: Iterable[Limit], keys: Keys, totals: Totals) -> list[Spending]:
    return [Spending(limit, totals.on(keys[limit.attributes]).units(pure=limit.pure)) for limit in limits]


def check_limits(standing: Iterable[Spending], cost: Mapping[str, Tally], keys: Keys, what: str) -> None:
    """Refuse a cost that breaks a limit. A limit the cost leaves alone is never in its way, even if exceeded."""
    broken: list[tuple[Spending, int | None]] = []
    for line in standing:
        asked = cost.get(keys[line.limit.attributes], NOTHING).units(pure=line.limit.pure)
        if asked is None or (asked > 0 and (line.spent_units is None or asked > line.limit.units - line.spent_units)):
            broken.append((line, asked))
    if broken:
        raise _exceeded(*broken[0], [line.limit.name for line, _ in broken], what)


def _exceeded(line: Spending, asked: int | None, names: Sequence[str], what: str) -> BudgetExceeded:
    limit, measure = line.limit, line.limit.measure
    facts: dict[str, Any] = {
        "limit": limit.name,
        "limits": list(names),
        "measure": measure,
        "requested": None if asked is None else to_float(asked),
        "spent": None if line.spent_units is None else line.spent,
        "left": line.left,
        "allowed": float(limit.value.amount()),
    }
    close = asked is not None and f"{facts['requested']:.6g}" == f"{facts['left']:.6g}"

    def show(number: float | None) -> str:
        return "without bound" if number is None else repr(number) if close else f"{number:.6g}"

    if asked is None:
        text = f"{what} has no bound in {measure} on the attributes of the limit {limit.name!r}"
        fix = (
            "Use a mechanism with a pure bound (Laplace noise), or give this limit as CDP or Rho."
            if limit.pure
            else "Leave out the attribute that has no bound."
        )
    else:
        text = f"{what} would break the limit {limit.name!r}: requested {measure} = {show(facts['requested'])}"
        fix = f"Ask for at most what is left, or leave out {_members(limit)}."
    text += f" (spent {show(facts['spent'])}, left {show(facts['left'])} of {show(facts['allowed'])})"
    text += f"; also {_listing(names[1:])}." if len(names) > 1 else "."
    return BudgetExceeded(text, fix=fix, **facts)


def _members(limit: Limit) -> str:
    return f"{next(iter(limit.attributes))!r}" if len(limit.attributes) == 1 else "some attributes of this limit"


def _listing(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


def float_below(units: int) -> float:
    """The units as a double that is never above the true value: what is left must not look larger than it is."""
    value = units / UNIT
    return math.nextafter(value, -math.inf) if Fraction(value) * UNIT > units else value


def widened(ours: Universe, theirs: Universe) -> Universe:
    """Our attributes with their new derived columns, or a refusal that names what differs."""
    for problem in (
        _difference("has no attribute", set(theirs.roots) - set(ours.roots)),
        _difference("also has the attribute", set(ours.roots) - set(theirs.roots)),
        _difference("protects the attribute", theirs.public - ours.public),
        _difference("holds for public the attribute", ours.public - theirs.public),
        _difference(
            "derives from other sources the column",
            {n for n, s in theirs.derived.items() if n in ours.derived and set(s) != set(ours.derived[n])},
        ),
    ):
        if problem:
            raise LedgerError(
                f"This is a ledger from another schema: it {problem}.",
                fix="Use the schema it was opened with, or a ledger of its own for the new schema.",
            )
    return Universe(ours.roots, {**theirs.derived, **ours.derived}, ours.public)


def _difference(text: str, names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{text} {listed[0]!r}{more}" if listed else ""


def check_same_budget(recorded: Sequence[Limit], given: Sequence[Limit]) -> None:
    """The ledger owns its budget: another one is refused, naming the first limit that differs."""
    ours, theirs = _by_set(recorded), _by_set(given)
    for key in (*ours, *theirs):
        was, now = ours.get(key, []), theirs.get(key, [])
        if [limit.units for limit in was] != [limit.units for limit in now]:
            name = (was or now)[0].name
            raise LedgerError(
                f"The ledger has another budget: the limit {name!r} is {_values(was)} in the ledger and "
                f"{_values(now)} in the budget given.",
                fix="Use the ledger's own budget, or change it on record with `nabladp ledger change-budget` "
                "(in Python ledger.change_budget).",
                limit=name,
            )


def same_budget(recorded: Sequence[Limit], given: Sequence[Limit]) -> bool:
    try:
        check_same_budget(recorded, given)
    except LedgerError:
        return False
    return True


def _by_set(limits: Sequence[Limit]) -> dict[tuple[frozenset[str], bool], list[Limit]]:
    grouped: dict[tuple[frozenset[str], bool], list[Limit]] = {}
    for limit in limits:
        grouped.setdefault((limit.attributes, limit.pure), []).append(limit)
    return {key: sorted(alike, key=lambda limit: limit.units) for key, alike in grouped.items()}


def _values(limits: Sequence[Limit]) -> str:
    return " and ".join(repr(limit.value) for limit in limits) or "absent"
