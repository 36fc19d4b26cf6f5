"""All halfspaces on {−1,+1}^d without intercept or ties, for d ≤ 7: every function once.

A function is told by its Chow parameters, the sums of f(z)·z over the cube, and two coordinates are interchangeable if
and only if their Chow parameters are equal in size. Up to order and signs of coordinates a function has weights that
never rise and are at least 0; integers will do, and of odd sum: were it even, all |⟨w, z⟩| would be at least 2, so that
one weight could be made smaller by 1. So integer weights are searched by growing sum for functions not met before. The
search ends when there are as many functions as are known to exist; what is found is distinct, so that is all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np

from nabladp.arrays import Integers
from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.learners.halfspaces.sign_orbits import SignOrbits, orders

COUNTS = {1: 2, 2: 4, 3: 14, 4: 104, 5: 1882, 6: 94572, 7: 15028134, 8: 8378070864}
"""How many there are in so many coordinates."""

MOST_COORDINATES = 7


@cache
def threshold_functions(features: int, intercept: bool = False) -> SignOrbits:
    """Every halfspace; an intercept counts as a coordinate."""
    coordinates = features + intercept
    if features < 1:
        raise MechanismError("A halfspace needs at least one feature.", fix="Name features in 'over'.")
    if coordinates > MOST_COORDINATES:
        there = f"There are {COUNTS[coordinates]:,} of them" if coordinates in COUNTS else "There are far too many"
        raise DomainTooLarge(
            f"All halfspaces can be listed for up to {MOST_COORDINATES} features, the intercept counted as one. "
            f"{there} for {coordinates}.",
            fix="Give a resolution (a lattice net), use fewer features, or use method='gram'.",
            features=features,
        )
    return SignOrbits(_representatives(coordinates), intercept)


def _representatives(d: int) -> Integers:
    half = 1 - 2 * (np.arange(1 << (d - 1))[:, None] >> np.arange(d) & 1)  # the other half is its negative
    found: dict[tuple[int, ...], list[int]] = {}
    total, missing = 1, COUNTS[d]
    while missing:
        weights = np.array(list(partitions(total, d, total)))
        chow = np.sign(weights @ half.T) @ half
        for row, parameters in zip(weights.tolist(), chow.tolist(), strict=True):
            key = tuple(parameters)
            if key not in found and Counter(Counter(row).values()) == Counter(Counter(key).values()):
                found[key] = row
                missing -= orders(Counter(key)) << sum(map(bool, key))
        total += 2
    return np.array(list(found.values()))


def partitions(total: int, parts: int, largest: int) -> Iterator[list[int]]:
    """Lists of ``parts`` numbers from ``largest`` to 0 that never rise and sum to ``total``."""
    if parts == 0:
        if total == 0:
            yield []
        return
    for first in range(min(total, largest), -(-total // parts) - 1, -1):
        for rest in partitions(total - first, parts - 1, first):
            yield [first, *rest]
