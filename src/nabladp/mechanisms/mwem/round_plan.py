"""What every round will do, fixed before data is read: which attributes together, how many queries, at what cost."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from nabladp.arrays import Integers
from nabladp.errors import BudgetError, MechanismError
from nabladp.mechanisms.attribute_blocks import chance_of_one_block, split_into_blocks
from nabladp.mechanisms.noise_uses import Charge, NoiseUse, each_source
from nabladp.noise import largest_packing
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Rho
from nabladp.workloads import Queries

WIDEST_BLOCK = 16
_RARELY = 0.1
_LEAST_UNITS = 1 << 16  # of a round's cost: its noise would be of scale 10⁶


@dataclass(frozen=True)
class Block:
    """Some source attributes, the groups of queries that depend on no others, and how many disjoint ones to pick."""

    attributes: tuple[str, ...]
    members: tuple[int, ...]
    masks: tuple[int, ...]  # of each member, over ``attributes``
    count: int


class Scope:
    """The queries of a workload as sets of source attributes: two queries are disjoint when their sources are.

    Only attributes that can move an answer count. Queries that nothing moves are never picked.
    """

    def __init__(self, queries: Queries, universe: Universe) -> None:
        self.universe = universe
        moving = [[name for name, _ in group.shift.amounts] for group in queries.groups]
        self.sources = [universe.sources(names) for names in moving]  # [sources]
        used = frozenset().union(*self.sources)
        if not used:
            raise MechanismError("No row can move an answer of this workload.", fix="Ask about columns with values.")
        self.attributes = tuple(name for name in universe.roots if name in used)
        self.smallest = min(len(sources) for sources in self.sources if sources)
        self.largest = max(len(sources) for sources in self.sources)

    def block(self, attributes: tuple[str, ...], at_most: int | None) -> tuple[Block, ...]:
        """All query groups inside these attributes, with the largest packing or ``at_most``; None where there are
        none."""
        bit = {name: 1 << i for i, name in enumerate(attributes)}
        inside = [i for i, sources in enumerate(self.sources) if sources and sources <= bit.keys()]
        if not inside:
            return ()
        masks = tuple(sum(bit[name] for name in self.sources[i]) for i in inside)
        if at_most == 1:
            return (Block(attributes, tuple(inside), masks, 1),)
        largest = largest_packing(sorted(set(masks)), len(attributes))
        return (Block(attributes, tuple(inside), masks, largest if at_most is None else min(largest, at_most)),)


def blocks_of_rounds(scope: Scope, per_round: int | None, rounds: int, seed: int) -> tuple[tuple[Block, ...], ...]:
    """The blocks of attributes of every MWEM round, within which queries are picked jointly; none is empty.

    One block holds everything while it has at most 16 attributes, or where one query a round is picked. Otherwise each
    round cuts the attributes anew into blocks of at most 16, by a shuffle that depends on ``seed`` and the round's
    number only: the partition is public and independent of the data. Where some set would rarely lie in a block, every
    other round picks one query from all.
    """
    d = len(scope.attributes)
    if per_round is not None and per_round > d // scope.smallest:
        raise _no_packing(per_round, d // scope.smallest)
    everything = scope.block(scope.attributes, 1)
    if d <= WIDEST_BLOCK or per_round == 1:
        block = scope.block(scope.attributes, per_round)
        if per_round is not None and block[0].count < per_round:
            raise _no_packing(per_round, block[0].count)
        return (block,) * rounds
    pieces = math.ceil(d / WIDEST_BLOCK)
    mixed = chance_of_one_block(d, pieces, scope.largest) < _RARELY
    results = tuple(
        everything if mixed and number % 2 else _round_blocks(scope, pieces, per_round, seed, number) or everything
        for number in range(rounds)
    )
    largest = max(sum(block.count for block in blocks) for blocks in results)
    if per_round is not None and largest < per_round:
        raise _no_packing(per_round, largest)
    return results


def _round_blocks(scope: Scope, pieces: int, per_round: int | None, seed: int, number: int) -> tuple[Block, ...]:
    """The blocks of one MWEM round: as many disjoint sets from each as there are, but no more than ``per_round`` in
    all."""
    cuts = split_into_blocks(scope.attributes, pieces, seed, number)  # [blocks]
    made = [block for cut in cuts for block in scope.block(cut, None)]
    while per_round is not None and sum(block.count for block in made) > per_round:
        fullest = max(range(len(made)), key=lambda i: made[i].count)
        made[fullest] = replace(made[fullest], count=made[fullest].count - 1)
    return tuple(block for block in made if block.count)


def _no_packing(wanted: int, largest: int) -> MechanismError:
    return MechanismError(
        f"There are no {wanted} attribute-disjoint queries for a round; at most {largest} can be picked together. "
        "Sets that share an attribute, or the source of a derived one, overlap; more than 16 attributes are split into "
        "blocks.",
        fix=f"Set per_round to at most {largest}, or leave it out.",
        per_round=wanted,
        largest=largest,
    )


@dataclass(frozen=True)
class Prices:
    """What each protected source attribute pays in one round, in units of 2⁻⁶⁰: ε for selection, ρ for answers.

    Rounds·ε²/2 for selection stays within ``share`` of the budget and rounds·ρ for answers within the rest.
    """

    selection: Mapping[str, int]
    answers: Mapping[str, int]

    @classmethod
    def of(cls, budget_units: Mapping[str, int], rounds: int, share: Fraction) -> Prices:
        selection, answers = {}, {}
        for name, units in budget_units.items():
            for_selection = units * share.numerator // share.denominator
            each = for_selection // rounds
            each -= 16 + (each >> 40)  # to spare for rounding, so that no number of rounds costs more than any_rounds
            answers[name] = (units - for_selection) // rounds
            if min(each, answers[name]) < _LEAST_UNITS:
                raise BudgetError(
                    f"The budget of {name!r} is too small for so many rounds ({rounds:,}).",
                    fix="Raise it or ask for fewer.",
                )
            selection[name] = math.isqrt(2 * UNIT * each)  # [prices]
        return cls(selection, answers)

    @classmethod
    def any_rounds(cls, budget_units: Mapping[str, int], share: Fraction) -> Prices:
        """The guarantee of all MWEM rounds together, however many there are."""
        selection, answers = {}, {}
        for name, units in budget_units.items():
            for_selection = units * share.numerator // share.denominator
            within = for_selection - 4 - (for_selection >> 50)  # terms round up
            if min(within, units - for_selection) < _LEAST_UNITS:
                raise BudgetError(f"The budget of {name!r} is too small for a round.", fix="Raise it.")
            selection[name] = math.isqrt(2 * UNIT * within)
            answers[name] = units - for_selection
        return cls(selection, answers)

    @property
    def alike(self) -> bool:
        """Whether every attribute pays the same in an MWEM round."""
        return len(set(self.selection.values())) <= 1 and len(set(self.answers.values())) <= 1

    def least(self, sources: frozenset[str]) -> tuple[int, int]:
        """The price of a query on these sources: the smallest prices of its protected ones.

        Nothing is promised for public attributes: a query on them alone takes the largest prices there are.
        """
        bound_by = [name for name in sources if name in self.selection]
        if bound_by:
            return min(self.selection[name] for name in bound_by), min(self.answers[name] for name in bound_by)
        return max(self.selection.values(), default=UNIT), max(self.answers.values(), default=UNIT)

    def guarantee(self, universe: Universe, block: Block) -> Guarantee:
        """The guarantee of one MWEM round for one block: a joint selection and as many Gaussian answers."""
        selection, answers = self.costs(universe, block)
        return selection + answers

    def costs(self, universe: Universe, block: Block) -> tuple[Guarantee, Guarantee]:
        union = functools.reduce(operator.or_, block.masks)
        charged = [name for i, name in enumerate(block.attributes) if union >> i & 1 and name in self.selection]
        picked = {name: CDP(Fraction(self.selection[name], UNIT)) for name in charged}
        answered = {name: Rho(Fraction(self.answers[name], UNIT)) for name in charged}
        linear = Guarantee.linear(universe, picked, limit=block.count)  # [round]
        return linear, Guarantee.squares(universe, answered, limit=block.count)


@dataclass(frozen=True)
class Rounds:
    """Everything that is fixed in advance."""

    scope: Scope
    blocks: tuple[tuple[Block, ...], ...]
    prices: Prices

    @property
    def count(self) -> int:
        return len(self.blocks)

    @property
    def in_blocks(self) -> bool:
        return any(block.attributes != self.scope.attributes for blocks in self.blocks for block in blocks)

    @cached_property
    def per_round(self) -> float:
        """The mean number of queries that an MWEM round picks."""
        return sum(block.count for blocks in self.blocks for block in blocks) / len(self.blocks)

    def guarantee(self) -> Guarantee:
        universe = self.scope.universe
        known: dict[Block, Guarantee] = {}
        for block in {block for blocks in self.blocks for block in blocks}:
            known[block] = self.prices.guarantee(universe, block)
        return Guarantee.compose(universe, (known[block] for blocks in self.blocks for block in blocks))

    # ---- what is drawn --------------------------------------------------------------------------------------------

    def noise_uses(self, queries: Queries, rounds: Integers, answered: Integers) -> list[NoiseUse]:
        """The noise of MWEM's rounds: per round and block a selection, and noise for the answers that the output
        names."""
        results = []
        for number, blocks in enumerate(self.blocks):
            here = answered[rounds == number].tolist()
            for block in blocks:
                own = [query for query in here if int(queries.group_of[query]) in block.members]
                results += self._block_uses(queries, f"round {number + 1}", block, own)
        return results

    def _block_uses(self, queries: Queries, what: str, block: Block, chosen: list[int]) -> list[NoiseUse]:
        selection, answers = self.prices.costs(self.scope.universe, block)
        sizes = queries.starts[1:] - queries.starts[:-1]
        picked = f"{what}, selection"
        if block.count == 1:
            several = sum(int(sizes[member]) for member in block.members) > 1
            results = [NoiseUse.exactly(picked, "select_exponential", int(several), Charge(selection))]
        else:
            inside = sum(int(sizes[queries.group_of[query]]) > 1 for query in chosen)
            results = [
                NoiseUse.exactly(picked, "select_packing", 1, Charge(selection)),
                NoiseUse.exactly(f"{picked} inside groups", "select_exponential", inside, Charge(selection)),
            ]
        for query in chosen[: block.count]:  # a packing has no more
            group = int(queries.group_of[query])
            moved = each_source(self.scope.universe, self.scope.sources[group], queries.groups[group].grid ** 2)
            answer = f"{what}, answer to {queries.text(query)}"
            results.append(NoiseUse.exactly(answer, "discrete_gaussian", 1, Charge(answers, moved)))
        missing = block.count - len(chosen)
        if missing > 0:
            results.append(NoiseUse.exactly(f"{what}, answers not published", "discrete_gaussian", missing))
        return results
