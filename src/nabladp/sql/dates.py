"""Dates, which are declared text, and casts; how a query writes them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from nabladp.sql.arithmetic import MONOTONE, Round, ToReal, numbers
from nabladp.sql.conditions import Compare
from nabladp.sql.domains import Refused, Value
from nabladp.sql.expressions import Call, Constant, Expression
from nabladp.sql.syntax import Node, Parse, Reader, constant_number, refuse
from nabladp.sql.texts import as_text, by_value

# ---- dates -----------------------------------------------------------------------------------------------------------


def date_of(value: Any) -> dt.datetime:
    """The moment that a declared text says."""
    try:
        return dt.datetime.fromisoformat(str(value))
    except ValueError:
        raise Refused(
            "Not every declared value of this column is a date",
            "Declare dates as 2026-01-31, or compare the text itself.",
        ) from None


def moment(value: Any) -> str:
    """As a table is read: midnight is the date alone."""
    found = date_of(value)
    return found.isoformat().removesuffix("T00:00:00")


DATE_PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "week": lambda d: d.isocalendar().week,
    "day": lambda d: d.day,
    "dayofmonth": lambda d: d.day,
    "dayofweek": lambda d: d.isoweekday() % 7,
    "dow": lambda d: d.isoweekday() % 7,
    "isodow": lambda d: d.isoweekday(),
    "doy": lambda d: d.timetuple().tm_yday,
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "hour": lambda d: d.hour,
    "minute": lambda d: d.minute,
    "second": lambda d: d.second,
}
_UNITS = ("year", "quarter", "month", "week", "day")
_FORMATS = {"%Y": "{:04}", "%m": "{:02}", "%d": "{:02}", "%H": "{:02}", "%M": "{:02}", "%S": "{:02}"}


def first_day(value: Any, unit: str) -> str:
    """The first day of the unit, as text."""
    day = date_of(value)
    if unit == "week":
        return max(day - dt.timedelta(days=day.weekday()), dt.datetime.min).date().isoformat()
    month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1}.get(unit, day.month)
    return day.replace(month=month, day=day.day if unit == "day" else 1).date().isoformat()


def _date(parse: Parse, node: Node, written: Node) -> Expression:
    argument = parse(_without_cast(written))
    if argument.domain.kind not in ("text", "null"):
        refuse(node, "This takes a column whose declared values are dates", "Declare them as 2026-01-31.")
    return argument


def _without_cast(node: Node) -> Node:
    """A date written as text and cast to a date is that text."""
    while isinstance(node, (exp.Cast, exp.TsOrDsToDate, exp.Paren)):
        if isinstance(node, exp.Cast) and node.to.this.value.upper() not in _DATE_TYPES:
            break
        node = node.this
    return node


def read_part(parse: Parse, node: Node, part: str, date: Node) -> Expression:
    if part not in DATE_PARTS:
        refuse(node, f"A date has no part {part!r} here", f"Use {', '.join(_UNITS)}, dow or doy.")
    return by_value(part.upper(), lambda value: DATE_PARTS[part](date_of(value)), _date(parse, node, date))


def _extract(parse: Parse, node: exp.Extract) -> Expression:
    return read_part(parse, node, str(node.this.name).lower(), node.expression)


def _part(part: str) -> Reader:
    return lambda parse, node: read_part(parse, node, part, node.this)


def _date_trunc(parse: Parse, node: Node) -> Expression:
    unit = str(node.args["unit"].name).lower()
    if unit not in _UNITS:
        refuse(node, "DATE_TRUNC takes year, quarter, month, week or day", "Write DATE_TRUNC('month', day).")
    return by_value("DATE_TRUNC", lambda value: first_day(value, unit), _date(parse, node, node.this))


def _format(parse: Parse, node: exp.TimeToStr) -> Expression:
    pattern = node.args["format"].name if isinstance(node.args["format"], exp.Literal) else "%"
    rest = pattern
    for code in _FORMATS:
        rest = rest.replace(code, "")
    if "%" in rest:
        refuse(node, "STRFTIME takes %Y, %m, %d, %H, %M and %S", "Write STRFTIME(day, '%Y-%m').")

    def text(value: Any) -> str:
        found = date_of(value)
        fields = (found.year, found.month, found.day, found.hour, found.minute, found.second)
        result = pattern
        for (code, form), number in zip(_FORMATS.items(), fields, strict=True):
            result = result.replace(code, form.format(number))
        return str(result)

    return by_value("STRFTIME", text, _date(parse, node, node.this))


# ---- casts -----------------------------------------------------------------------------------------------------------

_SIGNED = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "INT128": 128}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINT": 32, "UBIGINT": 64, "UINT128": 128}
_REAL_TYPES = ("DOUBLE", "FLOAT")
_DECIMAL_TYPES = ("DECIMAL", "BIGDECIMAL", "BIGNUM")
_TEXT_TYPES = ("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR")
_DATE_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME")


def cast_type(node: exp.Cast) -> str:
    kind = node.to.this
    return str(kind.value).upper() if isinstance(kind, exp.DType) else str(kind).upper()


def cast_digits(node: exp.Cast) -> int | None:
    """The decimals of DECIMAL(10, 2); None where there are none named."""
    parts = [constant_number(part.this) for part in node.to.expressions]
    return int(parts[1]) if len(parts) == 2 and isinstance(parts[1], int) and 0 <= parts[1] <= 15 else None


def _cast(parse: Parse, node: exp.Cast) -> Expression:
    target, argument = cast_type(node), parse(node.this)
    safe = isinstance(node, exp.TryCast)
    if target in (*_SIGNED, *_UNSIGNED, *_REAL_TYPES, *_DECIMAL_TYPES) and argument.domain.is_text:
        argument = by_value("CAST", lambda value: _parse_number(value, safe), argument)
    if target in _SIGNED or target in _UNSIGNED:
        return _checked_integer(node, target, Call(MONOTONE["CAST"], (argument,)))
    if target in _REAL_TYPES:
        return Call(ToReal(), (argument,))
    if target in _DECIMAL_TYPES:
        digits = cast_digits(node)
        return Call(ToReal() if digits is None else Round(digits), (argument,))
    if target in _TEXT_TYPES:
        return by_value("CAST", as_text, argument)
    if target == "BOOLEAN" and argument.domain.kind != "text":
        return argument if argument.domain.kind == "boolean" else Call(Compare("<>"), (argument, Constant(0)))
    if target in _DATE_TYPES and argument.domain.kind in ("text", "null"):
        return by_value("CAST", (lambda value: first_day(value, "day")) if target == "DATE" else moment, argument)
    if target == "BOOLEAN":
        refuse(node, "Text is not cast to BOOLEAN", "Write a comparison, such as {0} = 'yes'.")
    refuse(node, f"This cast to {target} may fail", "Cast to INTEGER, DOUBLE, VARCHAR, or text to DATE.")


def _checked_integer(node: exp.Cast, target: str, whole: Expression) -> Expression:
    (domain,) = numbers([whole], "CAST")
    bits = _SIGNED.get(target) or _UNSIGNED[target]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if target in _SIGNED else (0, 2**bits - 1)
    if domain.low < low or domain.high > high:
        refuse(node, f"Values from {domain.low:,} to {domain.high:,} do not fit into {target}", "Cast to BIGINT.")
    return whole


def _parse_number(value: Any, safe: bool) -> Value | None:
    """A declared text as the number it says."""
    text = str(value).strip()
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        if safe:
            return None
        raise Refused("Not every declared value of this column is a number", "Use CASE to give each value a number.")
    return int(number) if number.is_integer() else number


READERS: dict[type[Node], Reader] = {
    exp.Extract: _extract,
    exp.Year: _part("year"),
    exp.Quarter: _part("quarter"),
    exp.Month: _part("month"),
    exp.Week: _part("week"),
    exp.WeekOfYear: _part("week"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.DayOfWeek: _part("dow"),
    exp.DayOfYear: _part("doy"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.TimeToStr: _format,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
