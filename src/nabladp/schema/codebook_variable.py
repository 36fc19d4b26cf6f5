"""A variable of a code book: what public documentation says of one column, and how its codes, labels and ranges are
read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NUMBER = re.compile(r"[-+]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_NOT_APPLICABLE = re.compile(r"\s*(n\s*/\s*a\b|n\.a\.|not applicable|inapplicable|not in universe|niu\b|skipped)", re.I)
_MISSING = re.compile(
    r"\s*(missing|refus|don.?t know|do not know|unknown|not (known|stated|ascertained|available|asked|reported)|"
    r"no (answer|response)|blank|valid skip|not determined)",
    re.I,
)
MOST_VARIABLES = 100_000


@dataclass(frozen=True)
class Variable:
    """What a code book says of one column. ``values`` are codes with their labels, "" where they have none;
    ``observed``: these or the bounds come from the table rather than from a questionnaire."""

    name: str
    title: str = ""
    description: str = ""
    unit: str = ""
    kind: str = ""  # "integer", "real", "boolean", "date" or "text", where the book says so
    values: Mapping[str, str] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    ends: tuple[str, str] | tuple[()] = ()  # of dates, the first and the last day
    missing: tuple[str, ...] = ()  # codes that mean "missing"
    ordered: bool = False
    observed: bool = False


def is_not_applicable(label: str) -> bool:
    """Whether the label of a code says that the question was not asked: such a code is no value of any scale."""
    return _NOT_APPLICABLE.match(label) is not None


def is_missing_label(label: str) -> bool:
    return is_not_applicable(label) or _MISSING.match(label) is not None


def code_text(value: Any) -> str:
    """A code as text: 1 and 1.0 of a JSON file are "1"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value).strip()


def number_of(value: Any) -> float | None:
    """A bound as a number, or None where it is none."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip().replace(",", "") if isinstance(value, str) else repr(value)
    return float(text) if NUMBER.fullmatch(text) else None


_RANGE = re.compile(r"(-?\d{1,20}(?:\.\d{1,20})?)(\s*(?:\.\.\.?|–|-|\bto\b)\s*)(-?\d{1,20}(?:\.\d{1,20})?)", re.ASCII)


def only_range(codes: Iterable[str]) -> tuple[str, float, float] | None:
    """The one code that is a range such as "0..99" or "1 - 20", with its ends; None where there is none, or several,
    which are then bands of their own. Identifiers such as "01-01301" are no ranges."""
    found = [(code, match) for code in codes if (match := _RANGE.fullmatch(code.strip().replace(",", "")))]
    if len(found) != 1:
        return None
    code, match = found[0]
    low, high = float(match.group(1)), float(match.group(3))
    padded = any(re.match(r"-?0\d", end) for end in match.group(1, 3)) and ".." not in match.group(2)
    return None if padded or low >= high else (code, low, high)
