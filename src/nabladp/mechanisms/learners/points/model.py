"""What PointLearner returns: one point. Made from a published histogram; it never sees the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms.learners.columns import codes_of, encoded, label_values
from nabladp.mechanisms.learners.points.promise import Promise
from nabladp.mechanisms.mechanism import Output
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class PointModel(Output):
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
        how = "drawn by lot" if self.count is None else f"about {self.count:,} of {self.n:,} rows"
        return f"PointModel({self.label!r} from {len(self.features):,} features, {how})"

    @property
    def values(self) -> dict[str, str]:
        """The point in words."""
        return {name: self.schema[name].label(code) for name, code in zip(self.features, self.point, strict=True)}

    def predict(self, data: Any) -> NDArray[Any]:
        """The label of every row of a data frame, an Arrow table or a mapping of columns."""
        hits = np.all(encoded(data, self.schema, self.features) == np.array(self.point), axis=1)
        predicted: NDArray[Any] = label_values(self.schema, self.label)[hits.astype(np.int64)]
        return predicted

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
        schema.sizes((data["label"],))  # refuses another schema
        point, promise = codes_of(data["point"], schema, features, "point"), Promise(int(data["cut"]), data["error"])
        return cls(features, data["label"], point, data["count"], int(data["n"]), promise, data["failure"], schema)

    def to_arrow(self, schema: Schema) -> pa.Table:
        """One row a feature: its name and the point's value."""
        import pyarrow as pa

        return pa.table({"feature": list(self.values), "value": list(self.values.values())})
