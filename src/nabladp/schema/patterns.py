"""Blocks for columns that are alike: ``names = "q{1..1359}"`` in place of ``name`` stands for a block for each column.

Patterns are expanded when a schema is read; what follows, its fingerprint included, is that of the schema written out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nabladp.errors import SchemaError, quote
from nabladp.schema.rules import refusal

_LONGEST = 10_000  # characters of a pattern
_PART = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?)([0-9]{1,15})\.\.(-?)([0-9]{1,15})", re.ASCII)
_EXAMPLES = 'Write names = "q{1..120}", names = "{mon,tue}_spend" or names = ["a", "b"].'


def expand_blocks(blocks: Sequence[Mapping[str, Any]], most: int) -> Iterator[Mapping[str, Any]]:
    """Each block of a schema, and for a block with ``names`` one for each column; refuses more than ``most`` in all
    before any is made."""
    lists = [_names_of(block) if "names" in block else None for block in blocks]
    total = sum(1 if names is None else len(names) for names in lists)
    if total > most:
        fix = "Narrow the ranges in 'names'."
        raise SchemaError(f"The schema has {total:,} attributes; the limit is {most:,}.", fix=fix, attributes=total)
    for block, names in zip(blocks, lists, strict=True):
        if names is None:
            yield block
            continue
        rest = {key: value for key, value in block.items() if key != "names"}
        _check_once(block["names"], names)
        for name in names:
            yield {"name": name, **rest}


class _Product:
    """All combinations of the parts of a pattern; how many there are is known without making them."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return min(math.prod(len(part) for part in self.parts), 1 << 62)

    def __iter__(self) -> Iterator[str]:
        return map("".join, itertools.product(*self.parts))


class _Numbers(Sequence[str]):
    """A range of numbers as text, padded with zeros to one width; not made until asked for."""

    def __init__(self, numbers: range, width: int) -> None:
        self.numbers, self.width = numbers, width

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return f"{self.numbers[index]:0{self.width}}"


def _names_of(block: Mapping[str, Any]) -> _Product | list[str]:
    given = block["names"]
    if "name" in block:
        raise refusal(given, "it has both 'name' and 'names'", "Remove one of them.")
    if isinstance(given, list | tuple):
        if not given or not all(isinstance(name, str) for name in given):
            raise refusal("?", "'names' must be a pattern or a list of names", _EXAMPLES)
        return list(given)
    if not isinstance(given, str) or len(given) > _LONGEST:
        raise refusal(given, "'names' must be a pattern or a list of names", _EXAMPLES)
    return _pattern(given)


def _pattern(given: str) -> _Product:
    parts: list[Sequence[str]] = []
    for index, text in enumerate(_PART.split(given)):
        if index % 2:
            parts.append(_alternatives(given, text))
        elif "{" in text or "}" in text:
            raise refusal(given, "a brace of the pattern is not closed, or braces are nested", _EXAMPLES)
        else:
            parts.append((text,))
    if len(parts) == 1:
        raise refusal(given, "the pattern has no part in braces", f'For a single column write name = "{given}".')
    return _Product(parts)


def _alternatives(given: str, text: str) -> Sequence[str]:
    """What a part in braces stands for: a range of numbers, or a list of words."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        words = [word.strip() for word in text.split(",")]
        if len(words) < 2 or "" in words or ".." in text:
            raise refusal(given, f"{quote('{' + text + '}')} is neither a range nor a list of words", _EXAMPLES)
        return words
    first, last = (int(sign + digits) for sign, digits in (found.group(1, 2), found.group(3, 4)))
    if first > last:
        raise refusal(given, f"the range {first}..{last} runs backwards", f"Write {last}..{first}.")
    padded = [sign + digits for sign, digits in (found.group(1, 2), found.group(3, 4)) if _is_padded(digits)]
    if padded and len({len("".join(found.group(1, 2))), len("".join(found.group(3, 4)))}) > 1:
        raise refusal(given, "both ends of a range with leading zeros must be of one width", "Write {001..120}.")
    return _Numbers(range(first, last + 1), len(padded[0]) if padded else 0)


def _is_padded(digits: str) -> bool:
    return len(digits) > 1 and digits.startswith("0")


def _check_once(given: Any, names: _Product | list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise refusal(given, f"'names' gives {quote(name)} twice", "Name every column once.")
        seen.add(name)


# ---- names as a pattern ----------------------------------------------------------------------------------------------

_COUNTED = re.compile(r"(.*?)(0|[1-9][0-9]{0,14}|0[0-9]{1,14})([^0-9]*)", re.DOTALL)
_STEM = re.compile(r"(.*[_.\- ])([^_.\- ]+)", re.DOTALL)
_SPECIAL = re.compile(r"[{},\s]|\.\.")  # what means something else inside of braces


def as_pattern(names: Sequence[str], start: int, least: int) -> tuple[str, int]:
    """A pattern for as many names from ``start`` on as count up (q1, q2, …) or share a stem (spend_mon, spend_tue), and
    how many these are; 0 where they are fewer than ``least``."""
    counted = _counting(names, start)
    if counted >= least:
        stem, first, end = _parts(names[start], _COUNTED)
        last = _parts(names[start + counted - 1], _COUNTED)[1]
        return f"{stem}{{{first}..{last}}}{end}", counted
    words = _words_of_one_stem(names, start)
    pattern = f"{_parts(names[start], _STEM)[0]}{{{','.join(words)}}}" if len(words) >= least else ""
    return (pattern, len(words)) if 0 < len(pattern) <= _LONGEST else ("", 0)


def _parts(name: str, form: re.Pattern[str]) -> tuple[str, ...]:
    found = form.fullmatch(name)
    return () if found is None or "{" in name or "}" in name else found.groups()


def _counting(names: Sequence[str], start: int) -> int:
    """How many names from ``start`` on differ by a number alone, which counts up by one."""
    first = _parts(names[start], _COUNTED)
    count = 1 if first else 0
    while first and start + count < len(names):
        own = _parts(names[start + count], _COUNTED)
        if not own or own[::2] != first[::2] or int(own[1]) != int(first[1]) + count:
            break
        if len(own[1]) != len(first[1]) if _is_padded(first[1]) else _is_padded(own[1]):
            break
        count += 1
    return count


def _words_of_one_stem(names: Sequence[str], start: int) -> list[str]:
    """The ends of the names from ``start`` on that begin alike."""
    words: list[str] = []
    stem = _parts(names[start], _STEM)[:1]
    for name in itertools.islice(names, start, None) if stem else ():
        own = _parts(name, _STEM)
        if own[:1] != stem or _SPECIAL.search(own[1]):
            break
        words.append(own[1])
    return words
