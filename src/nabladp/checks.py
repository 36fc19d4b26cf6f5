"""What public functions are given, checked at the door: wrong kinds of values are refused in bounded time and memory.

Every room may use it. Each refusal names what was given by its kind only, never by its content, which may be data.
"""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import islice
from numbers import Integral, Rational, Real
from pathlib import Path
from typing import Any, TypeVar

from nabladp.errors import NablaDPError, ReleaseError, SourceError, WrongType, quote, quote_path, suggestion

T = TypeVar("T")
Error = type[NablaDPError]
MOST_LISTED = 1 << 20  # members of a list that somebody wrote down
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')\s*+\.\s*+){64}""")
_SMALLEST_SHARE = 1e-300
_MOST_STORED = 1 << 62  # rows
MOST_TEXT = 1 << 24  # bytes of a file that somebody wrote


class HasAttributes(ABC):
    """What a schema offers to guarantees, budgets and ledgers: names only. The rooms of both know this class alone."""

    @property
    @abstractmethod
    def roots(self) -> tuple[str, ...]:
        """A schema's source attributes, in order."""

    @property
    @abstractmethod
    def derived(self) -> Mapping[str, tuple[str, ...]]:
        """Each derived attribute of a schema with its source attributes."""

    @property
    @abstractmethod
    def public(self) -> frozenset[str]:
        """A schema's source attributes for which nothing is promised."""


def expect(value: Any, kind: type[T] | tuple[type[T], ...], what: str, fix: str, error: Error = WrongType) -> T:
    """Refuse an argument of the wrong kind; ``what`` begins the sentence: "The schema"."""
    if not isinstance(value, kind):
        raise error(f"{what} cannot be {quote(value)}.", fix=fix)
    return value


def members(value: Any, what: str, fix: str, most: int = MOST_LISTED, error: Error = WrongType) -> tuple[Any, ...]:
    """The members of an argument that is any list, set or generator; a text is not a list of its letters."""
    if isinstance(value, (str, bytes, bytearray)):
        raise error(f"{what} must be a list, not a text.", fix=fix)
    try:
        several = iter(value)
    except TypeError:
        raise error(f"{what} must be a list, not {quote(value)}.", fix=fix) from None
    listed = tuple(islice(several, most + 1))
    if len(listed) > most:
        raise error(f"{what} has more than {most:,} members.", fix="Give fewer.")
    return listed


