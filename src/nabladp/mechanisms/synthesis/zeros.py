"""Combinations that never occur (a child has no income), declared from public knowledge in values of the schema.

A declaration names two columns or more, each with a condition; rows that meet all of them are impossible:

- ``"north"``, ``3`` or a list of such: these values (a bin or "(null)" by its label)
- ``{below = 15}``, ``{from = 65}``: numbers below it, numbers from it on; of bins, it must be an edge
- ``{not = …}``: all but these, null and other included

Whatever a drawn row holds, it meets no declaration: a bound that cuts a bin in two is refused, and so is one that the
number handed out for a bin would cross.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import MechanismError
from nabladp.mechanisms.synthesis.inference import Zeros
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree, refuse_too_large
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.schema import Attribute, Schema

Mask = NDArray[np.bool_]
WORDS = ("below", "from", "not")
_LARGEST = sys.float_info.max
LIMIT_BYTES = 1 << 28  # of a model that holds nothing but declared zeros


def forbidden(schema: Schema, columns: Sequence[str], declared: Sequence[Mapping[str, Any]]) -> tuple[Zeros, ...]:
    """The impossible cells, one table for each set of columns; refuses what leaves nothing possible."""
    found: dict[tuple[str, ...], Mask] = {}
    for conditions in declared:
        names = tuple(name for name in schema.names if name in conditions)
        _check_names(schema, columns, conditions)
        table = np.ones((1,) * len(names), np.bool_)
        for axis, name in enumerate(names):
            shape = [1] * len(names)
            shape[axis] = -1
            table = table & _meets(schema[name], conditions[name]).reshape(shape)
        found[names] = found[names] | table if names in found else table
    zeros = tuple(Zeros(names, table) for names, table in found.items())
    _check_possible(schema, zeros)
    return zeros


def _check_names(schema: Schema, columns: Sequence[str], conditions: Mapping[str, Any]) -> None:
    for name in conditions:
        schema[name]  # refuses an unknown name
        if name not in columns:
            raise MechanismError(
                f"'zeros' names {name!r}, which is not in the workload.", fix="Add it to the workload."
            )
    if len(conditions) < 2:
        raise MechanismError(
            "A declaration in 'zeros' names two columns or more.",
            fix="A single value that never occurs does not belong into the schema: remove it there.",
        )


def _meets(attribute: Attribute, condition: Any) -> Mask:
    """For every code, whether it meets the condition."""
    met = _all_met(attribute, condition) if isinstance(condition, Mapping) else _listed(attribute, condition)
    if not met.any():
        raise _refusal(attribute, "has a condition that none of its values meets")
    _check_numbers(attribute, met)
    return met


def _all_met(attribute: Attribute, condition: Mapping[str, Any]) -> Mask:
    if not condition or any(word not in WORDS for word in condition):
        raise _refusal(attribute, f"has a condition other than {', '.join(WORDS)}")
    met = np.ones(attribute.size, np.bool_)
    for word, bound in condition.items():
        met &= ~_listed(attribute, bound) if word == "not" else _beyond(attribute, word, bound)
    return met


def _check_numbers(attribute: Attribute, met: Mask) -> None:
    """The number that is drawn for a bin may lie on its upper edge, which belongs to the next one."""
    if attribute.kind != "real" or attribute.representatives is None:
        return
    bins = attribute.ordered_size
    places = np.searchsorted(attribute.edges, attribute.representatives, side="right") - 1
    if (met[np.minimum(places, bins - 1)] & ~met[:bins]).any():
        raise MechanismError(
            f"In 'zeros', {attribute.name!r} has a condition that numbers drawn for it would meet where their bins do "
            "not: the schema hands out upper edges.",
            fix=f'Write decode = "midpoint", "lower" or "uniform" for {attribute.name!r} in the schema.',
            attribute=attribute.name,
        )


def _listed(attribute: Attribute, given: Any) -> Mask:
    met = np.zeros(attribute.size, np.bool_)
    for value in given if isinstance(given, list | tuple) else [given]:
        if (label := _label(value)) not in attribute.labels:
            raise _refusal(attribute, "has no such value or bin as is named there")
        met[attribute.labels.index(label)] = True
    if not met.any():
        raise _refusal(attribute, "is given an empty list")
    return met


def _label(value: Any) -> str:
    """As the schema writes it: 3 and 3.0 are the same value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _beyond(attribute: Attribute, word: str, bound: Any) -> Mask:
    bounds = attribute.bin_bounds
    if bounds is None or isinstance(bound, bool) or not isinstance(bound, int | float) or not abs(bound) <= _LARGEST:
        raise _refusal(attribute, f"has a {word!r} that is not a number, or is not a column of numbers")
    bound, (lows, highs) = float(bound), bounds
    above, below = lows >= bound, highs < bound
    if attribute.kind == "real":  # a bin ends before its upper edge, the last one at it
        below[:-1] = highs[:-1] <= bound
    if not (above | below).all():
        raise _cut(attribute, word, bound, int(np.argmin(above | below)))
    met = np.zeros(attribute.size, np.bool_)  # neither null nor other is below anything
    met[: len(lows)] = above if word == "from" else below
    return met


def _cut(attribute: Attribute, word: str, bound: float, code: int) -> MechanismError:
    last = code == attribute.ordered_size - 1
    edges = [_label(edge) for edge in attribute.edges[code : code + (1 if last else 2)]]
    nearest = f"{' or '.join(edges)}, the nearest {'edge' if last else 'edges'}"
    return MechanismError(
        f"In 'zeros', {attribute.name!r} has {word!r} at {_label(bound)}, which cuts the bin {attribute.label(code)} "
        "in two.",
        fix=f"Write {nearest}, or declare other edges in the schema.",
        attribute=attribute.name,
        edges=edges,
    )


def _refusal(attribute: Attribute, what: str) -> MechanismError:
    return MechanismError(
        f"In 'zeros', {attribute.name!r} {what}.",
        fix='Write values as the schema declares them, or { below = 15 }, { from = 65 }, { not = "(null)" }.',
        attribute=attribute.name,
    )


def _check_possible(schema: Schema, zeros: Sequence[Zeros]) -> None:
    sizes = {name: schema[name].size for zero in zeros for name in zero.attributes}
    held = [zero.attributes for zero in zeros]
    if not held:
        return
    refuse_too_large(sizes, held, LIMIT_BYTES)
    with np.errstate(invalid="ignore"):  # where nothing is left, shares of it are asked for in vain
        log_total, _ = Network(JunctionTree(sizes, held), [], zeros).beliefs([])
    if math.isinf(log_total):
        raise MechanismError(
            "The declared zeros contradict each other: no combination of values is left.",
            fix="Declare fewer combinations impossible.",
            attributes=list(sizes),
        )
