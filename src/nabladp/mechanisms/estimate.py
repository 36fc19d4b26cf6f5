"""Numbers from a release with their intervals: one of them, or one for each group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from nabladp.arrays import Integers
from nabladp.displayed import Displayed
from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.intervals import Interval
from nabladp.mechanisms.tidy import label_column, tidy_table
from nabladp.schema import Attribute, Schema
from nabladp.views.exports import Exported, short_text, text_table
from nabladp.views.view import format_percent

if TYPE_CHECKING:
    import pyarrow as pa

LEVEL = 0.95
_MOST_LISTED = 8


@dataclass(frozen=True, repr=False)
class Estimate(Exported):
    """A number from a release, with the interval that noise (and for bins, their width) allows it.

    ``value`` is None where the noise hides it, an end of the interval where nothing is known. ``sources`` are the
    released tables that it was made from.
    """

    value: float | str | None
    low: float | str | None
    high: float | str | None
    level: float
    note: str = ""
    sources: tuple[str, ...] = ()
    what: ClassVar[str] = ""  # a single number has no heading

    def __float__(self) -> float:
        return math.nan if self.value is None else float(self.value)

    def __iter__(self) -> Iterator[float | str | None]:
        """value, low, high"""
        return iter((self.value, self.low, self.high))

    def __str__(self) -> str:
        ends = (short_text(end) or "not known" for end in (self.low, self.high))
        return f"{short_text(self.value) or 'hidden by the noise'} ({' to '.join(ends)})"

    def __repr__(self) -> str:
        source = f"from {', '.join(self.sources)}; costs nothing" if self.sources else ""
        parts = (f"{self}, {format_percent(self.level)} interval", self.note, source)
        return f"Estimate({'; '.join(part for part in parts if part)})"

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({"value": [self.value], "low": [self.low], "high": [self.high]})


def code_of(attribute: Attribute, value: Any) -> int:
    """The code of a value or its label; refuses others."""
    code = attribute.code(value)
    if code is None:
        first = [attribute.label(own) for own in range(min(attribute.size, _MOST_LISTED))]
        more = ", …" if attribute.size > _MOST_LISTED else ""
        raise MechanismError(
            f"{quote(value)} is not a value of {attribute.name!r}.", fix=f"Values: {', '.join(first)}{more}."
        )
    return code


class Comparable(Protocol):
    """Compares numbers of groups, by the indices of pairs of them."""

    def difference(self, one: Integers, other: Integers) -> Interval: ...

    def ratio(self, one: Integers, other: Integers) -> Interval: ...


@dataclass(frozen=True, eq=False, repr=False)
class GroupEstimates(Displayed, Exported):
    """An estimate for each group: ``answer["female"]``, or all of them as a tidy table.

    ``difference("female", "male")`` and ``ratio("female", "male")`` compare two groups, with an interval that knows
    how their noise belongs together.
    """

    displayed_as = "table"

    what: str  # such as "mean of income"
    schema: Schema
    by: tuple[str, ...]
    codes: Integers  # a row for each group
    found: Interval
    level: float
    note: str
    sources: tuple[str, ...]
    compared: Comparable
    texts: Mapping[int, str] | None = None  # where values are codes: their labels

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_arrow().to_pylist())

    def __repr__(self) -> str:
        head = f"{self.what} by {' and '.join(self.by)}, {format_percent(self.level)} intervals; costs nothing"
        notes = [f"{self.note[0].upper()}{self.note[1:]}."] if self.note else []
        return "\n".join([head, text_table(self.to_arrow()), f"From {', '.join(self.sources)}.", *notes])

    def __getitem__(self, group: Any) -> Estimate:
        return self._estimate(Interval(*(part[[self._index(group)]] for part in self.found)))

    def difference(self, one: Any, other: Any) -> Estimate:
        """The number of one group minus that of another."""
        return self._compared("difference", one, other)

    def ratio(self, one: Any, other: Any) -> Estimate:
        """The number of one group over that of another."""
        return self._compared("ratio", one, other)

    def _compared(self, how: str, one: Any, other: Any) -> Estimate:
        chosen = self._index(one), self._index(other)
        if chosen[0] == chosen[1]:
            raise MechanismError("A group is compared with itself.", fix="Name two groups.")
        if self.texts is not None:
            raise MechanismError(
                f"The {self.what} is not a number, so it has no {how}.", fix="Compare counts or shares."
            )
        return self._estimate(getattr(self.compared, how)(*map(np.atleast_1d, chosen)), numbers=True)

    def _index(self, group: Any) -> int:
        """Of the group with these values, one for each attribute that groups were made by."""
        values = group if isinstance(group, tuple) else (group,)
        if len(values) != len(self.by):
            raise MechanismError(
                f"A group has {len(self.by)} values, for {' and '.join(self.by)}.", fix="Give one value for each."
            )
        codes = [code_of(self.schema[name], value) for name, value in zip(self.by, values, strict=True)]
        found = np.flatnonzero((self.codes == codes).all(axis=1))
        if not len(found):
            raise MechanismError(f"The group {quote(group)} is not part of this answer.", fix="Drop its 'where'.")
        return int(found[0])

    def _estimate(self, found: Interval, numbers: bool = False) -> Estimate:
        return single_estimate(found, self.level, self.note, self.sources, None if numbers else self.texts)

    def to_arrow(self) -> pa.Table:
        names = {name: label_column(self.schema[name], self.codes[:, i]) for i, name in enumerate(self.by)}
        ends = ([_shown_value(own, self.texts) for own in part.tolist()] for part in self.found)
        table = tidy_table(names, dict(zip(("value", "low", "high"), ends, strict=True)))
        return table.drop_columns(table.column_names[-1:])  # no noise scale: numbers are made of several noisy ones


def single_estimate(
    found: Interval, level: float, note: str, sources: tuple[str, ...], texts: Mapping[int, str] | None
) -> Estimate:
    ends = [_shown_value(float(part[0]), texts) for part in found]
    return Estimate(ends[0], ends[1], ends[2], level, note, sources)


def _shown_value(value: float, texts: Mapping[int, str] | None) -> float | str | None:
    if not math.isfinite(value):
        return None
    return value if texts is None else texts[int(value)]
