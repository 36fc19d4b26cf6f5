"""The law of a Gumbel matching among at most four attributes, by integration: for audits. No randomness here.

The largest of several options with Gumbel noise has Gumbel noise itself, around the log of their summed weights, and
which one it is does not depend on it. So each attribute by itself, and each pair, is one option. Given what the
attributes are worth by themselves, pairs have independent gains over that, and the packing takes, of the three ways to
split four attributes into two pairs, that with the largest sum of gains above 0. The sum over what attributes are worth
is one over a lattice, which for densities as smooth as Gumbel's errs by less than 10⁻⁵ of each probability.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from nabladp.arrays import Floats, Integers, compile_loop
from nabladp.errors import AuditError

WIDEST = 4
_SPLITS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
_STEP = 0.6  # of the lattice
_BELOW, _ABOVE = 3.2, 17.0  # the noise of an attribute by itself lies between, but for 10⁻⁷
_NEGLIGIBLE = 1e-15
_PANELS, _POINTS, _INNER = (2.0, 4.0, 8.0, 16.0), 10, 20  # of a gain: lengths, points in each, points of convolutions


Ends = tuple[int, int]


def matching_law(
    left: Integers, right: Integers, width: int, log_weights: Floats
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every choice of disjoint members, as sorted indices, with its log probability. ``left`` and ``right`` are the
    attributes of each member, then those of the options to leave an attribute alone (see ``Matchings``)."""
    if width > WIDEST:
        raise AuditError(
            f"The law of a matching is known for at most {WIDEST} attributes.", fix="Audit fewer attributes."
        )
    values = np.append(log_weights, np.zeros(width))
    inside: dict[tuple[int, int], tuple[Integers, Floats, float]] = {}
    for ends in {(int(a), int(b)) for a, b in zip(left, right, strict=True)}:
        options = np.flatnonzero((left == ends[0]) & (right == ends[1]))
        together = float(np.logaddexp.reduce(values[options]))
        inside[ends] = options, values[options] - together, together
    pairs = {ends: together for ends, (_, _, together) in inside.items() if ends[0] != ends[1]}
    singles = [inside[own, own][2] for own in range(width)]
    for matched, chance in _chances(singles, pairs).items():
        alone = set(range(width)) - {end for ends in matched for end in ends}
        parts = [inside[ends] for ends in (*matched, *((own, own) for own in sorted(alone)))]
        for which in itertools.product(*(range(len(options)) for options, _, _ in parts)):
            taken = [int(options[i]) for i, (options, _, _) in zip(which, parts, strict=True)]
            log_chance = math.log(chance) + sum(float(own[i]) for i, (_, own, _) in zip(which, parts, strict=True))
            yield tuple(sorted(option for option in taken if option < len(log_weights))), log_chance


def _chances(singles: list[float], pairs: dict[Ends, float]) -> dict[tuple[Ends, ...], float]:
    """The probability of every set of disjoint pairs; attributes beyond those there are have no noise and no pairs."""
    first = math.floor((min(singles) - _BELOW) / _STEP)
    count = math.ceil((max(singles) + _ABOVE) / _STEP) - first + 1
    lattice = np.arange(first, first + count, dtype=np.float64) * _STEP
    worth = np.zeros((WIDEST, count))
    worth[:, 0] = 1.0
    for own, middle in enumerate(singles):
        worth[own] = _alone(middle, lattice)
    sums = np.arange(2 * first, 2 * (first + count) - 1, dtype=np.float64) * _STEP  # of two attributes by themselves
    highest = max((*pairs.values(), 0.0)) - 2 * min(singles)
    gains, weights = _nodes((*_PANELS, max(highest, 0.0) + 1.0))
    none, both, below, one = _tables(pairs, sums, gains)
    result = compile_loop(_sum_over)(worth / worth.sum(axis=1, keepdims=True), none, both, below, one, weights)
    chances: dict[tuple[Ends, ...], float] = {(): float(result[0])}
    for k, split in enumerate(_SPLITS):
        gained = {split[:1]: result[1 + 3 * k], split[1:]: result[2 + 3 * k], split: result[3 + 3 * k]}
        chances |= {ends: float(chance) for ends, chance in gained.items() if all(pair in pairs for pair in ends)}
    total = math.fsum(chances.values())
    return {ends: chance / total for ends, chance in chances.items() if chance > 0}


