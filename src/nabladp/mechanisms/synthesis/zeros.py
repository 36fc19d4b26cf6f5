"""Combinations that never occur (a child has no income), declared from public knowledge in values of the schema.

A declaration names two columns or more, each with a condition; rows that meet all of them are impossible:

- ``"north"``, ``3`` or a list of such: these values (a bin or "(null)" by its label)
- ``{below = 15}``, ``{from = 65}``: numbers below it, numbers from it on (of bins, those wholly so)
- ``{not = …}``: all but these, null and other included
"""

from __future__ import annotations

import math
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
                f"'zeros' speaks of {name!r}, which is not among the columns drawn.", fix="Add it to the workload."
            )
    if len(conditions) < 2:
        raise MechanismError(
            "A declaration in 'zeros' names two columns or more.",
            fix="A single value that never occurs does not belong into the schema: remove it there.",
        )


def _meets(attribute: Attribute, condition: Any) -> Mask:
    """For every code, whether it meets the condition."""
    if isinstance(condition, Mapping):
        if not condition or any(word not in WORDS for word in condition):
            raise _refusal(attribute, f"has a condition other than {', '.join(WORDS)}")
        met = np.ones(attribute.size, np.bool_)
        for word, bound in condition.items():
            met &= ~_listed(attribute, bound) if word == "not" else _beyond(attribute, word, bound)
        return met
    return _listed(attribute, condition)


def _listed(attribute: Attribute, given: Any) -> Mask:
    met = np.zeros(attribute.size, np.bool_)
    for value in given if isinstance(given, list | tuple) else [given]:
        label = str(value).lower() if isinstance(value, bool) else str(value)
        if label not in attribute.labels:
            raise _refusal(attribute, "has no such value or bin as is named there")
        met[attribute.labels.index(label)] = True
    if not met.any():
        raise _refusal(attribute, "is given an empty list")
    return met


def _beyond(attribute: Attribute, word: str, bound: Any) -> Mask:
    bounds = attribute.bin_bounds
    if bounds is None or isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
        raise _refusal(attribute, f"has a {word!r} that is no number, or holds no numbers itself")
    lows, highs = bounds
    met = np.zeros(attribute.size, np.bool_)  # neither null nor other is below anything
    if word == "from":
        met[: len(lows)] = lows >= bound
    else:  # a bin ends before its upper edge, a whole number at itself
        met[: len(highs)] = highs <= bound if attribute.kind == "real" else highs < bound
    return met


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
