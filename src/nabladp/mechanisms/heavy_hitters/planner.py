"""HeavyHitters planner: from budget, rows and failure probability to the settings with the smallest certified count.

Only public facts enter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.certificate import (
    Shape,
    Sieve,
    caution,
    certified_count,
    certify,
    false_bound,
    list_bounds,
    list_bytes,
    most_strings,
    nothing_certified,
)
from nabladp.mechanisms.heavy_hitters.privacy_loss import count_scale, least_path_lambda
from nabladp.mechanisms.heavy_hitters.settings import Notion, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree, leaf_groups

MEMORY = 4 << 30  # bytes, where nothing else is said
_GAIN = 5e-4  # relative: less is not worth a step
ERROR_CAUTION = 20.0  # counts get about a tenth of the failure probability, two-sided


@dataclass(frozen=True)
class Goal:
    """What is asked for."""

    budget: float  # ε or ρ of every attribute
    n: int
    failure: float
    frequency: float | None
    count_share: float | None
    largest_list: float
    false_listed: float
    memory: float

    def strings(self, f: float) -> float:
        """The number of combinations that the certificate must cover at once."""
        return max(1.0, float(most_strings(self.n, np.array([max(f, 1.0)]), self.frequency)[0]))


@dataclass(frozen=True, eq=False)
class Draft:
    """Sieve on a tree of some shape, and the scale of its counts where they get noise of their own."""

    shape: Shape
    sieve: Sieve
    count_scale: float | None = None

    def value(self, goal: Goal, below: float = math.inf) -> float:
        """The value that the planner minimises: the certified count, made smooth, plus the error of counts with noise
        of their own.

        Infinite where lists might get too long, and where it would not be ``below`` a value.
        """
        certified = certified_count(self.shape, self.sieve, goal.n, goal.failure, goal.frequency, below + 2)
        if certified is None:
            return math.inf
        strings = goal.strings(certified)
        more, less = self.sieve.missing(self.shape.nodes, np.array([certified - 1.0, certified])) * strings
        fall = math.log(more / less) if 0 < less < more else math.inf
        value = certified + math.log(max(less, 1e-300) / goal.failure) / fall
        if self.count_scale is not None:
            value += self.error(goal, strings)
        return value if value < below and self._fits(goal) else math.inf

    def _fits(self, goal: Goal) -> bool:
        rates = self.sieve.rates(goal.n)
        listed, candidates = list_bounds(self.shape, rates, caution(self.shape, goal.failure))
        return bool(
            listed.max() <= goal.largest_list
            and false_bound(self.shape, rates[1], candidates) <= goal.false_listed
            and 2 * list_bytes(self.shape, listed) <= goal.memory  # the other half is for counting
        )

    def error(self, goal: Goal, strings: float) -> float:
        return (self.count_scale or 0.0) * math.log(ERROR_CAUTION * strings / goal.failure)


Build = Callable[[Floats], Draft | None]


def first_feasible(start: Floats, harder: Floats, build: Build, goal: Goal) -> Floats:
    """The first point on the way from ``start`` at which a draft meets the planner's goal; ``start`` if there is none
    soon."""
    for step in range(12):
        draft = build(start + step * harder)
        if draft is not None and math.isfinite(draft.value(goal)):
            return start + step * harder
    return start


def tune(start: Floats, steps: Floats, last: Floats, build: Build, goal: Goal) -> tuple[float, Draft | None]:
    """Coordinate descent on a draft's value, with steps that are halved (down to ``last``) when none helps any more."""

    def rated(point: Floats, below: float) -> tuple[float, Draft | None]:
        draft = build(point)
        return (math.inf, None) if draft is None else (draft.value(goal, below), draft)

    point, (value, draft) = start, rated(start, math.inf)
    while np.any(steps >= last):
        improved = False
        for i in np.flatnonzero(steps >= last):
            for sign in (-1, 1):
                moved = point.copy()
                moved[i] += sign * steps[i]
                new_value, new_draft = rated(moved, value * (1 - _GAIN))
                if new_value < math.inf:
                    point, value, draft, improved = moved, new_value, new_draft, True
                    break
        if not improved:
            steps = steps / 2
    return value, draft


