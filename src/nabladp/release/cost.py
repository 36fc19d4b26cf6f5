"""What a request would cost and how good it would be, before anything is spent or read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.privacy.budget import members
from nabladp.privacy.ledger.limits import LimitRequest
from nabladp.privacy.units import rounded
from nabladp.schema import Schema

if TYPE_CHECKING:
    from nabladp.release.largest import Largest

DELTA = 1e-6


@dataclass(frozen=True)
class Cost:
    """The guarantee of a request, its expected error, and how it stands against the limits."""

    guarantee: Guarantee
    errors: tuple[tuple[str, Any], ...]  # name of the release, its mechanism's expected error
    lines: tuple[LimitRequest, ...] = ()
    adversaries: Mapping[str, tuple[str, ...]] | None = None
    delta: float = DELTA
    any_rows: tuple[str, ...] = ()  # releases whose cost is shown for any number of rows; see `waits_for_rows`
    largest: Largest | None = None  # what would still fit, where this does not

    @property
    def fits(self) -> bool:
        return all(line.fits for line in self.lines)

    def explained(self, sets: Sequence[str], worst: int | None = None, prior: float = 0.5) -> dict[str, Any]:
        """More about sets written "a+b", and the costliest attributes."""
        from nabladp.release.explain import costliest, explain

        universe = self.guarantee.universe
        found: dict[str, Any] = {}
        if sets:
            found["sets"] = [explain(self.guarantee, members(universe, text), self.delta, prior) for text in sets]
        return found | ({} if worst is None else {"worst": costliest(self.guarantee, worst)})

    def to_json(self) -> dict[str, Any]:
        return {
            "fits": self.fits,
            "largest_budget": self.largest and self.largest.to_json(),
            "any_rows": list(self.any_rows),
            **figures(self.guarantee, self.adversaries or {}, self.delta),
            "limits": [line.to_json() for line in self.lines],
            "expected_error": {name: error_json(error) for name, error in self.errors},
        }


def waits_for_rows(mechanism: Mechanism) -> bool:
    """Whether its claim for any number of rows may be far too large, so that limits wait until the number is known."""
    return mechanism.plans_for_rows


def without_rows(named: Iterable[tuple[str, Mechanism]], rows: int | None) -> tuple[str, ...]:
    """The names of those whose price has to be for any number of rows, as the number is not known."""
    return () if rows else tuple(name for name, mechanism in named if waits_for_rows(mechanism))


def price(
    named: Sequence[tuple[str, Mechanism]], schema: Schema, n: int, rows_per_person: int = 1
) -> tuple[Guarantee, tuple[tuple[str, Any], ...]]:
    """The composed guarantee and the expected errors of some mechanisms. Reads no data."""
    parts = [mechanism.guarantee(schema, n) for _, mechanism in named]
    errors = tuple((name, mechanism.expected_error(schema, n)) for name, mechanism in named)
    return Guarantee.compose(schema, parts).for_rows(rows_per_person), errors


def shown(value: float | None, *, up: bool = True) -> str:
    """Four digits for people; costs are rounded up, what is left or allowed down."""
    return "no bound" if value is None else rounded(value, 4, up=up)


def figures(guarantee: Guarantee, adversaries: Mapping[str, Sequence[str]], delta: float) -> dict[str, Any]:
    """Every attribute, every named adversary and the person: always together, conversions named."""
    return {
        "delta": delta,
        "conversions": {"epsilon": "tight (Canonne, Kamath, Steinke 2020)", "epsilon_paper": "prop:ppdp-conversion"},
        "attributes": {name: figure(guarantee, (name,), delta) for name in guarantee.universe.protected},
        "derived": {name: list(sources) for name, sources in guarantee.universe.derived.items()},
        "public": sorted(guarantee.universe.public),
        "adversaries": [
            {"name": name, "attributes": list(chosen), **figure(guarantee, chosen, delta)}
            for name, chosen in adversaries.items()
        ],
        "person": figure(guarantee, guarantee.per_person().attributes, delta),
    }


def figure(guarantee: Guarantee, attributes: Sequence[str], delta: float) -> dict[str, float | None]:
    shown = guarantee.figure(attributes)
    values = {
        "rho": shown.rho,
        "epsilon": shown.epsilon(delta),
        "epsilon_paper": shown.epsilon(delta, "paper"),
        "pure_epsilon": shown.pure,
    }
    return {name: finite(value) for name, value in values.items()}


def finite(value: float) -> float | None:
    """JSON has no infinity: 'no bound' is null."""
    return value if value < float("inf") else None


def error_json(error: Any) -> Any:
    """A list for a tuple of errors, one for each marginal; an object with a "summary" for any other mechanism."""
    return [part.to_json() for part in error] if isinstance(error, tuple) else error.to_json()
