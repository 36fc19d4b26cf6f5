"""What all families of queries share, and unions of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

from nabladp.checks import expect
from nabladp.errors import MechanismError
from nabladp.schema import Schema
from nabladp.workloads.options import checked_weight, listing
from nabladp.workloads.queries import Group, Queries
from nabladp.workloads.shift import Curve

Self = TypeVar("Self", bound="Family")


class Workload(ABC):
    """Queries that do not yet know their schema."""

    @abstractmethod
    def bind(self, schema: Schema) -> Queries:
        """The queries on this schema."""

    @abstractmethod
    def to_json(self) -> Any:
        """In the form of a plan file."""

    @abstractmethod
    def named(self) -> tuple[str, ...]:
        """The attributes that it names itself; it may ask about others too."""


class Family(Workload):
    """A weight, union with ``+``, a larger weight with ``*``."""

    kind: str
    weight: float

    @abstractmethod
    def groups(self, schema: Schema) -> list[Group]:
        """The queries, set by set."""

    def curve(self, schema: Schema) -> Curve | None:
        """The exact shift of all queries together, where every attribute that can change is like every other."""
        return None

    def bind(self, schema: Schema) -> Queries:
        return Union((self,)).bind(schema)

    def __add__(self, other: Family | Union) -> Union:
        return Union((self,)) + other

    def __rmul__(self: Self, factor: float) -> Self:
        return replace(self, weight=self.weight * checked_weight(factor))  # type: ignore[type-var]

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
        """Where all parts weigh the same and treat the same attributes alike: their curves, added up."""
        curves = [curve for part in self.parts if (curve := part.curve(schema)) is not None]
        alike = len({part.weight for part in self.parts}) == len({frozenset(curve.attributes) for curve in curves}) == 1
        return reduce(add, curves) if alike and len(curves) == len(self.parts) else None

    def to_json(self) -> list[Any]:
        return [part.to_json() for part in self.parts]

    def named(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.named())


def no_workload() -> MechanismError:
    return MechanismError(
        "A workload is a family of queries or a list of them.",
        fix='Write Conjunctions(2), or in a plan { queries = "conjunctions", k = 2 }.',
    )


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
