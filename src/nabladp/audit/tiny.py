"""A tiny schema on which the same mechanism, with the same parameters, still works.

Names, sources and what is public stay. Attributes that the mechanism reads keep their first two values, one of them
three, as long as there are few records in all; the others keep one value, but for one that keeps two, to see that it
costs nothing. Privacy constants do not depend on how large a domain is, so what is false here is false there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from nabladp.audit.foreign import as_mechanism
from nabladp.audit.pairs import Derive, derived_code
from nabladp.schema import Attribute, Schema

ONLY = "only"


def tiny_schema(
    mechanism: Any, schema: Schema, most: int = 64, *, also: Iterable[str] = (), whole: bool = False
) -> tuple[Schema, Derive]:
    """The schema, of at most about ``most`` records, and a function for each derived column.

    ``also``: attributes to be kept as if they were read. ``whole``: what is read keeps all its values, for a mechanism
    whose parameters speak of each of them, such as a weight for every value.
    """
    mechanism = as_mechanism(mechanism)
    read = {*mechanism.reads(schema), *also}
    sizes = _sizes(mechanism.two_valued(), read, schema, most)
    if whole:
        sizes |= {name: schema[name].size for name in [*_behind(read, schema), *schema.derived] if name in schema}
    small = Schema(tuple(shrunk(attribute, sizes[attribute.name]) for attribute in schema))
    return small, {name: derived_code(small, name) for name in small.derived}


def _behind(names: Iterable[str], schema: Schema) -> set[str]:
    return {root for name in names for root in schema.derived.get(name, (name,))}


def _sizes(labels: Sequence[str], read: Iterable[str], schema: Schema, most: int) -> dict[str, int]:
    behind = _behind(read, schema)
    order = sorted(schema.roots, key=lambda name: (name not in labels, name not in behind))
    idle = [name for name in order if name not in behind and name not in schema.public]
    sizes = dict.fromkeys(schema.roots, 1) | {name: min(2, schema[name].size) for name in schema.derived}
    for name in order:
        grown = min(2, schema[name].size)
        if (name in behind or name in idle[:1]) and math.prod(sizes[r] for r in schema.roots) * grown <= most:
            sizes[name] = grown
    for name in order:
        if name in behind and name not in labels and schema[name].size > 2 and sizes[name] == 2:
            if math.prod(sizes[r] for r in schema.roots) * 3 <= 2 * most:
                sizes[name] = 3
            break
    return sizes


def shrunk(attribute: Attribute, size: int) -> Attribute:
    """The same attribute with its first so many values, and no others."""
    if size >= attribute.size:
        return attribute
    plain = replace(attribute, null="refuse", null_values=(), unknown="refuse")
    if size < 2:
        whole = Attribute(attribute.name, "categorical", values=(ONLY,))
        return replace(whole, derived_from=attribute.derived_from, public=attribute.public)
    if plain.ordered_size <= size:
        return plain
    if plain.kind == "integer" and plain.low is not None:
        return replace(plain, high=plain.low + size - 1)
    if plain.kind == "real":
        decode = plain.decode if isinstance(plain.decode, str) else plain.decode[:size]
        return replace(plain, edges=plain.edges[: size + 1], decode=decode)
    return replace(plain, values=plain.values[:size])
