"""Sources that pass every draw on to another one, and the one of them that writes down what is drawn: the tape.

A mechanism cannot tell such a source from the one behind it, and what that one draws stays the same.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Floats, Integers
from nabladp.noise.laws import Kind
from nabladp.noise.matchings import Matchings
from nabladp.noise.packings import AnyPackings, Packings
from nabladp.noise.parameters import Real, Size, shape
from nabladp.noise.source import NoiseSource, RowResponse


class ForwardingNoise(NoiseSource):
    """Every draw is one of ``source``, by its own methods: what a subclass of NoiseSource replaces stays replaced."""

    def __init__(self, source: NoiseSource) -> None:
        self.source = source
        self._draws = source._draws

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("a source of noise is not copied")

    def reseeded(self, seed: int) -> Self:
        return type(self)(self.source.reseeded(seed))

    @property
    def is_seeded(self) -> bool:
        return self.source.is_seeded

    @property
    def draws(self) -> int:
        return self.source.draws

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        return self.source.discrete_laplace(scale, size)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        return self.source.discrete_gaussian(scale, size)

    def tail_subsets(self, law: Kind, scale: Real, start: int, sizes: Sequence[int]) -> list[NDArray[Any]]:
        return self.source.tail_subsets(law, scale, start, sizes)

    def tail_values(self, law: Kind, scale: Real, start: int, size: int) -> Integers:
        return self.source.tail_values(law, scale, start, size)

    def uniform_integers(self, bound: int, size: Size) -> Integers:
        return self.source.uniform_integers(bound, size)

    def binomial(self, trials: Any, p: Real) -> Any:
        return self.source.binomial(trials, p)

    def randomized_response(self, codes: ArrayLike, size: int, keep: Real) -> Integers:
        return self.source.randomized_response(codes, size, keep)

    def row_response(self, keep: Real) -> RowResponse:
        return self.source.row_response(keep)

    def randomized_response_counts(self, counts: ArrayLike, keep: Real) -> Integers:
        return self.source.randomized_response_counts(counts, keep)

    def uniform_subset(self, n: int, k: int) -> Integers:
        return self.source.uniform_subset(n, k)

    def select(self, weights: Iterable[int] | NDArray[Any], size: Any = None) -> Any:
        return self.source.select(weights, size)

    def select_exponential(self, scores: ArrayLike, scale: Real) -> int:
        return self.source.select_exponential(scores, scale)

    def select_lowest(self, scores: ArrayLike, rate: Real) -> int:
        return self.source.select_lowest(scores, rate)

    def select_packing(self, packings: Packings, log_weights: ArrayLike) -> tuple[int, ...]:
        return self.source.select_packing(packings, log_weights)

    def select_any_packing(self, packings: AnyPackings) -> tuple[int, ...]:
        return self.source.select_any_packing(packings)

    def select_matching(self, matchings: Matchings, log_weights: ArrayLike) -> tuple[int, ...]:
        return self.source.select_matching(matchings, log_weights)


# ---- the tape --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selection:
    """What a selection was made from: a log weight for each member; with ``masks``, of so many disjoint ones."""

    log_weights: Floats
    masks: Integers | None = None
    count: int | None = None  # None with masks: any number of them
    matching: bool = False  # any number of disjoint sets of one or two attributes, none of them included


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of the source: what was drawn, with which scale (or probability), and how many numbers.

    Noise that is only asked whether it passes a threshold counts like any other (``tail_subsets``); its values beyond
    the threshold, where they are drawn later (``completes``), are the same numbers once more and count as none.
    """

    kind: str
    numbers: int
    scale: float | None = None
    keep: float | None = None
    completes: bool = False
    selection: Selection | None = field(default=None, repr=False)


