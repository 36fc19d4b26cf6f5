"""What ThresholdLearner returns: one threshold. It never sees the data."""

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
from nabladp.mechanisms.learners.thresholds.search import count_reached
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.schema import Schema
from nabladp.views.view import View, count_of, value_column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdModel(LearnedRule):
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
        """The learned threshold: the smallest features with the label's second value, as values of the schema."""
        from nabladp.tables import decode

        codes = dict(zip(self.features, self.codes, strict=True))
        row = decode(self.schema, {name: np.array([code]) for name, code in codes.items()}).to_pylist()[0]
        return {name: row[name] for name in self.features}

    def is_second(self, rows: Integers) -> NDArray[np.bool_]:
        return count_reached(list(rows.T), np.array([self.codes], np.uint32)) > 0

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
        if schema[data["label"]].size != 2:  # refuses another schema, too
            raise damaged("label")
        codes = codes_of(data["codes"], schema, features, "threshold")
        error, failure = stored(data, "error", is_number, or_none=True), stored(data, "failure", is_share)
        ones, prefix = (stored(data, key, is_whole, or_none=True) for key in ("ones", "prefix"))
        rest = (stored_rows(data), error, failure, ones, prefix)
        return cls(features, data["label"], codes, *rest, schema)

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per feature, the one that weighs most first: its name and the learned threshold's value."""
        import pyarrow as pa

        labels = [schema[name].label(code) for name, code in zip(self.features, self.codes, strict=True)]
        return pa.table({"feature": list(self.features), "value": labels})

    def explanation(self) -> str:
        return (
            f"A threshold was chosen from noisy counts: for rows from these values on, {self.label_title} = "
            f"{self.label_names()[1]} is predicted."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of the learned threshold: the rule in words, and how it was found."""
        first, second = self.label_names()
        facts = [
            (
                "the rule",
                f"{self.label_title} = {second} from these values on, {first} below; the first feature weighs most",
            ),
            promise_fact(self.error, self.failure, "some threshold never errs"),
        ]
        if self.ones is not None:
            facts.append((f"rows with {self.label_title} = {second}", f"{self.ones:,} of {self.n:,} (noisy)"))
        if self.prefix is not None:
            facts.append(("found by listing", count_of(self.prefix, "feature")))
        codes = zip(self.features, self.codes, strict=True)
        rule = View(
            title=f"{self.label_title}: the threshold",
            kind="table",
            columns=[value_column("feature"), value_column("from", index=1)],
            rows=[[self.schema.titles[name], self.schema[name].label(code)] for name, code in codes],
            summary=f"{self.label_title} = {second} from one threshold of {count_of(len(self.features), 'feature')} on",
            facts=facts,
        )
        return [rule]
