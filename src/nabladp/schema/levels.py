"""Dates, and coarser levels of one column: the month of a date, the state in front of a census tract.

A level is computed from the codes of its source, by this module alone and never from a second column of the table. So
it is a function of its source whatever the rows hold, on every engine, and what is released of it is charged to the
source.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.checks import is_whole
from nabladp.errors import quote
from nabladp.schema.rules import MARKER, MOST_BINS, Declaration, nearest, refusal

PERIODS = ("day", "month", "quarter", "year")  # finest first
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_TEXT = re.compile(r"([0-9]{4})(?:-(?:Q([1-4])|([0-9]{2})(?:-([0-9]{2}))?))?", re.ASCII)
_EXAMPLE = {
    "day": "Write low = 2020-01-01, high = 2024-12-31.",
    "month": 'Write low = "2020-01", high = "2024-12".',
    "quarter": 'Write low = "2020-Q1", high = "2024-Q4".',
    "year": "Write low = 2020, high = 2024.",
}
_PREFIX = "Write prefix = 2, the number of characters that are kept."


# ---- days, months, quarters and years as numbers ---------------------------------------------------------------------


def periods_of(days: NDArray[np.int64], period: str) -> NDArray[np.int64]:
    """The period in which each day lies, days and periods counted from 1970."""
    if period == "day":
        return days
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) // _MONTHS[period]


def period_text(number: int, period: str) -> str | int:
    """A period as the schema writes it: 2026-01-31, 2026-01, 2026-Q1, or the number 2026."""
    if period == "day":
        return dt.date.fromordinal(number + _EPOCH).isoformat()
    if period == "year":
        return 1970 + number
    year, part = divmod(number, 12 if period == "month" else 4)
    return f"{1970 + year:04}-{part + 1:02}" if period == "month" else f"{1970 + year:04}-Q{part + 1}"


_EPOCH = dt.date(1970, 1, 1).toordinal()


def period_number(given: Any, period: str) -> int | None:
    """The period that a date, or a text of at least this precision, lies in; None where it is no such thing."""
    if isinstance(given, dt.datetime):
        given = given.date()
    found = _TEXT.fullmatch(given.isoformat() if isinstance(given, dt.date) else str(given))
    if found is None or isinstance(given, bool | float):
        return None
    year, quarter, month, day = (None if part is None else int(part) for part in found.groups())
    precision = "day" if day else "month" if month else "quarter" if quarter else "year"
    if PERIODS.index(precision) > PERIODS.index(period):
        return None
    try:
        date = dt.date(year or 0, month or (3 * quarter - 2 if quarter else 1), day or 1)
    except ValueError:
        return None
    return int(periods_of(np.array([date.toordinal() - _EPOCH]), period)[0])


# ---- what an attribute must satisfy ----------------------------------------------------------------------------------


def check_level(attribute: Declaration) -> dict[str, Any]:
    """Check an attribute's dates and level; return the fields in their normal form: dates are listed as values."""
    name, kind = attribute.name, attribute.kind
    normal: dict[str, Any] = {}
    if isinstance(kind, str) and kind == "date":
        normal = _dates(attribute)
    elif not (isinstance(attribute.level, str) and attribute.level == ""):
        raise refusal(name, "only kind 'date' takes 'level'", "Write kind = \"date\", or remove 'level'.")
    if attribute.prefix is not None:
        if kind not in ("categorical", "ordered"):
            raise refusal(name, "only kinds 'categorical' and 'ordered' take 'prefix'", "Remove 'prefix'.")
        if not is_whole(attribute.prefix, 1):
            raise refusal(name, "'prefix' must be a whole number from 1", _PREFIX)
        long = [own for own in _sequence(attribute.values) if not isinstance(own, str) or len(own) > attribute.prefix]
        if long:
            rule = f"the value {quote(long[0])} is not a text of at most {attribute.prefix} characters, its 'prefix'"
            raise refusal(name, rule, "Put quotes around codes, and cut each value to its prefix.")
    computed = attribute.prefix is not None or normal.get("level")
    if computed and len(_sequence(attribute.derived_from)) > 1:
        rule = "a level is computed from one attribute, and 'derived_from' names several"
        raise refusal(name, rule, "Name the one that it is a level of.")
    if computed and attribute.formula:
        raise refusal(name, "it has both a level and a 'formula'", "Remove one of them.")
    return normal


def _dates(attribute: Declaration) -> dict[str, Any]:
    name, level = attribute.name, attribute.level or "day"
    if level not in PERIODS:
        raise refusal(name, f"there is no level {quote(level)}", nearest(level, PERIODS))
    values = _sequence(attribute.values)
    ends = (values[0], values[-1]) if values else (attribute.low, attribute.high)
    for key, end in zip(("low", "high"), ends, strict=True):
        if end is None:
            raise refusal(name, f"kind 'date' needs {key!r}", _EXAMPLE[level])
        if period_number(end, level) is None:
            raise refusal(name, f"{key!r} is not a {level}: {quote(end)}", _EXAMPLE[level])
    first, last = (period_number(end, level) or 0 for end in ends)
    if first > last:
        raise refusal(name, "'low' lies after 'high'", "Exchange them.")
    if last - first >= MOST_BINS:
        rule = f"it has {last - first + 1:,} {level}s; the limit is {MOST_BINS:,}"
        raise refusal(name, rule, 'Write level = "month", or ends that are closer to each other.')
    listed = tuple(period_text(number, level) for number in range(first, last + 1))
    if values and tuple(values) != listed:
        raise refusal(name, "kind 'date' takes 'low' and 'high', no list of 'values'", _EXAMPLE[level])
    return {"values": listed, "low": None, "high": None, "level": "" if level == "day" else level}


