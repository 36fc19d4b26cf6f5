"""What makes a mechanism quick to run thousands of times on the same tiny table. The output law stays as it is."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from nabladp.arrays import Integers
from nabladp.noise import NoiseSource
from nabladp.noise.parameters import Real, Size
from nabladp.tables import CodedTable, Kernel, Progress

_MOST_KEPT = 256  # answers of a table, or scales of noise
_FIRST, _LARGEST = 256, 1 << 14  # values drawn ahead at a scale that comes up again


class RememberedTable(CodedTable):
    """A table that counts each thing once.

    A sum by a kernel is kept only if the kernel is the same before and after, and holds no source of noise: some draw.
    """

    _marginals: dict[tuple[tuple[str, ...], ...], list[Integers]] | None = None
    _sums: dict[bytes, Integers] | None = None

    def marginals(self, sets: Iterable[Sequence[str]], progress: Progress | None = None) -> list[Integers]:
        known = self._marginals = self._marginals if self._marginals is not None else {}
        key = tuple(tuple(names) for names in sets)
        if key not in known:
            _make_room(known)
            known[key] = super().marginals(key, progress)
        return [table.copy() for table in known[key]]

    def fold(self, kernel: Kernel, progress: Progress | None = None) -> Integers:
        known = self._sums = self._sums if self._sums is not None else {}
        key = _contents(kernel)
        if key is not None and key in known:
            return known[key].copy()
        total = super().fold(kernel, progress)
        if key is not None and key == _contents(kernel):
            _make_room(known)
            known[key] = total.copy()
        return total


class PooledNoise(NoiseSource):
    """Noise of a scale that comes up again is drawn ahead in bulk: the same independent draws, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self._pools: dict[tuple[str, str], tuple[Integers, int]] = {}

    @classmethod
    def of(cls, source: NoiseSource) -> PooledNoise:
        pooled = cls()
        pooled._draws = source._draws
        return pooled

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("a source of noise is not copied")

    def discrete_laplace(self, scale: Real, size: Size) -> Integers:
        return self._pooled("laplace", super().discrete_laplace, scale, size)

    def discrete_gaussian(self, scale: Real, size: Size) -> Integers:
        return self._pooled("gaussian", super().discrete_gaussian, scale, size)

    def _pooled(self, kind: str, draw: Callable[..., Integers], scale: Real, size: Size) -> Integers:
        shape = (size,) if isinstance(size, int) else size
        if not isinstance(shape, tuple) or not all(isinstance(side, int) and side >= 0 for side in shape):
            return draw(scale, size)
        wanted, key = math.prod(shape), (kind, repr(scale))
        if key not in self._pools:  # the first time of a scale may be the last
            _make_room(self._pools)
            self._pools[key] = np.empty(0, np.int64), _FIRST
            return draw(scale, size)
        pool, ahead = self._pools[key]
        if len(pool) < wanted:
            pool, ahead = np.concatenate([pool, draw(scale, max(ahead, wanted))]), min(4 * ahead, _LARGEST)
        self._pools[key] = pool[wanted:], ahead
        return pool[:wanted].reshape(shape).copy()


def _contents(kernel: Kernel) -> bytes | None:
    try:
        found = pickle.dumps(kernel)
    except Exception:  # whatever cannot be copied is not remembered
        return None
    return None if b"nabladp.noise" in found else found


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= _MOST_KEPT:
        known.clear()
