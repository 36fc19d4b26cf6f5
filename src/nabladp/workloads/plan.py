"""Workloads as a plan file writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.checks import members
from nabladp.errors import MechanismError, shown
from nabladp.workloads.families import Conjunctions, Marginals, Parities
from nabladp.workloads.family import Family, Union, Workload, no_workload
from nabladp.workloads.linear import LinearQueries
from nabladp.workloads.options import made, nearest

FAMILIES: dict[str, type[Family]] = {f.kind: f for f in (Marginals, Conjunctions, Parities, LinearQueries)}


def as_workload(given: Any) -> Workload:
    """A workload, or its plan-file form: ``{ queries = "conjunctions", k = 2 }`` or a list of such."""
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
        said = "'queries' is missing" if kind is None else f"there are no queries {shown(kind)}"
        raise MechanismError(f"A workload must say what it asks: {said}.", fix=nearest(kind, FAMILIES))
    family: Family = made(FAMILIES[kind], {n: v for n, v in given.items() if n != "queries"}, f"{kind!r}")
    return family
