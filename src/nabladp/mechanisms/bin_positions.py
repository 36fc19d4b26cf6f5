"""Where in their bins the numbers of drawn rows lie, for columns whose ``decode`` is "uniform"."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import NoiseSource
from nabladp.schema import Schema

_POSITIONS = 1 << 24  # inside a bin: as many as single precision tells apart

BinPositions = dict[str, NDArray[np.float32]]


def draw_bin_positions(schema: Schema, names: Iterable[str], rows: int, noise: NoiseSource) -> BinPositions:
    """For each row a share of its bin, from 0 to less than 1; nothing is drawn for other columns."""
    return {
        name: np.divide(noise.uniform_integers(_POSITIONS, rows), _POSITIONS, dtype=np.float32)
        for name in names
        if schema[name].decode == "uniform"
    }