def _alone(middle: float, lattice: Floats) -> Floats:
    """The density of what an attribute is worth by itself."""
    return np.exp(middle - lattice - np.exp(middle - lattice))


def _nodes(panels: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Points and weights of an integral from 0 over panels of these lengths."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    starts = np.cumsum([0.0, *panels[:-1]])
    parts = [
        (start + (points + 1) * length / 2, weights * length / 2) for start, length in zip(starts, panels, strict=True)
    ]
    return np.concatenate([p for p, _ in parts]), np.concatenate([w for _, w in parts])


def _tables(pairs: dict[Ends, float], sums: Floats, gains: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """For each split, by the lattice sums below its two pairs: the probability that neither gains; the density of the
    sum where both do; the probability that the sum is at most so much; and the densities where one of them gains."""
    points, weights = np.polynomial.legendre.leggauss(_INNER)
    inner, parts = gains[:, None] * (points + 1) / 2, gains[:, None] * weights / 2  # what the first pair has of a gain
    results: list[list[Floats]] = [[], [], [], []]
    for split in _SPLITS:
        first, second = (pairs.get(ends, -math.inf) - sums for ends in split)
        no_first, no_second = _at_most(first, np.zeros(1)), _at_most(second, np.zeros(1)).T
        some = _density(first, inner) * parts
        both = np.einsum("atx,btx->abt", some, _density(second, gains[:, None] - inner))
        within = np.einsum("atx,btx->abt", some, _at_most(second, gains[:, None] - inner))
        below = within + no_first[:, :, None] * _at_most(second, gains)
        only_first = _density(first, gains)[:, None] * no_second[:, :, None]
        only_second = no_first[:, :, None] * _density(second, gains)
        for tables, own in zip(
            results, (no_first * no_second, both, below, np.stack([only_first, only_second])), strict=True
        ):
            tables.append(own)
    none, both, below, one = map(np.array, results)
    return none, both, below, one


def _at_most(middle: Floats, gain: Floats) -> Floats:
    """P(gain ≤ so much) for every middle of a pair's Gumbel law."""
    return np.exp(-np.exp(middle.reshape(-1, *(1,) * gain.ndim) - gain))


def _density(middle: Floats, gain: Floats) -> Floats:
    below = middle.reshape(-1, *(1,) * gain.ndim) - gain
    return np.exp(below - np.exp(below))


def _sum_over(worth: Floats, none: Floats, both: Floats, below: Floats, one: Floats, weights: Floats) -> Floats:
    """Probabilities of: no pair; of each split its first pair alone, its second, and both."""
    result = np.zeros(10)
    count = worth.shape[1]
    for a in range(count):
        for b in range(count):
            for c in range(count):
                start = worth[0, a] * worth[1, b] * worth[2, c]
                if start < _NEGLIGIBLE:
                    continue
                for d in range(count):
                    chance = start * worth[3, d]
                    if chance < _NEGLIGIBLE:
                        continue
                    first = (a + b, a + c, a + d)
                    second = (c + d, b + d, b + c)
                    result[0] += (
                        chance
                        * none[0, first[0], second[0]]
                        * none[1, first[1], second[1]]
                        * none[2, first[2], second[2]]
                    )
                    for k in range(3):
                        i, j = (k + 1) % 3, (k + 2) % 3
                        for t in range(len(weights)):
                            others = (
                                chance
                                * weights[t]
                                * below[i, first[i], second[i], t]
                                * below[j, first[j], second[j], t]
                            )
                            result[1 + 3 * k] += others * one[k, 0, first[k], second[k], t]
                            result[2 + 3 * k] += others * one[k, 1, first[k], second[k], t]
                            result[3 + 3 * k] += others * both[k, first[k], second[k], t]
    return result
