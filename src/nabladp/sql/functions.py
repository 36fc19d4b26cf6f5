"""The row-wise functions that a query may use: total ones only, each with the range of its values."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.schema.rules import number_label
from nabladp.sql.domains import BOOLEAN, MOST_VALUES, NULL, Domain, Refused, Value, union
from nabladp.sql.expressions import Bools, Cells, Expression, Function, union_of_nulls

Domains = Sequence[Domain]
_EXACT = 2.0**53


# ---- numbers ---------------------------------------------------------------------------------------------------------


def numbers(arguments: Sequence[Expression], what: str) -> list[Domain]:
    """The domains of arguments that must be numbers; truth values count as 0 and 1."""
    result = []
    for argument in arguments:
        domain = argument.domain
        if domain.kind == "boolean":
            domain = Domain.of_values("number", [int(value) for value in domain.values or ()], domain.nullable)
        elif domain.kind == "null":
            domain = Domain("number", True, (), 0, 0, True)
        elif domain.kind != "number":
            raise Refused(f"{what} takes numbers, not text", "Compare text with =, IN or LIKE, or CAST it to a number.")
        result.append(domain)
    return result


@dataclass(frozen=True)
class Arithmetic(Function):
    """+, −, ·: ranges follow from the ends."""

    sign: str

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        first, second = numbers(arguments, f"'{self.sign}'")
        compute = _ARITHMETIC[self.sign]
        if self.sign == "*":
            ends = [compute(a, b) for a in (first.low, first.high) for b in (second.low, second.high)]
        elif self.sign == "+":
            ends = [first.low + second.low, first.high + second.high]
        else:
            ends = [first.low - second.high, first.high - second.low]
        nonzero = self.sign == "*" and first.nonzero and second.nonzero
        whole = first.whole and second.whole
        return Domain.interval(min(ends), max(ends), whole=whole, nullable=False, nonzero=nonzero)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        first, second = (cell.data.astype(kind) for cell in cells)
        return Cells(_ARITHMETIC[self.sign](first, second))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@dataclass(frozen=True)
class Divide(Function):
    """/, // (towards zero) and % (with the sign of the first number), by anything that is never 0."""

    sign: str

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        first, second = numbers(arguments, f"'{self.sign}'")
        if second.contains_zero():
            raise Refused("This may divide by 0", f"Write x {self.sign} NULLIF(y, 0): NULL where y is 0.")
        if self.sign != "/" and not (first.whole and second.whole):
            raise Refused(f"'{self.sign}' takes whole numbers", "Use FLOOR(x / y), or CAST both to INTEGER.")
        if self.sign == "%":
            most = max(abs(second.low), abs(second.high)) - 1
            low = max(first.low, -most) if first.low < 0 else 0
            high = min(first.high, most) if first.high > 0 else 0
            return Domain.interval(low, high, whole=True, nullable=False)
        least = self._smallest(second)
        ends = [a / b for a in (first.low, first.high) for b in least]
        if self.sign == "//":
            return Domain.interval(math.trunc(min(ends)), math.trunc(max(ends)), whole=True, nullable=False)
        return Domain.interval(min(ends), max(ends), whole=False, nullable=False, nonzero=first.nonzero)

    @staticmethod
    def _smallest(divisor: Domain) -> list[float]:
        """Divisors at which a quotient is largest or smallest."""
        if divisor.values:
            negative = [float(v) for v in divisor.values if float(v) < 0]
            positive = [float(v) for v in divisor.values if float(v) > 0]
            return [*({max(negative), min(negative)} if negative else ()), *({min(positive), max(positive)} if positive else ())]
        if divisor.low > 0 or divisor.high < 0:
            return [divisor.low, divisor.high]
        if divisor.whole:  # all but 0
            return [divisor.low, -1, 1, divisor.high]
        raise Refused(
            "The divisor may come arbitrarily close to 0",
            "Bound it away from 0, for example x / GREATEST(y, 1).",
        )

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = (cell.data for cell in cells)
        if self.sign == "/":
            return Cells(first / second.astype(np.float64))
        first, second = first.astype(np.int64), second.astype(np.int64)
        divisor = np.where(second == 0, 1, second)
        quotient = np.abs(first) // np.abs(divisor) * np.sign(first) * np.sign(divisor)
        return Cells(quotient if self.sign == "//" else first - quotient * divisor)


