"""Derived columns of drawn rows: functions of their sources again, as the schema declares them.

In the model a derived column is one noisy column among others. Where it was measured together with all of its sources,
the model also tells its likeliest value for each of theirs; drawn rows get that one. All of this reads the released
model only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.inference import Model
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.schema import Schema

Codes = Mapping[str, NDArray[Any]]
MOST_CELLS = 1 << 20  # of a column with its sources: beyond, it stays as the model draws it


@dataclass(frozen=True, eq=False)
class Function:
    """The likeliest code of a derived column for every cell of its sources."""

    sources: Names
    sizes: tuple[int, ...]
    values: NDArray[Any]

    def __call__(self, codes: Codes) -> NDArray[Any]:
        place = np.zeros(len(codes[self.sources[0]]), np.int64)
        for name, size in zip(self.sources, self.sizes, strict=True):
            place = place * size + codes[name]
        return self.values[place]


def functions(schema: Schema, model: Model, measured: Iterable[Names]) -> dict[str, Function]:
    """One for each derived column of the model that was measured with all of its sources."""
    tied = [frozenset(names) for names in measured]
    found = {}
    for name, sources in schema.derived.items():
        together = (*sources, name)
        if any(held.issuperset(together) for held in tied) and schema.cells(together) <= MOST_CELLS:
            likeliest = model.marginal(together).reshape(-1, schema[name].size).argmax(axis=1)
            found[name] = Function(sources, schema.sizes(sources), likeliest.astype(np.uint32))
    return found


def settled(codes: Codes, known: Mapping[str, Function], model: Model) -> dict[str, NDArray[Any]]:
    """Drawn rows with every such column recomputed, but where that would make a combination declared impossible."""
    found = dict(codes)
    for name, function in known.items():
        drawn, value = found[name], function(found).astype(found[name].dtype)
        for zero in model.zeros:
            if name in zero.attributes:
                rows = found | {name: value}
                value = np.where(zero.forbidden[tuple(rows[own] for own in zero.attributes)], drawn, value)
        found[name] = value
    return found


def expected(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    """What a marginal of drawn rows comes out as: the model's, with such columns following from their sources."""
    return _followed(model, known, names, plain) if set(known) & set(names) else plain


def _followed(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    follow = {name: known[name] for name in names if name in known}
    kept = [name for name in names if name not in follow]
    base = tuple(dict.fromkeys([*kept, *(source for function in follow.values() for source in function.sources)]))
    if math.prod(model.sizes[name] for name in base) > MOST_CELLS:
        return plain
    table = model.marginal(base)
    codes = dict(zip(base, np.indices(table.shape).reshape(len(base), -1), strict=True))
    codes |= {name: function(codes) for name, function in follow.items()}
    places = np.ravel_multi_index([codes[name] for name in names], plain.shape)
    followed: Floats = np.zeros(plain.size)
    np.add.at(followed, places, table.ravel())
    return followed.reshape(plain.shape)
