"""A column's declaration as a form, and a form as the entries of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from nabladp.errors import SchemaError
from nabladp.schema import Attribute
from nabladp.schema.codebook_variable import NUMBER
from nabladp.schema.levels import expand_levels
from nabladp.schema.rules import is_spike, number_label
from nabladp.studio.documents import is_marked as is_marked
from nabladp.studio.fields import Fields

KINDS = (
    ("categorical", "Categories, in no order"),
    ("ordered", "Categories, lowest first"),
    ("integer", "Whole numbers, a cell for each"),
    ("real", "Numbers in bins"),
    ("boolean", "True or false"),
    ("date", "Dates"),
)
DOMAIN = ("kind", "values", "low", "high", "bins", "edges", "spikes", "decode", "levels", "labels")
PERIODS = ("month", "quarter", "year")
_TEXTS = ("title", "unit", "description", "note")
_SEPARATOR = re.compile(r"\t+|\s=\s")
_DATE_KINDS = re.compile(r"\d{4}", re.ASCII)

# ---- from a schema to a form -----------------------------------------------------------------------------------------


def to_fields(facts: Mapping[str, Any]) -> Fields:
    """A column's entries as the fields of its form. What is still to be filled in stays empty."""
    own = {key: value for key, value in facts.items() if not is_marked(value)}
    labels = {str(key): str(label) for key, label in own.get("labels", {}).items()}
    values = [_value_text(value) for value in own.get("values", ())]
    pairs = [("kind", str(own.get("kind", "")))]
    pairs += [("values", "\n".join(f"{v} = {labels[v]}" if v in labels else v for v in values))]
    pairs += [("labels", "\n".join(f"{v} = {label}" for v, label in labels.items() if v not in values))]
    looks = bool(values) and all(isinstance(v, str) for v in own["values"]) and all(map(NUMBER.fullmatch, values))
    pairs += [("as_text", "yes")] if looks else []
    pairs += [(key, _value_text(own[key])) for key in ("low", "high", "bins") if key in own]
    pairs += [("shape", "edges" if "edges" in own else "width")]
    pairs += [(key, ", ".join(map(_value_text, own[key]))) for key in ("edges", "spikes") if key in own]
    pairs += [("decode", own["decode"])] if isinstance(own.get("decode"), str) else []
    pairs += [("null", own.get("null", "refuse")), ("unknown", own.get("unknown", "refuse"))]
    nulls = [value for value in facts.get("null_values", ()) if not is_marked(value)]
    pairs += [("null_values", "\n".join(map(_value_text, nulls))), ("other", own.get("other", ""))]
    pairs += [(key, own.get(key, "")) for key in _TEXTS]
    pairs += [("public", "yes")] if own.get("public") else []
    pairs += [("derived_from", name) for name in own.get("derived_from", ())]
    pairs += [("formula", _formula_text(own.get("formula", "")))]
    return Fields([*pairs, *_level_fields(own.get("levels", ()))])


def _level_fields(levels: Any) -> Iterator[tuple[str, str]]:
    if isinstance(levels, Mapping):
        yield "levels", "\n".join(f"{name} = {given}" for name, given in levels.items())
    else:
        yield from (("period", str(level)) for level in levels)


def _value_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return number_label(value)


def _formula_text(formula: Any) -> str:
    if not isinstance(formula, Mapping):
        return str(formula)
    lines = []
    for value, given in formula.items():
        listed = isinstance(given, (list, tuple))
        lines.append(f"{value} = {', '.join(map(_value_text, given))}" if listed else f"{value}: {given}")
    return "\n".join(lines)


# ---- from a form to a schema -----------------------------------------------------------------------------------------


def to_facts(form: Fields) -> dict[str, Any]:
    """The entries of a column that a form states; those that are not stated are left out."""
    kind = form.text("kind")
    facts: dict[str, Any] = {"kind": kind} if kind else {}
    labels: dict[str, str] = {}
    if kind in ("categorical", "ordered"):
        facts |= _values(form, labels)
        facts |= _named_levels(form)
    elif kind == "integer":
        facts |= {key: _whole(form.text(key), key) for key in ("low", "high") if form.text(key)}
    elif kind == "real":
        facts |= _bins(form)
    elif kind == "date":
        facts |= {key: _date(form.text(key)) for key in ("low", "high") if form.text(key)}
        facts |= {"levels": own} if (own := [p for p in PERIODS if p in form.all("period")]) else _named_levels(form)
    for line in form.lines("labels"):
        value, label = _pair(line)
        if not label:
            raise SchemaError("A label needs its value: write value = label.", fix="Write, for instance, 1 = Male.")
        labels[value] = label
    return {**facts, **({"labels": labels} if labels else {}), **_rest(form)}


