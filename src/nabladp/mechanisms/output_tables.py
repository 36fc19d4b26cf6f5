"""What the outputs of several mechanisms share: the axes of their views, and the positions of synthetic values inside
their bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.schema.rules import DRAWN
from nabladp.views.view import Column, Scale, axis_column, cell_axes


def schema_axes(schema: Schema, names: Sequence[str]) -> list[Column]:
    """The view columns of all combinations of some attributes, as people read them: titles, units and labels."""
    chosen = [schema[name] for name in names]
    ordered = [own.ordered_size if own.is_ordered else 0 for own in chosen]
    scales = [scale_of(own) for own in chosen]
    return cell_axes([own.heading for own in chosen], [own.code_labels for own in chosen], ordered, scales)


def column_title(schema: Schema, column: str) -> str:
    """A column such as "region = north" with the title of its attribute."""
    name, sign, rest = column.partition(" = ")
    return f"{schema.titles[name]}{sign}{rest}" if name in schema else column


def scale_of(attribute: Attribute) -> Scale:
    """Where the declared values of an attribute lie on a scale: between the edges of bins, at their numbers, or one
    period after the other."""
    if attribute.kind == "real":
        return {"edges": attribute.edges}
    if attribute.kind == "date":
        return {"dates": range(attribute.ordered_size)}
    return {} if attribute.representatives is None else {"at": attribute.representatives.tolist()}


def group_axis(attribute: Attribute, values: Sequence[Any]) -> Column:
    """The view column of rows that are one value of an attribute each: their labels, and where they lie on its scale.

    In order are the first rows, up to one that is not: a group of all other values, say.
    """
    codes = [attribute.code(value) for value in values]
    labels = [str(value) if code is None else attribute.label(code) for value, code in zip(values, codes, strict=True)]
    known: list[int] = []
    for code in codes if attribute.is_ordered else ():
        if code is None or code >= attribute.ordered_size or (known and code <= known[-1]):
            break
        known.append(code)
    scale = {key: [where[code] for code in known] for key, where in scale_of(attribute).items()}
    if "edges" in scale:
        gaps = known != list(range(known[0], known[-1] + 1)) if known else True
        scale = {} if gaps else {"edges": [*scale["edges"], attribute.edges[known[-1] + 1]]}
    return axis_column(attribute.heading, labels, 1, len(known), scale)


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
