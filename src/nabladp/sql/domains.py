"""What is known of an expression before any row is read: its kind, its range, its values where they can be listed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nabladp.schema import Attribute

Kind = Literal["number", "text", "boolean", "null"]
Value = str | int | float | bool
MOST_VALUES = 4096  # values that are listed one by one
LARGEST = 2**53  # whole numbers up to this are exact as doubles


class Refused(Exception):
    """Something that cannot be answered whatever the rows hold; the parser adds the position in the query."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


@dataclass(frozen=True)
class Domain:
    """All values that an expression can take, by the schema alone; it may allow more than occur, never fewer.

    ``values``: each of them, numbers sorted and text in declared order; None where they are too many, or not countable.
    Numbers lie between ``low`` and ``high``. ``ordered``: text whose declared order decides what is larger.
    """

    kind: Kind
    nullable: bool = False
    values: tuple[Value, ...] | None = None
    low: float = 0
    high: float = 0
    whole: bool = False
    nonzero: bool = False
    ordered: bool = False

    @classmethod
    def of_values(cls, kind: Kind, values: Iterable[Value], nullable: bool = False, ordered: bool = False) -> Domain:
        listed = tuple(dict.fromkeys(values))
        if kind == "number":
            return _numbers(sorted(listed), nullable)
        return cls(kind, nullable, listed if kind == "text" else tuple(sorted(listed)), ordered=ordered)

    @classmethod
    def interval(cls, low: float, high: float, *, whole: bool, nullable: bool, nonzero: bool = False) -> Domain:
        """A range; whole numbers are listed where they are few."""
        if not (math.isfinite(low) and math.isfinite(high)) or max(abs(low), abs(high)) > LARGEST:
            raise Refused(
                "The values of this expression may become too large",
                "Clamp an argument first: write LEAST({0}, 20) for {0}.",
            )
        if whole and high - low < MOST_VALUES:
            return _numbers([value for value in range(int(low), int(high) + 1) if value or not nonzero], nullable)
        if whole:
            low, high = int(low), int(high)
        return cls("number", nullable, None, low, high, whole, nonzero or low > 0 or high < 0)

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    def with_null(self, nullable: bool = True) -> Domain:
        return replace(self, nullable=nullable)

    def contains_zero(self) -> bool:
        return not self.nonzero and self.low <= 0 <= self.high


BOOLEAN = Domain("boolean", values=(False, True), high=1, whole=True)
NULL = Domain("null", nullable=True, values=())


def _numbers(values: Sequence[Value], nullable: bool) -> Domain:
    numbers = [float(value) if isinstance(value, float) else int(value) for value in values]
    whole = all(float(number).is_integer() for number in numbers)
    listed = tuple(int(number) for number in numbers) if whole else tuple(map(float, numbers))
    low, high = (listed[0], listed[-1]) if listed else (0, 0)
    if max(abs(low), abs(high)) > LARGEST:
        raise Refused("A number here is too large", "Use numbers up to 2^53.")
    return Domain("number", nullable, listed, low, high, whole, nonzero=0 not in listed)


def attribute_domain(attribute: Attribute) -> Domain:
    """The values of a column. A number or date outside its declared domain (``unknown = "other"``) reads as NULL; text
    outside it as the label of the others."""
    missing = attribute.null == "category"
    if attribute.kind == "boolean":
        return replace(BOOLEAN, nullable=missing or attribute.unknown == "other")
    if attribute.low is not None and attribute.high is not None and attribute.kind == "integer":
        nullable = missing or attribute.unknown == "other"
        return Domain.interval(attribute.low, attribute.high, whole=True, nullable=nullable)
    if attribute.kind == "real":
        low, high = value_range(attribute)
        return Domain.interval(low, high, whole=False, nullable=missing or attribute.unknown == "other")
    if isinstance(attribute.values[0], str):
        others = attribute.unknown == "other"
        if attribute.kind == "date":
            return Domain.of_values("text", attribute.values, missing or others, ordered=True)
        texts = (*attribute.values, *((attribute.other,) if others else ()))
        return Domain.of_values("text", texts, missing, ordered=attribute.kind == "ordered")
    return Domain.of_values("number", attribute.values, missing or attribute.unknown == "other")


def value_of(attribute: Attribute, code: int) -> Value | None:
    """The value of a code in SQL: a declared value as it is, bins and the others by their text; None is NULL."""
    if code == attribute.null_code:
        return None
    if code == attribute.other_code or attribute.kind == "real":
        return attribute.text(code)
    if attribute.kind == "boolean":
        return bool(code)
    return attribute.integers[code] if attribute.integers is not None else attribute.values[code]


def value_range(attribute: Attribute) -> tuple[float, float]:
    """Lowest and highest number of a real attribute."""
    return float(attribute.edges[0]), float(attribute.edges[-1])


def as_number(domain: Domain) -> Domain:
    """Truth values as 0 and 1."""
    if domain.kind != "boolean":
        return domain
    return Domain.of_values("number", [int(value) for value in domain.values or ()], domain.nullable)


def union(domains: Sequence[Domain], nullable: bool) -> Domain:
    """Any value of any of these: the result of a CASE or a COALESCE."""
    kinds = {domain.kind for domain in domains} - {"null"}
    if not kinds:
        return NULL
    if kinds == {"boolean", "number"}:
        domains = [as_number(domain) for domain in domains]
        kinds = {"number"}
    if len(kinds) > 1:
        raise Refused(
            f"One expression gives {' and '.join(sorted(kinds))} values",
            "Let every branch give values of one kind; CAST turns one into another.",
        )
    typed = [domain for domain in domains if domain.kind != "null"]
    kind = typed[0].kind
    if kind == "boolean":
        return replace(BOOLEAN, nullable=nullable)
    if all(domain.values is not None for domain in typed):
        listed = [value for domain in typed for value in domain.values or ()]
        if len(set(listed)) <= MOST_VALUES:
            ordered = kind == "text" and all(own.ordered and own.values == typed[0].values for own in typed)
            return Domain.of_values(kind, listed, nullable, ordered)
    low, high = min(domain.low for domain in typed), max(domain.high for domain in typed)
    nonzero = all(domain.nonzero for domain in typed)
    return Domain.interval(low, high, whole=all(own.whole for own in typed), nullable=nullable, nonzero=nonzero)
