"""How much of every attribute's budget goes to which part of a release (a marginal, a group of queries).

A part costs each attribute it touches at most one amount, so amounts rise together (in proportion to their weights)
until an attribute is used up; the parts on it stop there and the others go on. No attribute is ever overdrawn, and none
that could still help is left with budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm

from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, limit_units

_FINE = 1 << 32  # amounts rise in this fraction of a unit, always rounded down


def source_units(universe: Universe, budget: BudgetValue, budgets: Mapping[str, BudgetValue]) -> dict[str, int]:
    """What every source attribute may pay; an exception for a derived column holds for all its sources."""
    exceptions: dict[str, int] = {}
    for name, value in budgets.items():
        for source in universe.sources(name):
            exceptions[source] = min(exceptions.get(source, limit_units(value)), limit_units(value))
    return dict.fromkeys(universe.roots, limit_units(budget)) | exceptions


def limited_by(universe: Universe, columns: Iterable[str]) -> frozenset[str]:
    """The sources whose budgets limit a part that reads these columns.

    Nothing is promised for public attributes, so they limit no part that also holds a protected one.
    """
    sources = universe.sources(columns)
    return sources - universe.public or sources


def allocate(
    touched: Sequence[frozenset[str]], weights: Sequence[Fraction], budget_units: Mapping[str, int]
) -> list[int]:
    """Units for each part, given the source attributes it touches and every attribute's budget in units."""
    common = lcm(*(weight.denominator for weight in weights))
    shares = [int(weight * common) for weight in weights]
    left = {name: units * _FINE * common for name, units in budget_units.items()}
    on: dict[str, set[int]] = {}
    for index, names in enumerate(touched):
        for name in names:
            on.setdefault(name, set()).add(index)
    load = {name: sum(shares[i] for i in indices) for name, indices in on.items()}
    level, found = 0, [0] * len(touched)
    while load:
        step = min(left[name] // load[name] for name in load)
        level += step
        for name, weight in load.items():
            left[name] -= step * weight
        full = [name for name, weight in load.items() if left[name] < weight]
        stopped = set().union(*(on[name] for name in full))
        for index in stopped:
            found[index] = level * shares[index] // (_FINE * common)
            for name in touched[index]:
                on[name].discard(index)
                load[name] -= shares[index]
        load = {name: weight for name, weight in load.items() if weight}
    return found
