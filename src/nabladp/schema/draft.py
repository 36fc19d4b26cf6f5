"""A first schema for a table: names and kinds, with every domain left for a person to fill in."""

from __future__ import annotations

from collections.abc import Iterable

from nabladp.schema.files import attribute_toml
from nabladp.schema.rules import MARKER

_HEADER = f"""\
# Draft of a schema. Names and kinds come from the table; the domains must come from you.
#
# Why: a domain read off the data would leak. The largest income in a table is somebody's income, and a rare
# value that is listed says that somebody has it. So declare each domain from public knowledge: a code book, a
# questionnaire, the law. Replace every mark "{MARKER} …"; the schema is refused while one is left.
#
# kind      categorical: values = ["a", "b"]     ordered: values, lowest first     boolean: nothing
#           integer: low, high (both inside)     real: edges = [0.0, 10.0, 20.0] (bins [0, 10), [10, 20])
# null      "refuse" (default), or "category": an empty field is a category of its own, and so is what
#           null_values = ["?"] lists
# unknown   "refuse" (default), or "other": a value outside the domain is a category of its own,
#           or "clamp" (integer, real): it goes to the nearest end of the domain
# also      derived_from = ["age"] for a column computed from others; public = true promises nothing for it
# Remove the block of a column that is not to be used.
"""

_DOMAINS: dict[str, dict[str, object]] = {
    "integer": {"kind": "integer", "low": f"{MARKER}: smallest", "high": f"{MARKER}: largest"},
    "real": {"kind": "real", "edges": [f"{MARKER}: increasing bin edges"]},
    "boolean": {"kind": "boolean"},
    "date": {"kind": "ordered", "values": [f"{MARKER}: every date, as 2026-01-31, earliest first"]},
    "text": {"kind": "categorical", "values": [f"{MARKER}: every value"]},
}


def draft(columns: Iterable[tuple[str, str]]) -> str:
    """TOML text for columns given as (name, ``integer`` | ``real`` | ``boolean`` | ``date`` | ``text``)."""
    blocks = [attribute_toml({"name": name, **_DOMAINS.get(word, _DOMAINS["text"])}) for name, word in columns]
    return "\n".join([_HEADER, *blocks])
