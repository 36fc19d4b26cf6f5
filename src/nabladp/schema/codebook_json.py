"""Code books in JSON: data dictionaries as agencies write them, and the table schemas of Frictionless and CSVW."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nabladp.errors import SchemaError, quote
from nabladp.schema.codebook_variable import MOST_VARIABLES, Variable, code_text, number_of, only_range
from nabladp.schema.levels import period_number

_SHAPE = 'Write { "SEX": { "description": "Sex", "values": { "1": "Male", "2": "Female" } } }.'
_WRAPPERS = ("variables", "columns", "fields", "schema", "attributes", "items")  # of a dictionary of variables
_KEYS = {
    "name": ("name", "variable", "column", "field", "id"),
    "title": ("title", "titles", "short_description", "question"),
    "description": ("description", "label", "dc:description", "definition", "desc"),
    "details": ("details", "notes", "note", "comment", "rdfs:comment"),
    "unit": ("unit", "units"),
    "kind": ("type", "kind", "dtype", "datatype", "data_type"),
    "values": ("values", "categories", "codes", "levels", "value_labels", "labels", "enum", "code_list"),
    "low": ("min", "minimum", "low", "minInclusive"),
    "high": ("max", "maximum", "high", "maxInclusive"),
    "missing": ("missing", "missing_values", "missingValues", "null_values", "null_value", "null", "na_values"),
    "ordered": ("ordered", "categoriesOrdered"),
}
_KINDS = {
    "integer": ("integer", "int", "int8", "int16", "int32", "int64", "long", "nonnegativeinteger", "positiveinteger"),
    "real": ("real", "number", "float", "float32", "float64", "double", "decimal", "numeric"),
    "boolean": ("boolean", "bool"),
    "date": ("date", "datetime", "timestamp", "yearmonth"),
    "text": ("string", "text", "str", "character"),
}
_OF_DATA = frozenset({"dtype", "has_null", "count", "counts", "frequency", "frequencies", "freq", "mean", "unique"})


def variables_of(data: Any) -> Iterator[Variable]:
    """The variables of a parsed JSON code book, whichever of the known shapes it has."""
    defaults: Any = None
    for _ in range(4):  # a package holds resources, these hold schemas, these hold fields
        if not isinstance(data, Mapping):
            break
        defaults = data.get("missingValues", defaults)
        inner = _inside(data)
        if inner is None:
            break
        data = inner
    entries = data.items() if isinstance(data, Mapping) else ((None, entry) for entry in _list(data))
    for number, (name, entry) in enumerate(entries):
        if number >= MOST_VARIABLES:
            raise SchemaError(f"The code book has more than {MOST_VARIABLES:,} variables.", fix="Give a part of it.")
        yield _variable(name, entry, defaults)


def _inside(data: Mapping[str, Any]) -> Any:
    """What a wrapper holds: the list of fields or the object of variables. None where the object is that itself."""
    for many in ("resources", "tables"):
        if isinstance(data.get(many), list) and data[many]:
            if len(data[many]) > 1:
                fix = "Give the part that describes this table."
                raise SchemaError(f"The code book describes {len(data[many])} tables.", fix=fix)
            return data[many][0]
    if isinstance(data.get("tableSchema"), Mapping):
        return data["tableSchema"]
    for key in _WRAPPERS:
        inner = data.get(key)
        entries = [own for own in data.values() if isinstance(own, Mapping)]
        if isinstance(inner, list) or (isinstance(inner, Mapping) and entries == [inner] and not _is_entry(inner)):
            return inner
    return None


def _is_entry(data: Mapping[str, Any]) -> bool:
    """Whether an object describes one variable, such as one that is called "schema"."""
    return any(isinstance(data.get(key), str | list) for key in (*_KEYS["description"], *_KEYS["kind"]))


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise SchemaError("The code book is not a list or an object of variables.", fix=_SHAPE)
    return data


def _variable(key: str | None, entry: Any, defaults: Any) -> Variable:
    if isinstance(entry, str):
        entry = {"description": entry}
    if not isinstance(entry, Mapping):
        raise SchemaError(f"The variable {quote(key)} of the code book is not described by an object.", fix=_SHAPE)
    given = _flat(entry)
    name = _text(given.get("name")) if key is None else key
    if not name:
        raise SchemaError("A variable of the code book has no name.", fix=_SHAPE)
    values, low, high = _values(given.get("values"))
    codes = _codes(given.get("missing", defaults))
    title, description, details = (_text(given.get(key)) for key in ("title", "description", "details"))
    if details and not title:
        title, description = description, details
    return Variable(
        name=name,
        title=title,
        description=description,
        unit=_text(given.get("unit")),
        kind=_kind(given.get("kind")),
        values=values,
        low=number_of(given.get("low")) if low is None else low,
        high=number_of(given.get("high")) if high is None else high,
        ends=_days(given.get("low"), given.get("high")),
        missing=codes,
        ordered=given.get("ordered") is True,
        observed=not _OF_DATA.isdisjoint(entry),
    )


def _days(*given: Any) -> tuple[str, str] | tuple[()]:
    """The first and the last day, where a book gives both."""
    first, last = map(_text, given)
    days = period_number(first, "day"), period_number(last, "day")
    return (first, last) if None not in days and first < last else ()


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The known keys of an entry under one name each; bounds and lists may stand a level deeper."""
    found: dict[str, Any] = {}
    inner: list[Any] = [
        entry.get(key) for key in ("constraints", "datatype", "range") if isinstance(entry.get(key), Mapping)
    ]
    for part in (entry, *inner):
        for own, words in _KEYS.items():
            for word in words:
                if word in part and own not in found and not (part is not entry and own in ("name", "title")):
                    found[own] = part[word]
    base: Any = entry.get("datatype")
    if isinstance(base, Mapping):
        found["kind"] = base.get("base", "")
        choices = base.get("format")
        if isinstance(choices, str) and "|" in choices and found["kind"] != "boolean":
            found.setdefault("values", choices.split("|"))
    return found


