"""True marginals, for as long as they are needed and within a limit of bytes. Nothing here is ever published."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.arrays import Integers

if TYPE_CHECKING:
    from nabladp.tables import Counts

Names = tuple[str, ...]
MOST_BYTES = 1 << 30  # of true marginals that are kept
AT_ONCE = 1 << 24  # cells counted in one pass


class Truth:
    """The candidates' true counts: counted once where all of them fit, otherwise again whenever they are asked for."""

    def __init__(self, counts: Counts, sizes: Mapping[str, int]) -> None:
        self.counts, self.sizes = counts, sizes
        self._type = np.int32 if counts.n < 1 << 31 else np.int64
        self._kept: dict[Names, NDArray[np.integer]] = {}

    def keep(self, sets: Sequence[Names]) -> None:
        """Count these now if they all fit; each of them is asked for many times."""
        if sum(map(self._cells, sets)) * np.dtype(self._type).itemsize <= MOST_BYTES:
            for chunk in self.chunks(sets):
                for names, table in zip(chunk, self.counts.marginals(chunk), strict=True):
                    self._kept[names] = table.astype(self._type)

    def tables(self, sets: Sequence[Names]) -> list[Integers]:
        """The true counts of these, which must be few enough to hold."""
        missing = [names for names in sets if names not in self._kept]
        counted = dict(zip(missing, self.counts.marginals(missing), strict=True)) if missing else {}
        return [counted[names] if names in counted else self._kept[names].astype(np.int64) for names in sets]

    def chunks(self, sets: Sequence[Names]) -> Iterator[list[Names]]:
        """These sets, in pieces that one pass can count."""
        chunk: list[Names] = []
        held = 0
        for names in sets:
            cells = self._cells(names)
            if chunk and held + cells > AT_ONCE:
                yield chunk
                chunk, held = [], 0
            chunk.append(names)
            held += cells
        if chunk:
            yield chunk

    def _cells(self, names: Names) -> int:
        return math.prod(self.sizes[name] for name in names)
