"""What drafts of a plan's releases would cost and how exact they would be, fast enough to follow a slider.

Each release is priced once for its options, and remembered; what they cost together is composed anew. A draft may be
incomplete: a release with a fault is named, and the others are priced without it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nabladp.errors import LedgerError, NablaDPError
from nabladp.mechanisms import Mechanism
from nabladp.privacy import Guarantee
from nabladp.privacy.ledger import Spending
from nabladp.release.cost import Cost, Largest, error_json, waits_for_rows
from nabladp.release.exactness import LeastBudget, Tell, least_budget
from nabladp.release.other_budgets import error_figures, largest_beside, priced_cost
from nabladp.release.plan import Plan
from nabladp.release.verdict import noise_verdicts

MOST_KEPT = 1000
Block = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Priced:
    """One release of a draft. Where it cannot be priced, ``fault`` says why, and there is nothing else."""

    mechanism: Mechanism | None = None
    guarantee: Guarantee | None = None
    error: Any = None
    figures: tuple[tuple[str, float | None], ...] = ()  # expected errors by label
    sentence: str = ""  # what they mean, in words
    epsilons: tuple[tuple[str, float], ...] = ()  # of each attribute that it costs, the costliest first
    fault: NablaDPError | None = None


@dataclass(frozen=True, eq=False)
class Draft:
    """All releases of a draft, in order, and what they cost together; ``fault``: why its ledger cannot be used."""

    releases: tuple[tuple[str, Priced], ...]
    cost: Cost
    fault: NablaDPError | None = None


class Estimates:
    """Prices drafts of releases. One object for all drafts of a folder: what it knows, it keeps."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], Priced] = OrderedDict()

    def draft(self, plan: Plan, blocks: Sequence[Block]) -> Draft:
        """The draft that has these ``[[release]]`` in place of the plan's own; spends nothing, reads no table."""
        standing, fault = self._standing(plan)
        found = self._releases(plan, blocks)
        return Draft(tuple(found), self._together(plan, found, standing), fault)

    def _releases(self, plan: Plan, blocks: Sequence[Block]) -> list[tuple[str, Priced]]:
        facts, listed = _facts(plan), list(enumerate(blocks, 1))
        return [(self.name(block, number), self._price(plan, facts, block, number)) for number, block in listed]

    @staticmethod
    def name(block: Block, number: int) -> str:
        """The name of a release in its plan: the one it is given, or its number and mechanism."""
        name = block.get("name")
        return name if isinstance(name, str) else f"{number:02d}-{block.get('mechanism')}"

    def price(self, plan: Plan, block: Block, number: int = 1) -> Priced:
        """One release by itself, priced if it is not known yet."""
        return self._price(plan, _facts(plan), block, number)

    def _price(self, plan: Plan, facts: tuple[Any, ...], block: Block, number: int) -> Priced:
        options = {name: value for name, value in block.items() if name != "name"}
        key = (*facts, json.dumps(options, sort_keys=True, default=repr))
        if key not in self._kept:
            self._kept[key] = self._compute_price(plan, block, number)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _compute_price(self, plan: Plan, block: Block, number: int) -> Priced:
        try:
            mechanism = plan.mechanism(block, number)
            guarantee = mechanism.guarantee(plan.schema, plan.rows or 0)
            error = mechanism.expected_error(plan.schema, plan.rows or 0)
        except NablaDPError as fault:
            return Priced(fault=fault)
        booked = guarantee.for_rows(plan.rows_per_person)
        each = {name: booked.epsilon(name, plan.delta) for name in booked.universe.protected if booked.rho(name)}
        verdict = noise_verdicts([("", mechanism)], {"": error}, plan.rows)
        return Priced(
            mechanism,
            guarantee,
            error,
            tuple(error_figures(error_json(error))),
            verdict[0].removeprefix("'': ") if verdict else "",
            tuple(sorted(each.items(), key=lambda item: -item[1])),
        )

    def _together(self, plan: Plan, named: Sequence[tuple[str, Priced]], standing: Sequence[Spending]) -> Cost:
        parts = [priced.guarantee for _, priced in named if priced.guarantee is not None]
        guarantee = Guarantee.compose(plan.schema, parts).for_rows(plan.rows_per_person)
        known = [(name, priced.mechanism, priced.error) for name, priced in named if priced.mechanism is not None]
        mechanisms = [(name, mechanism) for name, mechanism, _ in known]
        errors = tuple((name, error) for name, _, error in known)
        options = {"adversaries": plan.adversaries, "delta": plan.delta}
        return priced_cost(mechanisms, guarantee, errors, plan.rows, standing, **options)

    def _standing(self, plan: Plan) -> tuple[list[Spending], NablaDPError | None]:
        """The limits with what is spent. A ledger of another schema or budget is a fault, and then nothing is."""
        try:
            return plan.standing(), None
        except LedgerError as fault:
            return plan.unspent(), fault

    # ---- other budgets for one release -------------------------------------------------------------------------------

    def largest(self, plan: Plan, blocks: Sequence[Block], index: int) -> Largest | None:
        """The largest budget for one release of a draft that the ledger's limits leave beside the others."""
        chosen = self._mechanism(plan, blocks, index)
        priced = self._releases(plan, blocks)
        parts = [own.guarantee for i, (_, own) in enumerate(priced) if i != index and own.guarantee is not None]
        others = Guarantee.compose(plan.schema, parts).for_rows(plan.rows_per_person)
        named = [(self.name(blocks[index], index + 1), chosen)]
        if not plan.rows and waits_for_rows(chosen):
            return None
        return largest_beside(named, others, plan.schema, plan.rows or 0, plan.rows_per_person, plan.standing())

    def least(
        self, plan: Plan, blocks: Sequence[Block], index: int, goal: float, tell: Tell | None = None
    ) -> LeastBudget:
        """The least budget for one release of a draft whose expected error is at most this share."""
        return least_budget(self._mechanism(plan, blocks, index), goal, plan.schema, plan.rows or 0, tell)

    def _mechanism(self, plan: Plan, blocks: Sequence[Block], index: int) -> Mechanism:
        priced = self.price(plan, blocks[index], index + 1)
        if priced.fault is not None:
            raise priced.fault
        return plan.mechanism(blocks[index], index + 1)


def _facts(plan: Plan) -> tuple[Any, ...]:
    """What the price of a release depends on beside its options."""
    return plan.schema.fingerprint(), plan.rows, plan.person, plan.delta