def _rest(form: Fields) -> dict[str, Any]:
    """What every kind of column may state: missing and unknown values, texts, sources."""
    facts: dict[str, Any] = {}
    nulls = _split_values(form.text("null_values"))
    if form.text("null") == "category" or nulls:
        facts["null"] = "category"
    if nulls:
        facts["null_values"] = [_number(own) if _is_plain(own) else own for own in nulls]
    if form.text("unknown", "refuse") != "refuse":
        facts["unknown"] = form.text("unknown")
        if form.text("unknown") == "other" and form.text("other") not in ("", "other"):
            facts["other"] = form.text("other")
    facts |= {key: " ".join(form.text(key).split()) for key in _TEXTS if form.text(key)}
    if form.text("public") == "yes":
        facts["public"] = True
    if sources := [name for name in form.all("derived_from") if name]:
        facts["derived_from"] = sources
    if formula := _formula(form.lines("formula")):
        facts["formula"] = formula
    return facts


def _values(form: Fields, labels: dict[str, str]) -> dict[str, Any]:
    pairs = [_pair(line) for line in form.lines("values")]
    if len(pairs) == 1 and not pairs[0][1]:  # pasted in one line
        pairs = [_pair(part) for part in _split_values(pairs[0][0])]
    labels |= {value: label for value, label in pairs if label}
    values = [value for value, _ in pairs]
    if not values:
        return {}
    numbers = form.text("as_text") != "yes" and all(map(_is_plain, values))
    return {"values": [_number(value) for value in values] if numbers else values}


def _bins(form: Fields) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if form.text("shape", "width") == "edges":
        if form.text("edges"):
            facts["edges"] = [_real(part, "edges") for part in _split_values(form.text("edges"))]
    else:
        facts |= {key: _real(form.text(key), key) for key in ("low", "high") if form.text(key)}
        facts |= {"bins": _whole(form.text("bins"), "bins")} if form.text("bins") else {}
    if form.text("spikes"):
        facts["spikes"] = [_real(part, "spikes") for part in _split_values(form.text("spikes"))]
    if form.text("decode", "midpoint") != "midpoint":
        facts["decode"] = form.text("decode")
    return facts


def _named_levels(form: Fields) -> dict[str, Any]:
    levels: dict[str, Any] = {}
    for line in form.lines("levels"):
        name, given = _pair(line)
        if not given:
            raise SchemaError("A level needs a name and a length.", fix="Write, for instance, state = 2.")
        levels[name] = int(given) if given.isascii() and given.isdecimal() and len(given) < 6 else given
    return {"levels": levels} if levels else {}


def _formula(lines: Sequence[str]) -> Any:
    """One formula; or a condition for each value ("child: age < 18"); or the source's values ("north = ME, VT")."""
    if len(lines) < 2:
        return lines[0] if lines else ""
    cases: dict[str, Any] = {}
    for line in lines:
        if match := re.fullmatch(r"([^:=<>]+):\s*(.+)", line):
            cases[match.group(1).strip()] = match.group(2)
        else:
            value, listed = _pair(line)
            cases[value] = _split_values(listed)
    return cases


def _pair(line: str) -> tuple[str, str]:
    """A value and its label, apart from each other by " = " or a tab, as spreadsheets copy them."""
    value, *label = _SEPARATOR.split(line.strip(), maxsplit=1)
    return value.strip(), " ".join(label[0].split()) if label else ""


def _split_values(text: str) -> list[str]:
    """Parts of a text: one in a line, or apart from each other by commas or semicolons."""
    return [part.strip() for part in re.split(r"[\n,;]", text) if part.strip()]


def _is_plain(text: str) -> bool:
    """Whether a text is a number, and not a code made of digits, such as 007."""
    return NUMBER.fullmatch(text) is not None and re.match(r"[-+]?0\d|\+", text) is None


def _number(text: str) -> int | float:
    number = float(text)
    return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else int(number) if number == int(number) else number


def _real(text: str, key: str) -> int | float:
    if not NUMBER.fullmatch(text):
        raise SchemaError(f"'{key}' must be numbers.", fix="Write them with a point: 0.5, 10, 1e6.")
    return _number(text)


