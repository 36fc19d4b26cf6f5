"""The shapes a privacy cost can take, as a function of the set T of attributes that differ.

A guarantee is a list of terms added per T. Each term is monotone, zero on the empty set, and subadditive in √ρ (and in
ε where it has a pure bound), so sums are too and no search over partitions is ever needed.

======== =========================================================== =====================================
touch    the largest weight in T                                      a noisy marginal; randomized response
linear   ε = sum of the ``limit`` largest weights in T; ρ = ε²/2      group privacy; joint selection
squares  ρ = sum of the ``limit`` largest weights in T                Gaussian answers on disjoint queries
curve    a table over how many columns T holds                        a Gram matrix
capped   ρ = the weights in T, or caps on sets that cover them, summed    spending decided on the way
graph    the largest distance between records that differ within T   `lem:graph`
======== =========================================================== =====================================
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

from nabladp.checks import as_fraction, is_number
from nabladp.errors import GuaranteeError
from nabladp.privacy.many_rows import People
from nabladp.privacy.units import UNIT, half_square

# ---- costs, weights and curves ---------------------------------------------------------------------------------------

Weights = tuple[tuple[str, int], ...]
Near = tuple[tuple[str, tuple[tuple[Fraction, int], ...]], ...]  # attribute: (distance, weight), both rising
MOST_DISTANCES = 1024
SHAPES = ("touch", "linear", "squares")


@dataclass(frozen=True)
class Cost:
    """What one term charges a set: ρ-units and ε-units; None stands for 'no bound'."""

    rho: int | None
    pure: int | None

    def times(self, count: int) -> Cost:
        return Cost(None if self.rho is None else count * self.rho, None if self.pure is None else count * self.pure)


FREE = Cost(0, 0)


class Term(Protocol):
    @property
    def support(self) -> frozenset[str]: ...
    @property
    def adds_up(self) -> bool: ...  # ρ itself is subadditive: no set costs more than its attributes together
    def cost(self, attributes: frozenset[str]) -> Cost: ...
    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost: ...
    def worst(self, size: int, among: frozenset[str]) -> Cost: ...  # no ``size`` attributes of ``among`` cost more
    def for_rows(self, rows: int) -> Term: ...
    def sort_key(
        self,
    ) -> tuple[Any, ...]: ...  # a total order, so that composition does not depend on the order of parts
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class WeightTerm:
    """touch, linear or squares. Weights are ε-units for ``linear`` and for pure terms, ρ-units otherwise.

    ``gaussian_scale`` marks a touch term that stands for one marginal with discrete Gaussian noise of exactly this
    scale on every count; it allows the exact privacy-loss figure and changes nothing else.

    ``near`` gives a touch term lower weights for small changes of a number: where an attribute differs by at most a
    listed distance, the weight beside it stands in place of the attribute's own. :meth:`cost` does not look at it.

    ``people`` says of a touch term what several rows of a person cost where that is not group privacy's square; after
    :meth:`for_rows` it is gone, and so it is in JSON.
    """

    shape: str
    weights: Weights
    limit: int | None = None
    pure: bool = False
    gaussian_scale: float | None = None
    near: Near = ()
    people: People | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise GuaranteeError(f"There is no term shape {self.shape!r}.", fix=f"Shapes: {', '.join(SHAPES)}.")
        if self.shape == "squares" and self.pure:
            raise GuaranteeError("A 'squares' term has no pure bound.", fix="Use 'linear' for pure costs.")
        if not self.weights or any(not is_whole(weight) or weight <= 0 for _, weight in self.weights):
            raise GuaranteeError("Every weight must be above zero.", fix="Leave attributes that cost nothing out.")
        if self.limit is not None and (not is_whole(self.limit) or self.limit < 1):
            raise GuaranteeError("A limit must be a whole number of at least 1.", fix="Leave it out for no limit.")
        if self.gaussian_scale is not None and not self._scale_fits(self.gaussian_scale):
            raise GuaranteeError(
                "A Gaussian scale belongs to a touch term that costs ρ = 1/scale² for each of its attributes.",
                fix="Leave it out, or give the scale of the noise exactly.",
            )
        if self.people is not None and not self._people_fit(self.people):
            raise GuaranteeError(
                "Costs by person belong to a touch term, have a role for each of its attributes, and are not below it.",
                fix="Do not edit stored guarantees.",
            )
        if self.near and not self._near_fits():
            raise GuaranteeError(
                "Weights for small changes rise with the distance, to at most the attribute's own, in a touch term.",
                fix="Give distances and weights above zero, both in rising order.",
            )

    def _people_fit(self, people: People) -> bool:
        """One row is never charged more than two are."""
        if self.shape != "touch" or self.gaussian_scale is not None or self.near:
            return False
        two = people.weights(2)
        return two.keys() == self._weight.keys() and all(two[name] >= own for name, own in self.weights)

    def _near_fits(self) -> bool:
        if self.shape != "touch" or self.gaussian_scale is not None:
            return False
        if len(dict(self.near)) != len(self.near) or not self._weight.keys() >= dict(self.near).keys():
            return False
        for name, steps in self.near:
            distances, weights = [distance for distance, _ in steps], [weight for _, weight in steps]
            if not 0 < len(steps) <= MOST_DISTANCES or not all(map(is_whole, weights)):
                return False
            if distances[0] <= 0 or weights[0] <= 0 or weights[-1] > self._weight[name]:
                return False
            if any(a >= b for a, b in itertools.pairwise(distances)) or any(
                a > b for a, b in itertools.pairwise(weights)
            ):
                return False
        return True

    def _scale_fits(self, scale: float) -> bool:
        """Whether a term's weight is the cost of noise of this scale: never below it, and above only by rounding."""
        if self.shape != "touch" or self.pure or len({weight for _, weight in self.weights}) != 1:
            return False
        if not isinstance(scale, float) or not 0 < scale < math.inf:
            return False
        cost = Fraction(scale) ** 2 * self.weights[0][1]
        return UNIT <= cost <= UNIT + cost / 10**6 + Fraction(scale) ** 2

    @cached_property
    def _weight(self) -> dict[str, int]:
        return dict(self.weights)

    @cached_property
    def support(self) -> frozenset[str]:
        return frozenset(self._weight)

    @property
    def adds_up(self) -> bool:
        """A maximum of weights is at most their sum, and so is a sum of the largest; a square of a sum is not."""
        return self.shape != "linear" or self.limit == 1 or len(self.weights) == 1

    def cost(self, attributes: frozenset[str]) -> Cost:
        picked = sorted((self._weight[a] for a in attributes & self.support), reverse=True)
        if not picked:
            return FREE
        if self.shape == "touch":
            return self.of_amount(picked[0])
        return self.of_amount(sum(picked[: self.limit]))

    def of_amount(self, amount: int) -> Cost:
        if self.shape == "linear" or self.pure:
            return Cost(half_square(amount), amount if self.pure else None)
        return Cost(amount, None)

    def for_changes(self, distances: Mapping[str, Fraction]) -> WeightTerm:
        """The same for pairs of rows in which these attributes differ by at most these distances."""
        near = dict(self.near)
        lower = {name: _weight_within(near[name], distance) for name, distance in distances.items() if name in near}
        if not lower:
            return self
        weights = tuple((name, lower.get(name) or weight) for name, weight in self.weights)
        return WeightTerm(self.shape, weights, self.limit, self.pure)

    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost:
        distances = {name: _distance(one[name], other[name]) for name, _ in self.near if name in one and name in other}
        known = {name: distance for name, distance in distances.items() if distance is not None}
        return self.for_changes(known).cost(differing)

    def worst(self, size: int, among: frozenset[str]) -> Cost:
        picked = sorted(among & self.support, key=self._weight.__getitem__, reverse=True)
        return self.cost(frozenset(picked[:size]))

    def for_rows(self, rows: int) -> WeightTerm:
        """The term for people with ``rows`` rows (group privacy over rows): ε grows by ``rows``, ρ by its square."""
        if self.people is not None:
            weights = self.weights if rows == 1 else sorted_weights(self.people.weights(rows))
            return WeightTerm(self.shape, weights, self.limit, self.pure)
        factor = rows if (self.pure or self.shape == "linear") else rows * rows
        weights = tuple((name, factor * weight) for name, weight in self.weights)
        near = tuple((name, tuple((far, factor * weight) for far, weight in steps)) for name, steps in self.near)
        return WeightTerm(self.shape, weights, self.limit, self.pure, near=near)

    def sort_key(self) -> tuple[Any, ...]:
        people = () if self.people is None else (self.people.groups, self.people.roles)
        scale = self.gaussian_scale or 0.0
        return ("weight", self.shape, self.weights, self.limit or 0, self.pure, scale, self.near, people)

    def to_json(self) -> dict[str, Any]:
        equal = len({weight for _, weight in self.weights}) == 1
        body: dict[str, Any] = {"shape": self.shape, "pure": self.pure}
        if equal:
            body |= {"on": [name for name, _ in self.weights], "weight": str(self.weights[0][1])}
        else:
            body["weights"] = {name: str(weight) for name, weight in self.weights}
        if self.limit is not None:
            body["limit"] = self.limit
        if self.gaussian_scale is not None:
            body["gaussian_scale"] = self.gaussian_scale
        if self.near:  # versions that do not know it charge every change in full
            body["near"] = {name: [[str(far), str(weight)] for far, weight in steps] for name, steps in self.near}
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> WeightTerm:
        given = body["weights"] if "weights" in body else dict.fromkeys(body["on"], body["weight"])
        weights = sorted_weights({name: read_units(weight) for name, weight in given.items()})
        near = tuple(
            (name, tuple((read_distance(far), read_units(weight)) for far, weight in steps))
            for name, steps in sorted(body.get("near", {}).items())
        )
        pure, scale = read_truth(body["pure"]), body.get("gaussian_scale")
        return cls(body["shape"], weights, body.get("limit"), pure, scale, near)


