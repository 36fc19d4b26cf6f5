"""A schema: the attributes of a table, which are derived from which, and which are public."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp import checks
from nabladp.checks import HasAttributes
from nabladp.displayed import Displayed
from nabladp.errors import SchemaError, UnknownAttribute
from nabladp.schema import files
from nabladp.schema.attribute import Attribute
from nabladp.schema.expressions import Rule, checked_rules
from nabladp.schema.formulas import Formula, level_codes
from nabladp.schema.labels import READ_ONLY
from nabladp.schema.levels import expand_levels
from nabladp.schema.patterns import expand_blocks
from nabladp.schema.rules import nearest, refusal, refuse_marks

MOST_ATTRIBUTES = 100_000
_FIX = 'Write Schema([Attribute("age", "integer", low=0, high=99), …]).'


@dataclass(frozen=True)
class Schema(Displayed, HasAttributes):
    """All attributes, in order, and ``rules`` between their numbers, such as ``"years_of_work <= age - 14"``.

    Immutable; the same facts always give the same :meth:`fingerprint`. A rule is public knowledge about people, which
    synthetic rows follow; rows of the table that break one are accepted like all others.
    """

    displayed_as = "schema"

    attributes: tuple[Attribute, ...]
    rules: tuple[str, ...] = ()  # inequalities between numbers that no synthetic row breaks

    def __post_init__(self) -> None:
        listed = checks.members(self.attributes, "The attributes of a schema", _FIX, MOST_ATTRIBUTES)
        for attribute in listed:
            checks.expect(attribute, Attribute, "An attribute of a schema", _FIX)
        object.__setattr__(self, "attributes", listed)
        if not self.attributes:
            raise SchemaError("The schema has no attributes.", fix="Add an [[attribute]] for every column to be used.")
        for attribute in self.attributes:
            if self._by_name[attribute.name] is not attribute:
                raise refusal(attribute.name, "two attributes have this name", "Give every attribute one name.")
        self.derived  # noqa: B018  (refuses unknown sources and cycles)
        self.levels  # noqa: B018  (refuses levels that do not fit their sources)
        self.formulas  # noqa: B018  (refuses what contradicts its sources)
        object.__setattr__(self, "rules", checked_rules(self.rules))
        self._check_rules()

    def _check_rules(self) -> None:
        for rule in self.inequalities:
            for name in rule.names:
                if not self[name].is_numeric:  # refuses an unknown name
                    raise SchemaError(
                        f"The rule {rule.text!r} compares {name!r}, which holds no numbers.",
                        fix="Declare combinations of categories as 'zeros' of Synthesis.",
                        attribute=name,
                    )

    # Looking up

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    def __getitem__(self, name: str) -> Attribute:
        if name not in self:
            raise UnknownAttribute.with_suggestion(name, self.names)
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """What people read in place of each name: the title, followed by the name where that alone could be mistaken
        for another attribute."""
        said = [own.title or own.name for own in self]
        return {
            own.name: f"{own.title} ({own.name})" if own.title and said.count(own.title) > 1 else text
            for own, text in zip(self, said, strict=True)
        }

    def title(self, names: Iterable[str]) -> str:
        """Some attributes as the head of a table: their titles, or else their names."""
        return " + ".join(self.titles[self[name].name] for name in names)

    def sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self[name].size for name in checks.names(names))

    def cells(self, names: Iterable[str]) -> int:
        """The exact number of cells of the joint table of these attributes."""
        return math.prod(self.sizes(names))

    # Sources

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The schema's source attributes: those that are not derived from others."""
        return tuple(attribute.name for attribute in self.attributes if not attribute.derived_from)

    @cached_property
    def public(self) -> frozenset[str]:
        """The schema's source attributes for which nothing is promised."""
        return frozenset(attribute.name for attribute in self.attributes if attribute.public)

    @cached_property
    def derived(self) -> Mapping[str, tuple[str, ...]]:
        """Each derived attribute of the schema with the source attributes behind it, through any number of steps."""
        direct = {a.name: a.derived_from for a in self.attributes if a.derived_from}
        for name, sources in direct.items():
            for source in sources:
                if source not in self._by_name:
                    raise refusal(name, f"its source {source!r} is not an attribute", nearest(source, self.names))
        try:
            order = tuple(TopologicalSorter(direct).static_order())
        except CycleError as error:
            cycle = error.args[1]
            rule = "it is derived from itself: " + " from ".join(cycle)
            raise refusal(cycle[0], rule, "Remove one 'derived_from' of this circle.") from None
        behind: dict[str, set[str]] = {}
        for name in order:
            sources = direct.get(name, ())
            behind[name] = set().union(*(behind[source] for source in sources)) if sources else {name}
        position = {root: i for i, root in enumerate(self.roots)}
        return {name: tuple(sorted(behind[name], key=position.__getitem__)) for name in direct}

    @cached_property
    def inequalities(self) -> tuple[Rule, ...]:
        """The schema's rules, one comparison each."""
        return tuple(rule for text in self.rules for rule in Rule.parse(text))

    @cached_property
    def formulas(self) -> Mapping[str, Formula]:
        """The formulas of derived attributes, each after those of its sources."""
        found = {a.name: Formula.of(a, {s: self[s] for s in a.derived_from}) for a in self.attributes if a.formula}
        order = TopologicalSorter({name: formula.sources for name, formula in found.items()}).static_order()
        return {name: found[name] for name in order if name in found}

    @cached_property
    def levels(self) -> Mapping[str, tuple[str, NDArray[np.int64]]]:
        """Each level of the schema with the column that it is computed from, and its code for each code of that."""
        known: dict[str, tuple[str, NDArray[np.int64]]] = {}

        def find(level: Attribute) -> tuple[str, NDArray[np.int64]]:
            if level.name not in known:
                source = self[level.derived_from[0]]
                codes = level_codes(source, level)
                column, finer = find(source) if source.is_computed else (source.name, np.arange(source.size))
                known[level.name] = (column, codes[finer])
            return known[level.name]

        return {attribute.name: find(attribute) for attribute in self.attributes if attribute.is_computed}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The attributes that are read from a table: all but the levels of others."""
        return tuple(attribute.name for attribute in self.attributes if not attribute.is_computed)

    # As text and as files

    def to_json(self) -> dict[str, Any]:
        listed = [attribute.to_json() for attribute in self.attributes]
        return {"rules": list(self.rules), "attribute": listed} if self.rules else {"attribute": listed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        blocks = files.entries(data)
        refuse_marks(blocks)
        expanded = expand_levels(expand_blocks(blocks, MOST_ATTRIBUTES), Attribute.from_json)
        return cls(tuple(map(Attribute.from_json, expanded)), data.get("rules", ()))

    def fingerprint(self) -> str:
        """SHA-256 of everything in the schema but what is for people alone: notes, titles, units, labels."""
        facts: Any = [{k: v for k, v in a.to_json().items() if k not in READ_ONLY} for a in self.attributes]
        if self.rules:
            facts = {"attribute": facts, "rules": list(self.rules)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> Schema:
        """A schema from the text of a TOML file."""
        return cls.from_json(files.parse(text))

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        return cls.parse(files.read(path))

    def to_toml(self) -> str:
        blocks = [files.attribute_toml(attribute.to_json()) for attribute in self.attributes]
        return "\n".join([files.rules_toml(self.rules), *blocks] if self.rules else blocks)

    def save(self, path: str | Path) -> None:
        files.write(path, self.to_toml())
