"""What attributes, named sets and the whole person may pay, and what they have saved up. Units are 2⁻⁶⁰ of ρ.

An account is kept for every protected source attribute and for every limit on several of them. A marginal is charged
to each account whose attributes it touches. What is not spent in one round is there in the next.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.allocation import allocate
from nabladp.mechanisms.attribute_blocks import chance_of_one_block, split_into_blocks
from nabladp.mechanisms.synthesis import strategy
from nabladp.noise import largest_packing
from nabladp.privacy.budget import Budget
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Rho

# ---- accounts --------------------------------------------------------------------------------------------------------

Names = tuple[str, ...]
Keys = tuple[int, ...]  # accounts, by number
MOST_LIMITS = 7  # on sets of attributes; a guarantee enumerates what they cover


@dataclass(frozen=True)
class Limits:
    """``units[i]`` is the most that everything touching ``sets[i]`` may cost; single attributes come first."""

    universe: Universe
    attributes: Names  # protected source attributes that the workload reads
    sets: tuple[frozenset[str], ...]
    names: Names
    units: tuple[int, ...]  # a little less than the budget says, so that roundings never show

    @classmethod
    def of(cls, universe: Universe, columns: Iterable[str], budget: Budget) -> Limits:
        """The budget's limits in units, as far as they concern these columns; an attribute's own is the least it is
        under."""
        read = universe.sources(columns)
        attributes = tuple(name for name in universe.protected if name in read)
        given = [(limit, limit.attributes & read) for limit in budget.limits(universe)]
        own = {name: min((limit.units for limit, held in given if name in held), default=0) for name in attributes}
        for name, units in own.items():
            if not units:
                raise BudgetError(
                    f"{name!r} has no budget.", fix="Give a budget for every attribute, or one per person."
                )
        together: dict[frozenset[str], tuple[int, str]] = {}
        for limit, held in given:
            if len(held) > 1:
                together[held] = min(together.get(held, (limit.units, limit.name)), (limit.units, limit.name))
        if len(together) > MOST_LIMITS:
            raise BudgetError(
                f"{len(together)} limits on sets of attributes are too many; the most is {MOST_LIMITS}.",
                fix="Leave out those that matter least.",
            )
        return cls(
            universe,
            attributes,
            (*(frozenset([name]) for name in attributes), *together),
            (*attributes, *(name for _, name in together.values())),
            tuple(map(_with_spare, (*own.values(), *(units for units, _ in together.values())))),
        )

    def group_prices(self) -> dict[str, int]:
        """ε-units of every attribute such that no release within its limit can cost any set more (group privacy)."""
        return {
            name: math.isqrt(2 * UNIT * (units + 8 + (units >> 41)))
            for name, units in zip(self.attributes, self.units, strict=False)
        }

    @cached_property
    def _at(self) -> dict[str, Keys]:
        return {name: tuple(i for i, held in enumerate(self.sets) if name in held) for name in self.attributes}

    def charged(self, columns: Iterable[str]) -> Keys:
        """The accounts that measuring a marginal of these columns is charged to; none if it reads public attributes
        only."""
        results: dict[int, None] = {}
        for source in self.universe.sources(columns):
            results |= dict.fromkeys(self._at.get(source, ()))  # [sources]
        return tuple(sorted(results))

    def protected(self, columns: Iterable[str]) -> frozenset[str]:
        return self.universe.sources(columns) & frozenset(self.attributes)

    def shared(self, share: Fraction) -> list[int]:
        """The limits times a share."""
        return [units * share.numerator // share.denominator for units in self.units]

    def divided(self, sets: Sequence[Names], weights: Sequence[Fraction], share: Fraction | int = 1) -> list[int]:
        """The budget of each marginal, in units, that together stay within a share of every limit, in proportion while
        possible.

        Marginals of public attributes alone cost nothing; they get what the richest attribute may pay.
        """
        amounts = dict(zip(map(str, range(len(self.units))), self.shared(Fraction(share)), strict=True))
        touched = [frozenset(map(str, self.charged(columns))) for columns in sets]
        result = allocate(touched, weights, amounts) if sets else []  # [allocation]
        free = max(self.units, default=UNIT)
        return [units if keys else free for units, keys in zip(result, touched, strict=True)]

    def touched(self, sets: Sequence[Names], units: Sequence[int], scales: Sequence[float]) -> Guarantee:
        """The guarantee of marginals that are fixed in advance."""
        parts = [
            Guarantee.touch(self.universe, columns, Rho(Fraction(amount, UNIT)), gaussian_scale=scale)
            for columns, amount, scale in zip(sets, units, scales, strict=True)
            if self.charged(columns)
        ]
        return Guarantee.compose(self.universe, parts)


def _with_spare(units: int) -> int:
    return max(units - 16 - (units >> 40), 0)


@dataclass(frozen=True)
class Accounts:
    """How far every account is: what it may pay in all, what it was granted so far, and what it has paid."""

    limits: Limits
    most: tuple[int, ...]
    granted: tuple[int, ...]
    spent: tuple[int, ...]

    @classmethod
    def after(cls, limits: Limits, fixed: Guarantee) -> Accounts:
        """Accounts with all that the limits leave once ``fixed`` is paid; nothing is granted yet."""
        most = []
        for held, units, name in zip(limits.sets, limits.units, limits.names, strict=True):
            left = units - (fixed.rho_units(held) or 0)
            if left < 1:
                raise BudgetError(f"The budget of {name!r} is too small.", fix="Raise it.")
            most.append(left)
        return cls(limits, tuple(most), (0,) * len(most), (0,) * len(most))

    def grow(self, part: Fraction) -> Accounts:
        """Grant the accounts everything up to this part of the whole."""
        if not 0 <= part <= 1:  # [enforced]
            raise MechanismError("More is granted than there is.", fix="Report this.")
        granted = tuple(most * part.numerator // part.denominator for most in self.most)
        return Accounts(self.limits, self.most, granted, self.spent)

    def saved(self, key: int) -> int:
        return self.granted[key] - self.spent[key]

    def affordable(self, keys: Keys, sharing: Mapping[int, int]) -> int:
        """The budget for a marginal charged to these accounts, if so many others share each of them."""
        if not keys:
            return max(self.granted, default=UNIT)
        return min(self.saved(key) // max(1, sharing.get(key, 1)) for key in keys)

    def pay(self, keys: Keys, units: int) -> Accounts:
        spent = list(self.spent)
        for key in keys:
            spent[key] += units
            if spent[key] > self.granted[key]:  # [enforced]
                raise MechanismError(f"The budget of {self.limits.names[key]!r} is overdrawn.", fix="Report this.")
        return Accounts(self.limits, self.most, self.granted, tuple(spent))

    def left(self) -> Limits:
        """The unspent budget of the accounts, as limits of its own."""
        return self._as_limits(self.most)

    def saved_limits(self) -> Limits:
        """What was granted and is not spent, as limits of its own."""
        return self._as_limits(self.granted)

    def _as_limits(self, upto: Sequence[int]) -> Limits:
        units = tuple(most - spent for most, spent in zip(upto, self.spent, strict=True))
        return replace(self.limits, units=units)

    def guarantee(self, least: int) -> Guarantee:
        """The guarantee of all marginals that rounds may measure, each touching ``least`` attributes or more.

        Then all measurements together cost at most the attributes' own sum over ``least``.
        """
        own = len(self.limits.attributes)
        each = {
            name: Rho(Fraction(units, UNIT)) for name, units in zip(self.limits.attributes, self.most, strict=False)
        }
        caps = {tuple(sorted(held)): units for held, units in zip(self.limits.sets[own:], self.most[own:], strict=True)}
        everyone = tuple(sorted(self.limits.attributes))
        if own > 1:
            caps[everyone] = min(caps.get(everyone, sum(self.most)), sum(self.most[:own]) // least)  # [whole]
        return Guarantee.capped(  # [caps]
            self.limits.universe, each, {held: Rho(Fraction(units, UNIT)) for held, units in caps.items()}
        )


# ---- blocks of attributes --------------------------------------------------------------------------------------------

_RARELY = 0.04  # below this chance that a set lies inside a block, every other round chooses one set from all


@dataclass(frozen=True)
class Block:
    """Some source attributes, the candidates that read no others, and how many disjoint ones a pick has at most.

    With ``one`` a pick is exactly one of them; otherwise any number of disjoint ones, also none: a random packing or,
    where ``matched``, the heaviest one under noise.
    """

    attributes: Names
    members: tuple[int, ...]
    masks: tuple[int, ...]  # of each member, over ``attributes``
    most: int
    one: bool = False
    matched: bool = False

    @cached_property
    def read(self) -> Names:
        """The attributes that some candidate marginal of the block reads."""
        union = functools.reduce(operator.or_, self.masks, 0)
        return tuple(name for i, name in enumerate(self.attributes) if union >> i & 1)

    def guarantee(self, universe: Universe, prices: Mapping[str, int]) -> Guarantee:
        """The guarantee of one pick from the block. All that candidates read is charged, picked or not: the pick is an
        output."""
        charged = {name: CDP(Fraction(prices[name], UNIT)) for name in self.read if name in prices}
        if self.matched:
            return Guarantee.linear(universe, charged)  # [matched]
        if self.most == 1:
            return Guarantee.touch(universe, charged)  # [single]
        return Guarantee.linear(universe, charged, limit=self.most)  # [packed]


def blocks_of_rounds(
    attributes: Names, sources: Sequence[frozenset[str]], rounds: int, seed: int, *, chosen: str
) -> tuple[tuple[Block, ...], ...]:
    """The blocks of attributes of every Synthesis round. ``sources[i]`` are the source attributes of candidate marginal
    i.

    One block holds everything where one set is picked, where sets are matched, or where there are few attributes.
    Otherwise each round cuts them anew, by a shuffle that depends on ``seed`` and the round's number only. Where some
    set would rarely lie in a block, every other round picks one set from all.
    """
    everything = (_block(attributes, sources, single=True),)
    if chosen == "single":
        return (everything,) * rounds
    if chosen == "matched":
        return ((_matching_block(everything[0]),),) * rounds
    widest = strategy.WIDEST_BLOCK
    if len(attributes) <= widest:
        return ((_block(attributes, sources, single=False),),) * rounds
    pieces = math.ceil(len(attributes) / widest)
    mixed = chance_of_one_block(len(attributes), pieces, max(map(len, sources))) < _RARELY
    results = []
    for number in range(rounds):
        cuts = split_into_blocks(attributes, pieces, seed, number)  # [blocks]
        made = tuple(block for cut in cuts if (block := _block(cut, sources, single=False)).members)
        results.append(everything if (mixed and number % 2) or not made else made)
    return tuple(results)


def _block(attributes: Names, sources: Sequence[frozenset[str]], *, single: bool) -> Block:
    bit = {name: 1 << i for i, name in enumerate(attributes)}
    inside = tuple(i for i, names in enumerate(sources) if names and names <= bit.keys())
    masks = tuple(sum(bit[name] for name in sources[i]) for i in inside)
    most = 1 if single or not inside else largest_packing(sorted(set(masks)), len(attributes))
    return Block(attributes, inside, masks, most, single)


def _matching_block(block: Block) -> Block:
    """A block of everything whose pick is a matching of its sets, all of which have one or two attributes."""
    sizes = [mask.bit_count() for mask in block.masks]
    if max(sizes) > 2:
        raise MechanismError(
            f'strategy = "matched" takes marginals of one or two source attributes; the workload needs {max(sizes)}.',
            fix='Set strategy = "packed", or workload = 2.',
        )
    return replace(block, most=len(block.attributes) // min(sizes), one=False, matched=True)
