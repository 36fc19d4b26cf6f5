"""What may be spent: limits per attribute, per named set of attributes, and per person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from nabladp import checks
from nabladp.errors import BudgetError, UnknownAttribute, quote, suggestion
from nabladp.privacy.universe import Attributes, Universe
from nabladp.privacy.values import BudgetValue, as_value, limit_units

SetName = str | tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """At most ``units`` (of 2⁻⁶⁰, rounded down) for an adversary interested in exactly these source attributes."""

    name: str
    attributes: frozenset[str]
    value: BudgetValue
    pure: bool
    units: int

    @classmethod
    def of(cls, name: str, attributes: Iterable[str], value: BudgetValue) -> Limit:
        checks.expect(name, str, "The name of a limit", "Give it as text.")
        typed = as_value(value, f"The limit {quote(name)}")
        units = limit_units(typed)
        if units < 1:
            raise BudgetError(
                f"The limit {quote(name)} is too small to be counted.", fix="Leave out what must not be released."
            )
        return cls(name, frozenset(checks.names(attributes)), typed, typed.pure, units)

    @property
    def measure(self) -> str:
        return "pure ε" if self.pure else "ρ"

    def to_json(self) -> dict[str, Any]:
        """A limit as JSON, with its units, so that a stored limit stays what it was even if a conversion improves one
        day."""
        value = self.value.to_json()
        return {"name": self.name, "attributes": sorted(self.attributes), "value": value, "units": str(self.units)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limit:
        fix = "Do not edit stored limits."
        body = checks.mapping(data, "A stored limit", fix)
        value, units = as_value(body.get("value"), "A stored limit"), body.get("units")
        name = checks.expect(body.get("name"), str, "The name of a stored limit", fix)
        attributes = frozenset(checks.names(body.get("attributes"), "The attributes of a stored limit", fix))
        return cls(name, attributes, value, value.pure, _read_units(units))


@dataclass(frozen=True)
class Budget:
    """``Budget(per_attribute=CDP(0.5), attributes={"diagnosis": CDP(0.2)}, sets={"race+ethnicity": Rho(0.05)})``.

    ``per_attribute`` holds for every protected attribute that ``attributes`` does not name; ``sets`` are keyed by
    "a+b" or ("a", "b"); ``person`` is the set of all protected attributes. Every limit is enforced on its own.
    """

    per_attribute: BudgetValue | None = None
    attributes: Mapping[str, BudgetValue] = field(default_factory=dict)
    sets: Mapping[SetName, BudgetValue] = field(default_factory=dict)
    person: BudgetValue | None = None

    def __post_init__(self) -> None:
        for name in ("per_attribute", "person"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else as_value(value, repr(name)))
        object.__setattr__(self, "attributes", _values(self.attributes, "attributes"))
        checks.names(self.attributes, "'attributes' of a budget", "Name each attribute by a text.")
        object.__setattr__(self, "sets", {_set_name(k): v for k, v in _values(self.sets, "sets").items()})
        _check_spelled_once(self.sets)
        if self.per_attribute is None and self.person is None and not self.attributes and not self.sets:
            raise BudgetError(
                "A budget needs at least one limit.",
                fix="Give per_attribute, attributes, sets or person, e.g. CDP(0.5).",
            )

    def limits(self, attributes: Attributes) -> tuple[Limit, ...]:
        """The budget's limits for these attributes; two that come out over the same set are both kept."""
        universe = Universe.of(attributes)
        named = [
            Limit.of(name, _protected_sources(universe, [name], name), value) for name, value in self.attributes.items()
        ]
        if self.per_attribute is not None:
            rest = [name for name in universe.protected if name not in self.attributes]
            named = [*(Limit.of(name, [name], self.per_attribute) for name in rest), *named]
        for key, value in self.sets.items():
            name = key if isinstance(key, str) else "+".join(key)
            named.append(Limit.of(name, _protected_sources(universe, members(universe, key), name), value))
        if self.person is not None and universe.protected:
            named.append(Limit.of("person", universe.protected, self.person))
        if not named:
            raise BudgetError(
                "The budget limits nothing: every attribute is public.", fix="Declare the attributes to protect."
            )
        return tuple(named)

    def to_json(self) -> dict[str, Any]:
        """The budget in its plan-file form; what is not limited is left out."""
        names = {key if isinstance(key, str) else "+".join(key): value for key, value in self.sets.items()}
        data = {
            "per_attribute": self.per_attribute and self.per_attribute.to_json(),
            "attributes": {name: value.to_json() for name, value in self.attributes.items()},
            "sets": {name: value.to_json() for name, value in names.items()},
            "person": self.person and self.person.to_json(),
        }
        return {name: value for name, value in data.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Budget:
        known = [f.name for f in fields(cls)]
        if not isinstance(data, Mapping):
            raise BudgetError("A budget must be a table of limits.", fix=f"Known entries: {', '.join(known)}.")
        for name in data:
            if name not in known:
                fix = suggestion(name, known, f"Known entries: {', '.join(known)}.")
                raise BudgetError(f"A budget has no entry {quote(name)}.", fix=fix)
        return cls(**data)

    def __hash__(self) -> int:
        parts = tuple(self.attributes.items()), tuple(self.sets.items())
        return hash((self.per_attribute, frozenset(parts[0]), frozenset(parts[1]), self.person))


def _values(given: Any, what: str) -> dict[Any, BudgetValue]:
    if not isinstance(given, Mapping):
        raise BudgetError(f"{what} must map names to budget values.", fix=f"Write {what} = {{'age': CDP(0.5)}}.")
    return {name: as_value(value, f"{what}[{_quote_key(name)}]") for name, value in given.items()}


def _quote_key(name: Any) -> str:
    return "+".join(map(quote, name)) if isinstance(name, tuple) else quote(name)


def _read_units(text: Any) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,4000}", text):
        raise BudgetError("The units of a stored limit must be a decimal string.", fix="Do not edit stored limits.")
    return int(text)


