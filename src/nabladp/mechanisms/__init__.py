"""One folder per mechanism, each with its proof. Which there are is told at the front door, among the public names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nabladp import HOME
from nabladp.errors import MechanismError, PlanError, shown, suggestion
from nabladp.mechanisms.mechanism import Branch, Law, Mechanism, Output, Records

_HOME = {name: home for name, home in HOME.items() if home.startswith(f"{__name__}.")}
MECHANISMS = tuple(_HOME)


def mechanism_class(name: str) -> type[Mechanism]:
    """The mechanism of this name, loaded when first asked for."""
    if not isinstance(name, str) or name not in _HOME:
        fix = suggestion(name, MECHANISMS, f"Mechanisms: {', '.join(MECHANISMS)}.")
        raise PlanError(f"There is no mechanism {shown(name)}.", fix=fix)
    found: type[Mechanism] = getattr(import_module(_HOME[name]), name)
    return found


def check_mechanism(value: Any) -> Mechanism:
    """Something that can be released: it says what it costs, and runs."""
    asked = ("reads", "guarantee", "expected_error", "run", "to_json")
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in asked):
        raise MechanismError(
            f"A release is made by a mechanism, not by {shown(value)}.",
            fix="Give one with its parameters, e.g. NoisyMarginals(CDP(0.5), k=1).",
        )
    mechanism: Mechanism = value
    return mechanism


__all__ = [
    "MECHANISMS",
    "Branch",
    "Law",
    "Mechanism",
    "Output",
    "Records",
    "check_mechanism",
    "mechanism_class",
]
