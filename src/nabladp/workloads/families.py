"""What can be asked of every k attributes: marginals, conjunctions, parities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache, reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nabladp import checks
from nabladp.checks import expect
from nabladp.errors import MechanismError
from nabladp.schema import Schema
from nabladp.workloads.marginals import Sets, marginal_sets, refuse_bare_names, refuse_sets_and_k
from nabladp.workloads.options import check_k, check_weight, listing
from nabladp.workloads.queries import Group, Queries, refuse_too_many
from nabladp.workloads.sensitivity import Curve, coverage, flips, touch

# ---- what all families share -----------------------------------------------------------------------------------------

Self = TypeVar("Self", bound="Family")


class Workload(ABC):
    """Queries that do not yet know their schema."""

    @abstractmethod
    def bind(self, schema: Schema) -> Queries:
        """The workload's queries on this schema."""

    @abstractmethod
    def to_json(self) -> Any:
        """The workload in the form of a plan file."""

    @abstractmethod
    def explicit_names(self) -> tuple[str, ...]:
        """The attributes that a workload names itself; it may ask about others too."""


class Family(Workload):
    """A weight, union with ``+``, a larger weight with ``*``."""

    kind: str
    weight: float

    @abstractmethod
    def groups(self, schema: Schema) -> list[Group]:
        """The queries of a workload family (marginals, conjunctions, parities), set by set."""

    def curve(self, schema: Schema) -> Curve | None:
        """The exact sensitivity of all queries of the family together, where every attribute that can change is like
        every other."""
        return None

    def bind(self, schema: Schema) -> Queries:
        return Union((self,)).bind(schema)

    def __add__(self, other: Family | Union) -> Union:
        return Union((self,)) + other

    def __rmul__(self: Self, factor: float) -> Self:
        return replace(self, weight=self.weight * check_weight(factor))  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"queries": self.kind}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None and not (field.name == "weight" and value == 1):
                body[field.name] = _plain(value)
        return body


@dataclass(frozen=True)
class Union(Workload):
    """Several families asked together; their weights say which matter more."""

    parts: tuple[Family, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", listing(self.parts, "'parts'"))
        if not self.parts:
            raise MechanismError("The workload is empty.", fix="Ask for at least one family of queries.")
        if not all(isinstance(part, Family) for part in self.parts):
            raise no_workload()

    def __add__(self, other: Any) -> Union:
        if isinstance(other, Union):
            return Union((*self.parts, *other.parts))
        return Union((*self.parts, other)) if isinstance(other, Family) else NotImplemented

    def __rmul__(self, factor: float) -> Union:
        return Union(tuple(factor * part for part in self.parts))

    def bind(self, schema: Schema) -> Queries:
        expect(schema, Schema, "The schema of a workload", 'Load it with Schema.load("schema.toml").')
        return Queries(schema, [group for part in self.parts for group in part.groups(schema)], self._curve(schema))

    def _curve(self, schema: Schema) -> Curve | None:
        """The sensitivity curve of a union of families, where all parts weigh the same and treat the same attributes
        alike: the sum."""
        curves = [curve for part in self.parts if (curve := part.curve(schema)) is not None]
        alike = len({part.weight for part in self.parts}) == len({frozenset(curve.attributes) for curve in curves}) == 1
        return reduce(add, curves) if alike and len(curves) == len(self.parts) else None

    def to_json(self) -> list[Any]:
        return [part.to_json() for part in self.parts]

    def explicit_names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.explicit_names())


def no_workload() -> MechanismError:
    return MechanismError(
        "A workload is a family of queries or a list of them.",
        fix='Write Conjunctions(2), or in a plan { queries = "conjunctions", k = 2 }.',
    )


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


# ---- What can be asked of every k attributes: marginals, conjunctions, parities --------------------------------------


@dataclass(frozen=True)
class Marginals(Family):
    """The share of rows in every cell of all k-way marginals (of ``over``, or of every source attribute), or of listed
    sets, which may have ``weights`` of their own.

    Δ_T² is 2 for each marginal that meets T: one row leaves a cell and enters another.
    """

    k: int | None = None
    sets: Sets | None = None
    over: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
    weight: float = 1
    kind = "marginals"

    def __post_init__(self) -> None:
        refuse_sets_and_k(self.sets, self.k)
        if self.sets is not None and self.over is not None:
            raise MechanismError("'over' goes with 'k'.", fix="Give k, or list the sets.")
        _set_fields(self, over=_over(self.over), weight=check_weight(self.weight))
        if self.sets is None:
            _set_fields(self, k=check_k(self.k))
        else:
            _set_fields(self, sets=_parse_sets(self.sets))
        if self.weights is not None:
            _set_fields(self, weights=tuple(check_weight(weight) for weight in listing(self.weights, "'weights'")))
            if self.sets is None or len(self.weights) != len(self.sets):
                raise MechanismError(
                    "'weights' has one number for each listed set.", fix="Use 'weight' for all at once."
                )

    def groups(self, schema: Schema) -> list[Group]:
        sets = marginal_sets(schema, self.sets, self.k, self.over)
        weights = self.weights or (1,) * len(sets)
        sizes = _sizes(schema)
        amounts = _amounts(sizes, lambda size: 2 if size > 1 else 0)
        return [
            Group(chosen, math.prod([sizes[name] for name in chosen]), self.weight * own, touch(chosen, amounts))
            for chosen, own in zip(sets, weights, strict=True)
        ]

    def explicit_names(self) -> tuple[str, ...]:
        return (*(self.over or ()), *(name for chosen in self.sets or () for name in chosen))

    def curve(self, schema: Schema) -> Curve | None:
        if self.k is None or (split := _free(schema, self.over)) is None:
            return None
        free, fixed = split
        return coverage(free, self.k, 2, fixed)


