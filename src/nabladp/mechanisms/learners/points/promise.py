"""The population error that a point learner promises, before data is read; PROOF.md says why.

Some point u carries the label, rows are drawn independently. If u has mass p then Binomial(n, p) rows hold it, and as
nothing that is less frequent is more likely to be accepted, p = a is the worst case of all p ≥ a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.distribution_estimate.squared_error import Chances
from nabladp.mechanisms.heavy_hitters.settings import Settings
from nabladp.mechanisms.learners.learner import PERSON_LABEL
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError

_FALSE_SHARES = (0.5, 0.3, 0.1, 0.03, 0.01)  # of the failure probability, for accepting a point that is in no row
_LOT_SHARES = (1e-3, 0.01, 0.03, 0.1, 0.25, 0.5)  # of the error, for the mass of a point drawn by lot
_HALVINGS = 24


@dataclass(frozen=True)
class Promise:
    """Error at most ``error`` (None: nothing is promised) if points are accepted from the count ``cut`` on."""

    cut: int
    error: float | None


@lru_cache(maxsize=64)  # a release asks for it more than once
def best_promise(settings: Settings, n: int, points: int, failure: float) -> Promise:
    """The best promise of PointLearner with these histogram settings, among so many points."""
    return Risk(Chances(settings, n), points, failure).best()


@dataclass(frozen=True, eq=False)
class Risk:
    """How likely the learner is to fail; ``points`` is how many points there are."""

    chances: Chances
    points: int
    failure: float

    def best(self) -> Promise:
        """The cut with the smallest population error that PointLearner can promise."""
        results = [self._at(self._smallest_cut(share * self.failure)) for share in _FALSE_SHARES]
        return min(results, key=lambda promise: math.inf if promise.error is None else promise.error)

    def _smallest_cut(self, allowed: float) -> int:
        """The smallest cut with so few false points above it."""
        low, high = self.chances.lowest - 1, self.chances.lowest + 1
        while self.chances.empty_shown(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.chances.empty_shown(middle) > allowed else (low, middle)
        return high

    def _at(self, cut: int) -> Promise:
        hidden = self.chances.hidden(self._counts, cut)
        errors = [self._error(hidden, self.failure - self.chances.empty_shown(cut), share) for share in _LOT_SHARES]
        return Promise(cut, min((error for error in errors if error is not None), default=None))

    def _error(self, hidden: Floats, allowed: float, lot: float) -> float | None:
        """The smallest population error whose probabilities of being exceeded add up to no more than ``allowed``."""

        def fails(error: float) -> bool:
            return self._mean_over_binomial(hidden, (1 - lot) * error) + self._bad_lot(hidden, lot * error) > allowed

        if fails(1.0):
            return None
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if fails(middle) else (low, middle)
        return high

    @cached_property
    def _counts(self) -> Floats:
        return np.arange(min(self.chances.n, self.chances.reach) + 1, dtype=np.float64)

    @cached_property
    def _ways(self) -> Floats:
        """ln(n choose k) for every count k."""
        from scipy.special import gammaln

        n, k = self.chances.n, self._counts
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    def _mean_over_binomial(self, hidden: Floats, mass: float) -> float:
        """The mean of ``hidden`` over Binomial(n, mass); from its last value on it does not grow."""
        if mass >= 1:
            return float(hidden[-1])
        n, k = self.chances.n, self._counts
        weights = np.exp(self._ways + k * math.log(mass) + (n - k) * math.log1p(-mass))
        return float(weights @ hidden + max(0.0, 1 - weights.sum()) * hidden[-1])

    def _bad_lot(self, hidden: Floats, mass: float) -> float:
        """Pr[the point drawn at random has more than this mass]: at most 1/mass do, and those that were listed are
        out."""
        points = min(self.points, 1 << 62)
        left = points - self.chances.settings.longest_list
        bad = min(math.floor(1 / mass), points)
        return bad * min(self._mean_over_binomial(hidden, mass), 1 / left if left >= 1 else 1.0)


@dataclass(frozen=True)
class PointError(ExpectedError):
    """``promise`` is None where the number of rows is not known."""

    features: int
    n: int
    failure: float
    promise: Promise | None
    person: int | None = None  # the order of rows that this error takes with the budget for the whole person

    def values_written(self) -> int:
        return self.features

    def measure(self, rows: int) -> ErrorMeasure:
        value = None if self.promise is None else self.promise.error
        what = "Promised error, as a share of people"
        return ErrorMeasure(what, value, small=0.05, useless=0.5, advice="use fewer features")

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"n": self.n, "features": self.features, "failure": self.failure}
        if self.promise is not None:
            body |= {"cut": self.promise.cut, "error": self.promise.error, "per_person_rows": self.person}
        return body | {"summary": self._summary()}

    def _summary(self) -> dict[str, Any]:
        if self.promise is None or self.promise.error is None:
            why = "until the number of rows is known" if self.promise is None else "with so few rows at this budget"
            return {"features": self.features, "promised": f"nothing {why}"}
        return {
            "features": self.features,
            "errs on at most this share of people, if one point carries the label": self.promise.error,
            "probability that this bound holds, at least": 1 - self.failure,
            PERSON_LABEL: self.person,
            "a point is accepted from this noisy count on": self.promise.cut,
        }
