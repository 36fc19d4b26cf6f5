"""The bill of a release: what each attribute pays, in which role, and for which columns of which query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from nabladp.mechanisms.statistics.blocks import Block
from nabladp.mechanisms.statistics.calibration import Calibration
from nabladp.mechanisms.statistics.small_changes import distances, numeric_value
from nabladp.privacy.guarantee import Figure, Guarantee, Names
from nabladp.schema import Attribute
from nabladp.sql.query import Query
from nabladp.views.exports import Exported


@dataclass(frozen=True)
class BillLine:
    """What an attribute pays for one block: aggregates with the same groups, filter and value."""

    attribute: str
    role: str  # value, group or filter: the dearest of its roles there
    pays_for: tuple[str, ...]  # columns of the answers
    cost: float  # ρ, or ε where the budget is pure


@dataclass(frozen=True)
class SmallChange:
    """What an attribute pays in all for a change by at most ``distance``."""

    attribute: str
    distance: float
    cost: float  # ρ, or ε where the budget is pure


@dataclass(frozen=True, eq=False)
class Bill(Exported):
    """``lines`` add up for a single attribute; ``figure`` gives the cost of any set, which is at most their sum. All of
    it is for the ``rows`` rows of one person together."""

    calibration: Calibration
    n: int  # 0: any number of rows
    rows: int = 1

    @property
    def notion(self) -> str:
        return "epsilon" if self.calibration.pure else "rho"

    @cached_property
    def guarantee(self) -> Guarantee:
        return self.calibration.guarantee(self.n).for_rows(self.rows)

    def figure(self, attributes: Names, within: Mapping[str, float | Fraction] | None = None) -> Figure:
        """The cost of a set, also of small changes: ``within={"income": 1000}``."""
        return self.guarantee.figure(attributes, within)

    @cached_property
    def small_changes(self) -> tuple[SmallChange, ...]:
        """What changes by at most about 1 % and 10 % of the range of a value cost, where that is less than any."""
        return tuple(
            SmallChange(name, float(far), self._cost(name, far))
            for name, attribute in sorted(self._numeric_values().items())
            for far in _shown_distances(attribute)
            if self._cost(name, far) < self._cost(name, None)
        )

    def changes_within(self, distances: Mapping[str, float]) -> tuple[SmallChange, ...]:
        """What changes of single attributes by at most these distances cost."""
        return tuple(SmallChange(name, far, self._cost(name, far)) for name, far in distances.items())

    def small_changes_json(self, distances: Mapping[str, float]) -> list[dict[str, Any]]:
        return [
            asdict(small) | {"notion": self.notion} for small in (*self.changes_within(distances), *self.small_changes)
        ]

    def _numeric_values(self) -> dict[str, Attribute]:
        found = [numeric_value(block) for block in self.calibration.plan.blocks]
        return {attribute.name: attribute for attribute in found if attribute is not None and not attribute.public}

    def _cost(self, name: str, far: float | Fraction | None) -> float:
        figure = self.figure(name, None if far is None else {name: far})
        return figure.pure if self.calibration.pure else figure.rho

    @cached_property
    def lines(self) -> tuple[BillLine, ...]:
        return tuple(
            line for number, block in enumerate(self.calibration.plan.blocks) for line in self._lines(number, block)
        )

    def _lines(self, number: int, block: Block) -> Iterator[BillLine]:
        weights = self.calibration.role_weights(number)
        served, whole = self._served(number), self.calibration.costs[number].for_rows(self.rows)
        for attribute, roles in sorted(weights.items()):
            role, cost = max(roles.items(), key=lambda item: item[1])
            if cost and self.rows > 1:
                yield BillLine(attribute, role, served, self._amount(whole, attribute))
            elif cost:
                yield BillLine(attribute, role, served, float(cost))

    def _amount(self, guarantee: Guarantee, name: str) -> float:
        return guarantee.epsilon(name) if self.calibration.pure else guarantee.rho(name)

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
        """The lines; what small changes cost follows from the guarantee."""
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

    def __str__(self) -> str:
        sign = "ε" if self.calibration.pure else "ρ"
        width = max((len(line.attribute) for line in self.lines), default=0)
        lines = [
            f"{line.attribute:{width}}  {line.role:6}  {sign} = {line.cost:.4g}  for {', '.join(line.pays_for)}"
            for line in self.lines
        ]
        small = [
            f"{change.attribute}, changed by at most {change.distance:,.6g}: {sign} = {change.cost:.4g} in all"
            for change in self.small_changes
        ]
        several = [f"for up to {self.rows:,} rows of a person together"] if self.rows > 1 else []
        return "\n".join(lines + small + several)


def _shown_distances(attribute: Attribute) -> list[Fraction]:
    """The round distances next to a hundredth and a tenth of the range."""
    listed = distances(attribute)
    widest = listed[-1] if listed else Fraction(0)
    chosen = [max((far for far in listed if far <= widest / part), default=None) for part in (100, 10)]
    return [far for far in dict.fromkeys(chosen) if far is not None]
