"""Schema files: TOML with one ``[[attribute]]`` per column."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nabladp.checks import as_path, expect, mapping, parse_toml, read_file, refuse_other_file
from nabladp.errors import SchemaError, SourceError, quote, quote_path
from nabladp.schema.rules import nearest

_WIDEST = 100  # characters of a table in one line
_BARE = re.compile(r"[A-Za-z0-9_-]+")  # a key of TOML that needs no quotes
_KEYS = ("attribute", "rules")
_SHAPE = "A schema is a list of [[attribute]] blocks, each with a name and a kind."


def parse(text: str) -> dict[str, Any]:
    return parse_toml(
        expect(text, str, "The text of a schema", "To read a file use Schema.load."), "The schema", SchemaError
    )


def entries(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attribute blocks of a parsed schema file."""
    given = mapping(data, "A schema", f"Give a table with a list 'attribute'. {_SHAPE}")
    if "attribute" not in given and {"table", "release"} & set(given):
        raise SchemaError("This is a plan, not a schema.", fix="Give the schema.toml that the plan names in [table].")
    for key in given:
        if not isinstance(key, str) or key not in _KEYS:
            raise SchemaError(f"A schema has no key {quote(key)}.", fix=nearest(key, _KEYS), key=quote(key))
    blocks = data.get("attribute", [])
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise SchemaError("'attribute' must be a list of blocks.", fix=f"Write [[attribute]]. {_SHAPE}")
    return blocks


def attribute_toml(entry: Mapping[str, Any]) -> str:
    """The block of one attribute. A long table of labels stands below it, one label per line."""
    tables = {
        key: value for key, value in entry.items() if isinstance(value, Mapping) and len(toml_text(value)) > _WIDEST
    }
    lines = [f"{key} = {toml_text(value)}\n" for key, value in entry.items() if key not in tables]
    for key, table in tables.items():
        lines += [f"\n[attribute.{key}]\n", *(f"{_key(own)} = {toml_text(value)}\n" for own, value in table.items())]
    return "[[attribute]]\n" + "".join(lines)


def rules_toml(rules: Sequence[str]) -> str:
    """The schema's rules, which stand above its attributes."""
    return "rules = [\n" + "".join(f"  {toml_text(rule)},\n" for rule in rules) + "]\n"


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else toml_text(text)


def toml_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml_text(own)}" for key, own in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_text(part) for part in value) + "]"
    if isinstance(value, str):  # a JSON string is a TOML string, except that TOML also escapes DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def read(path: str | Path) -> str:
    where = as_path(path, "The schema")
    text, named = str(where), quote_path(where)
    refuse_other_file(where, "schema")
    try:
        return read_file(where, f"The schema {named}").decode("utf-8")
    except FileNotFoundError:
        fix = "Check the path, or draft a schema with `nabladp init`."
        raise SourceError(f"There is no schema file {named}.", fix=fix, path=text) from None
    except UnicodeDecodeError:
        raise SchemaError(f"The schema {named} is not UTF-8 text.", fix="Save it as UTF-8.", path=text) from None
    except SourceError:
        raise
    except OSError as error:
        reason = error.strerror or "unreadable"
        fix = "Give the path of a readable TOML file."
        raise SourceError(f"The schema {named} cannot be read: {reason}.", fix=fix, path=text) from None


def write(path: str | Path, text: str) -> None:
    """Write a schema file, all or nothing: a file that exists is replaced only by a complete one."""
    target = as_path(path, "The schema")
    name = str(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or "no reason given"
        fix = "Choose a folder that can be written to."
        raise SourceError(f"The schema {name!r} cannot be written: {reason}.", fix=fix, path=name) from None