def _weight_within(steps: Sequence[tuple[Fraction, int]], distance: Fraction) -> int | None:
    """The weight of the next listed distance; None where it is beyond all of them."""
    return next((weight for far, weight in steps if distance <= far), None)


def _distance(one: Any, other: Any) -> Fraction | None:
    """Between two numbers; None where one of them is missing or no number."""
    if not (is_number(one) and is_number(other)):
        return None
    return abs(as_fraction(one) - as_fraction(other))


@dataclass(frozen=True)
class CurveTerm:
    """ρ from a table over the number of columns that T's attributes hold (``table[0]`` is 0)."""

    columns: Weights
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(a <= b for a, b in zip(self.table, self.table[1:], strict=False))
        if not self.table or self.table[0] != 0 or not rising:
            raise GuaranteeError("A curve starts at 0 and never falls.", fix="Give its value for 0, 1, 2, … columns.")
        if not self.columns or any(not is_whole(count) or count < 1 for _, count in self.columns):
            raise GuaranteeError("Every attribute of a curve holds at least one column.", fix="Leave the others out.")
        if sum(count for _, count in self.columns) >= len(self.table):
            raise GuaranteeError("The curve is shorter than the columns it covers.", fix="Give one value per column.")
        if not self._subadditive():
            raise GuaranteeError("The curve's square root is not subadditive.", fix="Use its largest value: a touch.")

    def _subadditive(self) -> bool:
        """Whether the curve's √ρ is subadditive: √c(a+b) ≤ √c(a) + √c(b), checked without roots.

        That is c(a+b) − c(a) − c(b) ≤ 2·√(c(a)·c(b)).
        """
        for a in range(1, len(self.table)):
            for b in range(a, len(self.table) - a):
                gap = self.table[a + b] - self.table[a] - self.table[b]
                if gap > 0 and gap * gap > 4 * self.table[a] * self.table[b]:
                    return False
        return True

    @cached_property
    def support(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns)

    @cached_property
    def adds_up(self) -> bool:
        table, last = self.table, len(self.table) - 1
        return all(table[a + b] <= table[a] + table[b] for a in range(1, last) for b in range(a, last - a + 1))

    def cost(self, attributes: frozenset[str]) -> Cost:
        total = sum(count for name, count in self.columns if name in attributes)
        return Cost(self.table[total], None) if total else FREE

    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost:
        return self.cost(differing)

    def worst(self, size: int, among: frozenset[str]) -> Cost:
        columns = dict(self.columns)
        picked = sorted(among & self.support, key=columns.__getitem__, reverse=True)
        return self.cost(frozenset(picked[:size]))

    def for_rows(self, rows: int) -> CurveTerm:
        return CurveTerm(self.columns, tuple(rows * rows * value for value in self.table))

    def sort_key(self) -> tuple[Any, ...]:
        return ("curve", self.columns, self.table)

    def to_json(self) -> dict[str, Any]:
        return {"shape": "curve", "columns": dict(self.columns), "table": [str(value) for value in self.table]}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CurveTerm:
        return cls(sorted_weights(body["columns"]), tuple(read_units(value) for value in body["table"]))