# ---- drafts of the pure tree -----------------------------------------------------------------------------------------
# Lists stay short if μ/λ is large enough, and λ·ε depends on μ/λ and the rises over λ, hardly on λ itself. So these
# ratios are what is searched: μ, thresholds and at last λ, exactly, follow from them.

_SHARE = 0.2  # of the budget, for counts: where the tuning starts
# Clip and rise over λ (the rise as a part of the clip), and how far the lowest threshold lies above the clip.
_CLIP, _RISE, _ABOVE = np.meshgrid(
    np.linspace(1, 26, 26), np.linspace(0.0, 1.0, 21), [0.0, 0.25, 0.5, 1.0, 2.0, 4.0], indexing="ij"
)


def pure_estimates(shape: Shape, goal: Goal) -> Iterator[tuple[float, Floats]]:
    """Quick estimates of the best pure HeavyHitters drafts of this tree shape: clip, height above it, rises, share for
    counts.

    Two of them, with small and with large rises: between them the loss has a hump that tuning does not cross.
    """
    share = _SHARE if goal.count_share is None else goal.count_share
    height = len(shape.nodes)
    steps = np.sum([_step(-_CLIP + i * _CLIP * _RISE) for i in range(height)], axis=0)
    lam = (steps + 1) / ((1 - share) * goal.budget)
    lowest, rise = lam * _CLIP + _ABOVE * _unit(lam, goal), lam * _CLIP * _RISE
    top = lowest + (height - 1) * rise
    weight = sum(count * np.exp(-(height - 1 - i) * rise / lam) for i, count in enumerate(shape.nodes))
    strings = goal.n / top if goal.frequency is None else np.minimum(goal.n / top, 1 / goal.frequency)
    beta = 1 / np.minimum(share * goal.budget, (share * goal.budget + 1 / lam) / 2)
    value = top + lam * np.log(np.maximum(strings * weight / (2 * goal.failure), 1))
    value += beta * np.log(np.maximum(ERROR_CAUTION * strings / goal.failure, 1))
    value[~_lists_bounded(shape, goal, lam, lowest, rise)] = math.inf
    for part in (_RISE < 0.45, _RISE >= 0.45):
        best = np.unravel_index(np.argmin(np.where(part, value, math.inf)), value.shape)
        rises = np.full(height - 1, _CLIP[best] * _RISE[best])
        yield float(value[best]), np.array([_CLIP[best], _ABOVE[best], *rises, share])


def _step(x: Floats) -> Floats:
    """λ times the privacy loss of one row for a passing string x·λ above the threshold, for finely spread noise."""
    far = np.exp(-np.maximum(x, 0))
    return np.where(x <= 0, 1.0, far / (2 - far))


def _unit(lam: Floats | float, goal: Goal) -> Floats:
    """The unit in which heights above the clip are measured: from n/largest_list on, the data cannot fill a list."""
    return np.maximum(lam, 2 * goal.n / goal.largest_list)


def _lists_bounded(shape: Shape, goal: Goal, lam: Floats, lowest: Floats, rise: Floats) -> NDArray[np.bool_]:
    """Whether expected lists stay short, as if all nodes of a level were as wide as the widest."""
    p = np.exp(-_CLIP) / 2
    widest = float(shape.cells[shape.thresholded].max()) if shape.lowest == 0 else shape.widest
    joined = max((math.ceil(len(children) / len(starts)) for children, starts in shape.joins), default=1)
    fits, candidates = np.ones(lam.shape, dtype=bool), np.full(lam.shape, widest)
    for level in range(len(shape.nodes)):
        listed = 0.85 * goal.n / (lowest + level * rise + lam) + p * candidates
        fits &= (listed <= goal.largest_list) & (p * candidates <= goal.false_listed)
        candidates = np.minimum(listed, goal.largest_list) ** joined
    return fits


