"""How a mechanism declares its parameters: the values each takes, and one sentence of help.

From these declarations follow the checks of :class:`~nabladp.mechanisms.mechanism.Mechanism`, the form of a plan file,
its errors, and the plan reference. A declaration is the metadata of a dataclass field::

    rounds: int | None = field(default=None, metadata=parameter(Whole(1, 10_000), "How many rounds there are."))

``kinds.py`` beside this file holds the kinds, such as ``Whole``; a mechanism may have kinds of its own.
A parameter whose default is None may be None; any other value must be one that its kind takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Any, Final, Literal

from nabladp import checks
from nabladp.errors import MechanismError, PlanError, quote, suggestion

_KEY = "nabladp.parameter"
_REQUIRED: Final = object()


def parameter(kind: Kind, help: str, *, stored: Literal["always", "changed"] = "always") -> dict[str, Any]:
    """Declare a mechanism's parameter: the metadata of a dataclass field.

    ``stored`` says when a plan file and a record hold the parameter: "always", or only where it is not the default. One
    whose default is None or empty is held only where it is given.
    """
    return {_KEY: (kind, help, stored)}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mechanism, for checks, pages and forms."""

    name: str
    kind: Kind
    help: str
    default: Any  # of a required one, nothing to be used
    required: bool
    stored: Literal["always", "changed"]

    @classmethod
    def of(cls, owner: str, field: Field[Any]) -> Parameter:
        if _KEY not in field.metadata:
            raise MechanismError(
                f"{owner} does not declare its parameter {field.name!r}.",
                fix="Declare it: field(metadata=parameter(kind, help)).",
            )
        kind, help, stored = field.metadata[_KEY]
        default = field.default if field.default_factory is MISSING else field.default_factory()
        required = default is MISSING
        if not required and (default is None or default in ((), {})):
            stored = "changed"
        return cls(field.name, kind, help, _REQUIRED if required else default, required, stored)

    def checked(self, value: Any) -> Any:
        """A parameter's value in its normal form; refuses any other."""
        return None if value is None and self.default is None else self.kind.checked(value, self)

    def wrong(self, detail: str = "") -> MechanismError:
        """The error for a parameter value that the kind does not take."""
        text = f"{self.name!r} must be {self.kind.takes}{detail}."
        return MechanismError(text, fix=self.fix, parameter=self.name)

    @property
    def fix(self) -> str:
        if self.required:
            return f"Write, for instance, {self.name} = {self.kind.example}."
        if isinstance(self.default, (bool, int, float, str)):
            return f"Correct it, or leave it out for the default, {_toml(self.default)}."
        return f"Write, for instance, {self.name} = {self.kind.example}, or leave it out."

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.kind.stored(value)


class Kind(ABC):
    """The values that a parameter takes."""

    @property
    @abstractmethod
    def takes(self) -> str:
        """The values a parameter of this kind takes, in words that follow "must be": "a whole number from 1 to 10"."""

    @property
    @abstractmethod
    def example(self) -> str:
        """A parameter value of this kind as a plan file has it."""

    @abstractmethod
    def checked(self, value: Any, declared: Parameter) -> Any:
        """A parameter value of this kind in its normal form; raises ``declared.wrong()`` for any other."""

    def stored(self, value: Any) -> Any:
        """A checked parameter value as a plan file has it."""
        return value


def _toml(value: bool | float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def plan_options(owner: str, declared: Sequence[Parameter], options: Any) -> Mapping[str, Any]:
    """The options of a ``[[release]]`` as parameters: all of them are declared, and none that is required is
    missing."""
    known = [each.name for each in declared]
    for name in checks.expect(options, Mapping, f"The options of {owner}", "Give them as a table.", PlanError):
        if name not in known:
            fix = suggestion(name, known, f"Options: {', '.join(known)}.")
            raise PlanError(f"{owner} has no option {quote(name)}.", fix=fix)
    for each in declared:
        if each.required and each.name not in options:
            raise PlanError(
                f"{owner} needs a {each.name}.", fix=f"Add, for instance, {each.name} = {each.kind.example}."
            )
    given: Mapping[str, Any] = options
    return given
