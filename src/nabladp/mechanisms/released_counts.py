"""Released tables of noisy counts, and one question to them: which attributes decide it, and which rows count.

A sum over rows is a weighted sum over the cells of a table, with a weight for each value of each attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import mapping, name_or_names
from nabladp.errors import MechanismError, quote
from nabladp.mechanisms.estimate import code_of
from nabladp.mechanisms.intervals import quantile_of_noise
from nabladp.mechanisms.pooling import Overlap, Pool, Table, one_group, overlap
from nabladp.noise.parameters import confidence
from nabladp.schema import Attribute, Schema

By = str | Sequence[str] | None
Where = Mapping[str, Any] | None
_WHERE = 'Write where={"region": "north", "age": "18..65"}.'
_MOST_NAMED = 4


class CountTable(Protocol):
    """A released table of noisy counts."""

    @property
    def attributes(self) -> tuple[str, ...]: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def noise(self) -> str: ...
    @property
    def variance(self) -> float: ...


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Tables of counts of the same rows, each with noise of its own, by name."""

    schema: Schema
    n: int
    tables: Sequence[tuple[str, CountTable]]

    @cached_property
    def pool(self) -> Pool:
        parts = [Table(own.attributes, own.counts[..., None], np.array([own.variance])) for _, own in self.tables]
        everyone = Table((), np.array([self.n]), np.zeros(1))  # public
        return Pool([*parts, everyone])

    @property
    def laplace(self) -> bool:
        return any(own.noise == "laplace" for _, own in self.tables)

    def holding(self, names: Sequence[str]) -> list[int]:
        return [i for i, (_, own) in enumerate(self.tables) if set(names) <= set(own.attributes)]


# ---- one question ----------------------------------------------------------------------------------------------------


class Question:
    """A question, checked against what was released: the attributes that decide it, its groups, which rows count."""

    def __init__(
        self, counts: NoisyCounts, what: str, by: By, where: Where, level: float, of: tuple[str, ...] = ()
    ) -> None:
        self.counts, self.schema, self.level = counts, counts.schema, confidence(level)
        self.by = () if by is None else name_or_names(by, "'by'", MechanismError)
        self.conditions = conditions(where)
        named = (*self.by, *of, *self.conditions)
        self.schema.sizes(named)  # refuses unknown names
        grouped = (*self.by, *of)
        if doubled := next((name for name in self.by if grouped.count(name) > 1), None):
            raise MechanismError(
                f"{doubled!r} is named twice.", fix="Group by other attributes than the one asked for."
            )
        self.masks = {name: read_values(self.schema[name], own) for name, own in self.conditions.items()}
        self.keys = tuple(dict.fromkeys(named))
        self.rest = tuple(name for name in self.keys if name not in self.by)
        self.what = f"{what} of {' and '.join(of)}" if of else what
        self.held = counts.holding(self.keys)
        if self.keys and not self.held:
            raise _not_together(counts, self.keys)
        self.z = quantile_of_noise(level, counts.laplace)

    # -- which rows, and which numbers --

    def mask(self, name: str) -> Floats:
        return self.masks.get(name, np.ones(self.schema[name].size))

    def everyone(self) -> dict[str, Floats]:
        """The weights of all rows that count, by attribute."""
        return {name: self.mask(name) for name in self.rest}

    def known(self, name: str) -> Floats:
        """The weights of rows in which an attribute has one of its declared values."""
        attribute = self.schema[name]
        return self.mask(name) * (np.arange(attribute.size) < attribute.ordered_size)

    def numbers(self, name: str) -> list[dict[str, Floats]]:
        """The weights that sum up an attribute: with the number of each bin, the least and the largest."""
        of = self.known(name)
        padded = (np.pad(own, (0, len(of) - len(own))) for own in bin_numbers(self.schema[name]))
        return [self.everyone() | {name: of * own} for own in padded]

    def bins_note(self, name: str) -> str:
        if self.schema[name].kind != "real":
            return ""
        return f"each bin of {name} counts as one number; the interval covers where in it values may be"

    # -- estimates and their noise --

    @cached_property
    def cells(self) -> Floats:
        """The pooled counts: axes are the groups' attributes, then the others."""
        values, _ = self.counts.pool.estimate((*self.by, *self.rest))
        return values[:, 0].reshape(self.schema.sizes((*self.by, *self.rest)))

    def sums(self, weights: Mapping[str, Floats]) -> Floats:
        """A weighted sum for each group."""
        result = self.cells
        for name in reversed(self.rest):
            result = result @ weights[name]
        return np.asarray(result.reshape(-1)[self.groups])

    def counts_along(self, name: str) -> Floats:
        """A row for each group: the number of rows for each value of an attribute."""
        result = np.moveaxis(self.cells, self.rest.index(name) - len(self.rest), -len(self.rest))
        for other in reversed([own for own in self.rest if own != name]):
            result = result @ self.mask(other)
        return np.asarray(result.reshape(-1, result.shape[-1])[self.groups])

    @cached_property
    def codes(self) -> Integers:
        """Of every group, a row of its values."""
        sizes = self.schema.sizes(self.by)
        return np.indices(sizes).reshape(len(sizes), -1).T[self.groups]

    @cached_property
    def groups(self) -> Integers:
        """The groups that 'where' keeps."""
        kept = np.ones(1, bool)
        for name in self.by:
            kept = np.logical_and.outer(kept, self.mask(name) > 0).ravel()
        return np.flatnonzero(kept)

    def covariance(self, overlaps: Mapping[str, Overlap], *pair: Integers) -> Floats:
        """Of two weighted sums for one group, or for two, from the overlap of their weights; for several pairs, that of
        the first."""
        same = np.ones(len(self.by), bool)
        if pair:
            same = self.codes[pair[0][0]] == self.codes[pair[1][0]]
        groups = {name: one_group(self.schema[name].size, bool(own)) for name, own in zip(self.by, same, strict=True)}
        return self.counts.pool.covariance(groups | dict(overlaps))[..., 0]

    def product(self, one: Mapping[str, Floats], other: Mapping[str, Floats], *pair: Integers) -> float:
        """The covariance of two weighted sums, for one group or between two."""
        found = float(self.covariance({name: overlap(one[name], other[name]) for name in self.rest}, *pair))
        return max(found, 0.0) if one is other and not pair else found

    def step(self, largest: Floats | float, deviation: Floats | float) -> Any:
        """Half of the largest step that whole-numbered noise makes in a sum: at most half of its largest weight, and no
        more than its deviation allows."""
        scales = [own.variance for _, own in (self.counts.tables[i] for i in self.held) if own.variance > 0]
        finest = min(scales) ** 0.5 if scales else 1.0
        return np.minimum(largest, deviation / finest) / 2

    # -- the answer --

    @property
    def sources(self) -> tuple[str, ...]:
        if not self.keys:
            return ("the number of rows, which is public",)
        return tuple(self.counts.tables[i][0] for i in self.held)


