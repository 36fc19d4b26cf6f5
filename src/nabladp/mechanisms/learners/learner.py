"""What learners share: the mechanism that learns a label from features, and the rule that it returns.

The rule never sees the data.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.mechanisms.allocation import limited_by, source_units
from nabladp.mechanisms.kinds import Name, Names
from nabladp.mechanisms.learners import columns
from nabladp.mechanisms.learners.columns import encoded, label_values
from nabladp.mechanisms.mechanism import Mechanism, Output, Records, ReleaseContext, check_asked
from nabladp.mechanisms.parameters import parameter
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema
from nabladp.tables import Kernel
from nabladp.views.compared import Compared
from nabladp.views.view import format_percent

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts


# ---- learners --------------------------------------------------------------------------------------------------------

LABEL = parameter(Name(), "The attribute to predict; it has two values.")
FEATURES = parameter(Names(), "The features; by default all attributes that are not derived, but the label.")


class Learner(Mechanism):
    """A mechanism that learns ``label`` from the columns in ``over``, or from all source attributes but the label."""

    label: str
    over: tuple[str, ...] | None

    @property
    def holdout(self) -> float | None:
        """The share of rows held out to score what is learned; learners that can have a parameter of this name."""
        return None

    def features(self, schema: Schema) -> tuple[str, ...]:
        check_asked(schema)
        return columns.features(schema, self.label, self.over)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        return (*self.features(schema), self.label)

    def two_valued(self) -> tuple[str, ...]:
        return (self.label,)

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """One row moves from one end to the other, or back: it leaves every prefix, or turns from right to wrong."""
        return [({}, dict.fromkeys(attributes, 1)), (dict.fromkeys(attributes, 1), {})]


# ---- rows needed if the budget were per person -----------------------------------------------------------------------

PERSON_LABEL = "rows needed at the same budget per person, at least of the order of"


def least_units(schema: Schema, columns: Sequence[str], budget: BudgetValue, budgets: Mapping[str, BudgetValue]) -> int:
    """The smallest budget among the attributes that a learner's columns come from, in units."""
    universe = Universe.of(schema)
    units = source_units(universe, budget, budgets)
    return min(units[source] for source in limited_by(universe, columns))


def person_rows(sizes: Sequence[int], units: int, pure: bool, error: float | None) -> int | None:
    """The rows that any learner of a class of k rules needs at the same budget per person: ln k/(α·ε), or √(ln k/ρ)/α.

    This is the standard lower bound, without its constant.

    Among k populations of which each needs another rule, any two differ on a share α of the people. One rule in k comes
    out by luck; who is right for each of them therefore tells tables apart that differ in about α·n rows, by ln k: at
    most ε·α·n for a pure budget, ρ·(α·n)² for a concentrated one.
    """
    if error is None:
        return None
    log_rules = math.fsum(math.log(size) for size in sizes)
    rows = log_rules * UNIT / units if pure else math.sqrt(log_rules * UNIT / units)
    return math.ceil(rows / error)


class LearnedRule(Output):
    """Predicts ``label`` from ``features``."""

    schema: Schema
    features: tuple[str, ...]
    label: str

    @abstractmethod
    def is_second(self, rows: Integers) -> NDArray[np.bool_]:
        """For rows of codes, whether the learned rule predicts the label's second value."""

    def predict(self, data: Any) -> NDArray[Any]:
        """The label that the learned rule predicts for every row of a data frame, an Arrow table or a mapping of
        columns."""
        second = self.is_second(encoded(data, self.schema, self.features))
        predicted: NDArray[Any] = label_values(self.schema, self.label)[second.astype(np.int64)]
        return predicted

    def released_accuracy(self) -> tuple[float, float, float] | None:
        """The released share of people predicted right, with its interval; None where it was not released."""
        return None

    def released_majority(self) -> tuple[float, float, float] | None:
        """The released share of people with the label's more frequent value, which every accuracy is to be compared
        with, and its interval; None where it was not released."""
        return None

    def label_names(self) -> tuple[str, str]:
        """The label's first and second value."""
        first, second = (self.schema[self.label].label(code) for code in (0, 1))
        return first, second

    @property
    def label_title(self) -> str:
        """What people read in place of the label's name."""
        return self.schema.titles[self.label]

    def compared(self, counts: Counts, context: ReleaseContext) -> Iterator[Compared]:
        """The learned rule against the true table: the share of rows predicted right, of all and by label; and how
        often the more frequent label alone would be right.

        Only the share of rows held out and that of the more frequent label were released.
        """
        table = counts.fold(_Agreement(self.features, self.label, self.is_second))
        by_label = table.sum(axis=1)
        majority = by_label.max() / max(by_label.sum(), 1)
        rows = np.append(by_label.sum(), by_label)
        shares = np.append(np.append(np.trace(table), np.diag(table)) / np.maximum(rows, 1), majority)
        accuracy, low, high = np.full(4, np.nan), np.zeros(4), np.ones(4)
        for index, released in ((0, self.released_accuracy()), (3, self.released_majority())):
            if released is not None:
                accuracy[index], low[index], high[index] = released
        by_name = (f"{self.label_title} = {name}" for name in self.label_names())
        yield Compared(
            title="share of rows predicted right",
            format="share",
            released=accuracy,
            truth=shares,
            interval=(low, high),
            labels=("all rows", *by_name, "all rows, by the more frequent label alone"),
            summary=f"{format_percent(shares[0])} of all rows are predicted right, "
            f"{format_percent(majority)} by the more frequent label alone",
        )


@dataclass(frozen=True, eq=False)
class _Agreement(Kernel):
    """Rows by label and by what a rule predicts for them: a table of two by two."""

    features: tuple[str, ...]
    label: str
    is_second: Callable[[Integers], NDArray[np.bool_]]

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.features, self.label)

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        codes = np.stack([batch.column(name).to_numpy().astype(np.int64) for name in self.features], axis=1)
        cells = 2 * batch.column(self.label).to_numpy().astype(np.int64) + self.is_second(codes)
        return np.bincount(cells, minlength=4).astype(np.int64).reshape(2, 2)


def promise_fact(error: float | None, failure: float, condition: str) -> tuple[str, str]:
    """The predicted error of a learned rule as a fact of its view: at most this share of people, except with
    probability ``failure``."""
    if error is None:
        return ("predicted error", "nothing is promised with so few rows at this budget")
    chance = format_percent(1 - failure)
    return (
        "predicted error",
        f"at most {format_percent(error)} of people, with probability {chance}, if {condition}",
    )
