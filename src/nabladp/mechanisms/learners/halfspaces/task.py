"""What every method starts from: public facts about features and label, and what each source attribute may pay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from nabladp.arrays import Floats, Integers
from nabladp.errors import BudgetError
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.mechanism import Law
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Rho
from nabladp.schema import Schema
from nabladp.tables import Counts

FEWEST_UNITS = 1 << 12  # with less, noise would be of scale 10⁷
AUDIT_ORDER = 24.0  # exact laws are cut where Rényi orders up to this cannot notice


@dataclass(frozen=True, eq=False)
class Task:
    """``n`` rows to learn from (0: not known yet); ``units`` of ρ that every source attribute may pay for it."""

    schema: Schema
    n: int
    features: tuple[str, ...]
    label: str
    columns: SignedColumns  # of the features, the intercept first
    units: Mapping[str, int]

    @cached_property
    def universe(self) -> Universe:
        return Universe.of(self.schema)

    @property
    def width(self) -> int:
        """Columns of the features, with the intercept."""
        return self.columns.width

    def protected(self, name: str) -> frozenset[str]:
        """The sources behind a column for which something is promised."""
        return self.universe.sources(name) - self.universe.public

    @cached_property
    def label_sources(self) -> frozenset[str]:
        return self.protected(self.label)

    @cached_property
    def feature_sources(self) -> frozenset[str]:
        return frozenset().union(*(self.protected(name) for name in self.columns.attributes))

    @cached_property
    def flips(self) -> Counter[str]:
        """How many columns each protected source can flip at once: those of all features that follow from it."""
        return self.held({block.attribute: block.flips for block in self.columns.blocks if block.names})  # [sources]

    @cached_property
    def reach(self) -> Counter[str]:
        """How many features follow from each protected source."""
        return self.held(dict.fromkeys(self.columns.attributes, 1))

    def held(self, amounts: Mapping[str, int]) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, amount in amounts.items():
            found.update(dict.fromkeys(self.protected(name), amount))
        return found

    def budgets(self) -> dict[str, Rho]:
        """In the form that other mechanisms take."""
        return {source: Rho(Fraction(units, UNIT)) for source, units in self.units.items()}

    def features_after(self, costs: Mapping[str, int]) -> Task:
        """What the features' sources have left after these costs, in units."""
        left = {source: self.units[source] - costs.get(source, 0) for source in sorted(self.feature_sources)}
        if left and min(left.values()) < FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many columns.", fix="Raise it or name fewer features.")
        return replace(self, units=left)

    def share(self, part: Fraction) -> Task:
        return replace(self, units={source: math.floor(units * part) for source, units in self.units.items()})


def costs(guarantee: Guarantee, sources: frozenset[str]) -> dict[str, int]:
    """What a part of a release takes from each source, in units of ρ."""
    return {source: guarantee.rho_units(source) or 0 for source in sources}


def curve(universe: Universe, held: Mapping[str, int], cost: Any) -> Guarantee:
    """``cost(c)``, a ρ, for a set that holds c in all."""
    if not held:
        return Guarantee.none(universe)
    return Guarantee.curve(universe, held, [cost(count) for count in range(sum(held.values()) + 1)])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights of the columns, the intercept's first; ``deviations`` of the noise in them, where they are known."""

    weights: Floats
    facts: dict[str, Any]
    deviations: Floats | None = None
    integers: Integers | None = None  # where the weights are whole from the start


class Method(Protocol):
    """One way to learn a halfspace, for one task. Nothing but :meth:`run` and :meth:`law` sees data."""

    @property
    def task(self) -> Task: ...
    @property
    def randomizes(self) -> bool:
        """Whether labels are randomized first."""

    def guarantee(self) -> Guarantee: ...
    def figures(self) -> dict[str, Any]:
        """What is known before anything is spent: labels for people, each with a number or a text."""

    def run(self, counts: Counts, noise: NoiseSource) -> Fitted: ...
    def law(self, counts: Counts) -> Law: ...
