"""Released values beside the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nabladp.arrays import Floats


@dataclass(frozen=True, eq=False)
class Compared:
    """One table: released values (NaN where nothing was), each with its interval where known, and the true ones.

    Rows are all cells of ``attributes``, the last one fastest, or named by ``labels``. ``predicted`` is the mean
    absolute error that was expected, where that is known; ``summary`` what there is to say beside the errors.
    """

    title: str
    format: str  # "count", "share" or "number"
    released: Floats
    truth: Floats
    interval: tuple[Floats, Floats] | None = None
    attributes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    predicted: float | None = None
    summary: str = ""

    @property
    def gap(self) -> Floats:
        """How far each released value is from the truth."""
        return np.abs(self.released - self.truth)[np.isfinite(self.released)]

    @property
    def covered(self) -> float | None:
        """The share of intervals that hold the truth."""
        if self.interval is None:
            return None
        low, high = self.interval
        known = np.isfinite(self.released)
        return float(((low <= self.truth) & (self.truth <= high))[known].mean()) if known.any() else None

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.title,
            "cells": len(self.truth),
            "measure": self.format,
            "predicted": self.predicted,
            "actual": float(self.gap.mean()) if len(self.gap) else None,
            "largest": float(self.gap.max()) if len(self.gap) else None,
            "covered": self.covered,
            "summary": self.summary,
        }