@dataclass(frozen=True)
class Monotone(Function):
    """A function of one number that never falls, so that its ends are those of its argument."""

    name: str
    compute: Callable[[Any], Any]
    whole: bool = False
    least: float = -math.inf  # the smallest argument
    open: bool = False  # which is itself left out
    keeps_whole: bool = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, self.name)
        if domain.low < self.least or (self.open and domain.low <= self.least):
            raise Refused(
                f"{self.name} is not defined for every value that this may take",
                f"Bound it from below, for example {self.name}(GREATEST(x, 1)).",
            )
        if domain.whole and (self.keeps_whole or self.whole):
            return Domain.interval(domain.low, domain.high, whole=True, nullable=False)
        ends = [self.compute(np.float64(end)) for end in (domain.low, domain.high)]
        return Domain.interval(float(ends[0]), float(ends[1]), whole=self.whole, nullable=False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data = cells[0].data
        if data.dtype.kind in "iub" and (self.keeps_whole or self.whole):
            return Cells(data.astype(np.int64))
        result = self.compute(data.astype(np.float64))
        return Cells(result.astype(np.int64) if self.whole else result)


@dataclass(frozen=True)
class Round(Function):
    """Half away from zero, to a number of digits."""

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        domain, digits = numbers(arguments[:1], "ROUND")[0], self._digits(arguments)
        whole = digits <= 0
        ends = [_round(np.float64(end), digits) for end in (domain.low, domain.high)]
        return Domain.interval(float(ends[0]), float(ends[1]), whole=whole or domain.whole, nullable=False)

    @staticmethod
    def _digits(arguments: Sequence[Expression]) -> int:
        if len(arguments) == 1:
            return 0
        digits = arguments[1].constant
        if not isinstance(digits, int) or not -15 <= digits <= 15:
            raise Refused("ROUND takes a constant number of digits", "Write ROUND(x, 2).")
        return digits

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        result = _round(cells[0].data.astype(np.float64), self._digits(arguments))
        return Cells(result.astype(np.int64) if domain.whole else result)


def _round(value: Any, digits: int) -> Any:
    factor = 10.0 ** abs(digits)
    scaled = value * factor if digits >= 0 else value / factor
    away = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return away / factor if digits >= 0 else away * factor


@dataclass(frozen=True)
class Absolute(Function):
    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "ABS")
        low = 0 if domain.low <= 0 <= domain.high else min(abs(domain.low), abs(domain.high))
        high = max(abs(domain.low), abs(domain.high))
        return Domain.interval(low, high, whole=domain.whole, nullable=False, nonzero=domain.nonzero)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(np.abs(cells[0].data.astype(np.int64 if domain.whole else np.float64)))


@dataclass(frozen=True)
class Power(Function):
    """To a constant whole power from 0 to 8."""

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        domain, exponent = numbers(arguments[:1], "POWER")[0], self._exponent(arguments)
        ends = [domain.low**exponent, domain.high**exponent]
        if domain.low < 0 < domain.high and exponent % 2 == 0:
            ends.append(0)
        return Domain.interval(min(ends), max(ends), whole=domain.whole, nullable=False)

    @staticmethod
    def _exponent(arguments: Sequence[Expression]) -> int:
        exponent = arguments[1].constant
        if not isinstance(exponent, int) or isinstance(exponent, bool) or not 0 <= exponent <= 8:
            raise Refused("POWER takes a constant whole exponent from 0 to 8", "Use SQRT for roots, EXP for exponentials.")
        return exponent

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        return Cells(cells[0].data.astype(kind) ** self._exponent(arguments))


@dataclass(frozen=True)
class Extreme(Function):
    """LEAST or GREATEST of what is not NULL."""

    name: str
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        domains = numbers(arguments, self.name)
        pick = min if self.name == "LEAST" else max
        present = [d for d in domains if not d.nullable]
        low, high = pick(d.low for d in domains), pick(d.high for d in domains)
        if len(present) < len(domains):  # a NULL among them leaves the others alone
            low, high = min(d.low for d in domains), max(d.high for d in domains)
            if present and self.name == "LEAST":
                high = min(d.high for d in present)
            elif present:
                low = max(d.low for d in present)
        return Domain.interval(low, high, whole=all(d.whole for d in domains), nullable=not present)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        nothing = np.iinfo(np.int64) if domain.whole else np.finfo(np.float64)
        rest = nothing.max if self.name == "LEAST" else nothing.min
        combine = np.minimum if self.name == "LEAST" else np.maximum
        filled = [np.where(cell.is_null(), rest, cell.data.astype(kind)) for cell in cells]
        null = np.logical_and.reduce([cell.is_null() for cell in cells])
        return Cells(np.where(null, 0, combine.reduce(filled)).astype(kind), null)


