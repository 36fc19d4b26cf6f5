"""The rules of the ledger, as a state machine: what the books say after an entry, or why that entry is illegal.

Everything that opens, reads, writes, verifies or migrates a ledger goes through :func:`apply`, so that an entry that
breaks a rule stops every use, whoever put it there. A writer takes the totals of a new entry from here as well.

| kind       | allowed when                                                   | changes                              |
|------------|----------------------------------------------------------------|--------------------------------------|
| `open`     | it is the first entry, and only then                           | sets attributes, budget and person   |
| `format`   | the format rises, to one that we know                          | the format                           |
| `schema`   | only derived columns are added, each with its sources          | the attributes                       |
| `person`   | nothing was ever spent; or it was not on record, without an ID | what one person is                   |
| `budget`   | every limit is what the stated budget gives                    | the budget; totals of new sets       |
| `reserve`  | the name is new, no limit breaks, no seed on a private ledger  | adds its cost                        |
| `external` | the name is new; it has happened, so limits may break          | adds its cost                        |
| `bind`     | it refers to a reservation that is still open                  | ends it; the cost stays              |
| `failed`   | likewise                                                       | ends it; the cost stays              |
| `void`     | it refers to an open reservation, or to a `failed` entry       | takes away the cost                  |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from nabladp.errors import LedgerError, NablaDPError
from nabladp.person import Person
from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.ledger.entry import FIRST, FORMAT, Entry, Row, canonical, check_name, check_text
from nabladp.privacy.ledger.limits import (
    Keys,
    LimitRequest,
    Spending,
    Tally,
    Totals,
    after_budget,
    check_limits,
    cost_of,
    extend_universe,
    keys_of,
    spending,
)
from nabladp.privacy.ledger.people import has_spent, other_person, stated_person
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Approx, limit_units

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Past(ABC):
    """The earlier entries that a new one can refer to."""

    @abstractmethod
    def entry(self, seq: int) -> Entry | None: ...

    @abstractmethod
    def end_of(self, seq: int) -> Entry | None:
        """The ledger entry that bound or voided this one, or recorded its failure."""

    @abstractmethod
    def has_name(self, name: str) -> bool:
        """Whether a reservation or external release of this name exists in the ledger."""

    @abstractmethod
    def entries(self) -> Iterable[Entry]: ...


@dataclass(frozen=True)
class State:
    """The books after entry ``seq``: all that decides whether the next entry is legal."""

    ledger: str
    seq: int = 0
    hash: str = FIRST
    format: int = 0
    test: bool = False
    universe: Universe = field(default_factory=lambda: Universe(()))
    person: Person | None = None  # None: a ledger of a version that did not put it on record
    budget: Budget | None = None
    limits: tuple[Limit, ...] = ()
    totals: Totals = field(default_factory=lambda: Totals(1, 1, {}))
    keys: Keys = field(default_factory=dict, compare=False, repr=False)
    # Costs by the guarantee's text: most releases of a ledger resemble an earlier one
    costs: dict[str, dict[str, Tally]] = field(default_factory=dict, compare=False, repr=False)

    def under(self, budget: Budget, limits: tuple[Limit, ...], universe: Universe) -> State:
        """The same ledger books with these limits and attributes in force."""
        keys = keys_of(universe, limits)
        return replace(self, budget=budget, limits=limits, universe=universe, keys=keys, costs={})

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("ledger", "seq", "hash", "format", "test")},
            "universe": self.universe.to_json(),
            "person": None if self.person is None else self.person.unit,
            "budget": None if self.budget is None else self.budget.to_json(),
            "limits": [limit.to_json() for limit in self.limits],
            "totals": self.totals.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        plain = {name: data[name] for name in ("ledger", "seq", "hash", "format", "test")}
        universe = Universe.from_json(data["universe"])
        person = None if data["person"] is None else Person.from_json(data["person"])
        state = cls(**plain, person=person, totals=Totals.from_json(data["totals"]))
        return state.under(*stated_limits(data, universe), universe)

    @property
    def spending(self) -> list[Spending]:
        return spending(self.limits, self.keys, self.totals)

    def check_affordable(self, cost: Mapping[str, Tally], what: str) -> None:
        """Refuse a cost that breaks a limit of the ledger."""
        touched = [limit for limit in self.limits if self.keys[limit.attributes] in cost]
        lines = []
        for line in spending(touched, self.keys, self.totals):
            tally = cost[self.keys[line.limit.attributes]]
            lines.append(LimitRequest(line, tally.units(pure=line.limit.pure)))
        check_limits(lines, what)

    def cost(self, guarantee: Mapping[str, Any]) -> dict[str, Tally]:
        """What a guarantee, as recorded, adds to each limited set; refused if it speaks of other attributes."""
        text = canonical(guarantee)
        if text not in self.costs:
            read = Guarantee.from_json(guarantee)
            if extend_universe(self.universe, read.universe).derived.keys() != self.universe.derived.keys():
                raise LedgerError("The guarantee has a derived column that is not on record.", fix=_FIX)
            self.costs[text] = cost_of(read, self.keys)
        return self.costs[text]


class IllegalEntry(LedgerError):
    """An entry that the rules do not allow. ``what`` is order, changed, totals or illegal."""

    def __init__(self, message: str, *, fix: str = "", seq: int = 0, what: str = "illegal", **fields: Any) -> None:
        super().__init__(message, fix=fix or _FIX, seq=seq, what=what, **fields)
        self.seq, self.what = seq, what


_FIX = "Run `nabladp ledger verify` to see every problem, and restore the ledger from a backup."


def next_state(state: State, row: Row, past: Past) -> State:
    """The ledger's books after this row, which must be the next one, unchanged and legal."""
    for problem in link_problems(state, row):
        raise problem
    after, recorded = judge(state, row, past)
    if after.totals != recorded:
        raise wrong_totals(row)
    return after


