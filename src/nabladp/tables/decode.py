"""Codes back to values: the way out for rows that were made up, such as those of a synthetic table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.errors import DataError
from nabladp.schema import Attribute, Schema


def decode(schema: Schema, codes: Mapping[str, NDArray[Any]]) -> pa.Table:
    """A table of values from an array of codes for each of some attributes, in the order of the schema.

    Categories become their declared values (text, int64, or float64 where one is no whole number), integers int64,
    truth values bool. A real becomes the number that ``decode`` of its attribute declares for the bin; "uniform" means
    the midpoint here, as nothing is drawn. The code of null becomes null. The code of other becomes its label where
    values are text, and null where they are numbers or truth values, among which nothing stands for "another one".
    """
    for name in codes:
        schema[name]  # refuses an unknown name
    chosen = [attribute for attribute in schema if attribute.name in codes]
    columns = [_checked(attribute, codes[attribute.name]) for attribute in chosen]
    if len({len(column) for column in columns}) > 1:
        raise DataError("The arrays of codes have different lengths.", fix="Give one code for each row.")
    arrays = [_values(attribute, column) for attribute, column in zip(chosen, columns, strict=True)]
    return pa.table(arrays, names=[attribute.name for attribute in chosen])


def _checked(attribute: Attribute, given: NDArray[Any]) -> NDArray[np.integer]:
    codes = np.asarray(given)
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise DataError(f"The codes of {attribute.name!r} are not integers, one a row.", fix="Give whole numbers.")
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < attribute.size:
        raise DataError(f"A code of {attribute.name!r} is outside its domain.", fix="Codes run from 0.")
    return codes


def _values(attribute: Attribute, codes: NDArray[np.integer]) -> pa.Array:
    if attribute.low is not None:  # a range may be wide: no list of its numbers
        return pa.array(codes.astype(np.int64) + attribute.low, mask=codes >= attribute.ordered_size)
    return _meanings(attribute).take(pa.array(codes))


def _meanings(attribute: Attribute) -> pa.Array:
    """What each code stands for, in order."""
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
