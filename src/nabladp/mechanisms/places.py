"""Where in their bins the numbers of drawn rows lie, for columns whose ``decode`` is "uniform"."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import NoiseSource
from nabladp.schema import Schema

_PLACES = 1 << 24  # inside a bin: as many as single precision tells apart

Places = dict[str, NDArray[np.float32]]


def drawn_places(schema: Schema, names: Iterable[str], rows: int, noise: NoiseSource) -> Places:
    """For each row a share of its bin, from 0 to less than 1; nothing is drawn for other columns."""
    return {
        name: np.divide(noise.uniform_integers(_PLACES, rows), _PLACES, dtype=np.float32)
        for name in names
        if schema[name].decode == "uniform"
    }
