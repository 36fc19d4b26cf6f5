"""What HalfspaceLearner returns: weights, and how far rows are from another answer. It never sees the data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nabladp.arrays import Floats, Integers
from nabladp.checks import damaged, is_number, stored, stored_rows
from nabladp.errors import DataError, MechanismError
from nabladp.mechanisms.gram_matrix import SignedColumns
from nabladp.mechanisms.learners.columns import as_arrow, encoded
from nabladp.mechanisms.learners.halfspaces.holdout import Holdout
from nabladp.mechanisms.learners.halfspaces.robust_distance import Distances, Halfspace, robust_error
from nabladp.mechanisms.learners.halfspaces.task import share
from nabladp.mechanisms.learners.learner import LearnedRule
from nabladp.mechanisms.mechanism import ReleaseContext
from nabladp.mechanisms.output_tables import column_title
from nabladp.schema import Schema
from nabladp.views.view import (
    Series,
    View,
    count_of,
    format_figure,
    format_percent,
    format_range,
    round_digits,
    value_column,
)

if TYPE_CHECKING:
    import pyarrow as pa


# ---- the model -------------------------------------------------------------------------------------------------------

LEVEL = 0.95
_WHOLE = 1e-6  # what is left of a whole number after some divisions


def name_whole(name: Hashable, value: float) -> Hashable:
    """The name of an integer in a published law; a number that is not whole has a name that no law knows."""
    return name if abs(value - round(value)) < _WHOLE else (name, "not whole")


def halfspace_of(columns: SignedColumns, features: tuple[str, ...], weights: Integers) -> Halfspace:
    """The halfspace of integer weights of ±1 columns, the intercept's first: what each value of each attribute adds."""
    tables = {}
    for block in columns.blocks:
        span = columns.column_ranges[block.attribute]
        own = weights[span.start : span.stop]
        tables[block.attribute] = own @ np.where(block.positive, 1, -1) if len(own) else np.zeros(1, np.int64)
    return Halfspace(tuple(tables[name] for name in features), int(weights[0]))


