"""Kernels that count what a comparison with the truth needs. What they count is exact, so it never leaves the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers
from nabladp.tables import Kernel

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1 << 22  # codes that are looked at together


class Occurrences(Kernel):
    """In how many rows each of some combinations occurs."""

    def __init__(self, names: Sequence[str], codes: Integers) -> None:
        self.attributes: tuple[str, ...] = tuple(names)
        self.order = np.lexsort(codes.T[::-1])
        self.keys = _keys(codes[self.order])

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        hits = np.zeros(len(self.keys), dtype=np.int64)
        step = max(1, _AT_ONCE // len(self.attributes))
        for start in range(0, batch.num_rows, step):
            keys = _keys(_codes(batch.slice(start, step), self.attributes))
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            hits += np.bincount(places[self.keys[places] == keys], minlength=len(self.keys))
        found = np.zeros_like(hits)
        found[self.order] = hits
        return found


def _codes(batch: pa.RecordBatch, names: Sequence[str]) -> Integers:
    return np.stack([batch.column(name).to_numpy().astype(np.int64) for name in names], axis=1)


def _keys(codes: Integers) -> NDArray[np.void]:
    """A row as one value; big-endian bytes sort as the codes do."""
    rows = np.ascontiguousarray(codes, dtype=">i8")
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


@dataclass(frozen=True, eq=False)
class Agreement(Kernel):
    """Rows by label and by what a learned rule says of them: a table of two by two."""

    features: tuple[str, ...]
    label: str
    says: Callable[[Integers], NDArray[Any]]  # of rows of codes: where the label's second value is predicted

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.features, self.label)

    @classmethod
    def by(cls, mechanism: str, model: Any) -> Agreement:
        return cls(model.features, model.label, _RULES[mechanism](model))

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        said = np.asarray(self.says(_codes(batch, self.features)), dtype=np.int64)
        cells = 2 * batch.column(self.label).to_numpy().astype(np.int64) + said
        return np.bincount(cells, minlength=4).astype(np.int64).reshape(2, 2)


@dataclass(frozen=True, eq=False)
class _Point:
    model: Any

    def __call__(self, rows: Integers) -> NDArray[Any]:
        return np.asarray((rows == np.array(self.model.point)).all(axis=1))


@dataclass(frozen=True, eq=False)
class _Threshold:
    model: Any

    def __call__(self, rows: Integers) -> NDArray[Any]:
        """Rows in lexicographic order at or above the threshold: the first difference decides."""
        apart = rows - np.array(self.model.codes)
        first = np.argmax(apart != 0, axis=1)
        return np.asarray(np.take_along_axis(apart, first[:, None], axis=1)[:, 0] >= 0)


@dataclass(frozen=True, eq=False)
class _Halfspace:
    model: Any

    def __call__(self, rows: Integers) -> NDArray[Any]:
        return np.asarray(self.model.halfspace.predict(rows) > 0)


_RULES: dict[str, Callable[[Any], Callable[[Integers], NDArray[Any]]]] = {
    "PointLearner": _Point,
    "ThresholdLearner": _Threshold,
    "HalfspaceLearner": _Halfspace,
}
