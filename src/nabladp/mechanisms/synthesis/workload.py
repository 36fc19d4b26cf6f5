"""Which marginals are wanted, how much each matters, and which may be measured for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.privacy.budget import members
from nabladp.privacy.units import exact
from nabladp.privacy.universe import Universe
from nabladp.schema import Schema
from nabladp.workloads import marginal_sets
from nabladp.workloads.marginals import MOST_SETS

Names = tuple[str, ...]
LARGEST_DOMAIN = 1 << 16  # of one attribute: beyond, its own counts are lost in noise
_LARGEST_LINK = 1 << 20
_TARGET = 3  # how much more a marginal with the target column matters


@dataclass(frozen=True)
class Wanted:
    """``sets`` with a weight each are the workload; ``candidates``, with theirs, are what rounds choose from.

    ``links`` tie derived columns to their sources. They and the one-way marginals are measured first.
    """

    schema: Schema
    sets: tuple[Names, ...]
    weights: tuple[float, ...]
    candidates: tuple[Names, ...]
    candidate_weights: tuple[float, ...]
    links: tuple[Names, ...] = ()

    @cached_property
    def columns(self) -> Names:
        """What the model and the drawn table hold."""
        used = {name for names in (*self.sets, *self.links) for name in names}
        return tuple(name for name in self.schema.names if name in used)

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {name: self.schema[name].size for name in self.columns}

    def cells(self, names: Names) -> int:
        return math.prod(self.sizes[name] for name in names)

    @cached_property
    def first(self) -> tuple[Names, ...]:
        """Measured before anything is chosen: every column, by itself or tied to its sources."""
        tied = {link[0] for link in self.links}
        return (*((name,) for name in self.columns if name not in tied), *self.links)


def wanted(
    schema: Schema,
    workload: int | Sequence[Sequence[str]],
    over: Sequence[str] | None,
    weights: Mapping[Any, float] | Sequence[float] | None,
    target: str | None,
) -> Wanted:
    """The workload, checked against the schema; refuses what could never be counted."""
    links: tuple[Names, ...] = ()
    if isinstance(workload, int):
        _check_number(workload, len(schema.roots if over is None else over))
        sets = marginal_sets(schema, None, workload, over)
        links = _links(schema) if over is None else ()
    else:
        if over is not None:
            raise MechanismError("'over' goes with a number of columns.", fix="Leave it out, or give workload = 2.")
        sets = marginal_sets(schema, workload, None)
    _refuse_large_domains(schema, [*sets, *links])
    chosen = _weights(schema, sets, weights, target)
    wide = max(map(len, sets)) > 2
    candidates, worth = _closure(schema, sets, chosen) if wide else (sets, chosen)
    return Wanted(schema, sets, chosen, candidates, worth, links)


def _check_number(workload: int, columns: int) -> None:
    """In the words of this mechanism, where the number is the workload."""
    if not 1 <= workload <= columns:
        raise MechanismError(
            f"There are no {workload}-way combinations of {columns} attributes.",
            fix=f"'workload' is a number from 1 to {columns}, or a list of sets.",
        )
    if (count := math.comb(columns, workload)) > MOST_SETS:
        raise DomainTooLarge(
            f"All {workload}-way marginals of {columns} attributes are {count:,} tables; the most is {MOST_SETS:,}.",
            fix="Lower 'workload', list the sets you need in it, or name fewer attributes in 'over'.",
            tables=count,
        )


def _refuse_large_domains(schema: Schema, sets: Iterable[Names]) -> None:
    for name in dict.fromkeys(name for names in sets for name in names):
        if (size := schema[name].size) > LARGEST_DOMAIN:
            raise DomainTooLarge(
                f"{name!r} has {size:,} values, too many for a table of synthetic rows; the most is "
                f"{LARGEST_DOMAIN:,}.",
                fix=f"Declare bins or fewer values for {name!r}, or leave it out of the workload.",
                attributes=[name],
                cells=str(size),
            )


def _links(schema: Schema) -> tuple[Names, ...]:
    """Each derived column with its sources: with all of them where that is not too large, else with each."""
    found: list[Names] = []
    for name, sources in schema.derived.items():
        together = (name, *sources)
        found += [together] if schema.cells(together) <= _LARGEST_LINK else [(name, source) for source in sources]
    return tuple(found)


def _weights(
    schema: Schema, sets: tuple[Names, ...], given: Mapping[Any, float] | Sequence[float] | None, target: str | None
) -> tuple[float, ...]:
    found = [Fraction(1)] * len(sets)
    if isinstance(given, Mapping):
        place = {frozenset(names): i for i, names in enumerate(sets)}
        for key, weight in given.items():
            names = members(Universe.of(schema), key)
            schema.sizes(names)
            if frozenset(names) not in place:
                raise MechanismError(f"{'+'.join(names)} has a weight but is not in the workload.", fix="Remove it.")
            found[place[frozenset(names)]] = exact(weight, "a weight")
    elif given is not None:
        if len(given) != len(sets):
            raise MechanismError(f"There are {len(given)} weights for {len(sets)} sets.", fix="Give one per set.")
        found = [exact(weight, "a weight") for weight in given]
    if any(weight <= 0 for weight in found):
        raise MechanismError("Every weight must be above zero.", fix="Leave unwanted sets out.")
    if target is not None:
        schema.sizes([target])
        if not any(target in names for names in sets):
            raise MechanismError(f"No marginal of the workload holds the target {target!r}.", fix="Add one.")
        found = [_TARGET * w if target in names else w for names, w in zip(sets, found, strict=True)]
    return tuple(float(weight) for weight in found)


def _closure(
    schema: Schema, sets: tuple[Names, ...], weights: tuple[float, ...]
) -> tuple[tuple[Names, ...], tuple[float, ...]]:
    """The sets and all their parts of two columns or more. A part counts for every set by what they share."""
    order = {name: i for i, name in enumerate(schema.names)}
    parts: dict[frozenset[str], Names] = {}
    for names in sets:
        for size in range(min(2, len(names)), len(names) + 1):
            for part in itertools.combinations(names, size):
                parts.setdefault(frozenset(part), tuple(sorted(part, key=order.__getitem__)))
    singles = dict.fromkeys((name for names in sets for name in names), 0.0)
    for names, weight in zip(sets, weights, strict=True):
        for name in names:
            singles[name] += weight
    # Σ over sets of weight·|part ∩ set| is a sum over the part's columns.
    return tuple(parts.values()), tuple(sum(singles[name] for name in part) for part in parts)
