"""Row-wise expressions over the columns of a schema: what they may give, and how whole batches are evaluated.

An expression is total: it has a value, or NULL, on every row that the schema allows, so that no row can cause an error.
Where all codes of its columns can be enumerated it becomes a table of its values, which is exact and fast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.schema import Attribute, Schema
from nabladp.sql.domains import Domain, Kind, Value, attribute_domain, value_range
from nabladp.tables.encode import GRID_STEPS

MOST_ENUMERATED = 1 << 16  # combinations of codes for which a table of values is made
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """Values of an expression, row by row: numbers, truth values, or positions in the list of its texts. Where a value
    is NULL, ``data`` has no meaning."""

    data: NDArray[Any]
    null: Bools | None = None  # None: nowhere

    def is_null(self) -> Bools:
        return np.zeros(len(self.data), np.bool_) if self.null is None else self.null


class Rows(Protocol):
    """A batch of rows as codes."""

    @property
    def count(self) -> int: ...
    def codes(self, name: str) -> NDArray[np.integer]: ...
    def grid(self, name: str) -> NDArray[np.integer]:
        """Numbers of a real attribute on its grid (see :mod:`nabladp.tables.encode`)."""


class Expression(ABC):
    """``columns`` are those that its value depends on."""

    domain: Domain
    columns: tuple[str, ...]

    @abstractmethod
    def evaluate(self, rows: Rows) -> Cells: ...

    @property
    def constant(self) -> Value | None:
        """Its one value, where it has a single one; None also stands for NULL."""
        listed = self.domain.values
        return listed[0] if not self.columns and listed else None


# ---- columns and constants -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column(Expression):
    """A column of the table. ``allowed``: the codes it has where a condition around it holds (default: all)."""

    attribute: Attribute
    allowed: tuple[bool, ...] | None = None
    refined: Domain | None = None

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.attribute.name,)

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        return self.refined or attribute_domain(self.attribute)

    @property
    def by_grid(self) -> bool:
        """Whether its numbers are finer than its codes."""
        return self.attribute.kind == "real"

    def evaluate(self, rows: Rows) -> Cells:
        if self.by_grid:
            return self._from_grid(rows.grid(self.attribute.name))
        codes = rows.codes(self.attribute.name)
        null = codes >= self._values if self.domain.nullable or self.allowed else None
        return Cells(self._decode(codes), null)

    @property
    def _values(self) -> int:
        """How many codes stand for values: with the others, where these are a text of their own."""
        own = self.domain.is_text and self.attribute.kind != "date" and self.attribute.unknown == "other"
        return self.attribute.ordered_size + own

    def _decode(self, codes: NDArray[np.integer]) -> NDArray[Any]:
        attribute = self.attribute
        if attribute.kind == "boolean":
            return np.asarray(codes == 1)
        if attribute.low is not None:
            return codes.astype(np.int64) + attribute.low
        if self.domain.is_text:
            return np.asarray(np.minimum(codes, self._values - 1))  # NULL has no position of its own
        numbers = np.asarray([*attribute.values, 0, 0], dtype=np.int64 if self.domain.whole else np.float64)
        return np.asarray(numbers[codes])

    def _from_grid(self, grid: NDArray[np.integer]) -> Cells:
        """Rounded to the decimals that a step can tell, so that 50,000 is 50,000 and not a hair below it."""
        low, high = value_range(self.attribute)
        step = (high - low) / GRID_STEPS
        decimals = math.floor(-math.log10(1.01 * step))
        numbers = low + step * grid
        if decimals <= 15:
            numbers = np.round(numbers, decimals)
        return Cells(np.clip(numbers, low, high), grid > GRID_STEPS if self.domain.nullable else None)


@dataclass(frozen=True)
class Constant(Expression):
    value: Value | None
    columns: tuple[str, ...] = ()

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        if self.value is None:
            return Domain("null", nullable=True, values=())
        kind: Kind = "boolean" if isinstance(self.value, bool) else "text" if isinstance(self.value, str) else "number"
        return Domain.of_values(kind, (self.value,))

    def evaluate(self, rows: Rows) -> Cells:
        if self.value is None:
            return Cells(np.zeros(rows.count), np.ones(rows.count, np.bool_))
        return Cells(np.full(rows.count, 0 if self.domain.is_text else self.domain.values[0]))  # type: ignore[index]


# ---- functions -------------------------------------------------------------------------------------------------------


class Function(ABC):
    """What a function gives for arguments of these domains, or why it refuses them, and how it is evaluated.

    ``strict``: NULL wherever an argument is.
    """

    strict = True

    @abstractmethod
    def domain(self, arguments: Sequence[Expression]) -> Domain: ...

    @abstractmethod
    def evaluate(self, cells: Sequence[Cells], arguments: Sequence[Expression], domain: Domain) -> Cells: ...


@dataclass(frozen=True)
class Call(Expression):
    """A function of expressions."""

    function: Function
    arguments: tuple[Expression, ...]
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        domain = self.function.domain(self.arguments)
        if self.function.strict and any(argument.domain.nullable for argument in self.arguments):
            domain = domain.with_null()
        object.__setattr__(self, "domain", domain)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(sorted({name for argument in self.arguments for name in argument.columns}))

    def evaluate(self, rows: Rows) -> Cells:
        cells = [argument.evaluate(rows) for argument in self.arguments]
        with np.errstate(all="ignore"):  # of values that are NULL, or that a condition excludes
            result = self.function.evaluate(cells, self.arguments, self.domain)
        data, null = result.data, result.null
        if self.function.strict:
            null = union_of_nulls([null, *(cell.null for cell in cells)])
        if data.dtype.kind == "f" and not np.isfinite(data).all():  # total, even where a condition excludes the row
            null = union_of_nulls([null, ~np.isfinite(data)])
            data = np.nan_to_num(data, nan=0.0, posinf=0.0, neginf=0.0)
        return Cells(data, null)


def union_of_nulls(nulls: Sequence[Bools | None]) -> Bools | None:
    present = [null for null in nulls if null is not None]
    return np.logical_or.reduce(present) if present else None


# ---- tables of values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Lookup(Expression):
    """An expression as a table over all codes of its columns."""

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    domain: Domain
    data: NDArray[Any]
    null: Bools | None

    def evaluate(self, rows: Rows) -> Cells:
        index = self.index(rows)
        return Cells(self.data[index], None if self.null is None else self.null[index])

    def index(self, rows: Rows) -> NDArray[np.integer]:
        if not self.columns:
            return np.zeros(rows.count, np.int64)
        if len(self.columns) == 1:
            return rows.codes(self.columns[0])
        total = np.zeros(rows.count, np.int64)
        for name, size in zip(self.columns, self.sizes, strict=True):
            total = total * size + rows.codes(name)
        return total


@dataclass(frozen=True)
class AllCodes:
    """Every combination of the codes of some columns, as if these were the rows of a table."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.sizes)

    @cached_property
    def _axes(self) -> Mapping[str, Integers]:
        axes = np.unravel_index(np.arange(self.count), self.sizes) if self.sizes else ()
        return dict(zip(self.names, axes, strict=True))

    def codes(self, name: str) -> NDArray[np.integer]:
        return self._axes[name]

    def grid(self, name: str) -> NDArray[np.integer]:
        raise AssertionError("A real attribute has too many values to enumerate.")


