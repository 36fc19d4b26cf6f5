"""Released values beside the true ones. Exact, so it never leaves the owner of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nabladp.arrays import Floats
from nabladp.views.tables import Layout, arrow_format, mean_error, plain_value

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Compared:
    """One table: released values (NaN where there is none), each with its interval where known, and the true ones.

    Rows are all cells of ``attributes``, the last one fastest, or named by ``labels``. ``predicted`` is the mean
    absolute error that was expected, where that is known; ``summary`` a sentence to show beside the errors.
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

    @classmethod
    def of(
        cls,
        title: str,
        format: str,
        released: ArrayLike,
        truth: ArrayLike,
        interval: Sequence[ArrayLike] | None = None,
        **more: Any,
    ) -> Compared:
        """Released beside true values, from arrays of any shape and number type."""
        bounds = None if interval is None else (_flat(interval[0]), _flat(interval[1]))
        return cls(title, format, _flat(released), _flat(truth), bounds, **more)

    @property
    def gap(self) -> Floats:
        """How far each released value is from the true one."""
        return np.abs(self.released - self.truth)[np.isfinite(self.released)]

    @property
    def covered(self) -> float | None:
        """The share of released intervals that contain the true value."""
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


def compare_tables(noisy: pa.Table, true: pa.Table, expected_error: Any) -> Iterator[Compared]:
    """A table of released values beside the same table of true ones, row by row; nothing where it holds no numbers.

    ``expected_error`` is in its JSON form.
    """
    layout = Layout.of(noisy)
    if layout.value is None:
        return
    names = [[str(plain_value(value)) for value in noisy.column(i).to_pylist()] for i in layout.names]
    yield Compared.of(
        noisy.column_names[layout.value],
        arrow_format(noisy.schema.field(layout.value).type),
        noisy.column(layout.value),
        true.column(layout.value),
        layout.interval and [noisy.column(i) for i in layout.interval],
        labels=tuple(" · ".join(row) for row in zip(*names, strict=True)) if names else ("",) * noisy.num_rows,
        predicted=mean_error(expected_error),
    )


def _flat(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64).ravel()
