"""Typed budget values, and the terms of a guarantee that they charge.

A bare number never says what it measures, so it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nabladp import checks
from nabladp.errors import BudgetError, GuaranteeError, quote, suggestion
from nabladp.privacy.conversion import rho_for
from nabladp.privacy.many_rows import People
from nabladp.privacy.terms import CappedTerm, CurveTerm, Near, WeightTerm, is_whole, sorted_caps, sorted_weights
from nabladp.privacy.units import Number, exact, root_double, units_down, units_up
from nabladp.privacy.universe import Universe

# ---- budget values ---------------------------------------------------------------------------------------------------

MOST = 10**12


def _positive(number: Number, what: str) -> Fraction:
    value = exact(number, what)
    if value <= 0:
        raise BudgetError(
            f"{what} must be above zero, and is {quote(number)}.",
            fix="Give a number above zero, such as 0.2. To keep an attribute out of a release, do not name it there.",
        )
    if value > MOST:
        raise BudgetError(f"{what} is too large (the limit is {MOST:,}).", fix=f"Give a number up to {MOST:,}.")
    return value


@dataclass(frozen=True)
class Pure:
    """Pure ε: bounds the max divergence D_∞."""

    eps: Number
    pure = True

    def __post_init__(self) -> None:
        _positive(self.eps, "Pure(eps)")

    def amount(self, *, up: bool = False) -> Fraction:
        return exact(self.eps, up=up)

    def to_json(self) -> dict[str, Any]:
        return {"pure": float(self.eps)}


@dataclass(frozen=True)
class Rho:
    """Concentrated ρ: bounds D_* (zCDP)."""

    rho: Number
    pure = False

    def __post_init__(self) -> None:
        _positive(self.rho, "Rho(rho)")

    def amount(self, *, up: bool = False) -> Fraction:
        return exact(self.rho, up=up)

    def to_json(self) -> dict[str, Any]:
        return {"rho": float(self.rho)}


@dataclass(frozen=True)
class CDP:
    """The paper's concentrated ε0: ρ = ε0²/2 (`defn:pcdp`)."""

    eps0: Number
    pure = False

    def __post_init__(self) -> None:
        _positive(self.eps0, "CDP(eps0)")

    def amount(self, *, up: bool = False) -> Fraction:
        return exact(self.eps0, up=up) ** 2 / 2

    def to_json(self) -> dict[str, Any]:
        return {"cdp": float(self.eps0)}


@dataclass(frozen=True)
class Approx:
    """(ε, δ) as a limit or a request: the largest ρ whose tight conversion stays within it. Never a cost."""

    eps: Number
    delta: Number
    pure = False

    def __post_init__(self) -> None:
        _positive(self.eps, "Approx(eps, …)")
        delta = exact(self.delta, "Approx(…, delta)")
        if not (0 < delta < 1 and 0 < float(delta) < 1):  # also once it is a double
            raise BudgetError(
                f"Approx(…, delta) must lie strictly between 0 and 1, and is {quote(self.delta)}.",
                fix="Try delta = 1e-6.",
            )

    def amount(self, *, up: bool = False) -> Fraction:
        if up:  # the conversion goes from ρ to (ε, δ) only
            raise BudgetError(
                "A release that is (ε, δ)-private has no bound in ρ.", fix="State its cost as Pure, CDP or Rho."
            )
        return Fraction(rho_for(float(self.eps), float(self.delta)))

    def to_json(self) -> dict[str, Any]:
        return {"epsilon": float(self.eps), "delta": float(self.delta)}


BudgetValue = Pure | CDP | Rho | Approx


def as_value(value: Any, what: str = "A budget") -> BudgetValue:
    """A typed budget value from one or from its plan-file form, e.g. ``{"cdp": 0.5}``; refuses a bare number."""
    if isinstance(value, (Pure, CDP, Rho, Approx)):
        return value
    if isinstance(value, Mapping):
        match frozenset(value):
            case keys if keys == {"pure"}:
                return Pure(value["pure"])
            case keys if keys == {"rho"}:
                return Rho(value["rho"])
            case keys if keys == {"cdp"}:
                return CDP(value["cdp"])
            case keys if keys == {"delta", "epsilon"}:
                return Approx(value["epsilon"], value["delta"])
    raise _untyped(value, what if isinstance(what, str) else "A budget")


_MEASURES = ("pure", "cdp", "rho", "epsilon", "delta")


def _untyped(value: Any, what: str) -> BudgetError:
    """The error for a value that does not say, or says wrongly, what it measures."""
    given = list(value) if isinstance(value, Mapping) else []
    unknown = next((key for key in given if key not in _MEASURES), None)
    fix = (
        "In a plan write { cdp = 0.2 }, or { rho = … }, { pure = … } or { epsilon = …, delta = … }; in Python "
        "CDP(0.2), Rho(…), Pure(…) or Approx(…)."
    )
    if unknown is not None:
        known = suggestion(unknown, _MEASURES, f"Known entries: {', '.join(_MEASURES)}.")
        likely = _LIKELY.get(unknown) if isinstance(unknown, str) else None
        return BudgetError(f"{what} has no entry {quote(unknown)}.", fix=likely or known)
    if given == ["epsilon"]:
        return BudgetError(
            f"{what} has an epsilon, but delta is missing.",
            fix="Write { epsilon = …, delta = 1e-6 }; for an ε without a δ write { pure = … }.",
        )
    if given == ["delta"]:
        return BudgetError(f"{what} has a delta, but epsilon is missing.", fix="Write { epsilon = …, delta = … }.")
    if given:
        entries = ", ".join(key for key in _MEASURES if key in given)
        return BudgetError(f"{what} has several measures: {entries}.", fix=f"Keep one. {fix}")
    bare = ": it is a bare number" if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    return BudgetError(f"{what} must say what it measures{bare}.", fix=fix)


