"""Schema files: TOML with one ``[[attribute]]`` per column."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nabladp.errors import SchemaError, SourceError
from nabladp.schema.rules import nearest

_SHAPE = "A schema is a list of [[attribute]] blocks, each with a name and a kind."


def parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"The schema is not valid TOML: {error}.", fix="Correct that line.") from None


def entries(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attribute blocks of a parsed file."""
    for key in data:
        if key != "attribute":
            raise SchemaError(f"A schema has no key {key!r}.", fix=nearest(key, ("attribute",)), key=key)
    blocks = data.get("attribute", [])
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise SchemaError("'attribute' must be a list of blocks.", fix=f"Write [[attribute]]. {_SHAPE}")
    return blocks


def attribute_toml(entry: Mapping[str, Any]) -> str:
    return "[[attribute]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entry.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, str):  # a JSON string is a TOML string, except that TOML also escapes DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def read(path: str | Path) -> str:
    shown = str(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        fix = "Check the path, or draft a schema with `nabladp init`."
        raise SourceError(f"There is no schema file {shown!r}.", fix=fix, path=shown) from None
    except UnicodeDecodeError:
        raise SchemaError(f"The schema {shown!r} is not UTF-8 text.", fix="Save it as UTF-8.", path=shown) from None
    except OSError as error:
        reason = error.strerror or "unreadable"
        fix = "Give the path of a readable TOML file."
        raise SourceError(f"The schema {shown!r} cannot be read: {reason}.", fix=fix, path=shown) from None


def write(path: str | Path, text: str) -> None:
    """All or nothing: a file that exists is replaced only by a complete one."""
    shown, target = str(path), Path(path)
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
        raise SourceError(f"The schema {shown!r} cannot be written: {reason}.", fix=fix, path=shown) from None
