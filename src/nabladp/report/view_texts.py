"""What mechanisms say about their values, in the language of a report.

Views and predicted errors are plain data with English texts, from any mechanism. A language may list templates of such
texts in ``languages/views/CODE.toml``; a text that is not listed stays as it is, as do names of attributes and values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from nabladp.report.language import Language
from nabladp.schema import Schema

_NUMBER = r"[-+−]?[\d,.]+(?:e[-+]?\d+)?%?"
_PLACE = re.compile(r"\{(\w+)\}")
_RANGE = re.compile(rf".+ = {_NUMBER} to {_NUMBER}")


class ViewTexts:
    """The texts of views in one language. What the owner of the table named is never translated: ``names`` and titles
    of attributes, and in rows also ``values``."""

    def __init__(self, t: Language, names: Collection[str] = (), values: Collection[str] = ()) -> None:
        self.t, self.names, self.values = t, frozenset(names), frozenset(values)
        self.texts, self.patterns = _templates(t.code)
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        if not self.texts or text in self.names:
            return text
        if text not in self._known:
            self._known[text] = self._translate(text)
        return self._known[text]

    def _translate(self, text: str) -> str:
        if text in self.texts:
            return self.texts[text]
        if re.fullmatch(_NUMBER, text):
            return self._number(text)
        for pattern, own in self.patterns:
            match = pattern.fullmatch(text)
            if match:
                return own.format_map({name: self(value) for name, value in match.groupdict().items()})
        return text

    def _number(self, text: str) -> str:
        digits = self.t.localised(text.removesuffix("%"))
        return self.t("format.percent", number=digits) if text.endswith("%") else digits

    @classmethod
    def of_schema(cls, t: Language, schema: Schema) -> ViewTexts:
        names = {word for own in schema for word in (own.name, own.heading, schema.titles[own.name])}
        listed = {text for own in schema if own.kind in ("categorical", "ordered") for text in own.texts}
        return cls(t, names, listed | {label for own in schema for label in own.labels.values()})

    def _cell(self, text: Any) -> Any:
        """A cell or a label of rows: a word of a mechanism such as "everything else", or a range of values."""
        if not isinstance(text, str) or text in self.values or text in self.names:
            return text
        return self(text) if text in self.texts or _RANGE.fullmatch(text) else text

    def view(self, view: Mapping[str, Any]) -> dict[str, Any]:
        """A view with all its texts in this language; numbers and values of attributes stay."""
        if not self.texts:
            return dict(view)
        translated = dict(view) | {key: self(view[key]) for key in ("title", "summary", "caption")}
        translated["facts"] = [[self(label), self(text)] for label, text in view["facts"]]
        translated["notes"] = [self(note) for note in view["notes"]]
        for key in ("columns", "series"):
            translated[key] = [{**own, "name": self(own["name"])} for own in view[key]]
        for own in translated["columns"]:
            if "labels" in own:
                own["labels"] = [self._cell(label) for label in own["labels"]]
        if isinstance(view["rows"], list):
            translated["rows"] = [[*map(self._cell, row)] if isinstance(row, list) else row for row in view["rows"]]
        if "line" in view:
            translated["line"] = {**view["line"], "text": self(view["line"]["text"])}
        return translated


@cache
def _templates(code: str) -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """A language's texts without values, and its templates as patterns, those with the most fixed text first."""
    file = files("nabladp.report") / "languages" / "views" / f"{code}.toml"
    if not file.is_file():
        return {}, []
    listed: dict[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))
    templates = [text for text in listed if _PLACE.search(text)]
    templates.sort(key=lambda text: -len(_PLACE.sub("", text)))
    return listed, [(_pattern(text), listed[text]) for text in templates]


def _pattern(template: str) -> re.Pattern[str]:
    pieces = _PLACE.split(template)  # fixed texts, and names of places between them
    made = [re.escape(piece) if i % 2 == 0 else _place(piece) for i, piece in enumerate(pieces)]
    return re.compile("".join(made), re.DOTALL)


def _place(name: str) -> str:
    return f"(?P<{name}>{_NUMBER if re.fullmatch(r'n[0-9]?', name) else '.+?'})"