def sorted_weights(weights: Mapping[str, int] | Iterable[tuple[str, int]]) -> Weights:
    items: Sequence[tuple[str, int]] = list(weights.items() if isinstance(weights, Mapping) else weights)
    return tuple(sorted(items))


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_units(text: Any) -> int:
    """A stored term's units, written as a decimal string. Anything else might have been rounded on its way."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]+", text):
        raise GuaranteeError("A cost in a guarantee must be a decimal string.", fix="Do not edit stored guarantees.")
    return int(text)


def read_distance(text: Any) -> Fraction:
    """A distance as it is written: a whole number or a fraction, such as "1/2"."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,400}(/[0-9]{1,400})?", text):
        raise GuaranteeError("A distance in a guarantee must be a fraction.", fix="Do not edit stored guarantees.")
    return Fraction(text)


def read_truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise GuaranteeError("'pure' in a guarantee must be true or false.", fix="Do not edit stored guarantees.")
    return value


# ---- spending decided on the way: limits and caps --------------------------------------------------------------------
# A mechanism that chooses in view of earlier outputs what to measure next does not know its cost for a set T
# beforehand. It enforces that all measurements that touch attribute j cost at most c_j in all, and those that touch a
# set U at most B_U. Whatever touches T touches one of some sets U that cover a part of T, or one of T's other
# attributes; so for every choice 𝒜 of caps, T pays at most Σ_{U∈𝒜} B_U + Σ_{j∈T∖∪𝒜} c_j (a Rényi filter, as only past
# outputs decide; PROOF.md beside this file).

MOST_CAPS = 8
Cap = tuple[tuple[str, ...], int]


@dataclass(frozen=True)
class CappedTerm:
    """ρ(T) is the least, over all choices 𝒜 of caps, of Σ_{U∈𝒜} units + Σ of the weights of T outside them.

    Monotone; ρ itself is subadditive (the choices for two sets together are one for their union), hence √ρ is.
    """

    adds_up: ClassVar[bool] = True

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
        return Cost(min(paid + sum(weight[name] for name in inside - covered) for covered, paid in self._choices), None)

    def between(self, one: Mapping[str, Any], other: Mapping[str, Any], differing: frozenset[str]) -> Cost:
        return self.cost(differing)

    def worst(self, size: int, among: frozenset[str]) -> Cost:
        inside = among & self.support
        if not inside or not size:
            return FREE
        rest = ((paid, [self._weight[name] for name in inside - covered]) for covered, paid in self._choices)
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
