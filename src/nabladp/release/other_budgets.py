"""Requests at other budgets: what a plan would cost at them and how exact it would be, and the largest budget that the
ledger would accept. Reads no table, spends nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from typing import Any, Protocol

from nabladp.errors import BudgetExceeded, NablaDPError
from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.privacy.ledger import Spending
from nabladp.privacy.ledger.limits import LimitRequest, limit_requests
from nabladp.release.cost import (
    Cost,
    Largest,
    as_toml,
    budgets_of,
    default_delta,
    error_json,
    is_budget,
    price,
    scale_budgets,
    without_rows,
)
from nabladp.release.verdict import delta_warnings, noise_verdicts, person_warnings
from nabladp.schema import Schema

_DIGITS, _MOST_TRIES, _MOST_SECONDS = 3, 12, 2.0
_NOTHING = 30  # less than 2⁻³⁰ of a limit is left over from rounding
Named = Sequence[tuple[str, Mechanism]]
Options = tuple[dict[str, Any], ...]


def largest_budget(
    named: Named, schema: Schema, n: int, rows_per_person: int, lines: Sequence[LimitRequest]
) -> Largest | None:
    """The largest budget for a request whose ``lines`` break a limit. None where no factor helps, or finding one takes
    too long."""
    if any(line.requested is None for line in lines):
        return None
    for line in lines:
        if not line.fits and line.standing.left_units <= line.standing.limit.units >> _NOTHING:
            return Largest(used_up=line.standing.limit.name)
    search = _Search(named, schema, n, rows_per_person, [line.standing for line in lines])
    return search.best(_growth(lines))


def largest_beside(
    named: Named, others: Guarantee, schema: Schema, n: int, rows_per_person: int, standing: Sequence[Spending]
) -> Largest | None:
    """The largest budget for a request, whatever it asks for now, beside others that are planned. None where no limit
    bounds it, or no factor helps."""
    left = [Spending(line.limit, _sum(line.spent_units, _units(others, line))) for line in standing]
    guarantee, _ = price(named, schema, n, rows_per_person)
    lines = limit_requests(left, guarantee)
    for line in lines:
        if line.requested != 0 and line.standing.left_units <= line.standing.limit.units >> _NOTHING:
            return Largest(used_up=line.standing.limit.name)
    growth = _growth(lines)
    if not 0 < growth < math.inf:
        return None
    return _Search(named, schema, n, rows_per_person, left).best(growth, 4 * growth)


def _units(guarantee: Guarantee, line: Spending) -> int | None:
    return (guarantee.pure_units if line.limit.pure else guarantee.rho_units)(line.limit.attributes)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def request_cost(
    named: Named, schema: Schema, n: int | None, rows_per_person: int, standing: Sequence[Spending], **more: Any
) -> Cost:
    """The cost of a request, how it stands against the limits, and the largest budget that would fit where it does
    not."""
    guarantee, errors = price(named, schema, n or 0, rows_per_person)
    cost = priced_cost(named, guarantee, errors, n, standing, **more)
    if cost.any_rows or cost.fits:
        return cost
    return replace(cost, largest=largest_budget(named, schema, n or 0, rows_per_person, cost.lines))


def priced_cost(
    named: Named,
    guarantee: Guarantee,
    errors: tuple[tuple[str, Any], ...],
    n: int | None,
    standing: Sequence[Spending],
    **more: Any,
) -> Cost:
    """The cost of a request that has been priced: how it stands against the limits, and what it means in words."""
    lines = limit_requests(standing, guarantee)
    delta = more.setdefault("delta", default_delta(n))
    limited = any(line.standing.limit.name == "person" for line in lines)
    verdict = (
        *noise_verdicts(named, dict(errors), n),
        *person_warnings(guarantee, delta, limited),
        *delta_warnings(delta, n),
    )
    return Cost(guarantee, errors, lines, any_rows=without_rows(named, n), verdict=verdict, **more)


@contextmanager
def naming_largest(
    named: Named, schema: Schema, n: int | None, rows_per_person: int, standing: Callable[[], Sequence[Spending]]
) -> Iterator[None]:
    """Make a refusal also name the largest budget that would be accepted, unless costs wait for the number of rows."""
    try:
        yield
    except BudgetExceeded as error:
        with suppress(Exception):  # a suggestion never hides the refusal
            largest = request_cost(named, schema, n, rows_per_person, standing()).largest
            if largest is not None:
                error.fix = f"{largest.sentence} {_otherwise(error.fix, largest)}"
                error.fields["largest_budget"] = largest.to_json()
        raise


def _otherwise(fix: str, largest: Largest) -> str:
    """The ledger's own advice for a refused request, beside the largest budget."""
    return fix.replace("Ask for at most what is left, or leave", "Leave" if largest.budgets is None else "Or leave")


