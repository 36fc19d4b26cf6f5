"""How the parameters of a workload are read and checked, from Python and from a plan alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from numbers import Integral
from typing import Any

from nabladp.checks import is_number, members, names
from nabladp.errors import MechanismError, quote, suggestion

_LARGEST = 1e12  # products and ratios of weights then neither overflow nor vanish


def from_options(kind: type[Any], given: Any, what: str) -> Any:
    """A workload dataclass from its options; a misspelt option gets the nearest one suggested."""
    if not isinstance(given, Mapping):
        raise MechanismError(f"{what} is written as a table.", fix="Write { attributes = […], values = […] }.")
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise MechanismError(f"{what} has no option {quote(name)}.", fix=nearest(name, known))
    for field in fields(kind):
        if field.default is MISSING and field.name not in given:
            raise MechanismError(f"{what} lacks the option {field.name!r}.", fix=f"Options: {', '.join(known)}.")
    return kind(**given)


def nearest(name: Any, known: Iterable[str]) -> str:
    known = list(known)
    return suggestion(name, known, f"Known are {', '.join(known)}.")


def listing(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise MechanismError(f"{what} must be a list.", fix='Write, for instance, ["age", "sex"].')
    return members(value, what, 'Write, for instance, ["age", "sex"].', error=MechanismError)


def names_once(value: Any) -> tuple[str, ...]:
    """The workload option ``over``: a list of attributes, each of them once."""
    fix = 'Write over = ["age", "sex"], or leave it out for all.'
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise MechanismError("'over' is a list of attributes.", fix=fix)
    if not value:
        raise MechanismError("'over' is empty: it is a list of attributes.", fix=fix)
    listed = names(value, "'over'", fix, MechanismError)
    name, times = Counter(listed).most_common(1)[0]
    if times > 1:
        raise MechanismError(f"'over' names {quote(name)} twice.", fix="Name each attribute once.", attribute=name)
    return listed


def check_weight(weight: Any) -> float:
    number: Any = weight
    if not is_number(weight) or not 1 / _LARGEST <= number <= _LARGEST:
        raise MechanismError("A weight is a number between 1e-12 and 1e12.", fix="Leave out what is unwanted.")
    return int(number) if isinstance(weight, Integral) else float(number)


def check_k(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 1:
        raise MechanismError("k must be a whole number of at least 1.", fix="For all pairs write k = 2.")
    return int(k)
