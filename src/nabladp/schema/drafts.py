"""A first schema for a table, for a person to finish: kinds from the table, domains from a code book, and marks where
neither decides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from nabladp.errors import SchemaError
from nabladp.schema.attribute import Attribute
from nabladp.schema.codebook import CodeBook
from nabladp.schema.codebook_variable import NUMBER, Variable, is_missing_label, is_not_applicable
from nabladp.schema.files import attribute_toml
from nabladp.schema.labels import MOST_CHARACTERS, clean_words
from nabladp.schema.patterns import as_pattern
from nabladp.schema.rules import CONFIRM, MARKER, WIDEST, marked_blocks, number_label

_HEADER = f"""\
# Draft of a schema. Kinds come from the table{{source}}; {{domains}}
#
# Why: a domain read off the data would leak. The largest income in a table is somebody's income, and a rare
# value that is listed says that somebody has it. So declare each domain from public knowledge: a code book, a
# questionnaire, the law. Replace every mark "{MARKER} …"{{confirm}}; until then the schema is refused.
#
# kind      categorical: values = ["a", "b"]     ordered: values, lowest first     boolean: nothing
#           date: low, high (both inside)
#           integer: low, high (both inside)     real: low, high and bins = 20 (of one width), or
#           edges = [0.0, 10.0, 20.0] (bins [0, 10), [10, 20])
# null      "refuse" (default), or "category": an empty field is a category of its own, and so is what
#           null_values = ["?"] lists
# unknown   "refuse" (default), or "other": a value outside the domain is a category of its own,
#           or "clamp" (integer, real, date): it goes to the nearest end of the domain
# levels    computed from one column and charged to it: levels = ["month", "year"] of dates,
#           levels = {{{{ state = 2, county = 5 }}}} of codes: so many first characters
# also      derived_from = ["age"] for a column computed from others; public = true promises nothing for it
# names     in place of name: one block for columns that are alike, such as names = "q{{{{1..12}}}}"
# Remove the block of a column that is not to be used. One of IDs goes into [person] of the plan instead.
"""

_ENDS = {"low": f"{MARKER}: smallest", "high": f"{MARKER}: largest"}
_DOMAINS: dict[str, dict[str, Any]] = {
    "integer": {"kind": "integer", **_ENDS},
    "real": {"kind": "real", **_ENDS, "bins": 10, "decode": "smooth"},
    "boolean": {"kind": "boolean"},
    "date": {"kind": "date", "low": f"{MARKER}: first day", "high": f"{MARKER}: last day", "levels": ["month", "year"]},
    "text": {"kind": "categorical", "values": [f"{MARKER}: every value"]},
}
_MOST_CELLS = 1000  # of an integer attribute in a draft; a wider range gets bins
_SHORT = 60  # characters of a description that serves as a title
_ALIKE = 3  # columns that are worth a block of their own


_TRUTH = {"1": "true", "yes": "true", "true": "true", "0": "false", "no": "false", "false": "false"}


class Column(NamedTuple):
    """What a table says of one of its columns: a word for its type, whether some values of a column of numbers are none
    (codes that mean "missing"), and whether many of its fields are empty."""

    name: str
    word: str  # integer, real, boolean, date or text
    coded: bool = False
    gaps: bool = False


def draft(columns: Iterable[tuple[str, str] | Column], book: CodeBook | None = None) -> str:
    """The draft of a schema file, as TOML, for columns given as :class:`Column`, or as name and word. What ``book``
    says of them is filled in."""
    blocks = [_block(Column(*column), book) for column in columns]
    confirm = any(CONFIRM in block for block in blocks)
    return "\n".join([_header(book is not None, confirm), *map(attribute_toml, _merge_blocks(blocks))])


def _header(with_book: bool, confirm: bool) -> str:
    facts = {
        "source": " and domains from a code book" if with_book else "",
        "domains": "what is still open must come from you." if with_book else "the domains must come from you.",
        "confirm": f"\n# and remove each line '{CONFIRM}' once you have looked at its domain" if confirm else "",
    }
    return _HEADER.format(**facts)


# ---- one column ------------------------------------------------------------------------------------------------------


def _block(column: Column, book: CodeBook | None) -> dict[str, Any]:
    """The block of a column, with marks where its domain is not known."""
    known = None if book is None else book.get(column.name)
    domain = {} if known is None else _domain(column, known)
    if "kind" not in domain:
        domain = _by_word(column) | domain
    words = {} if known is None else _words(known)
    unlabelled = {key: own for key, own in domain.items() if key != "labels"}
    full, bare, marked = ({"name": column.name, **own, **words} for own in (domain, unlabelled, _by_word(column)))
    return next(filter(_can_be_finished, (full, bare)), marked)


def _can_be_finished(block: Mapping[str, Any]) -> bool:
    """Whether nothing but marks keeps a block from being an attribute. A code book may hold anything."""
    nulls = [own for own in block.get("null_values", ()) if not str(own).startswith(MARKER)]
    finished = {key: own for key, own in block.items() if key not in (CONFIRM, "null_values", "levels")}
    try:
        Attribute.from_json(finished | ({"null_values": nulls} if nulls else {}))
    except SchemaError:
        return marked_blocks([finished]) != [] and "labels" not in block
    return True


def _by_word(column: Column) -> dict[str, Any]:
    """The domain of a column of which no book says anything."""
    return _DOMAINS.get(column.word, _DOMAINS["text"]) | _null(column, ())


def _words(known: Variable) -> dict[str, Any]:
    """The title, unit and description of a variable; a short description is a title."""
    title, description = known.title, known.description
    if not title and len(description) <= _SHORT:
        title, description = description, ""
    given = {"title": title.rstrip("."), "unit": known.unit, "description": description}
    return {key: text for key, own in given.items() if (text := clean_words(own, MOST_CHARACTERS[key]))}


def _domain(column: Column, known: Variable) -> dict[str, Any]:
    """What a code book says of a column's domain: kind, values or bounds, codes for "missing", and their labels."""
    truths = {_TRUTH.get(code.lower(), ""): label for code, label in known.values.items() if code not in known.missing}
    if "" not in truths and (known.kind == "boolean" or known.values.keys() == {"true", "false"}):
        return {"kind": "boolean", **_null(column, known.missing), **_labels(truths, {"true", "false"})}
    if known.low is not None and known.high is not None and known.low < known.high:
        return _numbers(column, known)
    if known.ends and not known.values:
        note = {CONFIRM: "these ends may have been read off the data: give ends that are known publicly"}
        ends = {"kind": "date", "low": known.ends[0], "high": known.ends[1], "levels": ["month", "year"]}
        return {**ends, **_null(column, known.missing), **(note if known.observed else {})}
    return _codes(column, known)


