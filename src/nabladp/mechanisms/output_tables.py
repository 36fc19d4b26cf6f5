"""Tables that the outputs of several mechanisms share: the cells of a marginal as Arrow columns, and the positions of
synthetic values inside their bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import NoiseSource
from nabladp.schema import Schema
from nabladp.schema.rules import DRAWN
from nabladp.views.view import Column, cell_axes

if TYPE_CHECKING:
    import pyarrow as pa


def marginal_cells(schema: Schema, attributes: Sequence[str]) -> dict[str, pa.Array]:
    """The cells of a marginal as Arrow columns, in the order of the counts: its name, its attributes, and their
    values."""
    import pyarrow as pa

    shape = tuple(schema[name].size for name in attributes)
    columns = [_labels(schema, attributes, axis, shape) for axis in range(len(shape))]
    size = int(np.prod(shape))
    offsets = pa.array(np.arange(0, size * len(columns) + 1, len(columns)), type=pa.int32())
    names, values = np.tile(np.array(attributes, dtype=object), size), np.stack(columns, axis=1).ravel()
    return {
        "marginal": pa.array(["+".join(attributes)] * size, type=pa.string()),
        "attributes": pa.ListArray.from_arrays(offsets, pa.array(names, type=pa.string())),
        "values": pa.ListArray.from_arrays(offsets, pa.array(values, type=pa.string())),
    }


def _labels(schema: Schema, names: Sequence[str], axis: int, shape: tuple[int, ...]) -> NDArray[np.object_]:
    labels = np.array(schema[names[axis]].code_labels, dtype=object)
    view = labels.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(view, shape).ravel()


def schema_axes(schema: Schema, names: Sequence[str]) -> list[Column]:
    """The view columns of all combinations of some attributes, as people read them: titles, units and labels."""
    chosen = [schema[name] for name in names]
    ordered = [own.ordered_size if own.is_ordered else 0 for own in chosen]
    return cell_axes([own.heading for own in chosen], [own.code_labels for own in chosen], ordered)


_POSITIONS = 1 << 24  # inside a bin: as many as single precision tells apart

BinPositions = dict[str, NDArray[np.float32]]


def draw_bin_positions(schema: Schema, names: Iterable[str], rows: int, noise: NoiseSource) -> BinPositions:
    """For each synthetic row the position inside its bin, from 0 to less than 1; only for columns decoded as
    "uniform" or "smooth"."""
    return {
        name: np.divide(noise.uniform_integers(_POSITIONS, rows), _POSITIONS, dtype=np.float32)
        for name in names
        if schema[name].decode in DRAWN
    }
