"""What has been spent on every limited set, exactly, and what a limit refuses.

Running totals stand in each entry, in integers. "No bound" is kept as a count, so that voiding an unbounded reservation
takes away exactly what it added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nabladp.errors import BudgetExceeded, LedgerError
from nabladp.privacy.budget import Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT, to_float
from nabladp.privacy.universe import Universe

Keys = Mapping[frozenset[str], str]  # the limited sets of source attributes, each with its short name


# ---- totals ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """ρ- and ε-units spent on one set, and how many releases had no bound in either measure."""

    rho: int = 0
    pure: int = 0
    unbounded_rho: int = 0
    unbounded_pure: int = 0

    @classmethod
    def of(cls, guarantee: Guarantee, attributes: frozenset[str]) -> Tally:
        rho, pure = guarantee.rho_units(attributes), guarantee.pure_units(attributes)
        return cls(rho or 0, pure or 0, int(rho is None), int(pure is None))

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rho + other.rho,
            self.pure + other.pure,
            self.unbounded_rho + other.unbounded_rho,
            self.unbounded_pure + other.unbounded_pure,
        )

    def __sub__(self, other: Tally) -> Tally:
        left = self + Tally(-other.rho, -other.pure, -other.unbounded_rho, -other.unbounded_pure)
        if min(left.rho, left.pure, left.unbounded_rho, left.unbounded_pure) < 0:
            raise LedgerError(
                "The ledger's totals are below what a single entry added.",
                fix="Run `nabladp ledger verify`: the ledger was changed.",
            )
        return left

    def units(self, *, pure: bool) -> int | None:
        """The total spent on one limited set, in one measure; None stands for 'no bound'."""
        if pure:
            return None if self.unbounded_pure else self.pure
        return None if self.unbounded_rho else self.rho

    def to_json(self) -> dict[str, Any]:
        """The tally as JSON: zeros are left out; units are text, because JSON readers lose integers above 2⁵³."""
        units = {"rho": str(self.rho), "pure": str(self.pure)}
        counts = {"unbounded_rho": self.unbounded_rho, "unbounded_pure": self.unbounded_pure}
        return {name: v for name, v in units.items() if v != "0"} | {name: v for name, v in counts.items() if v}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tally:
        return cls(**{name: int(value) for name, value in data.items()})


NOTHING = Tally()


@dataclass(frozen=True)
class Totals:
    """``budget`` and ``schema`` are the entries that hold the limits and attributes in force."""

    budget: int
    schema: int
    spent: Mapping[str, Tally]  # by the set's key; a set without an entry has spent nothing

    def on(self, key: str) -> Tally:
        return self.spent.get(key, NOTHING)

    def plus(self, cost: Mapping[str, Tally]) -> Totals:
        return Totals(self.budget, self.schema, _merge(self.spent, {k: self.on(k) + v for k, v in cost.items()}))

    def minus(self, cost: Mapping[str, Tally]) -> Totals:
        return Totals(self.budget, self.schema, _merge(self.spent, {k: self.on(k) - v for k, v in cost.items()}))

    def to_json(self) -> dict[str, Any]:
        spent = {key: tally.to_json() for key, tally in self.spent.items()}
        return {"budget": self.budget, "schema": self.schema, "spent": spent}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Totals:
        spent = {key: Tally.from_json(tally) for key, tally in data["spent"].items()}
        return cls(int(data["budget"]), int(data["schema"]), spent)


def _merge(old: Mapping[str, Tally], new: Mapping[str, Tally]) -> dict[str, Tally]:
    return {key: tally for key, tally in {**old, **new}.items() if tally != NOTHING}


def keys_of(universe: Universe, limits: Iterable[Limit]) -> dict[frozenset[str], str]:
    """Short names of the limited sets: positions, since attribute names may hold any character; '*' is the set of all
    protected."""
    everything = frozenset(universe.protected)

    def key(attributes: frozenset[str]) -> str:
        positions = sorted(universe.position[name] for name in attributes)
        return "*" if attributes == everything else "+".join(map(str, positions))

    return {limit.attributes: key(limit.attributes) for limit in limits}


def cost_of(guarantee: Guarantee, keys: Keys) -> dict[str, Tally]:
    """What a guarantee adds to each limited set; sets it leaves alone are left out."""
    touched = frozenset[str]().union(*(term.support for term, _ in guarantee.terms))
    tallies = {key: Tally.of(guarantee, attributes) for attributes, key in keys.items() if attributes & touched}
    return {key: tally for key, tally in tallies.items() if tally != NOTHING}


def total_of(costs: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for cost in costs:
        for key, tally in cost.items():
            total[key] = total.get(key, NOTHING) + tally
    return total


def after_budget(totals: Totals, seq: int, old: Keys, new: Keys, replay: Callable[[], Iterable[Guarantee]]) -> Totals:
    """The ledger's totals under a new budget: kept for sets that stay, replayed from the guarantees for sets that are
    new."""
    fresh = {attributes: key for attributes, key in new.items() if attributes not in old}
    kept = {new[attributes] for attributes in new if attributes in old}
    spent: dict[str, Tally] = {key: tally for key, tally in totals.spent.items() if key in kept}
    if fresh:
        spent |= total_of(cost_of(guarantee, fresh) for guarantee in replay())
    return Totals(seq, totals.schema, spent)


# ---- limits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spending:
    """One limit with what is spent and left. ``spent_units`` is None after a release without a bound."""

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


@dataclass(frozen=True)
class LimitRequest:
    """One limit as it stands, and what a request would add to it, in exact units (None: it has no bound)."""

    standing: Spending
    requested: int | None

    @property
    def fits(self) -> bool:
        """Whether a request stays within the limit: the one rule, for the ledger and for a dry run.

        A limit that the request does not add to never refuses it, even if exceeded.
        """
        if not self.requested:
            return self.requested is not None
        spent = self.standing.spent_units
        return spent is not None and self.requested <= self.standing.limit.units - spent

    def to_json(self) -> dict[str, Any]:
        requested = None if self.requested is None else to_float(self.requested)
        return {**self.standing.to_json(), "requested": requested, "fits": self.fits}


def limit_requests(standing: Iterable[Spending], guarantee: Guarantee) -> tuple[LimitRequest, ...]:
    """Every limit with what is spent, left and requested by a release with this guarantee."""
    lines = []
    for line in standing:
        units = guarantee.pure_units if line.limit.pure else guarantee.rho_units
        lines.append(LimitRequest(line, units(line.limit.attributes)))
    return tuple(lines)


def check_limits(lines: Iterable[LimitRequest], what: str) -> None:
    """Refuse a request that exceeds a limit, naming the tightest."""
    broken = [(line.standing, line.requested) for line in lines if not line.fits]
    if broken:
        broken.sort(key=lambda pair: _room(*pair))
        raise _limit_exceeded(*broken[0], [line.limit.name for line, _ in broken], what)


def _room(line: Spending, requested: int | None) -> Fraction:
    """The square of the factor by which a release's budget (in ε) has to shrink for this limit: ρ goes with ε²."""
    if requested is None:
        return Fraction(-1)
    ratio = Fraction(line.left_units, requested)
    return ratio * ratio if line.limit.pure else ratio


