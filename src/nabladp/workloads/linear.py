"""Queries given by their values: anything between 0 and 1 for each combination of values of some attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.checks import holds_more, members, name_or_names
from nabladp.errors import MechanismError, quote
from nabladp.schema import Schema
from nabladp.workloads.families import Conjunctions, Family, Marginals, Parities, Union, Workload, no_workload
from nabladp.workloads.marginals import refuse_too_wide
from nabladp.workloads.options import check_weight, from_options, listing, nearest
from nabladp.workloads.queries import GRID, Group
from nabladp.workloads.sensitivity import shift_of_values

_MOST_VALUES = 1 << 24  # of one query, written as lists


@dataclass(frozen=True)
class LinearQuery:
    """One query: its value in [0, 1] for every combination of values of ``attributes``, the last one fastest."""

    attributes: tuple[str, ...]
    values: Any
    name: str = ""
    weight: float = 1

    def __post_init__(self) -> None:
        names = name_or_names(self.attributes, "'attributes'", MechanismError)
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "weight", check_weight(self.weight))
        if not isinstance(self.name, str):
            raise MechanismError("A query's name is a text.", fix='Write name = "share of the old".')
        object.__setattr__(self, "values", tuple(self._numbers().ravel().tolist()))

    def _numbers(self) -> NDArray[np.float64]:
        if holds_more(self.values, _MOST_VALUES):
            raise MechanismError(f"The values of {self._label} are too many.", fix="Give one for each combination.")
        try:
            given = np.asarray(self.values)
            values = None if given.dtype.kind in "USMmc" else given.astype(np.float64)  # "0.5" is no number
        except (TypeError, ValueError, OverflowError):  # also numbers that no double holds
            values = None
        if values is None:
            raise MechanismError(f"The values of {self._label} are not numbers.", fix="Give one for each combination.")
        if not np.all((values >= 0) & (values <= 1)):  # also refuses NaN
            raise MechanismError(
                f"A value of {self._label} lies outside [0, 1].",
                fix="Shift the values and divide them by their largest.",
                query=self.name,
            )
        return values

    @property
    def _label(self) -> str:
        return f"the query {self.name!r}" if self.name else f"a query on {'+'.join(map(str, self.attributes))}"

    def numerators(self, schema: Schema) -> tuple[NDArray[np.int64], int]:
        """A linear query's values as whole numbers over a grid: 1 where all are 0 or 1."""
        cells = schema.cells(self.attributes)  # refuses unknown names
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise MechanismError(f"Each attribute of {self._label} must be named once.", fix="List what it depends on.")
        refuse_too_wide(self.attributes)
        values = np.array(self.values)
        if cells != len(values):
            raise MechanismError(
                f"There are {len(values):,} values for the {cells:,} combinations of {self._label}.",
                fix="Give one value for every combination, the last attribute fastest.",
            )
        grid = 1 if np.all(values % 1 == 0) else GRID
        return np.rint(values * grid).astype(np.int64), grid

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"attributes": list(self.attributes), "values": list(self.values)}
        return body | ({"name": self.name} if self.name else {}) | ({"weight": self.weight} if self.weight != 1 else {})


@dataclass(frozen=True)
class LinearQueries(Family):
    """Any queries with values in [0, 1], each given by its attributes and its values on them.

    Values other than 0 and 1 are rounded to a grid of 2⁻²⁰. Δ_T is measured from the values (every pair of cells where
    a set has at most 1,024), and summed over sets of attributes: a bound. Queries on the same attributes, with the same
    weight and grid, stand together where the first of them was.
    """

    each: tuple[LinearQuery, ...]
    weight: float = 1
    kind = "linear"

    def __post_init__(self) -> None:
        given = [
            q if isinstance(q, LinearQuery) else from_options(LinearQuery, q, "A linear query")
            for q in listing(self.each, "'each'")
        ]
        if not given:
            raise MechanismError("The workload is empty.", fix="List at least one query.")
        object.__setattr__(self, "each", tuple(given))
        object.__setattr__(self, "weight", check_weight(self.weight))

    def groups(self, schema: Schema) -> list[Group]:
        kept: dict[tuple[Any, ...], list[tuple[NDArray[np.int64], str]]] = {}
        for number, query in enumerate(self.each):
            values, grid = query.numerators(schema)
            text = query.name or f"linear query {number + 1}"
            kept.setdefault((query.attributes, query.weight, grid), []).append((values, text))
        groups = []
        for (attributes, weight, grid), together in kept.items():
            values = np.stack([values for values, _ in together])
            shift = shift_of_values(attributes, schema.sizes(attributes), values, grid)
            texts = tuple(text for _, text in together)
            groups.append(Group(attributes, len(values), weight * self.weight, shift, values, grid, texts))
        return groups

    def explicit_names(self) -> tuple[str, ...]:
        return tuple(name for query in self.each for name in query.attributes)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"each": [query.to_json() for query in self.each]}


# ---- workloads as a plan file writes them ----------------------------------------------------------------------------

FAMILIES: dict[str, type[Family]] = {f.kind: f for f in (Marginals, Conjunctions, Parities, LinearQueries)}


def as_workload(given: Any) -> Workload:
    """A workload, or one from its plan-file form: ``{ queries = "conjunctions", k = 2 }`` or a list of such."""
    if isinstance(given, (Family, Union)):
        return given
    if isinstance(given, Mapping):
        return _family(given)
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        listed = members(given, "A workload", 'Write [{ queries = "conjunctions", k = 2 }].')
        return Union(tuple(part if isinstance(part, Family) else _family(part) for part in listed))
    raise no_workload()


def _family(given: Any) -> Family:
    if not isinstance(given, Mapping):
        raise no_workload()
    kind = given.get("queries")
    if not isinstance(kind, str) or kind not in FAMILIES:
        reason = "'queries' is missing" if kind is None else f"there are no queries {quote(kind)}"
        raise MechanismError(f"A workload must say what it asks: {reason}.", fix=nearest(kind, FAMILIES))
    family: Family = from_options(FAMILIES[kind], {n: v for n, v in given.items() if n != "queries"}, f"{kind!r}")
    return family
