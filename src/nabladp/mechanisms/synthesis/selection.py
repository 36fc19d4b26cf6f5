"""What a round picks: integer scores, exact draws, and the slack of the floats in between."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from nabladp.arrays import Floats, Integers
from nabladp.errors import BudgetError
from nabladp.mechanisms.synthesis.accounts import Block, Limits
from nabladp.mechanisms.synthesis.strategy import GRID
from nabladp.noise import NoiseSource
from nabladp.noise.matchings import Matchings
from nabladp.noise.packings import AnyPackings, any_slack, fineness, largest_value, log_softmax, on_grid
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT

Pick = tuple[int, ...]  # candidates, in increasing order
LARGEST_SCORE = 10**8  # beyond what doubles tell apart well, a pick is as good as certain anyway
LARGEST_GUESS = 2.0**62  # of the sum of a guess on its grid; those of a model sum to the number of rows
ABSOLUTE = math.sqrt(2 / math.pi)  # mean size of a Gaussian of deviation one
_LEAST_UNITS = 1 << 12  # of a round's cost


def prices(limits: Limits, rounds: Sequence[tuple[Block, ...]], share: Fraction) -> tuple[dict[str, int], Guarantee]:
    """The ε-units that every protected attribute pays for one pick of a marginal, and the guarantee of all picks
    together.

    Every attribute's picks stay within ``share`` of its own limit, and every set's within ``share`` of that set's.
    """
    within = limits.shared(share)
    results: dict[str, int] = {}
    for name, units in zip(limits.attributes, within, strict=False):
        each = units // len(rounds)
        each -= 16 + (each >> 40)  # terms round up
        if each < _LEAST_UNITS:
            raise BudgetError(
                f"The budget of {name!r} is too small for {len(rounds):,} rounds.", fix="Raise it or ask for fewer."
            )
        results[name] = math.isqrt(2 * UNIT * each)  # [prices]
    cost = _cost(limits, rounds, results)
    for held, most in zip(limits.sets, within, strict=True):
        while (taken := cost.rho_units(held) or 0) > most:
            less = Fraction(math.isqrt((most << 60) // taken), 1 << 30) * (1 - Fraction(1, 1 << 20))
            results |= {name: math.floor(results[name] * less) for name in held}
            if not all(results.values()):
                raise BudgetError("A limit on a set is too small for so many rounds.", fix="Raise it or ask for fewer.")
            cost = _cost(limits, rounds, results)
    return results, cost


def _cost(limits: Limits, rounds: Sequence[tuple[Block, ...]], each: Mapping[str, int]) -> Guarantee:
    known = {
        block: block.guarantee(limits.universe, each) for block in {block for blocks in rounds for block in blocks}
    }
    return Guarantee.compose(limits.universe, (known[block] for blocks in rounds for block in blocks))  # [selection]


def distance(truth: Integers, guess: Floats) -> int:
    """A pick's score: ‖truth − guess‖₁ in parts of 1/GRID of a row. One row moves it by at most 2·GRID, whatever the
    guess is."""
    rows = float(truth.sum())  # a public number: all of them
    near = np.rint(np.clip(np.nan_to_num(guess), 0.0, rows) * GRID)
    if float(near.sum()) > LARGEST_GUESS:  # a sum of more than 64 bits would wrap around, and jump
        near = np.zeros_like(near)
    return int(np.abs(GRID * truth - near.astype(np.int64)).sum())  # [score]


class Selector:
    """Picks from one block: P ∝ exp(Σ scores of the sets picked), up to a slack that is paid for.

    A score is a coefficient times a whole number, the distance on its grid less what noise would explain, kept within
    ±(4n + 4) rows. One row moves it by at most the coefficient times 2·GRID, and that is at most the price of any of
    the set's protected attributes, less the slack.
    """

    def __init__(
        self, block: Block, sources: Sequence[frozenset[str]], weights: Floats, price: Mapping[str, int], n: int
    ) -> None:
        self.block, self.sources, self.price, self.n = block, sources, price, n
        self.members = np.array(block.members, np.int64)
        at = {name: i for i, name in enumerate(block.attributes)}
        self.ends = np.array(
            [[f(at[name] for name in sources[i]) for f in (min, max)] for i in block.members], np.int64
        )
        self.relative = weights[self.members] / weights.max()  # the largest of the whole workload
        self.reach = 4 * (n + 1) * GRID

    def _coefficients(self, strength: int) -> tuple[Floats, float]:
        """The coefficients of the distance on its grid in each candidate marginal's score; and the largest possible
        score."""
        dearest = max((self.price[name] for name in self.block.read if name in self.price), default=UNIT)
        steepest = min(Fraction(strength * dearest, UNIT), Fraction(LARGEST_SCORE, 2 * (self.n + 1)))
        largest = float(steepest) * 2 * (self.n + 1)
        spare = 2 * Fraction(self.slack(largest))
        own = []
        for member in self.members.tolist():
            least = min((self.price[name] for name in self.sources[member] if name in self.price), default=dearest)
            own.append(_below(min(Fraction(strength * least, UNIT) - spare, steepest)))  # [coefficient]
        return np.array(own) * self.relative * (1 - 2.0**-50) / (2 * GRID), largest  # never rounded up

    def slack(self, largest: float) -> float:
        """η: how far a pick's log probability may be from the ideal one when all scores lie within ± ``largest``."""
        rounding = 4 * 2.0**-53 * largest  # coefficient times weight times whole number
        if self.block.matched:
            return 4 * rounding + Matchings.slack()  # [slack]
        rounding *= self.block.most
        if self.block.one:
            return 4 * (2.0 ** -fineness(largest) + rounding)
        width = len(self.block.attributes)
        return 4 * rounding + any_slack(width, len(self.members), self.block.most, largest)  # [slack]

    def _ready(self, excess: Integers, strength: int) -> tuple[Integers, Floats, float]:
        """The affordable candidate marginals (the others have no excess: the smallest integer), their scores, a
        bound."""
        coefficients, largest = self._coefficients(strength)
        own = excess[self.members]
        able = np.flatnonzero(own != UNABLE)
        return able, coefficients[able] * np.clip(own[able], -self.reach, self.reach), largest

    def draw(self, excess: Integers, strength: int, noise: NoiseSource) -> Pick:
        """The candidate marginals picked from the block; none where none can be paid."""
        able, scores, largest = self._ready(excess, strength)
        if not len(able):
            return ()
        if self.block.matched:
            chosen = list(noise.select_matching(self._matchings(able), scores))  # [exact-pick]
        elif self.block.one:
            grid = fineness(largest)
            chosen = [noise.select_exponential(on_grid(scores, grid), Fraction(1 << grid))] if len(able) > 1 else [0]
        else:
            chosen = list(noise.select_any_packing(self._packings(able, scores, largest)))
        return tuple(sorted(self.members[able[chosen]].tolist()))

    def law(self, excess: Integers, strength: int) -> Iterator[tuple[Pick, float]]:
        """Every possible pick of marginals with the log-probability with which :meth:`draw` makes it; for tiny
        cases."""
        able, scores, largest = self._ready(excess, strength)
        if not len(able):
            yield (), 0.0
        elif self.block.one:
            grid = fineness(largest)
            for member, chance in zip(able.tolist(), log_softmax(on_grid(scores, grid), grid), strict=True):
                yield (int(self.members[member]),), float(chance)
        else:
            laws = (
                self._matchings(able).law(scores) if self.block.matched else self._packings(able, scores, largest).law()
            )
            for chosen, chance in laws:
                yield tuple(sorted(self.members[able[list(chosen)]].tolist())), chance

    def _matchings(self, able: Integers) -> Matchings:
        return Matchings(self.ends[able, 0], self.ends[able, 1], len(self.block.attributes))

    def _packings(self, able: Integers, scores: Floats, largest: float) -> AnyPackings:
        value = largest_value(len(self.members), self.block.most, largest)
        return AnyPackings(np.array(self.block.masks)[able], len(self.block.attributes), scores, fineness(value))


UNABLE = np.iinfo(np.int64).min  # stands for a candidate that nobody can pay for


def combined_law(selectors: Sequence[Selector], excess: Integers, strength: int) -> Iterator[tuple[Pick, float]]:
    """The law of the picks of all blocks of a Synthesis round, which are drawn independently."""
    for parts in itertools.product(*(list(selector.law(excess, strength)) for selector in selectors)):
        yield tuple(sorted(c for pick, _ in parts for c in pick)), math.fsum(chance for _, chance in parts)


def _below(value: Fraction) -> float:
    """The largest double at or below the value, never below 0."""
    result = float(value)
    return max(result if Fraction(result) <= value else math.nextafter(result, -math.inf), 0.0)