def _limit_exceeded(line: Spending, requested: int | None, names: Sequence[str], what: str) -> BudgetExceeded:
    limit, measure = line.limit, line.limit.measure
    facts: dict[str, Any] = {
        "limit": limit.name,
        "limits": list(names),
        "measure": measure,
        "requested": None if requested is None else to_float(requested),
        "spent": None if line.spent_units is None else line.spent,
        "left": line.left,
        "allowed": float(limit.value.amount()),
    }
    close = requested is not None and f"{facts['requested']:.6g}" == f"{facts['left']:.6g}"

    def show(number: float | None) -> str:
        return "without bound" if number is None else repr(number) if close else f"{number:.6g}"

    if requested is None:
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
    """Units as a double that is never above the true value: what is left of a limit must not look larger than it is."""
    value = units / UNIT
    return math.nextafter(value, -math.inf) if Fraction(value) * UNIT > units else value


# ---- the same schema, the same budget --------------------------------------------------------------------------------


def extend_universe(ours: Universe, theirs: Universe) -> Universe:
    """The ledger's attributes with new derived columns, or a refusal that names what differs."""
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
                fix="Use the schema it was created with, or a ledger of its own for the new schema.",
            )
    return Universe(ours.roots, {**theirs.derived, **ours.derived}, ours.public)


def _difference(text: str, names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{text} {listed[0]!r}{more}" if listed else ""


def check_same_budget(recorded: Sequence[Limit], given: Sequence[Limit]) -> None:
    """Refuse a budget other than the ledger's own, naming the first limit that differs."""
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
