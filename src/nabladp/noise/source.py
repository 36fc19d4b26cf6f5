"""The one door to randomness: every random draw of the library is a method of :class:`NoiseSource`."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Integers
from nabladp.checks import expect
from nabladp.errors import MechanismError
from nabladp.noise import choices, samplers
from nabladp.noise.draws import Draws, HalfWords, SeededBits, SystemBits, Words
from nabladp.noise.laws import Kind
from nabladp.noise.matchings import Matchings
from nabladp.noise.packings import AnyPackings, Packings
from nabladp.noise.parameters import (
    MOST_DRAWN,
    Real,
    Size,
    integer_array,
    keep_probability,
    noise_scale,
    non_negative,
    probability,
    selection_scale,
    selection_scores,
    selection_weights,
    shape,
    whole_number,
)
from nabladp.noise.tails import Trials, gaussian_beyond, gaussian_tail, laplace_beyond, laplace_tail, subset

# ---- randomized response for the rows of a table ---------------------------------------------------------------------
# A row's answer follows from a secret key and the row's index alone. So a part of the table can be read twice, as a
# cluster does when it loses a machine, and no row ever answers twice: two different answers about one person would say
# more than one does. The key is 256 bits from the operating system; SHAKE-256 of it is the same kind of stream that the
# operating system itself makes of its own secret.

BLOCK = 1 << 13  # rows whose answers are drawn together, always from the start of a block


class KeyedBits:
    """Words of a secret key, for one block of rows."""

    def __init__(self, key: bytes, block: int) -> None:
        self._name = key + b" nabladp rows " + block.to_bytes(8, "little")
        self._taken = 0

    def words(self, count: int) -> Words:
        """The next words of a keyed stream; asked for again, about once in 2⁴⁰ words, it goes on in a stream of its
        own."""
        name = self._name + self._taken.to_bytes(8, "little")
        self._taken += count
        return np.frombuffer(hashlib.shake_256(name).digest(8 * count), dtype="<u8")


@dataclass(frozen=True)
class RowResponse:
    """Turns labels of 0 and 1: each is kept with probability ``keep``, by the index of its row. Picklable.

    Whoever sees it knows every row's answer: like the rows, it stays on the machines that read them.
    """

    keep: Fraction
    key: bytes = field(repr=False)

    def __call__(self, labels: NDArray[np.integer], first: int) -> NDArray[np.int64]:
        """Answers of the rows first, first + 1, …"""
        kept = self._kept(first, len(labels))
        return np.where(kept, labels, 1 - labels.astype(np.int64))

    def _kept(self, first: int, count: int) -> NDArray[np.bool_]:
        blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
        drawn = [Draws(KeyedBits(self.key, block)).bernoulli(self.keep, BLOCK) for block in blocks]
        start = first % BLOCK
        return np.concatenate([np.empty(0, np.bool_), *drawn])[start : start + count]


# ---- the noise source ------------------------------------------------------------------------------------------------

TEST_STAMP = "TEST — NOT PRIVATE"


class NoiseSource:
    """Exact random draws from the operating system's generator.

    No draw carries floating-point error in its distribution. A scale or probability given as a float means exactly
    that double; noise scales lie between 1e-6 and 1e15. Integer results are int64. ``size`` is an int or a shape.
    """

    def __init__(self) -> None:
        self._draws = Draws(SystemBits())

    @classmethod
    def seeded(cls, seed: int) -> NoiseSource:
        """A reproducible noise source for tests and examples. Whoever knows the seed can subtract the noise."""
        source = cls()
        source._draws = Draws(SeededBits(whole_number(seed, "A seed", 0)))
        return source

    def reseeded(self, seed: int) -> Self:
        """The same noise source, whatever its class, with the bits of a seed: its runs can be repeated."""
        source = copy.copy(self)
        source._draws = Draws(SeededBits(whole_number(seed, "A seed", 0)))
        return source

    @property
    def is_seeded(self) -> bool:
        return not isinstance(self._draws.bits, SystemBits)

    @property
    def stamp(self) -> str | None:
        """The stamp of every release drawn from this noise source: a warning if seeded, else nothing."""
        return TEST_STAMP if self.is_seeded else None

    @property
    def draws(self) -> int:
        """The number of times random bits were asked for so far. While it stays the same, nothing was drawn."""
        return self._draws.asked

    def __repr__(self) -> str:
        return f"NoiseSource({self.stamp or 'operating system'})"

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        """Discrete Laplace noise, P(x) ∝ exp(−|x|/scale) on the integers."""
        sizes = shape(size)
        return samplers.discrete_laplace(self._draws, noise_scale(scale), math.prod(sizes)).reshape(sizes)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        """Discrete Gaussian noise, P(x) ∝ exp(−x²/(2·scale²)) on the integers."""
        sizes = shape(size)
        return samplers.discrete_gaussian(self._draws, noise_scale(scale), math.prod(sizes)).reshape(sizes)

    def tail_subsets(self, law: Kind, scale: Real, start: int, sizes: Sequence[int]) -> list[NDArray[Any]]:
        """For sets of ``sizes`` members: which members get noise of at least ``start`` ≥ 1, as sorted indices.

        Exactly the law of drawing noise for every member by itself, for sets of any size. :meth:`tail_values` then
        draws the noise of those.
        """
        draws, width = Draws(HalfWords(self._draws)), noise_scale(scale)
        trials = Trials((laplace_tail if law == "laplace" else gaussian_tail)(width, start), max(sizes))
        return [subset(draws, many, trials.successes(draws, many)) for many in sizes]

    def tail_values(self, law: Kind, scale: Real, start: int, size: int) -> Integers:
        """Noise given that it is at least ``start`` ≥ 1."""
        beyond = laplace_beyond if law == "laplace" else gaussian_beyond
        return beyond(Draws(HalfWords(self._draws)), noise_scale(scale), start, size)

    def uniform_integers(self, bound: int, size: Size) -> Integers:
        """Uniform random integers on 0 … bound−1."""
        sizes = shape(size)
        bound = whole_number(bound, "A bound", 1, 1 << 63)
        return self._draws.integers(bound, math.prod(sizes)).reshape(sizes)

    @overload
    def binomial(self, trials: int, p: Real) -> int: ...
    @overload
    def binomial(self, trials: NDArray[Any], p: Real) -> Integers: ...
    def binomial(self, trials: int | NDArray[Any], p: Real) -> int | Integers:
        """Binomial draws: successes among so many trials of probability p, for one number of trials or for an array."""
        tosses = non_negative(integer_array(trials, "Trials"), "Trials")
        drawn = samplers.binomial(self._draws, tosses.ravel(), probability(p, "A success probability"))
        return drawn.reshape(tosses.shape) if tosses.ndim else int(drawn[0])

    def randomized_response(self, codes: ArrayLike, size: int, keep: Real) -> Integers:
        """Randomized response: each code (0 … size−1) stays with probability ``keep``, else becomes one of the others,
        all alike.

        Pure ε per code: ``response_epsilon(size, keep)``.
        """
        size = whole_number(size, "The number of codes", 1, 1 << 62)
        truth = non_negative(integer_array(codes, "Codes"), "Codes")
        if truth.size and int(truth.max()) >= size:
            raise MechanismError("Codes must lie below their declared number.", fix="Encode by the schema.", size=size)
        kept = keep_probability(keep, size)
        return choices.randomized_response(self._draws, truth.ravel(), size, kept).reshape(truth.shape)

    def row_response(self, keep: Real) -> RowResponse:
        """Randomized response on a label of 0 and 1, by row index, for rows that are read elsewhere or more than
        once."""
        return RowResponse(keep_probability(keep, 2), self._draws.words(4).tobytes())

    def randomized_response_counts(self, counts: ArrayLike, keep: Real) -> Integers:
        """The counts per code (last axis) after randomized response on every row, with exactly that law."""
        table = non_negative(integer_array(counts, "Counts"), "Counts")
        if table.ndim == 0 or table.shape[-1] == 0:
            raise MechanismError("Counts need one cell per code.", fix="Give an array with the codes on its last axis.")
        return choices.randomized_response_counts(self._draws, table, keep_probability(keep, table.shape[-1]))

    def uniform_subset(self, n: int, k: int) -> Integers:
        """A random subset: k distinct numbers of 0 … n−1, sorted; every subset alike."""
        n = whole_number(n, "The size of the set", 0, 1 << 62)
        k = whole_number(k, "The size of the subset", 0, min(n, MOST_DRAWN))
        return choices.uniform_subset(self._draws, n, k)

    @overload
    def select(self, weights: Iterable[int] | NDArray[Any], size: None = None) -> int: ...
    @overload
    def select(self, weights: Iterable[int] | NDArray[Any], size: Size) -> Integers: ...
    def select(self, weights: Iterable[int] | NDArray[Any], size: Size | None = None) -> int | Integers:
        """A random index with probability proportional to its weight, a non-negative whole number of any length."""
        sizes = shape(() if size is None else size)
        drawn = choices.select(self._draws, selection_weights(weights), math.prod(sizes))
        return int(drawn[0]) if size is None else drawn.reshape(sizes)

    def select_exponential(self, scores: ArrayLike, scale: Real) -> int:
        """The exponential mechanism: an index with P(i) ∝ exp(scores[i]/scale), for integer scores."""
        array = integer_array(scores, "Scores")
        if array.ndim != 1 or array.size == 0:
            raise MechanismError("Scores must be a list of at least one integer.", fix="Score every candidate.")
        return choices.select_exponential(self._draws, array, selection_scale(scale))

    def select_lowest(self, scores: ArrayLike, rate: Real) -> int:
        """The exponential mechanism for millions of scores: an index with P(i) ∝ exp(−rate·scores[i]), int32 or
        int64."""
        return choices.select_lowest(self._draws, selection_scores(scores), selection_scale(rate))

    def select_packing(self, packings: Packings, log_weights: ArrayLike) -> tuple[int, ...]:
        """A random packing: pairwise disjoint members (indices, sorted), P ∝ exp(sum of their log weights).

        Each probability is that one up to a factor exp(±``packings.slack(largest |log weight|)``), and never zero.
        """
        expect(packings, Packings, "The sets to choose from", "Give Packings(masks, width, count).")
        return packings.draw(self._draws, log_weights)

    def select_any_packing(self, packings: AnyPackings) -> tuple[int, ...]:
        """A random packing of any number of disjoint members, as sorted indices: P ∝ exp(sum of their weights), up to a
        slack.

        See ``any_slack`` beside :class:`AnyPackings`, which holds the weights.
        """
        return packings.draw(self._draws)

    def select_matching(self, matchings: Matchings, log_weights: ArrayLike) -> tuple[int, ...]:
        """Random disjoint sets of one or two attributes, as sorted indices: for each attribute, given the noise of all
        else, an exponential mechanism up to ``matchings.slack()``."""
        expect(matchings, Matchings, "The sets to choose from", "Give Matchings(left, right, width).")
        return matchings.draw(self._draws, log_weights)
