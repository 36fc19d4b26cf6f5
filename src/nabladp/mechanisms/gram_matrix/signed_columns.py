"""±1 columns made from coded attributes: what a Gram matrix multiplies, and what a halfspace weighs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nabladp.arrays import Floats, Integers
from nabladp.errors import DataError, DomainTooLarge, MechanismError, UnknownAttribute
from nabladp.mechanisms.gram_matrix.number_columns import NUMBER, NumberBlock, number_block
from nabladp.mechanisms.kinds import Table
from nabladp.mechanisms.parameters import parameter
from nabladp.schema import Attribute, Schema
from nabladp.tables import Kernel
from nabladp.workloads.options import names_once

if TYPE_CHECKING:
    import pyarrow as pa


# ---- columns of ±1 ---------------------------------------------------------------------------------------------------

Encoding = str | int
ENCODINGS = ("onehot", "bits", "thermometer")
ENCODE = parameter(Table("encodings", '{ age = "thermometer" }'), "Which ±1 columns an attribute becomes.")
INTERCEPT = "(intercept)"
FEW_VALUES = 16  # ordered attributes with more declared values are cut into so many ranges, by default
MOST_COLUMNS = 2048
MOST_CODES = 1 << 16
_MOST_COMPARED = 1 << 12  # codes whose pairs are compared to count flips


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one attribute. ``positive`` has a row for each column: for which codes it is +1."""

    attribute: str
    encoding: Encoding
    names: tuple[str, ...]
    positive: NDArray[np.bool_]

    @cached_property
    def flips(self) -> int:
        """The most ±1 columns of this attribute that flip when its value changes: the largest distance between two
        codes."""
        columns = len(self.names)
        changes = (self.positive[:, 1:] != self.positive[:, :-1]).any(axis=0)
        told_apart = self.positive[:, np.append(True, changes)]  # codes of one range are neighbours
        if told_apart.shape[1] > _MOST_COMPARED:
            return columns  # never less than it is
        signs = np.where(told_apart, np.float32(1), np.float32(-1))
        return (columns - int((signs.T @ signs).min())) // 2  # [flips]