def _set_name(key: Any) -> SetName:
    if isinstance(key, str) and key.strip(" +"):
        return key
    if isinstance(key, (tuple, frozenset)) and key and all(isinstance(name, str) for name in key):
        return tuple(sorted(key) if isinstance(key, frozenset) else key)
    raise BudgetError(
        "A set of attributes is named by its members.", fix='Write "race+ethnicity" or ("race", "ethnicity").'
    )


def _check_spelled_once(sets: Iterable[SetName]) -> None:
    """Refuse a budget whose sets hold one set twice: as text and tuple it would be one in the plan file, and a limit be
    lost."""
    seen: set[str] = set()
    for text in (key if isinstance(key, str) else "+".join(key) for key in sets):
        if text in seen:
            raise BudgetError(f"The set {quote(text)} is limited twice.", fix="Keep one of the two limits.")
        seen.add(text)


def members(universe: Universe, key: SetName) -> tuple[str, ...]:
    """The attribute names in the key of a budget's set. An attribute may itself hold a '+': the whole string is tried
    first."""
    known = {*universe.roots, *universe.derived}
    text = key if isinstance(key, str) else "+".join(key)
    read = (text,) if text in known else tuple(part.strip() for part in text.split("+"))
    if not isinstance(key, str) and read != key:  # the plan-file form would mean something else
        raise BudgetError(
            f"The set {text!r} can be read in two ways, because an attribute's name holds a '+'.",
            fix="Rename that attribute without '+'.",
        )
    several = [part.strip() for part in re.split("[,;+]", text)]
    if not known.issuperset(read) and ("," in text or ";" in text):
        raise BudgetError(
            f"The set {quote(text)} does not join its attributes by '+'.", fix=f'Write "{"+".join(several)}".'
        )
    return read


def _protected_sources(universe: Universe, names: Iterable[str], limit: str) -> frozenset[str]:
    try:
        sources = universe.sources(names)
    except UnknownAttribute as error:
        error.fields["limit"] = limit
        raise
    public = sorted(sources & universe.public)
    if public:
        raise BudgetError(
            f"The limit {limit!r} names the public attribute {public[0]!r}, for which nothing is promised.",
            fix="Leave it out of the budget, or declare it protected in the schema.",
            limit=limit,
            attribute=public[0],
        )
    return sources
