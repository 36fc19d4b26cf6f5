"""What a curator does before the first release: draft a schema, check a table against it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nabladp.errors import SchemaError, SourceError
from nabladp.schema import Schema, draft
from nabladp.tables import Finding, check_table, column_types, open_table


def draft_schema(source: Any) -> str:
    """Names and kinds only, as TOML; what a person must fill in is marked, and why is said."""
    return draft(column_types(source))


def write_draft(source: Any, path: Path) -> list[str]:
    """Write a draft into a new file; answers with the names of the columns."""
    columns = column_types(source)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(draft(columns))
    except FileExistsError:
        raise SchemaError(f"{path.name!r} exists already.", fix="Move it away or choose another --schema.") from None
    except OSError:
        raise SourceError(f"Cannot write {path.name!r}.", fix="Check that its folder exists and is writable.") from None
    return [name for name, _ in columns]


def looks_like_a_row(names: Iterable[str]) -> bool:
    """Whether a first line may hold somebody's values instead of names: columns are rarely called by a number."""
    return any(re.fullmatch(r"\s*[-+]?[\d.,]+\s*", name) for name in names)


def check_source(source: Any, schema: Schema | str | Path) -> list[Finding]:
    """Every column that breaks a rule of the schema, with the rule and the fix; an empty list when all is well."""
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    table = open_table(source, known)
    findings = list(check_table(table))
    if not findings:
        table.n  # noqa: B018  (refuses a table without rows)
    return findings
