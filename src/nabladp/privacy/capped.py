"""What spending that is decided on the way may cost: a limit for each attribute, and caps on what sets pay together.

A mechanism that chooses in view of earlier outputs what to measure next does not know its cost for a set T beforehand.
It enforces that all measurements that touch attribute j cost at most c_j in all, and those that touch a set U at most
B_U. Whatever touches T touches one of some sets U that cover a part of T, or one of T's other attributes; so for every
choice 𝒜 of caps, T pays at most Σ_{U∈𝒜} B_U + Σ_{j∈T∖∪𝒜} c_j (adaptive composition; only past outputs decide).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nabladp.errors import GuaranteeError
from nabladp.privacy.terms import FREE, Cost, Weights, is_whole, read_units, sorted_weights

MOST_CAPS = 8
Cap = tuple[tuple[str, ...], int]


@dataclass(frozen=True)
class CappedTerm:
    """ρ(T) is the least, over all choices 𝒜 of caps, of Σ_{U∈𝒜} units + Σ of the weights of T outside them.

    Monotone; ρ itself is subadditive (the choices for two sets together are one for their union), hence √ρ is.
    """

    weights: Weights
    caps: tuple[Cap, ...] = ()

    def __post_init__(self) -> None:
        amounts = [weight for _, weight in self.weights] + [units for _, units in self.caps]
        if not self.weights or any(not is_whole(amount) or amount <= 0 for amount in amounts):
            raise GuaranteeError(
                "Every weight and every cap must be above zero.", fix="Leave attributes that cost nothing out."
            )
        if len(self.caps) > MOST_CAPS:
            raise GuaranteeError(
                f"A capped term has at most {MOST_CAPS} caps.", fix="Leave out those that matter least."
            )
        if any(not on or len(set(on)) != len(on) or not self.support.issuperset(on) for on, _ in self.caps):
            raise GuaranteeError("A cap speaks of some of the term's attributes, each once.", fix="Correct its set.")

    @cached_property
    def _weight(self) -> dict[str, int]:
        return dict(self.weights)

    @cached_property
    def support(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.weights)

    @cached_property
    def _choices(self) -> tuple[tuple[frozenset[str], int], ...]:
        """What every choice of caps covers and costs; caps that never help are left out."""
        useful = [(frozenset(on), units) for on, units in self.caps if units < sum(self._weight[name] for name in on)]
        return tuple(
            (frozenset().union(*(on for on, _ in chosen)), sum(units for _, units in chosen))
            for size in range(len(useful) + 1)
            for chosen in itertools.combinations(useful, size)
        )

    def cost(self, attributes: frozenset[str]) -> Cost:
        inside = attributes & self.support
        if not inside:
            return FREE
        weight = self._weight
        return Cost(min(paid + sum(weight[name] for name in inside - held) for held, paid in self._choices), None)

    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost:
        return self.cost(differing)

    def worst(self, size: int, among: frozenset[str]) -> Cost:
        inside = among & self.support
        if not inside or not size:
            return FREE
        rest = ((paid, [self._weight[name] for name in inside - held]) for held, paid in self._choices)
        return Cost(min(paid + sum(heapq.nlargest(size, weights)) for paid, weights in rest), None)

    def for_rows(self, rows: int) -> CappedTerm:
        factor = rows * rows
        caps = tuple((on, factor * units) for on, units in self.caps)
        return CappedTerm(tuple((name, factor * weight) for name, weight in self.weights), caps)

    def sort_key(self) -> tuple[Any, ...]:
        return ("capped", self.weights, self.caps)

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": "capped",
            "weights": {name: str(weight) for name, weight in self.weights},
            "caps": [{"on": list(on), "units": str(units)} for on, units in self.caps],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CappedTerm:
        weights = {name: read_units(weight) for name, weight in body["weights"].items()}
        return cls(sorted_weights(weights), sorted_caps((cap["on"], read_units(cap["units"])) for cap in body["caps"]))


def sorted_caps(caps: Any) -> tuple[Cap, ...]:
    return tuple(sorted((tuple(sorted(on)), units) for on, units in caps))
