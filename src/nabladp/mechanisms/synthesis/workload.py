"""Which marginals are wanted, how much each matters, and which may be measured for them."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import DomainTooLarge, MechanismError
from nabladp.mechanisms.synthesis.declared import declared_zeros, merge_zeros
from nabladp.mechanisms.synthesis.inference import Measurement, Zeros
from nabladp.mechanisms.synthesis.inference.junction_tree import JunctionTree, model_bytes, refuse_too_large
from nabladp.mechanisms.synthesis.inference.measurement import sum_to
from nabladp.mechanisms.synthesis.inference.potentials import Network
from nabladp.privacy.budget import members
from nabladp.privacy.units import exact
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema
from nabladp.schema.rules import number_label
from nabladp.workloads import marginal_sets
from nabladp.workloads.marginals import MOST_SETS

# ---- the workload ----------------------------------------------------------------------------------------------------

Names = tuple[str, ...]
LARGEST_DOMAIN = 1 << 16  # of one attribute: beyond, its own counts are lost in noise
_LARGEST_LINK = 1 << 20
_LARGEST_WEIGHT = 10**100
_TARGET = 3  # how much more a marginal with the target column matters


@dataclass(frozen=True)
class Wanted:
    """``sets`` with a weight each are the workload; ``candidates``, with theirs, are what rounds choose from.

    ``links`` tie derived columns to their sources. They and the one-way marginals are measured first.
    """

    schema: Schema
    sets: tuple[Names, ...]
    weights: tuple[float, ...]
    candidates: tuple[Names, ...]
    candidate_weights: tuple[float, ...]
    links: tuple[Names, ...] = ()

    @cached_property
    def columns(self) -> Names:
        """The columns of the Synthesis model and of the synthetic table."""
        used = {name for names in (*self.sets, *self.links) for name in names}
        return tuple(name for name in self.schema.names if name in used)

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {name: self.schema[name].size for name in self.columns}

    def cells(self, names: Names) -> int:
        return math.prod(self.sizes[name] for name in names)

    @cached_property
    def pairs(self) -> tuple[tuple[Names, ...], tuple[float, ...]]:
        """The pairs inside the workload's larger sets, with their weights."""
        both = zip(self.candidates, self.candidate_weights, strict=True)
        chosen = [(names, weight) for names, weight in both if len(names) == 2]
        return tuple(names for names, _ in chosen), tuple(weight for _, weight in chosen)

    @cached_property
    def first(self) -> tuple[Names, ...]:
        """The marginals measured before anything is chosen: every column, by itself or tied to its sources."""
        tied = {link[0] for link in self.links}
        return (*((name,) for name in self.columns if name not in tied), *self.links)


def wanted(
    schema: Schema,
    workload: int | Sequence[Sequence[str]],
    over: Sequence[str] | None,
    weights: Mapping[Any, float] | Sequence[float] | None,
    target: str | None,
) -> Wanted:
    """The Synthesis workload of marginals, checked against the schema; refuses what could never be counted."""
    links: tuple[Names, ...] = ()
    if isinstance(workload, int):
        _check_number(workload, len(schema.roots if over is None else over))
        sets = marginal_sets(schema, None, workload, over)
        links = _links(schema) if over is None else ()
    else:
        if over is not None:
            raise MechanismError("'over' goes with a number of columns.", fix="Leave it out, or give workload = 2.")
        sets = marginal_sets(schema, workload, None)
    _refuse_large_domains(schema, [*sets, *links])
    chosen = _weights(schema, sets, weights, target)
    wide = max(map(len, sets)) > 2
    candidates, worth = _closure(schema, sets, chosen) if wide else (sets, chosen)
    return Wanted(schema, sets, chosen, candidates, worth, links)