# ---- comparison and logic --------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Compare(Function):
    sign: str

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = comparable(cells, arguments)
        return Cells(np.asarray(_COMPARE[self.sign](first, second), np.bool_))


def check_comparable(arguments: Sequence[Expression]) -> None:
    kinds = {argument.domain.kind for argument in arguments} - {"null"}
    if "boolean" in kinds and "number" in kinds:
        kinds.discard("boolean")
    if len(kinds) > 1:
        raise Refused(f"This compares {' with '.join(sorted(kinds))}", "Compare values of one kind, or CAST one of them.")


def comparable(cells: Sequence[Cells], arguments: Sequence[Expression]) -> list[NDArray[Any]]:
    """Numbers whose order is that of the values: text by its declared order, or else by its characters."""
    if not any(argument.domain.is_text for argument in arguments):
        return [cell.data for cell in cells]
    order = _text_order([argument.domain for argument in arguments])
    ranks = [np.asarray([order[value] for value in argument.domain.values or ("",)]) for argument in arguments]
    return [rank[cell.data.astype(np.int64)] for rank, cell in zip(ranks, cells, strict=True)]


def _text_order(domains: Domains) -> dict[Value, int]:
    texts = {value for domain in domains for value in domain.values or ("",)}
    for domain in domains:
        if domain.ordered and texts <= {*(domain.values or ()), ""}:
            return {value: i for i, value in enumerate(dict.fromkeys(("", *(domain.values or ()))))}
    return {value: i for i, value in enumerate(sorted(texts, key=str))}


@dataclass(frozen=True)
class Member(Function):
    """IN a list: NULL where nothing is equal and something in the list is NULL."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        return BOOLEAN.with_null(any(argument.domain.nullable for argument in arguments))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, *others = comparable(cells, arguments)
        equal = np.zeros(len(first), np.bool_)
        unsure = cells[0].is_null().copy()
        for other, cell in zip(others, cells[1:], strict=True):
            null = cell.is_null()
            equal |= (first == other) & ~null & ~cells[0].is_null()
            unsure |= null
        return Cells(equal, unsure & ~equal)


@dataclass(frozen=True)
class IsNull(Function):
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(cells[0].is_null())


def truths(arguments: Sequence[Expression], what: str) -> None:
    for argument in arguments:
        if argument.domain.kind not in ("boolean", "null"):
            raise Refused(f"{what} takes conditions", "Write a comparison, such as x = 1 or x IS NOT NULL.")


@dataclass(frozen=True)
class Connective(Function):
    """AND or OR, with three truth values."""

    name: str
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        truths(arguments, self.name)
        return BOOLEAN.with_null(any(argument.domain.nullable for argument in arguments))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        decisive = self.name == "OR"  # one true decides an OR, one false an AND
        decided = np.zeros(len(cells[0].data), np.bool_)
        unsure = decided.copy()
        for cell in cells:
            null = cell.is_null()
            decided |= (cell.data.astype(np.bool_) == decisive) & ~null
            unsure |= null
        return Cells(decided if decisive else ~decided, unsure & ~decided)


@dataclass(frozen=True)
class Not(Function):
    def domain(self, arguments: Sequence[Expression]) -> Domain:
        truths(arguments, "NOT")
        return BOOLEAN

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(~cells[0].data.astype(np.bool_))


# ---- choosing --------------------------------------------------------------------------------------------------------


def translate(cell: Cells, argument: Expression, domain: Domain) -> NDArray[Any]:
    """Values of one branch in the form of the whole expression: texts as positions in its own list."""
    if domain.is_text:
        index = {value: i for i, value in enumerate(domain.values or ())}
        table = np.asarray([index.get(value, 0) for value in argument.domain.values or ("",)])
        return np.asarray(table[cell.data.astype(np.int64)]) if argument.domain.is_text else np.zeros(len(cell.data), np.int64)
    if domain.kind == "number":
        return cell.data.astype(np.int64 if domain.whole else np.float64)
    return cell.data.astype(np.bool_)


@dataclass(frozen=True)
class Case(Function):
    """Arguments: condition, value, condition, value, …, and the value where no condition holds."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        conditions, values = arguments[:-1:2], [*arguments[1:-1:2], arguments[-1]]
        truths(conditions, "CASE WHEN")
        nullable = any(value.domain.nullable for value in values)
        return union([value.domain for value in values], nullable)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data, null = translate(cells[-1], arguments[-1], domain), cells[-1].is_null()
        pairs = list(zip(cells[:-1:2], cells[1:-1:2], arguments[1:-1:2], strict=True))
        for condition, value, argument in reversed(pairs):
            holds = condition.data.astype(np.bool_) & ~condition.is_null()
            data = np.where(holds, translate(value, argument, domain), data)
            null = np.where(holds, value.is_null(), null)
        return Cells(data, null)


