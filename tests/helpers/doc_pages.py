"""Reading the pages of docs/ and running what writes parts of them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    notes: dict[str, str] = field(default_factory=dict)


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, each with the comments that stand right before it."""
    notes: dict[str, str] = {}
    language: str | None = None
    held: list[str] = []
    start = 0
    for number, line in enumerate(page.splitlines(), 1):
        if language is not None:
            if line.strip() == "```":
                yield Block(language, "\n".join(held) + "\n", start, notes)
                language, notes = None, {}
            else:
                held.append(line)
        elif fence := re.fullmatch(r"\s*```(.*)", line):
            language, held, start = fence[1].strip(), [], number
        elif note := re.fullmatch(r"<!-- (file|exit|files): (.+) -->", line):
            notes = notes | {note[1]: note[2]}
        elif line.strip():
            notes = {}
    if language is not None:
        raise ValueError(f"the fence of line {start} does not end")


def printed(block: Block) -> list[str]:
    """What a snippet says that it prints: its comments ``# > …``."""
    return re.findall(r"#\s*> (.*)", block.text)


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def script(name: str) -> ModuleType:
    """A module of docs/, by its name."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