def _sequence(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else ()


# ---- a level and its source ------------------------------------------------------------------------------------------


def level_of(source: Declaration, name: str, level: str | int) -> dict[str, Any]:
    """The declaration of a coarser level of an attribute: a period of dates, or so many first characters of codes."""
    rules = {"null": source.null, "unknown": "other" if source.unknown == "other" else "refuse", "other": source.other}
    common = {"name": name, "derived_from": (source.name,), **rules}
    if isinstance(level, str):
        if level not in PERIODS:
            raise refusal(name, f"there is no level {quote(level)}", nearest(level, PERIODS[1:]))
        finer = source.level or "day"
        if source.kind != "date":
            rule = f"its source {quote(source.name)} is not of kind 'date'"
            raise refusal(name, rule, f'Write kind = "date", low and high for {source.name!r}.')
        if PERIODS.index(level) <= PERIODS.index(finer):
            rule = f"level {level!r} is not coarser than that of its source {quote(source.name)}, {finer!r}"
            raise refusal(name, rule, f"Give {source.name!r} a finer level, or leave this one out.")
        ends = np.array([period_number(end, finer) or 0 for end in (source.values[0], source.values[-1])])
        low, high = (period_text(int(number), level) for number in coarser_periods(ends, finer, level))
        return {**common, "kind": "date", "level": level, "low": low, "high": high}
    if not is_whole(level, 1):
        raise refusal(name, "'prefix' must be a whole number from 1", _PREFIX)
    if source.kind not in ("categorical", "ordered") or not isinstance(source.values[0], str):
        rule = f"its source {quote(source.name)} has no codes that are text"
        raise refusal(name, rule, f'Declare {source.name!r} as "categorical" with values in quotes.')
    values = tuple(dict.fromkeys(str(value)[:level] for value in source.values))
    return {**common, "kind": source.kind, "prefix": level, "values": values}


def coarser_periods(numbers: NDArray[np.int64], finer: str, level: str) -> NDArray[np.int64]:
    """The coarser periods in which periods lie."""
    if finer == "day":
        return periods_of(numbers, level)
    return numbers * _MONTHS[finer] // _MONTHS[level]


# ---- levels in schema files ------------------------------------------------------------------------------------------

_LEVELS = 'Write levels = ["month", "year"] for dates, levels = { state = 2, county = 5 } for codes.'


def expand_levels(blocks: Iterator[Mapping[str, Any]], make: Any) -> Iterator[Mapping[str, Any]]:
    """Each block of a schema; after one with ``levels`` a block for each of them, and blocks of levels completed by
    what follows from their source. ``make`` makes an attribute from a block."""
    sources: dict[Any, Any] = {}
    for block in blocks:
        plain = {key: value for key, value in block.items() if key != "levels"}
        own = _complete_level(plain, sources, make)
        yield own
        name = own.get("name")
        if isinstance(name, str):
            sources[name] = own
        if "levels" in block and not _is_open(block):
            for level, given in _named_levels(name, block["levels"]):
                found = {"name": level, **given, "derived_from": [name]}
                sources[level] = _complete_level(found, sources, make)
                yield sources[level]


def _is_open(block: Mapping[str, Any]) -> bool:
    """Whether a block is a draft that will be refused as such."""
    parts = [part for own in block.values() for part in (own if isinstance(own, list) else [own])]
    return any(isinstance(part, str) and part.startswith(MARKER) for part in parts)


def _named_levels(name: Any, levels: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(levels, list) and levels and all(isinstance(level, str) for level in levels):
        for level in levels:
            yield f"{name}_{level}", {"level": level}
    elif isinstance(levels, Mapping) and levels:
        for level, given in levels.items():
            yield level, {"level": given} if isinstance(given, str) else {"prefix": given}
    else:
        raise refusal(name, "'levels' must be a list of periods or a table of names", _LEVELS)


def _complete_level(block: Mapping[str, Any], sources: Mapping[Any, Any], make: Any) -> Mapping[str, Any]:
    """A block with what follows from its source, if it is a level that leaves this out."""
    given = block.get("derived_from")
    level = block.get("level", block.get("prefix"))
    if level in (None, "") or not isinstance(given, list) or len(given) != 1 or given[0] not in sources:
        return block
    if isinstance(level, bool) or not isinstance(level, str | int):
        return block
    made = make(sources[given[0]])
    follows = level_of(made, str(block.get("name", "?")), level)
    return {**{key: value for key, value in follows.items() if key not in _defaults(follows)}, **block}


def _defaults(follows: Mapping[str, Any]) -> list[str]:
    default = {"null": "refuse", "unknown": "refuse", "other": "other"}
    return [key for key, value in default.items() if follows.get(key) == value]
