"""The attributes a guarantee speaks about: source attributes, what is derived from them, and which are public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from nabladp import checks
from nabladp.checks import HasAttributes
from nabladp.errors import GuaranteeError, UnknownAttribute, quote

_ATTRIBUTES = "The attributes of a guarantee"
_FIX = 'Give a Schema, or a list of names such as ["age", "sex"].'


@dataclass(frozen=True)
class Universe:
    roots: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    public: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", checks.names(self.roots, _ATTRIBUTES, _FIX))
        object.__setattr__(self, "derived", _check_derived(self.derived))
        object.__setattr__(self, "public", frozenset(checks.names(self.public, "The public attributes", _FIX)))
        if len(set(self.roots)) != len(self.roots):
            raise GuaranteeError("An attribute is named twice.", fix="Give every attribute one name.")
        for name in (*self.public, *(s for sources in self.derived.values() for s in sources)):
            if name not in self.roots:
                raise UnknownAttribute.with_suggestion(name, self.roots)
        for name, sources in self.derived.items():
            if not sources or name in self.roots:  # a column derived from nothing would cost nothing
                raise GuaranteeError(
                    f"The derived column {name!r} needs a name of its own and at least one source.",
                    fix="Name the attributes that it is computed from.",
                    attribute=name,
                )

    @classmethod
    def of(cls, attributes: Attributes) -> Universe:
        """The universe of attributes from a schema, another universe, or a plain list of names."""
        if isinstance(attributes, Universe):
            return attributes
        if isinstance(attributes, HasAttributes):
            return cls(attributes.roots, attributes.derived, attributes.public)
        return cls(checks.names(attributes, _ATTRIBUTES, _FIX))

    @cached_property
    def position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.roots)}

    @cached_property
    def _root_set(self) -> frozenset[str]:
        return frozenset(self.roots)

    @property
    def protected(self) -> tuple[str, ...]:
        return tuple(name for name in self.roots if name not in self.public)

    def sources(self, names: Iterable[str] | str) -> frozenset[str]:
        """The source attributes behind these names; a derived column is its sources."""
        names = checks.name_or_names(names)
        if self._root_set.issuperset(names):
            return frozenset(names)
        sources: set[str] = set()
        for name in names:
            if name in self.position:
                sources.add(name)
            elif name in self.derived:
                sources.update(self.derived[name])
            else:
                raise UnknownAttribute.with_suggestion(name, (*self.roots, *self.derived))
        return frozenset(sources)

    def __hash__(self) -> int:
        return hash((self.roots, tuple(sorted(self.derived.items())), self.public))

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.roots),
            "derived": {name: list(sources) for name, sources in sorted(self.derived.items())},
            "public": sorted(self.public),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Universe:
        body = checks.mapping(data, "The attributes of a guarantee", "Do not edit stored guarantees.")
        return cls(body.get("attributes", 0), body.get("derived", {}), body.get("public", ()))


Attributes: TypeAlias = HasAttributes | Universe | Iterable[str]


def _check_derived(given: Any) -> dict[str, tuple[str, ...]]:
    derived = checks.mapping(given, "The derived attributes", 'Write {"age_band": ("age",)}.')
    checks.names(derived, "The derived attributes", _FIX)
    return {name: checks.names(sources, f"The sources of {quote(name)}", _FIX) for name, sources in derived.items()}
