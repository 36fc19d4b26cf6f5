"""Typed budget values. A bare number never says what it measures, so it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nabladp.errors import BudgetError
from nabladp.privacy.conversion import rho_for
from nabladp.privacy.units import Number, exact, root_double, units_down, units_up

MOST = 10**12


def _positive(number: Number, what: str) -> Fraction:
    value = exact(number, what)
    if value <= 0:
        raise BudgetError(f"{what} must be above zero.", fix="Leave out what must not be released at all.")
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
            raise BudgetError("Approx(…, delta) must lie between 0 and 1.", fix="Try delta = 1e-6.")

    def amount(self, *, up: bool = False) -> Fraction:
        if up:  # the conversion goes from ρ to (ε, δ) only
            raise BudgetError(
                "A release that is (ε, δ)-private has no bound in ρ.", fix="State its cost as Pure, CDP or Rho."
            )
        return Fraction(rho_for(float(self.eps), float(self.delta)))

    def to_json(self) -> dict[str, Any]:
        return {"epsilon": float(self.eps), "delta": float(self.delta)}


BudgetValue = Pure | CDP | Rho | Approx


def as_value(value: Any, what: str = "a budget") -> BudgetValue:
    """Accept a typed value or its plan-file form, e.g. ``{"cdp": 0.5}``; refuse a bare number."""
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
    raise BudgetError(
        f"{what if isinstance(what, str) else 'a budget'} must say what it measures.",
        fix="Write Pure(eps), CDP(eps0), Rho(rho) or Approx(eps, delta); in a plan { pure = … }, { cdp = … }, "
        "{ rho = … } or { epsilon = …, delta = … }.",
    )


def limit_units(value: BudgetValue) -> int:
    """Units of a limit or request: rounded down."""
    return units_down(value.amount())


def cost_units(value: BudgetValue) -> int:
    """Units of a cost: rounded up. (ε, δ) is a limit or a request, never a cost."""
    return units_up(value.amount(up=True))


def eps_units(value: BudgetValue) -> int:
    """ε-units of a cost: ε itself, or √(2ρ) rounded up."""
    return cost_units(value) if value.pure else root_double(cost_units(value))
