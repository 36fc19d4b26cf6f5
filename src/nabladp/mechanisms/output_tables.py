"""What the outputs of several mechanisms share: the axes of their views, and the positions of synthetic values inside
their bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.schema.rules import DRAWN
from nabladp.views.view import Column, Scale, cell_axes


def schema_axes(schema: Schema, names: Sequence[str]) -> list[Column]:
    """The view columns of all combinations of some attributes, as people read them: titles, units and labels."""
    chosen = [schema[name] for name in names]
    ordered = [own.ordered_size if own.is_ordered else 0 for own in chosen]
    scales = [_scale(own) for own in chosen]
    return cell_axes([own.heading for own in chosen], [own.code_labels for own in chosen], ordered, scales)


def _scale(attribute: Attribute) -> Scale:
    """Where the declared values of an attribute lie on a scale: between the edges of bins, or at their numbers."""
    if attribute.kind == "real":
        return {"edges": attribute.edges}
    return {} if attribute.representatives is None else {"at": attribute.representatives.tolist()}


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
