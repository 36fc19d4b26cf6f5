"""How far an estimate is from the truth in squared error, for any data of n rows; PROOF.md says why.

A combination of f rows adds its noise squared where it is shown, and f² where it is hidden. Counts sum to n: the worst
table has n/f combinations of f rows, for the worst f.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.heavy_hitters.certificate import Shape, Sieve, caution, list_bounds
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError
from nabladp.noise import variance

# ---- how likely each combination is listed ---------------------------------------------------------------------------

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
        """The noise on the histogram's released counts."""
        scale = self.settings.count_scale or self.settings.levels[-1].scale
        return Sieve(self.settings.notion, np.zeros(1), np.array([scale]))

    @cached_property
    def candidates(self) -> float:
        """The expected number of combinations that the histogram's root considers: lists of disjoint attributes are
        independent."""
        return float(list_bounds(self._shape, self._sieve.rates(self.n))[1][-1])

    @cached_property
    def most_candidates(self) -> float:
        """The number of root candidates that is exceeded only if some list is longer than its bound."""
        rates = self._sieve.rates(self.n)
        return float(list_bounds(self._shape, rates, caution(self._shape, self.settings.failure))[1][-1])

    @property
    def scale(self) -> float:
        """The noise scale of the histogram's released counts."""
        return float(self._noise.scales[0])

    @cached_property
    def variance(self) -> float:
        return variance("laplace" if self.settings.notion == "pure" else "gaussian", self.scale)

    @property
    def lowest(self) -> int:
        """The lowest cut on noisy counts that makes a difference to the estimated distribution."""
        return 1 if self.settings.notion == "pure" else self.settings.levels[-1].threshold + 1

    @property
    def reach(self) -> int:
        """A combination held by this many rows or more is all but certain to be listed in the histogram."""
        return max(level.threshold for level in self.settings.levels) + int(50 * self._sieve.scales.max())

    def tail(self, k: Floats) -> Floats:
        """Pr[the noise on a released count is k or more]; the noise is symmetric."""
        return np.asarray(self._noise.tails(k[None, :])[0])

    def hidden(self, f: Floats, cut: int) -> Floats:
        """Pr[a combination of f rows is missing from the estimate, with counts below ``cut`` left out]; never grows
        with f."""  # [one-string]
        nodes, cut_lists = self._shape.nodes, _LISTS_CUT * self.settings.failure
        if self.settings.notion == "pure":
            missing = self._sieve.missing(nodes, f) + self.tail(f - cut + 1)
        else:
            raised = self._sieve.thresholds.copy()
            raised[-1] = max(raised[-1], cut - 1)
            missing = replace(self._sieve, thresholds=raised).missing(nodes, f)
        return np.minimum(missing + cut_lists, 1.0)

    def listed_empty(self) -> float:
        """Pr[a given combination that is in no row is listed in the histogram]."""
        return float(self._sieve.passing(np.zeros((len(self._sieve.scales), 1)))[-1, 0])

    @property
    def empty(self) -> float:
        """A bound on how many combinations in no row may be in the estimate: those listed (pure), or all root
        candidates."""
        # [false-strings]
        return self.candidates * (self.listed_empty() if self.settings.notion == "pure" else 1.0)

    def empty_shown(self, cut: int) -> float:
        """The expected number of combinations in no row that the estimate contains at this cut."""
        return self.empty * float(self.tail(np.array([float(max(cut, self.lowest))]))[0])


# ---- expected errors -------------------------------------------------------------------------------------------------

_CUTS = np.linspace(0, 12, 49)  # in scales of the noise, above the lowest cut
_POINTS, _STEPS, _REACH = 512, 1 << 12, 60
_NOISE_SHARES = (0.2, 0.4, 0.6, 0.8)  # of the failure probability, for more noise than its mean
_SAMPLING_SHARE = 0.1  # of it, for an unusual sample


@dataclass(frozen=True)
class SquaredError:
    """Bounds on the sum of all squared errors, before data: against the shares of the rows, and of the population.

    ``mean`` and ``population_mean`` bound the expectation; ``bound`` and ``population_bound`` hold with probability
    1 − failure. With that probability, too, no combination of ``hidden_below`` rows or more is left out.
    """

    cut: int
    mean: float
    bound: float
    population_mean: float
    population_bound: float
    hidden_below: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@lru_cache(maxsize=64)  # a release asks for it more than once
def smallest_error(settings: Settings, n: int, failure: float) -> SquaredError:
    """The smallest squared error that DistributionEstimate promises with these histogram settings, over all cuts."""
    return Errors(Chances(settings, n), failure).best()


