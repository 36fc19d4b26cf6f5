"""What to expect of Projection before anything is spent: both terms of `thm:projection_mechanism`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nabladp.mechanisms.mechanism import ExpectedError
from nabladp.mechanisms.projection.calibration import Calibration
from nabladp.mechanisms.projection.relaxation import Pieces
from nabladp.privacy.units import exact


@dataclass(frozen=True)
class Bound:
    """A bound on the expected mean squared error of shares: the smaller of two terms.

    ``noise`` is what the noise alone would give, ``hull`` what the projection makes of it; it is None where the hull is
    not exact, and all shares are where the number of rows is not known yet.
    """

    scale: float  # of a count's noise, the largest over queries
    noise: float | None
    hull: float | None

    @property
    def least(self) -> float | None:
        """Shares lie in [0, 1], and so do projected ones: no error is above 1."""
        return None if self.noise is None else min(1.0, self.noise, math.inf if self.hull is None else self.hull)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "least": self.least}


@dataclass(frozen=True)
class ProjectionError(ExpectedError):
    """The theorem's figures for this budget per attribute, and for the same budget per person, side by side."""

    queries: int
    log_records: float  # natural logarithm of |X|
    n: int
    exact: bool
    pieces: int
    attribute: Bound
    person: Bound
    ratio: float  # ε per person over ε per attribute, at the same noise

    @property
    def cells(self) -> int:
        """How many answers will be written."""
        return self.queries

    def to_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "log_records": self.log_records,
            "n": self.n,
            "hull": "exact" if self.exact else "blocks",
            "pieces": self.pieces,
            "per_attribute": self.attribute.to_json(),
            "per_person": self.person.to_json(),
            "epsilon_person_over_attribute": self.ratio,
            "summary": self._summary(),
        }

    def _summary(self) -> dict[str, Any]:
        """For people: errors as root mean squares, which are at most the roots of these bounds."""
        lines: dict[str, Any] = {
            "queries": self.queries,
            "possible records": f"2^{self.log_records / math.log(2):.1f}",
            "hull": "exact" if self.exact else f"relaxed to {self.pieces:,} pieces that contain it",
            "noise scale of a count": self.attribute.scale,
            "… at the same budget per person": self.person.scale,
            "ε of a person over ε of an attribute": self.ratio,
        }
        if self.attribute.least is None or self.person.least is None:
            return lines
        lines["error of a share, root mean square, at most"] = math.sqrt(self.attribute.least)
        lines["… by the noise alone"] = math.sqrt(self.attribute.noise or 0)
        if self.attribute.hull is not None:
            lines["… by the hull"] = math.sqrt(self.attribute.hull)
        return lines | {"… at the same budget per person, at most": math.sqrt(self.person.least)}


def expected_error(calibration: Calibration, rho: float, pieces: Pieces, n: int) -> ProjectionError:
    """``rho`` is what the person would have: the least budget of any attribute that is asked about."""
    queries = calibration.queries
    log_records = math.log(queries.cells)
    widest = float(calibration.count_scales.max())
    apart = calibration.diameter_squared()
    person_scale, person_apart = _per_person(calibration, rho)

    def bound(scale: float, apart_squared: float) -> Bound:
        if not n:
            return Bound(scale, None, None)
        noise = (scale / n) ** 2
        width = n * math.sqrt(2 * apart_squared * log_records)  # [unequal]
        return Bound(scale, noise, noise * width / len(queries) if pieces.exact else None)

    return ProjectionError(
        queries=len(queries),
        log_records=log_records,
        n=n,
        exact=pieces.exact,
        pieces=len(pieces.pieces),
        attribute=bound(widest, apart),
        person=bound(person_scale, person_apart),
        ratio=_ratio(calibration),
    )


def _per_person(calibration: Calibration, rho: float) -> tuple[float, float]:
    """The largest scale of a count's noise, and the squared diameter in its units, were the budget for the person."""
    queries, universe = calibration.queries, calibration.universe
    protected = [name for name in queries.names if universe.sources(name) - universe.public] or list(queries.names)
    if calibration.together and queries.curve is not None:
        squared = queries.curve.squared(protected) / (2 * rho)
        return math.sqrt(squared), queries.curve.squared(queries.names) / squared
    weights = [float(exact(group.weight)) ** 2 for group in queries.groups]
    shifts = [group.shift.squared(protected) for group in queries.groups]
    squared = math.fsum(w * shift for w, shift in zip(weights, shifts, strict=True)) / (2 * rho)  # for weight 1
    if not squared:
        return float(calibration.count_scales.max()), calibration.diameter_squared()
    whole = math.fsum(w * g.shift.squared(queries.names) for w, g in zip(weights, queries.groups, strict=True))
    return math.sqrt(squared / min(weights)), whole / squared


def _ratio(calibration: Calibration) -> float:
    """√(ρ of everything protected / ρ of the costliest attribute): √(d/k) for conjunctions."""
    curve, universe = calibration.queries.curve, calibration.universe
    if calibration.together and curve is not None:
        protected = [name for name in curve.attributes if name not in universe.public] or curve.attributes
        return math.sqrt(curve.table[len(protected)] / curve.table[1])
    guarantee = calibration.guarantee()
    costs = [guarantee.rho_units(name) or 0 for name in universe.protected]
    most = max(costs, default=0)
    return math.sqrt((guarantee.rho_units(universe.protected) or 0) / most) if most else 1.0