def tune_pure(shape: Shape, goal: Goal, start: Floats) -> tuple[float, Draft | None]:
    def build(point: Floats) -> Draft | None:
        clip, above, share = point[0], point[1], float(point[-1])
        heights = np.cumsum([0.0, *point[2:-1]])
        if clip <= 0 or above < 0 or point[2:-1].min(initial=0) < 0 or not 0 < share < 1:
            return None
        epsilon = (1 - share) * goal.budget
        chains = np.tril(_step(heights[:, None] - heights[None, :] - clip)).sum(axis=1)
        guess = (float(chains.max()) + 1) / epsilon
        mu = max(1, round(clip * guess))
        thresholds = mu + np.round(above * _unit(guess, goal) + heights * guess)
        lam = least_path_lambda([int(t) for t in thresholds], mu, epsilon)
        sieve = Sieve("pure", thresholds, np.full(len(thresholds), lam), mu)
        return Draft(shape, sieve, count_scale(lam, share * goal.budget))

    steps, last = np.full(len(start), 0.8), np.full(len(start), 0.1)
    steps[1], last[1] = 0.1, 0.02
    steps[-1], last[-1] = (0.0, 1.0) if goal.count_share is not None else (0.04, 0.01)
    harder = np.zeros(len(start))
    harder[:2] = 0.4, start[1] / 20  # where lists come out too long
    return tune(first_feasible(start, harder, build, goal), steps, last, build, goal)


# ---- drafts of the concentrated tree: thresholds and how ρ is split over the levels ----------------------------------

_LENGTHS = np.geomspace(30, 1, 12)[:, None]  # lists below the root: the longest allowed over this, squared
_ROUNDS = 12
_QUANTILE = NormalDist().inv_cdf
_SLACK = 1e-11


def concentrated_estimates(shape: Shape, goal: Goal) -> Iterator[tuple[float, Floats]]:
    """Quick estimates of the best concentrated HeavyHitters draft of this shape: thresholds, and logarithms of shares
    of ρ.

    A level with noise σ that lets a false candidate pass with the tail beyond a·σ and misses with the tail beyond m·σ
    certifies f = (a + m)·σ. With all levels at the same f, Σ 1/σ² = ρ gives f² = Σ (a + m)²/ρ. What is left is to
    split the failure probability, for which (a + m)/(nodes·density(m)) is the same at all levels at the best split.
    """
    lengths = goal.largest_list / _LENGTHS**2
    candidates = np.array([_widest(shape, float(length)) for length in lengths[:, 0]])
    target = np.repeat(lengths, len(shape.nodes), axis=1)
    target[:, -1] = goal.largest_list / 1.2  # nothing is joined with the root's
    a, m = np.full(target.shape, 3.5), np.full(target.shape, 4.0)
    f, split = np.zeros((len(lengths), 1)), np.full(target.shape, 1 / len(shape.nodes))
    for _ in range(_ROUNDS):
        f = np.sqrt(((a + m) ** 2).sum(axis=1, keepdims=True) / goal.budget)
        scale = f / (a + m)
        data = 0.9 * goal.n / np.maximum(a * scale + 0.5 * scale, 1)
        rate = np.minimum(np.maximum(target - data, target / 4), goal.false_listed) / candidates
        a = _beyond(np.clip(rate, 1e-300, 0.5))
        a = np.maximum(a, goal.n / (0.8 * target * scale))  # so that the data cannot fill a list
        strings = goal.n / f if goal.frequency is None else np.minimum(goal.n / f, 1 / goal.frequency)
        m = _beyond(np.clip(split * goal.failure / np.maximum(strings, 1) / shape.nodes, 1e-300, 0.4))
        weight = shape.nodes * np.exp(-(m**2) / 2) / (a + m)
        split = weight / weight.sum(axis=1, keepdims=True)
    best = int(np.argmin(f))
    scale = f[best] / (a + m)[best]
    yield float(f[best, 0]), np.concatenate([np.ceil(a[best] * scale), -2 * np.log(scale)])


def _beyond(tails: Floats) -> Floats:
    """The number of standard deviations that a normal variable exceeds with these probabilities."""
    return np.array([-_QUANTILE(tail) for tail in tails.ravel().tolist()]).reshape(tails.shape)


