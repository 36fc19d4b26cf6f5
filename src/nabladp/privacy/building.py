"""From what a caller gives (names, budget values, a table) to the terms of a guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from nabladp import checks
from nabladp.errors import GuaranteeError, shown
from nabladp.privacy.terms import CappedTerm, CurveTerm, WeightTerm, is_whole, sorted_caps, sorted_weights
from nabladp.privacy.units import exact, units_up
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue, as_value, cost_units, eps_units

MOST_COLUMNS = 4096  # of a curve: all pairs of its values are compared


def weighted_term(
    shape: str,
    universe: Universe,
    on: Iterable[str] | str | Mapping[str, BudgetValue],
    cost: BudgetValue | None,
    limit: int | None,
    gaussian_scale: float | None = None,
) -> WeightTerm | None:
    """A cost for each attribute, in one of the shapes of :class:`WeightTerm`; None where nothing is charged."""
    given = _costs(on, cost)
    if len({value.pure for value in given.values()}) > 1:
        raise GuaranteeError("One term cannot mix pure and concentrated costs.", fix="Build two and add them.")
    pure = any(value.pure for value in given.values())
    if shape == "squares" and pure:
        raise GuaranteeError("'squares' takes concentrated costs.", fix="Give CDP(…) or Rho(…).")
    in_eps = pure or shape == "linear"
    weights: dict[str, int] = {}
    for name, value in given.items():
        units = eps_units(value) if in_eps else cost_units(value)
        for source in universe.sources(name):
            # A derived column is charged to its sources. Several columns of one source move together: a touch
            # term charges them once, at the largest; costs that add up over columns add up for the source.
            known = weights.get(source, 0)
            weights[source] = max(known, units) if shape == "touch" else known + units
    if not weights:
        return None
    return WeightTerm(shape, sorted_weights(weights), limit, pure, gaussian_scale)


def capped_term(
    universe: Universe,
    each: Mapping[str, BudgetValue],
    caps: Mapping[str | tuple[str, ...], BudgetValue] | None,
) -> CappedTerm | None:
    """Limits per attribute, and caps on sets; None where nothing is charged."""
    weights: Counter[str] = Counter()
    for name, value in checks.mapping(each, "'each'", "Write {'age': CDP(0.5)}.").items():
        for source in universe.sources(name):
            weights[source] += _rho_cost(value, f"the limit of {name!r}")
    if not weights:
        return None
    capped = checks.mapping({} if caps is None else caps, "'caps'", "Write {('age', 'sex'): CDP(0.5)}.")
    held = [(universe.sources(on) & weights.keys(), _rho_cost(value, "a cap")) for on, value in capped.items()]
    return CappedTerm(sorted_weights(weights), sorted_caps((on, units) for on, units in held if on))


def curve_term(universe: Universe, columns: Mapping[str, int], table: Sequence[float | Fraction]) -> CurveTerm:
    """ρ by how many columns T's attributes hold."""
    held: Counter[str] = Counter()
    for name, count in checks.mapping(columns, "'columns'", "Write {'age': 1}.").items():
        if not is_whole(count):
            raise GuaranteeError("A number of columns is a whole number.", fix="Write columns = {'age': 1}.")
        for source in universe.sources(name):
            held[source] += count
    values = checks.members(table, "The table of a curve", "Give its value for 0, 1, 2, … columns.", MOST_COLUMNS)
    return CurveTerm(sorted_weights(held), tuple(units_up(exact(value, up=True)) for value in values))


def _costs(on: Iterable[str] | str | Mapping[str, BudgetValue], cost: BudgetValue | None) -> dict[str, BudgetValue]:
    if isinstance(on, Mapping):
        if cost is not None:
            raise GuaranteeError("Costs are given twice.", fix="Give a mapping, or names and one cost.")
        return {name: as_value(value, f"the cost of {shown(name)}") for name, value in on.items()}
    value = as_value(cost, "the cost")
    return dict.fromkeys(checks.name_or_names(on, "'on'"), value)


def _rho_cost(value: BudgetValue, what: str) -> int:
    typed = as_value(value, what)
    if typed.pure:
        raise GuaranteeError("'capped' takes concentrated costs.", fix="Give CDP(…) or Rho(…).")
    return cost_units(typed)