def holds_more(value: Any, most: int, depth: int = 64) -> bool:
    """Whether nested lists, as an array, would have more than ``most`` entries; ranges take no memory until then."""
    if isinstance(value, range):
        return abs((value.stop - value.start) // value.step) > most
    if not isinstance(value, (list, tuple)) or not value or depth == 0:
        return False
    distinct = {id(part): part for part in value if isinstance(part, (list, tuple, range))}  # [x] * 1000 holds x once
    each = max(most // len(value), 1)
    return len(value) > most or any(holds_more(part, each, depth - 1) for part in distinct.values())


def names(
    value: Any, what: str = "A list of attributes", fix: str = 'Write ["age", "sex"].', error: Error = WrongType
) -> tuple[str, ...]:
    listed: tuple[str, ...] = members(value, what, fix, error=error)
    if not set(map(type, listed)) <= {str} and not all(isinstance(name, str) for name in listed):
        strange = next(name for name in listed if not isinstance(name, str))
        raise error(f"{what} holds {quote(strange)}, which is not a name.", fix=fix)
    return listed


def name_or_names(value: Any, what: str = "A set of attributes", error: Error = WrongType) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else names(value, what, error=error)


def mapping(value: Any, what: str, fix: str) -> Mapping[Any, Any]:
    return expect(value, Mapping, what, fix)


def is_whole(value: Any, low: int | None = None, high: int | None = None) -> bool:
    """Whether an argument is a whole number within bounds, of any library's kind; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    number = int(value)
    return (low is None or number >= low) and (high is None or number <= high)


def is_number(value: Any) -> bool:
    """Whether an argument is a finite real number that a double can hold; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def is_share(value: Any) -> bool:
    """Whether an argument is strictly between 0 and 1, also once it is a double, and so large that its inverse is
    one."""
    return is_number(value) and _SMALLEST_SHARE <= float(value) < 1.0


def is_above_zero(value: Any) -> bool:
    return is_number(value) and float(value) > 0.0


def stored(data: Mapping[str, Any], key: str, fits: Callable[[Any], bool], or_none: bool = False) -> Any:
    """A field of a stored output, checked; one that does not fit could be neither shown nor computed with."""
    value = data[key]
    if not (fits(value) or (or_none and value is None)):
        raise damaged(key)
    return value


def stored_rows(data: Mapping[str, Any]) -> int:
    return int(stored(data, "n", lambda n: is_whole(n, 0, _MOST_STORED)))


def damaged(field: str) -> ReleaseError:
    return ReleaseError(
        f"The stored {field!r} is not what nabladp writes.",
        fix="Give a folder written by nabladp, or fetch it again.",
        field=field,
    )


def as_fraction(value: Any) -> Fraction:
    """A number as a fraction of Python's integers: NumPy's would stay of 64 bits inside it, and products wrap
    around."""
    return Fraction(int(value.numerator), int(value.denominator)) if isinstance(value, Rational) else Fraction(value)


# ---- files -----------------------------------------------------------------------------------------------------------


def as_path(value: Any, what: str) -> Path:
    """An argument as a path; ``what`` begins the sentence of a refusal: "The plan"."""
    if not isinstance(value, (str, Path)):
        raise WrongType(
            f"{what} is given by its path, not by {quote(value)}.",
            fix="Give the path of its file, as text or as a Path.",
        )
    path = Path(value)
    text = str(path)
    if "\0" in text or not _encodes(text):
        raise SourceError(f"{what} has a path with characters that no file name has.", fix="Correct the path.")
    return path


_TABLES = (".csv", ".tsv", ".parquet", ".pq", ".ndjson", ".jsonl", ".arrow", ".feather", ".ipc", ".xlsx")


def refuse_other_file(path: Path, wanted: str) -> None:
    """Refuse a table, a folder or a ledger where a plan or a schema belongs."""
    name = quote_path(path)
    if path.name.lower().removesuffix(".gz").endswith(_TABLES):
        fix = f"Give the path of a {wanted}.toml. `nabladp init {path.name}` drafts a schema and a plan for this table."
        raise SourceError(f"{name} is a table, not a {wanted}.", fix=fix)
    if path.suffix.lower() in (".db", ".sqlite"):
        raise SourceError(f"{name} is a database, not a {wanted}.", fix=f"Give the path of a {wanted}.toml.")


def near_file(path: Path, otherwise: str) -> str:
    """What to do about a file that is not there: a name in the same folder that may have been meant."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), 10_000)]
    except (OSError, ValueError):
        return otherwise
    return suggestion(path.name, [name for name in names if not name.startswith(".")], otherwise)


def _encodes(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def parse_toml(text: str, what: str, error: Error) -> dict[str, Any]:
    """Parse a TOML text that a person may have written; refuses keys of many parts, which take quadratic time and
    memory."""
    if len(text) > MOST_TEXT:
        raise error(
            f"{what} is too long: the limit is {MOST_TEXT:,} characters.", fix="Check that it is the right file."
        )
    if _LONG_KEY.search(text):
        raise error(f"{what} is nested too deeply.", fix="Check that it is the right file.")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise error(f"{what} is not valid TOML: {fault}.", fix="Correct that line.") from None
    except (RecursionError, ValueError):  # also numbers of thousands of digits
        raise error(f"{what} is nested too deeply, or holds a number that is too long.", fix="Correct it.") from None


def read_file(path: Path, what: str, most: int = MOST_TEXT) -> bytes:
    """Read all of a regular file: never waits for a pipe, never reads without end. Raises OSError as ``open`` does."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(21, os.strerror(21))
        if not stat.S_ISREG(facts.st_mode):
            raise SourceError(f"{what} is not a regular file.", fix="Give the path of a file, not of a pipe or device.")
        content = file.read(most + 1) if facts.st_size <= most else b""
    if max(facts.st_size, len(content)) > most:
        raise SourceError(f"{what} is too large: the limit is {most:,} bytes.", fix="Check that it is the right file.")
    return content
