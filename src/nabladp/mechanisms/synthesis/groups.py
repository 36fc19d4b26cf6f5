"""Values measured in groups: where single years of age would be drowned in noise, ages of several years are counted.

Which columns and how many groups follows from public facts (see ``strategy.grouped_columns``). Marginals of several
columns are counted by group; a column by itself is always counted value by value, and says how the rows of a group
spread over its values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.checks import damaged, is_whole
from nabladp.schema import Attribute, Schema

Names = tuple[str, ...]
Starts = tuple[tuple[int, ...], ...]  # by axis: the first code of every group; none where values are counted one by one
_LEAST_ROWS = 0.5  # of a value, when the rows of a group are spread


def starts_of(attribute: Attribute, groups: int) -> tuple[int, ...]:
    """The first code of every group: declared values in groups of one length; a bin of one number, null and other
    stay by themselves."""
    ordered = attribute.ordered_size
    starts = {*range(0, ordered, -(-ordered // groups)), *range(ordered, attribute.size)}
    if attribute.kind == "real":
        edges = np.array(attribute.edges)
        single = np.flatnonzero(np.nextafter(edges[:-1], np.inf) == edges[1:])
        starts |= {code for own in single.tolist() for code in (own, own + 1) if code < attribute.size}
    return tuple(sorted(starts))


def fixed_columns(schema: Schema, zeros: Collection[Mapping[str, Any]]) -> set[str]:
    """Columns that are never grouped: what is declared about them speaks of single values."""
    results = {name for zero in zeros for name in zero}
    results |= {name for rule in schema.inequalities for name in rule.names}
    return results | {own for name, sources in schema.derived.items() for own in (name, *sources)}


@dataclass(frozen=True)
class Groups:
    """``starts``: the first code of every group of the columns that have groups."""

    starts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def of(self, names: Names) -> Starts:
        """For a marginal that is measured: groups on each axis, or nothing at all where it is counted as it is."""
        if len(names) < 2 or not any(name in self.starts for name in names):
            return ()
        return tuple(self.starts.get(name, ()) for name in names)

    def shape(self, names: Names, sizes: Mapping[str, int]) -> tuple[int, ...]:
        own = self.of(names) or ((),) * len(names)
        return tuple(len(starts) or sizes[name] for name, starts in zip(names, own, strict=True))

    def cells(self, names: Names, sizes: Mapping[str, int]) -> int:
        return math.prod(self.shape(names, sizes))


def summed(table: NDArray[Any], starts: Starts) -> NDArray[Any]:
    """A table of counts, summed over the values of every group."""
    for axis, own in enumerate(starts):
        if own:
            table = np.add.reduceat(table, own, axis=axis)  # [groups]
    return table


def spread_out(table: Floats, starts: Starts, alone: Sequence[NDArray[Any] | None]) -> Floats:
    """Counts by group, spread over the values of the group as they are spread in the column by itself."""
    for axis, (own, counts) in enumerate(zip(starts, alone, strict=True)):
        if own and counts is not None:
            group = np.repeat(np.arange(len(own)), np.diff([*own, len(counts)]))
            rows = np.maximum(counts, 0.0) + _LEAST_ROWS
            share = rows / np.add.reduceat(rows, own)[group]
            table = np.take(table, group, axis=axis) * share.reshape(
                [-1 if k == axis else 1 for k in range(table.ndim)]
            )
    return table


def checked_starts(given: Sequence[Sequence[int]], sizes: Sequence[int]) -> Starts:
    """Groups as a record holds them; refuses what are no groups of so many values."""
    results = tuple(map(tuple, given))
    if results and len(results) != len(sizes):
        raise damaged("groups")
    for own, size in zip(results, sizes, strict=False):
        whole = all(is_whole(code, 0, size - 1) for code in own)
        if own and not (whole and own[0] == 0 and all(a < b for a, b in itertools.pairwise(own))):
            raise damaged("groups")
    return results


def group_labels(attribute: Attribute, starts: tuple[int, ...]) -> tuple[str, ...]:
    labels, ends = attribute.code_labels, (*starts[1:], attribute.size)
    return tuple(
        labels[first] if end == first + 1 else f"{labels[first]} … {labels[end - 1]}"
        for first, end in zip(starts, ends, strict=True)
    )
