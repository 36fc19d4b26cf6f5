"""The lattice net {w ∈ Z^d : |w|₁ = K}: halfspaces for more features than can be listed as functions.

A real w with |w|₁ = K becomes a point of it by rounding sizes down and then up again those R with the largest rests,
R being the sum of all rests: that moves w by 2·Σ of the rests left down ≤ 2·(d−R)·R/d ≤ d/2 in ℓ₁. Halfspaces do not
mind scaling, so divided by K this is a net of radius ν = d/(2K) as `lem:halfspace-net` asks for. K is odd: then no
⟨w, z⟩ is 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from nabladp.errors import MechanismError
from nabladp.mechanisms.learners.halfspaces.sign_orbits import MEMORY, MOST_COORDINATES, SignOrbits, within_memory
from nabladp.mechanisms.learners.halfspaces.threshold_functions import partitions


def lattice_size(coordinates: int, resolution: int) -> int:
    """How many points: i coordinates that are not 0, a composition of K into i parts, and i signs."""
    return sum(
        math.comb(coordinates, i) * math.comb(resolution - 1, i - 1) << i
        for i in range(1, min(coordinates, resolution) + 1)
    )


def net_radius(coordinates: int, resolution: int) -> Fraction:
    """ν: how far, in ℓ₁ and for weights of norm 1, the nearest point of the net is at most."""
    return Fraction(coordinates, 2 * resolution)


def lattice_net(features: int, resolution: int, intercept: bool = False, memory: int = MEMORY) -> SignOrbits:
    """The net for so many features, refused before anything is made if its scores would not fit into ``memory``."""
    coordinates = features + intercept
    if resolution < 1 or resolution % 2 == 0:
        raise MechanismError("The resolution is an odd number: then no row lies on a boundary.", fix="Add 1 to it.")
    if features < 1 or coordinates > MOST_COORDINATES:
        raise MechanismError(
            f"A net takes 1 to {MOST_COORDINATES} features, the intercept counted as one.", fix="Use method='gram'."
        )
    within_memory(lattice_size(coordinates, resolution), memory)
    return SignOrbits(np.array(list(partitions(resolution, coordinates, resolution))), intercept)