def _codes(column: Column, known: Variable) -> dict[str, Any]:
    """The domain of a variable with a list of codes, as numbers where all are such."""
    listed = {code: label for code, label in known.values.items() if code not in known.missing}
    padded = column.word in ("integer", "real")  # then 007 is the number 7
    numeric = {code for code in listed if _is_plain_number(code, padded)}
    gaps = {code for code, label in listed.items() if is_not_applicable(label)}
    if len(numeric) > len(set(listed) - numeric - gaps):  # "N" beside 1 … 6 is no value but a sign of none
        gaps |= set(listed) - numeric
    missing = {
        code: known.values.get(code, "") for code in (*known.missing, *(code for code in listed if code in gaps))
    }
    values = [code for code in listed if code not in gaps]
    null = _null(column, missing)
    if not values:
        return null
    numbers = all(code in numeric for code in values)
    if numbers:  # of 1 and 01 one is enough
        values = sorted({number_label(_number(code)): code for code in values}.values(), key=_number)
    shown: list[Any] = [_number(code) for code in values] if numbers else values
    domain: dict[str, Any] = {"kind": "ordered" if known.ordered else "categorical", "values": shown, **null}
    if known.observed:
        domain[CONFIRM] = "these values may have been read off the data: keep those that are known publicly"
    texts = [number_label(_number(code)) if numbers else code for code in values]
    named = {text: listed[code] for text, code in zip(texts, values, strict=True)}
    return domain | _labels({**named, **_null_label(missing)}, set(texts))


def _numbers(column: Column, known: Variable) -> dict[str, Any]:
    """The domain of a variable with bounds. Codes beside the range extend it; others further away are for missing
    values, or left open."""
    low, high = float(known.low or 0.0), float(known.high or 0.0)
    missing = {code: known.values.get(code, "") for code in known.missing}
    inside: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    given = sorted(known.values.items(), key=lambda pair: _number(pair[0]) if NUMBER.fullmatch(pair[0]) else math.inf)
    below = [pair for pair in reversed(given) if NUMBER.fullmatch(pair[0]) and _number(pair[0]) < low]
    for code, label in (*below, *(pair for pair in given if pair not in below)):  # from the range outwards
        number = _number(code) if NUMBER.fullmatch(code) else None
        if code in missing:
            continue
        if number is None or (is_missing_label(label) and not low <= number <= high):
            missing[code] = label
        elif low - 1 <= number <= high + 1:
            inside[number_label(number)] = label
            low, high = min(low, number), max(high, number)
        else:
            doubtful[code] = label
    whole = low == math.floor(low) and high == math.floor(high) and "real" not in (known.kind, column.word)
    domain = _range(low, high, whole)
    null = _null(column, missing)
    if doubtful:
        null = {"null": "category", "null_values": [f"{MARKER}: is {code} a missing value?" for code in doubtful]}
        null["null_values"] += [_code_value(code) for code in missing]
    domain |= null
    if known.observed or not (_is_round(float(known.low or 0.0)) and _is_round(float(known.high or 0.0))):
        shown = f"{number_label(float(known.low or 0.0))} to {number_label(float(known.high or 0.0))}"
        domain[CONFIRM] = f"the code book's {shown} may have been read off the data: give ends that are known publicly"
    kept = inside if domain["kind"] == "integer" else {}
    return domain | _labels({**kept, **_null_label(missing)}, set())


