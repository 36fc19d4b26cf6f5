"""One marginal of a workload: its counts, about where the truth is, and how good drawn rows are for it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms.cells import told_cells
from nabladp.mechanisms.synthesis.workload import Names
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

LEVEL = 0.95


@dataclass(frozen=True)
class Answer:
    """One marginal of the workload: counts from model and measurements together.

    ``error`` is the predicted total variation distance from the truth, ``drawn`` that of the drawn table's marginal.
    """

    attributes: Names
    counts: Floats
    deviation: Floats  # of each count, what the model gets wrong included
    error: float
    drawn: float

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """About where the true counts are: ``level`` is approximate, as what the model misses is estimated."""
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.deviation
        return np.maximum(self.counts - reach, 0.0), self.counts + reach

    def to_arrow(self, schema: Schema) -> pa.Table:
        """One row a cell."""
        import pyarrow as pa

        low, high = self.interval()
        return pa.table(
            {
                **told_cells(schema, self.attributes),
                "count": pa.array(self.counts.ravel()),
                "low": pa.array(low.ravel()),
                "high": pa.array(high.ravel()),
                "predicted_error": pa.array(np.full(self.counts.size, self.error)),
                "predicted_error_drawn": pa.array(np.full(self.counts.size, self.drawn)),
            }
        )
