"""Editing schema.toml and plan.toml: what is not edited stays as it is, to the letter, comments included.

A file is cut into its sections. One section is edited by tomlkit, and the others are never touched. An edited file is
read by the very loaders that the command line uses, before it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Table

from nabladp.checks import parse_toml
from nabladp.errors import NablaDPError, PlanError, SchemaError
from nabladp.schema import Attribute, Schema
from nabladp.schema.files import entries, parse
from nabladp.schema.levels import expand_levels
from nabladp.schema.patterns import expand_blocks
from nabladp.schema.rules import CONFIRM, MARKER, block_name, marked_blocks
from nabladp.schema.schema import MOST_ATTRIBUTES

_HEADER = re.compile(r"[ \t]*\[(\[?)[ \t]*([A-Za-z0-9_-]+)[ \t]*(\.?)[^\]]*\]\]?[ \t]*(#.*)?$")
_WIDEST = 100  # characters of a table in one line


class DocumentError(NablaDPError, ValueError):
    """A file that cannot be edited here, such as one that is not TOML."""


# ---- a file and its sections -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A section of a file: ``[name]`` or one of several ``[[name]]``, with the comments above and below its lines."""

    name: str
    lead: str
    core: str
    trail: str = ""

    @property
    def text(self) -> str:
        return self.lead + self.core + self.trail

    def facts(self) -> dict[str, Any]:
        """What the section says, as plain data."""
        found = tomlkit.parse(self.core).unwrap()[self.name]
        return dict(found[0] if isinstance(found, list) else found)

    def edited(self, facts: Mapping[str, Any]) -> Section:
        """The section with other entries; None removes one."""
        document = tomlkit.parse(self.core)
        table: Any = document[self.name]
        table = table[0] if isinstance(table, list) else table
        for key, value in facts.items():
            _put(table, key, value)
        return replace(self, core=tomlkit.dumps(document))


def _put(table: Table | InlineTable, key: str, value: Any) -> None:
    if value is None:
        table.pop(key, None)
        return
    known: Any = table.get(key)
    if known is not None and _plain(known) == value:
        return
    if isinstance(value, Mapping) and isinstance(known, (Table, InlineTable)):  # its own comments stay, too
        for own in [own for own in known if own not in value]:
            known.pop(own)
        for own, part in value.items():
            _put(known, own, part)
    else:
        table[key] = _item(value)


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _item(value: Any) -> Any:
    """A value for a TOML file: mappings in one line, or below the section where that would be too long."""
    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        inline.update({key: _item(own) for key, own in value.items()})
        if len(inline.as_string()) <= _WIDEST or any(isinstance(own, Mapping) for own in value.values()):
            return inline
        table = tomlkit.table()
        table.update({key: _item(own) for key, own in value.items()})
        return table
    if isinstance(value, (list, tuple)):
        array = tomlkit.array()
        array.extend([_item(own) for own in value])
        return array
    return value


