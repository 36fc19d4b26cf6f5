"""The bill of a release: what each attribute pays, in which role, and for which columns of which query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from nabladp.mechanisms.statistics.blocks import Block
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.privacy.guarantee import Figure, Guarantee, Names
from nabladp.sql.query import Query


@dataclass(frozen=True)
class BillLine:
    """What an attribute pays for one block: aggregates with the same groups, filter and value."""

    attribute: str
    role: str  # value, group or filter: the dearest of its roles there
    pays_for: tuple[str, ...]  # columns of the answers
    cost: float  # ρ, or ε where the budget is pure


@dataclass(frozen=True, eq=False)
class Bill:
    """``lines`` add up for a single attribute; ``figure`` gives the cost of any set, which is at most their sum."""

    calibration: Calibration

    @property
    def notion(self) -> str:
        return "epsilon" if self.calibration.pure else "rho"

    @property
    def guarantee(self) -> Guarantee:
        return self.calibration.guarantee()

    def figure(self, attributes: Names) -> Figure:
        return self.guarantee.figure(attributes)

    @cached_property
    def lines(self) -> tuple[BillLine, ...]:
        return tuple(
            line for number, block in enumerate(self.calibration.plan.blocks) for line in self._lines(number, block)
        )

    def _lines(self, number: int, block: Block) -> Iterator[BillLine]:
        weights = self.calibration.role_weights(number)
        served = self._served(number)
        for attribute, roles in sorted(weights.items()):
            role, cost = max(roles.items(), key=lambda item: item[1])
            if cost:
                yield BillLine(attribute, role, served, float(cost))

    def _served(self, number: int) -> tuple[str, ...]:
        """The columns whose aggregates are measured in this block."""
        plan = self.calibration.plan
        names: dict[str, None] = {}
        for (query_number, _, index), places in plan.places.items():
            if number in places.values():
                names.update(dict.fromkeys(self._columns(query_number, plan.queries[query_number], index)))
        return tuple(names)

    def _columns(self, number: int, query: Query, index: int) -> Iterator[str]:
        several = len(self.calibration.plan.queries) > 1
        listed = [name for name, released in query.columns if index in released.aggregates()]
        hidden = query.aggregates[index]
        text = f"{hidden.function.upper()}({hidden.value_text or '*'}) (not selected)"
        for name in listed or [text]:
            yield f"{name} (query {number + 1})" if several else name

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(line) | {"pays_for": list(line.pays_for), "notion": self.notion} for line in self.lines]

    def to_arrow(self) -> Any:
        import pyarrow as pa

        return pa.table(
            {
                "attribute": [line.attribute for line in self.lines],
                "role": [line.role for line in self.lines],
                "pays for": [", ".join(line.pays_for) for line in self.lines],
                self.notion: [line.cost for line in self.lines],
            }
        )

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        sign = "ε" if self.calibration.pure else "ρ"
        width = max((len(line.attribute) for line in self.lines), default=0)
        return "\n".join(
            f"{line.attribute:{width}}  {line.role:6}  {sign} = {line.cost:.4g}  for {', '.join(line.pays_for)}"
            for line in self.lines
        )
