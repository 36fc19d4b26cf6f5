"""What a model is fitted to (noisy marginals, declared zeros), and the arithmetic of tables whose axes have names."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats
from nabladp.errors import MechanismError, UnknownAttribute
from nabladp.mechanisms.synthesis.inference.misses import Miss

# ---- measurements ----------------------------------------------------------------------------------------------------

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of one marginal, one axis for each attribute, and the variance of each cell.

    ``surprise``: how far the model was from it when it came, for one attribute, two, …, where that is known.
    ``grouped``: attributes whose values were counted in groups, of so many values each: inside a group, by the
    attribute itself, it only says again what another measurement told."""

    attributes: Names
    values: Floats
    variance: float
    surprise: tuple[Miss, ...] = ()
    grouped: Mapping[str, float] = field(default_factory=dict)


def join_measurements(same: Sequence[Measurement]) -> Measurement:
    """One measurement in place of several of the same attributes, each counting by its precision."""
    precision = math.fsum(1 / m.variance for m in same)
    values = sum(m.values / m.variance for m in same) / precision
    return Measurement(same[0].attributes, np.asarray(values), 1 / precision, grouped=same[0].grouped)


@dataclass(frozen=True, eq=False)
class Zeros:
    """Combinations of values that never occur: true in ``forbidden``, which has one axis for each attribute."""

    attributes: Names
    forbidden: NDArray[np.bool_]


def check(sizes: Mapping[str, int], measurements: Iterable[Measurement], zeros: Iterable[Zeros]) -> None:
    """Refuse measurements and zeros that do not fit the model's domain."""
    tables: list[tuple[Names, tuple[int, ...]]] = [(m.attributes, m.values.shape) for m in measurements]
    tables += [(z.attributes, z.forbidden.shape) for z in zeros]
    for names, shape in tables:
        for name in names:
            if name not in sizes:
                raise UnknownAttribute.with_suggestion(name, sizes)
        if shape != tuple(sizes[name] for name in names) or len(set(names)) < len(names):
            raise MechanismError(
                f"The table of {'+'.join(names)} does not have one axis for each attribute.",
                fix="Give every attribute once, and an axis of its domain's size for each.",
                attributes=list(names),
            )
    if not all(m.variance > 0 for m in measurements):
        raise MechanismError("A measurement's variance must be positive.", fix="Give the variance of its noise.")


def sum_to(table: Floats, names: Sequence[str], kept: Sequence[str]) -> Floats:
    """The marginal of a named-axis table on ``kept``, axes in that order."""
    gone = tuple(i for i, name in enumerate(names) if name not in kept)
    left = [name for name in names if name in kept]
    total = table.sum(axis=gone) if gone else table
    return np.asarray(total.transpose([left.index(name) for name in kept]))


def spread(table: NDArray[Any], names: Sequence[str], over: Sequence[str]) -> NDArray[Any]:
    """A named-axis table with its axes in the order of ``over``, of length 1 where it has none: ready to broadcast."""
    kept = [name for name in over if name in names]
    turned = table.transpose([names.index(name) for name in kept])
    lengths = dict(zip(kept, turned.shape, strict=True))
    return turned.reshape([lengths.get(name, 1) for name in over])


def combined(measurements: Iterable[Measurement]) -> list[Measurement]:
    """One measurement for each set of attributes: means weighted by precision."""
    values: dict[frozenset[str], Floats] = {}
    precision: dict[frozenset[str], float] = {}
    names: dict[frozenset[str], Names] = {}
    for m in measurements:
        key = frozenset(m.attributes)
        order = names.setdefault(key, m.attributes)
        values[key] = values.get(key, 0.0) + sum_to(m.values, m.attributes, order) / m.variance
        precision[key] = precision.get(key, 0.0) + 1 / m.variance
    return [Measurement(names[key], values[key] / precision[key], 1 / precision[key]) for key in names]


# ---- tables whose axes have names ------------------------------------------------------------------------------------

Table = tuple[Names, Floats]


def product(left: Table, right: Table, kept: Collection[str]) -> Table:
    """The product of two named-axis tables, cell by cell where names agree, then summed over what is not kept."""
    a, b = left[0], right[0]
    length = dict(zip(a, left[1].shape, strict=True)) | dict(zip(b, right[1].shape, strict=True))
    both = [name for name in a if name in b]
    same = [name for name in both if name in kept]
    gone = [name for name in both if name not in kept]
    mine = [name for name in a if name not in both and name in kept]
    theirs = [name for name in b if name not in both and name in kept]
    shapes = [math.prod(length[name] for name in part) for part in (same, mine, gone, theirs)]
    x = arrange(left, (*same, *mine, *gone)).reshape(shapes[0], shapes[1], shapes[2])
    y = arrange(right, (*same, *gone, *theirs)).reshape(shapes[0], shapes[2], shapes[3])
    out = (*same, *mine, *theirs)
    return out, np.matmul(x, y).reshape([length[name] for name in out])


def arrange(table: Table, kept: Sequence[str]) -> Floats:
    """A named-axis table summed over what is not kept, axes in the order of ``kept``."""
    names, values = table
    gone = tuple(i for i, name in enumerate(names) if name not in kept)
    if gone:
        values = values.sum(axis=gone)
        names = tuple(name for name in names if name in kept)
    return values.transpose([names.index(name) for name in kept])


def given(values: Floats, names: Names, condition: Collection[str]) -> Floats:
    """Conditional probabilities of a named-axis table; all zero under an impossible condition."""
    axes = tuple(i for i, name in enumerate(names) if name not in condition)
    total = values.sum(axis=axes, keepdims=True) if axes else values
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)
