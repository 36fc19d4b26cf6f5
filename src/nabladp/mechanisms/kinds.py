"""The kinds of values that parameters of mechanisms take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

from nabladp import checks
from nabladp.errors import BudgetError, MechanismError, quote, suggestion
from nabladp.mechanisms.parameters import Kind, Parameter
from nabladp.privacy.units import exact
from nabladp.privacy.values import BudgetValue, as_value
from nabladp.workloads import Workload, as_workload

MOST_MEGABYTES = 1 << 24  # 16 TiB
SUPPORTED_BY = {  # by whether a guarantee is pure
    True: "Pure(eps), in a plan { pure = 1.0 }",
    False: "CDP(eps0), Rho(rho) or Approx(eps, delta), in a plan { cdp = 1.0 }",
}


@dataclass(frozen=True)
class Whole(Kind):
    low: int
    high: int | None = None
    of: str = ""  # what is counted, such as "megabytes"
    sample: int = 2

    @property
    def takes(self) -> str:
        return f"a whole number{_of(self.of)} {_bounds(self.low, self.high)}"

    @property
    def example(self) -> str:
        return str(self.sample)

    def checked(self, value: Any, declared: Parameter) -> int:
        if not checks.is_whole(value, self.low, self.high):
            raise declared.wrong()
        return int(value)


@dataclass(frozen=True)
class Number(Kind):
    """A whole number stays one, unless ``real``; a fraction stays exact."""

    low: float
    high: float | None = None
    above: bool = False  # whether ``low`` itself is refused
    real: bool = False
    of: str = ""  # what is measured, such as "megabytes"

    @property
    def takes(self) -> str:
        if not self.above:
            return f"a number{_of(self.of)} {_bounds(self.low, self.high)}"
        return f"a number{_of(self.of)} above {self.low:,g}" + (
            "" if self.high is None else f" and up to {_written(self.high)}"
        )

    @property
    def example(self) -> str:
        return f"{self.low + 1:g}"

    def checked(self, value: Any, declared: Parameter) -> float | Fraction:
        if not checks.is_number(value):
            raise declared.wrong()
        low = value > self.low and float(value) > self.low if self.above else value >= self.low
        if not low or (self.high is not None and value > self.high):
            raise declared.wrong()
        if self.real:
            return float(value)
        if isinstance(value, Integral):
            return int(value)
        return value if isinstance(value, Fraction) else float(value)

    def stored(self, value: Any) -> Any:
        return float(value) if isinstance(value, Fraction) else value


@dataclass(frozen=True)
class Share(Kind):
    """A part of a whole: strictly between 0 and 1, or from 0 on."""

    zero: bool = False  # whether 0 is one

    @property
    def takes(self) -> str:
        return "a share from 0 to below 1" if self.zero else "a share strictly between 0 and 1"

    @property
    def example(self) -> str:
        return "0.05"

    def checked(self, value: Any, declared: Parameter) -> float:
        if not (checks.is_share(value) or (self.zero and checks.is_number(value) and value == 0)):
            raise declared.wrong()
        return float(value)


@dataclass(frozen=True, init=False)
class Choice(Kind):
    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)

    @property
    def takes(self) -> str:
        return _either([f'"{word}"' for word in self.words])

    @property
    def example(self) -> str:
        return f'"{self.words[0]}"'

    def checked(self, value: Any, declared: Parameter) -> str:
        if not isinstance(value, str) or value not in self.words:
            detail = f", not {quote(value)}" if isinstance(value, str) else ""
            error = declared.wrong(detail)
            error.fix = suggestion(value, self.words, error.fix)
            raise error
        return value


@dataclass(frozen=True)
class Flag(Kind):
    takes = "true or false"
    example = "true"

    def checked(self, value: Any, declared: Parameter) -> bool:
        if not isinstance(value, bool):
            raise declared.wrong()
        return value


@dataclass(frozen=True)
class Name(Kind):
    takes = "the name of an attribute"
    example = '"sick"'

    def checked(self, value: Any, declared: Parameter) -> str:
        if not isinstance(value, str):
            raise declared.wrong()
        return value


@dataclass(frozen=True)
class Names(Kind):
    takes = "a list of attributes"
    example = '["age", "sex"]'

    def checked(self, value: Any, declared: Parameter) -> tuple[str, ...]:
        listed = _names(value, declared)
        if not listed:
            raise declared.wrong(", and is empty")
        name, times = Counter(listed).most_common(1)[0]
        if times > 1:
            raise MechanismError(
                f"{declared.name!r} names {quote(name)} twice.", fix="Name each attribute once.", attribute=name
            )
        return listed

    def stored(self, value: Any) -> list[str]:
        return list(value)


@dataclass(frozen=True)
class Sets(Kind):
    """Sets of attributes; one attribute alone may stand without brackets."""

    takes = "a list of sets of attributes"
    example = '[["age", "sex"], ["income"]]'

    def checked(self, value: Any, declared: Parameter) -> tuple[tuple[str, ...], ...]:
        return tuple((each,) if isinstance(each, str) else _names(each, declared) for each in listing(value, declared))

    def stored(self, value: Any) -> list[list[str]]:
        return [list(names) for names in value]


@dataclass(frozen=True)
class Weights(Kind):
    takes = "a list of numbers above zero"
    example = "[2, 1]"

    def checked(self, value: Any, declared: Parameter) -> tuple[Any, ...]:
        listed = listing(value, declared)
        if not all(exact(weight, f"A weight in {declared.name!r}") > 0 for weight in listed):
            raise declared.wrong()
        return listed

    def stored(self, value: Any) -> list[float]:
        return [float(weight) for weight in value]


@dataclass(frozen=True)
class Table(Kind):
    """Something for each of some attributes, which the mechanism checks once it knows the schema."""

    of: str
    sample: str

    @property
    def takes(self) -> str:
        return f"a table of {self.of} by attribute"

    @property
    def example(self) -> str:
        return self.sample

    def checked(self, value: Any, declared: Parameter) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise declared.wrong()
        checks.names(value, f"{declared.name!r}", declared.fix, MechanismError)
        return dict(value)

    def stored(self, value: Any) -> dict[str, Any]:
        return dict(value)


@dataclass(frozen=True)
class BudgetKind(Kind):
    """A typed budget. ``noise`` says which noise it must support; None leaves that to the mechanism."""

    noise: Literal["gaussian", "laplace"] | None = None

    @property
    def takes(self) -> str:
        return {None: "a budget", "laplace": "a pure budget", "gaussian": "a budget that is not pure"}[self.noise]

    @property
    def example(self) -> str:
        return "{ pure = 0.2 }" if self.noise == "laplace" else "{ cdp = 0.2 }"

    def checked(self, value: Any, declared: Parameter) -> BudgetValue:
        return typed_budget(value, f"{declared.name!r}", self.noise)

    def stored(self, value: BudgetValue) -> dict[str, Any]:
        return value.to_json()


@dataclass(frozen=True)
class Budgets(Kind):
    """A budget for each of some attributes."""

    noise: Literal["gaussian", "laplace"] | None = None
    takes = "a table of budgets by attribute"

    @property
    def example(self) -> str:
        return f"{{ age = {BudgetKind(self.noise).example} }}"

    def checked(self, value: Any, declared: Parameter) -> dict[str, BudgetValue]:
        if not isinstance(value, Mapping):
            raise BudgetError(f"{declared.name!r} must be {self.takes}.", fix=declared.fix)
        checks.names(value, f"{declared.name!r}", declared.fix, BudgetError)
        return {name: typed_budget(each, f"The budget of {name!r}", self.noise) for name, each in value.items()}

    def stored(self, value: Mapping[str, BudgetValue]) -> dict[str, Any]:
        return {name: each.to_json() for name, each in value.items()}


@dataclass(frozen=True)
class WorkloadKind(Kind):
    takes = "a workload"
    example = '{ queries = "conjunctions", k = 2 }'

    def checked(self, value: Any, declared: Parameter) -> Workload:
        return as_workload(value)

    def stored(self, value: Workload) -> Any:
        return value.to_json()


# ---- shared by kinds -------------------------------------------------------------------------------------------------


def typed_budget(value: Any, what: str, noise: Literal["gaussian", "laplace"] | None = None) -> BudgetValue:
    """A budget parameter, from a plan or not, that supports this noise; ``what`` begins the sentence of an error."""
    try:
        budget = as_value(value, what)
    except BudgetError as error:
        if what in error.message:
            raise
        raise BudgetError(f"{what}: {error.message}", fix=error.fix, **error.fields) from None
    if noise is not None:
        check_supports(budget, noise == "laplace", what, f"{noise.capitalize()} noise")
    return budget


def check_supports(budget: BudgetValue, pure: bool, what: str, use: str) -> None:
    """Refuse a pure budget for a concentrated ``use``, and a concentrated one for a pure use."""
    if budget.pure != pure:
        raise BudgetError(f"{what} does not support {use}.", fix=f"Use {SUPPORTED_BY[pure]}.")


def check_all_support(budget: BudgetValue, budgets: Mapping[str, BudgetValue], pure: bool, use: str) -> None:
    """Refuse the parameters ``budget`` and ``budgets`` of a mechanism if one of them does not support this use."""
    check_supports(budget, pure, "'budget'", use)
    for name, value in budgets.items():
        check_supports(value, pure, f"The budget of {name!r}", use)


def listing(value: Any, declared: Parameter) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise declared.wrong()
    return checks.members(value, f"{declared.name!r}", declared.fix, error=MechanismError)


def _names(value: Any, declared: Parameter) -> tuple[str, ...]:
    return checks.names(listing(value, declared), f"{declared.name!r}", declared.fix, MechanismError)


def _of(unit: str) -> str:
    return f" of {unit}" if unit else ""


def _bounds(low: float, high: float | None) -> str:
    return f"of at least {_written(low)}" if high is None else f"from {_written(low)} to {_written(high)}"


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,g}"


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