@dataclass(frozen=True, eq=False)
class Errors:
    """All that the bounds are made of, for one plan."""

    chances: Chances
    failure: float

    def best(self) -> SquaredError:
        """The squared-error bounds at the cut with the smallest mean error."""
        scale, n = self.chances.scale, self.chances.n
        cuts = {self.chances.lowest + round(float(above * scale)) for above in _CUTS}
        mean, cut = min((self._mean(cut) / n**2, cut) for cut in sorted(cuts))
        bound, hidden_below = self._bound(cut, self.failure)
        usual, _ = self._bound(cut, (1 - _SAMPLING_SHARE) * self.failure)
        sampling = 1 + math.sqrt(math.log(1 / (_SAMPLING_SHARE * self.failure)))
        return SquaredError(
            cut=cut,
            mean=min(mean, 2.0),
            bound=min(bound, 2.0),
            population_mean=min((math.sqrt(mean) + 1 / math.sqrt(n)) ** 2, 2.0),
            population_bound=min((math.sqrt(usual) + sampling / math.sqrt(n)) ** 2, 2.0),
            hidden_below=hidden_below,
        )

    # ---- sums over all combinations, in rows squared ------------------------------------------------------------

    def _mean(self, cut: int) -> float:
        """An upper bound on the mean squared error: noise squared of what is kept, rows squared of what is left out."""
        first, last = self._ranges  # [worst-table]
        shown, hidden = self.moment_above(cut - last, 2), last**2 * self.chances.hidden(first, cut)
        n, looked_at = self.chances.n, self.chances.candidates
        together = self._empty(cut, 2) * self.chances.empty + n * float(((shown + hidden) / first).max())
        return min(together, looked_at * self._total(2) + n * float((hidden / first).max()))

    def _noise(self, cut: int, power: int) -> float:
        """An upper bound on the mean of the kept counts' noise, to a power, if no list is longer than all but
        certain."""
        first, last = self._ranges
        rows = self.chances.n * float((self.moment_above(cut - last, power) / first).max())
        most = self.chances.most_candidates
        return min(rows + most * self._empty(cut, power), most * self._total(power))

    def _bound(self, cut: int, failure: float) -> tuple[float, int]:
        """A bound on the squared error with probability 1 − failure: Chebyshev for the noise, a union bound for what is
        left out."""
        n, mean, squares = self.chances.n, self._noise(cut, 2), self._noise(cut, 4)  # [chebyshev]
        results = []
        for share in _NOISE_SHARES:
            below = self._hidden_below(cut, (1 - share) * failure)
            noise = mean + math.sqrt(squares / (share * failure))
            results.append(((noise + (below - 1) * n) / n**2, below))
        return min(results)

    def _hidden_below(self, cut: int, allowed: float) -> int:
        """The smallest f such that all of the at most n/f combinations of f rows are kept, but for ``allowed``."""
        n, (first, _) = self.chances.n, self._ranges
        enough = np.floor(n / first) * self.chances.hidden(first, cut) <= allowed
        return int(first[np.argmax(enough)]) if enough.any() else n + 1

    @cached_property
    def _ranges(self) -> tuple[Floats, Floats]:
        """The numbers of rows 1 … n cut into ranges, over which the squared error is summed: first and last of each."""
        n = self.chances.n
        top = min(n, self.chances.reach)
        ends = np.arange(1.0, top + 1) if top <= 4 * _POINTS else np.unique(np.ceil(np.geomspace(1, top, 4 * _POINTS)))
        last = np.unique(np.append(ends, float(n)))
        return np.append(1.0, last[:-1] + 1), last

    # ---- the noise ------------------------------------------------------------------------------------------------

    def moment_above(self, k: Floats, power: int) -> Floats:
        """An upper bound on E[Z^m; Z ≥ k] of the count noise for even m = power: k^m·Pr[Z ≥ k] + Σ (j^m − (j −
        1)^m)·Pr[Z ≥ j] over j > k ≥ 0.

        In steps, where scales are large, with the largest factor and the largest tail of each.
        """
        starts, sums = self._moments[power]
        at = np.clip(k, 0, starts[-1])
        positive = at**power * self.chances.tail(at) + sums[np.floor(at / starts[1]).astype(np.int64)]
        return np.where(k <= 0, self._total(power), np.minimum(positive, self._total(power)))

    def _total(self, power: int) -> float:
        """E Z^power of the count noise: twice that of the positive values."""
        return 2 * float(self._moments[power][1][0])

    def _empty(self, cut: int, power: int) -> float:
        """The mean contribution to the squared error of one combination that is in no row."""
        return float(self.moment_above(np.array([float(cut)]), power)[0])

    @cached_property
    def _moments(self) -> dict[int, tuple[Floats, Floats]]:
        step = max(1, math.ceil(_REACH * self.chances.scale / _STEPS))
        starts = step * np.arange(math.ceil(_REACH * self.chances.scale / step) + 2, dtype=np.float64)
        tails = self.chances.tail(starts + 1)
        parts = {power: tails * ((starts + step) ** power - starts**power) for power in (2, 4)}
        return {power: (starts, np.cumsum(part[::-1])[::-1]) for power, part in parts.items()}


@dataclass(frozen=True)
class EstimateError(ExpectedError):
    """``error`` is None where the number of rows is not known."""

    attributes: int
    n: int
    failure: float
    error: SquaredError | None
    listed: float = 0.0

    def values_written(self) -> int:
        return math.ceil(min(self.listed, 1e6)) * (self.attributes + 2)

    def measure(self, rows: int) -> ErrorMeasure:
        value = None if self.error is None else math.sqrt(self.error.mean)
        what = "Distance of the estimate from the truth (Euclidean, at most √2)"
        return ErrorMeasure(what, value, small=0.05, useless=0.5, advice="ask about fewer attributes")

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"n": self.n, "attributes": self.attributes, "failure": self.failure}
        return body | ({} if self.error is None else self.error.to_json()) | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        if self.error is None:
            return {"attributes": self.attributes, "promised": "nothing until the number of rows is known"}
        chance = f"with probability {1 - self.failure:g}, at most"
        return {
            "attributes": self.attributes,
            "squared error of all probabilities together, mean at most": self.error.mean,
            f"squared error {chance}": self.error.bound,
            "squared error against the population, mean at most": self.error.population_mean,
            f"squared error against the population {chance}": self.error.population_bound,
            "combinations are kept from this noisy count on": self.error.cut,
        }
