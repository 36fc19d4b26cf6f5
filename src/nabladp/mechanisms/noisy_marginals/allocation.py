"""How much of every attribute's budget goes to which marginal.

A marginal costs each attribute it touches the same amount, so amounts rise together (in proportion to their weights)
until an attribute is used up; the marginals on it stop there and the others go on. No attribute is ever overdrawn, and
none that could still help is left with budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

_FINE = 1 << 32  # amounts rise in this fraction of a unit, always rounded down


def allocate(
    touched: Sequence[frozenset[str]], weights: Sequence[Fraction], budget_units: Mapping[str, int]
) -> list[int]:
    """Units for each marginal, given the source attributes it touches and every attribute's budget in units."""
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