_LIKELY = {  # how other tools spell them
    "eps": "Write { epsilon = …, delta = … }, or { pure = … } for an ε without a δ.",
    "eps0": "Write { cdp = … }.",
    "epsilon0": "Write { cdp = … }.",
    "zcdp": "Write { rho = … }.",
}


def limit_units(value: BudgetValue) -> int:
    """The units of a budget value as a limit or request: rounded down."""
    return units_down(value.amount())


def cost_units(value: BudgetValue) -> int:
    """The units of a budget value as a cost: rounded up. (ε, δ) is a limit or a request, never a cost."""
    return units_up(value.amount(up=True))


def eps_units(value: BudgetValue) -> int:
    """The ε-units of a budget value as a cost: ε itself, or √(2ρ) rounded up."""
    return cost_units(value) if value.pure else root_double(cost_units(value))


# ---- the terms that budget values charge -----------------------------------------------------------------------------

MOST_COLUMNS = 4096  # of a curve: all pairs of its values are compared


def weighted_term(
    shape: str,
    universe: Universe,
    on: Iterable[str] | str | Mapping[str, BudgetValue],
    cost: BudgetValue | None,
    limit: int | None,
    gaussian_scale: float | None = None,
    near: Mapping[str, Mapping[Any, BudgetValue]] | None = None,
    people: People | None = None,
) -> WeightTerm | None:
    """The term of a cost for each attribute, in one of the shapes of :class:`WeightTerm`; None where nothing is
    charged."""
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
    return WeightTerm(shape, sorted_weights(weights), limit, pure, gaussian_scale, _near(near or {}, pure), people)


def exact_decimal(number: Any) -> Fraction:
    """A distance as a person writes it: 0.1 is a tenth, not the double next to it."""
    return Fraction(str(float(number))) if isinstance(number, float) else checks.as_fraction(number)


def _near(near: Mapping[str, Mapping[Any, BudgetValue]], pure: bool) -> Near:
    """Weights for changes of at most some distance, in the units of the term's other weights."""
    fix = "Write near={'income': {1000: Rho(0.01)}}."
    listed = []
    for name, steps in sorted(checks.mapping(near, "'near'", fix).items()):
        known = {}
        for far, value in checks.mapping(steps, f"The distances of {name!r}", fix).items():
            if not checks.is_above_zero(far):
                raise GuaranteeError(f"A distance of {name!r} must be a number above zero.", fix=fix)
            if as_value(value, f"the cost of a small change of {name!r}").pure != pure:
                raise GuaranteeError("One term cannot mix pure and concentrated costs.", fix="Build two and add them.")
            known[exact_decimal(far)] = eps_units(value) if pure else cost_units(value)
        listed.append((name, tuple(sorted(known.items()))))
    return tuple(listed)


def capped_term(
    universe: Universe,
    each: Mapping[str, BudgetValue],
    caps: Mapping[str | tuple[str, ...], BudgetValue] | None,
) -> CappedTerm | None:
    """The term of limits per attribute, and caps on sets; None where nothing is charged."""
    weights: Counter[str] = Counter()
    for name, value in checks.mapping(each, "'each'", "Write {'age': CDP(0.5)}.").items():
        for source in universe.sources(name):
            weights[source] += _rho_cost(value, f"the limit of {name!r}")
    if not weights:
        return None
    capped = checks.mapping({} if caps is None else caps, "'caps'", "Write {('age', 'sex'): CDP(0.5)}.")
    limited = [(universe.sources(on) & weights.keys(), _rho_cost(value, "a cap")) for on, value in capped.items()]
    return CappedTerm(sorted_weights(weights), sorted_caps((on, units) for on, units in limited if on))


def curve_term(universe: Universe, columns: Mapping[str, int], table: Sequence[float | Fraction]) -> CurveTerm:
    """The term of a ρ by how many columns T's attributes hold."""
    counts: Counter[str] = Counter()
    for name, count in checks.mapping(columns, "'columns'", "Write {'age': 1}.").items():
        if not is_whole(count):
            raise GuaranteeError("A number of columns is a whole number.", fix="Write columns = {'age': 1}.")
        for source in universe.sources(name):
            counts[source] += count
    values = checks.members(table, "The table of a curve", "Give its value for 0, 1, 2, … columns.", MOST_COLUMNS)
    return CurveTerm(sorted_weights(counts), tuple(units_up(exact(value, up=True)) for value in values))


def _costs(on: Iterable[str] | str | Mapping[str, BudgetValue], cost: BudgetValue | None) -> dict[str, BudgetValue]:
    if isinstance(on, Mapping):
        if cost is not None:
            raise GuaranteeError("Costs are given twice.", fix="Give a mapping, or names and one cost.")
        return {name: as_value(value, f"the cost of {quote(name)}") for name, value in on.items()}
    value = as_value(cost, "the cost")
    return dict.fromkeys(checks.name_or_names(on, "'on'"), value)


def _rho_cost(value: BudgetValue, what: str) -> int:
    typed = as_value(value, what)
    if typed.pure:
        raise GuaranteeError("'capped' takes concentrated costs.", fix="Give CDP(…) or Rho(…).")
    return cost_units(typed)
