"""The parameters of Synthesis: what is accepted, and how they are written in a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from nabladp.checks import is_number, is_whole, members, name_or_names, names
from nabladp.errors import BudgetError, MechanismError, MissingPart
from nabladp.mechanisms.options import BUYS, choice, concentrated
from nabladp.mechanisms.synthesis.choosing import STRATEGIES
from nabladp.mechanisms.synthesis.output import MOST_ROWS
from nabladp.privacy.budget import Budget
from nabladp.privacy.units import exact

BACK_ENDS = ("own", "mbi")
MOST_ROUNDS = 10_000
_WHOLE = {"rounds": (1, MOST_ROUNDS), "rows": (1, MOST_ROWS), "seed": (0, 1 << 62)}

_MAPPINGS = {
    "budgets": "Write budgets = {'age': CDP(0.1)}.",
    "sets": "Write sets = {'age+sex': CDP(0.1)}; the marginals that are wanted are listed in workload.",
}


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
        if value is not None and not is_whole(value, low, high):
            raise MechanismError(
                f"{name!r} must be a whole number from {low} to {high:,}.", fix="Correct it, or leave it out."
            )
    for name in ("one_way", "selection"):
        found[name] = _share(found[name], name)
    if (found["one_way"] or 0) + (found["selection"] or 0) >= 1:
        raise MechanismError("'one_way' and 'selection' leave nothing to measure with.", fix="Lower one of them.")
    found["workload"] = _workload(found["workload"])
    found["over"] = None if found["over"] is None else names(_listing(found["over"], "over"), "'over'")
    if found["target"] is not None and not isinstance(found["target"], str):
        raise MechanismError("'target' is the name of a column.", fix='Write target = "income".')
    if isinstance(found["weights"], Mapping):
        found["weights"] = {_name(key, "weights"): weight for key, weight in found["weights"].items()}
    elif found["weights"] is not None:
        found["weights"] = _listing(found["weights"], "weights")
    for name, known in (("strategy", STRATEGIES), ("back_end", BACK_ENDS)):
        choice(found[name], known, name, f"Use one of {', '.join(known)}.")
    if not 0 < exact(found["model_mb"], "'model_mb'") <= 10**6:
        raise MechanismError("'model_mb' is a number of megabytes above zero.", fix="The default is 16.")
    found["model_mb"] = float(found["model_mb"])
    found["zeros"] = _zeros(found["zeros"])
    return found


def check_back_end(back_end: str, zeros: Sequence[Any]) -> None:
    """Refuses, before anything is booked, a last fit that could not be made."""
    if back_end != "mbi":
        return
    if zeros:
        raise MechanismError("mbi knows no declared zeros.", fix='Leave back_end = "mbi" out, or declare no zeros.')
    if any(find_spec(package) is None for package in ("mbi", "jax")):
        raise MissingPart('back_end = "mbi" needs mbi.', fix="Install nabladp[synthesis].")


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


def _name(key: Any, what: str) -> Any:
    """An attribute, or several: "age+sex", or a tuple of names."""
    if isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key)):
        return key
    raise MechanismError(f"{what!r} has a key that names no attributes.", fix='Write "age", or "age+sex" for a set.')


def _each(given: Any, what: str) -> dict[Any, Any]:
    if not isinstance(given, Mapping):
        raise BudgetError(f"{what!r} maps attributes to budgets.", fix=_MAPPINGS[what])
    found = {}
    for name, value in given.items():
        _name(name, what)
        if isinstance(value, Mapping) and any(is_number(amount) and amount == 0 for amount in value.values()):
            raise BudgetError(
                f"The budget of {_key(name)!r} is zero.", fix="Leave its columns out of the workload instead."
            )
        found[name] = concentrated(value, f"budget of {_key(name)!r}")
    return found


def _share(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if not 0 <= exact(value, f"{what!r}") < 1 or not float(value) < 1 or (what == "selection" and not float(value)):
        raise MechanismError(f"{what!r} is a share of the budget below 1.", fix="A twentieth is 0.05.")
    return float(value)


def _workload(given: Any) -> int | tuple[tuple[str, ...], ...]:
    if is_whole(given, -MOST_ROUNDS, MOST_ROUNDS):
        return int(given)
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise MechanismError(
            "'workload' is a number of columns or a list of sets.", fix='Write 2, or [["age", "sex"], ["income"]].'
        )
    return tuple(name_or_names(names, "A set of 'workload'", MechanismError) for names in _listing(given, "workload"))


def _zeros(given: Any) -> tuple[dict[str, Any], ...]:
    zeros = [given] if isinstance(given, Mapping) else _listing(given, "zeros")
    for zero in zeros:
        if not isinstance(zero, Mapping):
            raise MechanismError(
                "'zeros' is a list of declarations, each with a condition for two columns or more.",
                fix='Write zeros = [{ age = { below = 15 }, income = { not = "(null)" } }].',
            )
    return tuple(dict(zero) for zero in zeros)


def _listing(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise MechanismError(f"{what!r} must be a list.", fix="Write it in brackets, separated by commas.")
    return members(value, f"{what!r}", "Write it in brackets, separated by commas.", error=MechanismError)
