"""Every error nabladp raises on purpose.

Each inherits :class:`NablaDPError` and the built-in a caller would expect, carries its facts as fields, and says what
to do. None may ever hold a data value: fields are names, rules and public numbers only.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class NablaDPError(Exception):
    """Base of all errors. ``fix`` is one sentence that says what to do; ``fields`` are machine-readable facts."""

    def __init__(self, message: str, *, fix: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.fields = fields

    def __str__(self) -> str:
        note, commands = self.fields.get("note", ""), self.fields.get("commands", ())  # how a failed release stands
        parts = (self.message, self.fix, note, *(f"`{command}`" for command in commands))
        return " ".join(text for text in parts if text)

    def __reduce__(self) -> Any:  # keyword-only fields survive pickling between processes
        return _rebuild, (type(self), self.message, self.fix, self.fields)

    def to_json(self) -> dict[str, Any]:
        return {"error": type(self).__name__, "message": self.message, "fix": self.fix, **self.fields}


def quote(value: object, most: int = 80) -> str:
    """An argument as an error repeats it: names and numbers where they are short, anything else by its kind."""
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= most else f"{str(value)[:most]!r}…"
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int) and abs(value) < 10**most:
        return repr(int(value))
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def many(number: int) -> str:
    """A count as an error writes it: in full, or its order of magnitude where nobody would read so many digits."""
    return f"{number:,}" if number < 10**12 else f"about 10^{round(math.log10(number))}"


def quote_path(path: object, most: int = 80) -> str:
    """A path as an error repeats it. A long one keeps its end, which names the file."""
    text = str(path)
    return quote(text if len(text) <= most else f"…{text[1 - most :]}", most)


def _rebuild(kind: type[NablaDPError], message: str, fix: str, fields: dict[str, Any]) -> NablaDPError:
    return kind(message, fix=fix, **fields)


class WrongType(NablaDPError, TypeError):
    """An argument of a kind that the function does not take."""


class OutOfRange(NablaDPError, IndexError):
    """A position beyond the last one, such as a code that the attribute does not have."""


class SchemaError(NablaDPError, ValueError):
    """A schema contradicts itself, or a file is not a schema."""


class UnknownAttribute(NablaDPError, KeyError):
    """A name that the schema does not have; suggests the nearest one it does."""

    @classmethod
    def with_suggestion(cls, name: object, known: Iterable[str]) -> UnknownAttribute:
        known = [text for text in known if isinstance(text, str)]
        near = nearest(name, known)
        fix = suggestion(name, known, f"Known attributes: {_listing(known)}.")
        if len(several := split_names(name, known)) > 1:
            fix = "Name the attributes one by one: " + ", ".join(f'"{part}"' for part in several) + "."
        attribute = name if isinstance(name, str) else quote(name)
        return cls(f"There is no attribute {quote(name)}.", fix=fix, attribute=attribute, nearest=near)


class DataError(NablaDPError, ValueError):
    """The table breaks a rule of its schema. Names the column and the rule, never the value."""


class SourceError(NablaDPError, OSError):
    """A table, plan or schema cannot be opened or read."""


class DomainTooLarge(NablaDPError, ValueError):
    """A request needs more cells than memory should hold; refused before anything is spent."""


class MechanismError(NablaDPError, ValueError):
    """A mechanism's parameters make no sense."""


class BudgetError(NablaDPError, ValueError):
    """A budget value or limit makes no sense (negative, zero, NaN, untyped)."""


class BudgetExceeded(NablaDPError, RuntimeError):
    """A request would break a limit. Fields: ``limit``, ``requested``, ``spent``, ``left``."""


class GuaranteeError(NablaDPError, ValueError):
    """A guarantee cannot be built, composed or read."""


class LedgerError(NablaDPError, RuntimeError):
    """The ledger refuses: other schema, other budget, broken chain, unknown or finished entry."""


class PlanError(NablaDPError, ValueError):
    """A plan file is not a plan."""


class QueryError(NablaDPError, ValueError):
    """A query is not SQL, or cannot be answered."""


class ReleaseError(NablaDPError, RuntimeError):
    """A release cannot be written or read."""


class ReportWarning(UserWarning):
    """A release is published, but its report could not be written. Says why, and which command writes it."""


class AuditError(NablaDPError, ValueError):
    """An audit cannot be carried out on this mechanism or instance."""


_FACTS = "nabladp_facts"  # where a foreign error keeps them


def attach_facts(error: BaseException, facts: Mapping[str, Any]) -> None:
    """Let an error carry facts on its way to the user: ours among its fields, one of any other class beside its own."""
    if isinstance(error, NablaDPError):
        error.fields |= facts
    else:
        vars(error)[_FACTS] = dict(facts)


def attached_facts(error: BaseException) -> dict[str, Any]:
    """The facts that were attached to an error that is not ours; none if nobody attached any."""
    facts: dict[str, Any] = vars(error).get(_FACTS, {})
    return facts


def is_interrupt(error: BaseException) -> bool:
    """Whether an error comes of Ctrl-C.

    A library that is interrupted while it loads, and the parser of arguments, turn it into errors of their own.
    """
    known: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in known:
        if isinstance(link, KeyboardInterrupt):
            return True
        known.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def split_names(text: object, known: Iterable[str]) -> list[str]:
    """The known names in a text that joins several, such as ``"age, income"``; none where a part is no known name."""
    if not isinstance(text, str) or len(text) > 10_000:
        return []
    parts = [part.strip() for part in re.split("[,;+&]", text)]
    return parts if set(parts) <= set(known) else []


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one was probably meant to be. A long text was none of them, and comparing it takes
    long."""
    near = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) and len(word) < 200 else []
    return near[0] if near else None


def without(names: Sequence[str]) -> str:
    """Columns that something does not have: the first by name, and how many more."""
    more = len(names) - 1
    return f"column {names[0]!r}" + (f" (nor {more} other{'s' * (more > 1)})" if more else "")


def suggestion(word: object, known: Iterable[str], otherwise: str) -> str:
    """``Did you mean …?``, or something else to do where nothing is near."""
    near = nearest(word, known)
    return f"Did you mean {near!r}?" if near else otherwise


def _listing(names: list[str], most: int = 12) -> str:
    quoted = ", ".join(repr(n) for n in names[:most])
    return quoted + (f" and {len(names) - most} more" if len(names) > most else "")


class MissingPart(NablaDPError, ImportError):
    """A feature needs a package that is not installed."""
