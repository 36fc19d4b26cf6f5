"""What a plan is asked for, how good a draft of it is, and how a draft is made better."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.certificate import (
    Shape,
    Sieve,
    caution,
    certified_count,
    false_bound,
    list_bounds,
    list_bytes,
    most_strings,
)

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
        """How many combinations the certificate speaks of at once."""
        return max(1.0, float(most_strings(self.n, np.array([max(f, 1.0)]), self.frequency)[0]))


@dataclass(frozen=True, eq=False)
class Draft:
    """Sieve on a tree of some shape, and the scale of its counts where they get noise of their own."""

    shape: Shape
    sieve: Sieve
    count_scale: float | None = None

    def value(self, goal: Goal, below: float = math.inf) -> float:
        """The certified count, smoothly between whole numbers, plus the error of counts that get noise of their own.

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


def feasible(start: Floats, harder: Floats, build: Build, goal: Goal) -> Floats:
    """The first point on the way from ``start`` that is worth anything; ``start`` if there is none soon."""
    for step in range(12):
        draft = build(start + step * harder)
        if draft is not None and math.isfinite(draft.value(goal)):
            return start + step * harder
    return start


def tuned(start: Floats, steps: Floats, last: Floats, build: Build, goal: Goal) -> tuple[float, Draft | None]:
    """One coordinate at a time, with steps that are halved (down to ``last``) when none helps any more."""

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