def _whole(text: str, key: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise SchemaError(f"'{key}' must be a whole number.", fix="Write digits only, such as 99.")
    return int(text)


def _date(text: str) -> Any:
    return int(text) if _DATE_KINDS.fullmatch(text) else text


# ---- edits -----------------------------------------------------------------------------------------------------------


def changes(before: Mapping[str, Any], form: Fields) -> dict[str, Any]:
    """What a form changes about a column: new entries, and None for those that go. Where the domain is another one, all
    of it is stated, so that it fits other columns as well."""
    shown, stated = to_facts(to_fields(before)), to_facts(form)
    edited = {key: stated.get(key) for key in {*shown, *stated} if shown.get(key) != stated.get(key)}
    edited |= {key: stated.get(key) for key in before if is_marked(before[key]) and (key in stated or _may_go(key))}
    if any(key in edited for key in DOMAIN if key != "labels"):
        edited |= {key: stated.get(key) for key in DOMAIN}
        edited |= {"level": None} if stated.get("kind") != "date" and "kind" in before else {}
        kept = {key for key in ("low", "high", "values") if is_marked(before.get(key)) and _needs(stated, key)}
        edited = {key: value for key, value in edited.items() if key not in kept or value is not None}
    if form.text("confirmed") == "yes":
        edited["confirm"] = None
    return edited


def _may_go(key: str) -> bool:
    return key in ("null_values", "levels")


def _needs(stated: Mapping[str, Any], key: str) -> bool:
    kind = stated.get("kind")
    return kind in ("categorical", "ordered") if key == "values" else kind in ("integer", "real", "date")


# ---- what a declaration looks like -----------------------------------------------------------------------------------


def attributes(facts: Mapping[str, Any]) -> list[Attribute]:
    """The attribute that these entries declare, and its levels; refused where they contradict themselves."""
    plain = {key: value for key, value in facts.items() if key != "confirm"}
    return [Attribute.from_json(own) for own in expand_levels(iter([plain]), Attribute.from_json)]


def summary(facts: Mapping[str, Any]) -> str:
    """A column's domain in a few words."""
    if any(map(is_marked, facts.values())):
        return ""
    try:
        attribute = attributes(facts)[0]
    except SchemaError:
        return ""
    if attribute.kind == "real":
        first, last = _value_text(attribute.edges[0]), _value_text(attribute.edges[-1])
        return f"{len(attribute.edges) - 1:,} bins from {first} to {last}"
    if attribute.low is not None:
        return f"{_value_text(attribute.low)} to {_value_text(attribute.high)}"
    if attribute.kind == "date":
        return f"{attribute.text(0)} to {attribute.text(attribute.ordered_size - 1)}"
    if attribute.kind == "boolean":
        return "true or false"
    texts = [attribute.label(code) for code in range(attribute.ordered_size)]
    shown = ", ".join(text if len(text) < 25 else f"{text[:24]}…" for text in texts[:3])
    return f"{len(texts):,} values: {shown}" + (", …" if len(texts) > 3 else "")


_MOST_TICKS = 7
_APART = 12.0  # percent between the last two labels


def picture(attribute: Attribute) -> dict[str, Any] | None:
    """The bins of a column of numbers as a picture: what each covers, to scale where that can be seen."""
    if attribute.kind != "real":
        return None
    edges = attribute.edges
    spikes = [number for number, (low, high) in enumerate(pairwise(edges)) if is_spike(low, high)]
    span = edges[-1] - edges[0]
    least = min(high - low for n, (low, high) in enumerate(pairwise(edges)) if n not in spikes or len(edges) == 2)
    to_scale = least * 150 >= span
    at = [100 * ((edge - edges[0]) / span if to_scale else n / (len(edges) - 1)) for n, edge in enumerate(edges)]
    bins = [
        {
            "x": round(left, 3),
            "width": round(max(right - left, 0.1), 3),
            "label": attribute.label(n),
            "spike": n in spikes,
        }
        for n, (left, right) in enumerate(pairwise(at))
    ]
    ticks = [{"x": round(at[n], 3), "label": _edge_label(edges[n])} for n in _spread(at)]
    summary = f"{len(bins):,} bins from {_edge_label(edges[0])} to {_edge_label(edges[-1])}"
    return {"bins": bins if len(bins) <= 500 else [], "ticks": ticks, "to_scale": to_scale, "summary": summary}


def _spread(at: Sequence[float]) -> list[int]:
    """The edges that are labelled: both ends, and between them those that leave room."""
    chosen = [0]
    for number, x in enumerate(at[:-1]):
        if x - at[chosen[-1]] >= 100 / _MOST_TICKS and at[-1] - x >= _APART:
            chosen.append(number)
    return [*chosen, len(at) - 1]


def _edge_label(edge: float) -> str:
    return f"{int(edge):,}" if abs(edge) >= 10_000 and edge == int(edge) else _value_text(edge)
