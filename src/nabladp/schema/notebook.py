"""How a schema looks in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nabladp.fragments import fragment, heading, table

if TYPE_CHECKING:
    from nabladp.schema.attribute import Attribute
    from nabladp.schema.schema import Schema

_SHOWN = 6  # values of an attribute


def schema_html(schema: Schema) -> str:
    rows = [[a.name, a.kind, _values(a), _standing(a), a.note, f"{a.size:,}"] for a in schema]
    return fragment(
        heading("Schema", f"{len(schema)} attributes, fingerprint {schema.fingerprint()[:16]}…"),
        table(["attribute", "kind", "values", "standing", "note", "how many"], rows, texts=5),
    )


def _values(attribute: Attribute) -> str:
    """The first few labels, and the last; ranges are not listed in full."""
    if attribute.size <= _SHOWN:
        return ", ".join(attribute.label(code) for code in range(attribute.size))
    first = ", ".join(attribute.label(code) for code in range(_SHOWN - 2))
    return f"{first}, … {attribute.label(attribute.size - 1)}"


def _standing(attribute: Attribute) -> str:
    if attribute.derived_from:
        return f"derived from {', '.join(attribute.derived_from)}"
    return "public" if attribute.public else "protected"