def link_problems(state: State, row: Row) -> list[IllegalEntry]:
    """Whether the row follows the last one in the ledger's chain of hashes."""
    problems = []
    if row.seq != state.seq + 1 or row.previous != state.hash:
        problems.append(
            IllegalEntry(f"Entry {row.seq} does not follow the entry before it.", seq=row.seq, what="order")
        )
    if not row.intact():
        problems.append(IllegalEntry(f"Entry {row.seq} was changed after it was written.", seq=row.seq, what="changed"))
    return problems


def judge(state: State, row: Row, past: Past) -> tuple[State, Totals]:
    """The ledger's books after this row, by the rules, and the totals that it states, which must be the same."""
    try:
        entry = row.entry()
        after = apply(state, entry, past)
        recorded = Totals.from_json(entry.totals)
    except NablaDPError as error:
        raise IllegalEntry(f"Entry {row.seq} is not allowed: {error.message}", seq=row.seq) from None
    except _UNREADABLE:
        raise IllegalEntry(f"Entry {row.seq} cannot be read.", seq=row.seq) from None
    return replace(after, seq=row.seq, hash=row.hash), recorded


def wrong_totals(row: Row) -> IllegalEntry:
    text = f"The totals of entry {row.seq} do not follow from what was booked."
    return IllegalEntry(text, seq=row.seq, what="totals")


def apply(state: State, entry: Entry, past: Past) -> State:
    """The ledger's books after this entry, or an error that says which rule it breaks."""
    rule = _RULES.get(entry.kind)
    if rule is None:
        raise LedgerError(f"There is no entry of kind {entry.kind!r}.", fix=_FIX)
    if (entry.kind == "open") != (state.seq == 0):
        raise LedgerError("A ledger begins with its opening, which happens once.", fix=_FIX)
    datetime.fromisoformat(entry.time)
    after = rule(state, entry, past)
    if entry.test != after.test:
        raise LedgerError("A test ledger stamps every entry, a private one none.", fix=_FIX)
    if entry.ticket is not None:
        check_name(entry.ticket, "ticket")
    return after


# ---- one rule for each kind ------------------------------------------------------------------------------------------


