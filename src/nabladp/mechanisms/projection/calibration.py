"""How much noise the answers get, and what that costs every set of attributes. The proof is in PROOF.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import BudgetError
from nabladp.mechanisms.allocation import allocate, least_scale, limited_by, source_units
from nabladp.mechanisms.mechanism import ErrorMeasure, ExpectedError
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.projection.relaxation import Pieces
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import exact
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, Rho
from nabladp.workloads import Group, Queries
from nabladp.workloads.sensitivity import Curve

# ---- calibration -----------------------------------------------------------------------------------------------------

_FEWEST_UNITS = 1 << 12  # with less the noise would be of scale 10⁷
_SMALLEST, _LARGEST = 1e-6, 1e15  # what the noise source draws
_FINE = 1 << 64


@dataclass(frozen=True, eq=False)
class Calibration:
    """Queries with the scale of the integer noise on every group's numerators, exactly as it is drawn."""

    queries: Queries
    universe: Universe
    scales: tuple[float, ...]
    together: bool  # one scale for all, and the cost from all queries at once

    @cached_property
    def count_scales(self) -> NDArray[np.float64]:
        """The noise scale of every query of a Projection, as a number of rows."""
        scales = [scale / group.grid for scale, group in zip(self.scales, self.queries.groups, strict=True)]
        return np.repeat(scales, np.diff(self.queries.starts))

    def guarantee(self) -> Guarantee:
        curve = self.queries.curve
        if self.together and curve is not None:
            spread = 2 * Fraction(self.scales[0]) ** 2
            table = [squared / spread for squared in curve.table]  # [curve]
            return Guarantee.curve(self.universe, dict.fromkeys(curve.attributes, 1), table)
        parts = [self._cost(group, scale) for group, scale in zip(self.queries.groups, self.scales, strict=True)]
        return Guarantee.compose(self.universe, parts)  # [composition]

    def noise_uses(self) -> list[NoiseUse]:
        """The noise of a Projection: a number for every query; queries with a scale of their own are charged by
        themselves."""
        curve = self.queries.curve
        if self.together and curve is not None:
            charge = Charge(self.guarantee(), self._moved_together(curve))
            return [NoiseUse.exactly("all queries", "discrete_gaussian", len(self.queries), charge)]
        results = []
        for group, scale in zip(self.queries.groups, self.scales, strict=True):
            what = f"the queries on {'+'.join(group.attributes)}"
            charges = [Charge(self._cost(group, scale), self._moved(group))] if group.shift.amounts else []
            results.append(NoiseUse.exactly(what, "discrete_gaussian", group.count, *charges))
        return results

    def _moved_together(self, curve: Curve) -> dict[frozenset[str], Fraction]:
        held = Counter(source for name in curve.attributes for source in self.universe.sources(name))
        protected = frozenset(held) - self.universe.public
        results = {frozenset({source}): curve.table[held[source]] for source in sorted(protected)}
        return results | ({protected: curve.table[sum(held[s] for s in protected)]} if protected else {})

    def _moved(self, group: Group) -> dict[frozenset[str], Fraction]:
        """The squared sensitivity of a group of queries, on the grid of its numerators."""
        behind = self.universe.sources([name for name, _ in group.shift.amounts]) - self.universe.public
        each = {frozenset({source}): costliest(group, self.universe, frozenset({source})) for source in sorted(behind)}
        return {held: squared * group.grid**2 for held, squared in each.items()}

    def _cost(self, group: Group, scale: float) -> Guarantee:
        """The cost of one group of queries, column by column; the guarantee charges a column to its sources."""
        spread = 2 * (Fraction(scale) / group.grid) ** 2
        costs = {name: Rho(squared / spread) for name, squared in group.shift.amounts}  # [group]
        if group.shift.shape == "linear":
            return Guarantee.linear(self.universe, costs)
        counts = group.is_identity and {squared for _, squared in group.shift.amounts} == {2}
        return Guarantee.touch(self.universe, costs, gaussian_scale=scale if counts else None)

    def diameter_squared(self, among: Iterable[str] | None = None) -> float:
        """The largest squared distance, in units of the noise, between the query answers of two records (times no
        n)."""
        names = set(self.queries.names) if among is None else set(among)
        curve = self.queries.curve
        if self.together and curve is not None:
            return curve.squared_distance(names) / self.scales[0] ** 2
        pairs = zip(self.queries.groups, self.scales, strict=True)
        return math.fsum(group.shift.squared_distance(names) * (group.grid / scale) ** 2 for group, scale in pairs)


def calibrate(
    queries: Queries, universe: Universe, budget: BudgetValue, budgets: Mapping[str, BudgetValue]
) -> Calibration:
    """Calibrate a Projection: the least noise per query that keeps every source within its budget, shared by weight."""
    units = source_units(universe, budget, budgets)
    if queries.curve is not None:
        concerned = {units[name] for name in limited_by(universe, queries.curve.attributes)}
        if len(concerned) == 1:
            scale = _scale(concerned.pop(), queries.curve.table[1])  # [one-scale]
            return Calibration(queries, universe, (scale,) * len(queries.groups), True)
    return Calibration(queries, universe, _share_budget(queries.groups, universe, units), False)