def _check_number(workload: int, columns: int) -> None:
    """Refuse a k-way workload that these columns cannot have, in the words of Synthesis."""
    if not 1 <= workload <= columns:
        raise MechanismError(
            f"There are no {workload}-way combinations of {columns} attributes.",
            fix=f"'workload' is a number from 1 to {columns}, or a list of sets.",
        )
    if (count := math.comb(columns, workload)) > MOST_SETS:
        raise DomainTooLarge(
            f"All {workload}-way marginals of {columns} attributes are {count:,} tables; the most is {MOST_SETS:,}.",
            fix="Lower 'workload', list the sets you need in it, or name fewer attributes in 'over'.",
            tables=count,
        )


def _refuse_large_domains(schema: Schema, sets: Iterable[Names]) -> None:
    for name in dict.fromkeys(name for names in sets for name in names):
        if (size := schema[name].size) > LARGEST_DOMAIN:
            raise DomainTooLarge(
                f"{name!r} has {size:,} values, too many for a table of synthetic rows; the most is "
                f"{LARGEST_DOMAIN:,}.",
                fix=f"Declare bins or fewer values for {name!r}, or leave it out of the workload.",
                attributes=[name],
                cells=str(size),
            )


def _links(schema: Schema) -> tuple[Names, ...]:
    """The marginals that tie each derived column to its sources: to all of them where that is not too large, else to
    each."""
    results: list[Names] = []
    for name, sources in schema.derived.items():
        together = (name, *sources)
        results += [together] if schema.cells(together) <= _LARGEST_LINK else [(name, source) for source in sources]
    return tuple(results)


def _weights(
    schema: Schema, sets: tuple[Names, ...], given: Mapping[Any, float] | Sequence[float] | None, target: str | None
) -> tuple[float, ...]:
    results = [Fraction(1)] * len(sets)
    if isinstance(given, Mapping):
        index_of = {frozenset(names): i for i, names in enumerate(sets)}
        for key, weight in given.items():
            names = members(Universe.of(schema), key)
            schema.sizes(names)
            if frozenset(names) not in index_of:
                raise MechanismError(f"{'+'.join(names)} has a weight but is not in the workload.", fix="Remove it.")
            results[index_of[frozenset(names)]] = exact(weight, "a weight")
    elif given is not None:
        if len(given) != len(sets):
            raise MechanismError(f"There are {len(given)} weights for {len(sets)} sets.", fix="Give one per set.")
        results = [exact(weight, "a weight") for weight in given]
    if any(weight <= 0 for weight in results):
        raise MechanismError("Every weight must be above zero.", fix="Leave unwanted sets out.")
    if max(results) > _LARGEST_WEIGHT:
        raise MechanismError("A weight is too large.", fix="Divide all of them: weights count by their ratio.")
    if target is not None:
        schema.sizes([target])
        if not any(target in names for names in sets):
            raise MechanismError(f"No marginal of the workload holds the target {target!r}.", fix="Add one.")
        results = [_TARGET * w if target in names else w for names, w in zip(sets, results, strict=True)]
    return tuple(float(weight) for weight in results)


def _closure(
    schema: Schema, sets: tuple[Names, ...], weights: tuple[float, ...]
) -> tuple[tuple[Names, ...], tuple[float, ...]]:
    """Candidate marginals: the workload's sets and all their subsets of two columns or more, weighted by what they
    share."""
    order = {name: i for i, name in enumerate(schema.names)}
    parts: dict[frozenset[str], Names] = {}
    for names in sets:
        for size in range(min(2, len(names)), len(names) + 1):
            for part in itertools.combinations(names, size):
                parts.setdefault(frozenset(part), tuple(sorted(part, key=order.__getitem__)))
    singles = dict.fromkeys((name for names in sets for name in names), 0.0)
    for names, weight in zip(sets, weights, strict=True):
        for name in names:
            singles[name] += weight
    # Σ over sets of weight·|part ∩ set| is a sum over the part's columns.
    return tuple(parts.values()), tuple(sum(singles[name] for name in part) for part in parts)


