"""What ThresholdLearner returns: one threshold. It never sees the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.mechanisms.learners.columns import codes_of, encoded, label_values
from nabladp.mechanisms.learners.thresholds.choosing import reached
from nabladp.mechanisms.mechanism import Output
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdModel(Output):
    """The label has its second value from ``codes`` on, and its first below; the first feature weighs most.

    ``error`` is the share of people it is promised to err on (None: nothing is), with probability 1 − ``failure``, if
    some threshold never errs. ``ones`` is the noisy number of rows with the label's second value, ``prefix`` how many
    features of the threshold were found by listing; None where these steps were not needed.
    """

    features: tuple[str, ...]
    label: str
    codes: tuple[int, ...]
    n: int
    error: float | None
    failure: float
    ones: int | None
    prefix: int | None
    schema: Schema

    def __repr__(self) -> str:
        return f"ThresholdModel({self.label!r} from {len(self.features):,} features)"

    @property
    def threshold(self) -> dict[str, Any]:
        """The smallest features with the label's second value, as values of the schema."""
        from nabladp.tables import decode

        codes = dict(zip(self.features, self.codes, strict=True))
        row = decode(self.schema, {name: np.array([code]) for name, code in codes.items()}).to_pylist()[0]
        return {name: row[name] for name in self.features}

    def predict(self, data: Any) -> NDArray[Any]:
        """The label of every row of a data frame, an Arrow table or a mapping of columns."""
        rows = encoded(data, self.schema, self.features)
        above = reached(list(rows.T), np.array([self.codes], np.uint32))
        predicted: NDArray[Any] = label_values(self.schema, self.label)[above]
        return predicted

    def to_json(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "label": self.label,
            "codes": list(self.codes),
            "n": self.n,
            "error": self.error,
            "failure": self.failure,
            "ones": self.ones,
            "prefix": self.prefix,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> ThresholdModel:
        features = tuple(data["features"])
        schema.sizes((data["label"],))  # refuses another schema
        codes = codes_of(data["codes"], schema, features, "threshold")
        rest = (int(data["n"]), data["error"], data["failure"], data["ones"], data["prefix"])
        return cls(features, data["label"], codes, *rest, schema)

    def to_arrow(self, schema: Schema) -> pa.Table:
        """One row a feature, the one that weighs most first: its name and the threshold's value."""
        import pyarrow as pa

        labels = [schema[name].label(code) for name, code in zip(self.features, self.codes, strict=True)]
        return pa.table({"feature": list(self.features), "value": labels})
