"""Budgets become noise: what every part of every block may cost, the scale that this buys, and the guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from nabladp.errors import BudgetError, DomainTooLarge
from nabladp.mechanisms.allocation import allocate_by_role, least_scale
from nabladp.mechanisms.statistics.blocks import FINEST, FINEST_SQUARES, FINEST_TOTAL, Block, Grid, Part, Plan, strategy
from nabladp.privacy.guarantee import Guarantee
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import Pure, Rho

_FEWEST_UNITS = 1 << 16
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

    # ---- the claim --------------------------------------------------------------------------------------------------

    @cached_property
    def costs(self) -> tuple[Guarantee, ...]:
        """One touch for each block; roles add up within it."""
        return tuple(self._block_cost(b, block) for b, block in enumerate(self.plan.blocks))

    def _block_cost(self, number: int, block: Block) -> Guarantee:
        groups, filters, values = block.columns()
        paid = [(part, units) for part, units in zip(block.parts, self.units[number], strict=True) if units is not None]
        member = sum((part.member * units for part, units in paid), Fraction(0))
        change = block.value_cost([part for part, _ in paid], [units for _, units in paid])
        weights: dict[str, Fraction] = {}
        for names, cost in ((groups, 2 * member), (filters, member), (values, change)):  # [theorem]
            for source in self.universe.sources(names) - self.universe.public:
                weights[source] = max(weights.get(source, Fraction(0)), cost / UNIT)
        kind = Pure if self.pure else Rho
        own = {source: kind(weight) for source, weight in weights.items() if weight}
        return Guarantee.touch(self.universe, own) if own else Guarantee.none(self.universe)

    def guarantee(self) -> Guarantee:
        return Guarantee.compose(self.universe, self.costs)  # [composition]

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
        """How far a row moves each number of a part, and what that may cost: [scales]."""
        power = 1 if self.pure else 2
        if part.kind in ("count", "values", "distinct"):
            return [(1, math.floor(units * Fraction(1, 2)))]
        if part.kind == "sum":
            return [(self.grid(block, part, n).reach ** power, units // (2 if self.pure else 4))]
        if part.kind == "squares":
            reach, whole = self.grid(block, part, n).reach ** power, units // (2 if self.pure else 4)
            return [(reach, whole), (reach**2, whole // (4 if self.pure else 2))]
        if part.kind == "total":
            grid = self.grid(block, part, n)
            return [(max(2 * grid.reach**power, (grid.high - grid.low) ** power, 1), units)]
        if part.kind == "cdf":
            chosen = strategy(block.bins.count, self.pure)  # type: ignore[union-attr]
            return [(max(chosen.change, 2 * chosen.member), units)] * chosen.rows
        assert part.q is not None
        larger = max(part.q, 1 - part.q)
        most = max(2 * (larger if self.pure else larger * larger), Fraction(1))
        steps = part.q.denominator
        return [(2 * steps * most if self.pure else steps**2 * most, units)]

    def grid(self, block: Block, part: Part, n: int) -> Grid:
        """The steps in which values are summed: as fine as 64 bits allow for so many rows."""
        assert block.value is not None
        spare = 62 - math.ceil(math.log2(max(n, 2)))
        if part.kind == "total":
            grid = Grid.from_zero(block.value.domain, FINEST_TOTAL)
        else:
            bits = min(FINEST_SQUARES, spare // 2) if part.kind == "squares" else min(FINEST, spare)
            grid = Grid.centred(block.value.domain, bits)
        limit = grid.reach**2 if part.kind == "squares" else grid.reach
        if max(n, 1) * limit >= 1 << 62:
            raise DomainTooLarge("The sums would not fit into 64 bits.", fix="Clamp or divide the values.")
        return grid
