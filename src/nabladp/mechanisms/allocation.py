"""Budgets shared out over parts and attributes, and the noise scale that a share buys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm

from nabladp.errors import BudgetError
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, limit_units

# ---- shares of a budget ----------------------------------------------------------------------------------------------

_FINE = 1 << 32  # amounts rise in this fraction of a unit, always rounded down


def source_units(universe: Universe, budget: BudgetValue, budgets: Mapping[str, BudgetValue]) -> dict[str, int]:
    """The budget of every source attribute in units; an exception for a derived column holds for all its sources."""
    exceptions: dict[str, int] = {}
    for name, value in budgets.items():
        for source in universe.sources(name):
            exceptions[source] = min(exceptions.get(source, limit_units(value)), limit_units(value))
    return dict.fromkeys(universe.roots, limit_units(budget)) | exceptions


def limited_by(universe: Universe, columns: Iterable[str]) -> frozenset[str]:
    """The sources whose budgets limit a part of a release that reads these columns.

    Nothing is promised for public attributes, so they limit no part that also holds a protected one.
    """
    sources = universe.sources(columns)
    return sources - universe.public or sources


def allocate(
    touched: Sequence[frozenset[str]], weights: Sequence[Fraction], budget_units: Mapping[str, int]
) -> list[int]:
    """Allocate budget: units for each part of a release, given the source attributes it touches and every attribute's
    budget."""
    common = lcm(*(weight.denominator for weight in weights))
    shares = [int(weight * common) for weight in weights]
    left = {name: units * _FINE * common for name, units in budget_units.items()}
    on: dict[str, set[int]] = {}
    for index, names in enumerate(touched):
        for name in names:
            on.setdefault(name, set()).add(index)
    load = {name: sum(shares[i] for i in indices) for name, indices in on.items()}
    level, result = 0, [0] * len(touched)
    while load:
        step = min(left[name] // load[name] for name in load)
        level += step
        for name, weight in load.items():
            left[name] -= step * weight
        full = [name for name, weight in load.items() if left[name] < weight]
        stopped = set().union(*(on[name] for name in full))
        for index in stopped:
            result[index] = level * shares[index] // (_FINE * common)
            for name in touched[index]:
                on[name].discard(index)
                load[name] -= shares[index]
        load = {name: weight for name, weight in load.items() if weight}
    return result


def allocate_by_role(
    costs: Sequence[Mapping[str, Fraction]], shares: Sequence[int], budget_units: Mapping[str, int]
) -> list[int]:
    """Allocate budget where a part of u units costs attribute j ``costs[part][j]``·u. No budget is exceeded.

    All parts rise together, in proportion to their shares, until an attribute is used up; those that cost it stop.
    """
    left = {name: Fraction(units) for name, units in budget_units.items()}
    amounts, rising, level = [0] * len(costs), set(range(len(costs))), Fraction(0)
    while rising:
        load: dict[str, Fraction] = {}
        for index in rising:
            for name, cost in costs[index].items():
                load[name] = load.get(name, Fraction(0)) + shares[index] * cost
        step = min(left[name] / amount for name, amount in load.items())
        level += step
        for name, amount in load.items():
            left[name] -= step * amount
        full = {name for name in load if not left[name]}
        for index in [index for index in rising if full & costs[index].keys()]:
            amounts[index] = math.floor(level * shares[index])
            rising.discard(index)
    return amounts


# ---- the noise scale that a cost buys --------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def least_scale(noise: str, units: int, moved: int | Fraction = 2) -> float:
    """The smallest noise scale, as a double, whose noise costs at most so many units of 2⁻⁶⁰ (ρ for Gaussian, ε for
    Laplace noise).

    ``moved`` is how far one row can move what gets the noise: squared and in L2 for Gaussian noise (ρ = moved/(2s²)),
    in L1 for Laplace noise (ε = moved/s). It is 2 for a table of counts, as one row leaves a cell and enters another.
    """
    if units < 1:
        raise BudgetError("The budget is too small: noise would have no bound.", fix="Raise it.")
    if noise == "gaussian":
        guess = math.sqrt(moved * UNIT / (2 * units))
        return _round_up(guess, lambda s: 2 * s * s * units >= moved * UNIT)
    return _round_up(float(moved * UNIT / Fraction(units)), lambda s: s * units >= moved * UNIT)


def _round_up(guess: float, enough: Callable[[Fraction], bool]) -> float:
    """A noise scale moved up until the exact inequality holds: rounding never makes noise too small."""
    scale = guess
    while enough(Fraction(scale)):  # a guess is right to a few units in the last place
        scale = math.nextafter(scale, 0.0)
    while not enough(Fraction(scale)):
        scale = math.nextafter(scale, math.inf)
    return scale