def enumerated(expression: Expression, schema: Schema) -> int:
    """Combinations of codes that make its table of values; 0 where it stays as it is."""
    names = expression.columns
    if isinstance(expression, (Column, Lookup)) or any(schema[name].kind == "real" for name in names):
        return 0
    cells = math.prod(schema.sizes(names))
    return cells if cells <= MOST_ENUMERATED else 0


def simplify(expression: Expression, schema: Schema, assumed: Mapping[str, Column] | None = None) -> Expression:
    """The expression as a table of its values where its codes can be enumerated, otherwise as it is.

    Columns on which no value depends are left out, whatever the others hold. ``assumed``: codes that conditions around
    the expression leave; it is NULL for all others, which nobody reads.
    """
    if not enumerated(expression, schema):
        return expression
    names = expression.columns
    sizes = schema.sizes(names)
    rows = AllCodes(names, sizes)
    cells = expression.evaluate(rows)
    excluded = np.zeros(rows.count, np.bool_)
    for column in (assumed or {}).values():
        if column.allowed is not None and column.attribute.name in names:
            excluded |= ~np.asarray(column.allowed)[rows.codes(column.attribute.name)]
    null = cells.is_null() | excluded
    return _without_idle(names, sizes, _exact_domain(expression.domain, cells.data, null, excluded), cells.data, null)


def _exact_domain(domain: Domain, data: NDArray[Any], null: Bools, excluded: Bools) -> Domain:
    """Only the values that some combination of codes gives."""
    kept = np.unique(data[~null])
    nullable = bool((null & ~excluded).any())
    if domain.kind == "null" or not len(kept):
        return Domain("null", nullable=True, values=()) if domain.kind == "null" else domain.with_null(nullable)
    if domain.is_text:
        return domain.with_null(nullable)  # positions in its list stay what they are
    if domain.kind == "boolean":
        return Domain("boolean", nullable, tuple(bool(value) for value in kept))
    if len(kept) > 1 << 12:
        low, high = kept[0].item(), kept[-1].item()
        nonzero = not (kept == 0).any()
        return Domain("number", nullable, None, low, high, domain.whole, nonzero)
    return Domain.of_values("number", kept.tolist(), nullable)


def _without_idle(
    names: tuple[str, ...], sizes: tuple[int, ...], domain: Domain, data: NDArray[Any], null: Bools
) -> Lookup:
    """Leaves out every column along which neither value nor NULL ever changes."""
    table = np.where(null, np.zeros(1, data.dtype), data).reshape(sizes)
    gaps = null.reshape(sizes)
    kept: list[int] = []
    for axis in range(len(names)):
        position = axis - (len(names) - table.ndim)
        first_values, first_gaps = table.take([0], position), gaps.take([0], position)
        if (table == first_values).all() and (gaps == first_gaps).all():
            table, gaps = np.asarray(table.take(0, position)), np.asarray(gaps.take(0, position))
        else:
            kept.append(axis)
    left, shape = tuple(names[i] for i in kept), tuple(sizes[i] for i in kept)
    null_table = gaps.ravel().copy() if gaps.any() else None
    if domain.kind == "number":
        table = table.astype(np.int64 if domain.whole else np.float64)
    return Lookup(left, shape, domain, np.ascontiguousarray(table).ravel(), null_table)
