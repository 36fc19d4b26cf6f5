"""Running totals: what has been spent on every limited set, in exact integers, after each entry.

They stand in each entry, so that a reservation reads the last entry only. "No bound" is kept as a count, so that
voiding an unbounded reservation takes back exactly what it added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nabladp.errors import LedgerError
from nabladp.privacy.budget import Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe

Keys = Mapping[frozenset[str], str]  # the limited sets of source attributes, each with its short name


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
        """The total in one measure; None stands for 'no bound'."""
        if pure:
            return None if self.unbounded_pure else self.pure
        return None if self.unbounded_rho else self.rho

    def to_json(self) -> dict[str, Any]:
        """Zeros are left out; units are text, because JSON readers lose integers above 2⁵³."""
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
        return Totals(self.budget, self.schema, _merged(self.spent, {k: self.on(k) + v for k, v in cost.items()}))

    def minus(self, cost: Mapping[str, Tally]) -> Totals:
        return Totals(self.budget, self.schema, _merged(self.spent, {k: self.on(k) - v for k, v in cost.items()}))

    def to_json(self) -> dict[str, Any]:
        spent = {key: tally.to_json() for key, tally in self.spent.items()}
        return {"budget": self.budget, "schema": self.schema, "spent": spent}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Totals:
        spent = {key: Tally.from_json(tally) for key, tally in data["spent"].items()}
        return cls(int(data["budget"]), int(data["schema"]), spent)


def _merged(old: Mapping[str, Tally], new: Mapping[str, Tally]) -> dict[str, Tally]:
    return {key: tally for key, tally in {**old, **new}.items() if tally != NOTHING}


def keys_of(universe: Universe, limits: Iterable[Limit]) -> dict[frozenset[str], str]:
    """Short names: positions, since attribute names may hold any character; '*' is the set of all protected."""
    everything = frozenset(universe.protected)

    def key(attributes: frozenset[str]) -> str:
        places = sorted(universe.position[name] for name in attributes)
        return "*" if attributes == everything else "+".join(map(str, places))

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