@dataclass(frozen=True)
class _Search:
    named: Named
    schema: Schema
    n: int
    rows_per_person: int
    standing: Sequence[Spending]

    def best(self, factor: float, high: float = 1.0) -> Largest | None:
        """The largest budget that fits, by trying factors below ``high``.

        Each is the last one times what its own costs leave room for, between one that fits and one that does not.
        """
        low, best, end = 0.0, None, time.monotonic() + _MOST_SECONDS
        for _ in range(_MOST_TRIES):
            if not low < factor < high:
                factor = math.sqrt(low * high) if low else high / 2
            options = self._options(factor)
            growth = self._room(options)
            if growth is not None and growth >= 1:
                low, best = factor, self._largest(factor, options)
            else:
                high = factor
            factor *= growth or 0.0
            if time.monotonic() > end or (low and self._options(min(factor, high)) == self._options(low)):
                break
        return best

    def _options(self, factor: float) -> Options:
        return tuple(scale_budgets(mechanism.to_json(), factor, _down) for _, mechanism in self.named)

    def _room(self, options: Options) -> float | None:
        """The factor by which these budgets could grow; None where a mechanism refuses them."""
        try:
            mechanisms = [
                type(mechanism).from_plan(own) for (_, mechanism), own in zip(self.named, options, strict=True)
            ]
            parts = [mechanism.guarantee(self.schema, self.n) for mechanism in mechanisms]
        except NablaDPError:
            return None
        lines = limit_requests(self.standing, Guarantee.compose(self.schema, parts).for_rows(self.rows_per_person))
        growth = _growth(lines)
        return max(1.0, growth) if all(line.fits for line in lines) else min(growth, math.nextafter(1.0, 0.0))

    def _largest(self, factor: float, options: Options) -> Largest:
        names = (name for name, _ in self.named)
        return Largest(_down(factor), {name: budgets_of(own) for name, own in zip(names, options, strict=True)})


def _growth(lines: Sequence[LimitRequest]) -> float:
    """The factor by which every ε could grow until a limit is met, if costs went with ε (pure) or its square (ρ)."""
    factors = []
    for line in lines:
        if line.requested is None:
            return 0.0
        if line.requested:
            share = max(0, line.standing.left_units) / line.requested
            factors.append(share if line.standing.limit.pure else math.sqrt(share))
    return min(factors, default=math.inf)


def _down(value: float) -> float:
    """A budget with a few significant digits, rounded towards zero."""
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - _DIGITS + 1)), ROUND_DOWN)) if exact else 0.0


FACTORS = tuple(2 ** (step / 2) for step in range(-6, 7))  # of every ε: from an eighth of the plan's to eight times it
PLANNED = FACTORS.index(1.0)
MOST_FIGURES = 200  # of one release
TOGETHER = "all marginals, on average"
Tell = Callable[[str, int, int], None]
Totals = tuple[str | None, str | None, str | None]  # exact units of ρ, of pure ε, and of ρ of what is not pure


class PlannedReleases(Protocol):
    """What a plan says of its releases: a :class:`nabladp.release.plan.Plan` is one."""

    @property
    def releases(self) -> Sequence[tuple[str, Mechanism]]: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def rows_per_person(self) -> int: ...
    @property
    def delta(self) -> float: ...


