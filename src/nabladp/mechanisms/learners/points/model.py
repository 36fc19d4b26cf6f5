"""What PointLearner returns: one point. Made from a published histogram; it never sees the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.checks import damaged, is_number, is_share, is_whole, stored, stored_rows
from nabladp.mechanisms.learners.columns import codes_of
from nabladp.mechanisms.learners.learner import LearnedRule, promise_fact
from nabladp.mechanisms.learners.points.promise import Promise
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.schema import Schema
from nabladp.views.view import View, count_of, value_column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class PointModel(LearnedRule):
    """The label has its second value exactly where the features equal ``point`` (codes), and its first elsewhere.

    ``count`` is the noisy number of rows with that point and label; None where no point was frequent enough and this
    one was drawn by lot among those not known to carry the other label.
    """

    features: tuple[str, ...]
    label: str
    point: tuple[int, ...]
    count: int | None
    n: int
    promise: Promise
    failure: float
    schema: Schema

    def __repr__(self) -> str:
        how = "drawn at random" if self.count is None else f"about {self.count:,} of {self.n:,} rows"
        return f"PointModel({self.label!r} from {len(self.features):,} features, {how})"

    @property
    def values(self) -> dict[str, str]:
        """The learned point as values of the schema."""
        return {name: self.schema[name].label(code) for name, code in zip(self.features, self.point, strict=True)}

    def is_second(self, rows: Integers) -> NDArray[np.bool_]:
        return np.asarray(np.all(rows == np.array(self.point), axis=1))

    def to_json(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "label": self.label,
            "point": list(self.point),
            "count": self.count,
            "n": self.n,
            "cut": self.promise.cut,
            "error": self.promise.error,
            "failure": self.failure,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> PointModel:
        features = tuple(data["features"])
        if schema[data["label"]].size != 2:  # refuses another schema, too
            raise damaged("label")
        point, failure = codes_of(data["point"], schema, features, "point"), stored(data, "failure", is_share)
        count, n = stored(data, "count", is_whole, or_none=True), stored_rows(data)
        promise = Promise(stored(data, "cut", is_whole), stored(data, "error", is_number, or_none=True))
        return cls(features, data["label"], point, count, n, promise, failure, schema)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per feature: its name and the learned point's value."""
        import pyarrow as pa

        return pa.table({"feature": list(self.values), "value": list(self.values.values())})

    def explanation(self) -> str:
        return (
            "One combination of values was chosen from noisy counts: for rows that have exactly these values, "
            f"{self.label_title} = {self.label_names()[1]} is predicted."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of the learned point: the rule in words, and why it is this one."""
        first, second = self.label_names()
        how = "it was drawn at random, as none was frequent enough" if self.count is None else "it is frequent enough"
        count = "not counted" if self.count is None else f"{self.count:,} of {self.n:,} (noisy)"
        rule = View(
            title=f"{self.label_title}: the point",
            kind="table",
            columns=[value_column("feature"), value_column("value", index=1)],
            rows=[[self.schema.titles[name], value] for name, value in self.values.items()],
            summary=f"{self.label_title} = {second} at one point of {count_of(len(self.features), 'feature')}",
            facts=[
                ("the rule", f"{self.label_title} = {second} exactly where all these values meet, otherwise {first}"),
                ("why this point", how),
                ("rows with this point and label", count),
                ("a point is accepted", f"from a noisy count of {self.promise.cut:,} on"),
                promise_fact(self.promise.error, self.failure, "one point carries the label"),
            ],
        )
        return [rule]