@dataclass(frozen=True)
class Coalesce(Function):
    """The first that is not NULL."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        reached = []
        for argument in arguments:
            reached.append(argument.domain)
            if not argument.domain.nullable:
                break
        return union(reached, all(domain.nullable for domain in reached))

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data, null = translate(cells[-1], arguments[-1], domain), cells[-1].is_null()
        for cell, argument in reversed(list(zip(cells[:-1], arguments[:-1], strict=True))):
            data = np.where(cell.is_null(), data, translate(cell, argument, domain))
            null = cell.is_null() & null
        return Cells(data, null)


@dataclass(frozen=True)
class NullIf(Function):
    """NULL where both are equal, otherwise the first."""

    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        check_comparable(arguments)
        domain, value = arguments[0].domain, arguments[1].constant
        if value is None or domain.kind != "number":
            return domain.with_null()
        if domain.values is not None:
            return Domain.of_values("number", [v for v in domain.values if v != value], nullable=True)
        zero = domain.nonzero or value == 0
        return Domain.interval(domain.low, domain.high, whole=domain.whole, nullable=True, nonzero=zero)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = comparable(cells, arguments)
        equal = (first == second) & ~cells[1].is_null()
        return Cells(cells[0].data, union_of_nulls([cells[0].null, equal]))


# ---- text, dates and casts: one value of the argument at a time ------------------------------------------------------


@dataclass(frozen=True)
class ByValue(Function):
    """A function of one argument whose values can be listed, worked out once for each; None is NULL."""

    name: str
    compute: Callable[[Any], Value | None]

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        images = self._images(arguments[0])
        present = [image for image in images if image is not None]
        if not present:
            return NULL
        kinds = {_kind(image) for image in present}
        return Domain.of_values(kinds.pop(), present, nullable=len(present) < len(images))

    def _images(self, argument: Expression) -> list[Value | None]:
        values = argument.domain.values
        if values is None:
            raise Refused(
                f"{self.name} takes values that can be listed, at most {MOST_VALUES:,}",
                "Group the values first, for example with FLOOR(x / 10).",
            )
        return [self.compute(value) for value in values]

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        images = self._images(arguments[0])
        if domain.kind == "null":
            return Cells(np.zeros(len(cells[0].data)), np.ones(len(cells[0].data), np.bool_))
        position = self._positions(cells[0], arguments[0])
        index = {value: i for i, value in enumerate(domain.values or ())}
        table = [index.get(image, 0) if domain.is_text else (image or 0) for image in images]
        missing = np.asarray([image is None for image in images])
        kind = {"text": np.int64, "boolean": np.bool_}.get(domain.kind, np.int64 if domain.whole else np.float64)
        return Cells(np.asarray(table, dtype=kind)[position], missing[position] if missing.any() else None)

    @staticmethod
    def _positions(cell: Cells, argument: Expression) -> NDArray[np.integer]:
        if argument.domain.is_text:
            return cell.data.astype(np.int64)
        values = np.asarray(argument.domain.values or (0,))
        return np.minimum(np.searchsorted(values, cell.data), len(values) - 1)


def _kind(value: Value) -> Any:
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


@dataclass(frozen=True)
class Concat(Function):
    """Texts one after the other; ``||`` is NULL where one is, CONCAT leaves NULLs out."""

    strict: bool = True  # type: ignore[misc]

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        lists = [self._texts(argument) for argument in arguments]
        if math.prod(map(len, lists)) > MOST_VALUES:
            raise Refused("Too many texts could come out of this", "Group by the columns themselves instead.")
        joined = [""]
        for texts in lists:
            joined = [start + text for start in joined for text in texts]
        return Domain.of_values("text", joined)

    def _texts(self, argument: Expression) -> list[str]:
        domain = argument.domain
        if domain.kind == "null":
            return [""]
        if domain.values is None:
            raise Refused("Text can be made of values that can be listed", "Group the values first.")
        texts = [as_text(value) for value in domain.values]
        return texts if self.strict or not domain.nullable else [*texts, ""]

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        index = {value: i for i, value in enumerate(domain.values or ())}
        lists = [self._texts(argument) for argument in arguments]
        position = np.zeros(len(cells[0].data), np.int64)
        for cell, argument, texts in zip(cells, arguments, lists, strict=True):
            own = ByValue._positions(cell, argument) if argument.domain.values else np.zeros(len(cell.data), np.int64)
            if not self.strict and argument.domain.nullable:
                own = np.where(cell.is_null(), len(texts) - 1, own)
            position = position * len(texts) + own
        joined = [""]
        for texts in lists:
            joined = [start + text for start in joined for text in texts]
        return Cells(np.asarray([index[text] for text in joined])[position])


def as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else number_label(value)


def like_pattern(pattern: str, escape: str | None, ignore_case: bool) -> re.Pattern[str]:
    """LIKE as a regular expression: % is anything, _ one character."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def date_of(value: Any) -> dt.datetime:
    """The moment that a declared text stands for."""
    try:
        return dt.datetime.fromisoformat(str(value))
    except ValueError:
        raise Refused(
            "Not every declared value of this column is a date", "Declare dates as 2026-01-31, or compare the text itself."
        ) from None