@dataclass(frozen=True)
class Step:
    """One release at one budget: its options, what it costs every set, and its expected errors by label."""

    options: Mapping[str, Any]
    totals: tuple[Totals, ...]
    epsilon: float | None  # of the costliest attribute, for this release alone
    errors: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        budget = [f"{name} = {as_toml(value)}" for name, value in self.options.items() if is_budget(self.options, name)]
        return {"budget": budget, "totals": [list(own) for own in self.totals], "epsilon": self.epsilon}


@dataclass(frozen=True)
class Part:
    """One release at every factor; None where the mechanism refuses such a budget."""

    name: str
    mechanism: str
    steps: tuple[Step | None, ...]

    def to_json(self) -> dict[str, Any]:
        labels = list(dict.fromkeys(label for step in self.steps if step is not None for label in step.errors))
        errors = [[None if step is None else step.errors.get(label) for step in self.steps] for label in labels]
        return {
            "name": self.name,
            "mechanism": self.mechanism,
            "steps": [None if step is None else step.to_json() for step in self.steps],
            "figures": [{"label": label, "values": own} for label, own in zip(labels, errors, strict=True)],
        }


@dataclass(frozen=True)
class Outlook:
    """Every release of a plan at every factor. ``sets`` are those whose costs were worked out."""

    plan: PlannedReleases
    sets: tuple[tuple[str, ...], ...]
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "factors": list(FACTORS),
            "planned": PLANNED,
            "delta": self.plan.delta,
            "parts": [part.to_json() for part in self.parts],
        }


def outlook(plan: PlannedReleases, sets: Sequence[Sequence[str]], tell: Tell | None = None) -> Outlook:
    """The outlook of a plan at other budgets: costs to ``sets`` and expected errors at every factor."""
    wanted = tuple(tuple(chosen) for chosen in sets)
    parts = []
    for number, (name, mechanism) in enumerate(plan.releases):
        steps = []
        for index, factor in enumerate(FACTORS):
            if tell is not None:
                tell("pricing, budget", number * len(FACTORS) + index + 1, len(plan.releases) * len(FACTORS))
            steps.append(_step(plan, mechanism, factor, wanted))
        parts.append(Part(name, type(mechanism).__name__, tuple(steps)))
    return Outlook(plan, wanted, tuple(parts))


def _step(plan: PlannedReleases, mechanism: Mechanism, factor: float, sets: Sequence[tuple[str, ...]]) -> Step | None:
    options = mechanism.to_json()
    if factor != 1:
        if "settings" in options:  # they fix the noise, whatever the budget
            return None
        options = scale_budgets(options, factor)
    try:
        chosen = mechanism if factor == 1 else type(mechanism).from_plan(options)
        rows = plan.rows or 0
        guarantee = chosen.guarantee(plan.schema, rows).for_rows(plan.rows_per_person)
        errors = dict(error_figures(error_json(chosen.expected_error(plan.schema, rows))))
    except NablaDPError:
        if factor == 1:
            raise
        return None
    each = [guarantee.epsilon(name, plan.delta) for name in guarantee.universe.protected]
    worst = max(each, default=math.inf)
    return Step(options, tuple(_totals(guarantee, own) for own in sets), _finite(worst), errors)


def _totals(guarantee: Guarantee, attributes: tuple[str, ...]) -> Totals:
    total = guarantee.total(attributes)
    if total is None:
        return None, None, None
    rho, pure, rest = (None if units is None else str(units) for units in (total.rho, total.pure, total.rho_of_rest))
    return rho, pure, rest


def error_figures(error: Any) -> Iterator[tuple[str, float | None]]:
    """The numbers of an expected error that say how large it is, by label."""
    if isinstance(error, Mapping):
        for label, value in list(error.get("summary", {}).items())[:MOST_FIGURES]:
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(label), _finite(float(value))
        return
    mean = math.fsum(part["mean_absolute"] for part in error) / max(len(error), 1)
    if len(error) > 1:
        yield TOGETHER, _finite(mean)
    for part in error[: MOST_FIGURES - 1]:
        yield " + ".join(part["attributes"]), _finite(part["mean_absolute"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