class Document:
    """The text of a TOML file, cut into sections."""

    def __init__(self, text: str, what: str = "The file") -> None:
        data = parse_toml(text, what, DocumentError)
        self.head, self.sections = _split_sections(text)
        try:
            again = _merge_sections(self.sections) | (tomlkit.parse(self.head).unwrap() if self.head.strip() else {})
        except (TOMLKitError, KeyError, IndexError, TypeError):
            again = {}
        if again != data:
            raise DocumentError(
                f"{what} is laid out in a way that cannot be edited here.",
                fix="Edit it by hand: one [section] header a line, and nothing of a section above its header.",
            )

    def text(self) -> str:
        return self.head + "".join(section.text for section in self.sections)

    def numbers(self, name: str) -> list[int]:
        """Where the sections of a name stand."""
        return [number for number, section in enumerate(self.sections) if section.name == name]

    def facts(self, name: str) -> list[dict[str, Any]]:
        """What the sections of a name say, in their order."""
        return [self.sections[number].facts() for number in self.numbers(name)]

    def edit(self, name: str, facts: Mapping[str, Any], index: int = 0) -> None:
        """Edit entries of a section (None removes one); of ``[name]``, makes it where there is none."""
        numbers = self.numbers(name)
        if not numbers and index == 0:
            self._insert(len(self.sections), Section(name, "", f"[{name}]\n"))
            numbers = self.numbers(name)
        if not 0 <= index < len(numbers):
            raise DocumentError(f"There is no [[{name}]] number {index + 1}.", fix="Open the page again.")
        self.sections[numbers[index]] = self.sections[numbers[index]].edited(facts)

    def add(self, name: str, facts: Mapping[str, Any], after: int | None = None) -> None:
        """Add a ``[[name]]`` section, after the one of this index or after the last."""
        numbers = self.numbers(name)
        last = numbers[-1] if numbers and after is None else len(self.sections) - 1 if after is None else numbers[after]
        self._insert(last + 1, Section(name, "", f"[[{name}]]\n").edited(facts))

    def remove(self, name: str, index: int) -> None:
        """Remove a section with the comments in and right above it; what stands below stays."""
        number = self.numbers(name)[index]
        below = self.sections.pop(number).trail
        if number:
            before = self.sections[number - 1]
            self.sections[number - 1] = replace(before, trail=before.trail.rstrip("\n") + "\n" + below)
        else:
            self.head += below.lstrip("\n")

    def swap(self, name: str, one: int, other: int) -> None:
        """Exchange two ``[[name]]`` sections, each with the comments above and in it."""
        numbers = self.numbers(name)
        first, second = self.sections[numbers[one]], self.sections[numbers[other]]
        self.sections[numbers[one]] = replace(second, trail=first.trail)
        self.sections[numbers[other]] = replace(first, trail=second.trail)

    def _insert(self, number: int, section: Section) -> None:
        if number:
            before = self.sections[number - 1]
            spaced = before.text if before.text.endswith("\n\n") else f"{before.text.rstrip(chr(10))}\n\n"
            self.sections[number - 1] = replace(before, trail=before.trail + spaced[len(before.text) :])
            if len(spaced) < len(before.text):
                self.sections[number - 1] = before
        elif self.head and not self.head.endswith("\n\n"):
            self.head = f"{self.head.rstrip(chr(10))}\n\n"
        more = "\n" if number < len(self.sections) else ""
        self.sections.insert(number, replace(section, trail=section.trail + more))


def _split_sections(text: str) -> tuple[str, list[Section]]:
    lines = text.splitlines(keepends=True)
    starts: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        match = _HEADER.match(line.rstrip("\r\n"))
        if match and not (match.group(3) and starts and starts[-1][1] == match.group(2)):
            starts.append((number, match.group(2)))
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    above, sections = "".join(lines[: starts[0][0]] if starts else lines), []
    head, lead = _split_lead(above)
    for (start, name), end in zip(starts, ends, strict=True):
        body, next_lead = (
            _split_lead("".join(lines[start:end])) if end < len(lines) else ("".join(lines[start:end]), "")
        )
        core, trail = _split_trail(body)
        sections.append(Section(name, lead, core, trail))
        lead = next_lead
    return (head if sections else above), sections


def _split_lead(text: str) -> tuple[str, str]:
    """A text and, apart from it, the comments at its very end, which are about what follows."""
    lines = text.splitlines(keepends=True)
    number = len(lines)
    while number and lines[number - 1].lstrip().startswith("#"):
        number -= 1
    return "".join(lines[:number]), "".join(lines[number:])


def _split_trail(text: str) -> tuple[str, str]:
    """The lines of a section, and apart from them the comments and empty lines below."""
    lines = text.splitlines(keepends=True)
    number = len(lines)
    while number > 1 and (not lines[number - 1].strip() or lines[number - 1].lstrip().startswith("#")):
        number -= 1
    core = "".join(lines[:number])
    return (core if core.endswith("\n") else f"{core}\n"), "".join(lines[number:])


def _merge_sections(sections: Iterable[Section]) -> dict[str, Any]:
    """What all sections say, each read by itself."""
    found: dict[str, Any] = {}
    for section in sections:
        data = tomlkit.parse(section.core).unwrap()
        for name, value in data.items():
            if isinstance(value, list) and isinstance(found.get(name), list):
                found[name] += value
            elif name in found:
                raise KeyError(name)
            else:
                found[name] = value
    return found


# ---- a schema --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Declared:
    """A column in the text of a schema: its entries, and what is left to do for it ("", "fill in" or "confirm")."""

    name: str
    facts: Mapping[str, Any]
    alike: tuple[str, ...]  # the columns that its block declares, if they are several
    to_do: str = ""


