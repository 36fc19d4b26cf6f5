"""What a run may need at most, and what is refused before any row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.heavy_hitters.engine.passing import MOST_IN_64_BITS
from nabladp.mechanisms.heavy_hitters.planning.certificate import (
    CELL_BYTES,
    MOST_CELLS,
    Sieve,
    caution,
    list_bounds,
    list_bytes,
)
from nabladp.mechanisms.heavy_hitters.planning.search import MEMORY
from nabladp.mechanisms.heavy_hitters.planning.shape import Shape
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.noise.parameters import noise_scale
from nabladp.noise.tails import WIDEST

LEAST_CELLS = 1 << 15  # counted at a time, however little memory there is

# Where :func:`check` lets settings by, only luck worse than the certificate has room for (a millionth of the failure
# probability, which was taken off it) makes a list, or candidates that pass by their noise, so many that they are cut.
LONGEST = 1 << 20  # strings in a list
MOST_DRAWN = 1 << 24  # candidates of a node that pass without being frequent


def check(settings: Settings, sizes: Sequence[int], n: int | None = None, memory: float = MEMORY) -> None:
    """Refuse, before any row is read, what cannot be run; with the number of rows, also what might take too long.

    No list of a plan's settings comes near these limits. Settings made by hand might.
    """
    tree = settings.tree
    if tuple(sizes) != tree.sizes:
        raise MechanismError("The settings are for other attributes.", fix="Plan for the attributes that are counted.")
    if (settings.notion == "pure") == (settings.count_scale is None):
        fix = "Give a noise scale for the counts in the pure version, and none in the concentrated one."
        raise MechanismError("The settings do not say which counts to release.", fix=fix)
    for scale in (*(level.scale for level in settings.levels), settings.count_scale or 1.0):
        noise_scale(scale)  # refuses what cannot be drawn
    if settings.notion == "cdp" and max(level.scale for level in settings.levels) > WIDEST:
        raise MechanismError("The Gaussian noise is too wide.", fix="Allow a larger budget.", widest=WIDEST)
    for node in tree.nodes:
        children = [tree.nodes[child] for child in node.children]
        if any(child.thresholded for child in children):
            continue  # how much it has to do depends on lists
        cells = tree.cells(node)
        longest = LONGEST if not node.thresholded else cells if children else MOST_IN_64_BITS
        if cells > longest or (node.thresholded and passing_many(settings, settings.level_of(node), cells)):
            fix = "Use narrower leaves or a smaller fan-out, or declare coarser domains."
            raise DomainTooLarge("A node of the tree has too many values.", fix=fix, cells=cells)
    if n is not None:
        _check_lists(settings, n, memory)


def _check_lists(settings: Settings, n: int, memory: float) -> None:
    """Refuse settings whose lists might get too long: by bounds that hold with near certainty, whatever the data."""
    shape = Shape.of(settings.tree)
    listed, candidates = list_bounds(shape, Sieve.of(settings).rates(n), caution(shape, settings.failure))
    if not shape.lowest:
        candidates[shape.levels[0]] *= shape.thresholded
    many = any(
        passing_many(settings, level, max(1, float(candidates[kinds].max())))
        for level, kinds in zip(settings.levels, shape.levels[shape.lowest :], strict=True)
    )
    if many or listed.max() > LONGEST or 2 * list_bytes(shape, listed) > memory:
        fix = "Raise the thresholds or lower the noise, use a smaller fan-out, or let the planner choose."
        raise MechanismError("With these settings lists might get too long.", fix=fix, strings=float(listed.max()))


def passing_many(settings: Settings, level: Level, candidates: float) -> bool:
    """More candidates are expected to pass by their noise alone than memory should hold (by an upper bound)."""
    chance = settings.mu / level.scale if settings.notion == "pure" else (level.threshold / level.scale) ** 2 / 2
    return math.log(candidates) - chance > math.log(MOST_DRAWN)


def cells_at_once(settings: Settings) -> int:
    """How many cells are counted in one pass over the rows: a quarter of the memory is for that."""
    return min(MOST_CELLS, max(LEAST_CELLS, settings.memory // (4 * CELL_BYTES)))
