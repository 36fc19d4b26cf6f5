"""Functions of numbers: total ones only, each with the range of its values, and how a query writes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from nabladp.sql.conditions import NullIf
from nabladp.sql.domains import MOST_VALUES, Domain, Refused, as_number
from nabladp.sql.expressions import Call, Cells, Constant, Expression, Function
from nabladp.sql.syntax import Node, Parse, Reader, children, constant_number, refuse


def numbers(arguments: Sequence[Expression], what: str) -> list[Domain]:
    """The domains of arguments that must be numbers; truth values count as 0 and 1."""
    result = []
    for argument in arguments:
        domain = as_number(argument.domain)
        if domain.kind == "null":
            domain = Domain("number", True, (), 0, 0, True)
        elif domain.kind != "number":
            raise Refused(f"{what} takes numbers, not text", "Compare text with =, IN or LIKE, or CAST it to a number.")
        result.append(domain)
    return result


# ---- + - * / // % ----------------------------------------------------------------------------------------------------

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


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
        whole = first.whole and second.whole
        nonzero = self.sign == "*" and whole and first.nonzero and second.nonzero  # small reals may round to 0
        return Domain.interval(min(ends), max(ends), whole=whole, nullable=False, nonzero=nonzero)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        first, second = (cell.data.astype(kind) for cell in cells)
        return Cells(_ARITHMETIC[self.sign](first, second))


_AWAY_FROM_ZERO = "Write {0} / GREATEST({1}, 1)."


@dataclass(frozen=True)
class Divide(Function):
    """/, // (towards zero) and % (with the sign of the first number), by anything that is never 0."""

    sign: str

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        first, second = numbers(arguments, f"'{self.sign}'")
        if second.contains_zero() and not second.whole and second.values is None:
            raise Refused("The divisor may be 0, or arbitrarily close to it", _AWAY_FROM_ZERO)
        if second.contains_zero():
            raise Refused(
                "This may divide by 0", f"Write {{0}} {self.sign} NULLIF({{1}}, 0), which is NULL where {{1}} is 0."
            )
        if self.sign != "/" and not (first.whole and second.whole):
            raise Refused(f"'{self.sign}' takes whole numbers", "Write FLOOR({0} / {1}).")
        if self.sign == "%":
            most = max(abs(second.low), abs(second.high)) - 1
            low = max(first.low, -most) if first.low < 0 else 0
            high = min(first.high, most) if first.high > 0 else 0
            return Domain.interval(low, high, whole=True, nullable=False)
        divisors = self._extremes(second)
        if self.sign == "//":
            ends = [_towards_zero(int(a), int(b)) for a in (first.low, first.high) for b in divisors]
            return Domain.interval(min(ends), max(ends), whole=True, nullable=False)
        quotients = [a / b for a in (first.low, first.high) for b in divisors]
        nonzero = first.whole and first.nonzero
        return Domain.interval(min(quotients), max(quotients), whole=False, nullable=False, nonzero=nonzero)

    @staticmethod
    def _extremes(divisor: Domain) -> list[float]:
        """Divisors at which a quotient is largest or smallest."""
        if divisor.values is not None:
            negative = [value for value in map(float, divisor.values) if value < 0]
            positive = [value for value in map(float, divisor.values) if value > 0]
            return [end for part in (negative, positive) if part for end in (min(part), max(part))] or [1.0]
        if divisor.low > 0 or divisor.high < 0:
            return [divisor.low, divisor.high]
        if divisor.whole:  # all but 0
            return [end for end in (divisor.low, -1, 1, divisor.high) if end]
        raise Refused("The divisor may come arbitrarily close to 0", _AWAY_FROM_ZERO)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        first, second = (cell.data for cell in cells)
        if self.sign == "/":
            return Cells(first / second.astype(np.float64))
        first, second = first.astype(np.int64), second.astype(np.int64)
        divisor = np.where(second == 0, 1, second)
        quotient = np.abs(first) // np.abs(divisor) * np.sign(first) * np.sign(divisor)
        return Cells(quotient if self.sign == "//" else first - quotient * divisor)


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# ---- functions of one number -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Monotone(Function):
    """A function of one number that never falls, so that its ends are those of its argument."""

    name: str
    compute: Callable[[Any], Any]
    whole: bool = False  # its values are whole
    keeps_whole: bool = False  # and whole numbers stay as they are
    least: float = -math.inf  # the smallest argument
    open: bool = False  # which is itself left out

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, self.name)
        if domain.low < self.least or (self.open and domain.low <= self.least):
            raise Refused(
                f"{self.name} is not defined for every value that its argument may take",
                f"Set a lower bound: write {self.name}(GREATEST({{0}}, 1)).",
            )
        if domain.whole and self.keeps_whole:
            return domain.with_null(False)
        with np.errstate(all="ignore"):
            ends = [float(self.compute(np.float64(end))) for end in (domain.low, domain.high)]
        return Domain.interval(*ends, whole=self.whole, nullable=False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data = cells[0].data
        if data.dtype.kind in "iub" and self.keeps_whole:
            return Cells(data.astype(np.int64))
        result = self.compute(data.astype(np.float64))
        return Cells(result.astype(np.int64) if self.whole else result)


MONOTONE = {
    "FLOOR": Monotone("FLOOR", np.floor, whole=True, keeps_whole=True),
    "CEIL": Monotone("CEIL", np.ceil, whole=True, keeps_whole=True),
    "TRUNC": Monotone("TRUNC", np.trunc, whole=True, keeps_whole=True),
    "CAST": Monotone("CAST", np.rint, whole=True, keeps_whole=True),  # half to even, as DuckDB casts doubles
    "SIGN": Monotone("SIGN", np.sign, whole=True),
    "SQRT": Monotone("SQRT", np.sqrt, least=0),
    "EXP": Monotone("EXP", np.exp),
    "LN": Monotone("LN", np.log, least=0, open=True),
    "LOG10": Monotone("LOG10", np.log10, least=0, open=True),
    "LOG2": Monotone("LOG2", np.log2, least=0, open=True),
}


@dataclass(frozen=True)
class Round(Function):
    """Half away from zero, to a number of digits."""

    digits: int

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "ROUND")
        if domain.whole and self.digits >= 0:
            return domain.with_null(False)
        low, high = (float(round_half_away(np.float64(end), self.digits)) for end in (domain.low, domain.high))
        step = 10**-self.digits if self.digits <= 0 else 1
        if self.digits <= 0 and (high - low) / step < MOST_VALUES:
            return Domain.of_values("number", range(int(low), int(high) + 1, step))
        return Domain.interval(low, high, whole=self.digits <= 0, nullable=False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        data = cells[0].data
        if data.dtype.kind in "iub" and self.digits >= 0:
            return Cells(data.astype(np.int64))
        result = round_half_away(data.astype(np.float64), self.digits)
        return Cells(result.astype(np.int64) if domain.whole else result)


def round_half_away(value: Any, digits: int) -> Any:
    factor = 10.0 ** abs(digits)
    scaled = value * factor if digits >= 0 else value / factor
    below = np.trunc(scaled)
    away = below + np.sign(scaled) * (np.abs(scaled - below) >= 0.5)
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

    exponent: int

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "POWER")
        ends = [domain.low**self.exponent, domain.high**self.exponent]
        if domain.low < 0 < domain.high and self.exponent % 2 == 0 and self.exponent:
            ends.append(0)
        return Domain.interval(min(ends), max(ends), whole=domain.whole, nullable=False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        return Cells(np.clip(cells[0].data.astype(kind) ** self.exponent, domain.low, domain.high).astype(kind))


@dataclass(frozen=True)
class Extreme(Function):
    """LEAST or GREATEST of the arguments that are not NULL."""

    name: str
    strict = False

    def domain(self, arguments: Sequence[Expression]) -> Domain:
        domains = numbers(arguments, self.name)
        pick = min if self.name == "LEAST" else max
        present = [own for own in domains if not own.nullable]
        low, high = pick(own.low for own in domains), pick(own.high for own in domains)
        if len(present) < len(domains):  # where one is NULL, the others alone decide
            low, high = min(own.low for own in domains), max(own.high for own in domains)
            if present and self.name == "LEAST":
                high = min(own.high for own in present)
            elif present:
                low = max(own.low for own in present)
        return Domain.interval(low, high, whole=all(own.whole for own in domains), nullable=not present)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        kind = np.int64 if domain.whole else np.float64
        ends = np.iinfo(np.int64) if domain.whole else np.finfo(np.float64)
        neutral = ends.max if self.name == "LEAST" else ends.min
        combine = np.minimum if self.name == "LEAST" else np.maximum
        filled = [np.where(cell.is_null(), neutral, cell.data.astype(kind)) for cell in cells]
        null = np.logical_and.reduce([cell.is_null() for cell in cells])
        return Cells(np.where(null, 0, combine.reduce(filled)).astype(kind), null)


@dataclass(frozen=True)
class ToReal(Function):
    def domain(self, arguments: Sequence[Expression]) -> Domain:
        (domain,) = numbers(arguments, "CAST")
        return domain.with_null(False)

    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells:
        return Cells(cells[0].data.astype(np.int64 if domain.whole else np.float64))


def to_number(argument: Expression) -> Expression:
    """Truth values as 0 and 1; numbers as they are."""
    return Call(ToReal(), (argument,)) if argument.domain.kind == "boolean" else argument


# ---- how a query writes them -----------------------------------------------------------------------------------------


def _plain(function: Function) -> Reader:
    return lambda parse, node: Call(function, tuple(parse(child) for child in children(node)))


def _negative(parse: Parse, node: exp.Neg) -> Expression:
    value = constant_number(node)
    return Constant(value) if value is not None else Call(Arithmetic("-"), (Constant(0), parse(node.this)))


def _round(parse: Parse, node: exp.Round) -> Expression:
    digits = node.args.get("decimals")
    places = 0 if digits is None else constant_number(digits)
    if not isinstance(places, int) or not -15 <= places <= 15:
        refuse(node, "ROUND takes a constant number of digits", "Write ROUND({0}, 2).")
    return Call(Round(places), (parse(node.this),))


def _power(parse: Parse, node: exp.Pow) -> Expression:
    exponent = constant_number(node.expression)
    if exponent == 0.5:
        return Call(MONOTONE["SQRT"], (parse(node.this),))
    if not isinstance(exponent, int) or not 0 <= exponent <= 8:
        refuse(node, "POWER takes a constant whole exponent from 0 to 8", "Write POWER({0}, 2), SQRT({0}) or EXP({0}).")
    return Call(Power(exponent), (parse(node.this),))


def _log(parse: Parse, node: exp.Log) -> Expression:
    if node.args.get("expression") is None:
        return Call(MONOTONE["LOG10"], (parse(node.this),))
    base = constant_number(node.this)
    name = "LOG10" if base == 10 else "LOG2" if base == 2 else None
    if name is None:
        refuse(node, "LOG takes the base 2 or 10", "Use LN(x) / LN(base).")
    return Call(MONOTONE[name], (parse(node.args["expression"]),))


def _safe_divide(parse: Parse, node: Node) -> Expression:
    """Division that is NULL where the divisor is 0."""
    divisor = Call(NullIf(), (parse(node.args["expression"]), Constant(0)))
    return Call(Divide("/"), (parse(node.this), divisor))


READERS: dict[type[Node], Reader] = {
    exp.Add: _plain(Arithmetic("+")),
    exp.Sub: _plain(Arithmetic("-")),
    exp.Mul: _plain(Arithmetic("*")),
    exp.Div: _plain(Divide("/")),
    exp.IntDiv: _plain(Divide("//")),
    exp.Mod: _plain(Divide("%")),
    exp.SafeDivide: _safe_divide,
    exp.Neg: _negative,
    exp.Abs: _plain(Absolute()),
    exp.Least: _plain(Extreme("LEAST")),
    exp.Greatest: _plain(Extreme("GREATEST")),
    exp.Pow: _power,
    exp.Round: _round,
    exp.Floor: _plain(MONOTONE["FLOOR"]),
    exp.Ceil: _plain(MONOTONE["CEIL"]),
    exp.Trunc: _plain(MONOTONE["TRUNC"]),
    exp.Sqrt: _plain(MONOTONE["SQRT"]),
    exp.Exp: _plain(MONOTONE["EXP"]),
    exp.Ln: _plain(MONOTONE["LN"]),
    exp.Sign: _plain(MONOTONE["SIGN"]),
    exp.Log: _log,
}
