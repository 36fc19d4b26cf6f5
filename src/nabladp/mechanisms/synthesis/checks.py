"""The parameters of Synthesis: what is accepted, and how they are written in a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.options import BUYS, concentrated
from nabladp.mechanisms.synthesis.choosing import STRATEGIES
from nabladp.mechanisms.synthesis.output import MOST_ROWS
from nabladp.privacy.budget import Budget
from nabladp.privacy.units import exact

BACK_ENDS = ("own", "mbi")
MOST_ROUNDS = 10_000
_WHOLE = {"rounds": (1, MOST_ROUNDS), "rows": (1, MOST_ROWS), "seed": (0, 1 << 62)}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, each in its one form; refuses what makes no sense."""
    found = dict(given)
    for name in ("budget", "person"):
        if found[name] is not None:
            found[name] = concentrated(found[name], name)
    for name in ("budgets", "sets"):
        found[name] = _each(found[name], name)
    if found["budget"] is None and not found["budgets"] and not found["sets"] and found["person"] is None:
        raise BudgetError("Synthesis needs a budget.", fix=f"Give budget or person: {BUYS[False]}.")
    if found["sets"]:
        found["sets"] = dict(Budget(sets=found["sets"]).sets)  # refuses what names no set
    for name, (low, high) in _WHOLE.items():
        value = found[name]
        if value is not None and not (_is_whole(value) and low <= value <= high):
            raise MechanismError(
                f"{name!r} must be a whole number from {low} to {high:,}.", fix="Correct it, or leave it out."
            )
    for name in ("one_way", "selection"):
        found[name] = _share(found[name], name)
    if (found["one_way"] or 0) + (found["selection"] or 0) >= 1:
        raise MechanismError("'one_way' and 'selection' leave nothing to measure with.", fix="Lower one of them.")
    found["workload"] = _workload(found["workload"])
    found["over"] = None if found["over"] is None else _listing(found["over"], "over")
    if isinstance(found["weights"], Mapping):
        found["weights"] = dict(found["weights"])
    elif found["weights"] is not None:
        found["weights"] = _listing(found["weights"], "weights")
    for name, known in (("strategy", STRATEGIES), ("back_end", BACK_ENDS)):
        if found[name] not in known:
            raise MechanismError(f"There is no {name} {found[name]!r}.", fix=f"Use one of {', '.join(known)}.")
    if isinstance(found["model_mb"], bool) or not 0 < float(exact(found["model_mb"], "'model_mb'")) <= 1e6:
        raise MechanismError("'model_mb' is a number of megabytes above zero.", fix="The default is 16.")
    found["model_mb"] = float(found["model_mb"])
    zeros = [found["zeros"]] if isinstance(found["zeros"], Mapping) else _listing(found["zeros"], "zeros")
    found["zeros"] = tuple(dict(zero) for zero in zeros)
    return found


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of a plan file; what is empty is left out."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in ("budget", "person") and value is not None:
            found[name] = value.to_json()
        elif name in ("budgets", "sets", "weights") and isinstance(value, Mapping):
            found[name] = {_key(key): v.to_json() if hasattr(v, "to_json") else float(v) for key, v in value.items()}
        elif isinstance(value, tuple):
            found[name] = [list(part) if isinstance(part, tuple) else part for part in value]
        else:
            found[name] = value
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "+".join(key)


def _each(given: Any, what: str) -> dict[Any, Any]:
    if not isinstance(given, Mapping):
        raise BudgetError(f"{what!r} maps attributes to budgets.", fix=f"Write {what} = {{'age': CDP(0.1)}}.")
    found = {}
    for name, value in given.items():
        if isinstance(value, Mapping) and 0 in value.values():
            raise BudgetError(
                f"The budget of {_key(name)!r} is zero.", fix="Leave its columns out of the workload instead."
            )
        found[name] = concentrated(value, f"budget of {_key(name)!r}")
    return found


def _share(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, (str, bool)) or not 0 <= exact(value, f"{what!r}") < 1 or (what == "selection" and not value):
        raise MechanismError(f"{what!r} is a share of the budget below 1.", fix="A twentieth is 0.05.")
    return float(value)


def _workload(given: Any) -> int | tuple[tuple[str, ...], ...]:
    if _is_whole(given):
        return int(given)
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise MechanismError(
            "'workload' is a number of columns or a list of sets.", fix='Write 2, or [["age", "sex"], ["income"]].'
        )
    return tuple((names,) if isinstance(names, str) else _listing(names, "a set") for names in given)


def _listing(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise MechanismError(f"{what!r} must be a list.", fix="Write it in brackets, separated by commas.")
    return tuple(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
