"""How likely a combination is to be listed with a released count of at least some cut. Bounds, for any data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.planning.certificate import Shape, Sieve, caution, list_bounds
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.noise import variance

_LISTS_CUT = 1e-6  # of ``failure``: the chance that some list is cut for its length


@dataclass(frozen=True, eq=False)
class Chances:
    """Of histograms with these settings over n rows. "Shown" is what is listed with a count of at least the cut."""

    settings: Settings
    n: int

    @cached_property
    def _sieve(self) -> Sieve:
        return Sieve.of(self.settings)

    @cached_property
    def _shape(self) -> Shape:
        return Shape.of(self.settings.tree)

    @cached_property
    def _noise(self) -> Sieve:
        """The noise on released counts."""
        scale = self.settings.count_scale or self.settings.levels[-1].scale
        return Sieve(self.settings.notion, np.zeros(1), np.array([scale]))

    @cached_property
    def candidates(self) -> float:
        """How many combinations the root looks at, in expectation: lists of disjoint attributes are independent."""
        return float(list_bounds(self._shape, self._sieve.rates(self.n))[1][-1])

    @cached_property
    def most_candidates(self) -> float:
        """The same with near certainty: but for the chance that some list is longer than its bound."""
        rates = self._sieve.rates(self.n)
        return float(list_bounds(self._shape, rates, caution(self._shape, self.settings.failure))[1][-1])

    @property
    def scale(self) -> float:
        """Of the noise on released counts."""
        return float(self._noise.scales[0])

    @cached_property
    def variance(self) -> float:
        return variance("laplace" if self.settings.notion == "pure" else "gaussian", self.scale)

    @property
    def lowest(self) -> int:
        """The lowest cut that makes a difference."""
        return 1 if self.settings.notion == "pure" else self.settings.levels[-1].threshold + 1

    @property
    def reach(self) -> int:
        """From this many rows on a combination is all but certain to be listed."""
        return max(level.threshold for level in self.settings.levels) + int(50 * self._sieve.scales.max())

    def tail(self, k: Floats) -> Floats:
        """Pr[the noise on a released count is k or more]; the noise is symmetric."""
        return np.asarray(self._noise.tails(k[None, :])[0])

    def hidden(self, f: Floats, cut: int) -> Floats:
        """Pr[a combination of f rows is not shown]; never grows with f."""  # [one-string]
        nodes, cut_lists = self._shape.nodes, _LISTS_CUT * self.settings.failure
        if self.settings.notion == "pure":
            missing = self._sieve.missing(nodes, f) + self.tail(f - cut + 1)
        else:
            raised = self._sieve.thresholds.copy()
            raised[-1] = max(raised[-1], cut - 1)
            missing = replace(self._sieve, thresholds=raised).missing(nodes, f)
        return np.minimum(missing + cut_lists, 1.0)

    def listed_empty(self) -> float:
        """Pr[a given combination that is in no row is listed]."""
        return float(self._sieve.passing(np.zeros((len(self._sieve.scales), 1)))[-1, 0])

    @property
    def empty(self) -> float:
        """How many combinations that are in no row may be shown: those listed (pure), or all the root looks at."""
        # [false-strings]
        return self.candidates * (self.listed_empty() if self.settings.notion == "pure" else 1.0)

    def empty_shown(self, cut: int) -> float:
        """How many combinations that are in no row are shown, in expectation."""
        return self.empty * float(self.tail(np.array([float(max(cut, self.lowest))]))[0])
