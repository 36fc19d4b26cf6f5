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
from nabladp.schema.expressions import formula_columns
from nabladp.schema.labels import check_labels, check_words, value_text
from nabladp.schema.levels import check_level, level_of
from nabladp.schema.rules import (
    KINDS,
    NULL_LABEL,
    Declaration,
    bin_label,
    check,
    check_public,
    is_integer_label,
    number_label,
    refusal,
    refuse_unknown_keys,
)

__all__ = ["KINDS", "Attribute"]


@dataclass(frozen=True, repr=False)
class Attribute(Declaration):
    """A column of the table, with the domain a person declared for it from public knowledge.

    ``kind`` decides which of the other fields are needed:

    - ``categorical``: ``values``, all text or all numbers.
    - ``ordered``: ``values`` in order, lowest first.
    - ``integer``: ``low`` and ``high``, both inside.
    - ``real``: ``edges`` of bins [e0, e1), …, [ek-1, ek]; or ``low`` and ``high``, for ten bins of one width.
      ``spikes`` are numbers that many people share, such as an income of 0: each gets a bin of its own.
      ``decode`` says how a bin becomes a number again: ``midpoint``, ``uniform`` (anywhere in the bin), ``smooth``
      (as dense as the bins beside it suggest), ``lower``, ``upper``, or one number per bin. Sums
      and means in SQL are of the numbers themselves, whatever the bins are.
    - ``boolean``: nothing; code 0 is false, 1 is true.
    - ``date``: ``low`` and ``high``, both inside; ``level`` is ``day`` (default), ``month``, ``quarter`` or ``year``.
      Of timestamps the day is read, in UTC.

    A *level* is computed from another attribute and needs no column: with ``derived_from`` and ``level`` a coarser
    period of a date, with ``derived_from`` and ``prefix`` the first characters of a code. :meth:`coarser` makes one.
    ``prefix`` without ``derived_from`` reads only so many first characters of the column.

    ``null`` is ``refuse`` or ``category``; ``null_values`` are values that mean "missing" besides an empty field, such
    as "?" or 999. ``unknown`` (a value outside the domain) is ``refuse``, ``other`` (a
    category labelled by ``other``) or, for numbers, ``clamp`` (the nearest end of the domain).

    ``derived_from`` names the columns that this one is computed from; ``formula`` says how, and synthetic rows then
    follow it exactly: ``"floor(age / 10)"``, ``"age >= 18"`` for truth values, a condition for each value
    (``{"child": "age < 18", "adult": "age >= 18"}``), or the values of one source (``{"north": ["ME", "VT"]}``).

    For people: ``title`` and ``unit`` ("Age", "years") head tables and axes, ``labels`` are shown in place of values,
    and plans accept either: ``labels={1: "Male", 2: "Female"}``. They change neither what is read from a table nor the
    schema's fingerprint.
    """

    def __post_init__(self) -> None:
        for part in (check_level, check, check_words):
            for name, value in part(self).items():
                object.__setattr__(self, name, value)
        self._check_formula()
        object.__setattr__(self, "labels", check_labels(self, self.labels, self._code_of_text))

    def _check_formula(self) -> None:
        columns = formula_columns(self)
        if not isinstance(self.formula, str):
            cases = {key: case if isinstance(case, str) else tuple(case) for key, case in self.formula.items()}
            object.__setattr__(self, "formula", cases)
        if columns and not self.derived_from:
            object.__setattr__(self, "derived_from", columns)
            check_public(self, columns)
        missing = [name for name in columns if name not in self.derived_from]
        if missing or self.name in columns:
            rule = f"its formula reads {(missing or [self.name])[0]!r}, which is not in 'derived_from'"
            raise refusal(self.name, rule, "Name all columns of the formula in 'derived_from', or leave that out.")
        if self.formula and not self.derived_from:
            raise refusal(self.name, "its formula reads no column", 'Write derived_from = ["age"].')

    def __repr__(self) -> str:
        return f"Attribute({', '.join(f'{key}={value!r}' for key, value in self.to_json().items())})"

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
        return self.kind in ("ordered", "integer", "real", "date")

    @property
    def is_numeric(self) -> bool:
        """Whether an attribute's declared values are numbers in order, so that means and quantiles make sense."""
        listed = self.kind in ("ordered", "date")
        return self.kind in ("integer", "real") or (listed and not isinstance(self.values[0], str))

    @property
    def is_computed(self) -> bool:
        """Whether the attribute is a level of another, computed from its codes and not read from the table."""
        return bool(self.derived_from) and (self.level != "" or self.prefix is not None)

    def coarser(self, name: str, level: str | int) -> Attribute:
        """A level of an attribute: ``"month"``, ``"quarter"`` or ``"year"`` of dates, or so many first characters of
        codes. What is released of it is charged to this attribute."""
        return Attribute(**level_of(self, name, level))

    @property
    def heading(self) -> str:
        """The attribute's title, or else its name, with its unit: for the head of a column and beside an axis."""
        return f"{self.title or self.name} ({self.unit})" if self.unit else self.title or self.name

    def text(self, code: int) -> str:
        """The value of one code as text, as the schema writes it; cheap for integer ranges of any width."""
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

    def label(self, code: int) -> str:
        """What tables and reports show for one code: its declared label, or else its text."""
        text = self.text(code)
        return self.labels.get(text, text)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of every code of an attribute, in order; no two alike."""
        return tuple(self.text(code) for code in range(self.size))

    @cached_property
    def code_labels(self) -> tuple[str, ...]:
        """The label of every code of an attribute, in order; no two alike."""
        return tuple(self.labels.get(text, text) for text in self.texts) if self.labels else self.texts

    def code(self, value: Any) -> int | None:
        """The code of a value or of its label, as a plan gives it: 3, 3.0 and "3" are one. None where it is neither."""
        text = NULL_LABEL if value is None and self.null_code is not None else value_text(value)
        if text is None:
            return None
        return self._code_of_text(self._text_of_label.get(text, text))

    def _code_of_text(self, text: str) -> int | None:
        if self.low is None or self.high is None:
            return self._codes_by_text.get(text)
        if is_integer_label(text, int(self.low), int(self.high)):  # a range may be wide: no list of its texts
            return int(text) - int(self.low)
        extra = {self.text(code): code for code in range(self.ordered_size, self.size)}
        return extra.get(text)

    @cached_property
    def _codes_by_text(self) -> dict[str, int]:
        return {self.text(code): code for code in range(self.size)}

    @cached_property
    def _text_of_label(self) -> dict[str, str]:
        return {label: text for text, label in self.labels.items()}

    @cached_property
    def representatives(self) -> Floats | None:
        """The number each declared code of an attribute stands for, or None where codes are not numbers."""
        if not self.is_numeric:
            return None
        lows, highs = self._bounds
        if not isinstance(self.decode, str):
            return np.asarray(self.decode, dtype=np.float64)
        if self.decode in ("lower", "upper"):
            return lows if self.decode == "lower" else np.where(np.nextafter(lows, np.inf) == highs, lows, highs)
        return np.where(np.nextafter(lows, np.inf) == highs, lows, lows + (highs - lows) / 2)

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
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if default is MISSING or value != default:
                given[field.name] = _plain_json(value)
        if self.kind == "date":  # its ends say the same
            listed = given.pop("values")
            given = {key: given.pop(key) for key in ("name", "kind")} | {"low": listed[0], "high": listed[-1]} | given
        return given

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Attribute:
        refuse_unknown_keys(data, [field.name for field in fields(cls)])
        return cls(**{"name": "", "kind": "", **data})


def _plain_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_json(own) for key, own in value.items()}
    return list(value) if isinstance(value, tuple) else value
