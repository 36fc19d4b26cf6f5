"""From budget, rows and failure probability to the settings with the smallest certified count. Only public facts enter.

Trees of many shapes are rated by a quick estimate; the best few are tuned threshold by threshold, against the
certificate itself. Whatever this search does, its outcome is certified and priced exactly: it can be less good than
possible, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nabladp.mechanisms.heavy_hitters.planning import concentrated, pure
from nabladp.mechanisms.heavy_hitters.planning.certificate import certify, nothing_certified
from nabladp.mechanisms.heavy_hitters.planning.search import MEMORY, Draft, Goal
from nabladp.mechanisms.heavy_hitters.planning.shape import Shape
from nabladp.mechanisms.heavy_hitters.settings import Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree, leaf_groups

FAN_OUTS = (2, 3, 4, 8)
LEAF_CELLS = tuple(2**k for k in range(1, 13))
FREE_CELLS = 4096  # leaves with more values get a threshold
WIDEST = 1 << 16  # cells that a node of free leaves should have at most, for the speed of counting
LARGEST_LIST = 50_000
FALSE_LISTED = {
    "pure": 1000.0,
    "cdp": 100.0,
}  # fewer make counting faster, and cost a concentrated plan next to nothing
_TUNED, _TRIED = 2, 12  # drafts; more than the best two only if neither works out

Parameters = tuple[int, int, int]


def plan(
    sizes: Sequence[int],
    budget: float | Sequence[float],
    n: int,
    failure: float = 0.05,
    notion: Notion = "pure",
    count_share: float | None = None,
    frequency: float | None = None,
    *,
    largest_list: float = LARGEST_LIST,
    false_listed: float | None = None,
    memory: float = MEMORY,
    widest: float = WIDEST,
) -> Settings:
    """The settings to find what is frequent among ``n`` rows at ε (pure) or ρ (cdp) per attribute, the least of them.

    ``count_share`` is the part of a pure budget that counts get; without it the certified count and the error of counts
    are made small together. ``frequency`` ν limits the promise to combinations with a share of ν or more of the rows.
    Every list is kept below ``largest_list`` strings with near certainty, and no node is expected to list more than
    ``false_listed`` strings that are in no row.
    """
    budgets = [float(value) for value in ([budget] * len(sizes) if isinstance(budget, int | float) else budget)]
    _check(sizes, budgets, n, failure, notion, count_share, frequency)
    false_listed = FALSE_LISTED[notion] if false_listed is None else false_listed
    goal = Goal(min(budgets), n, failure, frequency, count_share, largest_list, false_listed, memory)
    way = pure if notion == "pure" else concentrated
    shapes = _shapes(sizes)
    widest = max(widest, min(shape.widest for _, shape in shapes))
    shapes = [entry for entry in shapes if entry[1].widest <= widest]
    rated = [(*found, parameters, shape) for parameters, shape in shapes for found in way.estimates(shape, goal)]
    rated.sort(key=lambda entry: entry[0])
    best: tuple[float, Draft, Parameters] | None = None
    for number, (_, start, parameters, shape) in enumerate(rated[:_TRIED]):
        if number >= _TUNED and best is not None:
            break
        value, draft = way.tune(shape, goal, start)
        if draft is not None and math.isfinite(value) and (best is None or value < best[0]):
            best = value, draft, parameters
    if best is None:
        raise nothing_certified(n)
    _, draft, parameters = best
    return certify(Tree.build(sizes, *parameters), draft.sieve, draft.count_scale, n, failure, frequency, memory)


def _shapes(sizes: Sequence[int]) -> list[tuple[Parameters, Shape]]:
    """Every tree once, with the arguments that build it: leaf width, fan-out and width of free leaves."""
    shapes: dict[tuple[int, int], tuple[Parameters, Shape]] = {}
    for width in LEAF_CELLS:
        cells = np.array([float(cells) for _, _, cells in leaf_groups(sizes, width)])
        for fan_out in FAN_OUTS:
            key = len(cells), min(fan_out, len(cells))  # wider leaves are other leaves only if there are fewer
            if key not in shapes:
                shapes[key] = (width, fan_out, FREE_CELLS), Shape.build(cells, fan_out, FREE_CELLS)
    return list(shapes.values())


def _check(
    sizes: Sequence[int],
    budgets: Sequence[float],
    n: int,
    failure: float,
    notion: str,
    count_share: float | None,
    frequency: float | None,
) -> None:
    if not sizes:
        raise ValueError("There must be at least one attribute.")
    if len(budgets) != len(sizes) or not all(budget > 0 for budget in budgets) or math.isinf(min(budgets)):
        raise ValueError(
            "The budget must be one positive number, or one for every attribute, not all of them infinite."
        )
    if n < 1:
        raise ValueError("There must be at least one row.")
    if not 0 < failure < 1:
        raise ValueError("The failure probability must lie between 0 and 1.")
    if notion not in ("pure", "cdp"):
        raise ValueError("The notion must be 'pure' or 'cdp'.")
    if frequency is not None and not 0 < frequency < 1:
        raise ValueError("The frequency must lie between 0 and 1.")
    if count_share is not None and (notion == "cdp" or not 0 < count_share < 1):
        raise ValueError("Only the pure version splits its budget; the part for counts must lie between 0 and 1.")
