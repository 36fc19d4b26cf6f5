"""Codes back to values: the way out for rows that were made up, such as those of a synthetic table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import expect, mapping
from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema
from nabladp.schema.rules import DRAWN, NULL_LABEL
from nabladp.tables.encode import as_array

_AT_ONCE = 1 << 18  # rows whose positions in their bins are computed together


def decode(
    schema: Schema, codes: Mapping[str, NDArray[Any]], within: Mapping[str, NDArray[np.floating]] | None = None
) -> pa.Table:
    """Decode: a table of values from an array of codes for each of some attributes, in the order of the schema.

    Categories become their declared values (text, int64, or float64 where one is no whole number), integers int64,
    truth values bool. A real becomes the number that ``decode`` of its attribute declares for the bin. For
    "uniform" and "smooth" ``within`` says where in its bin each row lies, from 0 to less than 1; without it, that
    is the midpoint, as nothing is drawn here. The code of null becomes null. The code of other becomes its label
    where values are text, and null where they are numbers or truth values, among which nothing stands for "another
    one".
    """
    positions = {} if within is None else within
    expect(schema, Schema, "The schema", 'Load it with Schema.load("schema.toml").')
    mapping(codes, "The codes", "Give an array of codes for each attribute.")
    for name in codes:
        schema[name]  # refuses an unknown name
    chosen = [attribute for attribute in schema if attribute.name in codes]
    columns = [_check_codes(attribute, codes[attribute.name]) for attribute in chosen]
    if len({len(column) for column in columns}) > 1:
        raise DataError("The arrays of codes have different lengths.", fix="Give one code for each row.")
    arrays = [
        _uniform_values(attribute, column, positions[attribute.name])
        if attribute.name in positions
        else _values(attribute, column)
        for attribute, column in zip(chosen, columns, strict=True)
    ]
    return pa.table(arrays, names=[attribute.name for attribute in chosen])


def decode_labels(schema: Schema, codes: Mapping[str, NDArray[Any]]) -> pa.Table:
    """A decoded table for people to read: labels in place of values where an attribute declares labels."""
    table = decode(schema, codes)
    for index, name in enumerate(table.column_names):
        if schema[name].labels:
            table = table.set_column(index, name, _labels(schema[name], as_array(codes[name])))
    return table


def _labels(attribute: Attribute, codes: NDArray[np.integer]) -> pa.Array:
    """The label of each code; null stays null where it has no label of its own."""
    used, rows = np.unique(codes, return_inverse=True)
    absent = None if NULL_LABEL in attribute.labels else attribute.null_code
    labels = [None if code == absent else attribute.label(code) for code in used.tolist()]
    return pa.array(labels, pa.string()).take(pa.array(rows))


def recode(attribute: Attribute, column: pa.Array) -> NDArray[np.integer]:
    """The codes of a decoded column; of values that several codes stand for, the first of these codes."""
    expect(attribute, Attribute, "What is recoded", "Give an attribute of the schema.")
    expect(column, (pa.Array, pa.ChunkedArray), "A decoded column", "Give an Arrow array.")
    if attribute.low is not None or attribute.decode in DRAWN:
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)  # null becomes NaN
        if attribute.low is not None:
            indices = values - attribute.low
        else:
            indices = np.searchsorted(attribute.edges, values, side="right") - 1.0
        known = ~np.isnan(values)
        return np.where(known, np.minimum(indices, attribute.ordered_size - 1), attribute.ordered_size).astype(np.int64)
    import pyarrow.compute as pc

    codes: NDArray[np.integer] = pc.index_in(column, value_set=_meanings(attribute)).to_numpy(zero_copy_only=False)
    return codes


def alike(attribute: Attribute) -> NDArray[np.integer]:
    """For each code the first that decodes to the same value, so that a decoded table does not distinguish them."""
    expect(attribute, Attribute, "What is recoded", "Give an attribute of the schema.")
    every = np.arange(attribute.size)
    if attribute.low is not None or attribute.decode in DRAWN:
        return np.minimum(every, attribute.ordered_size)
    return recode(attribute, _meanings(attribute))


def _check_codes(attribute: Attribute, given: NDArray[Any]) -> NDArray[np.integer]:
    codes = as_array(given)
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise DataError(f"The codes of {attribute.name!r} are not integers, one per row.", fix="Give whole numbers.")
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < attribute.size:
        raise DataError(f"A code of {attribute.name!r} is outside its domain.", fix="Codes run from 0.")
    return codes


def _values(attribute: Attribute, codes: NDArray[np.integer]) -> pa.Array:
    if attribute.low is not None:  # a range may be wide: no list of its numbers
        return pa.array(codes.astype(np.int64) + attribute.low, mask=codes >= attribute.ordered_size)
    return _meanings(attribute).take(pa.array(codes))


def _uniform_values(attribute: Attribute, codes: NDArray[np.integer], positions: NDArray[np.floating]) -> pa.Array:
    return pa.array(bin_numbers(attribute, codes, positions), mask=codes >= attribute.ordered_size)


def bin_numbers(attribute: Attribute, codes: NDArray[np.integer], positions: NDArray[np.floating]) -> Floats:
    """Decoded numbers inside their bins, so that each is of that bin again: from its lower edge to below its upper
    one; the last edge for null and other."""
    edges = np.array([*attribute.edges, *[attribute.edges[-1]] * (attribute.size - attribute.ordered_size)])
    lows, highs = edges[:-1], np.nextafter(edges[1:], edges[:-1])
    numbers = np.empty(len(codes))
    for start in range(0, len(codes), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        own, position = codes[part], positions[part].astype(np.float64)
        mixed = lows[own] * (1 - position) + edges[1:][own] * position
        numbers[part] = np.clip(mixed, lows[own], highs[own])
    return numbers


def _meanings(attribute: Attribute) -> pa.Array:
    """The value that each code stands for, in order."""
    kind, declared = pa.float64(), list(attribute.values)
    if attribute.kind == "boolean":
        kind, declared = pa.bool_(), [False, True]
    elif attribute.representatives is not None and attribute.kind == "real":
        declared = attribute.representatives.tolist()
    elif isinstance(declared[0], str):
        kind = pa.string()
    elif all(isinstance(value, int) for value in declared):
        kind = pa.int64()
    known = [*declared, attribute.other] if attribute.other_code is not None and kind == pa.string() else declared
    return pa.array([*known, *[None] * (attribute.size - len(known))], kind)
