"""What people with several rows add to a touch term whose mechanism counts each person once in every group.

Group privacy charges m rows of a person m²·ρ. Where a person adds one bounded vector to each of some groups, less is
lost: m rows reach at most m groups, and costs of different groups add up (PROOF.md of Statistics, step 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nabladp.errors import GuaranteeError

MOST_GROUPS = 1 << 60


@dataclass(frozen=True, order=True)
class Role:
    """What an attribute can do to a person's groups, in the units of its term.

    Of its m rows the person has at most ``sides`` · m in play (2: before and after). A group that takes one of them
    costs ``single``, one that takes two or more ``double``.
    """

    name: str
    sides: int
    single: int
    double: int

    def cost(self, rows: int, groups: int) -> int:
        """The most that so many rows can cost, spread over so many groups."""
        spare = self.sides * rows
        most = min(groups, spare // 2)
        return max(
            double * self.double + min(spare - 2 * double, groups - double) * self.single
            for double in {0, most, min(max(spare - groups, 0), most)}  # linear in between
        )


@dataclass(frozen=True)
class People:
    """The roles of a term's attributes, and in how many groups one person can be.

    It is known until :meth:`Guarantee.for_rows` has said how many rows a person has, and stored nowhere: what is booked
    is for one person, and several persons together cost the square of their number.
    """

    groups: int
    roles: tuple[Role, ...]

    def __post_init__(self) -> None:
        numbers = [number for role in self.roles for number in (role.single, role.double)]
        if not 1 <= self.groups <= MOST_GROUPS or any(role.sides not in (1, 2) for role in self.roles):
            raise GuaranteeError(
                "The groups of a person must be from 1 to 2⁶⁰, and 'sides' must be 1 or 2.", fix="Correct it."
            )
        if any(number < 0 for number in numbers):
            raise GuaranteeError(
                "The cost of a group must not be negative.", fix="Leave attributes that cost nothing out."
            )

    def weights(self, rows: int) -> dict[str, int]:
        costs: dict[str, int] = {}
        for role in self.roles:
            costs[role.name] = max(costs.get(role.name, 0), role.cost(rows, self.groups))
        return costs


def people_of(groups: int, roles: Sequence[Role]) -> People:
    return People(min(groups, MOST_GROUPS), tuple(sorted(set(roles))))
