"""What a mechanism declares that it draws for each part of its guarantee; an audit compares a run's tape with it.

A declaration says how many numbers there are and how far one row can move what they are added to. It never says the
scale: the audit computes that from the guarantee's own terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.universe import Universe

Amount = int | float | Fraction


@dataclass(frozen=True, eq=False)
class Charge:
    """A part of the guarantee that pays for numbers.

    ``moved``: how far a row that changes on these source attributes moves what the numbers are added to: squared and in
    L2 for Gaussian noise, in L1 for Laplace noise, a score for a selection. Empty where nothing protected moves it.
    ``loss``, in its place, is the pure ε of a scale where noise is not simply added. Neither: a selection with a
    log weight for each candidate, which a change of T moves by at most √(2ρ(T)) (or ε(T)/2): the audit compares tables.
    """

    cost: Guarantee
    moved: Mapping[frozenset[str], Amount] | None = None
    loss: Callable[[float], float] | None = None

    @classmethod
    def of_each(cls, cost: Guarantee, columns: Iterable[str], moved: Amount) -> Charge:
        """A charge to every protected source behind these columns, each of which moves the noisy number as far."""
        universe = cost.universe
        return cls(cost, each_source(universe, columns, moved))


def each_source(universe: Universe, columns: Iterable[str], moved: Amount) -> dict[frozenset[str], Amount]:
    return {frozenset({source}): moved for source in sorted(universe.sources(tuple(columns)) - universe.public)}


@dataclass(frozen=True, eq=False)
class NoiseUse:
    """Numbers of one kind (as on a tape) that a run draws, at least ``least`` and at most ``most`` of them.

    Several ``charges`` add up to the precision of the same numbers; those with a loss must hold each. Without any they
    cost nothing, as those of post-processing. ``published`` is the scale that the output states, where earlier outputs
    decide how much is spent: then the audit adds up what all such uses take from their charge. ``steps`` are the same
    numbers as mechanisms of their own, each with an exact law at some public state, where the whole run has none.
    """

    what: str
    kind: str
    least: int
    most: int | None
    charges: tuple[Charge, ...] = ()
    published: float | None = None
    marginal: tuple[str, ...] | None = None  # whose cells they are added to, in one draw, before any selection
    accuracy: float = 1e-6  # relative, to which sensitivities are declared
    steps: tuple[Any, ...] = field(default=(), repr=False)

    @classmethod
    def exactly(cls, what: str, kind: str, numbers: int, *charges: Charge, **options: Any) -> NoiseUse:
        return cls(what, kind, numbers, numbers, charges, **options)

    @classmethod
    def free(cls, what: str, kind: str, most: int | None = None) -> NoiseUse:
        """A noise use without cost: randomness of post-processing, which reads no data."""
        return cls(what, kind, 0, most)


def with_steps(uses: list[NoiseUse], *steps: Any) -> list[NoiseUse]:
    """Noise uses with the single-step mechanisms whose exact laws are those of all these uses together; the first one
    holds them."""
    return [replace(use, steps=(*use.steps, *(steps if use is uses[0] else ()))) for use in uses]