# ---- declared zeros --------------------------------------------------------------------------------------------------
# A declaration names two columns or more, each with a condition; rows that meet all of them are impossible:
#
# - ``"north"``, ``3`` or a list of such: these values (a bin or "(null)" by its label)
# - ``{below = 15}``, ``{from = 65}``: numbers below it, numbers from it on; of bins, it must be an edge
# - ``{not = …}``: all but these, null and other included
#
# Whatever a drawn row holds, it meets no declaration: a bound that cuts a bin in two is refused, and so is one that the
# number handed out for a bin would cross.

Mask = NDArray[np.bool_]
WORDS = ("below", "from", "not")
_LARGEST = sys.float_info.max
LIMIT_BYTES = 1 << 28  # of a model that holds nothing but declared zeros


def forbidden(schema: Schema, columns: Sequence[str], declared: Sequence[Mapping[str, Any]]) -> tuple[Zeros, ...]:
    """The declared structural zeros as tables of impossible cells, one per set of columns; refuses zeros that leave
    nothing possible."""
    results: dict[tuple[str, ...], Mask] = {}
    for conditions in declared:
        names = tuple(name for name in schema.names if name in conditions)
        _check_names(schema, columns, conditions)
        table = np.ones((1,) * len(names), np.bool_)
        for axis, name in enumerate(names):
            shape = [1] * len(names)
            shape[axis] = -1
            table = table & _meets(schema[name], conditions[name]).reshape(shape)
        results[names] = results[names] | table if names in results else table
    zeros = tuple(Zeros(names, table) for names, table in results.items())
    _check_possible(schema, zeros)
    return zeros


def with_rules(wanted: Wanted, zeros: Sequence[Zeros], limit_bytes: int) -> tuple[Zeros, ...]:
    """Declared zeros, and those of the schema's rules and formulas as far as a model of this size holds them."""
    taken = list(zeros)
    for zero in declared_zeros(wanted.schema, wanted.columns):
        held = [*wanted.first, *(own.attributes for own in taken), zero.attributes]
        if zero.forbidden.any() and model_bytes(wanted.sizes, held) <= limit_bytes:
            taken.append(zero)
    merged = tuple(merge_zeros(taken))
    if len(taken) > len(zeros):
        _check_possible(wanted.schema, merged)
    return merged


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
    """For every code of an attribute, whether it meets the condition of a declared zero."""
    met = _all_met(attribute, condition) if isinstance(condition, Mapping) else _mask_of_values(attribute, condition)
    if not met.any():
        raise _refusal(attribute, "has a condition that none of its values meets")
    _check_numbers(attribute, met)
    return met


def _all_met(attribute: Attribute, condition: Mapping[str, Any]) -> Mask:
    if not condition or any(word not in WORDS for word in condition):
        raise _refusal(attribute, f"has a condition other than {', '.join(WORDS)}")
    met = np.ones(attribute.size, np.bool_)
    for word, bound in condition.items():
        met &= ~_mask_of_values(attribute, bound) if word == "not" else _beyond(attribute, word, bound)
    return met


def _check_numbers(attribute: Attribute, met: Mask) -> None:
    """Refuse a zero that splits a bin: a number drawn for a bin may lie on its upper edge, which belongs to the next
    one."""
    if attribute.kind != "real" or attribute.representatives is None:
        return
    bins = attribute.ordered_size
    bin_of = np.searchsorted(attribute.edges, attribute.representatives, side="right") - 1
    if (met[np.minimum(bin_of, bins - 1)] & ~met[:bins]).any():
        raise MechanismError(
            f"In 'zeros', {attribute.name!r} has a condition that numbers drawn for it would meet where their bins do "
            "not: the schema hands out upper edges.",
            fix=f'Write decode = "midpoint", "lower" or "uniform" for {attribute.name!r} in the schema.',
            attribute=attribute.name,
        )


