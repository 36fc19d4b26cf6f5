"""How exact a release would be, as a share that one can name a goal for, and the least budget that reaches the goal.

Nothing here reads a table: everything follows from a mechanism's own expected error at each budget that is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nabladp.checks import is_above_zero
from nabladp.errors import BudgetError, MechanismError, NablaDPError
from nabladp.mechanisms import Mechanism
from nabladp.mechanisms.statistics import Statistics
from nabladp.mechanisms.statistics.output import StatisticsError
from nabladp.release.cost import budgets_of, scale_budgets
from nabladp.release.verdict import rounded_up
from nabladp.schema import Schema

_MOST_FACTOR = 2.0**14
_CLOSE = 1.01  # the least budget is found up to so much

_TABLES = "of an average count, for 95 % of the counts in every table"
_QUERIES = "of the size of a group for counts, of a column's range for other figures"
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Exactness:
    """The expected error as a share of something: ``value`` is None where nothing is promised."""

    of: str
    value: float | None

    def reaches(self, goal: float) -> bool:
        return self.value is not None and self.value <= goal


def exactness(mechanism: Mechanism, schema: Schema, n: int) -> Exactness:
    """How exact a mechanism would be at its budget: half of the 95 % interval where there is one.

    For tables of counts: of an average count, in the table where that is largest. For queries: of an average group for
    counts, of the column's range for means and quantiles. For all others: the mechanism's own measure.
    """
    error = mechanism.expected_error(schema, n)
    if isinstance(error, tuple):
        shares = [own.half_width * own.cells / n for own in error]
        return Exactness(_TABLES, max(shares, default=None))
    if isinstance(error, StatisticsError) and isinstance(mechanism, Statistics):
        return Exactness(
            "of the size of a group for counts, of a column's range for other figures",
            _of_queries(mechanism, error, schema, n),
        )
    measure = error.measure(n)
    return Exactness("", None) if measure is None else Exactness(measure.what, measure.value)


def _of_queries(mechanism: Statistics, error: StatisticsError, schema: Schema, n: int) -> float | None:
    """The largest half-width among all columns of answers, each as a share of what its figure is measured by."""
    worst = 0.0
    for own in error.columns:
        query = mechanism.queries(schema)[own.query - 1]
        used = [query.aggregates[i] for i in dict(query.columns)[own.column].aggregates()]
        size = _size(used[0], n / own.groups) if len(used) == 1 else None
        if size is None or own.half_width is None:
            return None
        worst = max(worst, own.half_width / size)
    return worst


def _size(aggregate: Any, group: float) -> float | None:
    """What the error of one aggregate is compared with: the size of a group, or the range of its values."""
    function, value = aggregate.function, aggregate.value
    if function in ("count", "count_people"):
        return group
    if value is None:
        return None
    if function == "count_distinct":
        return float(len(value.domain.values)) if value.domain.values else None
    low, high = aggregate.bounds or (value.domain.low, value.domain.high)
    if function in ("sum", "sum_per_person"):
        return group * max(abs(low), abs(high)) or None
    width = high - low
    return {"var": width**2 / 4, "std": width / 2}.get(function[:3], width) or None


# ---- the least budget ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeastBudget:
    """The least budgets that reach a goal, in the form of a plan file, and what they reach."""

    budgets: Mapping[str, Any]
    reached: Exactness


def least_budget(mechanism: Mechanism, goal: float, schema: Schema, n: int, tell: Tell | None = None) -> LeastBudget:
    """The least budget for which the expected error is at most this share, by trying factors of all its budgets.

    Found up to 1 %, and rounded up to two digits; what is returned was itself tried.
    """
    if not is_above_zero(goal):
        raise MechanismError("An error to reach is a share above 0.", fix="Write 0.05 for ±5 %.")
    if not n:
        raise MechanismError("The number of rows is not known.", fix="Write rows = … in [table].")
    options = mechanism.to_json()
    if not budgets_of(options) or "settings" in options or "design" in options:
        raise MechanismError(
            "The error of this release does not follow from a budget.", fix="Remove its settings or its design."
        )
    return _Goal(type(mechanism), options, goal, schema, n, tell).least()


@dataclass(frozen=True)
class _Goal:
    kind: type[Mechanism]
    options: Mapping[str, Any]
    goal: float
    schema: Schema
    n: int
    tell: Tell | None

    def at(self, factor: float) -> Exactness:
        """How exact the release would be at so many times its budgets."""
        try:
            return exactness(self.kind.from_plan(self._scale_budgets(factor)), self.schema, self.n)
        except NablaDPError:  # a budget that the mechanism refuses, such as one too small for any noise
            return Exactness("", None)

    def _scale_budgets(self, factor: float) -> dict[str, Any]:
        return scale_budgets(self.options, factor, rounded_up)

    def least(self) -> LeastBudget:
        low, high = self._bracket()
        steps = 0
        while high / low > _CLOSE and self._scale_budgets(low) != self._scale_budgets(high):
            middle = math.sqrt(low * high)
            if self._scale_budgets(middle) in (self._scale_budgets(low), self._scale_budgets(high)):
                break
            low, high = (low, middle) if self.at(middle).reaches(self.goal) else (middle, high)
            steps += 1
            if self.tell is not None:
                self.tell("trying budgets", steps, 0)
        return LeastBudget(budgets_of(self._scale_budgets(high)), self.at(high))

    def _bracket(self) -> tuple[float, float]:
        """A factor that does not reach the goal (or is as low as is tried), and one that does."""
        if self.at(1.0).reaches(self.goal):
            low, high = 0.5, 1.0
            while low > 1 / _MOST_FACTOR and self.at(low).reaches(self.goal):
                low, high = low / 2, low
            return low, high
        low, high = 1.0, 2.0
        while not self.at(high).reaches(self.goal):
            low, high = high, high * 2
            if high > _MOST_FACTOR:
                raise BudgetError(
                    f"No budget makes the error as small as {100 * self.goal:.3g} %.",
                    fix="Ask for a larger error, for fewer columns, or for coarser bins.",
                )
        return low, high