class RecordedNoise(ForwardingNoise):
    """Writes every draw of another source to ``tape``. Use it in audits and tests: a tape may tell of the data."""

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source)
        self.tape: list[Draw] = []
        self._begun = source.draws
        self._known = 0

    @property
    def outside(self) -> int:
        """How often random bits were drawn past the recorded source's methods, which leaves no line on the tape."""
        return self.source.draws - self._begun - self._known

    def _write(self, before: int, draw: Draw) -> None:
        self._known += self.source.draws - before
        self.tape.append(draw)

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        before, drawn = self.source.draws, super().discrete_laplace(scale, size)
        self._write(before, Draw("discrete_laplace", math.prod(shape(size)), float(scale)))
        return drawn

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        before, drawn = self.source.draws, super().discrete_gaussian(scale, size)
        self._write(before, Draw("discrete_gaussian", math.prod(shape(size)), float(scale)))
        return drawn

    def tail_subsets(self, law: Kind, scale: Real, start: int, sizes: Sequence[int]) -> list[NDArray[Any]]:
        before, drawn = self.source.draws, super().tail_subsets(law, scale, start, sizes)
        self._write(before, Draw(f"discrete_{law}", sum(sizes), float(scale)))
        return drawn

    def tail_values(self, law: Kind, scale: Real, start: int, size: int) -> Integers:
        before, drawn = self.source.draws, super().tail_values(law, scale, start, size)
        self._write(before, Draw(f"discrete_{law}", 0, float(scale), completes=True))
        return drawn

    def uniform_integers(self, bound: int, size: Size) -> Integers:
        before, drawn = self.source.draws, super().uniform_integers(bound, size)
        self._write(before, Draw("uniform_integers", math.prod(shape(size))))
        return drawn

    def binomial(self, trials: Any, p: Real) -> Any:
        before, drawn = self.source.draws, super().binomial(trials, p)
        self._write(before, Draw("binomial", int(np.size(trials)), keep=float(p)))
        return drawn

    def randomized_response(self, codes: ArrayLike, size: int, keep: Real) -> Integers:
        before, drawn = self.source.draws, super().randomized_response(codes, size, keep)
        self._write(before, Draw("randomized_response", int(np.size(drawn)), keep=float(keep)))
        return drawn

    def row_response(self, keep: Real) -> RowResponse:
        before, drawn = self.source.draws, super().row_response(keep)
        self._known += self.source.draws - before
        return _RecordedResponse(drawn.keep, drawn.key, drawn, self.tape)

    def randomized_response_counts(self, counts: ArrayLike, keep: Real) -> Integers:
        before, drawn = self.source.draws, super().randomized_response_counts(counts, keep)
        self._write(before, Draw("randomized_response", int(drawn.sum()), keep=float(keep)))
        return drawn

    def uniform_subset(self, n: int, k: int) -> Integers:
        before, drawn = self.source.draws, super().uniform_subset(n, k)
        self._write(before, Draw("uniform_subset", k))
        return drawn

    def select(self, weights: Iterable[int] | NDArray[Any], size: Any = None) -> Any:
        before, drawn = self.source.draws, super().select(weights, size)
        self._write(before, Draw("select", int(np.size(drawn))))
        return drawn

    def select_exponential(self, scores: ArrayLike, scale: Real) -> int:
        before, drawn = self.source.draws, super().select_exponential(scores, scale)
        made_from = Selection(np.asarray(scores, np.float64) / float(scale))
        self._write(before, Draw("select_exponential", 1, float(scale), selection=made_from))
        return drawn

    def select_lowest(self, scores: ArrayLike, rate: Real) -> int:
        before, drawn = self.source.draws, super().select_lowest(scores, rate)
        made_from = Selection(np.asarray(scores, np.float64) * -float(rate))
        self._write(before, Draw("select_exponential", 1, 1 / float(rate), selection=made_from))
        return drawn

    def select_packing(self, packings: Packings, log_weights: ArrayLike) -> tuple[int, ...]:
        before, drawn = self.source.draws, super().select_packing(packings, log_weights)
        made_from = Selection(np.array(log_weights, np.float64), packings.masks, packings.count)
        self._write(before, Draw("select_packing", 1, selection=made_from))
        return drawn

    def select_any_packing(self, packings: AnyPackings) -> tuple[int, ...]:
        before, drawn = self.source.draws, super().select_any_packing(packings)
        made_from = Selection(packings.weights, packings.masks)
        self._write(before, Draw("select_any_packing", 1, selection=made_from))
        return drawn

    def select_matching(self, matchings: Matchings, log_weights: ArrayLike) -> tuple[int, ...]:
        before, drawn = self.source.draws, super().select_matching(matchings, log_weights)
        made_from = Selection(np.array(log_weights, np.float64), matching=True)
        self._write(before, Draw("select_matching", 1, selection=made_from))
        return drawn


@dataclass(frozen=True)
class _RecordedResponse(RowResponse):
    """Every row that is answered is a number drawn."""

    response: RowResponse
    tape: list[Draw]

    def __call__(self, labels: NDArray[np.integer], first: int) -> NDArray[np.int64]:
        self.tape.append(Draw("randomized_response", len(labels), keep=float(self.keep)))
        return self.response(labels, first)
