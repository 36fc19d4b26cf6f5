"""Every error that is raised on purpose says what to do about it; wherever it is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nabladp
from nabladp import errors

HOME = Path(nabladp.__file__).parent
KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}


def built() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(HOME.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                yield f"{path.relative_to(HOME)}:{node.lineno}", node


def test_every_error_has_a_fix() -> None:
    calls = list(built())
    assert len(calls) > 400
    without = [where for where, call in calls if not {"fix", None} & {word.arg for word in call.keywords}]
    assert without == []


def test_what_concerns_the_schema_is_an_attribute_and_what_concerns_a_table_a_column() -> None:
    """So that a program finds the name under one key, whatever was refused."""
    of_tables = {"DataError", "SourceError"}
    mixed = [
        f"{where} {word.arg}"
        for where, call in built()
        for word in call.keywords
        if (word.arg == "attribute" and call.func.id in of_tables)  # type: ignore[attr-defined]
        or (word.arg == "column" and call.func.id not in of_tables)  # type: ignore[attr-defined]
    ]
    assert mixed == []