@dataclass(frozen=True, eq=False)
class SignedColumns:
    """The intercept, always +1, then every attribute's columns, in order. Picklable.

    Two values give one column. ``encode`` says what else an attribute becomes: "onehot" (a column for each value, two
    flip at once), "thermometer" (a column for each threshold of an ordered one, all may flip), "bits" (binary digits of
    the code, all may flip), or a whole number m: ordered values cut into m ranges, one-hot. By default one-hot, and 16
    ranges where an ordered attribute has more values. ``other`` and null are values of their own. An attribute with one
    value gives no column.
    """

    blocks: tuple[Block, ...]
    number_columns: tuple[NumberBlock, ...] = ()  # after those of ±1
    schema: Schema | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        schema: Schema,
        over: Iterable[str] | None = None,
        encode: Mapping[str, Encoding] | None = None,
        *,
        numbers: bool = False,
    ) -> SignedColumns:
        """The ±1 columns of these attributes (default: all that are not derived); where ``numbers`` are allowed, also
        columns of numbers."""
        names = schema.roots if over is None else tuple(over)
        chosen = dict(encode or {})
        for name in (*names, *chosen):
            schema[name]  # refuses an unknown name
        if names:
            names_once(names)
        for name in chosen:
            if name not in names:
                raise MechanismError(f"'encode' names {name!r}, which is not read.", fix="Add it to 'over'.")
        own = tuple(number_block(schema[name]) for name in names if numbers and chosen.get(name) == NUMBER)
        signed = [name for name in names if name not in {block.attribute for block in own}]
        coded = [(schema[name], _check_encoding(schema[name], chosen.get(name), numbers)) for name in signed]
        width = 1 + len(own) + sum(_width(attribute, encoding) for attribute, encoding in coded)
        if width > MOST_COLUMNS:
            raise DomainTooLarge(
                f"The attributes give {width:,} columns; the most is {MOST_COLUMNS:,}.",
                fix="Name fewer in 'over', or cut ordered ones into ranges: encode = {'age': 10}.",
                columns=width,
            )
        if width == 1:
            raise MechanismError("No attribute here has two values.", fix="Name one that has.")
        result = cls(tuple(_block(*each) for each in coded), own, schema)
        if len(result._index) != width:
            raise MechanismError("Two columns would have the same name.", fix="Rename an attribute or a value.")
        return result

    # Looking up

    @property
    def width(self) -> int:
        """The number of ±1 columns, P."""
        return len(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (INTERCEPT, *(name for block in self.all_blocks for name in block.names))

    @property
    def all_blocks(self) -> tuple[Block | NumberBlock, ...]:
        return (*self.blocks, *self.number_columns)

    @cached_property
    def column_ranges(self) -> dict[str, range]:
        """For every attribute, the indices of its columns."""
        result, start = {}, 1
        for block in self.all_blocks:
            result[block.attribute] = range(start, start := start + len(block.names))
        return result

    @cached_property
    def attribute_of(self) -> tuple[str | None, ...]:
        """The attribute behind every ±1 column; None for the intercept."""
        return (None, *(block.attribute for block in self.all_blocks for _ in block.names))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are encoded as columns."""
        return tuple(block.attribute for block in self.all_blocks if block.names)

    # Columns of numbers

    @cached_property
    def number_blocks(self) -> dict[int, NumberBlock]:
        """The columns of numbers, by index."""
        return dict(enumerate(self.number_columns, self.width - len(self.number_columns)))

    @property
    def numbers(self) -> list[int]:
        """The indices of columns of numbers."""
        return list(self.number_blocks)

    @cached_property
    def reaches(self) -> Integers:
        """For every column of numbers, the steps from its middle to an end; 0 for those of ±1."""
        blocks = self.number_blocks
        return np.array([blocks[i].reach if i in blocks else 0 for i in range(self.width)], dtype=np.int64)

    @property
    def kernel_columns(self) -> tuple[str, ...]:
        """What a kernel reads: the codes of attributes, of real numbers their steps on the fine grid."""
        return (*self.signs_only.attributes, *(block.column for block in self.number_columns))

    @cached_property
    def signs_only(self) -> SignedColumns:
        """The same columns without those of numbers."""
        return SignedColumns(self.blocks, (), self.schema)

    def steps(self, codes: Mapping[str, NDArray[Any]]) -> Integers:
        """All columns in whole steps, those of ±1 as they are: one row per row of what a kernel reads."""
        rows, signs = len(next(iter(codes.values()))), self.width - len(self.number_columns)
        result = np.ones((rows, self.width), dtype=np.int64)
        if signs > 1:
            result[:, :signs] = self.signs_only.matrix(codes)
        for index, block in self.number_blocks.items():
            result[:, index] = block.steps(codes[block.column])
        return result

    def find(self, names: str | Iterable[str]) -> list[int]:
        """The indices of ±1 columns by name; the name of an attribute stands for all its columns."""
        results: list[int] = []
        for name in (names,) if isinstance(names, str) else names:
            if name in self._index:
                results.append(self._index[name])
            elif name in self.column_ranges:
                results.extend(self.column_ranges[name])
            else:
                raise UnknownAttribute.with_suggestion(name, (*self.column_ranges, *self.names))
        return results

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    # On codes

    def matrix(self, codes: Mapping[str, ArrayLike], indices: Sequence[int] | None = None) -> NDArray[np.int8]:
        """The ±1 columns of rows of codes: one row per row, all columns in the order of ``names``, or those at some
        indices.

        ``codes`` holds an array for each attribute that gives one of these columns; others are not looked at.
        """
        chosen = np.arange(self.width) if indices is None else np.asarray(indices, dtype=np.int64)
        rows = len(np.asarray(next(iter(codes.values())))) if codes else 0
        result = np.ones((rows, len(chosen)), dtype=np.int8)
        for block in self.blocks:
            own = self.column_ranges[block.attribute]
            inside = np.flatnonzero((chosen >= own.start) & (chosen < own.stop))
            if not inside.size:
                continue
            if block.attribute not in codes:
                raise DataError(
                    f"There are no codes for {block.attribute!r}.", fix="Give an array for it.", column=block.attribute
                )
            signs = np.where(block.positive[chosen[inside] - own.start].T, np.int8(1), np.int8(-1))
            result[:, inside] = signs[np.asarray(codes[block.attribute])]
        return result

    # As text

    def to_json(self) -> dict[str, Encoding]:
        """Every attribute with its ±1 encoding, in order."""
        return {block.attribute: block.encoding for block in self.all_blocks}

    @classmethod
    def from_json(cls, data: Mapping[str, Encoding], schema: Schema, *, numbers: bool = False) -> SignedColumns:
        return cls.of(schema, tuple(data), data, numbers=numbers)


def _check_encoding(attribute: Attribute, encoding: Any, numbers: bool) -> Encoding:
    name = attribute.name
    if attribute.size > MOST_CODES:
        raise DomainTooLarge(
            f"{name!r} has {attribute.size:,} values; the most is {MOST_CODES:,}.",
            fix="Declare a coarser domain, or leave it out.",
            attribute=name,
        )
    if encoding is None:
        return FEW_VALUES if attribute.is_ordered and attribute.ordered_size > FEW_VALUES else "onehot"
    is_number = isinstance(encoding, int) and not isinstance(encoding, bool)
    if not (is_number and encoding >= 2) and not (isinstance(encoding, str) and encoding in ENCODINGS):
        raise MechanismError(
            f"{name!r} cannot be encoded like this.",
            fix=f"Use 'onehot', 'bits', 'thermometer'{', ' + repr(NUMBER) if numbers else ''} or a number of ranges.",
        )
    if (is_number or encoding == "thermometer") and not attribute.is_ordered:
        raise MechanismError(f"{name!r} has no order.", fix="Encode it as 'onehot' or 'bits'.")
    chosen: Encoding = encoding
    return chosen


def _categories(attribute: Attribute, encoding: Encoding) -> int:
    """The number of values that an encoding distinguishes: with ranges, fewer than there are codes."""
    declared = attribute.ordered_size
    return attribute.size if isinstance(encoding, str) else attribute.size - declared + min(encoding, declared)


def _width(attribute: Attribute, encoding: Encoding) -> int:
    categories = _categories(attribute, encoding)
    if categories <= 2 or encoding == "thermometer":
        return categories - 1
    return (categories - 1).bit_length() if encoding == "bits" else categories


def _block(attribute: Attribute, encoding: Encoding) -> Block:
    name, codes = attribute.name, np.arange(attribute.size)
    categories = _categories(attribute, encoding)
    if encoding == "bits" and categories > 2:
        digits = range((categories - 1).bit_length())
        return _make_block(attribute, encoding, [(f"{name} bit {d}", (codes >> d) & 1 == 1) for d in digits])
    if encoding == "thermometer" and categories > 2:
        declared = attribute.ordered_size
        steps = [(f"{name} ≥ {_edge(attribute, t)}", (codes >= t) & (codes < declared)) for t in range(1, declared)]
        extra = [(f"{name} = {attribute.label(c)}", codes == c) for c in range(declared, attribute.size)]
        return _make_block(attribute, encoding, steps + extra)
    declared = attribute.ordered_size
    ranges = categories - (attribute.size - declared)
    category = np.where(codes < declared, codes * ranges // declared, codes - declared + ranges)
    first = np.searchsorted(category, np.arange(categories + 1))
    each = [(f"{name} = {_range(attribute, *first[c : c + 2])}", category == c) for c in range(categories)]
    return _make_block(attribute, encoding, each[1:] if categories <= 2 else each)


def _make_block(attribute: Attribute, encoding: Encoding, columns: Sequence[tuple[str, NDArray[np.bool_]]]) -> Block:
    positive = np.array([signs for _, signs in columns], dtype=bool).reshape(len(columns), attribute.size)
    return Block(attribute.name, encoding, tuple(name for name, _ in columns), positive)


def _range(attribute: Attribute, start: int, stop: int) -> str:
    labels = attribute.label(int(start)), attribute.label(int(stop) - 1)
    return labels[0] if stop - start == 1 else f"{labels[0]} to {labels[1]}"


def _edge(attribute: Attribute, code: int) -> str:
    return f"{attribute.edges[code]:g}" if attribute.kind == "real" else attribute.label(code)


# ---- sums over rows --------------------------------------------------------------------------------------------------

_MOST_ROWS = 1 << 20  # of numbers at a time: sums of their products stay below 2⁵³, exact as doubles
_CACHED_WORDS = 1 << 16  # of all columns together: what is compared at a time stays in a processor's cache


class Disagreements(Kernel):
    """A kernel for ``fold``. Pairs stand in the order of ``np.triu_indices(P, 1)``; the counts are exact integers."""

    def __init__(self, columns: SignedColumns) -> None:
        self.columns = columns
        self.attributes = columns.attributes

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        width = self.columns.width
        total = np.zeros(width * (width - 1) // 2, dtype=np.int64)
        self.add_to(total, batch)
        return total

    def add_to(self, total: Integers, batch: pa.RecordBatch) -> None:
        words, width = self._packed(batch), self.columns.width
        step = max(16, _CACHED_WORDS // width)
        for start in range(0, words.shape[1], step):
            part, offset = words[:, start : start + step], 0
            for column in range(width - 1):
                differing = np.bitwise_count(part[column + 1 :] ^ part[column])
                total[offset : offset + width - 1 - column] += differing.sum(axis=1, dtype=np.int64)  # [disagreements]
                offset += width - 1 - column

    def _packed(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """The ±1 columns of a batch packed into bits, one row per column, 1 for +1; padding is 0 in every column."""
        rows = batch.num_rows
        used = -(-rows // 8)
        packed = np.zeros((self.columns.width, -(-rows // 64) * 8), dtype=np.uint8)
        packed[0, :used] = np.packbits(np.ones(rows, dtype=bool))
        for block in self.columns.blocks:
            if block.names:
                span = self.columns.column_ranges[block.attribute]
                values = block.positive.take(batch.column(block.attribute).to_numpy(), axis=1)
                packed[span.start : span.stop, :used] = np.packbits(values, axis=1)
        return packed.view(np.uint64)


class Products(Kernel):
    """A kernel for ``fold``: a sum over rows for every pair of columns in the order of ``np.triu_indices(P, 1)``, then
    one for the square of every column of numbers.

    Of two columns of ±1 it is the number of rows where they differ; of others the sum of products in whole steps.
    """

    def __init__(self, columns: SignedColumns) -> None:
        self.columns = columns
        self.attributes = columns.kernel_columns
        self.signs = Disagreements(columns.signs_only)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        if not self.columns.numbers:
            return self.signs(batch)
        width, signs = self.columns.width, self.columns.width - len(self.columns.numbers)
        sums = np.zeros((width, width), dtype=np.int64)
        for start in range(0, batch.num_rows, _MOST_ROWS):
            steps = self._steps(batch.slice(start, _MOST_ROWS))
            sums[:, signs:] += (steps.T @ steps[:, signs:]).astype(np.int64)  # [products]
        sums[np.triu_indices(signs, 1)] = self.signs(batch)
        return np.concatenate([sums[np.triu_indices(width, 1)], np.diag(sums)[signs:]])

    def _steps(self, batch: pa.RecordBatch) -> Floats:
        """All columns of a batch as whole steps, exact as doubles."""
        codes = {name: batch.column(name).to_numpy() for name in self.attributes or ()}
        return self.columns.steps(codes).astype(np.float64)