def _values(given: Any) -> tuple[dict[str, str], float | None, float | None]:
    """Codes with their labels; and the bounds, where they stand among these: { "min": 1, "max": 19, "0": "None" }."""
    if isinstance(given, Mapping):
        pairs = [(str(code), label) for code, label in given.items()]
    elif isinstance(given, list):
        pairs = [_pair(own) for own in given]
    else:
        return {}, None, None
    ends = {code: number_of(label) for code, label in pairs if code in ("min", "max") and number_of(label) is not None}
    values = {code_text(code): _text(label) for code, label in pairs if code not in ends}
    low, high = ends.get("min"), ends.get("max")
    span = only_range(values)
    if span is not None and low is None and high is None:
        code, low, high = span
        del values[code]
    return {code: label for code, label in values.items() if code}, low, high


def _pair(entry: Any) -> tuple[str, Any]:
    """A code in a list: alone, or in an object with its label."""
    if isinstance(entry, Mapping):
        code = next((entry[key] for key in ("value", "code", "id", "name") if key in entry), "")
        return code_text(code), next((entry[key] for key in ("label", "title", "description") if key in entry), "")
    return code_text(entry), ""


def _codes(given: Any) -> tuple[str, ...]:
    listed = list(given) if isinstance(given, list | Mapping) else [] if given is None else [given]
    texts = [_pair(own)[0] for own in listed if not isinstance(own, bool)]
    return tuple(dict.fromkeys(text for text in texts if text))


def _kind(given: Any) -> str:
    word = _text(given).rpartition(":")[2].lower()
    return next((kind for kind, words in _KINDS.items() if word in words), "")


def _text(value: Any) -> str:
    """A text of a code book; of one in several languages (CSVW) the first."""
    while isinstance(value, list | Mapping) and value:
        value = next(iter(value.values() if isinstance(value, Mapping) else value))
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