@dataclass(frozen=True)
class Conjunctions(Family):
    """The share of rows with given values on k attributes at once.

    ``signed``: every combination of values, as in the k-way marginals. Unsigned: only values other than each
    attribute's first, which for bits leaves one conjunction "all are true" for every k attributes.
    Δ_T² for bits, unsigned: C(d,k) − C(d−|T|,k); signed: twice that.
    """

    k: int
    signed: bool = False
    over: tuple[str, ...] | None = None
    weight: float = 1
    kind = "conjunctions"

    def __post_init__(self) -> None:
        _set_fields(self, k=check_k(self.k), over=_over(self.over), weight=check_weight(self.weight))
        if not isinstance(self.signed, bool):
            raise MechanismError("'signed' is true or false.", fix="Leave it out for unsigned conjunctions.")

    def groups(self, schema: Schema) -> list[Group]:
        if self.signed:
            return self._all_cells.groups(schema)
        sizes = _sizes(schema)
        sets = [c for c in marginal_sets(schema, None, self.k, self.over) if all(sizes[name] > 1 for name in c)]
        refuse_too_many(sum(math.prod([sizes[name] - 1 for name in c]) for c in sets))
        cells = cache(_without_first)
        amounts = _amounts(sizes, _unsigned_move)
        groups = []
        for chosen in sets:
            combinations = cells(tuple(sizes[name] for name in chosen))
            groups.append(Group(chosen, len(combinations), self.weight, touch(chosen, amounts), cells=combinations))
        return groups

    def explicit_names(self) -> tuple[str, ...]:
        return self.over or ()

    def curve(self, schema: Schema) -> Curve | None:
        if self.signed:
            return self._all_cells.curve(schema)
        free, _ = _free(schema, self.over) or ((), 0)  # nothing is asked about an attribute with one value
        moved = {_unsigned_move(schema[name].size) for name in free}
        return coverage(free, self.k, moved.pop()) if len(moved) == 1 else None

    @property
    def _all_cells(self) -> Marginals:
        return Marginals(self.k, over=self.over, weight=self.weight)


@dataclass(frozen=True)
class Parities(Family):
    """Whether an odd number of k attributes have an odd code (for bits: are true), for every k attributes.

    Δ_T² is the largest number of parities that T can flip: those that hold an odd number of flipped attributes.
    """

    k: int
    over: tuple[str, ...] | None = None
    weight: float = 1
    kind = "parities"

    def __post_init__(self) -> None:
        _set_fields(self, k=check_k(self.k), over=_over(self.over), weight=check_weight(self.weight))

    def groups(self, schema: Schema) -> list[Group]:
        sizes = _sizes(schema)
        values = cache(_odd_sum)
        amounts = _amounts(sizes, lambda size: int(size > 1))
        groups = []
        for chosen in marginal_sets(schema, None, self.k, self.over):
            odd = values(tuple(sizes[name] for name in chosen))
            text = f"parity of {', '.join(chosen)}"
            groups.append(Group(chosen, 1, self.weight, touch(chosen, amounts), odd, texts=(text,)))
        return groups

    def explicit_names(self) -> tuple[str, ...]:
        return self.over or ()

    def curve(self, schema: Schema) -> Curve | None:
        if (split := _free(schema, self.over)) is None:
            return None
        free, fixed = split
        return flips(free, self.k, fixed)


def _set_fields(family: Family, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(family, name, value)


def _over(names: Any) -> tuple[str, ...] | None:
    return None if names is None else checks.names(listing(names, "'over'"), "'over'", error=MechanismError)


def _parse_sets(sets: Any) -> Sets:
    listed = listing(sets, "'sets'")
    refuse_bare_names(listed)
    return tuple(checks.name_or_names(s, "A set", MechanismError) for s in listed)


def _sizes(schema: Schema) -> dict[str, int]:
    return {attribute.name: attribute.size for attribute in schema}


def _amounts(sizes: Mapping[str, int], squared: Callable[[int], int]) -> dict[str, Fraction]:
    """The sensitivity, in squared L2, of the queries on one set to each of its attributes; one with one value cannot
    change."""
    return {name: Fraction(amount) for name, size in sizes.items() if (amount := squared(size))}


def _unsigned_move(size: int) -> int:
    """The sensitivity of conjunctions to one attribute: two answers move between two values both asked for; a bit has
    only one."""
    return min(size - 1, 2)


def _without_first(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """The conjunctions on one set: the cells of a marginal where no attribute has its first value."""
    return np.flatnonzero(reduce(np.logical_and.outer, [np.arange(size) > 0 for size in sizes]))


def _odd_sum(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """The parity on one set: for each cell of a marginal, whether an odd number of codes is odd, as one row."""
    odd = reduce(np.logical_xor.outer, [np.arange(size) % 2 == 1 for size in sizes])
    return np.reshape(odd, (1, -1)).astype(np.int64)


def _free(schema: Schema, over: tuple[str, ...] | None) -> tuple[tuple[str, ...], int] | None:
    """The attributes with more than one value, and how many others; None where one is not its own source."""
    names = schema.roots if over is None else over
    free = tuple(name for name in names if schema[name].size > 1)
    return (free, len(names) - len(free)) if free and set(schema.roots).issuperset(names) else None
