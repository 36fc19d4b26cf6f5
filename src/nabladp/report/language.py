"""The language of a report: every text that its pages show, and how the language writes numbers, names and dates.

A language is one file, ``languages/CODE.toml``. A text may hold ``{names}`` of values; one that depends on a number is
a table of the forms "one" and "other", chosen by ``{count}``. Those under ``[script]`` go into the page, for scripts.
A new language is a new file with the same keys and the same values in each text: a test compares them with English.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from nabladp.errors import ReleaseError, quote
from nabladp.privacy.units import format_rounded

_FOLDER = files("nabladp.report") / "languages"
Text = str | Mapping[str, str]
MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class Language:
    code: str
    texts: Mapping[str, Text]  # by section and key: "page.title"

    def __call__(self, key: str, /, **values: Any) -> str:
        """The text of this key, with its values; whole numbers are written as the language writes them."""
        text = self.texts[key]
        if not isinstance(text, str):
            text = text["one" if values["count"] == 1 else "other"]
        return text.format_map({name: self._format_value(value) for name, value in values.items()}) if values else text

    def html(self, key: str, /, **values: Any) -> Any:
        """The same as HTML: the text's own tags stand, its values are escaped."""
        from markupsafe import Markup

        text = self.texts[key]
        if not isinstance(text, str):
            text = text["one" if values["count"] == 1 else "other"]
        return Markup(text).format_map({name: self._format_value(value) for name, value in values.items()})

    def _format_value(self, value: Any) -> Any:
        return self.number(value) if isinstance(value, int) else value

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def number(self, whole: int) -> str:
        return self.localised(f"{whole:,}")

    def localised(self, number: str) -> str:
        """A number in English digits ("1,234.5") as this language writes it."""
        return number.translate({ord(","): self("format.thousands"), ord("."): self("format.point")})

    def cost(self, value: float | None, *, up: bool = True, digits: int = 4) -> str:
        """A cost with four digits, rounded up; what is left or allowed is rounded down."""
        if value is None or value == float("inf"):
            return self("format.no_bound")
        return self.localised(format_rounded(value, digits, up=up))

    def one_in(self, delta: float) -> str:
        """A probability in words: 1e-6 as "1 in 1,000,000"."""
        return self("format.one_in", number=math.floor(float(f"{1 / delta:.12g}")))

    def power(self, delta: float) -> str:
        """A probability as a power of ten: 1e-6 as 10⁻⁶."""
        digits, _, exponent = f"{delta:e}".partition("e-")
        if float(digits) != 1 or not exponent:
            return self.localised(f"{delta:g}")
        return "10⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(int(exponent)))

    def measure(self, measure: str) -> str:
        """What a limit counts, as the ledger names it: "ρ" or "pure ε"."""
        return measure if measure == "ρ" else self("format.pure")

    def date(self, iso: str) -> str:
        """The day of a time in ISO form."""
        year, month, day = iso[:10].split("-")
        return self("format.date", year=year, month=self(f"format.month_{int(month)}"), day=str(int(day)))

    # ---- names in sentences -----------------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        """A name quoted in a sentence; marks keep the direction of its writing from turning the rest around."""
        return self("format.quoted", name=name if name.isascii() else f"\u2068{name}\u2069")

    def listed(self, texts: Sequence[str]) -> str:
        """Texts in a sentence, the last one after "and"."""
        if len(texts) < 2:
            return "".join(texts)
        return self("format.and", first=", ".join(texts[:-1]), last=texts[-1])

    def names(self, names: Sequence[str], most: int = MOST_NAMED) -> str:
        """Names in a sentence: ``“a”, “b” and “c”``; of very many the first few and how many there are besides."""
        quoted = [self.quoted(name) for name in names[:most]]
        if len(names) > most:
            return self("format.more", first=", ".join(quoted), count=len(names) - most)
        return self.listed(quoted)

    # ---- the page's scripts -----------------------------------------------------------------------------------------

    def for_scripts(self) -> Any:
        """What the page's scripts need, as JSON that can stand in HTML."""
        from markupsafe import Markup

        own = {key.removeprefix("script."): text for key, text in self.texts.items() if key.startswith("script.")}
        body = json.dumps({"locale": self.code, "texts": own}, ensure_ascii=False, separators=(",", ":"))
        return Markup(body.replace("<", "\\u003c"))


def languages() -> list[str]:
    """The codes of all languages that a report can be written in."""
    return sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml"))


def language(code: str | Language = "en") -> Language:
    """A language by its code, such as "de"."""
    if isinstance(code, Language):
        return code
    if not isinstance(code, str) or code not in languages():
        raise ReleaseError(
            f"There is no report in the language {quote(code)}.", fix=f"Choose one of {', '.join(languages())}."
        )
    return _read(code)


@cache
def _read(code: str) -> Language:
    data = tomllib.loads((_FOLDER / f"{code}.toml").read_text(encoding="utf-8"))
    return Language(code, {f"{section}.{key}": text for section, texts in data.items() for key, text in texts.items()})
