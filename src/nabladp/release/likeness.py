"""Columns that look like one secret: limits on each of them would not limit what they tell together.

A hint for a person, from names and declarations alone; it decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from nabladp.schema import Attribute, Schema

_SHORTEST = 4  # letters that names must share
_GENERAL = re.compile(
    "code|date|detail|detailed|flag|group|household|label|level|name|number|person|recode|status|total|type|value|year"
)
_MOST = 60


@dataclass(frozen=True)
class Alike:
    """Some columns that may be one secret, and why."""

    columns: tuple[str, ...]
    why: str


def alike_columns(schema: Schema) -> list[Alike]:
    """Sets of columns that look like one secret, the clearest first."""
    found = [*_common_sources(schema), *_prefixes(schema), *_names(schema)]
    kept: dict[frozenset[str], Alike] = {}
    for own in found:
        kept.setdefault(frozenset(own.columns), own)
    return list(kept.values())[:_MOST]


def _common_sources(schema: Schema) -> Iterator[Alike]:
    """Sources of one derived column."""
    for own in schema:
        if len(own.derived_from) > 1:
            yield Alike(tuple(own.derived_from), f"{own.name!r} is derived from all of them.")


def _prefixes(schema: Schema) -> Iterator[Alike]:
    """Columns of codes of which one begins every code of the other, as a division does for a place."""
    for one, other in combinations([own for own in schema if _is_coded(own)], 2):
        short, long = sorted((one, other), key=lambda own: min(len(str(value)) for value in own.values))
        starts = {str(value) for value in short.values}
        ends = {str(value) for value in long.values}
        if starts != ends and all(any(end.startswith(start) for start in starts) for end in ends):
            yield Alike((short.name, long.name), f"The codes of {long.name!r} begin with those of {short.name!r}.")


def _is_coded(attribute: Attribute) -> bool:
    texts = [str(value) for value in attribute.values]
    return (
        len(texts) > 2 and not attribute.derived_from and all(re.fullmatch(r"[0-9]{2,}|[A-Z0-9]{2,}", t) for t in texts)
    )


def _names(schema: Schema) -> Iterator[Alike]:
    """Columns whose names share a long word or beginning."""
    listed: dict[str, list[str]] = {}
    for own in schema:
        if not own.derived_from and not own.public:
            for word in dict.fromkeys(_words(own.name)):
                listed.setdefault(word, []).append(own.name)
    for word, columns in listed.items():
        if 1 < len(columns) <= 6:
            yield Alike(tuple(columns), f"Their names share {word!r}.")


def _words(name: str) -> Sequence[str]:
    """The words of a name that say something, without numbers and plurals."""
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    words = [part[:-1] if part.endswith("s") and len(part) > _SHORTEST else part for part in parts]
    return [word for word in words if len(word) >= _SHORTEST and not _GENERAL.fullmatch(word)]