def _open(state: State, entry: Entry, past: Past) -> State:
    payload = entry.payload
    if payload["ledger"] != state.ledger:
        raise LedgerError("The ledger's identity was changed after it was written.", fix=_FIX)
    if payload["format"] not in range(1, FORMAT + 1) or payload["test"] not in (True, False):
        raise LedgerError("The opening states no format or kind that we know.", fix=_FIX)
    _refers_to_nothing(entry)
    universe = Universe.from_json(payload["universe"])
    person = stated_person(payload) if "person" in payload else None
    opened = replace(state, format=payload["format"], test=payload["test"], person=person, totals=Totals(1, 1, {}))
    return opened.under(*stated_limits(payload, universe), universe)


def _format(state: State, entry: Entry, past: Past) -> State:
    _refers_to_nothing(entry)
    old, new = entry.payload["from"], entry.payload["format"]
    if old != state.format or new not in range(state.format + 1, FORMAT + 1):
        raise LedgerError("The format of a ledger only rises, step by step.", fix=_FIX)
    return replace(state, format=new)


def _schema(state: State, entry: Entry, past: Past) -> State:
    """The books after a schema entry. Positions of attributes name the totals, so not even their order may change."""
    _refers_to_nothing(entry)
    ours, new = state.universe, Universe.from_json(entry.payload["universe"])
    kept = {name: new.derived.get(name) for name in ours.derived}
    if new.roots != ours.roots or new.public != ours.public or kept != dict(ours.derived):
        raise LedgerError("A schema entry can only add derived columns.", fix=_FIX)
    if new.derived.keys() == ours.derived.keys():
        raise LedgerError("A schema entry adds at least one derived column.", fix=_FIX)
    totals = Totals(state.totals.budget, entry.seq, state.totals.spent)
    return replace(state, universe=new, totals=totals, costs={})  # positions, and with them the keys, stay


def _person(state: State, entry: Entry, past: Past) -> State:
    """The books after a person entry. What was spent was spent on people of one kind, and cannot become another's."""
    _refers_to_nothing(entry)
    person = stated_person(entry.payload)
    if state.person == person:
        raise LedgerError("A person entry changes what a person is.", fix=_FIX)
    if (state.person is not None or person.id is not None) and has_spent(past.entries()):
        raise other_person(state.person, person)
    return replace(state, person=person)


def _budget(state: State, entry: Entry, past: Past) -> State:
    _refers_to_nothing(entry)
    check_text(entry.reason, "reason")
    after = state.under(*stated_limits(entry.payload, state.universe), state.universe)
    totals = after_budget(state.totals, entry.seq, state.keys, after.keys, lambda: standing_guarantees(past.entries()))
    return replace(after, totals=totals)


def _reserve(state: State, entry: Entry, past: Past) -> State:
    _new_name(entry, past)
    seeded = entry.payload["seeded"]
    if seeded not in (True, False) or (seeded and not state.test):
        raise LedgerError(
            "A seeded release is not private: whoever knows the seed can remove the noise.",
            fix="Leave the seed out, or use a test ledger: Ledger.create(…, test=True).",
        )
    cost = state.cost(entry.payload["guarantee"])
    state.check_affordable(cost, f"The release {entry.name!r}")
    return replace(state, totals=state.totals.plus(cost))


def _external(state: State, entry: Entry, past: Past) -> State:
    _new_name(entry, past)
    check_text(entry.payload["who"], "who")
    after = replace(state, totals=state.totals.plus(state.cost(entry.payload["guarantee"])))
    if list(entry.exceeded) != exceeded_limits(after):
        raise LedgerError("The limits that an external release exceeds are not the ones it states.", fix=_FIX)
    return after


def _bind(state: State, entry: Entry, past: Past) -> State:
    reservation = _find_referred(entry, past, "reserve")
    check_text(entry.digest, "digest")
    if entry.payload["seeded"] != reservation.seeded:
        raise LedgerError(
            f"{entry.name!r} was reserved as {_kind(reservation.seeded)} and came out {_kind(not reservation.seeded)}.",
            fix="Reserve and release in the same way.",
        )
    return state


def _fail(state: State, entry: Entry, past: Past) -> State:
    if state.format < 3:
        raise LedgerError("Failures are recorded since format 3.", fix="Run `nabladp ledger migrate`.")
    _find_referred(entry, past, "reserve")
    check_text(entry.reason, "reason")
    return state


