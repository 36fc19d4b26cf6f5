"""What people read in place of names and values: titles, units, descriptions and the labels of values.

None of it changes what a table means: a schema's fingerprint leaves it out, so that a label may be corrected after a
release without a new ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from nabladp.errors import quote
from nabladp.schema.rules import NULL_LABEL, Declaration, is_control, number_label, refusal

MOST_CHARACTERS = {"title": 200, "unit": 60, "description": 5_000, "label": 300}
WORDS = ("title", "unit", "description")
READ_ONLY = ("note", *WORDS, "labels")  # by people; no part of the fingerprint
_EXAMPLE = 'Write labels = { 1 = "Male", 2 = "Female" }.'


def value_text(value: Any) -> str | None:
    """A value as the schema writes it: 3 and 3.0 are "3". None where it is no text, number or truth value."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Integral):
        return str(int(value)) if int(value).bit_length() < 1024 else None
    if isinstance(value, Real) and math.isfinite(value):
        return number_label(float(value))
    return None


def check_words(attribute: Declaration) -> dict[str, str]:
    """The title, unit and description of an attribute in their normal form."""
    return {word: _words(attribute.name, word, getattr(attribute, word), word) for word in WORDS}


def check_labels(attribute: Declaration, given: Any, code_of: Callable[[str], int | None]) -> dict[str, str]:
    """An attribute's labels by the text of their values, in the order of their codes.

    ``code_of`` is the code of a value's text, or None. Plans accept a value or its label, so no label may be another
    value or another value's label.
    """
    name = attribute.name
    if not isinstance(given, Mapping):
        raise refusal(name, "'labels' must be a table of a label for each value", _EXAMPLE)
    labels: dict[int, tuple[str, str]] = {}
    for value, label in given.items():
        text = _declared_text(attribute, value, label, code_of)
        code = code_of(text)
        if code is None:
            raise refusal(name, f"'labels' names {quote(value)}, which is not one of its values", _key_fix(attribute))
        if code in labels:
            raise refusal(name, f"'labels' names the value {quote(text)} twice", "Label every value once.")
        labels[code] = (text, _words(name, f"the label of {quote(text)}", label, "label"))
    _check_distinct(name, labels, code_of)
    return {text: label for _, (text, label) in sorted(labels.items())}


def _declared_text(attribute: Declaration, value: Any, label: Any, code_of: Callable[[str], int | None]) -> str:
    """The text of the value that a key of ``labels`` names; a value that means "missing" names the null category."""
    if isinstance(label, Mapping):  # 2.5 = "…" is a table inside a table
        fix = 'Put quotes around a value with a point: labels = { "2.5" = "two and a half" }.'
        raise refusal(attribute.name, f"the label of {quote(value)} must be text", fix)
    text = value_text(value)
    if text is None:
        raise refusal(attribute.name, f"'labels' names {quote(value)}, which is not a value", _EXAMPLE)
    if code_of(text) is None and _number(text) is not None:
        text = number_label(_number(text) or 0.0)
    missing = {value_text(own) for own in attribute.null_values}
    return NULL_LABEL if code_of(text) is None and text in missing else text


def _number(text: str) -> float | None:
    """The number that a key says in another way than the schema writes it, such as "1.0"."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and text.isascii() and "_" not in text else None


def _check_distinct(name: str, labels: Mapping[int, tuple[str, str]], code_of: Callable[[str], int | None]) -> None:
    seen: dict[str, str] = {}
    for code, (text, label) in labels.items():
        if label in seen:
            rule = f"{quote(seen[label])} and {quote(text)} have the same label {quote(label)}"
            raise refusal(name, rule, "Give every value a label of its own.")
        if code_of(label) not in (None, code):
            rule = f"the label {quote(label)} of {quote(text)} is the text of another value"
            raise refusal(name, rule, "Give it another label: a plan could mean either.")
        seen[label] = text


def _key_fix(attribute: Declaration) -> str:
    if attribute.kind == "boolean":
        return 'Write labels = { true = "Yes", false = "No" }.'
    if attribute.null == "category":
        return f'Write its values as the schema declares them; "{NULL_LABEL}" is the category of missing values.'
    return "Write its values as the schema declares them."


def _words(name: str, what: str, given: Any, limit: str) -> str:
    shown = what if what.startswith("the ") else repr(what)
    if not isinstance(given, str):
        raise refusal(name, f"{shown} must be text", "Put quotes around it.")
    text, most = given.strip(), MOST_CHARACTERS[limit]
    if limit == "label" and not text:
        raise refusal(name, f"{shown} is empty", "Write a label, or leave the value out.")
    if len(text) > most:
        raise refusal(name, f"{shown} has {len(text):,} characters", f"Shorten it to {most:,}.")
    allowed = "\n\t" if limit == "description" else ""
    if any(is_control(sign) and sign not in allowed for sign in text):
        raise refusal(name, f"{shown} holds control characters", "Remove line breaks and characters that do not print.")
    return text


def clean_words(text: str, most: int) -> str:
    """A text from elsewhere as :func:`check_words` takes it: one line, no control characters, not too long."""
    clean = " ".join("".join(" " if is_control(sign) else sign for sign in text).split())
    return clean if len(clean) <= most else clean[: most - 1].rstrip() + "…"
