"""What a single attribute must satisfy. Every refusal names the attribute, the rule and what to do."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from nabladp.errors import SchemaError, quote, suggestion

KINDS = ("categorical", "ordered", "integer", "real", "boolean", "date")
MARKER = "FILL IN"
CONFIRM = "confirm"  # the key of a block that says what a person should look at before it is removed
NULL_LABEL = "(null)"
EQUAL_BINS = 10  # of a real attribute that declares neither edges nor their number
MOST_BINS = 1 << 16
DECODES = ("midpoint", "uniform", "smooth", "lower", "upper")
DRAWN = ("uniform", "smooth")  # numbers are drawn inside their bins
MOST_CODES = 2**32 - 3  # codes are at most 32 bits wide, with room for other and null
_LARGEST = sys.float_info.max
WIDEST = 2**53 - 1  # beyond it a column of floating-point numbers cannot tell neighbours apart

_NEEDS = {
    "categorical": ("values",),
    "ordered": ("values",),
    "integer": ("low", "high"),
    "real": ("edges",),
    "date": ("values",),  # made from its ends before
}
_SHAPE_FIELDS = ("values", "low", "high", "edges")


@dataclass(frozen=True)
class Declaration:
    """The fields of an attribute, as a person declares them; :class:`Attribute` says what they mean."""

    name: str
    kind: str
    values: tuple[str | int | float, ...] = ()
    low: float | None = None  # a whole number once it is checked; of dates, None: values say the same
    high: float | None = None
    edges: tuple[float, ...] = ()
    bins: int | None = None  # None once it is checked: edges say the same
    spikes: tuple[float, ...] = ()  # empty once they are checked: edges say the same
    decode: str | tuple[float, ...] = "midpoint"
    null: str = "refuse"
    null_values: tuple[str | int | float, ...] = ()
    unknown: str = "refuse"
    other: str = "other"
    derived_from: tuple[str, ...] = ()
    formula: str | Mapping[str, Any] = field(default="", hash=False)
    public: bool = False
    note: str = ""
    title: str = ""
    unit: str = ""
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)  # by the text of the value
    level: str = ""  # of dates: "" for days, "month", "quarter" or "year"
    prefix: int | None = None  # of codes: so many first characters


def refusal(name: object, rule: str, fix: str) -> SchemaError:
    text = name if isinstance(name, str) else quote(name)
    return SchemaError(f"Attribute {quote(name)}: {rule}.", fix=fix, attribute=text, rule=rule)


def nearest(word: object, known: Sequence[str]) -> str:
    """``Did you mean …?`` for a misspelt word of a schema, or the whole list where nothing is near."""
    return suggestion(word, known, f"Write one of {', '.join(known)}.")


def number_label(number: float) -> str:
    """The label of a number: its shortest text; 3 and 3.0 are both "3"."""
    return str(int(number)) if number == int(number) and abs(number) < 1e16 else repr(float(number))


def bin_label(edges: Sequence[float], code: int) -> str:
    """The label of a bin; of one that holds a single number, that number."""
    low, high = edges[code], edges[code + 1]
    if is_spike(low, high):
        return number_label(low)
    after = code > 0 and is_spike(edges[code - 1], low)
    close = "]" if code == len(edges) - 2 else ")"
    return f"{'(' if after else '['}{number_label(edges[code - 1] if after else low)}, {number_label(high)}{close}"


def is_spike(low: float, high: float) -> bool:
    """Whether only one number is between two edges of bins, the lower edge itself."""
    return math.nextafter(low, math.inf) == high


def refuse_unknown_keys(data: Mapping[str, Any], known: Sequence[str]) -> None:
    if not isinstance(data, Mapping):
        raise SchemaError("An attribute is described by a table.", fix='Write name = "age", kind = "integer", ….')
    for key, value in data.items():
        name = data.get("name", "?")
        if _is_marked(value):
            raise refusal(name, f"{key!r} is still marked {MARKER}", _FILL_IN)
        if key == CONFIRM:
            raise refusal(name, "it waits for your confirmation", _CONFIRM)
        if key not in known:
            above = "Write 'rules' above the first [[attribute]]: it is about several."
            fix = above if key == "rules" else nearest(key, known)
            raise refusal(name, f"there is no key {quote(key)}", fix)


_FILL_IN = "Replace the mark by the domain you know from public sources; never read it off the data."
_ALSO_CONFIRM = f"Remove the line '{CONFIRM}' of each attribute once you have compared its domain with one."
_CONFIRM = f"Compare the domain with a public source, correct it if need be, and remove the line '{CONFIRM}'."


def refuse_marks(entries: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a draft schema, naming all attributes that are not finished yet."""
    marked = marked_blocks(entries)
    waiting = [block_name(entry) for entry in entries if CONFIRM in entry and block_name(entry) not in marked]
    if len(marked) + len(waiting) < 2:
        return  # a single one is refused with the key at fault
    said = []
    if marked:
        said.append(f"{_attributes(marked)} still marked {MARKER}: {_join_names(marked)}.")
    if waiting:
        said.append(f"{_attributes(waiting)} to be confirmed: {_join_names(waiting)}.")
    fix = f"{_FILL_IN} {_ALSO_CONFIRM}" if marked and waiting else _FILL_IN if marked else _CONFIRM
    raise SchemaError(" ".join(said), fix=fix, attributes=[*marked, *waiting])


