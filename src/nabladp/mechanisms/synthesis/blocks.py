"""Where a round may choose: blocks of attributes, fixed before data is read."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from nabladp.mechanisms.synthesis import choosing
from nabladp.noise import largest_packing
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP

Names = tuple[str, ...]
_RARELY = 0.04  # below this chance that a set lies inside a block, every other round chooses one set from all


@dataclass(frozen=True)
class Block:
    """Some source attributes, the candidates that read no others, and how many disjoint ones a pick has at most.

    With ``one`` a pick is exactly one of them; otherwise any number of disjoint ones, also none.
    """

    attributes: Names
    members: tuple[int, ...]
    masks: tuple[int, ...]  # of each member, over ``attributes``
    most: int
    one: bool = False

    @cached_property
    def read(self) -> Names:
        """The attributes that some member reads."""
        union = functools.reduce(operator.or_, self.masks, 0)
        return tuple(name for i, name in enumerate(self.attributes) if union >> i & 1)

    def guarantee(self, universe: Universe, prices: Mapping[str, int]) -> Guarantee:
        """What one pick costs. All that members read is charged, picked or not: the pick is an output."""
        charged = {name: CDP(Fraction(prices[name], UNIT)) for name in self.read if name in prices}
        if self.most == 1:
            return Guarantee.touch(universe, charged)  # [single]
        return Guarantee.linear(universe, charged, limit=self.most)  # [packed]


def blocks_of_rounds(
    attributes: Names, sources: Sequence[frozenset[str]], rounds: int, seed: int, *, single: bool
) -> tuple[tuple[Block, ...], ...]:
    """The blocks of every round. ``sources[i]`` are the source attributes of candidate i.

    One block holds everything where one set is picked, or there are few attributes. Otherwise each round cuts them
    anew, by a shuffle that depends on ``seed`` and the round's number only. Where some set would rarely lie in a block,
    every other round picks one set from all.
    """
    everything = (_block(attributes, sources, single=True),)
    if single:
        return (everything,) * rounds
    widest = choosing.WIDEST_BLOCK
    if len(attributes) <= widest:
        return ((_block(attributes, sources, single=False),),) * rounds
    pieces = math.ceil(len(attributes) / widest)
    mixed = _chance_inside(len(attributes), pieces, max(map(len, sources))) < _RARELY
    found = []
    for number in range(rounds):
        cuts = _cut(_shuffled(attributes, seed, number), pieces)  # [blocks]
        made = tuple(block for cut in cuts if (block := _block(cut, sources, single=False)).members)
        found.append(everything if (mixed and number % 2) or not made else made)
    return tuple(found)


def _block(attributes: Names, sources: Sequence[frozenset[str]], *, single: bool) -> Block:
    place = {name: 1 << i for i, name in enumerate(attributes)}
    inside = tuple(i for i, names in enumerate(sources) if names and names <= place.keys())
    masks = tuple(sum(place[name] for name in sources[i]) for i in inside)
    most = 1 if single or not inside else largest_packing(sorted(set(masks)), len(attributes))
    return Block(attributes, inside, masks, most, single)


def _chance_inside(d: int, pieces: int, size: int) -> float:
    """That all of ``size`` attributes lie in one block."""
    cuts = _cut(("",) * d, pieces)
    return sum(math.comb(len(cut), size) for cut in cuts) / math.comb(d, size)


def _shuffled(names: Names, seed: int, number: int) -> Names:
    return tuple(sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest()))


def _cut(names: Names, pieces: int) -> list[Names]:
    ends = [len(names) * i // pieces for i in range(pieces + 1)]
    return [names[a:b] for a, b in itertools.pairwise(ends)]
