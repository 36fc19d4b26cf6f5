"""Derived columns of synthetic rows: how they follow from their sources.

In the model a derived column is one noisy column among others. Of a level, such as the month of a date, the schema says
how it follows. Of another that was measured together with all of its sources, the answers tell its likeliest value for
each of theirs. Synthetic rows get that one. All of this reads the schema and released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.declared import formula_table
from nabladp.mechanisms.synthesis.inference import Measurement, Model, pool
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.schema import Schema
from nabladp.schema.formulas import UNKNOWN

Codes = Mapping[str, NDArray[Any]]
MOST_CELLS = 1 << 20  # of a column with its sources: beyond, it stays as the model draws it
_NEARLY_NONE = 1e-9  # of the model's rows beside those of the answers


@dataclass(frozen=True, eq=False)
class Function:
    """The likeliest code of a derived column for every cell of its sources."""

    sources: Names
    sizes: tuple[int, ...]
    values: NDArray[Any]

    def __call__(self, codes: Codes) -> NDArray[Any]:
        cell = np.zeros(len(codes[self.sources[0]]), np.int64)
        for name, size in zip(self.sources, self.sizes, strict=True):
            cell = cell * size + codes[name]
        return self.values[cell]


def functions(schema: Schema, model: Model, measurements: Sequence[Measurement]) -> dict[str, Function]:
    """How derived columns follow from their sources: one function for each level, and for each that was measured with
    all of its sources.

    The answers say how, also where the model had no room for it; where they hold no rows, the model does. Where the
    schema has a formula, that says how.
    """
    tied = [frozenset(own.attributes) for own in measurements]
    together = {
        name: (*sources, name)
        for name, sources in schema.derived.items()
        if name not in schema.levels
        and any(held.issuperset((*sources, name)) for held in tied)
        and schema.cells((*sources, name)) <= MOST_CELLS
    }
    results = {}
    for name, pooled in zip(together, pool(model, measurements, together.values()), strict=True):
        likeliest = (pooled.values + _NEARLY_NONE * pooled.guess).reshape(-1, schema[name].size).argmax(axis=1)
        sources = schema.derived[name]
        results[name] = Function(sources, schema.sizes(sources), likeliest.astype(np.uint32))
    for name, formula in schema.formulas.items():
        sources = formula.sources
        if {name, *sources} <= set(model.sizes) and schema.cells((*sources, name)) <= MOST_CELLS:
            codes = formula_table(schema, name, sources).ravel()
            known = results.pop(name, None)
            guess = known.values if known is not None and known.sources == sources else np.zeros(codes.size, np.uint32)
            values = np.where(codes == UNKNOWN, guess, codes).astype(np.uint32)
            results[name] = Function(sources, schema.sizes(sources), values)
    for name, (column, codes) in schema.levels.items():
        if name in model.sizes and column in model.sizes:
            finer = results.get(column, Function((column,), schema.sizes((column,)), np.arange(schema[column].size)))
            results[name] = Function(finer.sources, finer.sizes, codes[finer.values].astype(np.uint32))
    return results


def recompute_derived(codes: Codes, known: Mapping[str, Function], model: Model) -> dict[str, NDArray[Any]]:
    """Synthetic rows with every derived column recomputed, except where that would make a combination declared
    impossible."""
    results = dict(codes)
    for name, function in known.items():
        drawn, value = results[name], function(results).astype(results[name].dtype)
        for zero in model.zeros:
            if name in zero.attributes:
                rows = results | {name: value}
                value = np.where(zero.forbidden[tuple(rows[own] for own in zero.attributes)], drawn, value)
        results[name] = value
    return results


def expected(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    """The expected marginal of synthetic rows: the model's, with derived columns recomputed from their sources."""
    return _recomputed_marginal(model, known, names, plain) if set(known) & set(names) else plain


def _recomputed_marginal(model: Model, known: Mapping[str, Function], names: Names, plain: Floats) -> Floats:
    follow = {name: known[name] for name in names if name in known}
    kept = [name for name in names if name not in follow]
    base = tuple(dict.fromkeys([*kept, *(source for function in follow.values() for source in function.sources)]))
    if math.prod(model.sizes[name] for name in base) > MOST_CELLS:
        return plain
    table = model.marginal(base)
    codes = dict(zip(base, np.indices(table.shape).reshape(len(base), -1), strict=True))
    codes |= {name: function(codes) for name, function in follow.items()}
    cells = np.ravel_multi_index([codes[name] for name in names], plain.shape)
    followed: Floats = np.zeros(plain.size)
    np.add.at(followed, cells, table.ravel())
    return followed.reshape(plain.shape)
