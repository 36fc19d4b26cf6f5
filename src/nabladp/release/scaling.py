"""The budgets among a mechanism's options, as a plan file has them, and the same mechanism at other budgets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from nabladp.privacy.values import Approx, as_value

_ONE, _SEVERAL, _PLAIN = (
    ("budget", "holdout_budget", "person"),
    ("budgets", "sets"),
    ("label_epsilon", "feature_epsilon"),
)
_DIGITS = 4


def nearest(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def scaled(options: Mapping[str, Any], factor: float, rounded: Callable[[float], float] = nearest) -> dict[str, Any]:
    """The options of a mechanism with every budget changed so that its ε is so many times as large.

    Rounded to a few digits, so that what is shown is what was priced.
    """
    found = dict(options)
    for name in options:
        if not is_budget(options, name):
            continue
        if name in _SEVERAL:
            found[name] = {key: _times(value, factor, rounded) for key, value in options[name].items()}
        else:
            value = options[name]
            found[name] = rounded(value * factor) if name in _PLAIN else _times(value, factor, rounded)
    return found


def is_budget(options: Mapping[str, Any], name: str) -> bool:
    if name in _PLAIN:
        return options.get(name) is not None
    return name in (*_ONE, *_SEVERAL) and isinstance(options.get(name), Mapping)


def budgets_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The budgets alone; none that is empty."""
    return {name: value for name, value in options.items() if is_budget(options, name) and value != {}}


def _times(value: Mapping[str, Any], factor: float, rounded: Callable[[float], float]) -> dict[str, Any]:
    """A budget in its plan-file form; ρ goes with the square of ε, δ stays."""
    powers = {"rho": 2, "delta": 0}
    return {
        name: own if name == "delta" else rounded(own * factor ** powers.get(name, 1)) for name, own in value.items()
    }


def as_toml(value: Any) -> str:
    """As a plan file has it."""
    if not isinstance(value, Mapping):
        return f"{value:g}"
    inside = [f"{name if name.isidentifier() else json.dumps(name)} = {as_toml(own)}" for name, own in value.items()]
    return f"{{ {', '.join(inside)} }}"


def as_python(value: Any) -> str:
    """As Python has it."""
    if not isinstance(value, Mapping):
        return f"{value:g}"
    typed = as_value(value)
    numbers = (typed.eps, typed.delta) if isinstance(typed, Approx) else tuple(vars(typed).values())
    return f"{type(typed).__name__}({', '.join(f'{float(number):g}' for number in numbers)})"