def marked_blocks(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the blocks of a draft in which something is to be filled in."""
    return [block_name(entry) for entry in entries if any(map(_is_marked, entry.values()))]


def _attributes(names: Sequence[str]) -> str:
    return f"{len(names)} attributes are" if len(names) > 1 else "1 attribute is"


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def block_name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name", entry.get("names", "?")))


def _is_marked(value: Any) -> bool:
    return any(isinstance(part, str) and part.startswith(MARKER) for part in _parts(value))


_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of surrogate pairs, line and paragraph separators
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they turn the rest of a line around


def is_control(sign: str) -> bool:
    """Whether a character does not print, or turns the direction of a text."""
    return sign in _TURNING or unicodedata.category(sign) in _INVISIBLE


def check(attribute: Declaration) -> dict[str, Any]:
    """Check an attribute's declaration: refuse what contradicts itself; return the fields in their normal form."""
    name = attribute.name
    if not isinstance(name, str) or not name.strip():
        raise refusal(name, "it has no name", 'Write name = "…", as the column is called in the table.')
    if any(is_control(sign) for sign in name):
        rule = "its name holds control characters, or characters that turn the direction of a text"
        raise refusal(
            name, rule, "Rename the column; a query can: source = \"SELECT old AS new, … FROM 'people.csv'\"."
        )
    if not isinstance(attribute.kind, str) or attribute.kind not in KINDS:
        given = attribute.kind
        named = given is not None and not (isinstance(given, str) and given == "")
        rule = f"there is no kind {quote(given)}" if named else "it has no kind"
        raise refusal(name, rule, nearest(attribute.kind, KINDS))
    _check_fields_fit_kind(attribute)
    normal: dict[str, Any] = {"derived_from": _names(name, attribute.derived_from)}
    if attribute.kind in ("categorical", "ordered", "date"):
        normal["values"] = _values(name, attribute.values, increasing=attribute.kind == "ordered")
    elif attribute.kind == "integer":
        normal["low"], normal["high"] = _range(name, attribute.low, attribute.high)
    elif attribute.kind == "real":
        bins = attribute.edges if attribute.low is None else _equal_bins(attribute)
        normal["edges"] = edges = _with_spikes(name, _edges(name, bins), attribute.spikes)
        normal["spikes"] = ()
        normal["low"] = normal["high"] = normal["bins"] = None
        normal["decode"] = _decode(name, attribute.decode, edges)
    _check_missing_and_unknown(attribute)
    normal["null_values"] = _null_values(attribute, normal.get("values", ()))
    _check_labels_differ(attribute, normal)
    check_public(attribute, normal["derived_from"])
    return normal


def _check_fields_fit_kind(attribute: Declaration) -> None:
    needs = _NEEDS.get(attribute.kind, ())
    if attribute.kind == "real" and not (attribute.low is None and attribute.high is None):
        needs = ("low", "high")  # in place of edges
        if not _is_missing(attribute.edges):
            raise refusal(attribute.name, "it has both 'edges' and 'low' or 'high'", "Remove 'low' and 'high'.")
    _check_bins(attribute)
    for key in _SHAPE_FIELDS:
        missing = _is_missing(getattr(attribute, key))
        if key in needs and missing:
            example = _EXAMPLES[key if attribute.kind != "real" else "edges"]
            raise refusal(attribute.name, f"kind {attribute.kind!r} needs {key!r}", example)
        if key not in needs and not missing:
            fix = f"Remove {key!r}, or choose the kind it belongs to."
            raise refusal(attribute.name, f"kind {attribute.kind!r} takes no {key!r}", fix)
    if attribute.kind != "real" and not _is_missing(attribute.spikes):
        raise refusal(attribute.name, "only kind 'real' takes 'spikes'", "Remove 'spikes'.")
    if attribute.kind != "real" and not (isinstance(attribute.decode, str) and attribute.decode == "midpoint"):
        raise refusal(attribute.name, "only kind 'real' takes 'decode'", "Remove 'decode'.")


def _check_bins(attribute: Declaration) -> None:
    if attribute.bins is None:
        return
    if attribute.kind == "integer":
        fix = "Write kind = \"real\", which reads whole numbers as well, or remove 'bins' for a cell per number."
        raise refusal(attribute.name, "kind 'integer' takes no 'bins'", fix)
    if attribute.kind != "real":
        raise refusal(attribute.name, f"kind {attribute.kind!r} takes no 'bins'", "Remove 'bins'.")
    if not _is_missing(attribute.edges):
        raise refusal(attribute.name, "it has both 'edges' and 'bins'", "Remove one of them.")
    if attribute.low is None and attribute.high is None:
        raise refusal(attribute.name, "'bins' needs 'low' and 'high'", "Write low = 0, high = 100, bins = 50.")
    if isinstance(attribute.bins, bool) or not isinstance(attribute.bins, Integral) or attribute.bins < 1:
        raise refusal(attribute.name, "'bins' must be a whole number from 1", "Write bins = 50.")
    if attribute.bins > MOST_BINS:
        raise refusal(attribute.name, f"'bins' is too large: {quote(attribute.bins)}", f"The limit is {MOST_BINS:,}.")


def _is_missing(value: Any) -> bool:
    return value is None or (_is_list(value) and len(value) == 0)


_EXAMPLES = {
    "values": 'List them: values = ["first", "second"].',
    "low": "Give the smallest and largest integer: low = 0, high = 99.",
    "high": "Give the smallest and largest integer: low = 0, high = 99.",
    "edges": "Give increasing bin edges: edges = [0.0, 10.0, 20.0], or both ends: low = 0.0, high = 20.0.",
}


def _null_values(attribute: Declaration, values: tuple[str | int | float, ...]) -> tuple[str | int | float, ...]:
    """The values of an attribute that mean "missing". Where the domain is of numbers, so are those that can be."""
    name, given = attribute.name, attribute.null_values
    if not _is_list(given):
        raise refusal(name, "'null_values' must be a list", 'Write null_values = ["?"].')
    if given and attribute.null != "category":
        raise refusal(name, "'null_values' needs null = 'category'", 'Write null = "category", or remove them.')
    markers: list[str | int | float] = []
    for value in given:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value in ("", *markers):
            raise refusal(name, "'null_values' are different texts or numbers", "Remove the one that is not.")
        if isinstance(value, float) and not math.isfinite(value):
            raise refusal(name, "'null_values' must be finite", "Remove the one that is not.")
        if value in values:
            raise refusal(
                name, "a value is declared both as a value and as missing", "Remove it from one of the lists."
            )
        markers.append(value)
    texts_only = bool(values) and isinstance(values[0], str)
    return tuple(value if texts_only else _as_number(value) for value in markers)


def _as_number(value: str | int | float) -> str | int | float:
    """A declared value as a number where a text is one, so that "999" and 999 mean the same in every kind of table."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) and value.isascii() and "_" not in value else value


def _values(name: str, values: Any, increasing: bool) -> tuple[str | int | float, ...]:
    if not _is_list(values):
        raise refusal(name, "'values' must be a list", _EXAMPLES["values"])
    textual = all(isinstance(value, str) for value in values)
    if not textual and not all(_is_number(value) for value in values):
        fix = "Put quotes around every value; for true and false use kind 'boolean'."
        raise refusal(name, "'values' must be all text or all finite numbers", fix)
    normal = tuple(value if isinstance(value, str) else _plain(value) for value in values)
    if "" in normal:
        rule = "empty text cannot be a value, since it stands for null"
        raise refusal(name, rule, 'Remove it and write null = "category".')
    if len(set(normal)) != len(normal):
        raise refusal(name, "a value is listed twice", "List every value once.")
    if increasing and not textual and any(a >= b for a, b in pairwise(normal)):  # type: ignore[operator]
        raise refusal(name, "ordered numbers must increase", "List them from lowest to highest.")
    if not textual and any(abs(value) > WIDEST for value in normal):  # type: ignore[arg-type]
        raise refusal(name, "a number is too large to be exact", "Declare such identifiers as text, in quotes.")
    return normal


def _range(name: str, low: Any, high: Any) -> tuple[int, int]:
    if any(isinstance(end, bool) or not isinstance(end, Integral) for end in (low, high)):
        raise refusal(name, "'low' and 'high' must be integers", _EXAMPLES["low"])
    if low > high:
        raise refusal(name, f"'low' = {quote(low)} lies above 'high' = {quote(high)}", "Exchange them.")
    if low < -WIDEST or high > WIDEST or high - low >= MOST_CODES:
        raise refusal(name, "the range is too wide", "Use kind 'real' with bin edges; integers may span 2^32 values.")
    return int(low), int(high)


def _equal_bins(attribute: Declaration) -> tuple[float, ...]:
    """Edges of an attribute's bins of one width, as exact as the ends are written: 0.1, 0.2, …, not
    0.30000000000000004."""
    name = attribute.name
    low: Any = attribute.low
    high: Any = attribute.high
    bins = EQUAL_BINS if attribute.bins is None else int(attribute.bins)
    if not all(_is_number(end) for end in (low, high)):
        raise refusal(name, "'low' and 'high' must be finite numbers", _EXAMPLES["edges"])
    if low >= high:
        raise refusal(name, "'low' must lie below 'high'", "Exchange them, or give both ends of the range.")
    first, last = Fraction(repr(float(low))), Fraction(repr(float(high)))
    edges = tuple(float(first + (last - first) * k / bins) for k in range(bins + 1))
    if len(set(edges)) < len(edges):
        rule = f"'low' and 'high' are too close to each other for {bins:,} bins"
        raise refusal(name, rule, "Give both ends of the range, or fewer bins.")
    return edges


def _edges(name: str, edges: Any) -> tuple[float, ...]:
    if not _is_list(edges) or not all(_is_number(edge) for edge in edges):
        raise refusal(name, "'edges' must be finite numbers", _EXAMPLES["edges"])
    normal = tuple(float(edge) + 0.0 for edge in edges)
    if len(normal) < 2:
        raise refusal(name, "one bin needs two edges", _EXAMPLES["edges"])
    if any(a >= b for a, b in pairwise(normal)):
        raise refusal(name, "'edges' must increase", "List them from lowest to highest, each once.")
    return normal


def _with_spikes(name: str, edges: tuple[float, ...], spikes: Any) -> tuple[float, ...]:
    """The edges of an attribute with a bin of its own for each number that many people share."""
    if not _is_list(spikes) or not all(_is_number(spike) for spike in spikes):
        raise refusal(name, "'spikes' must be finite numbers", "List them: spikes = [0].")
    own = [float(spike) + 0.0 for spike in spikes]
    if any(not edges[0] <= spike <= edges[-1] for spike in own):
        raise refusal(
            name, "a number of 'spikes' lies outside the bins", "Give numbers from the first edge to the last."
        )
    return tuple(sorted({*edges, *own, *(math.nextafter(spike, math.inf) for spike in own)}))


def _decode(name: str, decode: Any, edges: tuple[float, ...]) -> str | tuple[float, ...]:
    if isinstance(decode, str):
        if decode not in DECODES:
            raise refusal(name, f"there is no decode {quote(decode)}", nearest(decode, DECODES))
        return decode
    if not _is_list(decode) or not all(_is_number(number) for number in decode):
        raise refusal(name, "'decode' must be a word or a list of numbers", f"Write one of {', '.join(DECODES)}.")
    if len(decode) != len(edges) - 1:
        raise refusal(name, "'decode' needs one number per bin", f"Give {len(edges) - 1} numbers.")
    inside = all(low <= x <= high for low, x, high in zip(edges[:-1], decode, edges[1:], strict=True))
    if not inside:
        raise refusal(name, "a number of 'decode' lies outside its bin", "Give one number inside each bin, in order.")
    return tuple(float(number) + 0.0 for number in decode)


def _check_missing_and_unknown(attribute: Declaration) -> None:
    name, numeric = attribute.name, attribute.kind in ("integer", "real", "date")
    if not isinstance(attribute.null, str) or attribute.null not in ("refuse", "category"):
        known = ("refuse", "category")
        raise refusal(name, f"there is no null rule {quote(attribute.null)}", nearest(attribute.null, known))
    if not isinstance(attribute.unknown, str) or attribute.unknown not in ("refuse", "other", "clamp"):
        rules = ("refuse", "other", "clamp") if numeric else ("refuse", "other")
        raise refusal(name, f"there is no unknown rule {quote(attribute.unknown)}", nearest(attribute.unknown, rules))
    if attribute.unknown == "clamp" and not numeric:
        raise refusal(name, "only integers, reals and dates can be clamped", 'Write unknown = "other" or "refuse".')
    if not isinstance(attribute.other, str) or not attribute.other:
        raise refusal(name, "'other' must be text", 'Write other = "other".')
    if attribute.unknown != "other" and attribute.other != "other":
        raise refusal(name, "'other' names a category it does not have", 'Write unknown = "other" as well.')


def _check_labels_differ(attribute: Declaration, normal: Mapping[str, Any]) -> None:
    if attribute.kind == "integer":  # the range may be wide: only ask whether the one label is inside
        taken = {attribute.other} if is_integer_label(attribute.other, normal["low"], normal["high"]) else set()
    elif attribute.kind == "boolean":
        taken = {"false", "true"}
    elif attribute.kind == "real":
        taken = {bin_label(normal["edges"], code) for code in range(len(normal["edges"]) - 1)}
    else:
        taken = {value if isinstance(value, str) else number_label(value) for value in normal["values"]}
    if attribute.null == "category":
        if NULL_LABEL in taken:
            raise refusal(attribute.name, "the value '(null)' clashes with the label of null", "Rename that value.")
        taken = taken | {NULL_LABEL}
    if attribute.unknown == "other" and attribute.other in taken:
        fix = 'Name the category differently, for example other = "(other)".'
        raise refusal(attribute.name, "the label of 'other' is already a value", fix)


def check_public(attribute: Declaration, derived_from: tuple[str, ...]) -> None:
    if not isinstance(attribute.public, bool):
        raise refusal(attribute.name, "'public' must be true or false", "Write public = true.")
    if not isinstance(attribute.note, str):
        raise refusal(attribute.name, "'note' must be text", "Put quotes around it.")
    if attribute.public and derived_from:
        fix = "Mark its sources public instead; a derived column is as public as they are."
        raise refusal(attribute.name, "a derived attribute cannot be marked public", fix)


def _names(name: str, names: Any) -> tuple[str, ...]:
    if not _is_list(names) or not all(isinstance(source, str) for source in names):
        raise refusal(name, "'derived_from' must be a list of names", 'Write derived_from = ["age"].')
    if name in names:
        raise refusal(name, "it is derived from itself", "Name the attributes it is computed from.")
    return tuple(dict.fromkeys(names))


def is_integer_label(text: str, low: int, high: int) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and str(int(text)) == text and low <= int(text) <= high


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number: Any = value
    return bool(-_LARGEST <= number <= _LARGEST)  # false for NaN, and exact for integers of any length


def _plain(number: float) -> int | float:
    """A declared number in one form: 3.0 becomes 3, so that equal values are written alike."""
    return int(number) if number == int(number) else float(number)


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return value if isinstance(value, (list, tuple)) else (value,)
