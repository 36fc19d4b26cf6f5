"""Budgets become noise: what every part of every block may cost, the scale that this buys, and the guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from nabladp.errors import BudgetError, DomainTooLarge
from nabladp.mechanisms.allocation import allocate_by_role, least_scale
from nabladp.mechanisms.noise_uses import Charge, NoiseUse
from nabladp.mechanisms.statistics.blocks import Block, Part, Plan, part_size
from nabladp.mechanisms.statistics.grids import FINEST, FINEST_SQUARES, FINEST_TOTAL, Grid, strategy
from nabladp.mechanisms.statistics.small_changes import change_of_bins, change_on_grid, distances, numeric_value
from nabladp.privacy.budget import Limit
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.many_rows import People, Role, people_of
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Pure, Rho
from nabladp.schema import Attribute

_FEWEST_UNITS = 1 << 16
_ROUNDING = Fraction(1, 1 << 20)  # weights are rounded up
_MOST_SCALE = 1e15


@dataclass(frozen=True, eq=False)
class Calibration:
    """``units`` are the costs of all parts, block by block, in units of 2⁻⁶⁰ of ρ, or of ε for ``pure`` budgets; None
    where no protected attribute decides a part, which is then released as it is."""

    plan: Plan
    universe: Universe
    pure: bool
    units: tuple[tuple[int | None, ...], ...]

    @classmethod
    def of(cls, plan: Plan, universe: Universe, pure: bool, budgets: Mapping[str, int]) -> Calibration:
        parts = [(b, p) for b, block in enumerate(plan.blocks) for p in range(len(block.parts))]
        costs = [plan.blocks[b].role_costs(plan.blocks[b].parts[p], universe) for b, p in parts]
        priced = [i for i, cost in enumerate(costs) if cost]
        shares = [plan.blocks[parts[i][0]].parts[parts[i][1]].share for i in priced]
        amounts = allocate_by_role([costs[i] for i in priced], shares, budgets)  # [allocation]
        if amounts and min(amounts) < _FEWEST_UNITS:
            raise BudgetError("The budget is too small for so many aggregates.", fix="Raise it, or ask for less.")
        units: list[list[int | None]] = [[None] * len(block.parts) for block in plan.blocks]
        for i, amount in zip(priced, amounts, strict=True):
            b, p = parts[i]
            units[b][p] = amount
        return cls(plan, universe, pure, tuple(map(tuple, units)))

    def within(self, limits: Iterable[Limit]) -> Calibration:
        """With less for every part alike, so that these limits hold, too."""
        guarantee, least = self.guarantee(), Fraction(1)
        for limit in limits:
            total = (guarantee.pure_units if self.pure else guarantee.rho_units)(limit.attributes)
            if total:
                least = min(least, Fraction(limit.units, total))
        if least == 1:
            return self
        units = tuple(
            tuple(None if own is None else math.floor(own * least * (1 - _ROUNDING)) for own in block)
            for block in self.units
        )
        if any(own is not None and own < _FEWEST_UNITS for block in units for own in block):
            raise BudgetError("The budget is too small for so many aggregates.", fix="Raise it, or ask for less.")
        return replace(self, units=units)

    # ---- the claim --------------------------------------------------------------------------------------------------

    @cached_property
    def costs(self) -> tuple[Guarantee, ...]:
        """One touch for each block; roles add up within it."""
        return tuple(self._block_cost(number) for number in range(len(self.plan.blocks)))

    def role_weights(self, number: int) -> dict[str, dict[str, Fraction]]:
        """What each protected source pays for a block in each of its roles."""
        block = self.plan.blocks[number]
        groups, filters, values = block.columns()
        paid = [(part, units) for part, units in zip(block.parts, self.units[number], strict=True) if units is not None]
        member = sum((part.member * units for part, units in paid), Fraction(0))
        change = block.value_cost([part for part, _ in paid], [units for _, units in paid])
        weights: dict[str, dict[str, Fraction]] = {}
        for role, names, cost in (
            ("group", groups, 2 * member),
            ("filter", filters, member),
            ("value", values, change),
        ):
            for source in self.universe.sources(names) - self.universe.public:  # [theorem]
                weights.setdefault(source, {})[role] = cost / UNIT
        return weights

    def _block_cost(self, number: int, n: int | None = None) -> Guarantee:
        kind = Pure if self.pure else Rho
        dearest = {source: max(roles.values()) for source, roles in self.role_weights(number).items()}
        own = {source: kind(weight) for source, weight in dearest.items() if weight}
        if not own:
            return Guarantee.none(self.universe)
        if self.plan.blocks[number].by_person:
            return Guarantee.touch(self.universe, own, people=self._people(number))
        small = {} if n is None else self._small_changes(number, n)
        near = {name: {far: kind(cost) for far, cost in costs.items()} for name, costs in small.items() if name in own}
        return Guarantee.touch(self.universe, own, near=near)

    def _people(self, number: int) -> People:
        """What several rows of one person cost: an attribute's share in each of the groups that they reach."""
        block, roles = self.plan.blocks[number], list[Role]()  # [people]
        member, change = self._moves(number)
        other = 2 * member if any(i not in block.once and key.size > 1 for i, key in enumerate(block.keys)) else 0
        within = max(change, member, other) if block.once else change
        for source, weights in self.role_weights(number).items():
            decides = self._decides_which(block, source)
            for role in (role for role, cost in weights.items() if cost):
                if decides and (role == "group" or block.once):
                    roles.append(Role(source, 2, member, within))
                elif role == "group":
                    roles.append(Role(source, 1, 2 * member, 2 * member))
                elif role == "filter":
                    roles.append(Role(source, 1, member, member if block.once else max(member, change)))
                else:
                    roles.append(Role(source, 1, change, change))
        return people_of(block.groups_of_one, roles)

    def _decides_which(self, block: Block, source: str) -> bool:
        """Whether an attribute decides in which groups a person is: of a person's first rows, by the keys of these."""
        groups = {name for key in block.keys if key.size > 1 for name in key.expression.columns}
        return source in self.universe.sources(block.deciding_columns if block.once else groups)

    def _moves(self, number: int) -> tuple[int, int]:
        """What one number costs that comes to a block or leaves it, and one that changes: in units, rounded up."""
        block = self.plan.blocks[number]
        paid = [(part, units) for part, units in zip(block.parts, self.units[number], strict=True) if units is not None]
        member = sum((part.member * units for part, units in paid), Fraction(0))
        change = block.value_cost([part for part, _ in paid], [units for _, units in paid])
        return math.ceil(member), math.ceil(change)

    def _small_changes(self, number: int, n: int) -> dict[str, dict[Fraction, Fraction]]:
        """What the attribute whose numbers are a block's values pays for changes of at most some distances."""
        block = self.plan.blocks[number]
        attribute = numeric_value(block)  # [small-changes]
        if attribute is None or (attribute.kind == "real" and not n):  # the grid of real numbers depends on n
            return {}
        paid = [(part, units) for part, units in zip(block.parts, self.units[number], strict=True) if units is not None]
        roles = self.role_weights(number).get(attribute.name, {})
        other = max((cost for role, cost in roles.items() if role != "value"), default=Fraction(0))
        costs = {}
        for far in distances(attribute):
            changes = [self._change_within(attribute, block, part, far, n) * units for part, units in paid]
            costs[far] = max(other, sum(changes, Fraction(0)) / UNIT)
        full = max(roles.values(), default=Fraction(0))
        lower = {far: cost for far, cost in costs.items() if 0 < cost < full}
        return {attribute.name: lower} if lower else {}

    def _change_within(self, attribute: Attribute, block: Block, part: Part, far: Fraction, n: int) -> Fraction:
        if part.kind in ("sum", "squares", "total"):
            return change_on_grid(attribute, part, self.grid(block, part, n), far, self.pure)
        if part.kind == "cdf":
            return change_of_bins(attribute, part, block.bins, far, self.pure)
        return part.change  # counts by value and selections: the smallest change may cost all

    def guarantee(self, n: int | None = None) -> Guarantee:
        """With n, or 0 for any number of rows, also what small changes of a value cost."""
        if n is None:
            return Guarantee.compose(self.universe, self.costs)  # [composition]
        blocks = range(len(self.plan.blocks))
        return Guarantee.compose(self.universe, [self._block_cost(number, n) for number in blocks])

    # ---- noise ------------------------------------------------------------------------------------------------------

    @property
    def noise(self) -> str:
        return "laplace" if self.pure else "gaussian"

    def scales(self, number: int, part: int, n: int) -> tuple[float, ...] | None:
        """Of the noise of each number of a part; None where it gets none."""
        block, units = self.plan.blocks[number], self.units[number][part]
        chosen = block.parts[part]
        if units is None:
            return None
        found = tuple(self._scale(moved, own) for moved, own in self._moved(block, chosen, units, n))
        if max(found) > _MOST_SCALE:
            raise BudgetError("The budget is too small for values of this range.", fix="Raise it, or clamp the values.")
        return found

    def _scale(self, moved: int | Fraction, units: int) -> float:
        return least_scale(self.noise, units, moved)

    def _moved(self, block: Block, part: Part, units: int, n: int) -> list[tuple[int | Fraction, int]]:
        """How far a row moves each number of a part, and what that may cost."""  # [scales]
        power = 1 if self.pure else 2
        if part.kind in ("count", "values", "distinct") or (part.kind == "people" and block.value is None):
            return [(1, math.floor(units * Fraction(1, 2)))]
        if part.kind == "left_out":
            return [(block.left_out**power, math.floor(units * Fraction(1, 2)))]
        if part.kind == "sum":
            return [(max(1, self.grid(block, part, n).reach) ** power, units // (2 if self.pure else 4))]
        if part.kind == "squares":
            reach, whole = max(1, self.grid(block, part, n).reach) ** power, units // (2 if self.pure else 4)
            return [(reach, whole), (reach**2, whole // (4 if self.pure else 2))]
        if part.kind in ("total", "people"):
            grid = self.grid(block, part, n)
            return [(max(2 * grid.reach**power, (grid.high - grid.low) ** power, 1), units)]
        if part.kind == "cdf":
            chosen = strategy(block.bins.count, self.pure)
            return [(max(chosen.change, 2 * chosen.member), units)] * chosen.rows
        larger = max(part.q, 1 - part.q)
        most = max(2 * (larger if self.pure else larger * larger), Fraction(1))
        steps = part.q.denominator
        return [(2 * steps * most if self.pure else steps**2 * most, units)]

    def check_numbers(self, numbers: Sequence[Sequence[Any]], n: int) -> None:
        """Refuses stored numbers that are not those of these blocks."""
        if n < 1 or len(numbers) != len(self.plan.blocks) or len(self.units) != len(numbers):
            raise ValueError
        for block, parts, units in zip(self.plan.blocks, numbers, self.units, strict=True):
            shapes = [(block.cells, part_size(block, part, self.pure)) for part in block.parts]
            if [part.shape for part in parts] != shapes or len(units) != len(parts):
                raise ValueError
            if any(own is not None and own < 1 for own in units):
                raise ValueError

    def without_noise(self) -> Calibration:
        """The same measurements for the owner of the table, exact."""
        return replace(self, units=tuple((None,) * len(block.parts) for block in self.plan.blocks))

    def noise_uses(self, n: int) -> list[NoiseUse]:
        """What is drawn for every part, and how far a row moves it, as a share of the whole block's cost."""
        uses = []
        for number, block in enumerate(self.plan.blocks):
            for part, units in zip(block.parts, self.units[number], strict=True):
                if units is None:
                    continue
                for moved, numbers, own in _distinct(self._moved(block, part, units, n)):
                    charge = self._charge(number, part, moved, own)
                    kind = "select_exponential" if part.kind == "point" else f"discrete_{self.noise}"
                    what = f"{part.kind} of block {number + 1}"
                    uses.append(NoiseUse.exactly(what, kind, numbers * block.cells, charge))
        return uses

    def _charge(self, number: int, part: Part, moved: int | Fraction, units: int) -> Charge:
        """A block is charged as a whole; of a source's cost for it, this number takes its own share."""
        amounts: dict[frozenset[str], Fraction | float] = {}
        for source, roles in self.role_weights(number).items():
            times = max(roles.values()) * UNIT / units
            if not times:
                continue
            if part.kind != "point":
                amounts[frozenset({source})] = moved * times
            else:  # a score moves by this much; ρ grows with its square
                amounts[frozenset({source})] = float(moved * times) / 2 if self.pure else math.sqrt(moved * times)
        return Charge(self.costs[number], amounts)

    def grid(self, block: Block, part: Part, n: int) -> Grid:
        """The steps in which values are summed: as fine as 64 bits allow for so many rows."""
        spare = 62 - math.ceil(math.log2(max(n, 2)))
        if part.kind in ("total", "people"):
            grid = Grid.from_zero(block.total_domain, FINEST_TOTAL)
        else:
            bits = min(FINEST_SQUARES, spare // 2) if part.kind == "squares" else min(FINEST, spare)
            grid = Grid.centred(block.domain, bits)
        limit = grid.reach**2 if part.kind == "squares" else grid.reach
        if max(n, 1) * limit >= 1 << 62:
            raise DomainTooLarge("The sums would not fit into 64 bits.", fix="Clamp or divide the values.")
        return grid


def _distinct(moved: list[tuple[int | Fraction, int]]) -> list[tuple[int | Fraction, int, int]]:
    """Equal ones together: how far, how many, units."""
    return [(distance, moved.count((distance, units)), units) for distance, units in dict.fromkeys(moved)]
