"""Kernels for tests on a cluster; executors find this folder on their path."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nabladp.tables import Kernel


class ColumnSums(Kernel):
    """The sum of the codes of every column."""

    def __call__(self, batch: Any) -> Any:
        return np.array([column.to_numpy().sum(dtype=np.int64) for column in batch.columns])


class Slow(ColumnSums):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Any) -> Any:
        if batch.num_rows:
            time.sleep(self.seconds)
        return super().__call__(batch)


class Places(Kernel):
    """What stands where: the codes of one column, by the places of their rows. Two-dimensional."""

    by_row_index = True

    def __init__(self, attribute: str, rows: int) -> None:
        self.attributes = (attribute,)
        self.rows = rows

    def __call__(self, batch: Any) -> Any:
        return self.at(batch, 0)

    def at(self, batch: Any, first: int) -> Any:
        found = np.zeros((self.rows, 2), np.int64)
        found[first : first + batch.num_rows, 0] = batch.column(0).to_numpy()
        found[first : first + batch.num_rows, 1] = 1
        return found


class Wrong(Kernel):
    """Returns floats, though only where it meets rows."""

    def __call__(self, batch: Any) -> Any:
        return np.zeros(1) if batch.num_rows else np.zeros(1, np.int64)


class Broken(Kernel):
    """Fails with a value in the text of its error."""

    def __call__(self, batch: Any) -> Any:
        if batch.num_rows:
            raise ValueError(f"the secret is {batch.column(0)[0]}7391")
        return np.zeros(1, np.int64)
