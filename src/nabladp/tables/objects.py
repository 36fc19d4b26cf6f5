"""Columns of Python objects, as text. Each value is read by itself.

Letting a library infer one type for the whole column would let one person's value change how all others are read: a
single "unknown" among numbers turns 1.0 into "1.0" where it was 1. One row would then move many counts, and no noise is
scaled for that. So every value becomes the text that a typed column of its own kind would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.tables.values import float_text

STRANGE = "\0"  # no declared value can be this: stands for objects that are no value of any kind


def object_texts(values: NDArray[np.object_], null: NDArray[np.bool_]) -> pa.Array:
    """One text per value; null where there is none."""
    kinds = set(map(type, values[~null]))
    if kinds <= {str}:
        known = values.copy()
        known[null] = None
        try:
            return pa.array(known, pa.string())
        except (pa.ArrowException, ValueError):  # some text is not valid Unicode: sort it out one by one
            pass
    return pa.array(_one_by_one(values, null), pa.string())


def _one_by_one(values: Iterable[Any], null: Iterable[np.bool_]) -> list[str | None]:
    return [None if missing else _text(value) for value, missing in zip(values, null, strict=True)]


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value if _is_unicode(value) else STRANGE
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating | Decimal):
        return float_text(float(value))
    if isinstance(value, datetime):
        return _moment(value)
    return value.isoformat() if isinstance(value, date | time) else STRANGE


def _moment(value: datetime) -> str:
    """As a timestamp column would be: the date alone at midnight, no needless zeros after the second."""
    if value.tzinfo is None and value.time() == time():
        return value.date().isoformat()
    text = value.isoformat()
    return text.rstrip("0") if "." in text and value.tzinfo is None else text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
