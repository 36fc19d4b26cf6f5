"""What learners share: a label, the features that it is predicted from, and how both are named in a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nabladp.mechanisms.allocation import limited_by, source_units
from nabladp.mechanisms.kinds import Name, Names
from nabladp.mechanisms.learners import columns
from nabladp.mechanisms.mechanism import Mechanism, Records, check_asked
from nabladp.mechanisms.parameters import parameter
from nabladp.privacy.units import UNIT
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import BudgetValue
from nabladp.schema import Schema

# ---- learners --------------------------------------------------------------------------------------------------------

LABEL = parameter(Name(), "The attribute to predict; it has two values.")
FEATURES = parameter(Names(), "The features; by default all attributes that are not derived, but the label.")


class Learner(Mechanism):
    """A mechanism that learns ``label`` from the columns in ``over``, or from all source attributes but the label."""

    label: str
    over: tuple[str, ...] | None

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

PERSON_LABEL = "… at the same budget per person, rows at least of the order of"


def least_units(schema: Schema, columns: Sequence[str], budget: BudgetValue, budgets: Mapping[str, BudgetValue]) -> int:
    """What the attribute with the smallest budget may pay, of those that the columns come from."""
    universe = Universe.of(schema)
    units = source_units(universe, budget, budgets)
    return min(units[source] for source in limited_by(universe, columns))


def person_rows(sizes: Sequence[int], units: int, pure: bool, error: float | None) -> int | None:
    """ln k/(α·ε), or √(ln k/ρ)/α, for a class of k rules: the standard lower bound, without its constant.

    Among k populations of which each needs another rule, any two differ on a share α of the people. One rule in k comes
    out by luck; who is right for each of them therefore tells tables apart that differ in about α·n rows, by ln k: at
    most ε·α·n for a pure budget, ρ·(α·n)² for a concentrated one.
    """
    if error is None:
        return None
    log_rules = math.fsum(math.log(size) for size in sizes)
    rows = log_rules * UNIT / units if pure else math.sqrt(log_rules * UNIT / units)
    return math.ceil(rows / error)