def _widest(shape: Shape, length: float) -> Floats:
    """The number of candidates of the widest node of every level, if all lists have this length."""
    levels = len(shape.nodes)
    candidates = list_bounds(shape, (np.full(levels, length), np.zeros(levels)))[1]
    candidates[shape.levels[0]] *= shape.thresholded
    return np.array([min(float(candidates[level].max()), 1e290) for level in shape.levels[shape.lowest :]])


def tune_concentrated(shape: Shape, goal: Goal, start: Floats) -> tuple[float, Draft | None]:
    levels = len(shape.nodes)

    def build(point: Floats) -> Draft | None:
        thresholds = np.round(point[:levels])
        if thresholds.min() < 0:
            return None
        shares = np.exp(point[levels:] - point[levels:].max())
        scales = np.sqrt(shares.sum() / (goal.budget * shares)) * (1 + _SLACK)
        return Draft(shape, Sieve("cdp", thresholds, scales))

    wide = 2.0 ** max(0, round(math.log2(max(start[:levels].max(), 1) / 16)))
    steps, last = np.full(2 * levels, wide), np.full(2 * levels, max(1.0, wide / 8))
    steps[levels:], last[levels:] = 0.1, 0.05
    harder = np.repeat([wide, 0.0], levels)  # where lists come out too long, raise all thresholds
    return tune(first_feasible(start, harder, build, goal), steps, last, build, goal)


# ---- the planner -----------------------------------------------------------------------------------------------------

FAN_OUTS = (2, 3, 4, 8)
LEAF_CELLS = tuple(2**k for k in range(1, 13))
FREE_CELLS = 4096  # leaves with more values get a threshold
WIDEST = 1 << 16  # cells that a node of free leaves should have at most, for the speed of counting
LARGEST_LIST = 50_000
FALSE_LISTED = {
    "pure": 1000.0,
    "cdp": 100.0,
}  # fewer make counting faster, and cost a concentrated plan next to nothing
_DRAFTS = {"pure": (pure_estimates, tune_pure), "cdp": (concentrated_estimates, tune_concentrated)}
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
    """Plan HeavyHitters: the settings with the smallest certified count for ``n`` rows at ε (pure) or ρ (cdp) per
    attribute.

    ``count_share`` is the part of a pure budget that counts get; without it the certified count and the error of counts
    are made small together. ``frequency`` ν limits the promise to combinations with a share of ν or more of the rows.
    Every list is kept below ``largest_list`` strings with near certainty, and no node is expected to list more than
    ``false_listed`` strings that are in no row.
    """
    budgets = [float(value) for value in ([budget] * len(sizes) if isinstance(budget, int | float) else budget)]
    _check(sizes, budgets, n, failure, notion, count_share, frequency)
    false_listed = FALSE_LISTED[notion] if false_listed is None else false_listed
    goal = Goal(min(budgets), n, failure, frequency, count_share, largest_list, false_listed, memory)
    estimates, tune = _DRAFTS[notion]
    shapes = _shapes(sizes)
    widest = max(widest, min(shape.widest for _, shape in shapes))
    shapes = [entry for entry in shapes if entry[1].widest <= widest]
    rated = [(*result, parameters, shape) for parameters, shape in shapes for result in estimates(shape, goal)]
    rated.sort(key=lambda entry: entry[0])
    best: tuple[float, Draft, Parameters] | None = None
    for number, (_, start, parameters, shape) in enumerate(rated[:_TRIED]):
        if number >= _TUNED and best is not None:
            break
        value, draft = tune(shape, goal, start)
        if draft is not None and math.isfinite(value) and (best is None or value < best[0]):
            best = value, draft, parameters
    if best is None:
        raise nothing_certified(n)
    _, draft, parameters = best
    return certify(Tree.build(sizes, *parameters), draft.sieve, draft.count_scale, n, failure, frequency, memory)


def _shapes(sizes: Sequence[int]) -> list[tuple[Parameters, Shape]]:
    """Every tree shape once, with the arguments that build it: leaf width, fan-out and width of free leaves."""
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