def _mask_of_values(attribute: Attribute, given: Any) -> Mask:
    met = np.zeros(attribute.size, np.bool_)
    for value in given if isinstance(given, list | tuple) else [given]:
        code = attribute.code(value)
        if code is None:
            raise _refusal(attribute, "has no such value or bin as is named there")
        met[code] = True
    if not met.any():
        raise _refusal(attribute, "is given an empty list")
    return met


def _beyond(attribute: Attribute, word: str, bound: Any) -> Mask:
    bounds = attribute.bin_bounds
    if bounds is None or isinstance(bound, bool) or not isinstance(bound, int | float) or not abs(bound) <= _LARGEST:
        raise _refusal(attribute, f"has a {word!r} that is not a number, or is not a column of numbers")
    bound, (lows, highs) = float(bound), bounds
    above, below = lows >= bound, highs < bound
    if attribute.kind == "real":  # a bin ends before its upper edge, the last one at it
        below[:-1] = highs[:-1] <= bound
    if not (above | below).all():
        raise _cut_bin(attribute, word, bound, int(np.argmin(above | below)))
    met = np.zeros(attribute.size, np.bool_)  # neither null nor other is below anything
    met[: len(lows)] = above if word == "from" else below
    return met


def _cut_bin(attribute: Attribute, word: str, bound: float, code: int) -> MechanismError:
    last = code == attribute.ordered_size - 1
    edges = [number_label(edge) for edge in attribute.edges[code : code + (1 if last else 2)]]
    nearest = f"{' or '.join(edges)}, the nearest {'edge' if last else 'edges'}"
    return MechanismError(
        f"In 'zeros', {attribute.name!r} has {word!r} at {number_label(bound)}, which cuts the bin "
        f"{attribute.text(code)} in two.",
        fix=f"Write {nearest}, or declare other edges in the schema.",
        attribute=attribute.name,
        edges=edges,
    )


def _refusal(attribute: Attribute, what: str) -> MechanismError:
    return MechanismError(
        f"In 'zeros', {attribute.name!r} {what}.",
        fix='Write values or labels as the schema declares them, or { below = 15 }, { from = 65 }, { not = "(null)" }.',
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
            "The declared zeros and rules contradict each other: no combination of values is left.",
            fix="Declare fewer combinations impossible.",
            attributes=list(sizes),
        )


_SURE = 4.5  # deviations of the noise: exceeded by chance once in 300,000 tests


def _tail_variance(measurement: Measurement) -> float:
    """The variance of the normal law that bounds the tails: noise on whole numbers is mostly 0 where it is small, and
    a single 1 would else look like many deviations."""
    variance = measurement.variance
    return max(variance, 1 / (2 * math.log(2 / variance))) if variance < 1 else variance


def contradicted(zeros: Iterable[Zeros], measurements: Iterable[Measurement]) -> list[dict[str, Any]]:
    """Declared zeros that the noisy counts contradict: how many rows meet them by these counts, and the deviation.

    Reads released numbers only. All impossible cells of some columns are tested together, and the largest by itself.
    """
    results, taken = [], list(measurements)
    for zero in zeros:
        holding = [m for m in taken if set(m.attributes) >= set(zero.attributes)]
        cells = int(zero.forbidden.sum())
        if not holding or not cells:
            continue
        parts = [sum_to(m.values, m.attributes, zero.attributes)[zero.forbidden] for m in holding]
        precision = np.array([zero.forbidden.size / (_tail_variance(m) * m.values.size) for m in holding])
        counts = precision @ np.stack(parts) / precision.sum()
        one = 1 / math.sqrt(precision.sum())
        rows, deviation = float(counts.sum()), one * math.sqrt(cells)
        beyond = math.hypot(_SURE, math.sqrt(2 * math.log(cells)))  # for the largest of so many
        if rows > _SURE * deviation or counts.max() > beyond * one:
            results.append({"attributes": list(zero.attributes), "rows": rows, "deviation": deviation})
    return results