class SchemaDocument(Document):
    """The text of a schema. Columns are edited one by one or together, whether a block declares one of them or many."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "The schema")

    def columns(self) -> list[Declared]:
        """Every column of the schema, in its order."""
        found = []
        for facts in self.facts("attribute"):
            names = _names_of(facts)
            to_do = "fill in" if marked_blocks([facts]) else "confirm" if CONFIRM in facts else ""
            alike = tuple(names) if len(names) > 1 else ()
            rest = {key: value for key, value in facts.items() if key not in ("name", "names")}
            found += [Declared(name, {"name": name, **rest}, alike, to_do) for name in names]
        return found

    def declare(self, names: Sequence[str], facts: Mapping[str, Any]) -> None:
        """Edit entries of some columns (None removes one); columns that the schema lacks are added to it."""
        for index in reversed(range(len(self.numbers("attribute")))):
            own = self.facts("attribute")[index]
            known = _names_of(own)
            chosen = [name for name in known if name in names]
            if not chosen:
                continue
            if len(chosen) < len(known):
                rest = [name for name in known if name not in names]
                self.edit("attribute", _naming(rest), index)
                kept = {key: value for key, value in own.items() if key not in ("name", "names")}
                self.add("attribute", {**_naming(chosen, new=True), **kept}, index)
                index += 1
            self.edit("attribute", facts, index)
        known = [name for own in self.facts("attribute") for name in _names_of(own)]
        for name in names:
            if name not in known:
                given = {key: value for key, value in facts.items() if value is not None}
                self.add("attribute", {"name": name, **given})

    def drop(self, names: Sequence[str]) -> None:
        """Remove columns from the schema: they are not used."""
        for index in reversed(range(len(self.numbers("attribute")))):
            known = _names_of(self.facts("attribute")[index])
            rest = [name for name in known if name not in names]
            if not rest:
                self.remove("attribute", index)
            elif len(rest) < len(known):
                self.edit("attribute", _naming(rest), index)

    def check(self, names: Sequence[str] = ()) -> None:
        """Refuse what the loader of schemas refuses. Columns that are still to be filled in wait, and with them those
        derived from them; so do those to be confirmed, but for the ones named here."""
        blocks = entries(parse(self.text()))
        for block in blocks:
            plain = {key: value for key, value in block.items() if key != CONFIRM}
            if set(_names_of(block)) & set(names) and not marked_blocks([plain]):
                for one in expand_levels(expand_blocks([plain], MOST_ATTRIBUTES), Attribute.from_json):
                    Attribute.from_json(one)
        ready = [block for block in blocks if CONFIRM not in block and not marked_blocks([block])]
        if len(ready) == len(blocks):
            Schema.parse(self.text())
            return
        waiting = {name for block in blocks if block not in ready for name in _names_of(block)}
        while more := [block for block in ready if set(block.get("derived_from", ())) & waiting]:
            waiting |= {name for block in more for name in _names_of(block)}
            ready = [block for block in ready if block not in more]
        if ready:
            Schema.from_json({"attribute": ready})

    def is_finished(self) -> bool:
        return all(not column.to_do for column in self.columns())


def _names_of(block: Mapping[str, Any]) -> list[str]:
    if "names" not in block:
        return [block_name(block)]
    return [str(one["name"]) for one in expand_blocks([{"names": block["names"]}], MOST_ATTRIBUTES)]


def _naming(names: Sequence[str], new: bool = False) -> dict[str, Any]:
    """The entry that names a block's columns; in place of the other one in a block that is not new."""
    if len(names) == 1:
        return {"name": names[0]} | ({} if new else {"names": None})
    return {"names": list(names)} | ({} if new else {"name": None})


def is_marked(value: Any) -> bool:
    """Whether an entry of a draft is still to be filled in."""
    listed = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(part, str) and part.startswith(MARKER) for part in listed)


# ---- a plan ----------------------------------------------------------------------------------------------------------


class PlanDocument(Document):
    """The text of a plan."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "The plan")

    def check(self, folder: Path, schema: str | None) -> None:
        """Refuse what the loader of plans refuses. While the schema is not finished, a plan cannot be read as a
        whole."""
        from nabladp.release import Plan

        try:
            if schema is None:
                raise SchemaError("There is no schema.", fix="Choose a table first.")
            Schema.parse(schema)
        except SchemaError:
            return
        Plan.of(parse_toml(self.text(), "The plan", PlanError), folder)