@dataclass(frozen=True, eq=False, repr=False)
class HalfspaceModel(LearnedRule):
    """The label has its second value where the weights of a row's columns add up to 0 or more.

    ``weights`` are real, one for each ±1 column of ``columns``, the intercept's first; ``integers`` are the same up to
    scale, rounded, and it is they that decide, so that distances to another answer are exact. ``deviations`` are those
    of the noise in the weights, where known. ``holdout`` is the noisy accuracy on rows held out, if asked for.
    """

    schema: Schema
    features: tuple[str, ...]
    label: str
    columns: SignedColumns
    method: str
    n: int
    weights: Floats
    integers: Integers
    deviations: Floats | None
    facts: Mapping[str, Any]
    holdout: Holdout | None = None

    def __repr__(self) -> str:
        summary = f"{self.label!r} from {len(self.features):,} features, method {self.method!r}, {self.n:,} rows"
        if self.holdout is not None:
            low, high = self.holdout.interval()
            summary += f", right on {self.holdout.accuracy:.1%} ({low:.1%} to {high:.1%}) of rows held out"
            if self.holdout.labels is not None:
                summary += f", where the more frequent label is right on {self.holdout.labels.majority:.1%}"
        return f"HalfspaceModel({summary})"

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns.names

    @property
    def intercept(self) -> float:
        return float(self.weights[0])

    @cached_property
    def halfspace(self) -> Halfspace:
        return halfspace_of(self.columns, self.features, self.integers)

    @property
    def _unit(self) -> float:
        """The value of one step of the halfspace's integer weights."""
        top = int(np.abs(self.integers).max())
        return float(np.abs(self.weights).max()) / top if top else 1.0

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats] | None:
        """For each weight, an interval for the same fit without noise, each for itself; None where it is not known."""
        if not 0 < level < 1:
            raise MechanismError("A confidence level must lie strictly between 0 and 1.", fix="Try level = 0.95.")
        if self.deviations is None:
            return None
        width = NormalDist().inv_cdf((1 + level) / 2) * self.deviations
        return self.weights - width, self.weights + width

    def with_holdout(self, holdout: Holdout) -> HalfspaceModel:
        return replace(self, holdout=holdout)

    # ---- on rows --------------------------------------------------------------------------------------------------

    def decision_function(self, data: Any) -> Floats:
        """The halfspace's decision value in the measure of ``weights``: at least 0 where the label's second value is
        predicted."""
        sums = self.halfspace.sums(encoded(data, self.schema, self.features))
        return np.asarray(sums * self._unit, dtype=np.float64)

    def probability(self, data: Any) -> Floats:
        """The probability of the label's second value for every row, from noisy counts of rows held out, by margin;
        refused where these were not released."""
        margins = None if self.holdout is None else self.holdout.margins
        if margins is None:
            raise MechanismError(
                "The model has no probabilities: no counts by margin were released with it.",
                fix="Learn it with holdout=0.2, probabilities=True.",
            )
        return margins.probability(self.halfspace.sums(encoded(data, self.schema, self.features)))

    def is_second(self, rows: Integers) -> NDArray[np.bool_]:
        return self.halfspace.predict(rows) > 0

    def score(self, data: Any, y: Any = None) -> float:
        """The share of rows that the halfspace predicts right; labels in ``y`` or in a column of the table."""
        codes, labels = self._codes_and_labels(data, y)
        return float(np.mean(self.halfspace.predict(codes) == labels))

    def distance_to_flip(self, data: Any, y: Any = None) -> Distances:
        """The robust distance of every row: the fewest features to change until its label (by default the predicted
        one) is no longer predicted, ``dec`` of `lem:erm-robust`."""
        codes = encoded(data, self.schema, self.features)
        labels = self.halfspace.predict(codes) if y is None else self._codes_and_labels(data, y)[1]
        return self.halfspace.distance(codes, labels)

    def robust_error(self, data: Any, y: Any = None, gamma: float = 0.0) -> float:
        """The share of rows that the halfspace gets wrong after at most γ·d of the d features have changed."""
        codes, labels = self._codes_and_labels(data, y)
        return robust_error(codes, labels, self.halfspace, share(gamma))

    def _codes_and_labels(self, data: Any, y: Any) -> tuple[Integers, Integers]:
        codes = encoded(data, self.schema, self.features)
        table = as_arrow(data) if y is None else {self.label: y}
        labels = encoded(table, self.schema, (self.label,))[:, 0]
        if len(labels) != len(codes) or not len(codes):
            raise DataError("There must be a label for every row, and a row.", fix="Give both for the same rows.")
        return codes, 2 * labels - 1

    # ---- keeping --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "label": self.label,
            "encode": [[name, encoding] for name, encoding in self.columns.to_json().items()],
            "method": self.method,
            "n": self.n,
            "columns": list(self.names),
            "weights": self.weights.tolist(),
            "integers": self.integers.tolist(),
            "deviations": None if self.deviations is None else self.deviations.tolist(),
            "facts": dict(self.facts),
            "holdout": None if self.holdout is None else self.holdout.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> HalfspaceModel:
        columns = SignedColumns.from_json(dict(data["encode"]), schema)
        if list(columns.names) != list(data["columns"]) or len(data["integers"]) != columns.width:
            raise MechanismError("The weights belong to another schema.", fix="Read them with that of their release.")
        known, held = data["deviations"], data["holdout"]
        if sorted(data["features"]) != sorted(block.attribute for block in columns.blocks):
            raise damaged("features")
        for field in ("weights", *(("deviations",) if known is not None else ())):
            stored(data, field, lambda numbers: len(numbers) == columns.width and all(map(is_number, numbers)))
        return cls(
            schema=schema,
            features=tuple(data["features"]),
            label=data["label"],
            columns=columns,
            method=data["method"],
            n=stored_rows(data),
            weights=np.array(data["weights"], dtype=np.float64),
            integers=np.array(data["integers"], dtype=np.int64),
            deviations=None if known is None else np.array(known, dtype=np.float64),
            facts=dict(data["facts"]),
            holdout=None if held is None else Holdout.from_json(held),
        )

    def values_table(self, schema: Schema) -> pa.Table:
        """One row per ±1 column of the halfspace: its attribute, its weight with an interval, and its integer
        weight."""
        import pyarrow as pa

        nothing = [None] * len(self.weights)
        low, high = self.interval() or (nothing, nothing)
        return pa.table(
            {
                "column": list(self.names),
                "attribute": pa.array(self.columns.attribute_of, pa.string()),
                "weight": self.weights,
                "low": pa.array(low, pa.float64()),
                "high": pa.array(high, pa.float64()),
                "integer": self.integers,
            }
        )

    def extra_tables(self, schema: Schema) -> dict[str, pa.Table]:
        """``contributions``: what each value of each feature adds to the halfspace's sum; ``holdout`` and ``margins``,
        if asked for."""
        import pyarrow as pa

        rows = [
            (name, schema[name].label(code), int(amount))
            for name, table in zip(self.features, self.halfspace.tables, strict=True)
            for code, amount in enumerate(table)
        ]
        names, labels, amounts = zip(*rows, strict=True)
        results = {"contributions": pa.table({"feature": names, "value": labels, "adds": amounts})}
        if self.holdout is not None:
            low, high = self.holdout.interval()
            summary = self.holdout.counted() | {"accuracy": self.holdout.accuracy, "low": low, "high": high}
            counted = self.holdout.labels
            if counted is not None:
                shares = ("majority_share", "majority_low", "majority_high")
                summary |= {"majority": self.label_names()[counted.more_frequent]}
                summary |= dict(zip(shares, (counted.majority, *counted.interval()), strict=True))
            results["holdout"] = pa.table({name: [value] for name, value in summary.items()})
            if self.holdout.margins is not None:
                results["margins"] = self.holdout.margins.table()
        return results

    # ---- showing --------------------------------------------------------------------------------------------------

    def released_accuracy(self) -> tuple[float, float, float] | None:
        return None if self.holdout is None else (self.holdout.accuracy, *self.holdout.interval())

    def released_majority(self) -> tuple[float, float, float] | None:
        labels = None if self.holdout is None else self.holdout.labels
        return None if labels is None else (labels.majority, *labels.interval())

    def explanation(self) -> str:
        return (
            "A weight was learned for every value, with random noise: for rows whose weights add up to 0 or more, "
            f"{self.label_title} = {self.label_names()[1]} is predicted."
        )

    def views(self, context: ReleaseContext) -> list[View]:
        """Views of the halfspace's weights, and of what each value adds."""
        first, second = self.label_names()
        known, level = self.deviations, format_percent(LEVEL)
        nothing = [None] * len(self.weights)
        bounds = self.interval(LEVEL) or (nothing, nothing)
        columns = [column_title(self.schema, name) for name in self.names]
        numbers = zip(self.weights, *bounds, strict=True)
        rule = ("the rule", f"{self.label_title} = {second} where the weights add up to 0 or more, otherwise {first}")
        noise = "not known for this method" if known is None else f"deviation {format_range(known.tolist())}"
        weights = View(
            title=f"{self.label_title}: weights",
            kind="bars",
            columns=[
                value_column("column"),
                *(value_column(word, "number", i) for i, word in enumerate(("weight", "low", "high"), 1)),
            ],
            rows=[[name, *map(round_digits, own)] for name, own in zip(columns, numbers, strict=True)],
            summary=f"{count_of(len(self.names), 'weight')}, method {self.method}",
            facts=[rule, ("noise in a weight", noise), self._accuracy_fact(), *self._majority_fact()],
            notes=[] if known is None else ["Intervals hold what the same fit would give without noise."],
            series=[Series("weight", 1, *((None, None) if known is None else (2, 3)))],
            caption="Weights" + ("" if known is None else f" with {level} intervals for the noise"),
            signed=True,
        )
        margins = None if self.holdout is None else self.holdout.margins
        probable = [] if margins is None else [margins.view(self.label_title, (first, second))]
        return [weights, self._contributions_view(context.schema, rule), *probable]

    def _accuracy_fact(self) -> tuple[str, str]:
        if self.holdout is None:
            return ("accuracy", "no rows were held out to count it")
        low, high = map(format_percent, self.holdout.interval())
        right = format_percent(min(max(self.holdout.right / self.holdout.rows, 0.0), 1.0))
        rows, scale = self.holdout.rows, format_figure(self.holdout.scale)
        counted = f"counted with noise of scale {scale}"
        return ("accuracy", f"{right} of {rows:,} rows held out ({low} to {high} for new people), {counted}")

    def _majority_fact(self) -> list[tuple[str, str]]:
        """What the accuracy is to be compared with."""
        labels = None if self.holdout is None else self.holdout.labels
        if labels is None:
            return []
        low, high = map(format_percent, labels.interval())
        name, share = self.label_names()[labels.more_frequent], format_percent(labels.majority)
        counted = f"counted with noise of scale {format_figure(labels.scale)}" if labels.scale else "counted exactly"
        words = f"right on {share} of {labels.rows:,} rows ({low} to {high} for new people), {counted}"
        return [(f"always predicting {self.label} = {name}", words)]

    def _contributions_view(self, schema: Schema, rule: tuple[str, str]) -> View:
        table = self.extra_tables(schema)["contributions"]
        columns = [column.to_pylist() for column in table.columns]
        rows = [[schema.titles[name], *rest] for name, *rest in zip(*columns, strict=True)]
        return View(
            title="what each value adds",
            kind="bars",
            columns=[value_column("feature"), value_column("value", index=1), value_column("adds", "count", 2)],
            rows=rows,
            summary=count_of(len(rows), "value"),
            facts=[rule],
            names=(0, 1),
            series=[Series("adds", 2)],
            caption="In steps of the integer weights that decide",
            signed=True,
        )