def _range(low: float, high: float, whole: bool) -> dict[str, Any]:
    """A range as a cell for each whole number, or else as bins between round numbers. A wider domain is as public."""
    if whole and high - low <= _MOST_CELLS and max(abs(low), abs(high)) <= WIDEST:
        return {"kind": "integer", "low": int(low), "high": int(high)}
    if max(abs(low), abs(high)) >= _MOST_CELLS:  # such as incomes: most are far from the largest
        return {"kind": "real", "edges": [_plain(edge) for edge in _growing_edges(low, high)], "decode": "smooth"}
    width = 10.0 ** math.floor(math.log10(high - low))
    step = next(width / part for part in (10, 5, 4, 2) if (high - low) / (width / part) <= 50)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    bins = round((high - low) / step)
    return {"kind": "real", "low": _plain(low), "high": _plain(high), "bins": bins, "decode": "smooth"}


def _growing_edges(low: float, high: float) -> list[float]:
    """Bin edges 0, …, 1, 2, 5, 10, 20, 50, … on both sides of zero, and round ends that hold the range."""
    largest = max(abs(low), abs(high))
    decade = math.floor(math.log10(largest))
    steps = [digit * 10.0**power for power in range(max(decade - 3, -3), decade + 1) for digit in (1, 2, 5)]
    inner = [0.0, *steps, *(-step for step in steps)]
    first, last = _outwards(low, math.floor), _outwards(high, math.ceil)
    return [first, *sorted(edge for edge in inner if first < edge < last), last]


def _outwards(number: float, towards: Any) -> float:
    """A number rounded to two digits, away from the range that it ends."""
    if number == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    return float(repr(round(towards(round(number / unit, 6)) * unit, 12)))


def _null(column: Column, missing: Iterable[str]) -> dict[str, Any]:
    """What becomes of missing values. Codes that the book does not explain are left open."""
    codes: list[Any] = [_code_value(code) for code in missing]
    if column.coded and not codes:
        codes = [f"{MARKER}: the codes that mean missing"]
    if codes:
        return {"null": "category", "null_values": codes}
    return {"null": "category"} if column.gaps else {}


def _null_label(missing: Mapping[str, str]) -> dict[str, str]:
    """The label of the null category, where one code alone leads there."""
    return {code: label for code, label in missing.items() if label} if len(missing) == 1 else {}


def _labels(given: Mapping[str, str], values: set[str]) -> dict[str, Any]:
    """Labels as a schema takes them: no two alike, and none the text of another value."""
    labels: dict[str, str] = {}
    for text, label in given.items():
        clean = clean_words(label, MOST_CHARACTERS["label"])
        if not clean or clean == text:
            continue
        if clean in labels.values() or clean in values or NUMBER.fullmatch(clean):
            clean = clean_words(f"{text}: {clean}", MOST_CHARACTERS["label"])
        if clean not in labels.values():
            labels[text] = clean
    return {"labels": labels} if labels else {}


# Numbers


def _is_plain_number(code: str, padded: bool) -> bool:
    """Whether a code is a number and not a name made of digits, such as "007"."""
    if not NUMBER.fullmatch(code) or abs(float(code)) > WIDEST:
        return False
    return padded or re.match(r"[-+]?0\d|\+", code) is None


def _number(code: str) -> float:
    return _plain(float(code))


def _plain(number: float) -> int | float:
    number = round(number, 10)
    return int(number) if number == math.floor(number) else number


def _code_value(code: str) -> Any:
    return _number(code) if _is_plain_number(code, padded=False) else code


def _is_round(number: float) -> bool:
    """Whether an end of a range is one that people agree on (0, 99, 120, 5000) and not the largest that somebody has
    (1,341,000)."""
    digits = number_label(abs(number)).rstrip("0").rstrip(".") if number else "0"
    return digits in ("", "0", "12", "15", "25") or len(digits) == 1 or set(digits) == {"9"}


# ---- columns that are alike ------------------------------------------------------------------------------------------


def _merge_blocks(blocks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Blocks in their order; a run of columns that are alike, with names that count up or begin alike, is one block."""
    for _, alike in groupby(blocks, key=lambda block: repr({**block, "name": ""})):
        run = list(alike)
        names = [block["name"] for block in run]
        start = 0
        while start < len(run):
            pattern, count = as_pattern(names, start, _ALIKE)
            own = run[start]
            yield {"names": pattern, **{key: own[key] for key in own if key != "name"}} if count else own
            start += max(count, 1)