def _share_budget(groups: tuple[Group, ...], universe: Universe, units: Mapping[str, int]) -> tuple[float, ...]:
    """A noise scale for every group of queries; the larger a query's weight, the smaller its noise."""
    moving = [number for number, group in enumerate(groups) if group.shift.amounts]
    touched = [limited_by(universe, [name for name, _ in groups[number].shift.amounts]) for number in moving]
    moved = [costliest(groups[number], universe, among) for number, among in zip(moving, touched, strict=True)]
    shares = [exact(groups[number].weight) ** 2 * far for number, far in zip(moving, moved, strict=True)]
    amounts = allocate(touched, shares, units) if moving else []  # [allocation]
    scales: dict[int, float] = {}
    for number, amount, far in zip(moving, amounts, moved, strict=True):
        group = groups[number]
        if group.shift.shape == "linear" and amount >= _FEWEST_UNITS:
            # Distances are added up in rounded units of ε, two roundings a column: room is left for them.
            amount = max(0, math.isqrt(amount) - 2 * len(group.attributes)) ** 2  # [linear]
        scales[number] = _scale(amount, far * group.grid**2)
    # What no row can move costs nothing; it gets the least noise of all, so that every query is treated alike.
    least = min((scale / groups[number].grid for number, scale in scales.items()), default=1.0)  # [constant]
    return tuple(scales.get(number, least * group.grid) for number, group in enumerate(groups))


def _scale(units: int, moved: Fraction) -> float:
    """The noise scale, as a double, for numerators whose squared sensitivity to one source attribute is ``moved``."""
    scale = max(least_scale("gaussian", units, moved), _SMALLEST) if units >= _FEWEST_UNITS else math.inf  # [scale]
    if scale > _LARGEST:
        raise BudgetError("The budget is too small for so many queries.", fix="Raise it or ask for fewer.")
    return scale


def costliest(group: Group, universe: Universe, among: frozenset[str]) -> Fraction:
    """The largest squared sensitivity of the group's answers to one of these sources, as the guarantee has it."""
    columns: dict[str, list[Fraction]] = {}
    for name, squared in group.shift.amounts:
        for source in universe.sources(name) & among:
            columns.setdefault(source, []).append(squared)
    together = max if group.shift.shape == "touch" else _sum_of_roots_squared
    return max(together(amounts) for amounts in columns.values())


def _sum_of_roots_squared(amounts: list[Fraction]) -> Fraction:
    """(Σ√a)² of squared sensitivities, exactly for one number, rounded up for several."""
    if len(amounts) == 1:
        return amounts[0]
    roots = [Fraction(math.isqrt(a.numerator * a.denominator * _FINE**2) + 1, a.denominator * _FINE) for a in amounts]
    return sum(roots, Fraction(0)) ** 2


# ---- what to expect before anything is spent -------------------------------------------------------------------------


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
        """The error bound of a Projection: the smaller term, at most 1, as true and projected shares lie in [0, 1]."""
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
        """The number of query answers that a Projection will write."""
        return self.queries

    def measure(self, rows: int) -> ErrorMeasure:
        value = None if self.attribute.least is None else math.sqrt(self.attribute.least)
        what = "Error of an answer, as a share of the rows (root mean square)"
        return ErrorMeasure(what, value, small=0.02, useless=0.25, advice="ask fewer queries")

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
        """The expected error of a Projection for people: root mean squares, at most the roots of these bounds."""
        lines: dict[str, Any] = {
            "queries": self.queries,
            "possible records": _whole_or_about(self.log_records),
            "hull": "exact" if self.exact else f"relaxed to {self.pieces:,} pieces that contain it",
            "noise scale of a count": self.attribute.scale,
            "noise scale of a count at the same budget per person": self.person.scale,
            "ε of a person over ε of an attribute": self.ratio,
        }
        if self.attribute.least is None or self.person.least is None:
            return lines
        lines["error of a share, root mean square, at most"] = math.sqrt(self.attribute.least)
        lines["error of a share by the noise alone"] = math.sqrt(self.attribute.noise or 0)
        if self.attribute.hull is not None:
            lines["error of a share by the hull"] = math.sqrt(self.attribute.hull)
        return lines | {"error of a share at the same budget per person, at most": math.sqrt(self.person.least)}


def _whole_or_about(log_number: float) -> int | str:
    """A number from its logarithm: the number itself, or of a very large one how large it is."""
    if log_number < 40 * math.log(2):
        return round(math.exp(log_number))
    return f"about {math.exp(log_number):.2g}" if log_number < 700 else "more than 1e+300"


def expected_error(calibration: Calibration, rho: float, pieces: Pieces, n: int) -> ProjectionError:
    """The expected error of a Projection, per attribute and per person; ``rho`` is the least budget of any attribute
    asked about."""
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
    """At the same budget per person: the largest noise scale of a count, and the squared diameter in its units."""
    queries, universe = calibration.queries, calibration.universe
    protected = [name for name in queries.names if universe.sources(name) - universe.public] or list(queries.names)
    if calibration.together and queries.curve is not None:
        squared = queries.curve.squared_distance(protected) / (2 * rho)
        return math.sqrt(squared), queries.curve.squared_distance(queries.names) / squared
    weights = [float(exact(group.weight)) ** 2 for group in queries.groups]
    shifts = [group.shift.squared_distance(protected) for group in queries.groups]
    squared = math.fsum(w * shift for w, shift in zip(weights, shifts, strict=True)) / (2 * rho)  # for weight 1
    if not squared:
        return float(calibration.count_scales.max()), calibration.diameter_squared()
    whole = math.fsum(w * g.shift.squared_distance(queries.names) for w, g in zip(weights, queries.groups, strict=True))
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