def bin_numbers(attribute: Attribute) -> tuple[Floats, Floats, Floats]:
    """The number that stands for each bin, and the least and the largest that it may hold."""
    values, bounds = attribute.representatives, attribute.bin_bounds
    if values is None or bounds is None:
        raise MechanismError(
            f"{attribute.name!r} is not numeric: it has no sum and no mean.",
            fix=f"Ask how often its values occur: count(by={attribute.name!r}), or share.",
        )
    return values, *bounds


def _not_together(counts: NoisyCounts, keys: Sequence[str]) -> MechanismError:
    """Names what would have to be released."""
    missing = [name for name in keys if not counts.holding([name])]
    together = " and ".join([", ".join(keys[:-1]), keys[-1]] if len(keys) > 1 else keys)
    problem = (
        f"No released table of counts holds {quote(missing[0])}."
        if missing
        else f"No released table of counts holds {together} together."
    )
    listed = [name for name, own in counts.tables if set(own.attributes) & set(keys)][:_MOST_NAMED]
    quoted = ", ".join(f'"{name}"' for name in keys)
    fix = f"Release NoisyMarginals with sets = [[{quoted}]]"
    return MechanismError(problem, fix=f"{fix}, or ask about one of {', '.join(listed)}." if listed else f"{fix}.")


# ---- conditions ------------------------------------------------------------------------------------------------------


def conditions(where: Where) -> Mapping[str, Any]:
    return {} if where is None else mapping(where, "'where'", _WHERE)


def read_values(attribute: Attribute, wanted: Any) -> Floats:
    """1 for each code that a condition keeps, 0 for the others: a value or its label, several in a list, or a range of
    numbers such as "18..65", both ends included."""
    mask = np.zeros(attribute.size)
    for own in wanted if isinstance(wanted, list | tuple | set | frozenset) else (wanted,):
        if isinstance(own, str) and ".." in own and attribute.is_numeric and attribute.code(own) is None:
            mask[_range(attribute, own)] = 1.0
        else:
            if isinstance(own, str) and attribute.is_numeric and attribute.code(own) is None:
                raise MechanismError(
                    f"{quote(own)} is neither a value of {attribute.name!r} nor a range.",
                    fix='Write one value, or both ends of a range: "18..65".',
                )
            mask[code_of(attribute, own)] = 1.0
    if not mask.any():
        raise MechanismError(f"'where' matches no value of {attribute.name!r}.", fix=_WHERE)
    return mask


def _range(attribute: Attribute, text: str) -> NDArray[np.bool_]:
    """The codes of a range of numbers; of a real attribute, whole bins."""
    lows, highs = attribute.bin_bounds or (np.empty(0), np.empty(0))
    first, _, last = text.partition("..")
    try:
        low = float(first) if first.strip() else -np.inf
        high = float(last) if last.strip() else np.inf
    except ValueError:
        raise MechanismError(f"{quote(text)} is not a range of numbers.", fix=_WHERE) from None
    if attribute.kind == "real":
        for end in (low, high):
            if np.isfinite(end) and end not in attribute.edges:
                edges = ", ".join(f"{edge:g}" for edge in attribute.edges[:12])
                raise MechanismError(
                    f"{end:g} lies inside a bin of {attribute.name!r}.",
                    fix=f"Use edges of its bins: {edges}{', …' if len(attribute.edges) > 12 else ''}.",
                )
    kept = np.zeros(attribute.size, bool)
    kept[: len(lows)] = (lows >= low) & (highs <= high)
    return kept
