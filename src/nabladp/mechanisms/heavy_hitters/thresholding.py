"""Who passes: noise for every candidate of a level, drawn for few of them.

Candidates of a node are numbered through. With Z the noise and τ the threshold, a candidate with count f passes iff
max(f, floor) + Z > τ. In the pure tree the floor is τ − μ, which is the rule max(f − τ, −μ) + Z > 0; in cdp it is 0
and does nothing. A ``limit`` between floor and τ, which does not depend on the data, parts the candidates. Those with a
larger count get a draw each. The others, whether they were counted or not, do the following, each by itself:

1. They fail unless Z > τ − limit. All alike, so it is drawn how many are left and which (``NoiseSource.tail_subsets``).
2. Z is drawn given that Z > τ − limit, and they pass iff max(f, floor) + Z > τ. As max(f, floor) ≤ limit, that implies
   Z > τ − limit: none that failed in step 1 should have passed, and all others now have the right noise. (If limit and
   floor are equal, all of them pass, and their counts play no part.)

So every candidate passes, and in cdp has its noise, with exactly the law of a draw of its own, independent of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.noise import NoiseSource
from nabladp.noise.laws import Kind

Codes = NDArray[Any]
"""Numbers of candidates: int64, or Python integers where a node has more than 2⁶² candidates."""

MOST_IN_64_BITS = 1 << 62
LEFT_TO_LOOK_AT = 1 << 16  # candidates of a level that may come to step 2, about, only to fail there


@dataclass(frozen=True, eq=False)
class Candidates:
    """``size`` candidates. Those counted, in order, with their counts; no other has a count above the limit."""

    size: int
    codes: Codes
    counts: Integers

    def counts_of(self, codes: Codes) -> Integers:
        """0 for those that were not counted."""
        if not len(self.codes):
            return np.zeros(len(codes), np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where((self.codes[at] == codes).astype(bool), self.counts[at], 0)


@dataclass(frozen=True, eq=False)
class Passed:
    """Candidates that passed, in order; what is known of their counts; in cdp also their noisy counts."""

    codes: Codes
    counts: Integers
    noisy: Integers | None

    def take(self, places: NDArray[Any]) -> Passed:
        return Passed(self.codes[places], self.counts[places], None if self.noisy is None else self.noisy[places])


@dataclass(frozen=True)
class Rule:
    """What the candidates of a level have to pass."""

    pure: bool
    tau: int
    scale: float
    floor: int
    limit: int

    @classmethod
    def of(cls, settings: Settings, level: Level, size: int, rows: int) -> Rule:
        """For a level with so many candidates in all, over all of whose nodes so many rows are spread.

        Any limit gives the same law, so estimates will do. At most rows/(floor + 1) candidates are above the floor. If
        that is a lot, the limit is raised as far as lets few candidates through step 1.
        """
        pure, tau, scale = settings.notion == "pure", level.threshold, level.scale
        floor = tau - settings.mu if pure else 0
        few = min(LEFT_TO_LOOK_AT, size // 64 + 1)
        if min(size, rows // (floor + 1)) <= 4 * few:
            return cls(pure, tau, scale, floor, floor)
        chance = min(0.5, max(few / size, 1e-300))
        beyond = -scale * math.log(2 * chance) if pure else -NormalDist(0, scale).inv_cdf(chance)
        return cls(pure, tau, scale, floor, max(floor, tau + 1 - max(1, math.ceil(beyond + 0.5))))

    @property
    def law(self) -> Kind:
        return "laplace" if self.pure else "gaussian"

    @property
    def start(self) -> int:
        """The least noise that is let through."""
        return self.tau - self.limit + 1


def draw_survivors(level: Sequence[Candidates], rule: Rule, noise: NoiseSource) -> list[Codes]:
    """Step 1, for every node of a level."""
    # [bulk]
    frequent = [candidates.codes[candidates.counts > rule.limit] for candidates in level]
    others = [candidates.size - len(codes) for candidates, codes in zip(level, frequent, strict=True)]
    survivors = noise.tail_subsets(rule.law, rule.scale, rule.start, others)
    return [_skipping(codes, places) for codes, places in zip(frequent, survivors, strict=True)]


def decide(
    level: Sequence[Candidates], some: Sequence[Codes], counts: Sequence[Integers], rule: Rule, noise: NoiseSource
) -> list[Passed]:
    """Draws for those above the limit, and step 2 for those let through, with their counts (where above the floor)."""
    plain = noise.discrete_laplace if rule.pure else noise.discrete_gaussian
    above = [candidates.counts > rule.limit for candidates in level]
    plains = _split([int(np.count_nonzero(single)) for single in above], lambda many: plain(rule.scale, many))
    beyonds = _split(map(len, some), lambda many: noise.tail_values(rule.law, rule.scale, rule.start, many))
    results = []
    for candidates, single, z, codes, known, rest in zip(level, above, plains, some, counts, beyonds, strict=True):
        every = np.concatenate([candidates.codes[single], codes])
        exact = np.concatenate([candidates.counts[single], known])
        noisy = np.maximum(exact, rule.floor) + np.concatenate([z, rest])
        passing = np.flatnonzero(noisy > rule.tau)
        passing = passing[np.argsort(every[passing], kind="stable")]  # does not show who was drawn for how
        results.append(Passed(every[passing], exact[passing], None if rule.pure else noisy[passing]))
    return results


def _split(lengths: Iterable[int], draw: Callable[[int], Integers]) -> list[Integers]:
    """So many draws for each, all made at once."""
    ends = np.cumsum(list(lengths))
    return np.split(draw(int(ends[-1])), ends[:-1])


def _skipping(taken: Codes, places: Codes) -> Codes:
    """The numbers of the others at these places: counting from 0, and not counting those that are taken.

    The i-th taken number has taken[i] − i others before it, so it comes before place g iff taken[i] − i ≤ g.
    """
    return places + np.searchsorted(taken - np.arange(len(taken)), places, side="right")
