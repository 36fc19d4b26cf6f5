"""Every error nabladp raises on purpose.

Each inherits :class:`NablaDPError` and the built-in a caller would expect, carries its facts as fields, and says what
to do. None may ever hold a data value: fields are names, rules and public numbers only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class NablaDPError(Exception):
    """Base of all errors. ``fix`` is one sentence that says what to do; ``fields`` are machine-readable facts."""

    def __init__(self, message: str, *, fix: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.message} {self.fix}".strip()

    def __reduce__(self) -> Any:  # keyword-only fields survive pickling between processes
        return _rebuild, (type(self), self.message, self.fix, self.fields)

    def to_json(self) -> dict[str, Any]:
        return {"error": type(self).__name__, "message": self.message, "fix": self.fix, **self.fields}


def _rebuild(kind: type[NablaDPError], message: str, fix: str, fields: dict[str, Any]) -> NablaDPError:
    return kind(message, fix=fix, **fields)


class SchemaError(NablaDPError, ValueError):
    """A schema contradicts itself, or a file is not a schema."""


class UnknownAttribute(NablaDPError, KeyError):
    """A name that the schema does not have; suggests the nearest one it does."""

    @classmethod
    def named(cls, name: str, known: Iterable[str]) -> UnknownAttribute:
        known = list(known)
        near = difflib.get_close_matches(str(name), known, n=1)
        fix = f"Did you mean {near[0]!r}?" if near else f"Known attributes: {_listing(known)}."
        return cls(f"There is no attribute {name!r}.", fix=fix, attribute=str(name), nearest=near[0] if near else None)


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


class ReleaseError(NablaDPError, RuntimeError):
    """A release cannot be written or read."""


class AuditError(NablaDPError, ValueError):
    """An audit cannot be carried out on this mechanism or instance."""


def _listing(names: list[str], most: int = 12) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


class MissingPart(NablaDPError, ImportError):
    """A feature needs a package that is not installed."""