DATE_PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "week": lambda d: d.isocalendar().week,
    "day": lambda d: d.day,
    "dayofweek": lambda d: d.isoweekday() % 7,
    "dow": lambda d: d.isoweekday() % 7,
    "isodow": lambda d: d.isoweekday(),
    "doy": lambda d: d.timetuple().tm_yday,
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "hour": lambda d: d.hour,
    "minute": lambda d: d.minute,
    "second": lambda d: d.second,
}


def date_part(part: str) -> ByValue:
    return ByValue(part.upper(), lambda value: DATE_PARTS[part](date_of(value)))


def truncate_date(unit: str) -> ByValue:
    """The first day of the unit, as text."""

    def first(value: Any) -> str:
        day = date_of(value)
        if unit == "week":
            return (day - dt.timedelta(days=day.weekday())).date().isoformat()
        month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1}.get(unit, day.month)
        return day.replace(month=month, day=day.day if unit == "day" else 1).date().isoformat()

    return ByValue("DATE_TRUNC", first)


# ---- casts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToInteger(Function):
    """Of numbers, half to even; of truth values 0 or 1."""

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "CAST")
        low, high = (int(np.rint(end)) for end in (domain.low, domain.high))
        return Domain.interval(low, high, whole=True, nullable=False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data = cells[0].data
        return Cells((np.rint(data) if data.dtype.kind == "f" else data).astype(np.int64))


@dataclass(frozen=True)
class ToReal(Function):
    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "CAST")
        return domain

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(cells[0].data.astype(np.int64 if domain.whole else np.float64))


def parse_number(value: Any) -> Value:
    """A declared text as the number it says."""
    try:
        number = float(value)
    except ValueError:
        raise Refused(
            "Not every declared value of this column is a number", "Use CASE to give each value a number."
        ) from None
    return int(number) if number.is_integer() else number


MONOTONE = {
    "FLOOR": Monotone("FLOOR", np.floor, whole=True),
    "CEIL": Monotone("CEIL", np.ceil, whole=True),
    "TRUNC": Monotone("TRUNC", np.trunc, whole=True),
    "SIGN": Monotone("SIGN", np.sign),
    "SQRT": Monotone("SQRT", np.sqrt, least=0),
    "EXP": Monotone("EXP", np.exp),
    "LN": Monotone("LN", np.log, least=0, open=True),
    "LOG10": Monotone("LOG10", np.log10, least=0, open=True),
    "LOG2": Monotone("LOG2", np.log2, least=0, open=True),
}