def _void(state: State, entry: Entry, past: Past) -> State:
    check_text(entry.reason, "reason")
    referred = _find_referred(entry, past, "reserve", "failed")
    reservation = referred if referred.kind == "reserve" else past.entry(referred.ref or 0)
    if reservation is None:
        raise LedgerError("There is no reservation to void.", fix=_FIX)
    return replace(state, totals=state.totals.minus(state.cost(reservation.payload["guarantee"])))


_RULES: Mapping[str, Callable[[State, Entry, Past], State]] = {
    "open": _open,
    "format": _format,
    "schema": _schema,
    "person": _person,
    "budget": _budget,
    "reserve": _reserve,
    "external": _external,
    "bind": _bind,
    "failed": _fail,
    "void": _void,
}


# ---- what the rules are made of --------------------------------------------------------------------------------------


def stated_limits(payload: Mapping[str, Any], universe: Universe) -> tuple[Budget, tuple[Limit, ...]]:
    """The budget and limits that an entry states, which must be the ones that this budget gives for these
    attributes."""
    budget = Budget.from_json(payload["budget"])
    recorded = tuple(Limit.from_json(limit) for limit in payload["limits"])
    ours, theirs = sorted(map(_limit_key, recorded)), sorted(map(_limit_key, budget.limits(universe)))
    if ours != theirs or not all(map(_units_agree, recorded)):
        raise LedgerError("The limits are not those of the stated budget.", fix=_FIX)
    return budget, recorded


def _limit_key(limit: Limit) -> tuple[str, list[str], str]:
    return limit.name, sorted(limit.attributes), canonical(limit.value.to_json())


def _units_agree(limit: Limit) -> bool:
    """Whether a recorded limit's value and units agree, up to rounding: a value is a double, its units may come from an
    exact fraction.

    Units of (ε, δ) come from a conversion, which another machine may round in another way.
    """
    stated = limit_units(limit.value)
    tolerance = Fraction(1, 10**9) if isinstance(limit.value, Approx) else Fraction(1, 2**51)
    return abs(limit.units - stated) <= stated * tolerance + 1 and limit.units > 0


def standing_guarantees(entries: Iterable[Entry]) -> list[Guarantee]:
    """The guarantees of ledger entries that were spent and not voided."""
    standing: dict[int, Guarantee] = {}
    failures: dict[int, int] = {}  # a failed entry to its reservation
    for entry in entries:
        guarantee = entry.guarantee
        if guarantee is not None:
            standing[entry.seq] = guarantee
        elif entry.kind == "failed" and entry.ref is not None:
            failures[entry.seq] = entry.ref
        elif entry.kind == "void" and entry.ref is not None:
            standing.pop(failures.get(entry.ref, entry.ref), None)
    return list(standing.values())


def exceeded_limits(state: State) -> list[str]:
    return [line.limit.name for line in state.spending if line.exceeded]


def _find_referred(entry: Entry, past: Past, *kinds: str) -> Entry:
    """The ledger entry that this one ends; it has the same name and was not ended before."""
    referred = None if entry.ref is None else past.entry(entry.ref)
    if referred is None or referred.kind not in kinds or referred.name != entry.name:
        raise LedgerError(f"{entry.kind!r} must refer to a reservation of the same name.", fix=_FIX)
    if end := past.end_of(referred.seq):
        raise already_ended(end)
    return referred


def already_ended(end: Entry) -> LedgerError:
    how, fix = {
        "bind": ("bound to a release", "A published release stays spent."),
        "failed": ("recorded as failed", "Void it, or reserve again under another name."),
    }.get(end.kind, ("voided", "Reserve again under another name."))
    return LedgerError(f"{end.name!r} is already {how} (entry {end.seq}).", fix=fix)


def _new_name(entry: Entry, past: Past) -> None:
    _refers_to_nothing(entry)
    if past.has_name(check_name(entry.name)):
        raise LedgerError(f"The name {entry.name!r} is already in the ledger.", fix="Choose another name.")


def _refers_to_nothing(entry: Entry) -> None:
    if entry.ref is not None:
        raise LedgerError(f"{entry.kind!r} refers to no other entry.", fix=_FIX)


def _kind(seeded: bool) -> str:
    return "seeded" if seeded else "private"
