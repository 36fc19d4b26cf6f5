"""Choosing disjoint sets of one or two attributes among any number of attributes: Gumbel matching.

Every set, and for every attribute the option to be left alone, gets Gumbel noise of its own; the packing with the
largest noisy sum is chosen. Fix the noise of all options without attribute j. For an option e of j let A_e be the
largest noisy sum of what is left once e is taken. The packing holds that e for which log weight + noise + A_e is
largest, and so P(e) ∝ exp(log weight + A_e): for each attribute an exact exponential mechanism over its options,
whatever the number of attributes. What else is chosen follows from e and the noise that was fixed.

Noise without "alone" breaks this: whether j's set is taken at all would then depend on its score without any noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Integers
from nabladp.errors import MechanismError
from nabladp.noise.draws import Draws
from nabladp.noise.packings import checked_weights, on_grid
from nabladp.noise.parameters import whole_number

# ---- Gumbel noise ----------------------------------------------------------------------------------------------------

GRID = 28  # binary digits of log weights and noise: with the largest weight, sums of three fit into 62 bits
_DIGITS = 40  # decimal digits beyond those of the uniform number, for its two logarithms


def gumbel(draws: Draws, count: int) -> Integers:
    """Standard Gumbel noise, −ln(−ln U) for a uniform U, rounded down to multiples of 2⁻ᴳᴿᴵᴰ: exactly the law of the
    rounded-down real number."""
    words = draws.words(count)
    below, above = words.astype(np.float64) + 0.5, (~words).astype(np.float64) + 0.5  # U and 1 − U, times 2⁶⁴
    exponential = np.where(below < above, -np.log(below * 2.0**-64), -np.log1p(-np.minimum(above, 2.0**63) * 2.0**-64))
    scaled = -np.log(exponential) * 2.0**GRID
    result = np.floor(scaled).astype(np.int64)
    # A word says U up to 2⁻⁶⁴, hence the noise up to 2/(the nearer of both ends, in words); floats err by 700 units in
    # the last place at most (|noise| < 45), which is far below SLACK.
    unsure = (draws.slack + 2 / np.minimum(below, above)) * 2.0**GRID
    close = np.flatnonzero(np.minimum(scaled - result, result + 1 - scaled) <= unsure)
    for i in close.tolist():
        result[i] = _exact_gumbel(draws, words[i])
    return result


def _exact_gumbel(draws: Draws, word: np.uint64) -> int:
    """The same for one uniform number, of which this is the first word: more are drawn until the result is certain."""
    known, length = int(word), 64
    while True:
        low, high = _gumbel_of(known, length), _gumbel_of(known + 1, length)
        if low is not None and high is not None:
            unsure = Fraction(1, 10 ** (length // 4))  # far above the error of two correctly rounded logarithms
            least, most = math.floor((low - unsure) * (1 << GRID)), math.floor((high + unsure) * (1 << GRID))
            if least == most:
                return least
        known, length = (known << 64) | int(draws.words(1)[0]), length + 64


def _gumbel_of(numerator: int, length: int) -> Fraction | None:
    """−ln(−ln(numerator/2ˡᵉⁿᵍᵗʰ)), to more digits than the number has; None at 0 and 1, where it is infinite."""
    if not 0 < numerator < 1 << length:
        return None
    exact = Context(prec=2 * length + _DIGITS)  # a fraction of 2ˡᵉⁿᵍᵗʰ has no more decimal digits than length
    uniform = exact.divide(Decimal(numerator), Decimal(1 << length))
    return -Fraction(exact.ln(exact.ln(uniform).copy_negate()))


# ---- matchings -------------------------------------------------------------------------------------------------------

MOST_ATTRIBUTES = 1 << 10
_FORBIDDEN = -(1 << 60)


class Matchings:
    """Ways to choose pairwise disjoint members of a family of sets of one or two attributes, any number of them.

    Holds structure only, no weights. Members may be equal as sets; they are told apart by their index. An *option* is a
    member, or (numbered after all members) an attribute left alone; every way takes one option for each attribute.
    """

    def __init__(self, left: ArrayLike, right: ArrayLike, width: int) -> None:
        """Member i is the set of the attributes left[i] and right[i], which are the same one where it has only one."""
        self.width = whole_number(width, "The number of attributes", 1, MOST_ATTRIBUTES)
        one, other = (np.asarray(ends, np.int64).reshape(-1) for ends in (left, right))
        if len(one) != len(other) or (
            len(one) and not 0 <= min(one.min(), other.min()) <= max(one.max(), other.max()) < width
        ):
            fix = f"Give two lists of numbers from 0 to {width - 1}."
            raise MechanismError("A matching has sets of one or two of its attributes.", fix=fix)
        self.members, own = len(one), np.arange(width)
        self.left = np.concatenate([np.minimum(one, other), own])  # of all options
        self.right = np.concatenate([np.maximum(one, other), own])
        paired = self.left != self.right
        self._singles, self._pairs = np.flatnonzero(~paired), np.flatnonzero(paired)
        keys, self._pair_of = np.unique(self.left[self._pairs] * width + self.right[self._pairs], return_inverse=True)
        self._ends = keys // width, keys % width

    def draw(self, draws: Draws, log_weights: ArrayLike) -> tuple[int, ...]:
        """A random choice of disjoint sets, as sorted indices; for each attribute, P ∝ exp(log weight + what is left)
        over its options, up to ``slack``."""
        return self.heaviest(self._options(log_weights) + gumbel(draws, len(self.left)))

    def _options(self, log_weights: ArrayLike) -> Integers:
        weights = checked_weights(log_weights, self.members)
        return np.concatenate([on_grid(weights, GRID), np.zeros(self.width, np.int64)])

    @staticmethod
    def slack() -> float:
        """η: given the noise of all options without an attribute, the log probability of each of its options is within
        η of the ideal one.

        Let u = 2⁻ᴳᴿᴵᴰ. Rounding log weights to the grid moves each by u/2, a log probability by u. After that, weights
        and what is left are multiples of u, so that rounding noise down is rounding the sums x_e down. If e is chosen
        by rounded sums, whatever the rule for ties, then x_e + u > x_f for all f; and if x_e > x_f + u for all f, then
        e is chosen. Either has P(e) with a log weight of e raised or lowered by u: within u of the ideal. So 2u in all;
        the code takes 4u.
        """
        return 4 * 2.0**-GRID

    def heaviest(self, values: Integers) -> tuple[int, ...]:
        """The members of the way with the largest sum of its options' values; of several such, always the same one:
        that without the first option in which they differ."""
        best = self._heaviest(values)
        lowered = values.copy()
        lowered[best] -= 1
        if not np.array_equal(self._heaviest(lowered), best):  # another way has the same sum
            best = self._first(values, best)
        return tuple(best[best < self.members].tolist())

    def _first(self, values: Integers, best: Integers) -> Integers:
        """Of all heaviest ways: options are given up in their order wherever that costs nothing."""
        largest, allowed, settled = _total(values, best), values.copy(), -1
        while len(later := best[best > settled]):
            option = int(later[0])
            allowed[settled + 1 : option] = _FORBIDDEN
            without = allowed.copy()
            without[option] = _FORBIDDEN
            other = self._heaviest(without)
            if _total(without, other) == largest:
                best, allowed = other, without
            settled = option
        return best

    def _heaviest(self, values: Integers) -> Integers:
        """Options of one heaviest way, sorted."""
        import rustworkx

        single = self._best_of(self._singles, self.left[self._singles], values, self.width)
        pair = self._best_of(self._pairs, self._pair_of, values, len(self._ends[0]))
        alone = values[single]
        gain = values[pair] - alone[self._ends[0]] - alone[self._ends[1]]
        worth = np.flatnonzero(gain > 0)  # no heaviest way needs another pair
        graph = rustworkx.PyGraph(multigraph=False)
        graph.add_nodes_from(range(self.width))
        graph.add_edges_from(
            list(zip(self._ends[0][worth].tolist(), self._ends[1][worth].tolist(), gain[worth].tolist(), strict=True))
        )
        matched = rustworkx.max_weight_matching(graph, weight_fn=int)
        ends = np.array([sorted(ends) for ends in matched], np.int64).reshape(-1, 2)
        chosen = np.searchsorted(self._ends[0] * self.width + self._ends[1], ends[:, 0] * self.width + ends[:, 1])
        left = np.delete(np.arange(self.width), ends.ravel())
        return np.sort(np.concatenate([pair[chosen], single[left]]))

    @staticmethod
    def _best_of(options: Integers, group: Integers, values: Integers, groups: int) -> Integers:
        """For every group of options the one of largest value, the first of them where several are."""
        order = np.lexsort((-options, values[options], group))
        last = np.searchsorted(group[order], np.arange(groups), side="right") - 1
        return options[order[last]]

    def law(self, log_weights: ArrayLike) -> Iterator[tuple[tuple[int, ...], float]]:
        """Every possible choice with its log probability, as if weights and noise were real numbers; for at most
        four attributes."""
        from nabladp.noise.matching_law import matching_law

        yield from matching_law(self.left, self.right, self.width, checked_weights(log_weights, self.members))


def _total(values: Integers, options: Integers) -> int:
    return sum(values[options].tolist())
