"""What learners share: a label, the features that it is predicted from, and how both are named in a plan."""

from __future__ import annotations

from collections.abc import Sequence

from nabladp.mechanisms.kinds import Name, Names
from nabladp.mechanisms.learners import columns
from nabladp.mechanisms.mechanism import Mechanism, Records, check_asked
from nabladp.mechanisms.parameters import parameter
from nabladp.schema import Schema

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
