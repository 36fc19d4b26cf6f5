"""One attribute: a finite, declared domain and the code of each of its values.

Codes count from 0: declared values (or integers, or bins) in order, then ``other`` if any, then null if any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.checks import is_whole
from nabladp.errors import OutOfRange, quote
from nabladp.schema.rules import KINDS, Declaration, bin_label, check, number_label, refuse_unknown_keys

__all__ = ["KINDS", "Attribute"]

NULL_LABEL = "(null)"


@dataclass(frozen=True)
class Attribute(Declaration):
    """A column of the table, with the domain a person declared for it from public knowledge.

    ``kind`` decides which of the other fields are needed:

    - ``categorical``: ``values``, all text or all numbers.
    - ``ordered``: ``values`` in order, lowest first.
    - ``integer``: ``low`` and ``high``, both inside.
    - ``real``: ``edges`` of bins [e0, e1), …, [ek-1, ek]; or ``low`` and ``high``, for ten bins of one width.
      ``decode`` says how a bin becomes a number again: ``midpoint``, ``uniform`` (anywhere in the bin), ``lower``,
      ``upper``, or one number per bin. Sums and means in SQL are of the numbers themselves, whatever the bins are.
    - ``boolean``: nothing; code 0 is false, 1 is true.

    ``null`` is ``refuse`` or ``category``; ``null_values`` are values that mean "missing" besides an empty field, such
    as "?" or 999. ``unknown`` (a value outside the domain) is ``refuse``, ``other`` (a
    category labelled by ``other``) or, for numbers, ``clamp`` (the nearest end of the domain).
    """

    def __post_init__(self) -> None:
        for name, value in check(self).items():
            object.__setattr__(self, name, value)

    # How many codes there are

    @property
    def integers(self) -> range | None:
        """All declared values of an integer attribute."""
        return None if self.low is None or self.high is None else range(int(self.low), int(self.high) + 1)

    @property
    def ordered_size(self) -> int:
        """The number of codes that stand for declared values: all but ``other`` and null."""
        if self.low is not None and self.high is not None:
            return int(self.high - self.low) + 1
        if self.kind == "boolean":
            return 2
        return len(self.edges) - 1 if self.kind == "real" else len(self.values)

    @property
    def other_code(self) -> int | None:
        return self.ordered_size if self.unknown == "other" else None

    @property
    def null_code(self) -> int | None:
        return self.ordered_size + (self.unknown == "other") if self.null == "category" else None

    @property
    def size(self) -> int:
        return self.ordered_size + (self.unknown == "other") + (self.null == "category")

    # What a code means

    @property
    def is_ordered(self) -> bool:
        return self.kind in ("ordered", "integer", "real")

    @property
    def is_numeric(self) -> bool:
        """Whether an attribute's declared values are numbers in order, so that means and quantiles make sense."""
        return self.kind in ("integer", "real") or (self.kind == "ordered" and not isinstance(self.values[0], str))

    def label(self, code: int) -> str:
        """The text of one code of an attribute; cheap for integer ranges of any width."""
        if not is_whole(code, 0, self.size - 1):
            raise OutOfRange(
                f"Attribute {self.name!r} has codes 0 to {self.size - 1}, not {quote(code)}.", fix="Give one of these."
            )
        if code == self.null_code:
            return NULL_LABEL
        if code == self.other_code:
            return self.other
        if self.low is not None:
            return str(self.low + code)
        if self.kind == "boolean":
            return ("false", "true")[code]
        if self.kind == "real":
            return bin_label(self.edges, code)
        value = self.values[code]
        return value if isinstance(value, str) else number_label(value)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The text of every code of an attribute, in order; no two alike."""
        return tuple(self.label(code) for code in range(self.size))

    @cached_property
    def representatives(self) -> Floats | None:
        """The number each declared code of an attribute stands for, or None where codes are not numbers."""
        if not self.is_numeric:
            return None
        lows, highs = self._bounds
        if not isinstance(self.decode, str):
            return np.asarray(self.decode, dtype=np.float64)
        if self.decode in ("lower", "upper"):
            return lows if self.decode == "lower" else highs
        return lows + (highs - lows) / 2

    @property
    def bin_bounds(self) -> tuple[Floats, Floats] | None:
        """Lowest and highest number behind each declared code of an attribute, or None where codes are not numbers."""
        return self._bounds if self.is_numeric else None

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats]:
        if self.kind == "real":
            edges = np.asarray(self.edges, dtype=np.float64)
            return edges[:-1], edges[1:]
        if self.low is not None and self.high is not None:
            exact = np.arange(self.low, self.high + 1, dtype=np.float64)
        else:
            exact = np.asarray(self.values, dtype=np.float64)
        return exact, exact

    # As text

    def to_json(self) -> dict[str, Any]:
        """An attribute's declaration: only what differs from the defaults, tuples as lists."""
        given = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                given[field.name] = list(value) if isinstance(value, tuple) else value
        return given

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Attribute:
        refuse_unknown_keys(data, [field.name for field in fields(cls)])
        return cls(**{"name": "", "kind": "", **data})
