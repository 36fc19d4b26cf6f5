"""Tables whose axes have names."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from nabladp.arrays import Floats

Names = tuple[str, ...]
Table = tuple[Names, Floats]


def product(left: Table, right: Table, kept: Collection[str]) -> Table:
    """Cell by cell where names agree, then summed over what is not kept."""
    a, b = left[0], right[0]
    length = dict(zip(a, left[1].shape, strict=True)) | dict(zip(b, right[1].shape, strict=True))
    both = [name for name in a if name in b]
    same = [name for name in both if name in kept]
    gone = [name for name in both if name not in kept]
    mine = [name for name in a if name not in both and name in kept]
    theirs = [name for name in b if name not in both and name in kept]
    shapes = [math.prod(length[name] for name in part) for part in (same, mine, gone, theirs)]
    x = arranged(left, (*same, *mine, *gone)).reshape(shapes[0], shapes[1], shapes[2])
    y = arranged(right, (*same, *gone, *theirs)).reshape(shapes[0], shapes[2], shapes[3])
    out = (*same, *mine, *theirs)
    return out, np.matmul(x, y).reshape([length[name] for name in out])


def arranged(table: Table, kept: Sequence[str]) -> Floats:
    """Summed over what is not kept, axes in the order of ``kept``."""
    names, values = table
    gone = tuple(i for i, name in enumerate(names) if name not in kept)
    if gone:
        values = values.sum(axis=gone)
        names = tuple(name for name in names if name in kept)
    return values.transpose([names.index(name) for name in kept])


def given(values: Floats, names: Names, condition: Collection[str]) -> Floats:
    """Conditional probabilities; all zero under an impossible condition."""
    axes = tuple(i for i, name in enumerate(names) if name not in condition)
    total = values.sum(axis=axes, keepdims=True) if axes else values
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)
