"""Small tables inside a large one: spread over it, and summed from it.

Where many lie inside one, they go by way of a few tables of middle size, each of which holds several of them: so each
touches the cells of a middle one instead of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters as _LETTERS

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.synthesis.inference.measurement import Names

Shape = tuple[int, ...]
_MANY = 1 << 18  # cells touched by all tables together: below, a detour is not worth planning
_MIDDLE = 0.6  # a middle table has at most this power of the large one's cells


@dataclass(frozen=True)
class Place:
    """Where a table on some attributes of a larger one lies."""

    names: Names  # in the larger one's order
    shape: Shape  # of the table
    spread: Shape  # the same with an axis of length 1 for every other attribute
    others: tuple[int, ...]  # axes of the larger one to sum over

    @classmethod
    def of(cls, names: Iterable[str], held: Names, sizes: Mapping[str, int]) -> Place:
        chosen = set(names)
        kept = tuple(name for name in held if name in chosen)
        return cls(
            kept,
            tuple(sizes[name] for name in kept),
            tuple(sizes[name] if name in chosen else 1 for name in held),
            tuple(k for k, name in enumerate(held) if name not in chosen),
        )

    @cached_property
    def letters(self) -> str:
        count = len(self.spread)
        return f"{_LETTERS[:count]}->{''.join(_LETTERS[k] for k in range(count) if k not in self.others)}"

    def add(self, small: Floats, table: Floats) -> None:
        table += small.reshape(self.spread)

    def sum(self, table: Floats) -> Floats:
        if not self.others:
            return table
        if 0 in self.others:
            return np.asarray(table.sum(axis=self.others))
        return np.asarray(np.einsum(self.letters, table))  # quicker when the first axis stays


@dataclass(frozen=True)
class Stage:
    """A middle table, and the small ones that go by way of it: their numbers, and their places in it."""

    middle: Place
    members: tuple[tuple[int, Place], ...]


class Places:
    """Tables on ``sets`` of attributes inside one on ``held``, in that order."""

    def __init__(self, held: Names, sizes: Mapping[str, int], sets: Sequence[Names]) -> None:
        self.direct = [(i, Place.of(names, held, sizes)) for i, names in enumerate(sets)]
        self.stages: list[Stage] = []
        cells = float(np.prod([float(sizes[name]) for name in held]))
        if cells * len(sets) < _MANY:
            return
        groups = _groups(held, sizes, sets, cells**_MIDDLE)
        for names, members in groups:
            if len(members) > 1:
                middle = Place.of(names, held, sizes)
                inside = tuple((i, Place.of(sets[i], middle.names, sizes)) for i in members)
                self.stages.append(Stage(middle, inside))
        gone = {i for stage in self.stages for i, _ in stage.members}
        self.direct = [(i, place) for i, place in self.direct if i not in gone]

    def add(self, small: Sequence[Floats], table: Floats) -> None:
        for i, place in self.direct:
            place.add(small[i], table)
        for stage in self.stages:
            gathered = np.zeros(stage.middle.shape)
            for i, place in stage.members:
                place.add(small[i], gathered)
            stage.middle.add(gathered, table)

    def sums(self, table: Floats) -> dict[int, Floats]:
        found = {i: place.sum(table) for i, place in self.direct}
        for stage in self.stages:
            middle = stage.middle.sum(table)
            found |= {i: place.sum(middle) for i, place in stage.members}
        return found


def _groups(
    held: Names, sizes: Mapping[str, int], sets: Sequence[Names], most: float
) -> list[tuple[set[str], list[int]]]:
    """Attributes of at most so many cells together, and the sets inside. Each group begins with a set that has none yet
    and takes in, one by one, the attribute with which it holds most of the others."""
    inside = np.array([[name in names for name in held] for names in sets])
    lengths = np.array([float(sizes[name]) for name in held])
    waiting = np.ones(len(sets), bool)
    groups = []
    while waiting.any():
        chosen = inside[int(waiting.argmax())].copy()
        while True:
            missing = inside[waiting] & ~chosen
            fitting = ~chosen & (lengths * np.prod(lengths[chosen]) <= most)
            if not fitting.any():
                break
            # sets that lack an attribute count the more, the fewer they lack
            gain = (missing / 4.0 ** missing.sum(axis=1, keepdims=True)).sum(axis=0)
            best = int(np.where(fitting, gain, -1.0).argmax())
            if gain[best] <= 0:
                break
            chosen[best] = True
        members = waiting & ~(inside & ~chosen).any(axis=1)
        waiting &= ~members
        groups.append(({name for name, c in zip(held, chosen, strict=True) if c}, np.flatnonzero(members).tolist()))
    return groups
