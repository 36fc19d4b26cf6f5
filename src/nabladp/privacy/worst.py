"""The costliest k attributes of a guarantee."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nabladp.checks import is_whole
from nabladp.errors import GuaranteeError, shown
from nabladp.privacy.units import root_double, to_float

if TYPE_CHECKING:
    from nabladp.privacy.guarantee import Guarantee

MOST_SUBSETS = 50_000  # about two seconds


@dataclass(frozen=True)
class WorstSubset:
    """``rho`` belongs to ``attributes``; no set of this size costs more than ``at_most``. ``exact`` if they agree."""

    attributes: tuple[str, ...]
    rho: float
    at_most: float
    exact: bool


def worst_subset(guarantee: Guarantee, size: int, most: int | None = None) -> WorstSubset:
    """Looks at every set of this size if there are at most ``most``, otherwise searches and says how sure that is."""
    names = guarantee.universe.protected
    if not is_whole(size, 1, len(names)):
        raise GuaranteeError(
            f"There is no set of {shown(size)} protected attributes.", fix=f"Choose from 1 to {len(names)}."
        )
    size = int(size)
    if math.comb(len(names), size) <= (MOST_SUBSETS if most is None else most):
        best = max(itertools.combinations(names, size), key=lambda chosen: _units(guarantee, chosen))
        rho = _units(guarantee, best)
        return WorstSubset(best, _shown(rho), _shown(rho), True)
    chosen = _greedy(guarantee, names, size)
    found, bound = _units(guarantee, chosen), _upper_bound(guarantee, names, size)
    return WorstSubset(tuple(sorted(chosen, key=names.index)), _shown(found), _shown(bound), found == bound)


def _units(guarantee: Guarantee, chosen: tuple[str, ...]) -> float | int:
    units = guarantee.rho_units(chosen)
    return math.inf if units is None else units


def _shown(units: float | int) -> float:
    return to_float(units) if isinstance(units, int) else units


def _greedy(guarantee: Guarantee, names: tuple[str, ...], size: int) -> tuple[str, ...]:
    """Add the attribute that raises the cost most, ``size`` times."""
    chosen: tuple[str, ...] = ()
    for _ in range(size):
        rest = [name for name in names if name not in chosen]
        chosen += (max(rest, key=lambda name: _units(guarantee, (*chosen, name))),)
    return chosen


def _upper_bound(guarantee: Guarantee, names: tuple[str, ...], size: int) -> float | int:
    """The smallest of: the whole person, group privacy over the k costliest, every term's own worst."""
    person = _units(guarantee, names)
    single = [_units(guarantee, (name,)) for name in names]
    if any(isinstance(units, float) for units in single):
        return person
    roots = heapq.nlargest(size, (root_double(int(units)) for units in single))
    group = -(-(sum(roots) ** 2) // (2 << 60))
    termwise: float | int = 0
    for term, count in guarantee.terms:
        worst = term.worst(size, frozenset(names)).rho
        termwise = math.inf if worst is None else termwise + count * worst
    return min(person, group, termwise)
